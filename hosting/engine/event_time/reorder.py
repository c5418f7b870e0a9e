"""The events that wait for a query's clock, in the order in which they will be handed over.

In memory they are one sorted list. In the store they are rows of up to a thousand events in the order of their
arrival, each written once and erased when the clock has passed all of it: a checkpoint writes what has come since the
last one, however much waits. What is in such a row and already handed over is known by its time, so no row changes but
the newest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from hosting.engine.event_time.held_back import held_back
from reliable_rx.errors import LimitExceeded

if TYPE_CHECKING:
    from hosting.engine.event_time.runtime import EventClock
    from hosting.engine.hosted_query import Standing

Channel = tuple[str, str]
Entry = tuple[float, Channel, int, Any]
"""Time, source and partition, position, value: sorted as they are, since no two have the same position."""
END = -1
"""The position of what stands for the end of a source; its value is the error, if there was one."""
LAST = "\U0010ffff"
"""Comes after every name: a source ends after the events of the same time."""
WAITING = "\0waiting"
"""What the keys of its rows begin with: no query has such a name."""
CHUNK_EVENTS_MAX = 1024
SINGLY_MAX = 32
INFINITE = float("inf")


class Chunk:
    """A row of waiting events."""

    __slots__ = ("clock", "entries", "epoch", "latest", "number", "saved")

    def __init__(self, clock: EventClock, number: int) -> None:
        self.clock = clock
        self.number = number
        self.entries: list[Entry] = []
        self.latest = -INFINITE
        self.epoch: int = clock.engine.epoch
        self.saved: Any = None

    @property
    def row_key(self) -> tuple[str, str, int]:
        return (WAITING, self.clock.standing.name, self.number)


class Reorder:
    """What waits for one query's clock."""

    def __init__(self, clock: EventClock) -> None:
        self.clock = clock
        self.entries: list[Entry] = []
        self.start = 0
        self.fresh: list[Entry] = []
        self.chunks: dict[int, Chunk] = {}
        self.newest: Chunk | None = None
        self.next_number = 0
        self.droppable_from = INFINITE

    def __len__(self) -> int:
        return len(self.entries) - self.start

    def add(self, new: list[Entry]) -> None:
        """Let *new* wait; call `keep` when the clock has moved."""
        entries = self.entries
        self.fresh += new
        if not entries:
            entries += new
            entries.sort()
        elif len(new) > SINGLY_MAX:
            entries += new
            del entries[: self.start]
            self.start = 0
            entries.sort()
        else:
            for each in new:
                insort(entries, each, self.start)

    def take(self, before: float) -> list[Entry]:
        """Take out what is older than *before*, in order."""
        entries, start = self.entries, self.start
        end = bisect_left(entries, (before,), start)
        if end == len(entries):
            taken = entries[start:] if start else entries
            self.entries, self.start = [], 0
            return taken
        taken = entries[start:end]
        self.start = end
        if end > SINGLY_MAX and end > len(entries) // 2:
            del entries[:end]
            self.start = 0
        return taken

    def take_all(self) -> list[Entry]:
        """Take out all that waits, in order, whatever the clock is by then: no row has any of it from now on."""
        taken, self.fresh = self.take(INFINITE), []
        self._drop(INFINITE)
        return taken

    def keep(self, since: float) -> None:
        """The clock is at *since*: write down what has come and still waits, erase what does no more."""
        fresh, self.fresh = self.fresh, []
        left = [each for each in fresh if each[0] >= since] if self.entries else ()
        for each in left:
            chunk = self.newest
            if chunk is None or len(chunk.entries) >= CHUNK_EVENTS_MAX:
                chunk = self._new_chunk()
            self.clock.engine.touch(chunk)
            chunk.entries.append(each)
            chunk.latest = max(chunk.latest, each[0])
        if left:
            self.droppable_from = min(each.latest for each in self.chunks.values())
        if since > self.droppable_from:
            self._drop(since)

    def _new_chunk(self) -> Chunk:
        chunk = self.newest = self.chunks[self.next_number] = Chunk(self.clock, self.next_number)
        self.next_number += 1
        return chunk

    def _drop(self, since: float) -> None:
        for chunk in [each for each in self.chunks.values() if each.latest < since]:
            del self.chunks[chunk.number]
            if chunk is self.newest:
                self.newest = None
            self.clock.engine.forget(chunk)
        self.droppable_from = min((each.latest for each in self.chunks.values()), default=INFINITE)

    def excess(self, standing: Standing) -> LimitExceeded | None:
        """Return the error of a query for which too much waits."""
        most = standing.plan.limits.queue_items_max
        if len(self) <= most:
            return None
        found = held_back(self.clock)
        behind = "" if found is None else f"; it waits for {found}"
        return LimitExceeded(
            f"{standing.name!r} keeps more than {most:,} events until the watermark passes them{behind}: if partitions "
            f"lie apart in time (files of several days), give the source timestamp=, too, and the oldest are read "
            f"first; else mend the partition that is behind, lower lateness_s or idle_s, or raise "
            f"Limits(queue_items_max=...)",
            path=standing.plan.root.path,
            limit="queue_items_max",
            most=most,
        )

    def clear(self) -> None:
        """Nothing is waited for any more."""
        self.entries, self.start, self.fresh = [], 0, []
        self._drop(INFINITE)

    @property
    def left(self) -> list[Entry]:
        """What waits, in order."""
        return self.entries[self.start :]

    def replace(self, entries: list[Entry]) -> None:
        """Let *entries* wait instead of what does, in rows of their own."""
        self.clear()
        self.add(entries)
        self.keep(self.clock.clock)

    def load(self, number: int, entries: list[Entry], since: float) -> None:
        """Put a stored row back, if it has *entries*; what is older than *since* has been handed over."""
        if not entries:
            return
        chunk = self.chunks[number] = Chunk(self.clock, number)
        chunk.saved = True
        chunk.entries = entries
        chunk.latest = max(each[0] for each in entries)
        self.next_number = max(self.next_number, number + 1)
        self.droppable_from = min(self.droppable_from, chunk.latest)
        self.entries += [each for each in entries if each[0] >= since]
        if len(entries) < CHUNK_EVENTS_MAX and number == self.next_number - 1:
            self.newest = chunk

    def loaded(self) -> None:
        """All rows are back."""
        self.entries.sort()
