"""Where to begin in a source that was never read: at its earliest event, its latest, a position, or a time.

A starting point counts once: where there is neither a checkpoint nor a committed position. What it resolves to is
written down (in the journal of an evaluator, among the committed positions of a group) before anything is read from
there, since "the latest" is another place a minute later. So it is resolved for every partition that the source lists
at that moment, also those that must wait for others. A partition that appears afterwards begins at its earliest event:
all it has came after the start, and to skip to its end would lose what was written before anybody looked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime

from hosting.edges.positions import Point, position_of
from reliable_rx.errors import PositionUnavailable
from reliable_rx.reliable import Bounded, Findable, Source

ENDLESS = sys.maxsize
"""The end of what can be had in any amount at any time."""

Start = Point | Mapping[str, Point]
"""One point for all partitions, or one for each; those without begin at their earliest event."""


def resolve(source: Source, partition: str, start: Start) -> int:
    """Return the position at which to begin *partition* of *source*.

    >>> from datetime import UTC
    >>> from hosting.sources import ListSource
    >>> source = ListSource([3.0, 5.0, 9.0], timestamp=lambda value: value)
    >>> [resolve(source, "0", start) for start in ("earliest", "latest", 1, datetime.fromtimestamp(4.0, UTC))]
    [0, 3, 1, 1]

    *Raises* `PositionUnavailable` for a point that the source does not have or cannot tell.
    """
    point = start.get(partition, "earliest") if isinstance(start, Mapping) else start
    position = position_of(source, partition, point)
    if position == ENDLESS:
        message = f"partition {partition!r} has no end to begin at; name a position or a time"
        raise PositionUnavailable(message, wanted=None, first=0, end=None)
    return position


def check_start(source: Source, start: Start) -> None:
    """Refuse what is no starting point, or none that *source* could find; asks the source nothing.

    *Raises* `ValueError`.
    """
    for point in start.values() if isinstance(start, Mapping) else (start,):
        if isinstance(point, datetime):
            _need(isinstance(source, Findable), source, "begin at a time", "find")
            if point.tzinfo is None:
                raise ValueError(f"{point} says no time zone; give one, such as datetime(..., tzinfo=UTC)")
        elif point == "latest":
            _need(isinstance(source, Bounded), source, "begin at its latest", "bounds")
        elif point != "earliest" and (not isinstance(point, int) or isinstance(point, bool) or point < 0):
            raise ValueError(
                f"{point!r} is no starting point: 'earliest', 'latest', a position from 0 on, or a datetime"
            )


class Starts:
    """Where partitions of sources begin: of a source that begins, where its declaration says; else at the earliest."""

    def __init__(self) -> None:
        self.declared: dict[str, Start] = {}
        self.beginning: set[str] = set()
        """Sources that were never read, and of which no turn has told yet."""

    def declare(self, name: str, source: Source, start: Start | None) -> None:
        """*Raises* `ValueError` for a *start* that the source cannot find."""
        self.beginning.add(name)
        if start is not None:
            check_start(source, start)
            self.declared[name] = start

    def resolve(self, name: str, source: Source, partition: str, *, is_listed: bool) -> int:
        """Return the position at which to begin a partition; of a source that lists none, at 0, without asking it."""
        start = self.declared.get(name) if name in self.beginning else "earliest"
        if start is None:
            if not is_listed:
                return 0
            start = "earliest"
        return resolve(source, partition, start)


def _need(holds: bool, source: Source, what: str, method: str) -> None:
    if not holds:
        kind = type(source).__name__
        raise ValueError(f"a {kind} cannot {what}: it has no method `{method}`; name a position, or 'earliest'")
