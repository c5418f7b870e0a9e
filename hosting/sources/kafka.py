"""A topic of Kafka as a partitioned, replayable source, through ``confluent-kafka`` (the extra ``kafka``).

A position is an offset, so positions, committed offsets and what the broker's tools show are the same numbers. Offsets
that hold nothing are passed over (`Batch.skipped`), offsets that have been deleted are an error. Which partitions are
read is decided by whoever opens them, and from where by his checkpoint; so this never subscribes. Rejected: aiokafka
(a loop of its own under threads that have none), kafka-python (slower by the price of Python per record).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hosting.admission.constructor_types import checks_kinds
from hosting.sources.kafka_ask import Asker
from hosting.sources.kafka_link import Link
from hosting.sources.kafka_offsets import Offsets
from hosting.sources.kafka_reader import KafkaReader, Limits
from hosting.sources.kafka_record import KafkaRecord, record_of
from hosting.sources.kafka_settings import client_settings
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.operators.contract.choices import OnBadRecord, check_choice, names_keywords
from reliable_rx.reliable import Listing

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["KafkaRecord", "KafkaSource"]

POLL_RECORDS_MAX = 1000
POLLS_MIN = 10
"""How many polls fill a partition, at least: one more fits in above the mark at which it rests."""


class KafkaSource:
    """Read *topic* from the brokers at *bootstrap_servers* (``"host:port,host:port"``).

    Each event is what *decode* makes of a `KafkaRecord`, or the record itself. *timestamp* is a function of the event,
    kept for event time. What a committed checkpoint covers is committed under the name of *group* as well, at most
    every *commit_interval_s* seconds, for the broker's tools to show; None commits nothing.

    Brokers answer a fetch when they have *bytes_min* bytes or after *wait_s* seconds, with at most about *bytes_max*
    bytes of each partition. At most *events_max* events of a partition wait here, and about *buffer_bytes_max* bytes of
    values; a partition rests from 90 % of that to 70 %, without holding up the others.

    *isolation* ``"read_committed"`` hides what transactions have aborted or not yet committed. *rooms* names the
    machine room of each broker, by its id; a partition's room is its leader's. Brokers have *timeout_s* seconds to
    answer questions. A record on which *decode* raises fails the source; with *on_bad_record* ``"skip"`` it is left
    out, with ``"dead_letter"`` it goes to the stream ``NAME.dead_letters`` of the source. All else the client knows
    (security, compression, addresses) goes into *settings*.

    >>> from confluent_kafka import Producer
    >>> producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    >>> brokers = ",".join(f"{b.host}:{b.port}" for b in producer.list_topics("orders", timeout=10).brokers.values())
    >>> producer.produce("orders", b"2 apples", partition=0)
    >>> producer.flush(10)
    0
    >>> source = KafkaSource("orders", bootstrap_servers=brokers, decode=lambda record: record.value.decode())
    >>> source.bounds("0")
    (0, 1)
    >>> reader = source.open("0", 0)
    >>> while (batch := reader.fetch(10)).coming:
    ...     pass
    >>> batch.values
    ['2 apples']
    >>> reader.close()

    *Raises* `ValueError` for settings that are not the user's, `SourceFailed` if the brokers do not answer or refuse,
    `PositionUnavailable` for an offset that has been deleted or not yet written.
    """

    @names_keywords
    @checks_kinds("timestamp")
    def __init__(
        self,
        topic: str,
        *,
        bootstrap_servers: str,
        group: str | None = None,
        decode: Callable[[KafkaRecord], Any] | None = None,
        timestamp: Callable[[Any], float] | None = None,
        isolation: str = "read_committed",
        bytes_min: int = 1,
        wait_s: float = 0.5,
        bytes_max: int = 1 << 20,
        events_max: int = 10_000,
        buffer_bytes_max: int = 32 << 20,
        commit_interval_s: float = 1.0,
        timeout_s: float = 10.0,
        rooms: Mapping[int, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        on_bad_record: OnBadRecord = "fail",
    ) -> None:
        check_choice("on_bad_record", on_bad_record, OnBadRecord)
        if events_max < POLLS_MIN:
            raise ValueError(f"events_max is {events_max}; a partition holds {POLLS_MIN} events or more")
        self.topic = topic
        self.timestamp = timestamp
        self.on_bad_record = on_bad_record
        self._definition = {"decode": decode, "timestamp": timestamp, "isolation": isolation}
        self._decode = _decoder(decode)
        self._limits = Limits(events_max, buffer_bytes_max)
        self._rooms = dict(rooms or {})
        merged = client_settings(
            settings or {},
            bootstrap_servers=bootstrap_servers,
            group=group,
            isolation=isolation,
            bytes_min=bytes_min,
            wait_s=wait_s,
            bytes_max=bytes_max,
        )
        self._asker = Asker(topic, merged, timeout_s)
        offsets = Offsets(topic, group, commit_interval_s)
        self._link = Link(topic, merged, offsets, records_max=min(POLL_RECORDS_MAX, events_max // POLLS_MIN))

    def __repr__(self) -> str:
        return f"KafkaSource({self.topic!r})"

    def definition(self) -> Mapping[str, Any]:
        """Return what its events and their times come from."""
        return self._definition

    def numbering(self) -> Mapping[str, Any]:
        """Return whose offsets its ids are."""
        return {"topic": self.topic}

    def trouble(self) -> str:
        """What is waited for, if its brokers have not been reached lately; else empty."""
        return self._link.trouble

    def partitions(self) -> Sequence[str]:
        """Name the partitions by their numbers, as the brokers know them now."""
        return [str(number) for number in self._asker.partitions()]

    def listing(self) -> Sequence[Listing]:
        """List the partitions that there are now: a topic may be given more. Their room is that of their leader.

        If the brokers do not answer, the last list stands, and a warning says so.
        """
        leaders = self._asker.partitions_lately()
        return [Listing(str(number), room=self._rooms.get(leader)) for number, leader in leaders.items()]

    def open(self, partition: str, at: int, /) -> KafkaReader:
        """Read *partition* from offset *at* on. *Raises* `PositionUnavailable` with the offsets that there are."""
        number = self._number(partition)
        first, end = self.bounds(partition)
        if not first <= at <= end:
            gone = "have been deleted: keep records for longer" if at < first else "is where it ends"
            what = f"offsets before {first:,} {gone}" if at < first else f"offset {end:,} {gone}"
            message = f"topic {self.topic!r}, partition {partition}: offset {at:,} is wanted, and {what}"
            raise PositionUnavailable(f"{message}; start elsewhere", wanted=at, first=first, end=end)
        reader = KafkaReader(
            partition,
            number,
            at,
            end=end,
            decode=self._decode,
            limits=self._limits,
            owner=self._link,
            fails=self.on_bad_record == "fail",
        )
        self._link.attach(reader)
        return reader

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return the first offset that there is and the one behind the last that may be read."""
        return self._asker.bounds(self._number(partition))

    def find(self, partition: str, time: float, /) -> int:
        """Return the offset of the first record with a timestamp of *time* or later, the end if there is none."""
        found = self._asker.find(self._number(partition), math.ceil(time * 1000))
        return self.bounds(partition)[1] if found is None else found

    def _number(self, partition: str) -> int:
        if not partition.isdecimal():
            message = f"topic {self.topic!r} has no partition {partition!r}; they are called '0', '1' and so on"
            raise SourceFailed(message, source=self.topic, partition=partition)
        return int(partition)


def _decoder(decode: Callable[[KafkaRecord], Any] | None) -> Callable[[Message], Any]:
    if decode is None:
        return record_of
    return lambda message: decode(record_of(message))
