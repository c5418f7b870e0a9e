"""The operator that waits for the last elements of several sequences."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, apply

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@frozen
class ForkJoin(Stage, name="fork_join"):
    inputs: int

    @dataclass(slots=True)
    class State:
        values: list[Any]
        live: int

    def initial(self) -> State:
        return self.State([NotSet] * self.inputs, self.inputs)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.state.values[port] = value

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if values:
            cx.state.values[port] = values[-1]

    def on_completed(self, cx: Context, port: int) -> None:
        state = cx.state
        state.live -= 1
        if state.values[port] is NotSet:
            cx.complete()
        elif not state.live:
            cx.emit(tuple(state.values))
            if cx.goes_on(state):
                cx.complete()

    def adopt(self, state: State, before: Before) -> bool:
        state.values = before.taken(state.values, NotSet)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.live = sum(map(cx.runs, range(self.inputs)))
        cx.soon("adopted")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if any(value is NotSet and not cx.runs(port) for port, value in enumerate(state.values)):
            cx.complete()
        elif not state.live:
            cx.emit(tuple(state.values))
            if cx.goes_on(state):
                cx.complete()


@overload
def fork_join(other: Observable[B], /) -> Callable[[Observable[A]], Query[tuple[A, B]]]: ...
@overload
def fork_join(first: Observable[B], second: Observable[C], /) -> Callable[[Observable[A]], Query[tuple[A, B, C]]]: ...
@overload
def fork_join(
    first: Observable[B], second: Observable[C], third: Observable[D], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C, D]]]: ...
@overload
def fork_join(*others: Observable[Any]) -> Callable[[Observable[Any]], Query[tuple[Any, ...]]]: ...
def fork_join(*others: Observable[Any]) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit one tuple of the last elements when all the sequences have completed; nothing if one of them had none.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).fork_join(rx.of("a", "b")).run()
    (2, 'b')
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(fork_join(ys)), "-12|", "---a-b|")
    -12|
    ---a-b|
    ------((2, 'b') |)

    *State*: the latest element of each, and how many are live.
    """
    return lambda source: apply(ForkJoin(1 + len(others)), source, *others)
