"""The ingress edge: partitions opened, read ahead, deduplicated by position, and handed over as turns.

Ids stop here. Each partition has one position, the next id to take; what a source gives twice is dropped by it, a
gap is an error. Under processing time partitions take turns; with event time (a source that has a *timestamp*) the
partition whose next event is the oldest goes first, so that a replayed week looks as it did.
"""

from __future__ import annotations

import logging
import time as wall
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hosting.turn import Events
from reliable_rx.errors import PositionUnavailable, SourceFailed, StoreUnavailable
from reliable_rx.reliable import Batch, Reader, SequencedEnd, Source, Waking

LOOK_AHEAD_MIN = 1024
LOG = logging.getLogger("reliable_rx")
LOOK_AHEAD_MAX = 4096
RUN_EVENTS_MAX = 128
COMING_POLL_S = 0.001
COMING_S = 60.0


@dataclass(slots=True, eq=False)
class Partition:
    """One partition of a source and how far it has been taken."""

    source: str
    name: str
    timestamp: Callable[[Any], float] | None
    position: int = 0
    reader: Reader | None = None
    ahead: list[Any] = field(default_factory=list)
    start: int = 0
    finished: Batch | None = None
    coming: bool = False
    ended: bool = False
    acknowledged: int = -1
    idle_since: float | None = None

    @property
    def waiting(self) -> int:
        """How many events have been read and not taken."""
        return len(self.ahead) - self.start

    def fill(self, count_max: int) -> bool:
        """Read ahead if nothing waits; return whether something does now."""
        if self.waiting or self.finished is not None or self.reader is None:
            return True
        batch = self.reader.fetch(count_max)
        self.ahead, self.start, self.coming = self._deduplicated(batch), 0, batch.coming
        if batch.ended or batch.error is not None:
            self.finished = batch
        return bool(self.ahead) or self.finished is not None

    def _deduplicated(self, batch: Batch) -> list[Any]:
        if batch.first == self.position:
            return batch.values if isinstance(batch.values, list) else list(batch.values)
        if batch.first > self.position >= batch.first - batch.skipped:
            self.position = batch.first
            return list(batch.values)
        if batch.first > self.position:
            raise PositionUnavailable(
                f"{self.source} partition {self.name}: wanted id {self.position:,}, but the source goes on at "
                f"{batch.first:,}; events were lost there",
                wanted=self.position,
                first=batch.first,
                end=batch.next,
            )
        return list(batch.values)[self.position - batch.first :]

    def take(self, count_max: int, time: float, *, singly: bool = False) -> Events:
        """Take at most *count_max* events as a turn."""
        start, values = self.start, self.ahead
        end = start + count_max
        if start or end < len(values):
            values = values[start:end]
        first, count = self.position, len(values)
        self.start = start + count
        self.position = first + count
        if self.finished is None or self.start < len(self.ahead):
            return Events(self.source, self.name, first, values, time, False, None, singly)
        self.ended = True
        return Events(self.source, self.name, first, values, time, True, self.finished.error, singly)

    def run_until(self, limit: float, count_max: int, *, included: bool) -> int:
        """How many of the waiting events are older than *limit*, or (*included*) as old; at least one."""
        count, timestamp = 1, self.timestamp
        if timestamp is None:
            return min(count_max, self.waiting)
        most, ahead, start = min(count_max, self.waiting), self.ahead, self.start
        while count < most and ((time := timestamp(ahead[start + count])) < limit or (included and time == limit)):
            count += 1
        return count

    @property
    def head_time(self) -> float:
        """The time of the oldest waiting event; a finished partition is at the end of time."""
        if not self.waiting:
            return float("inf")
        return float("-inf") if self.timestamp is None else self.timestamp(self.ahead[self.start])

    def again(self, first: int, count: int, time: float, *, ended: bool, singly: bool) -> Events:
        """Take exactly the events of a journalled turn once more. *Raises* `PositionUnavailable`."""
        values: list[Any] = []
        while len(values) < count or self.position < first:  # ids of a turn are consecutive; skipped ones lie before it
            arrived = self._arrived(max(1, count - len(values))) and self.waiting
            if not arrived or self.position != first + len(values):
                break
            values += self.take(count - len(values), time).values
        if self.position != first + count or len(values) != count:
            raise PositionUnavailable(
                f"{self.source} partition {self.name}: a turn of the journal took ids {first:,} to {first + count:,}, "
                f"but the source now gives only {len(values):,} of them; it must keep what has not been acknowledged",
                wanted=first + count,
                first=first,
                end=self.position,
            )
        error = None
        self.ended = ended  # since then the source may have ended behind these events: that is another turn's
        if ended:
            self.fill(1)
            error = self.finished.error if self.finished is not None else None
        return Events(self.source, self.name, first, values, time, ended, error, singly)

    def _arrived(self, count_max: int) -> bool:
        """Read ahead, waiting for what is known to be on its way; return whether something is there."""
        deadline = wall.monotonic() + COMING_S
        while not self.fill(count_max):
            if not self.coming or wall.monotonic() > deadline:
                return False
            wall.sleep(COMING_POLL_S)
        return True


class Intake:
    """All partitions of an evaluator."""

    def __init__(self, *, batch_events_max: int, idle_s: float, clock: Callable[[], float]) -> None:
        self.batch_events_max = batch_events_max
        self.look_ahead = batch_events_max * max(1, LOOK_AHEAD_MIN // batch_events_max)
        self.singly = batch_events_max == 1
        self.take_max = RUN_EVENTS_MAX if self.singly else batch_events_max
        self.idle_s = idle_s
        self.clock = clock
        self.sources: dict[str, Source] = {}
        self.partitions: dict[tuple[str, str], Partition] = {}
        self.order: list[Partition] = []
        self.event_time = False
        self.turn = 0
        self.absent: dict[tuple[str, str], int] = {}  # not declared this time, and to go on there when they are again
        self.absent_ended: set[tuple[str, str]] = set()

    def add(self, name: str, source: Source) -> Sequence[str]:
        """Declare a source; its partitions are opened by `open`."""
        self.sources[name] = source
        timestamp = getattr(source, "timestamp", None)
        self.event_time = self.event_time or timestamp is not None
        names = list(source.partitions())
        for each in names:
            self.partitions[name, each] = Partition(name, each, timestamp)
        self.order = list(self.partitions.values())
        return names

    def open(self, positions: dict[tuple[str, str], int], ended: set[tuple[str, str]], wake: Any) -> None:
        """Open every partition at its position."""
        self.absent = {key: position for key, position in positions.items() if key not in self.partitions}
        self.absent_ended = ended - self.partitions.keys()
        for key, partition in self.partitions.items():
            if partition.reader is not None:
                continue
            partition.position = positions.get(key, 0)
            partition.acknowledged = partition.position - 1
            partition.ended = key in ended
            if partition.ended:
                continue  # nothing will be read of it again, and what it has acknowledged may be gone
            partition.reader = self.sources[key[0]].open(key[1], partition.position)
            if isinstance(partition.reader, Waking):
                partition.reader.on_available(wake)

    def next(self, time: float) -> Events | None:
        """Return the next turn's events, or None if nothing is there."""
        return self._oldest(time) if self.event_time else self._in_turn(time)

    def _in_turn(self, time: float) -> Events | None:
        order = self.order
        for offset in range(len(order)):
            partition = order[(self.turn + offset) % len(order)]
            if not partition.ended and (partition.waiting or partition.fill(self.look_ahead)):
                self.turn = (self.turn + offset + 1) % len(order)
                return partition.take(self.take_max, time, singly=self.singly)
        return None

    def _oldest(self, time: float) -> Events | None:
        live = [partition for partition in self.order if not partition.ended]
        ready = [partition for partition in live if partition.fill(LOOK_AHEAD_MAX)]
        if len(ready) < len(live) and not self._only_idle(live, ready):
            return None
        if not ready:
            return None
        ready.sort(key=lambda partition: partition.head_time)
        oldest, second = ready[0], ready[1] if len(ready) > 1 else None
        if second is None:
            limit, first = float("inf"), True
        else:  # simultaneous events in the order of the partitions, wherever a batch or a process began
            limit, first = second.head_time, self.order.index(oldest) < self.order.index(second)
        count = oldest.run_until(limit, self.batch_events_max, included=first) if oldest.waiting else 0
        return oldest.take(count, time)

    def _only_idle(self, live: list[Partition], ready: list[Partition]) -> bool:
        """Whether the partitions that hold the others back have been silent for long enough to be left out."""
        now = self.clock()
        for partition in live:
            if partition in ready:
                partition.idle_since = None
            elif partition.idle_since is None:
                partition.idle_since = now
        return all(p in ready or now - (p.idle_since or now) >= self.idle_s for p in live)

    def find(self, source: str, partition: str) -> Partition:
        """Return a partition that a journalled turn names. *Raises* `SourceFailed` if it is not declared any more."""
        found = self.partitions.get((source, partition))
        if found is None:
            raise SourceFailed(
                f"the journal has turns of source {source!r}, partition {partition!r}, which must be taken again: "
                f"declare it as before, at least until the next checkpoint",
                source=source,
                partition=partition,
                position=self.absent.get((source, partition), 0),
            )
        return found

    def positions(self) -> dict[tuple[str, str], int]:
        return self.absent | {key: partition.position for key, partition in self.partitions.items()}

    def ended(self) -> set[tuple[str, str]]:
        return self.absent_ended | {key for key, partition in self.partitions.items() if partition.ended}

    @property
    def all_ended(self) -> bool:
        return all(partition.ended for partition in self.order)

    def acknowledge(self, positions: dict[tuple[str, str], int], ended: set[tuple[str, str]]) -> None:
        """A checkpoint that covers these positions is durable: the sources may forget what lies before.

        A source that cannot forget now is told again after the next checkpoint.
        """
        for key, position in positions.items():
            partition = self.partitions.get(key)
            if partition is None or partition.reader is None:
                continue
            n = position if key in ended and isinstance(partition.reader, SequencedEnd) else position - 1
            if n > partition.acknowledged:
                try:
                    partition.reader.acknowledge(n)
                except StoreUnavailable as error:
                    LOG.warning("%s partition %s does not forget: %s", *key, error)
                else:
                    partition.acknowledged = n

    def close(self) -> None:
        for partition in self.order:
            if partition.reader is not None:
                partition.reader.close()
                partition.reader = None
