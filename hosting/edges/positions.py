"""Where to begin and to end in a partition, as people say it: a position, ``earliest``, ``latest``, or a time.

A source that knows how far its partitions reach (`reliable_rx.reliable.Bounded`) can answer the two words, one that can
look events up (`Findable`) a time. What a source cannot answer is refused here, before anything is read or written.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from reliable_rx.errors import PositionUnavailable
from reliable_rx.reliable import Bounded, Findable, Source

Word = Literal["earliest", "latest"]
Point = int | datetime | Word
WORDS: dict[str, Word] = {"earliest": "earliest", "latest": "latest"}


def read_point(text: str) -> Point:
    """Read what somebody wrote on a command line; a time without a zone is UTC.

    >>> read_point("1200"), read_point("latest"), read_point("2013-01-01T05:00").isoformat()
    (1200, 'latest', '2013-01-01T05:00:00+00:00')

    *Raises* `ValueError`.
    """
    if text in WORDS:
        return WORDS[text]
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        what = "is no position (a whole number), earliest, latest, or time such as 2013-01-01T05:00"
        raise ValueError(f"{text!r} {what}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def position_of(source: Source, partition: str, point: Point) -> int:
    """Return the position that *point* is in *partition* now.

    >>> from hosting import ListSource
    >>> position_of(ListSource([1, 2, 3]), "0", "earliest")
    0

    *Raises* `PositionUnavailable` if *source* cannot tell, or has no such position.
    """
    if isinstance(point, datetime):
        if not isinstance(source, Findable):
            raise _unknown(partition, f"the source cannot look up a time such as {point}; give a position")
        return source.find(partition, point.timestamp())
    bounds = bounds_of(source, partition)
    if point == "earliest":
        return 0 if bounds is None else bounds[0]
    if bounds is None:
        if point == "latest":
            raise _unknown(partition, "the source cannot say where its partitions end; give a position")
        return point
    first, end = bounds
    if point == "latest":
        return end
    if not first <= point <= end:
        message = f"partition {partition!r} has positions {first:,} to {end:,}, not {point:,}; give one of these"
        raise PositionUnavailable(message, wanted=point, first=first, end=end)
    return point


def bounds_of(source: Source, partition: str) -> tuple[int, int] | None:
    """Return the first position and the one behind the last, None if *source* cannot tell."""
    return source.bounds(partition) if isinstance(source, Bounded) else None


def _unknown(partition: str, why: str) -> PositionUnavailable:
    return PositionUnavailable(f"partition {partition!r}: {why}", wanted=None, first=None, end=None)
