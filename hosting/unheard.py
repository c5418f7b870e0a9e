"""Partitions that have events, and that nobody has listened to for a while: that is no silence.

A turn may be long, a call may keep every event waiting, and of many partitions each has its turn seldom. A partition
that waits meanwhile is not idle, so event time must not go on without it: its events would come late and be dropped.
Whether it has events is asked when a timer is due that may end its silence, and is a turn, so that a replay knows it.
Rejected: shifting silence by the length of each turn (under load a partition that is silent would never be idle).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosting.sources.pushed import LogUnavailable
from hosting.turn import Resume
from reliable_rx.errors import SourceFailed

if TYPE_CHECKING:
    from hosting.intake import Intake
    from hosting.partition import Partition

HEARD = 0.25
"""For such a part of what counts as silence a partition that was listened to is not asked again."""


def unheard(intake: Intake, time: float, idle_s: float) -> Resume | None:
    """Return the turn that says which partitions are not silent though they have not been listened to."""
    since = time - HEARD * idle_s
    found = [each for each in intake.order if each.heard_at < since and not each.ended and _has_some(intake, each)]
    for each in found:
        each.heard_at = time
    return Resume(time, tuple((each.source, each.name) for each in found)) if found else None


def _has_some(intake: Intake, partition: Partition) -> bool:
    """Whether *partition* has something; what cannot be read is told when its turn comes."""
    with suppress(SourceFailed, LogUnavailable):
        return not intake.outage.pauses and partition.fill(intake.look_ahead)
    return False
