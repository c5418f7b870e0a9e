"""Consecutive failures of partitions on one node: how often in a row, what was raised last, and when that is over.

A partition that fails is given back and opened again under the next epoch, so nothing in its lease remembers the
failure before. It is remembered here: the pause before the next attempt grows with it, the group is told, and after
some the partition goes to another node. It is over when the partition has run for longer than its last pause, or to its
end; what fails inside it meanwhile is told from then on. What is at work elsewhere is forgotten after a while, so that
this node may be asked again. Rejected: to call it over when the position has moved (in an evaluator of many partitions
one bad one fails for ever while the others move).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from hosting.partitioned.words import Failure, Partition
from hosting.reports.incidents import Incident, Incidents
from reliable_rx.errors import cut_middle

STEADY_S = 10.0
FORGET_S = 600.0
REPORTED_MAX = 256
"""So many are told to the group, which keeps them in its document."""
TOLD_MAX, TOLD_TOGETHER_MAX = 1_000, 60_000
"""How many characters it has of each, and of all: how a sentence begins, and its end, where the remedy is."""


@dataclass(slots=True)
class _Record:
    """What is known of one partition; *well_at*: when it will have run for long enough, while it runs.

    *inside* is what fails inside it while it runs: told in place of a *failure* to run it, once that is over.
    """

    failure: Failure
    at: float
    pause_s: float = 0.0
    well_at: float | None = None
    inside: Failure | None = None


class Failures:
    """What fails on one node. Times are of its steady clock.

    >>> failures, jfk = Failures(), Partition("flights", "JFK")
    >>> failures.failed(jfk, "the disk is full", now=0.0), failures.failed(jfk, "the disk is full", now=2.0)
    (1, 2)
    >>> failures.look(now=3.0, running={jfk}, held={jfk}), failures.report()[jfk].count
    (False, 2)
    >>> failures.look(now=3.0 + STEADY_S, running={jfk}, held={jfk}), failures.report()
    (True, {})
    """

    def __init__(self) -> None:
        self._records: dict[Partition, _Record] = {}

    def failed(self, partition: Partition, message: str, *, now: float) -> int:
        """Note that *partition* could not be run; return how often that was so in a row."""
        before = self._records.get(partition)
        count = 1 if before is None else before.failure.count + 1
        self._records[partition] = _Record(Failure(count, message), now)
        return count

    def paused(self, partition: Partition, pause_s: float) -> None:
        """Note how long it is left alone before the next attempt."""
        self._records[partition].pause_s = pause_s

    def inside(self, partition: Partition, found: Failure | None, *, now: float) -> bool:
        """Note what fails inside *partition*, which runs; None: nothing. Return whether that is news."""
        before = self._records.get(partition)
        if before is not None and before.failure.count:
            before.inside = found
            return False
        if found is None:
            return self._records.pop(partition, None) is not None
        self._records[partition] = _Record(found, now)
        return before is None or before.failure != found

    def look(self, *, now: float, running: Collection[Partition], held: Collection[Partition]) -> bool:
        """Forget what has run for long enough by *now*, and what was elsewhere for long; return whether any."""
        over = [each for each, record in self._records.items() if self._is_over(each, record, now, running, held)]
        for each in over:
            self._well(each, now, held=each in held)
        return bool(over)

    def ended(self, partition: Partition, *, now: float) -> None:
        """Note that *partition* was run to its end: it could be, after all. What failed inside it stays."""
        if partition in self.failing({partition}):
            self._well(partition, now, held=True)

    def _well(self, partition: Partition, now: float, *, held: bool) -> None:
        record = self._records.pop(partition)
        if held and record.inside is not None:
            self._records[partition] = _Record(record.inside, now)

    def _is_over(
        self,
        partition: Partition,
        record: _Record,
        now: float,
        running: Collection[Partition],
        held: Collection[Partition],
    ) -> bool:
        if partition not in held:
            return not record.failure.count or now - record.at >= FORGET_S
        if not record.failure.count:
            return False
        if partition not in running:
            record.well_at = None
        elif record.well_at is None:
            record.well_at = now + STEADY_S + record.pause_s
        return record.well_at is not None and now >= record.well_at

    def failing(self, held: Collection[Partition]) -> list[Partition]:
        """Return which of the partitions *held* could not be run when that was tried last."""
        return [each for each, record in self._records.items() if record.failure.count and each in held]

    def report(self) -> dict[Partition, Failure]:
        """Return what a beat says: `REPORTED_MAX` at most, those that failed most often first."""
        records = sorted(self._records.items(), key=lambda each: (-each[1].failure.count, each[0]))
        most = min(TOLD_MAX, TOLD_TOGETHER_MAX // max(1, min(len(records), REPORTED_MAX)))
        return {each: _told(record.failure, most) for each, record in records[:REPORTED_MAX]}


def _told(failure: Failure, most: int) -> Failure:
    return failure if len(failure.message) <= most else replace(failure, message=cut_middle(failure.message, most))


def inside(incidents: Incidents) -> Failure | None:
    """Return the worst that fails or waits in an evaluator, for the group to see; None: nothing.

    >>> found = Incidents()
    >>> found.report("sink", "orders", "the disk is full", level=30)
    >>> inside(found)
    Failure(count=0, message="waits: sink 'orders': the disk is full", warning=True)
    """
    return worst_of(incidents.open())


def worst_of(incidents: Iterable[Incident]) -> Failure | None:
    """Return the worst of *incidents*, for the group to see, a wait before what only warns; None: there are none."""
    found = sorted(incidents, key=lambda each: (each.level != "error", not each.waits))
    if not found:
        return None
    worst, more = found[0], f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
    what = "" if worst.level == "error" else "waits: " if worst.waits else "warns: "
    message = f"{what}{cut_middle(str(worst), TOLD_MAX - len(what) - len(more))}{more}"
    return Failure(0, message, warning=worst.level != "error")
