"""`KafkaSource` against brokers: ids are offsets, nothing is lost or doubled, and what cannot be is said."""

from __future__ import annotations

import gc
import itertools
import logging
import random
import threading
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from kafka_cluster import PARTITIONS, Cluster, eventually, fetch, read

from hosting.sources import kafka_link
from hosting.sources.kafka import KafkaRecord, KafkaSource
from hosting.sources.kafka_link import Link
from hosting.sources.kafka_offsets import Offsets
from hosting.sources.kafka_reader import Decode, KafkaReader, Limits, runs_of
from reliable_rx import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Bounded, Findable, Listed, Listing, Waking
from reliable_rx.testing import check_source, hostile


def test_the_source_keeps_the_promises_of_a_source(cluster: Cluster) -> None:
    """The public suite: replay from any position, small fetches, acknowledgements, readers side by side."""
    topic = cluster.topic()
    cluster.produce(topic, range(30), 0)
    cluster.produce(topic, range(100, 107), 2)
    check_source(lambda: cluster.source(topic), finite=False, positions_max=1)


def test_a_record_arrives_as_it_was_written(cluster: Cluster) -> None:
    """Key, value, time, headers, partition and offset; a tombstone has no value, and nothing is made up."""
    topic = cluster.topic()
    cluster.producer.produce(topic, b"v", b"k", partition=1, timestamp=1_500, headers=[("a", b"1"), ("a", None)])
    cluster.producer.produce(topic, None, b"k", partition=1, timestamp=2_000)
    cluster.producer.flush()
    source = cluster.source(topic, decode=None)
    reader = source.open("1", 0)
    assert read(reader, 2) == {
        0: KafkaRecord(b"k", b"v", 1.5, (("a", b"1"), ("a", None)), "1", 0),
        1: KafkaRecord(b"k", None, 2.0, (), "1", 1),
    }
    reader.close()


def is_unknown(source: KafkaSource) -> bool:
    """Whether the brokers say that they know no such topic."""
    try:
        source.partitions()
    except SourceFailed as error:
        assert f"know no topic {source.topic!r}" in error.message
        return True
    return False


def test_partitions_and_what_is_known_of_them(cluster: Cluster) -> None:
    """Partitions are numbers in order, their room is their leader's, and a topic is looked up each time."""
    topic = cluster.topic()
    source = cluster.source(topic, rooms={1: "east", 2: "west"})
    assert isinstance(source, Listed) and isinstance(source, Bounded) and isinstance(source, Findable)
    assert source.partitions() == list(PARTITIONS)
    leaders = cluster.mock.list_topics(topic).topics[topic].partitions
    rooms = {1: "east", 2: "west"}
    assert source.listing() == [Listing(str(n), room=rooms.get(leaders[n].leader)) for n in range(4)]
    cluster.produce(topic, range(5), 3)
    assert (source.bounds("3"), source.bounds("0")) == ((0, 5), (0, 0))
    assert source.find("3", 4e9) == 5, "a time behind all records is the end"
    # The mock makes a topic when it is asked for it again, which a client does by itself where an answer is late.
    missing = next(filter(is_unknown, (cluster.source(f"nobody-made-this-{each}") for each in range(20))))
    cluster.mock.list_topics(missing.topic, timeout=10)
    assert missing.partitions() == list(PARTITIONS)
    with pytest.raises(SourceFailed, match="has no partition 'east'"):
        source.open("east", 0)


def test_readers_opened_and_closed_at_will_get_what_is_theirs(cluster: Cluster) -> None:
    """However often a partition is opened elsewhere while the consumer polls, a reader sees its own offsets only."""
    topic = cluster.topic()
    for partition in range(4):
        cluster.produce(topic, range(1000 * partition, 1000 * partition + 300), partition)
    source, draw = cluster.source(topic), random.Random(7)
    other = source.open("0", 0)
    for _ in range(15):
        partition, at = draw.randrange(1, 4), draw.randrange(300)
        reader = source.open(str(partition), at)
        batch = fetch(reader, draw.randrange(1, 50)) if draw.random() < 0.7 else reader.fetch(5)
        assert batch.first == at and batch.skipped == 0
        assert batch.values == list(range(1000 * partition + at, 1000 * partition + batch.next))
        reader.close()
    assert list(read(other, 300).values()) == list(range(300))
    other.close()


def test_a_partition_is_open_once(cluster: Cluster) -> None:
    """One consumer cannot be at two places of a partition: the second reader is refused until the first is closed."""
    source = cluster.source(cluster.topic())
    first = source.open("0", 0)
    with pytest.raises(SourceFailed, match="is open already") as caught:
        source.open("0", 0)
    assert caught.value.partition == "0"
    first.close()
    first.close()
    source.open("0", 0).close()


def test_a_source_leaves_no_thread_behind(cluster: Cluster) -> None:
    """With its last reader the polling thread ends; the next one begins anew."""
    topic = cluster.topic()
    cluster.produce(topic, range(3))
    source = cluster.source(topic)
    for _ in range(2):
        readers = [source.open(each, 0) for each in PARTITIONS]
        assert read(readers[0], 3) == {0: 0, 1: 1, 2: 2}
        assert [each.name for each in threading.enumerate()].count(f"kafka {topic}") == 1
        for each in readers:
            each.close()
        assert f"kafka {topic}" not in [each.name for each in threading.enumerate()]


def test_whoever_waits_is_woken(cluster: Cluster) -> None:
    """A record that arrives while nothing waits calls what `on_available` was given."""
    topic = cluster.topic()
    reader = cluster.source(topic).open("0", 0)
    assert isinstance(reader, Waking)
    woken = threading.Event()
    reader.on_available(woken.set)
    assert not reader.fetch(10).values and not reader.fetch(10).coming
    cluster.produce(topic, [5])
    assert woken.wait(60)
    assert reader.fetch(10).values == [5]
    reader.close()


def test_a_full_partition_rests_and_holds_up_nobody(cluster: Cluster) -> None:
    """A reader never holds more than its limit, the others get theirs meanwhile, and in the end all is there once."""
    topic = cluster.topic()
    cluster.produce(topic, range(3000), 0)
    source = cluster.source(topic, events_max=200)
    slow, quick = source.open("0", 0), source.open("1", 0)
    eventually(lambda: slow.paused)
    cluster.produce(topic, range(50), 1)
    assert list(read(quick, 50).values()) == list(range(50))
    assert 180 <= slow.held_events <= 200
    seen: list[int] = []
    while len(seen) < 3000:
        batch = fetch(slow, 7)
        assert batch.skipped == 0
        seen += batch.values
        assert slow.held_events <= 200
    assert seen == list(range(3000))
    slow.close()
    quick.close()


def test_large_records_are_bounded_by_their_bytes(cluster: Cluster) -> None:
    """A partition of large values rests when their bytes reach the limit, long before their number does."""
    topic = cluster.topic()
    for n in range(60):
        cluster.producer.produce(topic, str(n).encode().ljust(20_000), partition=0)
    cluster.producer.flush()
    source = cluster.source(topic, events_max=100, buffer_bytes_max=200_000)
    reader = source.open("0", 0)
    eventually(lambda: reader.paused)
    assert 180_000 <= reader.held_bytes <= 180_000 + 10 * 20_000, "the mark, and one poll above it"
    assert list(read(reader, 60).values()) == list(range(60))
    reader.close()


def test_offsets_that_are_gone_or_not_there_yet_are_refused(cluster: Cluster) -> None:
    """The error says which offset was wanted and which there are; and so does the client when they go later."""
    topic = cluster.topic()
    for n in range(8):  # the mock keeps 5 MB
        cluster.producer.produce(topic, bytes(900_000), partition=0)
    cluster.producer.flush()
    source = cluster.source(topic)
    first, end = source.bounds("0")
    assert 0 < first < end == 8
    with pytest.raises(PositionUnavailable, match=f"offsets before {first} have been deleted") as caught:
        source.open("0", 0)
    assert (caught.value.wanted, caught.value.first, caught.value.end) == (0, first, 8)
    with pytest.raises(PositionUnavailable, match="offset 8 is where it ends"):
        source.open("0", 9)
    late = KafkaReader("0", 0, 0, end=8, decode=len, limits=Limits(100, 10**9), owner=source._link)
    source._link.attach(late)  # as if they had been deleted just after it was opened
    with pytest.raises(PositionUnavailable, match=r"offset 0 is wanted.*out of range"):
        eventually(lambda: late.fetch(10).values)
    late.close()


def test_a_record_that_cannot_be_decoded_is_an_error_at_its_place(cluster: Cluster) -> None:
    """What came before it is delivered, then the error names it, again and again; nothing is dropped."""
    topic = cluster.topic()
    cluster.produce(topic, [1, 2, "three", 4])
    reader = cluster.source(topic).open("0", 0)
    eventually(lambda: reader.held_events == 4)
    assert reader.fetch(10).values == [1, 2]
    for _ in range(2):
        with pytest.raises(SourceFailed, match=r"record at 2 of topic .*invalid literal") as caught:
            reader.fetch(10)
        assert (caught.value.partition, caught.value.position) == ("0", 2)
    assert reader.held_events == 2
    reader.close()


def test_the_markers_of_transactions_hold_nothing(cluster: Cluster) -> None:
    """Between the records of transactions lie offsets without one: they are skipped, also at the very end."""
    topic = cluster.topic()
    producer = cluster.another_producer(**{"transactional.id": topic})
    producer.init_transactions(30)
    expected: dict[int, int] = {}
    for n in range(5):
        producer.begin_transaction()
        for i in range(n):
            producer.produce(topic, str(10 * n + i).encode(), partition=0)
        producer.commit_transaction(30)
    source = cluster.source(topic)
    _, end = source.bounds("0")
    assert end == 10 + 4, "each transaction that wrote has a marker"
    reader = source.open("0", 0)
    got = read(reader, end)
    reader.close()
    position = 0
    for n in range(1, 5):
        expected |= {position + i: 10 * n + i for i in range(n)}
        position += n + 1
    assert got == expected
    for at in (1, 3, 4, end):  # a position may be a marker's
        reader = source.open("0", at)
        assert read(reader, end) == {n: value for n, value in expected.items() if n >= at} if at < end else True
        reader.close()


class Record:
    """A message as far as its offset matters."""

    def __init__(self, offset: int) -> None:
        self.at = offset

    def offset(self) -> int:
        return self.at

    def __len__(self) -> int:
        return 1


def test_nothing_is_taken_behind_a_failure(cluster: Cluster) -> None:
    """Should the client go on behind what it could not read, a reader does not: that would be a gap that is none."""
    owner, decode = cluster.source("never-connected")._link, cast("Decode", Record.offset)
    reader = KafkaReader("0", 0, 0, end=9, decode=decode, limits=Limits(100, 100), owner=owner)
    records: Any = [Record(n) for n in range(9)]
    reader.add(records[:3])
    reader.fail(SourceFailed("damaged"))
    reader.add(records[6:])
    reader.end_at(9)
    assert reader.fetch(10).values == [0, 1, 2]
    with pytest.raises(SourceFailed, match="damaged"):
        reader.fetch(10)


@pytest.mark.parametrize("offsets", [list(each) for n in range(6) for each in itertools.combinations(range(6), n)])
def test_runs_are_the_offsets_cut_where_they_jump(offsets: list[int]) -> None:
    """Whatever is missing, runs are consecutive inside, apart from each other, and together what came."""
    records: Any = [Record(offset) for offset in offsets]
    for expected in range(7):
        runs = runs_of(records, expected)
        for run in runs:
            assert [each.offset() for each in run.records] == list(range(run.first, run.first + len(run.records)))
        assert all(a.first + len(a.records) < b.first for a, b in itertools.pairwise(runs))
        assert [each.offset() for run in runs for each in run.records] == [n for n in offsets if n >= expected]


# -- committed offsets


def test_what_is_acknowledged_is_committed_for_the_tools_of_the_broker(cluster: Cluster) -> None:
    """A plain consumer of the same group sees the offsets, the next to read of each partition; without a group none."""
    topic, group = cluster.topic(), "readers"
    cluster.produce(topic, range(10), 0)
    cluster.produce(topic, range(10), 2)
    source = cluster.source(topic, group=group, commit_interval_s=0.01)
    readers = [source.open("0", 0), source.open("2", 0)]
    for n in (3, 6):
        readers[0].acknowledge(n)
    eventually(lambda: cluster.committed(topic, group) == {"0": 7})
    readers[1].acknowledge(9)
    for each in readers:
        each.close()
    assert cluster.committed(topic, group) == {"0": 7, "2": 10}, "closing commits what is left"
    silent = cluster.source(topic).open("0", 0)
    silent.acknowledge(5)
    silent.close()
    assert cluster.committed(topic, "reliable-rx") == {}


def test_a_refused_commit_is_due_again_unless_a_newer_one_is(caplog: pytest.LogCaptureFixture) -> None:
    """Failures are kept, the newest offset of each partition wins, and there is one warning until it works."""
    offsets = Offsets("t", "g", 0.0)
    taken: list[dict[int, int]] = []

    class Broker:
        def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
            assert asynchronous
            taken.append({each.partition: each.offset for each in offsets})

    consumer: Any = Broker()
    offsets.note(0, 5)
    offsets.note(1, 7)
    offsets.begin(consumer)
    offsets.note(0, 6)
    offsets.begin(consumer)
    assert taken == [{0: 5, 1: 7}], "one at a time"
    refused = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "reliable_rx"):
            offsets.ended(refused, [TopicPartition("t", 0, 5), TopicPartition("t", 1, 7)])
        assert not offsets.settled
        offsets.begin(consumer)
    assert taken[1:] == [{0: 6, 1: 7}, {0: 5, 1: 7}]
    offsets.ended(None, [TopicPartition("t", 0, 5), TopicPartition("t", 1, 7)])
    assert offsets.settled
    assert len(caplog.records) == 1 and "not committed yet" in caplog.text


@pytest.mark.parametrize("answered", [True, False])
def test_offsets_that_are_given_up_at_the_end_are_told_of(
    answered: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers that do not answer hold the end up for a while only, and it is told that their tools are behind."""
    monkeypatch.setattr(kafka_link, "COMMIT_AT_CLOSE_S", 30.0 if answered else 0.02)
    offsets = Offsets("t", "g", 0.0)
    link = Link("t", {}, offsets, records_max=10)

    class Broker:
        taken: list[TopicPartition]

        def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
            self.taken = offsets

        def poll(self, timeout_s: float) -> None:
            if answered:
                offsets.ended(None, self.taken)

    offsets.note(0, 5)
    with caplog.at_level(logging.WARNING, "reliable_rx"):
        link._commit_rest(cast(Any, Broker()))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (not answered) and all("have not taken the last offsets of group g" in each for each in told)


# -- brokers that do not answer


@pytest.mark.leaves  # a thread that waits for brokers that are gone
def test_brokers_that_go_away_are_waited_for_and_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader without brokers gives nothing and says why in the log; a question to them fails within its time."""
    cluster = Cluster(1)
    topic = cluster.topic()
    cluster.produce(topic, range(3))
    source = cluster.source(topic, settings={"log_level": 0, "socket.timeout.ms": 1000})
    reader = source.open("0", 0)
    assert read(reader, 3) == {0: 0, 1: 1, 2: 2}
    assert len(source.listing()) == 4
    del cluster.producer, cluster.mock
    gc.collect()
    monkeypatch.setattr(source._asker, "_timeout_s", 0.5)  # from now on nobody answers
    with caplog.at_level(logging.WARNING, "reliable_rx"):
        eventually(lambda: "waiting for its brokers" in caplog.text)
        assert "waiting for its brokers" in source.trouble()
    assert not reader.fetch(10).values
    with pytest.raises(SourceFailed, match="the brokers do not say the partitions"):
        source.partitions()
    assert [each.name for each in source.listing()] == list(PARTITIONS), "the list that was known stands"
    assert "partitions that have been added are not seen" in caplog.text
    with pytest.raises(SourceFailed, match="the brokers do"):
        source.open("1", 0)
    reader.close()


def test_a_polling_thread_that_breaks_is_heard(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If anything unforeseen ends the thread, every reader fails instead of waiting for ever."""

    def broken(self: Link, consumer: Consumer) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(Link, "_press", broken)
    reader = cluster.source(cluster.topic()).open("0", 0)
    with pytest.raises(SourceFailed, match="is not polled any more: MemoryError: no more"):
        eventually(lambda: reader.fetch(1).values)
    reader.close()


# -- settings


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"settings": {"bootstrap.servers": "x"}}, "say it with bootstrap_servers="),
        ({"settings": {"group.id": "x"}}, "say it with group="),
        ({"settings": {"isolation.level": "read_uncommitted"}}, "say it with isolation="),
        ({"settings": {"max.partition.fetch.bytes": 1}}, "say it with bytes_max="),
        ({"settings": {"enable.auto.commit": True}}, "must be False or events could be lost"),
        ({"settings": {"auto.offset.reset": "earliest"}}, "must be 'error'"),
        ({"settings": {"group.instance.id": "x"}}, "partitions are assigned by whoever opens them"),
        ({"settings": {"on_commit": print}}, "retried and logged"),
        ({"isolation": "dirty"}, "isolation must be one of read_committed, read_uncommitted"),
        ({"bytes_min": 0}, "bytes_min=0"),
        ({"wait_s": -1.0}, "wait_s=-1.0 is not negative"),
        ({"events_max": 3}, "events_max is 3"),
    ],
)  # fmt: skip
def test_settings_that_are_not_the_users_are_refused(options: dict[str, Any], complaint: str) -> None:
    """The error says what to use instead, before anything connects."""
    with pytest.raises(ValueError, match=complaint):
        KafkaSource("t", bootstrap_servers="localhost:1", **options)


def test_the_least_limits_are_limits() -> None:
    """A fetch of one byte, which does not wait, is slow and may be asked for."""
    KafkaSource("t", bootstrap_servers="localhost:1", bytes_min=1, bytes_max=1, wait_s=0.0)


def test_settings_that_the_client_does_not_know_are_named() -> None:
    """A slip in a name is an error with that name at the first use."""
    source = KafkaSource("t", bootstrap_servers="localhost:1", settings={"security.protocoll": "SSL"})
    with pytest.raises(ValueError, match=r"security\.protocoll"):
        source.partitions()


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_records_that_cannot_be_decoded_are_passed_over(cluster: Cluster, policy: Any) -> None:
    """They keep their offsets, come with the batch behind them as they were written, and are the same each time."""
    topic = cluster.topic()
    cluster.produce(topic, ["zero", 1, 2, "three", "four", 5, "six"])

    def make() -> KafkaSource:
        return cluster.source(topic, on_bad_record=policy)

    check_source(make, finite=False, positions_max=4)
    reader = make().open("0", 0)
    eventually(lambda: reader.held_events == 7)
    batches = [reader.fetch(10) for _ in range(4)]
    assert [(batch.first, list(batch.values)) for batch in batches] == [(1, [1, 2]), (5, [5]), (7, []), (7, [])]
    rejected = [each for batch in batches for each in batch.rejected]
    assert [each.position for each in rejected] == [0, 3, 4, 6]
    assert rejected[0].value.value == b"zero" and "invalid literal" in rejected[0].error
    assert reader.held_events == 0
    reader.close()


@pytest.mark.parametrize("name", [each.name for each in hostile.ERRORS])
def test_whatever_decode_raises(cluster: Cluster, name: str) -> None:
    """It spoils its record alone: under `fail` in our words, again and again, and else at its offset."""
    owner, raises = cluster.source("never-connected")._link, hostile.Raises(name)
    records: Any = [Written(n) for n in range(10)]
    for fails in (True, False):
        decode = cast("Decode", lambda record: raises(record.offset()))
        reader = KafkaReader("0", 0, 0, end=10, decode=decode, limits=Limits(100, 100), owner=owner, fails=fails)
        reader.add(records)
        assert reader.fetch(100).values == [0, 1, 2, 3]
        if fails:
            for _ in range(2):
                with pytest.raises(SourceFailed, match="decode failed on the record at 4") as caught:
                    reader.fetch(100)
                assert caught.value.position == 4
            continue
        batches = [reader.fetch(100), reader.fetch(100)]
        assert [list(batch.values) for batch in batches] == [[5, 6, 7, 8], []]
        assert [each.position for batch in batches for each in batch.rejected] == [4, 9]
        assert reader.held_events == 0


class Written(Record):
    """A message with what a record is made of."""

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def headers(self) -> None:
        return None

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"value"

    def partition(self) -> int:
        return 0
