"""Partitions that have events, and that nobody has listened to for a while: that is no silence.

A turn may be long, a call may keep every event waiting, and of many partitions each has its turn seldom. A partition
that waits meanwhile is not idle, so event time must not go on without it: its events would come late and be dropped.
So before a turn at which a silence is over, whatever turn it is, the partition is asked once whether it has events.
Those that are silent are asked again when one of them speaks: what they bring together is in the order of its times.
Where a query is silent, all partitions are asked that have not had their turn: it may read them.
The answer is a turn, so that a replay knows it. So is what a start says of the process before: until when it is known
to have run, from which the times count that an edit gives (`TimeMoves.edited_at`).
Rejected: shifting silence by the length of each turn (under load a partition that is silent would never be idle);
asking when the timer of a silence is due (partitions that stand level have none, and answers to calls come before it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from hosting.engine.time_moves import MOVING, Stop
from hosting.engine.turns import Appear, Create, Dispose, Events, Expect, Fail, Resume, Turn
from hosting.sources.pushed import LogUnavailable
from reliable_rx.errors import SourceFailed

if TYPE_CHECKING:
    from hosting.edges.ingress import Intake
    from hosting.engine.event_time.watermark import Watermark
    from hosting.engine.event_time.watermarks import Watermarks
    from hosting.engine.hosted_query import Standing
    from hosting.engine.suspended import SuspendedQueries

HEARD = 0.25
"""For such a part of what counts as silence a partition that was listened to is not asked for the sake of a query."""
Channel = tuple[str, str]
"""A source and its partition."""


class Hosting(Protocol):
    """What has queries and their watermarks."""

    stop: Stop | None
    standing: dict[str, Standing]
    suspended: SuspendedQueries
    watermarks: Watermarks


class Standstill:
    """Time in which no turn can be taken, which is no silence of partitions; before the first step it has no begin.

    A process that takes no step has not run: it was only looked at, or has mended a store.
    """

    def __init__(self, engine: Hosting, intake: Intake, now: Callable[[], float]) -> None:
        self._engine, self._intake, self._now = engine, intake, now
        self.since: float | None = -math.inf
        self.ran_until = -math.inf
        """Until when the process before is known to have run."""
        self._is_starting, self._is_told = True, False

    def begin(self) -> None:
        """No turn can be taken from now on, or already."""
        self._is_starting = False
        if self.since is None:
            self.since = self._now()

    def overslept(self, until: float) -> None:
        """Note that nobody has listened since *until*, when the host was to look, if that is long ago.

        The process has stood still, or the computer's clock was set forward.
        """
        marks = self._engine.watermarks
        if marks and self.since is None and self._now() - until > marks.idle_s / 2:
            self.since = until

    def over(self, turn: Turn | None = None) -> Resume | None:
        """Return the turn to be taken before *turn*, or the first one of a step; None if there is nothing to tell.

        It says that no turn could be taken, or who is unheard, and until when a process has run before an edit.
        """
        self._is_starting = self._is_starting and turn is not None
        if self._is_starting and turn is not None:
            return self._at_start(turn)
        since, self.since, marks = self.since, None, self._engine.watermarks
        if since is None:
            return self._edited_now(unheard(self._intake, marks, turn), turn)
        time, is_told = self._now(), since == -math.inf and self._is_told
        return self._edited_now(Resume(time) if time - since > marks.idle_s / 2 and not is_told else None, turn)

    def runs_until(self) -> float:
        """Return until when the app has run."""
        return self.ran_until if self._is_starting else self._now()

    def _at_start(self, turn: Turn) -> Resume | None:
        """Return what is told once at a start; who only looks leaves no turn."""
        if self._is_told:
            return None
        self._is_told, time = True, self._now()
        if type(turn) not in MOVING and (self._engine.standing or self._engine.suspended):
            return Resume(time, ran_until=min(self.ran_until, time))
        return Resume(time) if self._engine.watermarks else None

    def _edited_now(self, found: Resume | None, turn: Turn | None) -> Resume | None:
        """Have *found* say that the process runs, if that is to be known before *turn*."""
        stop = self._engine.stop
        if stop is None or not isinstance(turn, Create | Dispose | Fail) or turn.time <= stop.time:
            return found
        return (found or Resume(turn.time, ()))._replace(ran_until=turn.time)


def unheard(intake: Intake, watermarks: Watermarks, turn: Turn | None) -> Resume | None:
    """Return the turn that says, before *turn*, which partitions are not silent though they have not had their turn."""
    if turn is None or isinstance(turn, (Resume, Appear, Expect)) or intake.event_time:
        return None
    speaks = (turn.source, turn.partition) if isinstance(turn, Events) else None
    silent = {key for each in watermarks.by_name.values() for key in _fallen_silent(each, turn.time, speaks)}
    if not silent:
        return None
    asked = silent & intake.partitions.keys()
    if len(asked) < len(silent):  # what a query reads may have something, too
        since = turn.time - HEARD * watermarks.idle_s
        asked |= {(each.source, each.name) for each in intake.order if each.heard_at < since}
    found = tuple(sorted(key for key in asked if key == speaks or _has_some(intake, key)))
    for key in found:
        intake.partitions[key].heard_at = turn.time
    return Resume(turn.time, found) if found else None


def _fallen_silent(watermark: Watermark, time: float, speaks: Channel | None) -> Iterator[Channel]:
    """Yield the partitions whose silence is over at *time*, each once, and all again when one of them *speaks*."""
    idle_s, marks = watermark.spec.idle_s, watermark.marks
    spoke = None if speaks is None else marks.get(speaks)
    again = spoke is not None and not spoke.ended and time >= spoke.seen + idle_s
    for key, mark in marks.items():
        if time >= mark.seen + idle_s and not mark.ended and (mark.asked != mark.seen or (again and key != speaks)):
            mark.asked = mark.seen
            yield key


def _has_some(intake: Intake, channel: Channel) -> bool:
    """Whether a partition has something to be taken; what cannot be read is told when its turn comes."""
    partition = intake.partitions.get(channel)
    if partition is None or partition.ended or channel in intake.unknown or intake.outage.pauses:
        return False
    with suppress(SourceFailed, LogUnavailable):
        return partition.reader is not None and partition.fill(intake.look_ahead)
    return False
