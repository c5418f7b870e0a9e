"""What is killed: a process that is Spark's driver, an evaluator over what Spark writes, or both at once.

A *flow* is where the rows come from, how they are published, and by which plan. The rows are numbered and say so
twice, so that each can be checked. The standing query counts them, so that its state can; what it says goes into a file
and, as a log, back to where Spark may read it. A process lives until it is killed, or `LAST` says with how many rows in
the log the last life ends.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
from spark_world import start_spark, stream

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import JsonLinesSink, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.probes import probe
from spark_bridge import MicroBatchSink, MicroBatchSource, configure, publish, register, run_on_spark

LAST = "last"
"""A file in the folder: how many rows the log is to have at least when the process ends by itself."""
WIDE = 6000
"""Length of a text with which the rows of a task have a file of their own."""
SAID = pa.schema([("n", pa.int64()), ("user", pa.int64()), ("seen", pa.int64()), ("right", pa.bool_())])


Source = Literal["files", "made", "clock", "log"]
SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True)
class Flow:
    """*source*: files, a stream made up by Spark (``made``), one made up by its clock, or a ``log``."""

    source: Source
    form: Literal["sink", "foreach_batch"]
    partitions: int = 1
    plan: Literal["rows", "windows", "keyed"] = "rows"

    @property
    def width(self) -> int:
        """How long a row's text is."""
        return WIDE if self.source in ("files", "log") and self.plan == "rows" else 0


def text(n: int, width: int) -> str:
    """Return what row *n* says of itself."""
    return f"row {n}".ljust(width, "x")


def rows_of(spark: Any, folder: Path, source: str) -> Any:
    if source == "files":
        return stream(spark, folder / "in")
    if source == "log":
        register(spark)
        given = spark.readStream.format("reliable_rx").option("path", str(folder / "in"))
        return given.option("maxRowsPerBatch", 20).option("rowsPerTask", 8).option("positions", "false").load()
    if source == "made":
        made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
    else:
        made = spark.readStream.format("rate").option("rowsPerSecond", 20)
    return made.option("numPartitions", 1).load().selectExpr("value as n", "timestamp as at")


def planned(spark: Any, folder: Path, flow: Flow) -> Any:
    """Return the frame that is published: numbered rows, or sums of event-time windows over them."""
    from pyspark.sql import functions as f

    rows = rows_of(spark, folder, flow.source)
    if flow.plan == "windows":
        windows = rows.withWatermark("at", "1 minute").groupBy(f.window("at", "10 minutes"))
        return windows.agg((f.sum("n") / 100).cast("long").alias("n")).selectExpr(
            "n", "n % 3 as user", "concat('row ', n) as text"
        )
    if flow.plan == "keyed":
        return keyed(spark, rows.selectExpr("n", "n % 3 as user"))
    said = f"rpad(concat('row ', n), greatest({flow.width}, length(concat('row ', n))), 'x') as text"
    return rows.selectExpr("n", "n % 3 as user", said)


def keyed(spark: Any, rows: Any) -> Any:
    """Return what a standing query on Spark counts for each user; the rows say of themselves what it has counted."""
    configure(spark)
    count = ops.scan(lambda seen, row: (row["n"], seen[1] + 1), (0, 0))
    query = rx.source("rows").pipe(ops.group_by(lambda row: row["user"]), ops.flat_map(lambda user: user.pipe(count)))
    emitted = run_on_spark(query, rows, key="user", seq="n", emits="n long, seen long")
    return emitted.selectExpr("n", "user", "concat('row ', 3 * (seen - 1) + user) as text")


def drive(folder: Path, flow: Flow) -> Any:
    spark = start_spark("local[2,2]")
    shared: dict[str, Any] = {"key": "user", "partitions": flow.partitions} if flow.partitions > 1 else {}
    frame = planned(spark, folder, flow)
    return publish(frame, folder / "log", checkpoint=folder / "checkpoint", form=flow.form, **shared)


def host(folder: Path, query: Any, *, width: int) -> None:
    """Run the standing query until the log has been ended and all of it is out; with Spark's *query*, or without."""

    def count(before: tuple[int, int, int, bool], row: dict[str, Any]) -> tuple[int, int, int, bool]:
        probe("app.turn")
        return row["n"], row["user"], before[2] + 1, row["text"] == text(row["n"], width)

    source = MicroBatchSource(folder / "log")
    with SqliteStore(folder / "store") as store:
        evaluator = QueryEvaluator(store, checkpoint_interval_s=0.05, checkpoint_events=20, batch_events_max=4)
        evaluator.source("rows", source)
        evaluator.create("counted", rx.source("rows").pipe(ops.scan(count, (-1, -1, 0, True))))
        evaluator.sink("counted", JsonLinesSink(folder / "out.jsonl"))
        evaluator.sink("counted", MicroBatchSink(folder / "back", SAID))
        with evaluator:
            evaluator.run(until=lambda: is_over(folder, query, source, evaluator.stream("counted").visible))
            evaluator.checkpoint()


def is_over(folder: Path, query: Any, source: MicroBatchSource, visible: int) -> bool:
    """Whether all rows of the log are out, and no more are to come; stop Spark when there are enough."""
    if query is not None and query.exception() is not None:
        raise SystemExit(str(query.exception()))
    if not is_enough(folder, source):
        return False
    if query is not None and query.isActive:
        query.stop()
    return (query is not None or (folder / "stopped").exists()) and visible == rows_in(source)


def is_enough(folder: Path, source: MicroBatchSource) -> bool:
    return (folder / LAST).exists() and rows_in(source) >= int((folder / LAST).read_text())


def rows_in(source: MicroBatchSource) -> int:
    return sum(source.bounds(name)[1] for name in source.partitions())


def main(folder: Path, role: str, flow: Flow) -> None:
    if role == "evaluator":
        host(folder, None, width=flow.width)
        return
    query = drive(folder, flow)
    if role == "both":
        host(folder, query, width=flow.width)
        return
    source = MicroBatchSource(folder / "log")
    while query.isActive and not is_enough(folder, source):
        query.awaitTermination(0.05)
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    query.stop()
    (folder / "stopped").touch()


if __name__ == "__main__":
    source, form, partitions, plan = sys.argv[3:]
    main(Path(sys.argv[1]), sys.argv[2], Flow(source, form, int(partitions), plan))  # type: ignore[arg-type]
