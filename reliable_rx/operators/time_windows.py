"""Buffers and windows by time: what opens and closes when the clock says so.

A buffer is not a window with `to_list` behind it, as in RxPY: a list in the state costs less than an inner sequence,
and only the order of what they emit can be seen from outside, which is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable
from reactivex.abc import SchedulerBase

from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen, relative_seconds
from reliable_rx.operators.timing import Relative, due_from, microseconds
from reliable_rx.operators.window import feed_windows, open_window
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
MISSED_MAX = 1000
"""How many openings may lie before the present moment, each of which is made up for."""


@dataclass(slots=True)
class Spans:
    """When windows open and close: microseconds from the start, whole, so that nothing drifts."""

    started: float = 0.0
    next_shift_us: int = 0
    next_span_us: int = 0
    shift: bool = False
    span: bool = False


class Spanned(Stage):
    """What opens something every *timeshift* and closes it after *timespan*."""

    timespan: Relative
    timeshift: Relative

    def adopt(self, state: Any, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.soon("again")

    def start_spans(self, cx: Context) -> None:
        spans = cx.state.spans
        spans.started = cx.now
        spans.next_shift_us, spans.next_span_us = microseconds(self.timeshift), microseconds(self.timespan)
        self.schedule_span(cx)

    def schedule_span(self, cx: Context) -> None:
        spans = cx.state.spans
        due_us = min(spans.next_shift_us, spans.next_span_us)
        shift_us = microseconds(self.timeshift)
        missed = int((cx.now - spans.started) * 1_000_000 - due_us) // max(1, shift_us)
        if missed > MISSED_MAX:  # the clock has leapt over them
            spans.next_shift_us += missed * shift_us
            spans.next_span_us += missed * shift_us
            due_us += missed * shift_us
        spans.shift, spans.span = due_us == spans.next_shift_us, due_us == spans.next_span_us
        spans.next_shift_us += microseconds(self.timeshift) if spans.shift else 0
        spans.next_span_us += microseconds(self.timeshift) if spans.span else 0
        cx.schedule(spans.started + due_us / 1_000_000, "span")


@frozen
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
        feed_windows(cx, (value,))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        feed_windows(cx, values)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if tag == "again":  # what is open was opened under another span
            for key in tuple(cx.groups()):
                cx.end(key)
            if cx.goes_on(state):
                open_window(cx)
                self.start_spans(cx)
            return
        if state.spans.shift:
            open_window(cx)
        if state.spans.span and cx.goes_on(state):
            cx.end(next(iter(cx.groups()), None))
        if cx.goes_on(state):
            self.schedule_span(cx)


def window_with_time(
    timespan: Relative, timeshift: Relative | None = None, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Split the sequence into windows of *timespan* seconds, a new one opening every *timeshift* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s: s.pipe(window_with_time(3.0)).flat_map(lambda w: w.count()), "-12-3-4-|")
    -12-3-4-|
    ---2--2-(0 |)

    *State*: the next opening and closing times, and one row per open window, bounded by `Limits.windows_max`.
    *Raises* `ValueError` for windows that would open without end in one moment, where RxPY hangs.
    """
    check_span(timespan, timeshift)
    return WindowWithTime(timespan, timespan if timeshift is None else timeshift, scheduler)


def check_span(timespan: Relative, timeshift: Relative | None) -> None:
    """*Raises* `ValueError` for windows that would open without end in one instant."""
    if relative_seconds(timespan) < 0 or (timeshift is not None and relative_seconds(timeshift) <= 0):
        raise ValueError(f"timespan and timeshift must be positive durations, got {timespan!r} and {timeshift!r}")


@frozen
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

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        for buffer in cx.state.open:
            buffer.extend(values)
            check_list(buffer, cx)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if tag == "again":
            lists, state.open = state.open, deque([[]])
            cx.emit_all(list(lists))
            if cx.goes_on(state):
                self.start_spans(cx)
            return
        if state.spans.shift:
            state.open.append([])
        if state.spans.span:
            cx.emit(state.open.popleft())
        if cx.goes_on(state):
            self.schedule_span(cx)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.emit_all(list(cx.state.open))
        cx.complete()


def buffer_with_time(
    timespan: Relative, timeshift: Relative | None = None, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[list[A]]]:
    """Collect the elements of every *timespan* seconds into a list, a new one beginning every *timeshift* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(buffer_with_time(3.0), "-12-3-4-|")
    -12------3-4------|
    ---[1, 2]--[3, 4]-([] |)

    *State*: the open lists, each bounded by `Limits.list_items_max`, and the next opening and closing times.
    *Raises* `ValueError` for lists that would begin without end in one moment, where RxPY hangs.
    """
    check_span(timespan, timeshift)
    return BufferWithTime(timespan, timeshift or timespan, scheduler)


@frozen
class WindowWithTimeOrCount(Stage, name="window_with_time_or_count"):
    yields_inner = True
    inner_limit = "windows_max"
    free = ("timespan", "count")
    timespan: Relative
    count: int
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        next_key: int = 0
        filled: int = 0

    def on_start(self, cx: Context) -> None:
        self._open(cx)
        cx.subscribe_all()

    def _open(self, cx: Context) -> None:
        state = cx.state
        open_window(cx)
        if cx.goes_on(state):
            cx.schedule(due_from(cx.now, self.timespan), "span")

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self.on_batch(cx, port, (value,))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        state = cx.state
        if 0 < self.count <= state.filled:  # it was opened under a larger count
            self.on_timer(cx, "span")
        while values and cx.goes_on(state):
            part = values[: self.count - state.filled] if self.count > 0 else values
            values = values[len(part) :]
            cx.feed(state.next_key - 1, part)
            state.filled += len(part)
            if state.filled == self.count and cx.goes_on(state):
                self.on_timer(cx, "span")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        state.filled = 0
        cx.end(state.next_key - 1)
        if cx.goes_on(state):
            self._open(cx)


def window_with_time_or_count(
    timespan: Relative, count: int, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Split the sequence into windows that close after *timespan* seconds or with their *count*-th element.

    >>> from reliable_rx.testing import diagram
    >>> sums = lambda s: s.pipe(window_with_time_or_count(4.0, 2)).flat_map(lambda w: w.sum())
    >>> diagram(sums, "-12-3---4|")
    -12-3---4|
    --3---3--(4 |)

    *State*: two counters, one timer, and the row of the open window.
    *Raises* `ValueError` for windows that would open without end in one moment, where RxPY hangs.
    """
    check_span(timespan, timespan)
    return WindowWithTimeOrCount(timespan, count, scheduler)


@frozen
class BufferWithTimeOrCount(Stage, name="buffer_with_time_or_count"):
    free = ("timespan", "count")
    timespan: Relative
    count: int
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        items: list[Any] = field(default_factory=list)

    def on_start(self, cx: Context) -> None:
        self._wind(cx)
        cx.subscribe_all()

    def _wind(self, cx: Context) -> None:
        cx.schedule(due_from(cx.now, self.timespan), "span")

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self.on_batch(cx, port, (value,))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        state = cx.state
        if 0 < self.count <= len(state.items):  # it was begun under a larger count
            self.on_timer(cx, "span")
        while values and cx.goes_on(state):
            part = values[: self.count - len(state.items)] if self.count > 0 else values
            values = values[len(part) :]
            state.items.extend(part)
            check_list(state.items, cx)
            if len(state.items) == self.count:
                self.on_timer(cx, "span")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        items, state.items = state.items, []
        cx.emit(items)
        if cx.goes_on(state):
            self._wind(cx)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.emit(cx.state.items)
        cx.complete()


def buffer_with_time_or_count(
    timespan: Relative, count: int, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[list[A]]]:
    """Collect elements into lists that are emitted after *timespan* seconds or with their *count*-th element.

    >>> from reliable_rx.testing import diagram
    >>> diagram(buffer_with_time_or_count(4.0, 2), "-12-3---4|")
    -12------3-----4|
    --[1, 2]---[3]--([4] |)

    *State*: the open list, at most *count* long (and bounded by `Limits.list_items_max`), and one timer.
    *Raises* `ValueError` for lists that would begin without end in one moment, where RxPY hangs.
    """
    check_span(timespan, timespan)
    return BufferWithTimeOrCount(timespan, count, scheduler)


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
