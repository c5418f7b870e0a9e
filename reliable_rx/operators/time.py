"""Operators that wait: their due times are absolute, on the host's logical clock, and part of the state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.abc import SchedulerBase
from reactivex.internal.utils import NotSet
from reactivex.scheduler.scheduler import Scheduler

from reliable_rx.errors import LimitExceeded
from reliable_rx.operator import Context, Stage, relative_seconds
from reliable_rx.operators.combine import check_queue
from reliable_rx.operators.window import open_window
from reliable_rx.query import apply

A = TypeVar("A")
Relative = float | timedelta
Time = Relative | datetime


def due_from(now: float, time: Time) -> float:
    """Return when *time* (a duration from *now*, or a date) is due."""
    if isinstance(time, datetime):
        return Scheduler.to_seconds(time)
    return now + max(0.0, relative_seconds(time))


@dataclass(frozen=True, eq=False)
class Debounce(Stage, name="debounce"):
    duetime: Relative
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.state.value = value
        cx.schedule(due_from(cx.now, self.duetime), "quiet")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        self._flush(cx)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.cancel("quiet")
        self._flush(cx)
        cx.complete()

    @staticmethod
    def _flush(cx: Context) -> None:
        value, cx.state.value = cx.state.value, NotSet
        if value is not NotSet:
            cx.emit(value)


def debounce(duetime: Relative, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Emit an element once nothing has followed it for *duetime* seconds.

    *State*: the element that waits, and one timer.
    """
    return Debounce(duetime, scheduler)


@dataclass(frozen=True, eq=False)
class Delay(Stage, name="delay"):
    duetime: Time
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        shift_s: float = 0.0
        queue: deque[tuple[float, Any]] = field(default_factory=deque)

    def on_start(self, cx: Context) -> None:
        cx.state.shift_s = due_from(cx.now, self.duetime) - cx.now if self._is_date else relative_seconds(self.duetime)
        cx.subscribe_all()

    @property
    def _is_date(self) -> bool:
        return isinstance(self.duetime, datetime)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self._enqueue(cx, value)

    def on_completed(self, cx: Context, port: int) -> None:
        self._enqueue(cx, NotSet)

    def _enqueue(self, cx: Context, value: Any) -> None:
        state = cx.state
        state.queue.append((cx.now + state.shift_s, value))
        check_queue(state.queue, cx)
        if len(state.queue) == 1:
            cx.schedule(state.queue[0][0], "due")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        queue = cx.state.queue
        now = max(cx.now, queue[0][0])  # schedulers round to microseconds: the first is due because we are called
        while queue and queue[0][0] <= now:
            _, value = queue[0]
            if value is NotSet:
                cx.complete()
                return
            cx.emit(value)
            queue.popleft()
        if queue:
            cx.schedule(queue[0][0], "due")


def delay(duetime: Time, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Shift the sequence in time; an error is not delayed.

    *State*: the elements on their way with their due times, bounded by `Limits.queue_items_max`, and one timer.
    """
    return Delay(duetime, scheduler)


@dataclass(slots=True)
class Spans:
    """When windows open and close: microseconds from the start, whole, so that nothing drifts."""

    started: float = 0.0
    next_shift_us: int = 0
    next_span_us: int = 0
    shift: bool = False
    span: bool = False


def microseconds(time: Relative) -> int:
    return round(relative_seconds(time) * 1_000_000)


class Spanned(Stage):
    """What opens something every *timeshift* and closes it after *timespan*."""

    timespan: Relative
    timeshift: Relative

    def start_spans(self, cx: Context) -> None:
        spans = cx.state.spans
        spans.started = cx.now
        spans.next_shift_us, spans.next_span_us = microseconds(self.timeshift), microseconds(self.timespan)
        self.schedule_span(cx)

    def schedule_span(self, cx: Context) -> None:
        spans = cx.state.spans
        due_us = min(spans.next_shift_us, spans.next_span_us)
        spans.shift, spans.span = due_us == spans.next_shift_us, due_us == spans.next_span_us
        spans.next_shift_us += microseconds(self.timeshift) if spans.shift else 0
        spans.next_span_us += microseconds(self.timeshift) if spans.span else 0
        cx.schedule(spans.started + due_us / 1_000_000, "span")


@dataclass(frozen=True, eq=False)
class WindowWithTime(Spanned, name="window_with_time"):
    yields_inner = True
    inner_limit = "windows_max"
    timespan: Relative
    timeshift: Relative
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        next_key: int = 0
        spans: Spans = field(default_factory=Spans)

    def on_start(self, cx: Context) -> None:
        open_window(cx)
        self.start_spans(cx)
        cx.subscribe_all()

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        for group in tuple(cx.groups().values()):
            group.feed((value,))

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        spans = cx.state.spans
        if spans.shift:
            open_window(cx)
        if spans.span:
            cx.end(next(iter(cx.groups()), None))
        self.schedule_span(cx)


def window_with_time(
    timespan: Relative, timeshift: Relative | None = None, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Observable[Observable[A]]]:
    """Split the sequence into windows of *timespan* seconds, a new one opening every *timeshift* seconds.

    *State*: the next opening and closing times, and one row per open window, bounded by `Limits.windows_max`.
    """
    check_span(timespan, timeshift)
    return WindowWithTime(timespan, timespan if timeshift is None else timeshift, scheduler)


def check_span(timespan: Relative, timeshift: Relative | None) -> None:
    """*Raises* `ValueError` for windows that would open without end in one instant."""
    if relative_seconds(timespan) < 0 or (timeshift is not None and relative_seconds(timeshift) <= 0):
        raise ValueError(f"timespan and timeshift must be positive durations, got {timespan!r} and {timeshift!r}")


@dataclass(frozen=True, eq=False)
class BufferWithTime(Spanned, name="buffer_with_time"):
    timespan: Relative
    timeshift: Relative
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        open: deque[list[Any]] = field(default_factory=lambda: deque([[]]))
        spans: Spans = field(default_factory=Spans)

    def on_start(self, cx: Context) -> None:
        self.start_spans(cx)
        cx.subscribe_all()

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        for buffer in cx.state.open:
            buffer.append(value)
            check_list(buffer, cx)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if state.spans.shift:
            state.open.append([])
        if state.spans.span:
            cx.emit(state.open.popleft())
        self.schedule_span(cx)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.emit_all(list(cx.state.open))
        cx.complete()


def buffer_with_time(
    timespan: Relative, timeshift: Relative | None = None, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Observable[list[A]]]:
    """Collect the elements of every *timespan* seconds into a list, a new one beginning every *timeshift* seconds.

    *State*: the open lists, each bounded by `Limits.list_items_max`, and the next opening and closing times.
    """
    check_span(timespan, timeshift)
    return BufferWithTime(timespan, timeshift or timespan, scheduler)


@dataclass(frozen=True, eq=False)
class Timeout(Stage, name="timeout"):
    duetime: Time
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        self._wind(cx)
        cx.subscribe(0)

    def _wind(self, cx: Context) -> None:
        cx.schedule(due_from(cx.now, self.duetime), "late")

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.emit(value)
        if port == 0:
            self._wind(cx)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.unsubscribe(0)
        cx.subscribe(1)


def timeout(
    duetime: Time, other: Observable[A] | None = None, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Observable[A]]:
    """Switch to *other* (by default: fail) when no element has come for *duetime* seconds.

    *State*: one timer.
    """
    from reliable_rx.creation import throw

    fallback = throw(Exception("Timeout")) if other is None else other
    return lambda source: apply(Timeout(duetime, scheduler), source, fallback)


@dataclass(frozen=True, eq=False)
class Sample(Stage, name="sample"):
    @dataclass(slots=True)
    class State:
        value: Any = NotSet
        at_end: bool = False

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if port == 0:
            cx.state.value = value
        else:
            self._sample(cx)

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0:
            cx.state.at_end = True
        else:
            self._sample(cx)

    @staticmethod
    def _sample(cx: Context) -> None:
        state = cx.state
        value, state.value = state.value, NotSet
        if value is not NotSet:
            cx.emit(value)
        if state.at_end:
            cx.complete()


def sample(
    sampler: Relative | Observable[Any], scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Observable[A]]:
    """Emit the latest element at every tick of *sampler* (seconds, or a sequence), if there is a new one.

    *State*: the latest element.
    """
    from reliable_rx.creation import interval

    ticks = sampler if isinstance(sampler, Observable) else interval(sampler, scheduler)
    return lambda source: apply(Sample(), source, ticks)


def check_list(items: list[Any], cx: Any) -> None:
    """*Raises* `LimitExceeded` when a collected list grows past its limit."""
    most = cx.node.plan.limits.list_items_max
    if len(items) > most:
        raise LimitExceeded(
            f"{cx.node.path} collects more than {most:,} elements: raise Limits(list_items_max=...) or bound it",
            path=cx.node.path,
            limit="list_items_max",
            most=most,
        )
