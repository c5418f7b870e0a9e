"""Brokers for tests: librdkafka's own mock cluster, inside this process and on loopback, spoken to as any other.

It makes a topic of four partitions when one is asked for, keeps 5 MB of a partition, and gives the markers of
transactions offsets of their own (but no checksums). It does not hide what was aborted, looks up no times, and fences
no producers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from hosting.sources.kafka import KafkaSource
from reliable_rx.reliable import Batch, Reader

PARTITIONS = ("0", "1", "2", "3")
DEADLINE_S = 60.0
NUMBERS = count()


class Cluster:
    """A mock cluster, and what a test does to its topics."""

    def __init__(self, brokers: int = 3) -> None:
        self.mock: Any = Producer({"test.mock.num.brokers": brokers, "log_level": 0})
        found = self.mock.list_topics(timeout=DEADLINE_S).brokers.values()
        self.servers = ",".join(f"{each.host}:{each.port}" for each in found)
        self.producer = self.another_producer()

    def another_producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.servers, "log_level": 0, **settings})

    def topic(self) -> str:
        """Make a topic that nobody else has."""
        name = f"topic-{next(NUMBERS)}"
        self.mock.list_topics(name, timeout=DEADLINE_S)
        return name

    def produce(self, topic: str, values: Iterable[Any], partition: int = 0) -> None:
        for value in values:
            self.producer.produce(topic, str(value).encode(), partition=partition)
        assert self.producer.flush(DEADLINE_S) == 0

    def source(self, topic: str, **options: Any) -> KafkaSource:
        options.setdefault("decode", number)
        options.setdefault("wait_s", 0.05)
        options["settings"] = {"check.crcs": False, "log_level": 0, **options.get("settings", {})}
        return KafkaSource(topic, bootstrap_servers=self.servers, **options)

    def committed(self, topic: str, group: str) -> dict[str, int]:
        """Return what the broker's own tools would show of a group."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        found = consumer.committed([TopicPartition(topic, int(each)) for each in PARTITIONS], timeout=DEADLINE_S)
        consumer.close()
        return {str(each.partition): each.offset for each in found if each.offset >= 0}


def number(record: Any) -> int:
    return int(record.value)


def eventually(claim: Callable[[], object]) -> None:
    """Ask until *claim* holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not claim():
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.002)


def fetch(reader: Reader, count_max: int) -> Batch:
    """Fetch until something comes."""
    found: list[Batch] = []

    def came() -> bool:
        batch = reader.fetch(count_max)
        if batch.values:
            found.append(batch)
        return bool(found)

    eventually(came)
    return found[0]


def read(reader: Reader, end: int) -> dict[int, Any]:
    """Read up to *end*; return the values by id."""
    values: dict[int, Any] = {}
    position = -1

    def reached() -> bool:
        nonlocal position
        batch = reader.fetch(1000)
        assert position in (-1, batch.first - batch.skipped), "a batch goes on where the one before ended"
        values.update(zip(range(batch.first, batch.next), batch.values, strict=True))
        position = batch.next
        return position >= end

    eventually(reached)
    assert position == end
    return values
