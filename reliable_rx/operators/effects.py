"""Operators for side effects: what they call changes nothing in the sequence, and something in the world.

In a normal run an effect happens once per event, in order. A host that recovers takes the last turns again, and their
effects with them; ``effects="live"`` leaves these out. Neither is exactly once: only a sink that deduplicates by id is.
Values are taken one by one, so that nothing is done for an element that the query, ended by the one before, never saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.abc import ObserverBase

from reliable_rx.operators.contract.choices import Effects, check_choice
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)


def check_effects(effects: Effects) -> None:
    check_choice("effects", effects, Effects)


@frozen
class DoAction(Stage, name="do_action"):
    keeps_pace = True
    keeps_inner = True
    locks = catches = False
    next_action: Callable[[Any], Any] | None = None
    error_action: Callable[[Exception], Any] | None = None
    completed_action: Callable[[], Any] | None = None
    free = ("effects",)
    effects: str = "always"

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self._act(cx, self.next_action, value)
        cx.emit(value)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        action = self.next_action
        if action is None or (self.effects != "always" and cx.replaying):
            cx.emit_all(values)
            return
        emit = cx.emit
        for value in values:
            action(value)
            emit(value)
            if not cx.active:
                return

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        self._act(cx, self.error_action, error)
        cx.fail(error)

    def on_completed(self, cx: Context, port: int) -> None:
        self._act(cx, self.completed_action)
        cx.complete()

    def _act(self, cx: Context, action: Callable[..., Any] | None, *args: Any) -> None:
        if action is not None and (self.effects == "always" or not cx.replaying):
            action(*args)


def do_action(
    on_next: Callable[[A], Any] | None = None,
    on_error: Callable[[Exception], Any] | None = None,
    on_completed: Callable[[], Any] | None = None,
    *,
    effects: Effects = "always",
) -> Callable[[Observable[A]], Query[A]]:
    """Call *on_next* for each element, and *on_error* or *on_completed* at the end, before passing them on.

    >>> from reliable_rx.testing import diagram
    >>> seen = []
    >>> diagram(do_action(seen.append), "-1-2-|")
    -1-2-|
    -1-2-|
    >>> seen
    [1, 2]

    An action that raises fails the sequence. After a crash a host repeats the turns since its last checkpoint, and
    their effects; with ``effects="live"`` (not in RxPY) they are left out while it does so.

    *State*: none.
    """
    check_effects(effects)
    return DoAction(on_next, on_error, on_completed, effects)


tap = do_action


def do(observer: ObserverBase[A], *, effects: Effects = "always") -> Callable[[Observable[A]], Query[A]]:
    """Tell *observer* everything before passing it on: `do_action` with the three methods of an observer.

    >>> from reactivex.observer import Observer
    >>> from reliable_rx.testing import diagram
    >>> seen = []
    >>> diagram(do(Observer(seen.append)), "-1-2-|")
    -1-2-|
    -1-2-|
    >>> seen
    [1, 2]

    *State*: none.
    """
    return do_action(observer.on_next, observer.on_error, observer.on_completed, effects=effects)


@frozen
class FinallyAction(Stage, name="finally_action"):
    passes_on = True
    keeps_inner = True
    action: Callable[[], Any]
    free = ("effects",)
    effects: str = "always"

    def on_release(self, cx: Context) -> None:
        if self.effects == "always" or not cx.replaying:
            self.action()


def finally_action(action: Callable[[], Any], *, effects: Effects = "always") -> Callable[[Observable[A]], Query[A]]:
    """Call *action* once after the sequence has ended, or has been unsubscribed from.

    >>> from reliable_rx.testing import diagram
    >>> said = []
    >>> diagram(finally_action(lambda: said.append("over")), "-1-2-|")
    -1-2-|
    -1-2-|
    >>> said
    ['over']

    Hosted, it is not called when an evaluator closes, recovers or edits the query, because the query goes on. When the
    turn that ended it is repeated it is called again, unless ``effects="live"`` (not in RxPY). What *action* raises
    there is a warning: the query has ended and cannot fail. Unsubscribed from behind, as by `take`, it is called before
    the end is passed on there (RxPY: after).

    *State*: none.
    """
    check_effects(effects)
    return FinallyAction(action, effects)
