"""What only reads the clock: the time of an element, the time since the one before, one element in so much time.

All elements of one turn have one time: to a host, that is when they happened. The classes of what is emitted are RxPY's
own, so that an `isinstance` or a comparison behind `timestamp` holds on both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.abc import SchedulerBase
from reactivex.operators._timeinterval import TimeInterval
from reactivex.operators._timestamp import Timestamp

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.timing import Relative, microseconds
from reliable_rx.query.query import Query

__all__ = ["TimeInterval", "Timestamp", "throttle_first", "time_interval", "timestamp"]

A = TypeVar("A", bound=Any)


@frozen
class Stamped(Stage, name="timestamp"):
    keeps_pace = True
    scheduler: SchedulerBase | None = None

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.emit(Timestamp(value, datetime.fromtimestamp(cx.now, UTC)))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        now = datetime.fromtimestamp(cx.now, UTC)
        cx.emit_all([Timestamp(value, now) for value in values])


def timestamp(scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[Timestamp[A]]]:
    """Attach to each element the time at which it came, as a `datetime` in UTC.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s: s.pipe(timestamp()).map(lambda t: f"{t.value} at {t.timestamp:%S}"), "-1-2|")
    -1-------2------|
    -1 at 01-2 at 03|

    *State*: none. Hosted, the time is the logical clock's: a replay gives the same.
    """
    return Stamped(scheduler)


@frozen
class Interval(Stage, name="time_interval"):
    keeps_pace = True
    lends_scheduler = (0,)
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        last_us: int = 0

    def on_start(self, cx: Context) -> None:
        cx.state.last_us = microseconds(cx.now)
        cx.subscribe_all()

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.emit(TimeInterval(value, self._since_last(cx)))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        first, none = self._since_last(cx), timedelta(0)
        cx.emit_all([TimeInterval(values[0], first), *[TimeInterval(value, none) for value in values[1:]]])

    @staticmethod
    def _since_last(cx: Context) -> timedelta:
        state, now_us = cx.state, microseconds(cx.now)
        since_us, state.last_us = now_us - state.last_us, now_us
        return timedelta(microseconds=since_us)


def time_interval(scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[TimeInterval[A]]]:
    """Attach to each element the time since the one before it, or since the start, as a `timedelta`.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s: s.pipe(time_interval()).map(lambda t: t.interval.seconds), "-a---b|")
    -a---b|
    -1---4|

    *State*: when the last element came.
    """
    return Interval(scheduler)


@frozen
class ThrottleFirst(Stage, name="throttle_first"):
    free = ("window_duration",)
    lends_scheduler = (0,)
    keeps_inner = True
    window_duration: Relative
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        last_us: int | None = None

    def refusal(self) -> str | None:
        return NOT_POSITIVE if self._span_us <= 0 else super().refusal()

    @property
    def _span_us(self) -> int:
        return microseconds(self.window_duration or 0.0)

    def on_start(self, cx: Context) -> None:
        if self._span_us <= 0:
            raise ValueError(NOT_POSITIVE)
        cx.subscribe_all()

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state, now_us = cx.state, microseconds(cx.now)
        if state.last_us is None or now_us - state.last_us >= self._span_us:
            state.last_us = now_us
            cx.emit(value)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        self.on_next(cx, port, values[0])


NOT_POSITIVE = "window_duration cannot be less or equal zero."


def throttle_first(
    window_duration: Relative, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Emit an element, then nothing for *window_duration* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(throttle_first(3.0), "-12-3-4|")
    -12-3-4|
    -1--3--|

    *State*: when it last emitted. A duration that is not positive fails the sequence with `ValueError`, and a host
    refuses it.
    """
    return ThrottleFirst(window_duration, scheduler)
