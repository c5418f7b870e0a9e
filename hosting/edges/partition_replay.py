"""The turns of a journal, taken from a partition once more: the same events, the same records that could not be read.

A replay waits for what is on its way, leaves out what the first run left out, and leaves alone what lies behind the end
that is in the journal: that is another turn's.
"""

from __future__ import annotations

import time as wall
from collections.abc import Sequence
from typing import Any

from hosting.edges.partition import Partition
from hosting.engine.turns import Events, Rejects
from hosting.sources.polling import Pace
from hosting.sources.pushed import LogUnavailable
from reliable_rx.class_of import is_a
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.reliable import Rejected

COMING_S = 60.0
"""How long a replay waits for what is known to be on its way."""
QUIET_S = 2.0
"""How long it waits for a reader that has nothing, and does not say that more is coming."""
PAUSE_S, PAUSE_S_MAX = 0.001, 0.05


def replay_events(
    partition: Partition,
    first: int,
    count: int,
    time: float,
    *,
    ended: bool,
    singly: bool,
    end: Sequence[Exception | None] = (),
) -> Events:
    """Take exactly the events of a journalled turn once more. *Raises* `PositionUnavailable`.

    *end* has the error, if any, with which it *ended*; a journal of before does not say that.
    """
    values, times, passed = list[Any](), list[float](), list[Rejected]()
    while len(values) < count or partition.position < first:  # ids of a turn are consecutive; skipped ones lie before
        passed += pass_over(partition)
        before = partition.position
        arrived = has_arrived(partition, max(1, count - len(values))) and partition.waiting
        if arrived and partition.position == first + len(values):
            taken = partition.take(count - len(values), time)
            values += taken.values
            times += taken.times or ()
        elif arrived or not before < partition.position <= first:
            break
    passed += pass_over(partition)
    if partition.position != first + count or len(values) != count:
        raise PositionUnavailable(
            f"{partition.source} partition {partition.name}: a turn of the journal took ids {first:,} to "
            f"{first + count:,}, but the source now gives only {len(values):,} of them; {why_less(passed, first)}",
            wanted=first + count,
            first=first,
            end=partition.position,
        )
    partition.ended = ended  # since then the source may have ended behind these events: that is another turn's
    error = replay_end(partition, end) if ended else None
    read = None if partition.timestamp is None else times
    return Events(partition.source, partition.name, first, values, time, ended, error, singly, read)


def replay_end(partition: Partition, end: Sequence[Exception | None]) -> Exception | None:
    """Let the reader come to its end, if it can, as it may let go of something there; return how that was."""
    position = partition.position
    try:
        partition.fill(1) if end else has_arrived(partition, 1)
    except ReliableRxError as failed:
        if not end and (not is_a(failed, SourceFailed) or "method" in failed.fields):
            raise
        # else a record that cannot be read lies behind the end, and was not there then
    partition.has_grown = partition.waiting > 0
    partition.position, partition.ahead, partition.start = position, [], 0  # whatever lies behind the end
    partition.rejected = ()
    return end[0] if end else partition.finished.error if partition.finished is not None else None


def pass_over(partition: Partition) -> list[Rejected]:
    """Leave out, as the first run did, what lies before the position: the journal has no turn of it; return it."""
    passed = [each for each in partition.rejected if each.position < partition.position]
    partition.passed += len(passed)
    partition.rejected = tuple(each for each in partition.rejected if each.position >= partition.position)
    return passed


def replay_rejects(partition: Partition, first: int, behind: int, count: int, time: float) -> Rejects:
    """Take the records of a journalled turn that could not be read once more. *Raises* `PositionUnavailable`."""
    start = partition.safe_position
    records = rejected_before(partition, behind)
    while partition.safe_position < behind:  # gaps come with a record, or by themselves, as the reader is asked
        before = partition.position
        arrived = has_arrived(partition, max(1, count - len(records))) and partition.rejected
        if not arrived and partition.position == before:
            break
        records += rejected_before(partition, behind)
    is_other = any(each.position < first for each in records)
    now = f"{len(records):,}" if len(records) != count else "others"
    if is_other or len(records) != count or not start <= behind <= partition.safe_position:
        raise PositionUnavailable(
            f"{partition.source} partition {partition.name}: a turn of the journal took {plural(count, 'record')} that "
            f"could not be read, before id {behind:,}, but the source now gives {now}; let it read as it "
            f"did before, until the next clean stop",
            wanted=first,
            first=start,
            end=partition.position,
        )
    partition.passed += len(records)
    return Rejects(partition.source, partition.name, first, behind, records, time)


def rejected_before(partition: Partition, behind: int) -> list[Rejected]:
    """Take the records that could not be read, of ids before *behind*."""
    found = [each for each in partition.rejected if each.position < behind]
    if partition.rejected:
        partition.rejected = partition.rejected[len(found) :]
        partition.reached = min(partition.position, behind)
    return found


def has_arrived(partition: Partition, count_max: int) -> bool:
    """Read ahead, waiting for what is known or may be on its way; return whether something is there."""
    since, pace = wall.monotonic(), Pace(first_s=PAUSE_S, most_s=PAUSE_S_MAX)
    pause_s = pace.begin()
    while True:
        position, behind = partition.position, partition.reread.behind
        try:
            if partition.fill(count_max):
                return True
            wait_s = COMING_S if partition.coming else QUIET_S
        except LogUnavailable:
            if wall.monotonic() - since > COMING_S:
                raise
            wait_s = COMING_S
        if partition.position > position:
            return False
        if partition.reread.behind > behind:
            since, pause_s = wall.monotonic(), pace.begin()
        elif wall.monotonic() - since > wait_s:
            return False
        else:
            wall.sleep(pause_s)
            pause_s = pace.nothing()


def why_less(passed: Sequence[Rejected], first: int) -> str:
    """Say why events from id *first* on are missing, as far as it is known, and what a source must do."""
    unread = next((each for each in passed if each.position >= first), None)
    if unread is None:
        return "it must keep what has not been acknowledged"
    return (
        f"id {unread.position:,}, which was read then, cannot be read: {unread.error}; let it read as it did before, "
        f"until the next clean stop"
    )
