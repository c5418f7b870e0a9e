"""Hosted queries over Kafka: what comes out is what RxPY gives, wherever the evaluator or its process was stopped."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import reactivex
from kafka_app import GROUP, sums
from kafka_cluster import DEADLINE_S, PARTITIONS, Cluster, eventually

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from hosting.sources import kafka_link
from hosting.sources.kafka import KafkaRecord
from reliable_rx import NondeterminismDetected, SourceFailed

APP = Path(__file__).with_name("kafka_app.py")
KILLED = -9
Sums = dict[str, list[int]]


def by_partition(record: KafkaRecord) -> tuple[str, int]:
    return record.partition, int(record.value or b"")


def hosted(cluster: Cluster, topic: str, store: MemoryStore, **options: Any) -> QueryEvaluator:
    options = {"checkpoint_interval_s": 1000.0, "checkpoint_events": 20, "batch_events_max": 3} | options
    evaluator = QueryEvaluator(store, background=False, **options)
    evaluator.source("topic", cluster.source(topic, decode=by_partition, group="hosted", commit_interval_s=0.01))
    evaluator.create("sums", sums(rx.source("topic")))
    return evaluator


def came_out(evaluator: QueryEvaluator) -> list[Any]:
    return [value for part in evaluator.stream("sums").read(0, 10_000) for value in part.values]


def split(values: list[Any]) -> Sums:
    found: Sums = {}
    for partition, total in values:
        found.setdefault(partition, []).append(total)
    return found


def unhosted(events: list[tuple[str, int]]) -> Sums:
    """Run the same query in RxPY."""
    seen: list[Any] = []
    sums(reactivex.from_iterable(events)).subscribe(seen.append)
    return split(seen)


def write(cluster: Cluster, topic: str, count: int, seed: int) -> list[tuple[str, int]]:
    """Write to all partitions, some of it in transactions, whose markers leave gaps."""
    draw = random.Random(seed)
    events = [(draw.choice(PARTITIONS), draw.randrange(100)) for _ in range(count)]
    producer = cluster.another_producer(**{"transactional.id": topic})
    producer.init_transactions(30)
    for begin in range(0, count, 25):
        producer.begin_transaction()
        for partition, value in events[begin : begin + 25]:
            producer.produce(topic, str(value).encode(), partition=int(partition))
        producer.commit_transaction(30)
    return events


def test_stopped_at_any_boundary_a_query_gives_what_rxpy_gives(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped without a checkpoint after any number of steps, again and again: each value once, in order."""
    # A new consumer looks for its coordinator first, for which a busy machine needs longer than an end waits.
    monkeypatch.setattr(kafka_link, "COMMIT_AT_CLOSE_S", DEADLINE_S)
    monkeypatch.setattr(kafka_link, "CLOSE_S", 2 * DEADLINE_S)
    topic, draw = cluster.topic(), random.Random(3)
    events = write(cluster, topic, 200, seed=1)
    store, done = MemoryStore(), 0
    for _ in range(8):
        evaluator = hosted(cluster, topic, store)
        evaluator.start()
        assert len(came_out(evaluator)) >= done, "what was visible stays"
        for _ in range(draw.randrange(1, 12)):
            eventually(evaluator.step) if len(came_out(evaluator)) < 200 else evaluator.step()
        done = len(came_out(evaluator))
        evaluator.close()
        store = store.reopen()
    with hosted(cluster, topic, store) as evaluator:
        evaluator.run(until=lambda: len(came_out(evaluator)) >= 200)
        assert split(came_out(evaluator)) == unhosted(events)
        ends = {each: cluster.source(topic).bounds(each)[1] for each in PARTITIONS}
        positions = evaluator.intake.positions
        evaluator.run(until=lambda: positions() == {("topic", each): end for each, end in ends.items()})
    assert cluster.committed(topic, "hosted") == ends, "the tools of the broker see that nothing is left to read"


def test_events_that_are_deleted_before_their_turn_is_replayed_are_missed(cluster: Cluster) -> None:
    """A journalled turn whose records the brokers no longer have stops the start: it is never made of others."""
    topic, store = cluster.topic(), MemoryStore()
    cluster.produce(topic, [1, 2, 3])
    evaluator = hosted(cluster, topic, store)
    evaluator.run(until=lambda: len(came_out(evaluator)) == 3)
    evaluator.close()
    for _ in range(7):  # the mock keeps 5 MB
        cluster.producer.produce(topic, b"9".ljust(900_000), partition=0)
    cluster.producer.flush()
    with pytest.raises(LookupError, match=r"offsets before .* have been deleted"):
        hosted(cluster, topic, store.reopen()).start()


def test_a_record_that_cannot_be_decoded_stops_the_evaluator_at_its_place(cluster: Cluster) -> None:
    """What came before it is out, the error names it, and it is met again after a restart: nothing is dropped."""
    topic, store = cluster.topic(), MemoryStore()
    cluster.produce(topic, [1, 2, "three", 4])
    for _ in range(2):
        evaluator = hosted(cluster, topic, store)
        with pytest.raises(SourceFailed, match="record at 2") as caught:
            evaluator.run()
        assert caught.value.position == 2
        assert split(came_out(evaluator)) == {"0": [1, 3]}
        evaluator.close()
        store = store.reopen()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_a_process_loses_and_doubles_nothing(cluster: Cluster, seed: int, tmp_path: Path) -> None:
    """A real process, really killed while it reads, writes and commits; the brokers go on without it."""
    topic, draw = cluster.topic(), random.Random(seed)
    expected: list[tuple[str, int]] = []
    kills = 0
    for number in range(4):
        expected += write(cluster, topic, 2000, seed=100 * seed + number)
        kills += run(cluster, topic, tmp_path, len(expected), kill_after_s=draw.random() * 0.3) == KILLED
    assert kills >= 2
    assert run(cluster, topic, tmp_path, len(expected)) == 0
    lines = [json.loads(line) for line in (tmp_path / "sums.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(len(expected)))
    found = split([line["value"] for line in lines])
    assert found == {p: list(accumulate(v for q, v in expected if q == p)) for p in PARTITIONS}
    source = cluster.source(topic)
    committed = cluster.committed(topic, GROUP)
    for each in PARTITIONS:
        assert source.bounds(each)[1] - 1 <= committed[each] <= source.bounds(each)[1], "at most a marker is left"


def run(cluster: Cluster, topic: str, folder: Path, records: int, kill_after_s: float | None = None) -> int:
    process = subprocess.Popen(
        [sys.executable, str(APP), str(folder), cluster.servers, topic, str(records)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    assert process.stdout is not None
    if kill_after_s is not None and process.stdout.readline():
        try:
            process.wait(kill_after_s)
        except subprocess.TimeoutExpired:
            process.kill()
    _, complaint = process.communicate(timeout=120)
    assert process.returncode in (0, KILLED), complaint.decode()
    return process.returncode


def doubled(record: KafkaRecord) -> tuple[str, int]:
    return record.partition, 2 * int(record.value or b"")


def test_a_decode_that_is_edited_behind_a_kill_is_refused_and_behind_a_stop_is_used(cluster: Cluster) -> None:
    """The brokers give the records of journalled turns again, and only what has decoded them may do so."""
    topic, store = cluster.topic(), MemoryStore()
    cluster.produce(topic, [1, 2, 3])

    def begin(decode: Any) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1000.0)
        evaluator.source("topic", cluster.source(topic, decode=decode, group="edits", commit_interval_s=0.01))
        evaluator.create("sums", sums(rx.source("topic")))
        return evaluator

    evaluator = begin(by_partition)
    evaluator.run(until=lambda: len(came_out(evaluator)) == 3)
    evaluator.abandon()
    edited = begin(doubled)
    with pytest.raises(NondeterminismDetected, match=r"source 'topic' .* its decode \(.*doubled\)"):
        edited.start()
    edited.abandon()
    with begin(by_partition) as evaluator:
        evaluator.start()
        assert [total for _, total in came_out(evaluator)] == [1, 3, 6]
    cluster.produce(topic, [4])
    with begin(doubled) as evaluator:
        evaluator.run(until=lambda: len(came_out(evaluator)) == 4)
        assert [total for _, total in came_out(evaluator)] == [1, 3, 6, 14]
