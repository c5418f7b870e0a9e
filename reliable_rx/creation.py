"""Where sequences begin, under RxPY's names. Hosted ones start when their query is created."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, overload

from reactivex import Observable
from reactivex.abc import SchedulerBase

from reliable_rx.operator import Context, Stage, relative_seconds
from reliable_rx.operators.combine import CombineLatest, Concat, Merge, WithLatestFrom, Zip, combination
from reliable_rx.operators.recover import CatchNext
from reliable_rx.operators.time import Relative, Time, due_from
from reliable_rx.query import Query, apply

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

__all__ = [
    "catch", "combine_latest", "concat", "empty", "from_", "from_iterable", "from_list", "interval", "just", "merge",
    "never", "of", "range", "return_value", "throw", "timer", "with_latest_from", "zip",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class FromIterable(Stage, name="from_iterable"):
    scheduler_default = "current_thread"
    iterable: Iterable[Any]
    scheduler: SchedulerBase | None = None

    def refusal(self) -> str | None:
        if not isinstance(self.iterable, Sequence):
            return "an iterator cannot be repositioned after a crash; give a list, or make it a source"
        return super().refusal()

    def on_start(self, cx: Context) -> None:
        cx.soon("emit")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if isinstance(self.iterable, (list, tuple, range_of)):
            cx.emit_all(self.iterable)
        else:
            for value in self.iterable:
                cx.emit(value)
                if not cx.active:
                    return
        cx.complete()


range_of = range


def from_iterable(iterable: Iterable[A], scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit the elements of *iterable*, all in one go.

    *State*: none. Hosted, it must be a sequence: an iterator cannot be repositioned.
    """
    return apply(FromIterable(iterable, scheduler))


from_ = from_list = from_iterable


def of(*args: A) -> Query[A]:
    """Emit *args*.

    >>> of(1, 2, 3).run()
    3
    """
    return from_iterable(args)


@dataclass(frozen=True, eq=False)
class Range(Stage, name="range"):
    scheduler_default = "current_thread"
    numbers: range_of
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        index = cx.state.index
        if index == len(self.numbers):
            cx.complete()
            return
        cx.state.index += 1
        cx.emit(self.numbers[index])
        cx.soon("next")


def range(
    start: int, stop: int | None = None, step: int | None = None, scheduler: SchedulerBase | None = None
) -> Query[int]:
    """Emit whole numbers, one action each.

    *State*: how many were emitted.
    """
    if stop is None and step is None:
        numbers = range_of(start)
    else:
        numbers = range_of(start, 2**63 - 1 if stop is None else stop, 1 if step is None else step)
    return apply(Range(numbers, scheduler))


@dataclass(frozen=True, eq=False)
class Empty(Stage, name="empty"):
    scheduler_default = "immediate"
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("complete")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()


def empty(scheduler: SchedulerBase | None = None) -> Query[Any]:
    """Complete without an element."""
    return apply(Empty(scheduler))


@dataclass(frozen=True, eq=False)
class Never(Stage, name="never"):
    pass


def never() -> Query[Any]:
    """Say nothing, ever."""
    return apply(Never())


@dataclass(frozen=True, eq=False)
class Throw(Stage, name="throw"):
    exception: Exception

    def on_start(self, cx: Context) -> None:
        cx.fail(self.exception)


def throw(exception: str | Exception, scheduler: SchedulerBase | None = None) -> Query[Any]:
    """Fail at once with *exception*; as in RxPY, *scheduler* changes nothing."""
    return apply(Throw(exception if isinstance(exception, Exception) else Exception(exception)))


@dataclass(frozen=True, eq=False)
class ReturnValue(Stage, name="return_value"):
    scheduler_default = "current_thread"
    value: Any
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("emit")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.emit(self.value)
        cx.complete()


def return_value(value: A, scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit *value* and complete."""
    return apply(ReturnValue(value, scheduler))


just = return_value


@dataclass(frozen=True, eq=False)
class Timer(Stage, name="timer"):
    duetime: Time
    period: Relative | None = None
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        count: int = 0
        due: float = 0.0

    def on_start(self, cx: Context) -> None:
        if self.period is None and not isinstance(self.duetime, datetime) and relative_seconds(self.duetime) <= 0:
            cx.soon("tick")
            return
        cx.state.due = due_from(cx.now, self.duetime)
        cx.schedule(cx.state.due, "tick")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        count = state.count
        state.count += 1
        cx.emit(count)
        if self.period is None:
            cx.complete()
        elif cx.active and cx.state is state:  # nobody has stopped us meanwhile, or started us afresh
            self._wind(cx)

    def _wind(self, cx: Context) -> None:
        period = max(0.0, relative_seconds(self.period))
        due = cx.state.due + period
        cx.state.due = due if due > cx.now else cx.now + period
        cx.schedule(cx.state.due, "tick")


def timer(duetime: Time, period: Relative | None = None, scheduler: SchedulerBase | None = None) -> Query[int]:
    """Emit 0 after *duetime* seconds (or at a date), then 1, 2, … every *period* seconds if one is given.

    *State*: the count and the next due time.
    """
    return apply(Timer(duetime, period, scheduler))


def interval(period: Relative, scheduler: SchedulerBase | None = None) -> Query[int]:
    """Emit 0, 1, 2, … every *period* seconds.

    *State*: the count and the next due time.
    """
    return timer(period, period, scheduler)


def merge(*sources: Observable[A]) -> Query[A]:
    """Emit what any of *sources* emits."""
    return combination(Merge(len(sources)), sources) if sources else empty()


def concat(*sources: Observable[A]) -> Query[A]:
    """Emit *sources* one after the other."""
    return combination(Concat(len(sources)), sources)


@overload
def combine_latest(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def combine_latest(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def combine_latest(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def combine_latest(*sources: Observable[Any]) -> Query[Any]:
    """Emit a tuple of the latest elements whenever one of *sources* emits."""
    if not sources:
        raise ValueError("combine_latest() requires at least one source.")
    return combination(CombineLatest(len(sources)), sources)


@overload
def zip(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def zip(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def zip(*args: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def zip(*args: Observable[Any]) -> Query[Any]:
    """Emit tuples of the n-th elements of all the sequences."""
    return combination(Zip(len(args)), args)


@overload
def with_latest_from(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def with_latest_from(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def with_latest_from(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def with_latest_from(*sources: Observable[Any]) -> Query[Any]:
    """Emit each element of the first sequence with the latest of the others."""
    return combination(WithLatestFrom(len(sources)), sources)


def catch(*sources: Observable[A]) -> Query[A]:
    """Emit *sources* one after the other until one completes."""
    return combination(CatchNext(len(sources)), sources)
