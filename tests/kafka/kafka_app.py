"""A process that hosts queries over a topic of Kafka, until it has seen a number of records or somebody kills it.

It is given the folder of its store, the brokers, the topic, and how many records there are. The brokers live in the
process that started it, and survive its end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import JsonLinesSink, QueryEvaluator
from hosting.sources.kafka import KafkaRecord, KafkaSource
from reliable_rx import operators as ops

KEYS = 5
GROUP = "kafka-app"


def main(folder: Path, servers: str, topic: str, records: int) -> None:
    source = KafkaSource(
        topic,
        bootstrap_servers=servers,
        group=GROUP,
        decode=decode,
        wait_s=0.02,
        commit_interval_s=0.02,
        settings={"check.crcs": False, "log_level": 0},  # mock brokers give the markers of transactions no checksums
    )
    with SqliteStore(folder / "store") as store:
        evaluator = QueryEvaluator(store, checkpoint_interval_s=0.05, batch_events_max=7, full_every=4)
        evaluator.source("topic", source)
        evaluator.create("sums", sums(rx.source("topic")))
        evaluator.sink("sums", JsonLinesSink(folder / "sums.jsonl"))
        with evaluator:
            os.write(1, b"running\n")
            evaluator.run(until=lambda: evaluator.engine.emitted("sums") >= records)


def decode(record: KafkaRecord) -> tuple[str, int]:
    return record.partition, int(record.value or b"")


def sums(source: Any) -> Any:
    """Sum up each partition: what comes out of one depends on all that came before in it, and on nothing else."""
    return source.pipe(
        ops.group_by(lambda event: event[0]),
        ops.flat_map(lambda group: group.pipe(ops.scan(lambda total, event: (event[0], total[1] + event[1]), ("", 0)))),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
