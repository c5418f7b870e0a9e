"""What takes or skips elements by the clock: gates that open or shut at a time, and the last seconds of a sequence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable
from reactivex.abc import SchedulerBase

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen, relative_seconds
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.operators.timing import Relative, Time, Waits, due_from, microseconds
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


def move(cx: Context, tag: Hashable, time: Time, before: Before) -> None:
    """Let a gate open or shut at the other *time* that it has since it was edited; a duration counts from its start."""
    due, known = cx.due(tag), before.settings["duetime"]
    if due is None:
        return
    if isinstance(time, datetime):
        cx.schedule(due_from(cx.now, time), tag)
    elif not isinstance(known, str):
        cx.schedule(max(cx.now, due - known + relative_seconds(time)), tag)


class Takes(Waits):
    """Passes elements on until its time has come."""

    passes_on = True
    keeps_inner = is_bound = True
    duetime: Time

    def on_start(self, cx: Context) -> None:
        cx.schedule(due_from(cx.now, self.duetime), "shut")
        cx.subscribe_all()

    def adopt(self, state: None, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        move(cx, "shut", self.duetime, before)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.emit(value)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()


@frozen
class TakeWithTime(Takes, name="take_with_time"):
    duetime: Time
    scheduler: SchedulerBase | None = None


@frozen
class TakeUntilWithTime(Takes, name="take_until_with_time"):
    duetime: Time
    scheduler: SchedulerBase | None = None


def take_with_time(duration: Relative, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Take the elements of the first *duration* seconds, then complete.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take_with_time(4.0), "-1-2-3-|")
    -1-2-3-|
    -1-2|

    *State*: one timer.
    """
    return TakeWithTime(duration, scheduler)


def take_until_with_time(end_time: Time, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Take elements until *end_time*, a date or a number of seconds from the start, then complete.

    >>> from datetime import datetime, timezone
    >>> from reliable_rx.testing import diagram
    >>> diagram(take_until_with_time(datetime.fromtimestamp(4, timezone.utc)), "-1-2-3-|")
    -1-2-3-|
    -1-2|

    *State*: one timer.
    """
    return TakeUntilWithTime(end_time, scheduler)


class Skips(Waits):
    """Drops elements until its time has come."""

    keeps_inner = True
    duetime: Time

    @dataclass(slots=True)
    class State:
        open: bool = False

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        move(cx, "open", self.duetime, before)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if cx.state.open:
            cx.emit(value)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if cx.state.open:
            cx.emit_all(values)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.state.open = True


@frozen
class SkipWithTime(Skips, name="skip_with_time"):
    duetime: Time
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        cx.schedule(due_from(cx.now, self.duetime), "open")
        cx.subscribe_all()


@frozen
class SkipUntilWithTime(Skips, name="skip_until_with_time"):
    duetime: Time
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        state = cx.state
        due = due_from(cx.now, self.duetime)
        cx.subscribe_all()
        if cx.goes_on(state):
            cx.schedule(due, "open")


def skip_with_time(duration: Relative, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Skip the elements of the first *duration* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(skip_with_time(2.0), "-1-2-3-|")
    -1-2-3-|
    ---2-3-|

    *State*: whether that time is over, and one timer.
    """
    return SkipWithTime(duration, scheduler)


def skip_until_with_time(
    start_time: Time, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Skip elements until *start_time*, a date or a number of seconds from the start.

    >>> from datetime import datetime, timezone
    >>> from reliable_rx.testing import diagram
    >>> diagram(skip_until_with_time(datetime.fromtimestamp(2, timezone.utc)), "-1-2-3-|")
    -1-2-3-|
    ---2-3-|

    *State*: whether that time is over, and one timer.
    """
    return SkipUntilWithTime(start_time, scheduler)


class Last(Stage):
    """Keeps what has come in the last *duration* seconds; its clock reads whole microseconds, as RxPY's does."""

    free = ("duration",)
    duration: Relative

    @dataclass(slots=True)
    class State:
        queue: deque[tuple[int, Any]] = field(default_factory=deque)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        queue, now_us = cx.state.queue, microseconds(cx.now)
        queue.append((now_us, value))
        self._let_go(cx, queue, now_us)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        queue, now_us = cx.state.queue, microseconds(cx.now)
        queue.extend([(now_us, value) for value in values])
        self._let_go(cx, queue, now_us)

    def _let_go(self, cx: Context, queue: deque[tuple[int, Any]], now_us: int) -> None:
        self.older(cx, self._take_older(queue, now_us))
        check_queue(queue, cx)

    def _take_older(self, queue: deque[tuple[int, Any]], now_us: int) -> list[Any]:
        until_us = now_us - microseconds(self.duration)
        older = []
        while queue and queue[0][0] <= until_us:
            older.append(queue.popleft()[1])
        return older

    def older(self, cx: Context, values: list[Any]) -> None:
        """Take what is older than that."""


@frozen
class TakeLastWithTime(Last, name="take_last_with_time"):
    duration: Relative
    scheduler: SchedulerBase | None = None

    def on_completed(self, cx: Context, port: int) -> None:
        from_us = microseconds(cx.now) - microseconds(self.duration)
        cx.emit_all([value for at_us, value in cx.state.queue if at_us >= from_us])
        cx.complete()


@frozen
class SkipLastWithTime(Last, name="skip_last_with_time"):
    lends_scheduler = (0,)
    duration: Relative
    scheduler: SchedulerBase | None = None

    def older(self, cx: Context, values: list[Any]) -> None:
        cx.emit_all(values)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.emit_all(self._take_older(cx.state.queue, microseconds(cx.now)))
        cx.complete()


def take_last_with_time(
    duration: Relative, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Emit, when the sequence completes, the elements of its last *duration* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take_last_with_time(3.0), "-1-2-3-|")
    -1-2-3-|
    -------(3 |)

    *State*: the elements of the last *duration* seconds, bounded by `Limits.queue_items_max`.
    """
    return TakeLastWithTime(duration, scheduler)


def skip_last_with_time(
    duration: Relative, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Emit each element when it is *duration* seconds old and a later one, or the end, has come.

    >>> from reliable_rx.testing import diagram
    >>> diagram(skip_last_with_time(3.0), "-1-2-3-|")
    -1-2-3-|
    -----1-(2 |)

    *State*: the elements of the last *duration* seconds, bounded by `Limits.queue_items_max`.
    """
    return SkipLastWithTime(duration, scheduler)
