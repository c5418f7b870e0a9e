"""Reading the time of an event with the function that the user has given to its source.

What that function returns is anybody's object: here it becomes a plain float, or is refused. A time moves the engine's
clock and is stored with it, so that what is no float (a `Decimal`, a number of 400 digits, an object that agrees to
every comparison) would spoil the arithmetic of every query, and an infinite one would leave no time to go on at.
Rejected: taking a `datetime` as the clocks of queries do (a source's function is called for each event, and a naive
one would be another time on another computer).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from math import inf, isfinite
from numbers import Real
from typing import Any

from hosting.sources.bad_records import reason_of
from hosting.sources.decoding import shown
from reliable_rx.errors import SourceFailed
from reliable_rx.event_time import ZONELESS


def time_of(timestamp: Callable[[Any], float], value: Any) -> float:
    """Return the time of an event. *Raises* `TypeError` or `ValueError` for what is none, and what *timestamp* raises.

    >>> time_of(lambda event: event["at"], {"at": 7})
    7.0
    """
    return checked(timestamp(value))


def checked(found: Any) -> float:
    """Return what a function has said as a time. *Raises* `TypeError` or `ValueError` for what is none.

    >>> checked(True), checked(float("nan"))
    Traceback (most recent call last):
    ValueError: nan is no time
    """
    if type(found) is not float:
        if not isinstance(found, (Real, Decimal)):
            raise TypeError(f"it is a number of seconds, got {shown(found)}{_remedy(found)}")
        found = plain_float(found)
    if not isfinite(found):
        raise ValueError(f"{shown(found)} is no time")
    return found  # type: ignore[no-any-return]


def _remedy(found: Any) -> str:
    if not isinstance(found, datetime):
        return ": let it return a float"
    return f", which {ZONELESS}, and return its timestamp()" if found.tzinfo is None else ": return time.timestamp()"


def plain_float(number: Any) -> float:
    """Return *number* as a float, infinite if it is too large for one.

    >>> plain_float(True), plain_float(10**400)
    (1.0, inf)
    """
    try:
        return float(number)
    except OverflowError:
        return inf


def without_time(source: str, partition: str, position: int, error: BaseException) -> SourceFailed:
    """Return the failure of a source at an event whose time cannot be read because of *error*."""
    return SourceFailed(
        f"{source} partition {partition}: the time of id {position:,} cannot be read: {reason_of(error)}; mend "
        f"`timestamp` (a file or a topic is read past it with on_bad_record='skip' or 'dead_letter')",
        source=source,
        partition=partition,
        position=position,
    )
