"""What is killed: a process that is Spark's driver, an evaluator over what Spark writes, or both at once.

A *flow* is where the rows come from, how they are published, and by which plan; one driver may run several, and one
evaluator reads them all. The rows are numbered and say so twice, so that each can be checked. A standing query counts
them, so that its state can; what it says goes into a file and, as a log, back to where Spark may read it. A process
lives until it is killed, or `LAST` says for each flow with how many rows in the log the last life ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
from spark_world import start_spark, stream

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import JsonLinesSink, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.failpoints import probe
from spark_bridge import MicroBatchSink, MicroBatchSource, configure, publish, register, run_on_spark

LAST = "last"
"""A file in a flow's folder: how many rows the log is to have at least when the process ends by itself."""
STOPPED = "stopped"
WIDE = 6000
"""Length of a text with which the rows of a task have a file of their own."""
TRIGGER = {"processingTime": "500 milliseconds"}
"""Sources that never run dry leave the others some time."""
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
    def name(self) -> str:
        return f"{self.source}-{self.plan}-{self.form}-{self.partitions}"

    @classmethod
    def named(cls, name: str) -> Flow:
        source, plan, form, partitions = name.split("-")
        return cls(source, form, int(partitions), plan)  # type: ignore[arg-type]

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


def drive(spark: Any, folder: Path, flow: Flow) -> Any:
    """Start to publish a flow whose folder this is."""
    shared: dict[str, Any] = {"key": "user", "partitions": flow.partitions} if flow.partitions > 1 else {}
    shared |= {"trigger": TRIGGER} if flow.source in ("made", "clock") else {}
    frame = planned(spark, folder, flow)
    return publish(frame, folder / "log", checkpoint=folder / "checkpoint", form=flow.form, name=flow.name, **shared)


class Life:
    """What a process knows of its flows."""

    def __init__(self, folder: Path, flows: Sequence[Flow]) -> None:
        self.folder, self.flows = folder, flows
        self.queries: list[Any] = []
        self.sources = {flow: MicroBatchSource(folder / flow.name / "log") for flow in flows}

    def start(self) -> None:
        spark = start_spark("local[2,2]")
        if len(self.flows) > 1:  # several queries share two cores: the state of each in one place
            spark.conf.set("spark.sql.shuffle.partitions", "1")
        self.queries = [drive(spark, self.folder / flow.name, flow) for flow in self.flows]

    def has_enough(self) -> bool:
        return all(self._has_enough(self.folder / flow.name / LAST, source) for flow, source in self.sources.items())

    def _has_enough(self, last: Path, source: MicroBatchSource) -> bool:
        return last.exists() and rows_in(source) >= int(last.read_text())

    def stop(self) -> None:
        for query in self.queries:
            query.stop()
        (self.folder / STOPPED).touch()

    def check(self) -> None:
        """End this process if a query has failed."""
        for query in self.queries:
            if query.exception() is not None:
                raise SystemExit(str(query.exception()))


def host(life: Life) -> None:
    """Run a standing query per flow until Spark has been stopped and all of its logs is out; stop Spark if ours."""

    def is_over() -> bool:
        life.check()
        if life.queries and not (life.folder / STOPPED).exists() and life.has_enough():
            life.stop()
        if not (life.folder / STOPPED).exists():
            return False
        return all(evaluator.stream(f.name).visible == rows_in(source) for f, source in life.sources.items())

    with SqliteStore(life.folder / "store") as store:
        evaluator = QueryEvaluator(store, checkpoint_interval_s=0.05, checkpoint_events=20, batch_events_max=4)
        for flow, source in life.sources.items():
            evaluator.source(f"rows of {flow.name}", source)
            evaluator.create(flow.name, rx.source(f"rows of {flow.name}").pipe(counting(flow.width)))
            evaluator.sink(flow.name, JsonLinesSink(life.folder / flow.name / "out.jsonl"))
            evaluator.sink(flow.name, MicroBatchSink(life.folder / flow.name / "back", SAID))
        with evaluator:
            evaluator.run(until=is_over)
            evaluator.checkpoint()


def counting(width: int) -> Any:
    """Return the operator that counts rows whose text is as long as *width* says."""

    def count(before: tuple[int, int, int, bool], row: dict[str, Any]) -> tuple[int, int, int, bool]:
        probe("app.turn")
        return row["n"], row["user"], before[2] + 1, row["text"] == text(row["n"], width)

    return ops.scan(count, (-1, -1, 0, True))


def rows_in(source: MicroBatchSource) -> int:
    return sum(source.bounds(name)[1] for name in source.partitions())


def main(folder: Path, role: str, *flows: Flow) -> None:
    life = Life(folder, flows)
    if role != "evaluator":
        life.start()
    if role != "driver":
        host(life)
        return
    while not life.has_enough():
        life.queries[0].awaitTermination(0.05)
        life.check()
    life.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(Flow.named, sys.argv[3:]))
