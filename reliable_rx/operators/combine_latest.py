"""Operators that make tuples of several sequences: of the latest elements, of the n-th.

They differ in what a sequence holds back for the others, which is all their state: one element (combine_latest,
with_latest_from, zip_latest) or a queue (zip).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import Query, apply

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

zip_values = zip


def take_latest(state: Any, before: Before) -> None:
    """Take over the latest elements of the inputs that were there before."""
    state.values = before.taken(state.values, NotSet)
    state.missing = state.values.count(NotSet)


@frozen
class CombineLatest(Stage, name="combine_latest"):
    inputs: int

    @dataclass(slots=True)
    class State:
        values: list[Any]
        live: list[bool]
        missing: int

    def initial(self) -> State:
        return self.State([NotSet] * self.inputs, [True] * self.inputs, self.inputs)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        if state.missing and state.values[port] is NotSet:
            state.missing -= 1
        state.values[port] = value
        if not state.missing:
            cx.emit(tuple(state.values))
        elif not any(live for other, live in enumerate(state.live) if other != port):
            cx.complete()

    def adopt(self, state: State, before: Before) -> bool:
        take_latest(state, before)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.live = [cx.runs(port) for port in range(self.inputs)]
        if not any(cx.state.live):
            cx.soon("over")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live[port] = False
        if not any(cx.state.live):
            cx.complete()


@overload
def combine_latest(other: Observable[B], /) -> Callable[[Observable[A]], Query[tuple[A, B]]]: ...
@overload
def combine_latest(
    first: Observable[B], second: Observable[C], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C]]]: ...
@overload
def combine_latest(
    first: Observable[B], second: Observable[C], third: Observable[D], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C, D]]]: ...
@overload
def combine_latest(*others: Observable[Any]) -> Callable[[Observable[Any]], Query[tuple[Any, ...]]]: ...
def combine_latest(*others: Observable[Any]) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit a tuple of the latest elements whenever one of the sequences emits, once all have.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1).combine_latest(rx.of("a", "b")).subscribe(print)
    (1, 'a')
    (1, 'b')
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(combine_latest(ys)), "-1---2-|", "---a-|")
    -1----------2--------|
    ---a--------|
    ---(1, 'a')-(2, 'a')-|

    *State*: the latest element of each.
    """
    return lambda source: apply(CombineLatest(1 + len(others)), source, *others)


@frozen
class WithLatestFrom(Stage, name="with_latest_from"):
    ends_with_first = True
    inputs: int

    @dataclass(slots=True)
    class State:
        values: list[Any]
        missing: int

    def initial(self) -> State:
        return self.State([NotSet] * (self.inputs - 1), self.inputs - 1)

    def on_start(self, cx: Context) -> None:
        for port in range(1, self.inputs):
            cx.subscribe(port)
        cx.subscribe(0)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        if port:
            if state.values[port - 1] is NotSet:
                state.missing -= 1
            state.values[port - 1] = value
        elif not state.missing:
            cx.emit((value, *state.values))

    def adopt(self, state: State, before: Before) -> bool:
        state.values = before.taken([NotSet, *state.values], NotSet)[1:]
        state.missing = state.values.count(NotSet)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        if not cx.runs(0):
            cx.soon("over")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0:
            cx.complete()


@overload
def with_latest_from(other: Observable[B], /) -> Callable[[Observable[A]], Query[tuple[A, B]]]: ...
@overload
def with_latest_from(
    first: Observable[B], second: Observable[C], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C]]]: ...
@overload
def with_latest_from(
    first: Observable[B], second: Observable[C], third: Observable[D], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C, D]]]: ...
@overload
def with_latest_from(*sources: Observable[Any]) -> Callable[[Observable[Any]], Query[tuple[Any, ...]]]: ...
def with_latest_from(*sources: Observable[Any]) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit each element with the latest ones of the other sequences, once all have one.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2).with_latest_from(rx.of("a")).subscribe(print)
    (1, 'a')
    (2, 'a')
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(with_latest_from(ys)), "-1---2-|", "---a-b|")
    -1---2--------|
    ---a-b-------|
    -----(2, 'a')-|

    *State*: the latest element of each other sequence.
    """
    return lambda source: apply(WithLatestFrom(1 + len(sources)), source, *sources)


@frozen
class Zip(Stage, name="zip"):
    ends_with_any = True
    by_position = True
    inputs: int

    @dataclass(slots=True)
    class State:
        queues: list[deque[Any]]
        live: list[bool]

    def initial(self) -> State:
        return self.State([deque() for _ in range(self.inputs)], [True] * self.inputs)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        queues = state.queues
        queues[port].append(value)
        if not all(queues):
            check_queue(queues[port], cx)
            return
        self._emit(cx)

    def _emit(self, cx: Context) -> None:
        state = cx.state
        queues = state.queues
        cx.emit(tuple([queue.popleft() for queue in queues]))
        if all(state.live) or not cx.goes_on(state):
            return
        if any(not live and not queue for live, queue in zip_values(state.live, queues)):
            cx.complete()

    def adopt(self, state: State, before: Before) -> bool:
        state.queues = [deque[Any]() if queue is None else queue for queue in before.taken(state.queues, None)]
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.live = [cx.runs(port) for port in range(self.inputs)]
        cx.soon("adopted")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        while cx.goes_on(state) and all(state.queues):  # what had waited for an input that is no more
            self._emit(cx)
        if cx.goes_on(state) and any(not live and not queue for live, queue in zip_values(state.live, state.queues)):
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live[port] = False
        if not cx.state.queues[port]:
            cx.complete()


@overload
def zip(other: Observable[B], /) -> Callable[[Observable[A]], Query[tuple[A, B]]]: ...
@overload
def zip(first: Observable[B], second: Observable[C], /) -> Callable[[Observable[A]], Query[tuple[A, B, C]]]: ...
@overload
def zip(
    first: Observable[B], second: Observable[C], third: Observable[D], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C, D]]]: ...
@overload
def zip(*args: Observable[Any]) -> Callable[[Observable[Any]], Query[tuple[Any, ...]]]: ...
def zip(*args: Observable[Any]) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit tuples of the n-th elements of all the sequences.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).zip(rx.of("a", "b")).to_list().run()
    [(1, 'a'), (2, 'b')]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(zip(ys)), "-12---|", "---a-b|")
    -12-----------------|
    ---a--------b-------|
    ---(1, 'a')-(2, 'b')|

    *State*: the elements that wait for their partners, bounded by `Limits.queue_items_max`.
    """
    return lambda source: apply(Zip(1 + len(args)), source, *args)


@frozen
class ZipLatest(Stage, name="zip_latest"):
    by_position = True
    inputs: int

    @dataclass(slots=True)
    class State:
        values: list[Any]
        live: list[bool]
        missing: int

    def initial(self) -> State:
        return self.State([NotSet] * self.inputs, [True] * self.inputs, self.inputs)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        values = state.values
        if values[port] is NotSet:
            state.missing -= 1
        values[port] = value
        if not state.missing:
            self._emit(cx)

    def _emit(self, cx: Context) -> None:
        state = cx.state
        values, state.values, state.missing = state.values, [NotSet] * self.inputs, self.inputs
        cx.emit(tuple(values))
        if False in state.live:
            cx.complete()

    def adopt(self, state: State, before: Before) -> bool:
        take_latest(state, before)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.live = [cx.runs(port) for port in range(self.inputs)]
        cx.soon("adopted")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if not state.missing:
            self._emit(cx)
        elif any(not live and value is NotSet for live, value in zip_values(state.live, state.values)):
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live[port] = False
        if cx.state.values[port] is NotSet:
            cx.complete()


@overload
def zip_latest(other: Observable[B], /) -> Callable[[Observable[A]], Query[tuple[A, B]]]: ...
@overload
def zip_latest(first: Observable[B], second: Observable[C], /) -> Callable[[Observable[A]], Query[tuple[A, B, C]]]: ...
@overload
def zip_latest(
    first: Observable[B], second: Observable[C], third: Observable[D], /
) -> Callable[[Observable[A]], Query[tuple[A, B, C, D]]]: ...
@overload
def zip_latest(*others: Observable[Any]) -> Callable[[Observable[Any]], Query[tuple[Any, ...]]]: ...
def zip_latest(*others: Observable[Any]) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit a tuple once all the sequences have emitted anew; of a faster one only the latest element is kept.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2, 3).zip_latest(rx.of("a", "b")).subscribe(print)
    (3, 'a')
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(zip_latest(ys)), "-12---3-|", "---a-b|")
    -12----------3------------|
    ---a--------b|
    ---(2, 'a')--((3, 'b') |)

    *State*: the element of each that waits for the others.
    """
    return lambda source: apply(ZipLatest(1 + len(others)), source, *others)
