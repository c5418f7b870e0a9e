"""A process that runs Spark's driver and an evaluator over what it writes, until all rows are out or somebody kills it.

Given a folder and the form of `publish`. The rows come out of files, one a batch; a query passes them on into a file of
lines.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_world import start_spark, stream

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import JsonLinesSink, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.testing.faults import arm_from_environment
from spark_bridge import MicroBatchSource, publish

FILES, ROWS = 8, 10


def main(folder: Path, form: str) -> None:
    arm_from_environment()
    spark = start_spark("local[2]")
    rows = stream(spark, folder / "in")
    query = publish(rows, folder / "log", checkpoint=folder / "checkpoint", form=form)  # type: ignore[arg-type]
    with SqliteStore(folder / "store") as store:
        evaluator = QueryEvaluator(store, checkpoint_interval_s=0.01, checkpoint_events=5, batch_events_max=4)
        evaluator.source("rows", MicroBatchSource(folder / "log"))
        evaluator.create("numbers", rx.source("rows").pipe(ops.map(lambda row: row["n"])))
        evaluator.sink("numbers", JsonLinesSink(folder / "out.jsonl"))
        with evaluator:
            end = FILES * ROWS
            evaluator.run(until=lambda: evaluator.stream("numbers").visible >= end or query.exception() is not None)
            evaluator.checkpoint()
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
