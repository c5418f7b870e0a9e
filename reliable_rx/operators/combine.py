"""Operators that read several sequences."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.errors import LimitExceeded
from reliable_rx.operator import Context, Stage
from reliable_rx.query import Query, apply

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@dataclass(frozen=True, eq=False)
class Merge(Stage, name="merge"):
    passes_on = True
    scheduler_default = "current_thread"
    keeps_inner = True
    inputs: int

    @dataclass(slots=True)
    class State:
        live: int

    def initial(self) -> State:
        return self.State(self.inputs)

    def on_start(self, cx: Context) -> None:
        cx.soon("start")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.subscribe_all()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live -= 1
        if cx.state.live == 0:
            cx.complete()


@overload
def merge(*sources: Observable[A], max_concurrent: None = None) -> Callable[[Observable[A]], Observable[A]]: ...
@overload
def merge(*, max_concurrent: int) -> Callable[[Observable[Observable[A]]], Observable[A]]: ...
def merge(*sources: Observable[Any], max_concurrent: int | None = None) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit what any of the sequences emits.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2).merge(rx.of(3)).subscribe(print)
    1
    2
    3

    With *max_concurrent* it is another operator, as in RxPY: it merges a sequence of sequences, that many at a time.

    *State*: how many sequences are live. The others wait in a queue bounded by `Limits.queue_items_max`.
    """
    if max_concurrent is not None:
        from reliable_rx.operators.inner import MergeAll

        return MergeAll(max_concurrent)
    return lambda source: apply(Merge(1 + len(sources)), source, *sources)


@dataclass(frozen=True, eq=False)
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

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live[port] = False
        if not any(cx.state.live):
            cx.complete()


@overload
def combine_latest(other: Observable[B], /) -> Callable[[Observable[A]], Observable[tuple[A, B]]]: ...
@overload
def combine_latest(
    first: Observable[B], second: Observable[C], /
) -> Callable[[Observable[A]], Observable[tuple[A, B, C]]]: ...
@overload
def combine_latest(*others: Observable[Any]) -> Callable[[Observable[Any]], Observable[tuple[Any, ...]]]: ...
def combine_latest(*others: Observable[Any]) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit a tuple of the latest elements whenever one of the sequences emits, once all have.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1).combine_latest(rx.of("a", "b")).subscribe(print)
    (1, 'a')
    (1, 'b')

    *State*: the latest element of each.
    """
    return lambda source: apply(CombineLatest(1 + len(others)), source, *others)


@dataclass(frozen=True, eq=False)
class WithLatestFrom(Stage, name="with_latest_from"):
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

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0:
            cx.complete()


@overload
def with_latest_from(other: Observable[B], /) -> Callable[[Observable[A]], Observable[tuple[A, B]]]: ...
@overload
def with_latest_from(
    first: Observable[B], second: Observable[C], /
) -> Callable[[Observable[A]], Observable[tuple[A, B, C]]]: ...
@overload
def with_latest_from(*sources: Observable[Any]) -> Callable[[Observable[Any]], Observable[tuple[Any, ...]]]: ...
def with_latest_from(*sources: Observable[Any]) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit each element with the latest ones of the other sequences, once all have one.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2).with_latest_from(rx.of("a")).subscribe(print)
    (1, 'a')
    (2, 'a')

    *State*: the latest element of each other sequence.
    """
    return lambda source: apply(WithLatestFrom(1 + len(sources)), source, *sources)


@dataclass(frozen=True, eq=False)
class Zip(Stage, name="zip"):
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
        cx.emit(tuple([queue.popleft() for queue in queues]))
        if not all(state.live) and any(not live and not queue for live, queue in zip_values(state.live, queues)):
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live[port] = False
        if not cx.state.queues[port]:
            cx.complete()


zip_values = zip


def check_queue(queue: Any, cx: Any) -> None:
    """*Raises* `LimitExceeded` when more elements wait than the query allows."""
    most = cx.node.plan.limits.queue_items_max
    if len(queue) > most:
        raise LimitExceeded(
            f"{cx.node.path} holds more than {most:,} waiting elements: raise Limits(queue_items_max=...) or bound it",
            path=cx.node.path,
            limit="queue_items_max",
            most=most,
        )


@overload
def zip(other: Observable[B], /) -> Callable[[Observable[A]], Observable[tuple[A, B]]]: ...
@overload
def zip(first: Observable[B], second: Observable[C], /) -> Callable[[Observable[A]], Observable[tuple[A, B, C]]]: ...
@overload
def zip(*args: Observable[Any]) -> Callable[[Observable[Any]], Observable[tuple[Any, ...]]]: ...
def zip(*args: Observable[Any]) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit tuples of the n-th elements of all the sequences.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).zip(rx.of("a", "b")).to_list().run()
    [(1, 'a'), (2, 'b')]

    *State*: the elements that wait for their partners, bounded by `Limits.queue_items_max`.
    """
    return lambda source: apply(Zip(1 + len(args)), source, *args)


@dataclass(frozen=True, eq=False)
class Concat(Stage, name="concat"):
    passes_on = True
    scheduler_default = "current_thread"
    keeps_inner = True
    inputs: int

    @dataclass(slots=True)
    class State:
        index: int = -1

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.state.index += 1
        if cx.state.index == self.inputs:
            cx.complete()
        else:
            cx.subscribe(cx.state.index)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("next")


def concat(*sources: Observable[A]) -> Callable[[Observable[A]], Observable[A]]:
    """Emit the sequences one after the other.

    >>> import reliable_rx as rx
    >>> rx.of(1).concat(rx.of(2)).to_list().run()
    [1, 2]

    *State*: which one is being read.
    """
    return lambda source: apply(Concat(1 + len(sources)), source, *sources)


@dataclass(frozen=True, eq=False)
class StartWith(Stage, name="start_with"):
    passes_on = True
    scheduler_default = "current_thread"
    keeps_inner = True
    values: tuple[Any, ...]

    def on_start(self, cx: Context) -> None:
        cx.soon("start")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        # four steps: RxPY's start_with is concat(from_iterable(values), source), and others may act between them
        if tag == "start":
            cx.soon("values")
        elif tag == "values":
            cx.emit_all(self.values)
            cx.soon("source")
        elif tag == "source":
            cx.subscribe(0)
        else:
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("end")


def start_with(*args: A) -> Callable[[Observable[A]], Observable[A]]:
    """Emit *args*, then the sequence.

    >>> import reliable_rx as rx
    >>> rx.of(2).start_with(0, 1).to_list().run()
    [0, 1, 2]

    *State*: none.
    """
    return StartWith(args)


@dataclass(frozen=True, eq=False)
class TakeUntil(Stage, name="take_until"):
    keeps_inner = True

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if port == 0:
            cx.emit(value)
        else:
            cx.complete()

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if port == 0:
            cx.emit_all(values)
        elif values:
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0:
            cx.complete()


def take_until(other: Observable[Any]) -> Callable[[Observable[A]], Observable[A]]:
    """Pass elements until *other* emits.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).take_until(rx.never()).to_list().run()
    [1, 2]

    *State*: none.
    """
    return lambda source: apply(TakeUntil(), source, other)


def combination(op: Stage, sources: tuple[Any, ...]) -> Query[Any]:
    """Apply *op* to *sources*."""
    return apply(op, *sources)
