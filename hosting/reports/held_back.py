"""Watch over the clocks of queries that are held back: the partition that a watermark waits for, and since when.

A query on event time emits nothing until every partition that it reads has spoken, or has been silent for *idle_s*. To
who looks at it that is "0 out", without a reason. It is read off the watermarks; nothing is kept for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from hosting.engine.event_time.held_back import held_back
from hosting.engine.event_time.watermark import Watermark
from hosting.reports.incidents import Incidents

if TYPE_CHECKING:
    from hosting.edges.ingress import Intake
    from hosting.engine.event_time.runtime import EventClock

HELD_S = 10.0
"""How long a clock stands still, while events wait for it, before that is told."""
STILL_S = 2.0
"""How long it stands still before figures and displays show it."""
MEMBERS_LOOKED_MAX = 1000


class HeldBackWatch:
    """Reports clocks that stand still for `HELD_S` while events wait for them, and that they move again."""

    def __init__(self, incidents: Incidents) -> None:
        self.incidents = incidents
        self._since: dict[str, tuple[float, float]] = {}
        """By watermark: where it stood when it last was seen to move, and when that was."""
        self._told: dict[str, str] = {}
        self.still: dict[str, str] = {}
        """Queries whose clocks stand still, and what for; one of those that share a clock."""

    def look(self, now: float, watermarks: dict[str, Watermark], intake: Intake) -> None:
        """Look at all clocks; *now* is in seconds that only elapse."""
        seen = _standing(watermarks, intake)
        for name in self._since.keys() - seen.keys():
            del self._since[name]
            self._resolve(name)
        still = {}
        for name, (time, subject, what, is_worth_telling) in seen.items():
            before = self._since.get(name)
            if before is None or before[0] != time:
                self._since[name] = (time, now)
                self._resolve(name)
                continue
            if now - before[1] >= STILL_S:
                still[subject] = what
            if now - before[1] >= HELD_S and is_worth_telling and name not in self._told:
                self._told[name] = subject
                self.incidents.report(
                    "watermark", subject,
                    f"events wait for {what}; nothing comes out before. Have it give events or end, or lower idle_s",
                    level=logging.WARNING,
                )  # fmt: skip

        self.still = still

    def _resolve(self, name: str) -> None:
        if (subject := self._told.pop(name, None)) is not None:
            self.incidents.resolve("watermark", subject)


def _standing(watermarks: dict[str, Watermark], intake: Intake) -> dict[str, tuple[float, str, str, bool]]:
    """Return the clocks for which events wait: where each stands, for whom, what for, and whether that is worth a line.

    Inputs that are all quiet are no trouble: another one must be ahead by a while, of event time or of the computer's.
    """
    found = {}
    for name, mark in watermarks.items():
        waits = next(_waiting(mark), None)
        held = None if waits is None else held_back(waits)
        if waits is not None and held is not None:
            ahead_s = max(held.behind_s, max(each.seen for each in mark.marks.values()) - held.since)
            found[name] = (mark.time, waits.standing.name, str(held), ahead_s >= HELD_S)
    if (silent := _silent(intake)) is not None:
        found[""] = (float(sum(each.position for each in intake.order)), "sources", silent, True)
    return found


def _waiting(mark: Watermark) -> Iterator[EventClock]:
    return (each for each in islice(mark.members, MEMBERS_LOOKED_MAX) if len(each.waiting))


def _silent(intake: Intake) -> str | None:
    """Name a partition for whose next event those of others wait, where turns are taken in the order of event time."""
    live = [each for each in intake.order if not each.ended] if intake.event_time else []
    silent = next((each for each in live if not each.waiting and each.finished is None), None)
    if silent is None or not any(each.waiting for each in live):
        return None
    return f"{silent.source}/{silent.name}, which gives none"
