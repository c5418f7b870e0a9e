"""What holds the clock of a query back, read off its watermark; nothing is kept for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hosting.engine.event_time.watermark import INFINITE, Watermark

if TYPE_CHECKING:
    from hosting.engine.event_time.runtime import EventClock


class HeldBack(NamedTuple):
    """The partition that a query's watermark waits for, while *waiting* events wait for the watermark.

    *since* is the time of its last event on the computer's clock (or of its appearance), *behind_s* how far it is
    behind the newest event of all; infinite if it has not had one. It is left out when it has been silent for *idle_s*.
    """

    source: str
    partition: str
    since: float
    behind_s: float
    idle_s: float
    waiting: int

    def __str__(self) -> str:
        is_new = self.behind_s == INFINITE
        what = "has given no event yet" if is_new else f"is {self.behind_s:,.1f} s of event time behind"
        return f"{self.source}/{self.partition}, which {what}"


def held_back(clock: EventClock) -> HeldBack | None:
    """Return what holds a query's clock back; None if no event waits for it, or nothing does."""
    waiting = len(clock.waiting)
    if not waiting or "watermark" not in clock.__dict__:
        return None
    found = lowest(clock.watermark)
    if found is None:
        return None
    (source, partition), high, seen = found
    mark = clock.watermark
    return HeldBack(source, partition, seen, mark.highest - high, mark.spec.idle_s, waiting)


def lowest(mark: Watermark) -> tuple[tuple[str, str], float, float] | None:
    """Return the partition that holds *mark* back, its newest time, and when it last spoke; None if none is behind."""
    now, idle_s = mark.engine.clock, mark.spec.idle_s
    marks = ((each.high, each.seen, key) for key, each in mark.marks.items() if not each.ended)
    live = (each for each in marks if now < each[1] + idle_s)
    found = min(live, default=None)
    if found is None or found[0] >= mark.highest:
        return None
    return found[2], found[0], found[1]
