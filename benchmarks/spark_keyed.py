"""A keyed scan on Spark: `run_on_spark` beside hand-written, bucketed `transformWithStateInPandas`, in the same run.

Both sides read the same files batch by batch, group by the same number of buckets, sort by sequence id, add up the
values of each key, and emit a row with the key's next id for every event; the hand-written one keeps one pickled
dictionary per bucket. *per key* is the scan written for one key over one column; *grouped* is the same scan behind
`group_by`, whose lambdas take rows. *native* is what Spark itself has nearest to it: an aggregation in the JVM that
gives a row with count and sum per key and batch, not per event. First a batch that begins all keys warms up and is not
counted. Wall time per query run, median of the ratios of interleaved rounds: ``over_by_hand`` is the time of *per key*
over that of the hand-written query, below 1 if it is faster.

With ``--core`` no Spark is started: one bucket's work, in this process, rows in and out of packets included.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import os
import pickle
import random
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import reliable_rx as rx
from benchmarks.measuring import Bar, Result, arguments, interleaved, report, times_as_fast
from reliable_rx import operators as ops
from spark_bridge.keyed import Bucket, KeyedQuery
from spark_bridge.on_spark.layout import Layout, SourceColumns
from spark_bridge.on_spark.packets import packed

BUCKETS, BAR = 16, 1.3
ROWS, BATCHES = 250_000, 2
SIDES = ("hand", "per key", "grouped", "native")


def scan_per_key() -> Any:
    return rx.source("s").pipe(ops.scan(lambda total, v: total + v, 0.0))


def scan_grouped() -> Any:
    return rx.source("s").pipe(
        ops.group_by(lambda row: row[1]),
        ops.flat_map(lambda g: g.pipe(ops.map(lambda row: row[2]), ops.scan(lambda total, v: total + v, 0.0))),
    )


def by_hand(blob: bytes | None, seqs: list[int], keys: list[int], values: list[float]) -> tuple[bytes, list[Any]]:
    """The loop that one would write: a dictionary of (next id, total), rows in order of their sequence ids."""
    states: dict[int, tuple[int, float]] = {} if blob is None else pickle.loads(blob)
    out = []
    for _, key, value in sorted(zip(seqs, keys, values, strict=True)):
        number, total = states.get(key, (0, 0.0))
        total += value
        out.append((key, number, total))
        states[key] = (number + 1, total)
    return pickle.dumps(states, 5), out


# -- without Spark


PACKET = pa.schema([("sequence id", pa.int64()), ("n", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
OUTPUT = pa.schema(
    [("k", pa.int64()), ("id", pa.int64()), ("kind", pa.string()), ("value", pa.float64()), ("error", pa.string())]
)


def layout(event: tuple[int, ...], value: str | None) -> Layout:
    """Return how the rows of the benchmark lie in packets."""
    names = tuple(PACKET.names[n] for n in event)
    source = SourceColumns("s", PACKET, (2,), event, names)
    return Layout(("k",), (source,), value, "tuple", event_time=False, output=OUTPUT, emitted=None)


def core(keys: int, rows: int) -> Result:
    """Compare what happens to one bucket's batch."""
    chance = random.Random(1)
    told = [(n, chance.randrange(keys), float(n % 97)) for n in range(rows)]
    chance.shuffle(told)
    seqs, names, values = (list(column) for column in zip(*told, strict=True))
    queries = {"per key": KeyedQuery(scan_per_key(), per_key=True), "grouped": KeyedQuery(scan_grouped())}
    layouts = {"per key": layout((3,), "v"), "grouped": layout((1, 2, 3), None)}
    columns = [pa.array([0] * rows, pa.int32()), *map(pa.array, (seqs, seqs, names, values))]
    (packet,) = packed([pa.record_batch(columns, names=list("bsnkv"))], PACKET).column("packet").to_pylist()
    blobs = {}
    for name, query in queries.items():
        bucket = Bucket(query)
        bucket.take(layouts[name].arrivals([(packet, 0)]), time=0.0)
        blobs[name] = bucket.blob()
    hand = by_hand(None, seqs, names, values)[0]

    def ours(name: str) -> float:
        began = time.process_time()
        bucket = Bucket(queries[name], blobs[name])
        out = bucket.take(layouts[name].arrivals([(packet, 0)]), time=1.0)
        bucket.blob()
        layouts[name].packet(out)
        if len(out.ids) != rows:
            raise RuntimeError(f"{name} emitted {len(out.ids)} of {rows} rows")
        return time.process_time() - began

    def theirs() -> float:
        began = time.process_time()
        by_hand(hand, seqs, names, values)
        return time.process_time() - began

    sides = {"by hand": theirs, "per key": lambda: ours("per key"), "grouped": lambda: ours("grouped")}
    times = interleaved(sides, rounds=5, budget_s=30.0)
    figures: dict[str, float | None] = {"by_hand_us": min(times["by hand"]) / rows * 1e6}
    for name in queries:
        figures[f"{name.replace(' ', '_')}_us"] = min(times[name]) / rows * 1e6
    return Result(f"one bucket, {keys:,} keys, {rows:,} rows", figures, note="per row, processor time, no Spark")


# -- on Spark


def start() -> Any:
    from pyspark.sql import SparkSession

    from spark_bridge import configure

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in {"spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    configure(spark)
    return spark


def write_input(spark: Any, folder: Path, keys: int) -> None:
    """Write a file that begins every key, then files with keys at random."""
    for batch in range(BATCHES + 1):
        first = batch * ROWS
        key = "id % {0}" if batch == 0 else "pmod(xxhash64(id), {0})"
        frame = spark.range(first, first + ROWS).selectExpr(
            "id as n", f"{key.format(keys)} as k", "cast(id % 97 as double) as v"
        )
        frame.coalesce(1).write.parquet(str(folder / f"in-{keys}" / str(batch)))


def hand_written() -> Any:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class ByHand(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("totals", "blob binary")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            frame = pd.concat(list(rows))
            blob = bytes(self.state.get()[0]) if self.state.exists() else None
            blob, out = by_hand(blob, frame["n"].tolist(), frame["k"].tolist(), frame["v"].tolist())
            self.state.update((blob,))
            names, numbers, totals = zip(*out, strict=True)
            yield pd.DataFrame({"k": names, "id": numbers, "value": totals})

        def close(self) -> None: ...

    return ByHand()


def build(side: str, frame: Any) -> Any:
    from pyspark.sql import functions as f

    from spark_bridge import run_on_spark

    given = {"key": "k", "seq": "n", "emits": "double", "buckets": BUCKETS}
    if side == "per key":
        return run_on_spark(scan_per_key(), frame, value="v", per_key=True, **given)
    if side == "grouped":
        return run_on_spark(scan_grouped(), frame, rows="tuple", **given)
    if side == "native":
        return frame.groupBy("k").agg(f.count("*"), f.sum("v"))
    placed = frame.withColumn("bucket", f.pmod(f.xxhash64("k"), f.lit(BUCKETS)).cast("int"))
    return placed.groupBy("bucket").transformWithStateInPandas(
        hand_written(), "k long, id long, value double", "append", "none"
    )


def run_stream(spark: Any, folder: Path, keys: int, side: str) -> float:
    """Run one side over all batches; return the seconds of those after the first."""
    source = spark.readStream.schema("n long, k long, v double").option("maxFilesPerTrigger", 1)
    frame = build(side, source.parquet(f"{folder}/in-{keys}/*"))
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        mode = "update" if side == "native" else "append"
        writer = frame.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        done = [each for each in query.recentProgress if each["numInputRows"] == ROWS]
        return float(sum(each["durationMs"]["addBatch"] for each in done[1:])) / 1000.0


def on_spark(keys: int, rounds: int, budget_s: float) -> Result:
    """Compare whole queries."""
    spark = start()
    with tempfile.TemporaryDirectory(prefix="spark-keyed-") as directory:
        folder = Path(directory)
        write_input(spark, folder, keys)
        sides = {name: (lambda name=name: run_stream(spark, folder, keys, name)) for name in SIDES}
        run_stream(spark, folder, keys, "hand")
        times = interleaved(sides, rounds=rounds, budget_s=budget_s)
    rows = ROWS * BATCHES
    figures: dict[str, float | None] = {
        "over_by_hand": times_as_fast(times, "hand", "per key"),
        "grouped_over_by_hand": times_as_fast(times, "hand", "grouped"),
        "over_native": times_as_fast(times, "native", "per key"),
        "by_hand_rows_per_s": rows / min(times["hand"]),
        "rows_per_s": rows / min(times["per key"]),
        "grouped_rows_per_s": rows / min(times["grouped"]),
        "native_rows_per_s": rows / min(times["native"]),
    }
    bars = [Bar("over_by_hand", BAR, most=True), Bar("grouped_over_by_hand", BAR, most=True)]
    return Result(f"keyed scan on Spark, {keys:,} keys", figures, bars)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--core", action="store_true", help="without Spark")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keys", type=int, nargs="*", default=[1_000, 100_000])
    given = parser.parse_args()
    for keys in given.keys:
        result = core(keys // BUCKETS, ROWS // BUCKETS) if given.core else on_spark(keys, given.rounds, 120.0)
        report([result], as_json=given.json)


if __name__ == "__main__":
    main()
