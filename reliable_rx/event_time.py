"""Event time: how a standing query reads the time of its events, and how long it waits for those that come late.

This is a parameter and nothing runs here: the host that is given it keeps the query's clock at the *watermark*, the
time up to which it believes to have seen everything. Rejected: timestamps inside operators (each would need a
variant) and a flag on the source (two queries may read one source under different clocks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from math import inf, isfinite
from numbers import Real
from typing import Any

from reliable_rx.class_of import name_of
from reliable_rx.operators.contract.arguments import check_function, cut
from reliable_rx.operators.contract.choices import Late, check_choice, names_keywords

Timestamp = Callable[[Any], Any]
ZONELESS = "says no time zone: give one, such as time.replace(tzinfo=timezone.utc)"
"""What is said of a time that would be another one on another computer."""


@dataclass(frozen=True, eq=False)
class EventTime:
    """The clock of a standing query that follows its events; made by `event_time`."""

    timestamp: Timestamp | Mapping[str, Timestamp]
    lateness_s: float
    idle_s: float
    late: Late
    ahead_max_s: float = inf

    def of(self, source: str) -> Timestamp | None:
        """Return what reads the time of the events of *source*; None if nothing does."""
        return self.timestamp.get(source) if isinstance(self.timestamp, Mapping) else self.timestamp

    def stamps(self, source: str, values: Sequence[Any]) -> list[float]:
        """Return the times of *values* in seconds. *Raises* `TypeError` or `ValueError` for what is no time."""
        read = self.of(source)
        if read is None:
            raise TypeError(f"no timestamp function for {source!r}: add it to the mapping given to event_time")
        found = [read(value) for value in values]
        if not set(map(type, found)) <= {float}:
            found = [seconds(each) for each in found]
        if not isfinite(sum(found)):
            for each in found:
                check_finite(each)
        return found


@names_keywords
def event_time(
    timestamp: Timestamp | Mapping[str, Timestamp],
    *,
    lateness_s: float | timedelta = 5.0,
    idle_s: float | timedelta = 60.0,
    late: Late = "drop",
    ahead_max_s: float | timedelta = inf,
) -> EventTime:
    """Let the clock of a query follow its events.

    *timestamp* returns the time of an event, in seconds or as a `datetime`; for several sources it may be a mapping
    from a source's name to such a function. The clock is the watermark: the smallest, over the partitions of the
    query's sources, of the largest time seen less *lateness_s*. A partition that has been silent for *idle_s* no longer
    holds the clock back, nor does one that has ended. An event behind the clock is *late*: ``"drop"`` counts it,
    ``"keep"`` hands it over at the clock's time, ``"side"`` sends it to the stream ``NAME.late``. An event that is more
    than *ahead_max_s* ahead of the computer's clock has no time that could be believed: it is an error in the query's
    function, dealt with by its policy, and moves no clock. Durations are seconds, or each a `timedelta`.

    >>> event_time(lambda event: event["at"], lateness_s=10.0).late
    'drop'
    """
    if not (callable(timestamp) or isinstance(timestamp, Mapping)):
        raise TypeError(f"timestamp is a function from an event to its time, or a mapping of them, got {timestamp!r}")
    for each in timestamp.values() if isinstance(timestamp, Mapping) else (timestamp,):
        check_function("timestamp of event_time", each, "value")
    lateness_s, idle_s = duration_s("lateness_s", lateness_s), duration_s("idle_s", idle_s)
    ahead_max_s = duration_s("ahead_max_s", ahead_max_s)
    if not (lateness_s >= 0 and isfinite(lateness_s)):
        raise ValueError(f"lateness_s must be a number of seconds, zero or more, got {lateness_s!r}")
    if not idle_s > 0:
        raise ValueError(f"idle_s must be a positive number of seconds, got {idle_s!r}")
    if not ahead_max_s >= 0:
        raise ValueError(f"ahead_max_s must be a number of seconds, zero or more, got {ahead_max_s!r}")
    check_choice("late", late, Late)
    read = dict(timestamp) if isinstance(timestamp, Mapping) else timestamp
    return EventTime(read, lateness_s, idle_s, late, ahead_max_s)


def duration_s(name: str, value: Any) -> float:
    """Read a duration. *Raises* `TypeError` for what is none.

    >>> duration_s("lateness_s", timedelta(minutes=1)), duration_s("lateness_s", 5)
    (60.0, 5.0)
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number of seconds or a timedelta, got {cut(value)}")
    return float(value)


def seconds(time: Any) -> float:
    """Read a time: seconds, or a date with its time zone.

    >>> from datetime import UTC
    >>> seconds(datetime(1970, 1, 2, tzinfo=UTC))
    86400.0
    """
    if not isinstance(time, datetime):
        if isinstance(time, (int, float)):
            return float(time)
        if hasattr(type(time), "__float__") and not is_datetime64(time):
            return float(time)
        raise TypeError(f"the time of an event is a number of seconds or a datetime, got {cut(time)}: {remedy(time)}")
    if time.tzinfo is None:
        raise ValueError(f"{time} {ZONELESS}")
    return time.timestamp()


def remedy(time: Any) -> str:
    """Say how what is no time becomes one."""
    if time is None:
        return "return one"
    if isinstance(time, str):
        return "parse it"
    if isinstance(time, date):
        return "give it a time of day and a zone, as datetime.combine(day, time(), timezone.utc) does"
    if is_datetime64(time):
        return "return (time - numpy.datetime64(0, 's')) / numpy.timedelta64(1, 's')"
    return "convert it"


def is_datetime64(time: Any) -> bool:
    """Whether *time* is one of NumPy, whose number may be of anything between nanoseconds and years."""
    return name_of(type(time)) == "datetime64"


def check_finite(time: float) -> None:
    """*Raises* `ValueError` for what is not a moment."""
    if not isfinite(time):
        raise ValueError(f"the time of an event must be a finite number of seconds, got {time!r}")


@lru_cache(maxsize=1024)
def clock_id(clock: EventTime) -> str:
    """Return a name that is equal for clocks that do the same, in any process."""
    from reliable_rx.query.identity import hash_of

    bounded = (clock.ahead_max_s,) if clock.ahead_max_s < inf else ()
    return hash_of((clock.timestamp, clock.lateness_s, clock.idle_s, clock.late, *bounded))
