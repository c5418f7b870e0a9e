"""Logs that are not plain: aborted and open transactions, compaction, deletion, times, and brokers that err."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest
from kafka_cluster import eventually, fetch, number, read
from wire_broker import ABORT, COMMIT, FETCH, TOPIC, Log, WireBroker

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from hosting.sources.kafka import KafkaSource
from reliable_rx import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Listing

NOT_LEADER, TOPIC_AUTHORIZATION_FAILED = 6, 29


@pytest.fixture
def broker() -> Iterator[WireBroker]:
    served = WireBroker(Log())
    yield served
    served.close()


def source(broker: WireBroker, **options: Any) -> KafkaSource:
    options = {"decode": number, "wait_s": 0.02, "settings": {"log_level": 0}} | options
    return KafkaSource(TOPIC, bootstrap_servers=broker.servers, **options)


def values(count: int, start: int = 0) -> list[bytes]:
    return [str(n).encode() for n in range(start, start + count)]


def expected(log: Log) -> dict[int, int]:
    return {offset: int(value) for offset, value in log.visible().items()}


def scrambled(seed: int) -> Log:
    """Make a log of plain batches and of transactions of three producers, some aborted, and compact it."""
    draw, log, written = random.Random(seed), Log(), 0
    for _ in range(25):
        producer = draw.choice((-1, 0, 1, 2))
        log.append(values(draw.randrange(1, 6), written), producer=producer)
        written += 10
        if producer >= 0 and draw.random() < 0.6:
            log.finish(producer, draw.choice((ABORT, COMMIT)))
    for producer in sorted(log.open):
        log.finish(producer, draw.choice((ABORT, COMMIT)))
    log.compact({n for n in range(log.end) if draw.random() < 0.3})
    return log


@pytest.mark.parametrize("seed", range(3))
def test_what_is_visible_comes_and_the_rest_is_skipped(broker: WireBroker, seed: int) -> None:
    """Aborted records, markers and compacted offsets are passed over, from any position on, and nothing else is."""
    broker.log = scrambled(seed)
    end, there = broker.log.end, expected(broker.log)
    assert len(there) < end - 10
    kafka, draw = source(broker), random.Random(seed)
    assert kafka.bounds("0") == (0, end)
    for at in [0, *sorted(draw.sample(range(end), 3))]:
        reader = kafka.open("0", at)
        assert read(reader, end) == {n: value for n, value in there.items() if n >= at}
        reader.close()


def test_a_query_over_such_a_log_is_replayed_exactly(broker: WireBroker) -> None:
    """Stopped without a checkpoint at several places, a hosted query has each visible record once, in order."""
    broker.log = scrambled(11)
    there = list(expected(broker.log).values())
    store = MemoryStore()
    for part in (0.2, 0.5, 0.8, 1.0):
        evaluator = QueryEvaluator(store, checkpoint_events=10, batch_events_max=4, background=False)
        evaluator.source("log", source(broker))
        evaluator.create("same", rx.source("log").map(lambda n: n))
        stream = evaluator.stream("same")
        evaluator.run(until=lambda: stream.next_id >= part * len(there))
        assert [v for out in stream.read(0, 1000) for v in out.values] == there[: stream.next_id]
        evaluator.close()
        store = store.reopen()


def test_an_open_transaction_holds_up_what_is_behind_it(broker: WireBroker) -> None:
    """Readers of committed records wait before it, others do not; when it aborts, what is behind it comes."""
    log = broker.log
    log.append(values(2))
    log.append(values(3, 10), producer=7)
    log.append(values(2, 20))
    kafka = source(broker)
    reader = kafka.open("0", 0)
    assert kafka.bounds("0") == (0, 2)
    assert read(reader, 2) == {0: 0, 1: 1}
    hasty = source(broker, isolation="read_uncommitted").open("0", 0)
    assert list(read(hasty, 7).values()) == [0, 1, 10, 11, 12, 20, 21]
    hasty.close()
    log.finish(7, ABORT)
    assert read(reader, 8) == {5: 20, 6: 21}
    reader.close()


def test_times_are_looked_up(broker: WireBroker) -> None:
    """The offset is that of the first record at or after the time, the end if all are older; fractions count."""
    for time_ms in (1_000, 2_000, 3_500):
        broker.log.append(values(4), time_ms=time_ms)
    kafka = source(broker)
    found = [kafka.find("0", time) for time in (0.0, 1.0, 1.0001, 2.0, 3.4999, 3.5, 3.6)]
    assert found == [0, 0, 4, 4, 8, 8, 12]


def test_partitions_that_are_added_are_listed(broker: WireBroker) -> None:
    """A topic may be given more partitions while it is read; the listing has them the next time."""
    kafka = source(broker, rooms={1: "east"})
    assert kafka.listing() == [Listing("0", room="east")]
    broker.partitions = 3
    assert kafka.listing() == [Listing(each, room="east") for each in ("0", "1", "2")]
    assert kafka.partitions() == ["0", "1", "2"]


def test_records_deleted_under_a_reader_are_missed(broker: WireBroker) -> None:
    """When retention overtakes a reader, it has what was fetched before, and then the error, not a jump."""
    broker.log.append(values(5))
    reader = source(broker).open("0", 0)
    assert len(read(reader, 5)) == 5
    broker.log.start = broker.log.end = 50
    broker.log.entries = []
    broker.log.append(values(3, 50))
    with pytest.raises(PositionUnavailable, match="offset 5 is wanted") as caught:
        eventually(lambda: reader.fetch(10).values)
    assert caught.value.wanted == 5
    reader.close()


def test_errors_that_heal_are_waited_for(broker: WireBroker) -> None:
    """A leader that moves costs time and nothing else."""
    broker.log.append(values(20))
    broker.faults = [NOT_LEADER]
    reader = source(broker).open("0", 0)
    assert list(read(reader, 20).values()) == list(range(20))
    assert not broker.faults
    reader.close()


def test_errors_that_do_not_heal_are_raised_behind_what_came(broker: WireBroker) -> None:
    """A topic that may not be read any more is `SourceFailed` with source, partition and position."""
    broker.log.append(values(3))
    reader = source(broker).open("0", 0)
    eventually(lambda: reader.held_events == 3)
    broker.faults = [TOPIC_AUTHORIZATION_FAILED] * 3
    eventually(lambda: len(broker.faults) < 3)
    assert fetch(reader, 10).values == [0, 1, 2]
    with pytest.raises(SourceFailed, match=r"cannot be read at 3.*AUTHORIZATION") as caught:
        eventually(lambda: reader.fetch(10).values)
    assert (caught.value.source, caught.value.partition, caught.value.position) == (TOPIC, "0", 3)
    reader.close()


def test_a_damaged_record_is_an_error_and_not_a_gap(broker: WireBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Bytes that do not have their checksum stop the reader where they are; the records before them are had."""
    broker.log.append(values(3))
    broker.log.append(values(3, 10))
    broker.log.append(values(3, 20))
    damaged = broker.log.entries[1]
    encode = damaged.encode
    damaged.encode = lambda: encode()[:-2] + b"??"  # type: ignore[method-assign]
    reader = source(broker).open("0", 0)
    eventually(lambda: broker.requests.count(FETCH) >= 3)  # the client has gone on behind the damage
    seen: dict[int, Any] = {}

    def read_on() -> bool:
        batch = reader.fetch(10)
        seen.update(zip(range(batch.first, batch.next), batch.values, strict=True))
        return False

    with caplog.at_level(logging.WARNING), pytest.raises(SourceFailed, match="CRC"):
        eventually(read_on)
    assert seen == {0: 0, 1: 1, 2: 2}
    reader.close()
