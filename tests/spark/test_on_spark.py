"""The same query on Spark: what it emits, what it keeps, and what local mode cannot show."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import QueryEvaluator
from reliable_rx import operators as ops
from spark_bridge import configure, run_on_spark
from spark_bridge.moving import from_spark, to_spark

SYMBOLS = "abcdefg"


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    configure(spark)
    yield spark


def trades(first: int, last: int) -> list[dict[str, Any]]:
    return [{"n": n, "symbol": SYMBOLS[n * n % 7], "size": n % 11} for n in range(first, last)]


def write(spark: Any, folder: Path, rows: list[dict[str, Any]], name: str) -> None:
    """Put a file into what a stream reads; the newest rows first, since nobody promises any order."""
    frame = spark.createDataFrame(list(reversed(rows)), "n long, symbol string, size long")
    frame.coalesce(1).write.mode("append").parquet(str(folder / name))


def stream(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema("n long, symbol string, size long").parquet(f"{folder}/*")


def run(frame: Any, where: Path) -> None:
    """Run until what is there is read."""
    query = (
        frame.writeStream.format("parquet").option("path", str(where / "out"))
        .option("checkpointLocation", str(where / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination(120)
    assert query.exception() is None


def heard(spark: Any, where: Path) -> dict[str, list[Any]]:
    """Return what came out by key, and check that its ids are consecutive."""
    found: dict[str, list[Any]] = defaultdict(list)
    for row in spark.read.parquet(str(where / "out")).orderBy("symbol", "id").collect():
        assert row.id == len(found[row.symbol])
        found[row.symbol].append(row)
    return found


def sums() -> Any:
    return rx.source("trades").pipe(
        ops.filter(lambda trade: trade["size"] != 3),
        ops.group_by(lambda trade: trade["symbol"]),
        ops.flat_map(lambda g: g.pipe(ops.scan(lambda total, trade: total * 3 + trade["size"], 0), ops.map(float))),
    )


def alone(query: Any, rows: list[dict[str, Any]]) -> list[Any]:
    """Return what the query emits un-hosted for these rows."""
    found: list[Any] = []
    query.bind(trades=rx.from_iterable(rows)).subscribe(found.append)
    return found


def test_state_goes_from_batch_to_batch_and_through_a_restart(session: Any, tmp_path: Path) -> None:
    """Two runs over one checkpoint give every key what one un-hosted run gives for all its events."""
    write(session, tmp_path / "in", trades(0, 50), "0")
    run(run_on_spark(sums(), stream(session, tmp_path / "in"), key="symbol", seq="n", emits="double"), tmp_path)
    write(session, tmp_path / "in", trades(50, 90), "1")
    run(run_on_spark(sums(), stream(session, tmp_path / "in"), key="symbol", seq="n", emits="double"), tmp_path)
    found = heard(session, tmp_path)
    for symbol in {trade["symbol"] for trade in trades(0, 90)}:
        mine = [trade for trade in trades(0, 90) if trade["symbol"] == symbol]
        assert [row.value for row in found[symbol]] == alone(sums(), mine)


def test_spark_sql_agrees(session: Any) -> None:
    """Counts, sums and windows of event time are what Spark's own SQL says."""
    from pyspark.sql import functions as f

    frame = session.createDataFrame(trades(0, 200), "n long, symbol string, size long")
    frame = frame.withColumn("at", f.timestamp_seconds(f.col("n") + 1))
    totals = rx.source("t").pipe(
        ops.group_by(lambda t: t["symbol"]),
        ops.flat_map(lambda g: g.pipe(ops.reduce(lambda a, t: (a[0] + 1, a[1] + t["size"]), (0, 0)))),
    )
    ours = run_on_spark(totals, frame, key="symbol", seq="n", emits="c long, s long").where("kind = 'next'")
    theirs = frame.groupBy("symbol").agg(f.count("*").alias("c"), f.sum("size").alias("s"))
    assert rows(ours.select("symbol", "c", "s")) == rows(theirs)
    windows = rx.source("t").pipe(
        ops.group_by(lambda t: t["symbol"]),
        ops.flat_map(lambda g: g.pipe(ops.tumbling_window(20.0), ops.flat_map(lambda each: each.pipe(ops.count())))),
    )
    ours = run_on_spark(windows, frame, key="symbol", seq="n", time="at", emits="c long").where("c > 0")
    theirs = frame.groupBy("symbol", f.window("at", "20 seconds")).agg(f.count("*").alias("c"))
    assert rows(ours.select("symbol", "c")) == rows(theirs.select("symbol", "c"))


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_event_time_closes_without_further_events(session: Any, tmp_path: Path) -> None:
    """Spark's watermark moves the clock of keys that have no new events, and wakes what is due by then."""
    from pyspark.sql import functions as f

    query = rx.source("trades").pipe(
        ops.group_by(lambda t: t["symbol"]),
        ops.flat_map(lambda g: g.pipe(ops.map(lambda t: t["n"]), ops.debounce(5.0))),
    )
    events = [(10, "a"), (12, "a"), (13, "b"), (30, "c"), (60, "c")]
    for number, part in enumerate((events[:3], events[3:4], events[4:])):
        write(session, tmp_path / "in", [{"n": n, "symbol": s, "size": 0} for n, s in part], str(number))
        frame = stream(session, tmp_path / "in").withColumn("at", f.timestamp_seconds("n"))
        run(run_on_spark(query, frame, key="symbol", seq="n", time="at", lateness_s=3.0, emits="long"), tmp_path)
    found = heard(session, tmp_path)
    assert {symbol: [row.value for row in each] for symbol, each in found.items()} == {"a": [12], "b": [13], "c": [30]}


def test_an_error_is_a_row_and_two_sources_are_joined(session: Any) -> None:
    """A query written for one key joins two frames; where it fails, the row says why, and other keys go on."""
    bids = session.createDataFrame([(1, "x", 5), (3, "x", 6), (4, "y", 7)], "n long, k string, bid long")
    asks = session.createDataFrame([(0, "x", 2.5), (2, "x", 0.0), (1, "y", 7.0)], "n long, k string, ask double")
    query = rx.source("bids").pipe(
        ops.with_latest_from(rx.source("asks")), ops.map(lambda pair: pair[0]["bid"] / pair[1]["ask"])
    )
    out = run_on_spark(query, {"bids": bids, "asks": asks}, key="k", seq="n", emits="double", per_key=True)
    assert [tuple(row) for row in out.orderBy("k", "id").collect()] == [
        ("x", 0, "next", 2.0, None),
        ("x", 1, "error", None, "ZeroDivisionError: float division by zero"),
        ("y", 0, "next", 1.0, None),
        ("y", 1, "completed", None, None),
    ]


def test_state_moves_to_spark_and_back(session: Any, tmp_path: Path) -> None:
    """An evaluator, then Spark, then another evaluator give what un-hosted runs give for all events."""
    early, middle, late = trades(0, 30), trades(30, 60), trades(60, 90)
    values = list(in_evaluator(tmp_path / "before", early))
    write(session, tmp_path / "in", middle, "0")
    with SqliteStore(tmp_path / "before") as store:
        initial = to_spark(session, store, "sums", sums(), key="symbol string")
    frame = stream(session, tmp_path / "in")
    run(run_on_spark(sums(), frame, key="symbol", seq="n", emits="double", initial=initial), tmp_path)
    values += [row.value for each in heard(session, tmp_path).values() for row in each]
    with SqliteStore(tmp_path / "after") as store:
        place = {"trades": {"0": 0}}
        assert from_spark(session, str(tmp_path / "checkpoint"), store, "sums", sums(), positions=place) == []
    values += in_evaluator(tmp_path / "after", late)
    assert sorted(values) == sorted(alone(sums(), trades(0, 90)))


def in_evaluator(folder: Path, told: list[dict[str, Any]]) -> list[Any]:
    with QueryEvaluator(SqliteStore(folder), background=False) as evaluator:
        pushed = evaluator.push("trades")
        evaluator.create("sums", sums())
        for trade in told:
            pushed.on_next(trade)
        while evaluator.step():
            pass
        found = [value for part in evaluator.stream("sums").read(0, 1000) for value in part.values]
    evaluator.store.close()
    return found


CLUSTER = """
import sys
sys.path.insert(0, {tests!r})
from conftest import start_spark
spark = start_spark("local-cluster[2,1,1024]")
import reliable_rx as rx
from reliable_rx import operators as ops
from spark_bridge import run_on_spark
frame = spark.range(0, 4000, numPartitions=8).selectExpr("id as n", "id % 50 as k")
query = rx.source("s").pipe(ops.scan(lambda a, n: (a * 31 + n) % 1000003, 0), ops.last())
out = run_on_spark(query, frame, key="k", seq="n", emits="long", value="n", per_key=True).where("kind = 'next'")
def by_hand(k):
    total = 0
    for n in range(k, 4000, 50):
        total = (total * 31 + n) % 1000003
    return total
found = {{row.k: row.value for row in out.collect()}}
assert found == {{k: by_hand(k) for k in range(50)}}, found
print("in order")
"""


def test_order_is_kept_where_spark_keeps_none(tmp_path: Path) -> None:
    """On executors of their own, whose shuffle mixes rows, a query that minds the order is right for every key."""
    script = CLUSTER.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[2]
    )
    assert "in order" in done.stdout, done.stderr[-3000:]
