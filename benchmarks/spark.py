"""The bridge to Spark and back: rows out of Spark into an evaluator, rows into Spark, and one event's way.

*out*: a stream of Parquet files goes through Spark into a micro-batch log, synced, and from there into a standing query
as plain Python values, while Spark makes the next batch. Beside it: the same files read by pyarrow into the same values
(``to_pylist``; *quick* with our own conversion in its place, which is the harder peer), and Spark's `foreachBatch` with
``collect()``. The first batch warms up and is not counted. *tuples* have microseconds in place of datetimes.

*in*: Spark reads a log with ``format("reliable_rx")``, and the same rows from Parquet with a Python data source that
does nothing else. Both give Arrow batches, and both are written to ``noop``.

*latency*: a file with one row is moved to where Spark looks, at trigger 0 s; timed is when its row is in the stream of
a standing query. Beside it Spark's own time for that batch, and for one that goes to ``noop``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import reliable_rx as rx
from benchmarks.measuring import Bar, Result, arguments, interleaved, report, times_as_fast
from checkpoint import SqliteStore
from hosting import QueryEvaluator
from reliable_rx import operators as ops

ROWS, BATCHES, FILES = 250_000, 4, 2
EVENTS, WARM = 100, 5
COLUMNS = "n long, user string, value double, at timestamp"
START = datetime(2026, 7, 1, tzinfo=UTC)
WAIT_S = 120.0
EVERY, TURN_ROWS = 1_000, 10_000
QUERIES: dict[str, tuple[dict[str, Any], Any]] = {
    "dict": (
        {},
        rx.source("rows").pipe(ops.filter(lambda row: row["n"] % EVERY == 0), ops.map(lambda row: row["user"])),
    ),
    "tuple": (
        {"values": "tuple", "timestamps": "microseconds"},
        rx.source("rows").pipe(ops.filter(lambda row: row[0] % EVERY == 0), ops.map(lambda row: row[1])),
    ),
}


def start() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stopTimeout": "20000",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def table(first: int, rows: int) -> Any:
    numbers = range(first, first + rows)
    at = pa.array([int(START.timestamp() * 1e6) + 1_000 * n for n in numbers], pa.int64()).cast(
        pa.timestamp("us", tz="UTC")
    )
    return pa.table(
        {"n": list(numbers), "user": [f"user-{n % 1000}" for n in numbers], "value": [n % 97 / 2 for n in numbers]}
    ).append_column("at", at)


def put(folder: Path, number: int, rows: Any) -> None:
    """Write a file whole; Spark takes files in the order of their times."""
    folder.mkdir(exist_ok=True)
    beside = folder.parent / f"{number}.parquet"
    pq.write_table(rows, beside)
    os.utime(beside, (START.timestamp() + number,) * 2)
    beside.rename(folder / f"{number:06d}.parquet")


def write_input(folder: Path, rows: int, batches: int) -> Path:
    """Write *batches* and one to warm up, each as several files, that is, tasks."""
    each = rows // FILES
    for number in range((batches + 1) * FILES):
        put(folder / "in", number, table(number * each, each))
    return folder / "in"


def streamed(spark: Any, files: Path) -> Any:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", FILES).parquet(str(files))


def bridge(spark: Any, folder: Path, files: Path, rows: int, batches: int, how: str) -> float:
    """Return the time from the last row of the first batch to the last row of all, as the query has passed them on."""
    from spark_bridge import MicroBatchSource, publish

    settings, query = QUERIES[how]
    first, whole = rows // EVERY, rows * (batches + 1) // EVERY
    began = 0.0

    def finished() -> bool:
        nonlocal began
        there = evaluator.stream("some").visible
        if not began and there >= first:
            began = time.perf_counter()
        return there >= whole

    with tempfile.TemporaryDirectory(dir=folder) as own:
        log, checkpoint = f"{own}/log", f"{own}/checkpoint"
        publishing = publish(streamed(spark, files), log, checkpoint=checkpoint, trigger={"availableNow": True})
        with SqliteStore(f"{own}/store") as store, QueryEvaluator(store, batch_events_max=TURN_ROWS) as evaluator:
            evaluator.source("rows", MicroBatchSource(log, **settings))
            evaluator.create("some", query)
            evaluator.run(until=finished)
            took = time.perf_counter() - began
        publishing.awaitTermination()
    return took


def collected(spark: Any, folder: Path, files: Path, rows: int) -> float:
    """Return the time from the end of the first batch to the end of the last."""
    ends = []

    def batch(df: Any, number: int) -> None:
        if len(df.collect()) != rows:
            raise SystemExit(f"not all rows of batch {number} have come")
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory(dir=folder) as own:
        writer = streamed(spark, files).writeStream.option("checkpointLocation", own).trigger(availableNow=True)
        writer.foreachBatch(batch).start().awaitTermination()
    return ends[-1] - ends[0]


def listed(files: Path, values: Callable[[Any], list[Any]]) -> float:
    """Read without Spark, file by file."""
    paths = sorted(files.iterdir())[FILES:]
    began = time.perf_counter()
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(TURN_ROWS):
            if len(values(batch)) != batch.num_rows:
                raise SystemExit(f"not all rows of {path} have come")
    return time.perf_counter() - began


def out(spark: Any, where: str | None, rows: int, batches: int, rounds: int, budget_s: float) -> Result:
    """Compare the ways out of Spark."""
    from spark_bridge.values import rows_of

    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        folder = Path(directory)
        files = write_input(folder, rows, batches)
        sides: dict[str, Callable[[], float]] = {
            "bridge": lambda: bridge(spark, folder, files, rows, batches, "dict"),
            "cheap": lambda: bridge(spark, folder, files, rows, batches, "tuple"),
            "pyarrow": lambda: listed(files, lambda batch: batch.to_pylist()),
            "quick": lambda: listed(files, rows_of),
            "collect": lambda: collected(spark, folder, files, rows),
        }
        sides["collect"]()
        times = interleaved(sides, rounds=rounds, budget_s=budget_s)
    figures: dict[str, float | None] = {
        "rows_per_s": rows * batches / statistics.median(times["bridge"]),
        "vs_pyarrow": times_as_fast(times, "bridge", "pyarrow"),
        "vs_pyarrow_quick": times_as_fast(times, "bridge", "quick"),
        "vs_collect": times_as_fast(times, "bridge", "collect"),
        "tuples_rows_per_s": rows * batches / statistics.median(times["cheap"]),
        "tuples_vs_pyarrow": times_as_fast(times, "cheap", "pyarrow"),
        "tuples_vs_collect": times_as_fast(times, "cheap", "collect"),
    }
    note = f"{batches} batches of {rows:,} rows, {len(times['bridge'])} rounds"
    return Result("spark_out", figures, [Bar("vs_pyarrow", 0.5), Bar("vs_collect", 3)], note)


# -- into Spark


def parquet_source() -> Any:
    """Return a Python data source that reads Parquet files and does nothing else, one task per file."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(str(path)) for path in sorted(Path(self.folder).iterdir())]

        def read(self, partition: InputPartition) -> Any:
            return pq.ParquetFile(partition.value).iter_batches(TURN_ROWS)

    class ParquetOnly(DataSource):
        @classmethod
        def name(cls) -> str:
            return "parquet_only"

        def schema(self) -> str:
            return COLUMNS

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["path"])

    return ParquetOnly


def read_whole(spark: Any, kind: str, path: Path, **options: str) -> float:
    began = time.perf_counter()
    spark.read.format(kind).options(path=str(path), **options).load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def into(spark: Any, where: str | None, rows: int, batches: int, rounds: int, budget_s: float) -> Result:
    """Compare the data source with one that only reads Parquet."""
    from spark_bridge import publish, register

    register(spark)
    spark.dataSource.register(parquet_source())
    whole = rows * (batches + 1)
    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        files, log = write_input(Path(directory), rows, batches), Path(directory) / "log"
        checkpoint = f"{directory}/checkpoint"
        publish(streamed(spark, files), log, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()
        if spark.read.format("reliable_rx").load(str(log)).count() != whole:
            raise SystemExit("the log does not have the rows that went in")
        sides: dict[str, Callable[[], float]] = {
            "log": lambda: read_whole(spark, "reliable_rx", log),
            "without": lambda: read_whole(spark, "reliable_rx", log, positions="false"),
            "parquet": lambda: read_whole(spark, "parquet_only", files),
        }
        for side in sides.values():
            side()
        times = interleaved(sides, rounds=rounds, budget_s=budget_s)
    figures: dict[str, float | None] = {
        "rows_per_s": whole / statistics.median(times["log"]),
        "vs_parquet": times_as_fast(times, "log", "parquet"),
        "without_positions_vs_parquet": times_as_fast(times, "without", "parquet"),
    }
    return Result("spark_in", figures, [Bar("vs_parquet", 0.7)], f"{whole:,} rows, with their positions and without")


# -- one event's way


def one_by_one(folder: Path, events: int, seen: Callable[[int], bool]) -> list[float]:
    """Move file by file to where Spark looks, each when the one before was *seen*; return how long each took."""
    chance, took = random.Random(7), list[float]()
    for number in range(events):
        time.sleep(chance.uniform(0, 0.2))
        at = time.perf_counter()
        put(folder, number, table(number, 1))
        while not seen(number):
            if time.perf_counter() - at > WAIT_S:
                raise SystemExit(f"event {number} has not come in {WAIT_S} s")
            time.sleep(0.0005)
        took.append(time.perf_counter() - at)
    return took


def batch_ms(query: Any) -> list[float]:
    return [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"] == 1]


def latency(spark: Any, where: str | None, events: int) -> Result:
    """Time events one by one, and Spark's batches without the bridge."""
    from spark_bridge import MicroBatchSource, publish

    with tempfile.TemporaryDirectory(prefix="reliable-rx-bench-", dir=where) as directory:
        folder = Path(directory)
        (folder / "in").mkdir()
        (folder / "plain").mkdir()
        publishing = publish(streamed(spark, folder / "in"), folder / "log", checkpoint=folder / "checkpoint")
        with SqliteStore(folder / "store") as store, QueryEvaluator(store) as evaluator:
            evaluator.source("rows", MicroBatchSource(folder / "log"))
            evaluator.create("numbers", rx.source("rows").pipe(ops.map(lambda row: row["n"])))
            running = threading.Thread(target=evaluator.run)
            running.start()
            stream = evaluator.stream("numbers")
            took = one_by_one(folder / "in", events + WARM, lambda number: stream.visible > number)[WARM:]
            evaluator.stop()
            running.join()
        own = batch_ms(publishing)[WARM:]
        publishing.stop()
        writer = streamed(spark, folder / "plain").writeStream.format("noop")
        plain = writer.option("checkpointLocation", f"{directory}/other").start()
        one_by_one(folder / "plain", events + WARM, lambda number: len(batch_ms(plain)) > number)
        noop = batch_ms(plain)[WARM:]
        plain.stop()
    figures: dict[str, float | None] = {
        "median_ms": statistics.median(took) * 1e3,
        "p99_ms": percentile(took, 0.99) * 1e3,
        "batch_median_ms": statistics.median(own),
        "batch_p99_ms": percentile(own, 0.99),
        "noop_batch_median_ms": statistics.median(noop),
        "vs_batch": statistics.median(took) * 1e3 / statistics.median(own),
    }
    return Result("spark_latency", figures, note=f"{events} events, one by one, trigger 0 s")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of a batch")
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=EVENTS, help="events whose latency is taken")
    parser.add_argument("--only", choices=("out", "in", "latency"))
    given = parser.parse_args()
    how = (given.dir, given.rows, given.batches, given.rounds, 100.0)
    spark = start()
    for name, side in {
        "out": lambda: out(spark, *how),
        "in": lambda: into(spark, *how),
        "latency": lambda: latency(spark, given.dir, given.events),
    }.items():
        if given.only in (None, name):
            report([side()], as_json=given.json)
    spark.stop()


if __name__ == "__main__":
    main()
