"""One partition of a source and how far it has been taken: read ahead, deduplicated by position, cut into turns.

Records that the source could not read come with the batch behind them. They wait to be taken as a turn of their own or
to be left out, and until then the partition counts as standing before them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from operator import attrgetter, index
from typing import Any, TypeVar

from checkpoint.format.stored_errors import from_store
from hosting.edges.reread import Reread
from hosting.edges.source_calls import called, checked_batch
from hosting.engine.blame import blamed
from hosting.engine.turns import Events, Rejects
from hosting.reports.incidents import Incidents
from hosting.sources.bad_records import reason_of
from hosting.sources.times import checked, time_of, without_time
from reliable_rx.errors import PositionUnavailable, StoreUnavailable, invariant
from reliable_rx.reliable import Batch, Reader, Rejected

T = TypeVar("T")
TIMES_AT_ONCE = 64


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
    has_grown: bool = False
    """Whether a replay has found events behind its end."""
    begun: int = 0
    """The position at which it was begun in this run."""
    acknowledged: int = -1
    """Up to where its source was told in this run that it may forget."""
    idle_since: float | None = None
    look: Callable[[], float | None] | None = None
    """How long nothing can come of its reader, unless it wakes us; None: nobody but the intake knows."""
    is_followed: bool = False
    """Its end is near, and who comes after it has been looked for."""
    is_heard: bool = False
    """Its end is near, and the clocks have been told that those who come after it could not speak."""
    rejected: tuple[Rejected, ...] = ()
    """Records that could not be read, between `reached` and `position`, and are neither taken nor left out yet."""
    passed: int = 0
    """How many records that could not be read a replay has met."""
    heard_at: float = -inf
    """When events were taken of it last, or it was found to have some."""
    reached: int = 0
    reread: Reread = field(default_factory=Reread)
    """What its reader has given since the last new event, although it was known."""
    sifts: bool = False
    """Whether an event whose time cannot be read is a record that could not be read, and no failure."""
    sifted: deque[tuple[Batch, list[float]]] = field(default_factory=deque)
    times: list[float] = field(default_factory=list)
    """The times of the first of `ahead`, each read once: the function is somebody else's."""

    @property
    def waiting(self) -> int:
        """How many events have been read and not taken."""
        return len(self.ahead) - self.start

    @property
    def goes_on(self) -> bool:
        """Whether more can be had of it at once, though nothing waits: of a source that does not say when to look."""
        return self.coming and self.look is None and not self.ended and not self.waiting

    def fill(self, count_max: int) -> bool:
        """Read ahead if nothing waits; return whether something does now."""
        if self.waiting or self.finished is not None or self.reader is None or self.rejected:
            return True
        self.times = []
        batch = self._fetched(self.reader, count_max) if self.sifts else self._fetch(self.reader, count_max)
        if batch.rejected:
            self.reached = self.position
            new = [each for each in batch.rejected if each.position >= self.position]
            self.rejected = tuple(sorted(new, key=attrgetter("position")))  # however they are cut when they come again
        self.ahead, self.start = self._of_batch(self._deduplicated, batch), 0
        self.coming = batch.coming or self.reread.goes_on
        if batch.ended or batch.error is not None:
            self.finished = Batch(0, (), error=None if batch.error is None else from_store(batch.error))
        return bool(self.ahead) or self.finished is not None or bool(self.rejected)

    def _fetch(self, reader: Reader, count_max: int) -> Batch:
        return called(self.source, self.name, "fetch", self._checked, reader, count_max, position=self.position)

    def _checked(self, reader: Reader, count_max: int) -> Batch:
        return checked_batch(self.source, self.name, reader.fetch(count_max), self.position)

    def _of_batch(self, call: Callable[..., T], *given: Any) -> T:
        """Return what *call* makes of a batch, whose values may be read as late as here."""
        return called(self.source, self.name, "batch", call, *given, position=self.position)

    def _fetched(self, reader: Reader, count_max: int) -> Batch:
        """Fetch events whose time can be read, with the others among what could not be."""
        if not self.sifted and self.timestamp is not None:
            self.sifted.extend(self._of_batch(list, sift(self._fetch(reader, count_max), self.timestamp)))
        batch, times = self.sifted.popleft()
        self.times = times[max(0, self.position - batch.first) :]
        return batch

    @property
    def safe_position(self) -> int:
        """The position to go on at after a crash now."""
        return self.reached if self.rejected else self.position

    @property
    def covered(self) -> int:
        """The position to go on at with nothing but what is durable."""
        return max(self.begun, self.acknowledged + 1)

    def take_rejected(self, time: float) -> Rejects:
        """Take the records that could not be read as a turn."""
        records, self.rejected = self.rejected, ()
        return Rejects(self.source, self.name, self.reached, self.position, records, time)

    def _deduplicated(self, batch: Batch) -> list[Any]:
        values = batch.values if type(batch.values) is list else list(batch.values)
        if batch.first == self.position:
            if self.reread.goes_on or self.reread.behind >= 0:
                self.reread.over() if values else self.reread.met(self.position, self.position, self.position)
            return values
        first = index(batch.first)
        if first < self.position:
            new = values[self.position - first :]
            self.reread.over() if new else self.reread.met(first, first + len(values), self.position)
            return new
        if self.position < first - index(batch.skipped):
            raise PositionUnavailable(
                f"{self.source} partition {self.name}: wanted id {self.position:,}, but the source goes on at "
                f"{first:,}; events were lost there",
                wanted=self.position,
                first=first,
                end=first + len(values),
            )
        self.reread.over(goes_on=not values)
        self.position = first
        return values

    def take(self, count_max: int, time: float, *, singly: bool = False) -> Events:
        """Take at most *count_max* events as a turn. *Raises* `SourceFailed` for a time that cannot be read."""
        start, values, times, self.heard_at = self.start, self.ahead, None, time
        end = start + count_max
        if self.timestamp is not None:
            if len(self.times) < end:
                self._read_times(min(end, len(values)), end)
            times = self.times[start:end]
        if start or end < len(values):
            values = values[start:end]
        first, count = self.position, len(values)
        self.start = start + count
        self.position = first + count
        if self.finished is None or self.start < len(self.ahead):
            return Events(self.source, self.name, first, values, time, False, None, singly, times)
        self.ended = True
        return Events(self.source, self.name, first, values, time, True, self.finished.error, singly, times)

    def acknowledge(self, n: int, incidents: Incidents) -> None:
        """Let the source forget up to *n*; if it cannot now, it is told again after the next checkpoint.

        Nothing that is promised depends on it, so whatever a source raises is told of, and stops nothing.
        """
        invariant(self.reader is not None, "who is acknowledged to is open")
        try:
            self.reader.acknowledge(n)  # type: ignore[union-attr]
        except BaseException as raised:
            why = raised if isinstance(raised, StoreUnavailable) else reason_of(blamed(raised))
            message = f"it does not forget what is in a checkpoint: {why}; it is told again after the next"
            incidents.report("source keeps", f"{self.source}/{self.name}", message, level=logging.WARNING)
        else:
            self.acknowledged = n
            incidents.resolve("source keeps", f"{self.source}/{self.name}")

    def run_until(self, limit: float, count_max: int, *, included: bool) -> int:
        """How many of the waiting events are older than *limit*, or (*included*) as old; at least one."""
        count, most, start = 1, min(count_max, self.waiting), self.start
        if self.timestamp is None:
            return most
        times = self.times
        if len(times) < start + most:
            self._read_times(start + 1, start + most)
            most = min(most, len(times) - start)
        while count < most and ((time := times[start + count]) < limit or (included and time == limit)):
            count += 1
        return count

    @property
    def head_time(self) -> float:
        """The time of the oldest waiting event; a finished partition is at the end of time."""
        start, times = self.start, self.times
        if start < len(times):
            return times[start]
        if start >= len(self.ahead):
            return inf
        if self.timestamp is None:
            return -inf
        self._read_times(start + 1, start + TIMES_AT_ONCE)
        return times[start]

    def _read_times(self, needed: int, wanted: int) -> None:
        """Read the times of what is before index *wanted* of `ahead`, up to the first that has none.

        *Raises* `SourceFailed` if that is before index *needed*; else what comes before it is taken first.
        """
        times, timestamp = self.times, self.timestamp
        try:
            for value in self.ahead[len(times) : wanted] if timestamp is not None else ():
                time = timestamp(value)  # type: ignore[misc]
                times.append(time if type(time) is float and isfinite(time) else checked(time))
        except BaseException as raised:
            error = blamed(raised)
            if len(times) < needed:
                position = self.position + len(times) - self.start
                raise without_time(self.source, self.name, position, error) from error


def sift(batch: Batch, timestamp: Callable[[Any], float]) -> Iterator[tuple[Batch, list[float]]]:
    """Cut *batch*, with the times of its events, so that each whose time cannot be read comes as a bad record."""
    first, values, times, rejected = batch.first, list[Any](), list[float](), list(batch.rejected)
    for n, value in enumerate(batch.values, batch.first):
        try:
            times.append(time_of(timestamp, value))
        except BaseException as raised:
            why = reason_of(blamed(raised))
            if values:
                yield Batch(first, values, skipped=batch.skipped, rejected=tuple(rejected)), times
                batch, values, times, rejected = replace(batch, skipped=0), [], [], []
            first = n + 1
            batch = replace(batch, skipped=batch.skipped + 1)
            rejected.append(Rejected(n, value, f"its time cannot be read: {why}"))
        else:
            values.append(value)
    yield replace(batch, first=first, values=values, rejected=tuple(rejected)), times
