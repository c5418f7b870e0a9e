"""One open partition of a Kafka topic: records that the polling thread has brought, until they are fetched.

An id is an offset. Offsets have gaps (compaction, the markers of transactions, what was aborted), so what is held is
runs of consecutive records; what lies between two runs holds nothing, and the batch behind says so. The client gives
the records of one assignment in order and from where we asked, or says that it cannot, so a gap it leaves is one of the
log. Rejected: ids counted by us; after a crash nobody would know which offset an id was.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hosting.engine.blame import blamed
from hosting.sources.bad_records import reason_of
from hosting.sources.kafka_record import record_of
from reliable_rx.errors import ReliableRxError, SourceFailed
from reliable_rx.reliable import Batch, Rejected

if TYPE_CHECKING:
    from confluent_kafka import Message

STOP, GO_ON = 0.9, 0.7
"""At which share of its limits a reader asks for no more, and down to which."""

Decode = Callable[["Message"], Any]
Records = Sequence["Message"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a reader holds at most: exact for events, for bytes of values up to what one poll brings."""

    events_max: int
    bytes_max: int


@dataclass(slots=True, eq=False)
class Run:
    """Records with consecutive offsets; none, where only the end is known to lie at *first*."""

    first: int
    records: Records


class KafkaReader:
    """Gives the records of one partition from an offset on, and says which offsets hold none."""

    def __init__(
        self,
        name: str,
        number: int,
        at: int,
        *,
        end: int,
        decode: Decode,
        limits: Limits,
        owner: Owner,
        fails: bool = True,
    ) -> None:
        self.name, self.number = name, number
        self.expected = at  # the polling thread's: what comes next
        self.held_events = self.held_bytes = 0
        self.paused = False  # the polling thread's too
        self._end = end
        self._decode = decode
        self._fails = fails
        self._limits = limits
        self._owner = owner
        self._position = at
        self._runs: deque[Run] = deque()
        self._failure: ReliableRxError | None = None
        self._wake: Callable[[], None] | None = None
        self._pressed = False
        self._eased = threading.Event()
        self._lock = threading.Lock()

    # -- whoever reads

    def fetch(self, count_max: int, /) -> Batch:
        before = self._position
        first, records = self._take(count_max)
        values: list[Any] = []
        rejected: list[Rejected] = []
        while len(values) + len(rejected) < len(records):
            index = len(values) + len(rejected)
            try:
                for record in records[index:]:
                    values.append(self._decode(record))  # noqa: PERF401  # what was decoded is kept if the next fails
            except BaseException as raised:
                error = blamed(raised)
                index = len(values) + len(rejected)
                if values or self._fails:
                    self._put_back(first + index, records[index:])
                    if not values:
                        raise self._undecodable(first, error) from error
                    break
                why = f"decode failed: {reason_of(error)}"
                rejected.append(Rejected(first + index, record_of(records[index]), why))
        coming = not records and self._position < self._end
        start = first + len(rejected)
        return Batch(start, values, skipped=start - before, coming=coming, rejected=tuple(rejected))

    def acknowledge(self, n: int, /) -> None:
        self._owner.acknowledge(self, n + 1)

    def close(self) -> None:
        self._owner.detach(self)

    def on_available(self, wake: Callable[[], None], /) -> None:
        self._wake = wake

    def _take(self, count_max: int) -> tuple[int, list[Message]]:
        """Take consecutive records off the front; return where they begin, behind what holds nothing."""
        taken: list[Message] = []
        with self._lock:
            first = position = self._position
            while self._runs and len(taken) < count_max:
                run = self._runs[0]
                if run.first != position:
                    if taken:
                        break
                    first = position = run.first
                part = run.records[: count_max - len(taken)]
                position += len(part)
                taken += part
                if len(part) == len(run.records):
                    self._runs.popleft()
                else:
                    self._runs[0] = Run(position, run.records[len(part) :])
            if not taken and count_max and self._failure is not None:
                raise self._failure
            self._position = position
            self._count(taken, -1)
            if self._pressed and self.drained:
                self._pressed = False
                self._eased.set()
        return first, taken

    def _put_back(self, first: int, records: list[Message]) -> None:
        with self._lock:
            self._runs.appendleft(Run(first, records))
            self._position = first
            self._count(records, 1)

    def _count(self, records: Records, sign: int) -> None:
        self.held_events += sign * len(records)
        self.held_bytes += sign * sum(map(len, records))

    def _undecodable(self, position: int, error: BaseException) -> SourceFailed:
        topic = self._owner.topic
        return SourceFailed(
            f"decode failed on the record at {position:,} of topic {topic!r}, partition {self.name}: "
            f"{reason_of(error)}; let decode return a value that says so, or read past it with on_bad_record='skip' or "
            f"'dead_letter'",
            source=topic,
            partition=self.name,
            position=position,
        )

    # -- the polling thread

    def add(self, records: Sequence[Message]) -> None:
        """Take the next records, in the order of their offsets."""
        runs = runs_of(records, self.expected)
        if not runs or self._failure is not None:  # nothing is taken behind a failure
            return
        self.expected = runs[-1].first + len(runs[-1].records)
        with self._lock:
            self._runs.extend(runs)
            for run in runs:
                self._count(run.records, 1)
        self._say()

    def end_at(self, offset: int) -> None:
        """Nothing lies between what has come and *offset*."""
        if offset > self.expected and self._failure is None:
            self.expected = offset
            with self._lock:
                self._runs.append(Run(offset, ()))
            self._say()

    def fail(self, failure: ReliableRxError) -> None:
        """Let whoever reads have *failure* once he has had what came before."""
        with self._lock:
            self._failure = self._failure or failure
        self._say()

    def _say(self) -> None:
        wake = self._wake
        if wake is not None:
            wake()

    def drains_within(self, timeout_s: float) -> bool:
        """Wait a little for whoever reads."""
        with self._lock:
            if self.drained:
                return True
            self._pressed = True
            self._eased.clear()
        return self._eased.wait(max(0.0, timeout_s))

    @property
    def full(self) -> bool:
        return self._beyond(STOP)

    @property
    def drained(self) -> bool:
        return not self._beyond(GO_ON)

    def _beyond(self, share: float) -> bool:
        limits = self._limits
        return self.held_events >= share * limits.events_max or self.held_bytes >= share * limits.bytes_max


class Owner(Protocol):
    """What a reader asks of the connection it belongs to."""

    topic: str

    def acknowledge(self, reader: KafkaReader, offset: int) -> None:
        """What lies before *offset* is safe."""

    def detach(self, reader: KafkaReader) -> None:
        """Fetch no more for *reader*."""


def runs_of(records: Sequence[Message], expected: int) -> list[Run]:
    """Cut *records* where their offsets do; those before *expected* have been had."""
    records = [record for record in records if _offset(record) >= expected]
    if not records:
        return []
    first, last = _offset(records[0]), _offset(records[-1])
    if last - first == len(records) - 1:
        return [Run(first, records)]
    runs: list[Run] = []
    begin = 0
    for i in range(1, len(records) + 1):
        if i == len(records) or _offset(records[i]) != first + i - begin:
            runs.append(Run(first, records[begin:i]))
            begin, first = i, _offset(records[i]) if i < len(records) else 0
    return runs


def _offset(record: Message) -> int:
    return record.offset()  # type: ignore[return-value]  # None only before delivery
