"""Operators that wait: their due times are absolute, on the host's logical clock, and part of the state.

Beside this stand `time_windows`, `time_gates` (take or skip by the clock) and `timestamps` (only read it). Rejected: a
lasting timer that a debounce sets anew when it fires too early (timers due at one moment would fire in another order).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable
from reactivex.abc import SchedulerBase
from reactivex.internal.utils import NotSet
from reactivex.scheduler.scheduler import Scheduler

from reliable_rx.operators.contract.operator import Context, Operator, Stage
from reliable_rx.operators.contract.parameters import frozen, relative_seconds
from reliable_rx.operators.merge_concat import begins_alone, check_queue
from reliable_rx.query.query import Query, apply

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
Relative = float | timedelta
Time = Relative | datetime
WHOLE_S = 2.0**33
"""From here on a float has no microseconds."""
NEAR_S = 2.0**31
"""Up to here `TO_WHOLE` makes a number of microseconds whole."""
TO_WHOLE = 1.5 * 2.0**52
"""Added and taken away, it leaves the nearest whole number, as `round` does, which makes an int on the way."""


def due_from(now: float, time: Time) -> float:
    """Return when *time* (a duration from *now*, or a date) is due.

    *Raises* `TypeError` for a date without a time zone, as RxPY does, and `ValueError` for a NaN.
    """
    if type(time) is float and time == time:
        return now + time if time > 0.0 else now
    if isinstance(time, datetime):
        return Scheduler.to_seconds(time)
    return now + max(0.0, relative_seconds(time))


def microseconds(time: Relative) -> int:
    """Read a duration, or a moment in seconds, in RxPY's resolution: whole, so that nothing drifts."""
    return round((time if type(time) is float and time == time else relative_seconds(time)) * 1_000_000)


def in_microseconds(time_s: float) -> float:
    """Return a moment in RxPY's resolution; as ``round(time_s, 6)`` does by way of a text, which takes longer.

    >>> in_microseconds(0.1 + 0.2), in_microseconds(float("inf"))
    (0.3, inf)
    """
    if -NEAR_S < time_s < NEAR_S:
        return (time_s * 1e6 + TO_WHOLE - TO_WHOLE) / 1e6
    return round(time_s * 1e6) / 1e6 if -WHOLE_S < time_s < WHOLE_S else time_s


class Waits(Stage):
    """What takes a date or a duration."""

    duetime: Time

    def refusal(self) -> str | None:
        if isinstance(self.duetime, datetime) and self.duetime.tzinfo is None:
            return f"{self.duetime!r} has no time zone; write datetime(..., tzinfo=timezone.utc)"
        return Operator.refusal(self)


@frozen
class Debounce(Stage, name="debounce"):
    free = ("duetime",)
    duetime: Relative
    scheduler: SchedulerBase | None = None

    @property
    def acts_at_once(self) -> bool:
        """Whether an element may come before the next one of a list does."""
        return relative_seconds(self.duetime) <= 0

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.state.value = value
        cx.schedule(due_from(cx.now, self.duetime), "quiet")

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        for value in values:
            self.on_next(cx, port, value)
            if cx.state.value is not NotSet:  # else the scheduler is one that waits and fires before it returns
                cx.state.value = values[-1]
                return

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


def debounce(duetime: Relative, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Emit an element once nothing has followed it for *duetime* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(debounce(1.0), "-1--23---4|")
    -1--23---4|
    --1---3---(4 |)

    *State*: the element that waits, and one timer. Of the timers that newer elements have replaced, a host keeps no
    more than there are live ones; un-hosted, RxPY's scheduler keeps each until it would have been due.
    """
    return Debounce(duetime, scheduler)


throttle_with_timeout = debounce


@frozen
class Delay(Waits, name="delay"):
    keeps_pace = True
    lends_scheduler = (0,)
    duetime: Time
    scheduler: SchedulerBase | None = None

    @property
    def acts_at_once(self) -> bool:
        return isinstance(self.duetime, datetime) or relative_seconds(self.duetime) <= 0

    @dataclass(slots=True)
    class State:
        shift_s: float = 0.0
        queue: deque[tuple[float, Any]] = field(default_factory=deque)

    def on_start(self, cx: Context) -> None:
        self._set_shift(cx)
        cx.subscribe_all()

    def _set_shift(self, cx: Context) -> None:
        time = self.duetime
        cx.state.shift_s = due_from(cx.now, time) - cx.now if isinstance(time, datetime) else relative_seconds(time)

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        queue = cx.state.queue
        if before.settings != self.settings():
            self._set_shift(cx)
        if queue and queue[-1][1] is NotSet and cx.runs(0):  # it had ended, and begins again
            queue.pop()
            if not queue:
                cx.cancel("due")

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self.on_batch(cx, port, (value,))

    def on_completed(self, cx: Context, port: int) -> None:
        self.on_batch(cx, port, (NotSet,))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        state = cx.state
        queue, due = state.queue, cx.now + state.shift_s
        idle = not queue
        queue.extend([(due, value) for value in values])
        check_queue(queue, cx)
        if idle:  # last, because some schedulers of RxPY wait and fire before they return
            cx.schedule(due, "due")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        ready = self._ready(cx)
        ended = ready[-1] is NotSet
        cx.emit_all(ready[:-1] if ended else ready)
        if not cx.goes_on(state):
            return
        if ended:
            cx.complete()
            return
        for _ in ready:
            state.queue.popleft()
        if state.queue:
            cx.schedule(state.queue[0][0], "due")

    @staticmethod
    def _ready(cx: Context) -> list[Any]:
        queue = cx.state.queue
        now = max(cx.now, queue[0][0])  # schedulers round to microseconds: the first is due because we are called
        ready = []
        for due, value in queue:
            if due > now:
                break
            ready.append(value)
        return ready


def delay(duetime: Time, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Shift the sequence in time; an error is not delayed.

    >>> from reliable_rx.testing import diagram
    >>> diagram(delay(2.0), "-1-2---|")
    -1-2---|
    ---1-2---|

    *State*: the elements on their way with their due times, bounded by `Limits.queue_items_max`, and one timer.
    """
    return Delay(duetime, scheduler)


@frozen
class DelaySubscription(Stage, name="delay_subscription"):
    roles = True
    late = (0, 1)
    """The source, and what it waits for. RxPY sends each element through one more action, and so must we."""

    scheduler_default = "immediate"
    leaves_first = True

    @dataclass(slots=True)
    class State:
        queue: deque[Sequence[Any]] = field(default_factory=deque)
        next_tag: int = 0
        stopped: bool = False

    def on_start(self, cx: Context) -> None:
        cx.subscribe(1)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self.on_batch(cx, port, (value,))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if port == 1:
            cx.unsubscribe(1)
            if not cx.runs(0):  # it does where an edit has put us behind what runs
                cx.subscribe(0)
            return
        state = cx.state
        state.queue.append(tuple(values))
        check_queue(state.queue, cx)
        state.next_tag += 1
        cx.soon(state.next_tag)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        cx.emit_all(state.queue.popleft())
        if cx.goes_on(state) and state.stopped and not state.queue:
            cx.complete()

    def on_adopted(self, cx: Context, before: Before) -> None:
        begins_alone(cx, before, ended=cx.state.stopped)
        cx.state.stopped = cx.state.stopped and not cx.runs(0)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.stopped = True
        if not cx.state.queue:
            cx.complete()


def delay_subscription(duetime: Time, scheduler: SchedulerBase | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Subscribe after *duetime* seconds (or at a date) instead of at once.

    >>> from reliable_rx.testing import diagram
    >>> diagram(delay_subscription(2.0), "-1-2-3-|")
    -1-2-3-|
    ---2-3-|

    *State*: one timer, then what came in one moment, bounded by `Limits.queue_items_max`.
    """
    from reliable_rx.creation import timer

    return lambda source: apply(DelaySubscription(), source, timer(duetime, scheduler=scheduler))


@frozen
class Timeout(Waits, name="timeout"):
    free = ("duetime",)
    roles = True
    late = (0, 1)
    lends_scheduler = (1,)
    leaves_first = True
    duetime: Time
    scheduler: SchedulerBase | None = None

    def on_adopted(self, cx: Context, before: Before) -> None:
        begins_alone(cx, before, ended=False)

    def on_start(self, cx: Context) -> None:
        self._wind(cx)
        cx.subscribe(0)

    def _wind(self, cx: Context) -> None:
        cx.schedule(due_from(cx.now, self.duetime), "late")

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.emit(value)
        if port == 0:
            self._wind(cx)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        cx.emit_all(values)
        if port == 0:
            self._wind(cx)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.subscribe(1)  # first, as RxPY does: both may read what is shared, which goes on then
        if cx.due(tag) is None:  # else it has begun anew
            cx.unsubscribe(0)


def timeout(
    duetime: Time, other: Observable[A] | None = None, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Switch to *other* (by default: fail) when no element has come for *duetime* seconds.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(timeout(2.0, rx.of(8, 9)), "-1-2----3-|")
    -1-2----------3-|
    -1-2-(8 9 |)

    *State*: one timer.
    """
    from reliable_rx.creation import throw

    fallback = throw(Exception("Timeout")) if other is None else other
    return lambda source: apply(Timeout(duetime, scheduler), source, fallback)


@frozen
class Sample(Stage, name="sample"):
    roles = True
    ends_with_first = True

    @dataclass(slots=True)
    class State:
        value: Any = NotSet
        at_end: bool = False

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.at_end = not cx.runs(0)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        if port == 0:
            state.value = value
            return
        value, state.value = state.value, NotSet
        if value is not NotSet:
            cx.emit(value)
        if state.at_end:
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 0:
            cx.state.at_end = True
        else:
            self.on_next(cx, port, None)


@frozen
class SampleBy(Sample, name="sample"):
    """The same by a sequence, where RxPY leaves it to the two sequences to take turns."""

    locks = False


def sample(
    sampler: Relative | Observable[Any], scheduler: SchedulerBase | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Emit the latest element at every tick of *sampler* (seconds, or a sequence), if there is a new one.

    >>> from reliable_rx.testing import diagram
    >>> diagram(sample(3.0), "-12---3-|")
    -12---3-|
    ---2--3--|

    *State*: the latest element.
    """
    from reliable_rx.creation import interval

    ticks = sampler if isinstance(sampler, Observable) else interval(sampler, scheduler)
    op = SampleBy() if isinstance(sampler, Observable) else Sample()
    return lambda source: apply(op, source, ticks)
