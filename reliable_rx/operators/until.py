"""Operators in which one sequence decides whether another is heard."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable
from reactivex.typing import AnyFuture

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, apply

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


@frozen
class TakeUntil(Stage, name="take_until"):
    roles = True
    keeps_inner = ends_with_first = True
    passes_port = 0
    locks = False

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0:
            cx.complete()


def take_until(other: Observable[Any] | AnyFuture[Any]) -> Callable[[Observable[A]], Query[A]]:
    """Pass elements until *other* emits.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).take_until(rx.never()).to_list().run()
    [1, 2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(take_until(ys)), "-1-2-3-|", "----x-|")
    -1-2-3-|
    ----x-|
    -1-2|

    *State*: none.
    """
    return lambda source: apply(TakeUntil(), source, other)


@frozen
class SkipUntil(Stage, name="skip_until"):
    roles = True
    keeps_inner = True
    locks = False

    @dataclass(slots=True)
    class State:
        open: bool = False

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if port == 0:
            if cx.state.open:
                cx.emit(value)
        else:
            cx.state.open = True
            cx.unsubscribe(1)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if port == 0:
            if cx.state.open:
                cx.emit_all(values)
        else:
            self.on_next(cx, port, values[0])

    def on_adopted(self, cx: Context, before: Before) -> None:
        if cx.state.open:
            cx.unsubscribe(1)

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0 and cx.state.open:
            cx.complete()


def skip_until(other: Observable[Any] | AnyFuture[Any]) -> Callable[[Observable[A]], Query[A]]:
    """Pass elements only after *other* has emitted; if it never does, not even the end.

    >>> import reliable_rx as rx
    >>> _ = rx.range(3).skip_until(rx.of("go")).subscribe(print)
    1
    2
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(skip_until(ys)), "-1-2-3-|", "----x-|")
    -1-2-3-|
    ----x-|
    -----3-|

    *State*: whether *other* has emitted.
    """
    return lambda source: apply(SkipUntil(), source, other)


@frozen
class Amb(Stage, name="amb"):
    keeps_inner = True
    adds_others = leaves_first = True
    catches = False
    inputs: int

    @dataclass(slots=True)
    class State:
        winner: int | None = None

    def on_start(self, cx: Context) -> None:
        state = cx.state
        for port in range(self.inputs):
            cx.subscribe(port)
            if state.winner is not None and state.winner != port:  # as in RxPY, even a late one is subscribed once
                cx.unsubscribe(port)

    def adopt(self, state: State, before: Before) -> bool:
        if state.winner is not None:
            state.winner = before.ports.index(state.winner) if state.winner in before.ports else -1
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        winner, ports = cx.state.winner, range(self.inputs)
        for port in [port for port in ports if winner is not None and port != winner]:
            cx.unsubscribe(port)
        if winner == -1:
            cx.soon("again")
        elif not all(cx.runs(port) for port in ports if winner in (None, port)):
            cx.soon("over")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if tag == "again":  # the one that had won is no more
            cx.state.winner = None
            self.on_start(cx)
        else:
            cx.complete()

    def _wins(self, cx: Context, port: int) -> bool:
        state = cx.state
        if state.winner is None:
            state.winner = port
            for other in range(self.inputs):
                if other != port:
                    cx.unsubscribe(other)
        return bool(state.winner == port)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if self._wins(cx, port):
            cx.emit(value)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if self._wins(cx, port):
            cx.emit_all(values)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        if self._wins(cx, port):
            cx.fail(error)

    def on_completed(self, cx: Context, port: int) -> None:
        if self._wins(cx, port):
            cx.complete()


def amb(right_source: Observable[A] | AnyFuture[A]) -> Callable[[Observable[A]], Query[A]]:
    """Emit what the sequence emits that is the first to say anything, be it its end.

    >>> import reliable_rx as rx
    >>> rx.timer(1.0).amb(rx.of("at once")).run()
    'at once'
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(amb(ys)), "--1-2-|", "-a-b-c-|")
    --1-2-|
    -a-b-c-|
    -a-b-c-|

    *State*: which sequence has won.
    """
    return lambda source: apply(Amb(2), source, right_source)
