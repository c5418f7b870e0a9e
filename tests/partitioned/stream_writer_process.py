"""A node that writes a stream, as a process: it takes over the store of its epoch and runs until killed or lost."""

from __future__ import annotations

import sys
from typing import Any

import reliable_rx as rx
from hosting import GeneratorSource, QueryEvaluator
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition, Shard
from reliable_rx.errors import LeaseLost

PARTITION = Partition("n", "0")
BUFFER_MAX = 400


def lease(epoch: int) -> Lease:
    return Lease(PARTITION, MemberId(f"node-{epoch}"), Epoch(epoch))


def shards() -> list[Shard]:
    return [Shard(PARTITION)]


def writer(store: Any, source: Any, **options: Any) -> QueryEvaluator:
    """Host the sums of *source*, of which little is kept but for those who hold it."""
    options = {"buffer_events_max": BUFFER_MAX, **options}
    evaluator = QueryEvaluator(store, retain_events=5, batch_events_max=10, **options)
    evaluator.source("n", source)
    evaluator.create("sums", rx.source("n").scan(lambda total, n: total + n, 0))
    return evaluator


def main(root: str, epoch: int, count: int) -> None:
    source = GeneratorSource(lambda i, _: i, count=count)
    with FolderStores(root).open(lease(epoch)) as store:
        evaluator = writer(store, source, checkpoint_interval_s=0.01, buffer_events_max=count)
        evaluator.stream("sums").hold("reader", 0)
        try:
            evaluator.start()
            sys.stdout.write("started\n")
            sys.stdout.flush()
            evaluator.run()
            evaluator.checkpoint()
            evaluator.close()
        except LeaseLost:
            evaluator.abandon()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
