"""Operators that read the most recent inner sequence only.

The selector is called before anything changes, so that its error leaves the inner sequence at work as it was. Values
that an inner sequence emits in one action go out one by one: any of them may bring the next inner sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.flatten import at_once
from reliable_rx.operators.mapping import identity
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")


class Switches(Stage):
    """What emits the most recent inner sequence; they are numbered from 1."""

    scheduler_default = "current_thread"

    @dataclass(slots=True)
    class State:
        latest: int = 0
        has_latest: bool = False
        stopped: bool = False
        ready: Sequence[Any] | None = None

    def inner(self, outer: Any) -> Any:
        return outer

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        inner = cx.project(value)
        if state.has_latest:
            if state.ready is None:
                cx.close(state.latest)
            else:
                cx.cancel(state.latest)
        key = state.latest = state.latest + 1
        state.has_latest = True
        state.ready = at_once(inner)
        if state.ready is None:
            cx.open(key, value, inner)
        else:
            cx.soon(key)

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        cx.state.has_latest = False

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        for value in state.ready:
            cx.emit(value)
            if not cx.goes_on(state) or state.latest != tag:
                return
        state.ready = None
        self.on_inner_completed(cx, tag)

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.stopped = not cx.runs(0)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.stopped = True
        if not cx.state.has_latest:
            cx.complete()

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.state.has_latest = False
        if cx.state.stopped:
            cx.complete()


@frozen
class SwitchLatest(Switches, name="switch_latest"):
    raises = True


@frozen
class SwitchMap(Switches, name="switch_map"):
    project: Callable[[Any], Any]

    def inner(self, outer: Any) -> Any:
        return self.project(outer)


@frozen
class SwitchMapIndexed(Switches, name="switch_map_indexed"):
    indexes = True
    project: Callable[[Any, int], Any]

    def inner(self, outer: Any) -> Any:
        return self.project(*outer)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        super().on_next(cx, port, (value, cx.state.latest))


def switch_latest() -> Callable[[Observable[Observable[A]]], Query[A]]:
    """Emit what the most recent inner sequence emits.

    >>> import reliable_rx as rx
    >>> rx.of(rx.never(), rx.of(2)).switch_latest().to_list().run()
    [2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.map(lambda x: rx.timer(2).pipe(rx.operators.map(lambda _: x))),
    ...     switch_latest()), "-a-bc----|")
    -a-bc----|
    ------c--|

    Elements that one event brings (the end of `take_last`, a list) are of one moment, and inner sequences begin behind
    the last of them: of those that emit at once, such as `of`, only that one's is seen, as in Rx on a scheduler.

    *State*: a counter and the row of one inner sequence.
    """
    return SwitchLatest()


def switch_map(project: Callable[[A], Observable[B]] | None = None) -> Callable[[Observable[A]], Query[B]]:
    """Project each element to a sequence and emit what the most recent of these emits.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(switch_map(lambda x: rx.timer(2).pipe(rx.operators.map(lambda _: x))), "-a-bc----|")
    -a-bc----|
    ------c--|

    *project* is called per element, and again on recovery, so it must be pure. Without it the elements are themselves
    the sequences.

    Elements that one event brings (the end of `take_last`, a list) are of one moment, and inner sequences begin behind
    the last of them: of those that emit at once, such as `of`, only that one's is seen, as in Rx on a scheduler.

    >>> rx.of(1, 2).switch_map(lambda x: rx.of(x, x * 10)).to_list().run()
    [2, 20]

    *State*: a counter and the row of one inner sequence.
    """
    return SwitchMap(project or identity)


def switch_map_indexed(
    project: Callable[[A, int], Observable[B]] | None = None,
) -> Callable[[Observable[A]], Query[B]]:
    """Project each element, together with its index, to a sequence and emit what the most recent of these emits.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(switch_map_indexed(lambda x, i: rx.of(x, i)), "-a-b-|")
    -a-----b-----|
    -(a 0)-(b 1)-|

    *project* is called per element, and again on recovery, so it must be pure.

    *State*: the index, one per subscription (RxPY shares it between subscriptions), and the row of one inner sequence.
    """
    return SwitchLatest() if project is None else SwitchMapIndexed(project)


def flat_map_latest(mapper: Callable[[A], Observable[B]]) -> Callable[[Observable[A]], Query[B]]:
    """Project each element to a sequence and emit what the most recent of these emits: `switch_map` by another name.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(flat_map_latest(lambda x: rx.interval(1).pipe(rx.operators.take(3))), "-a-b----|")
    -a-b----|
    --0-012-|

    *State*: a counter and the row of one inner sequence.
    """
    return switch_map(mapper)
