"""The same query on Spark: what it emits, what it keeps, and what local mode cannot show."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_world import WAIT_S

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused
from spark_bridge import configure, run_on_spark
from spark_bridge.on_spark.moving import Joined, for_key, from_spark, name_for, to_spark

SYMBOLS = "abcdefg"


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    configure(spark)
    yield spark


def trades(first: int, last: int) -> list[dict[str, Any]]:
    return [{"n": n, "symbol": SYMBOLS[n * n % 7], "size": n % 11} for n in range(first, last)]


def write(folder: Path, rows: list[dict[str, Any]], name: str) -> None:
    """Put a file into what a stream reads; the newest rows first, since nobody promises any order."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(reversed(rows))), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def stream(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema("n long, symbol string, size long").parquet(str(folder))


def run(frame: Any, where: Path) -> Any:
    """Run until what is there is read, and return the query."""
    query = (
        frame.writeStream.format("parquet").option("path", str(where / "out"))
        .option("checkpointLocation", str(where / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(WAIT_S), query.lastProgress
    assert query.exception() is None
    return query


def heard(where: Path, *, first_id: int = 0) -> dict[str, list[Any]]:
    """Return what came out by key, and check that its ids are consecutive."""
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows_in(where / "out"):
        assert row.id == first_id + len(found[row.symbol])
        found[row.symbol].append(row)
    return found


def rows_in(folder: Path) -> list[Any]:
    """Return what is in files of Parquet that Spark has written and will not write on, by key and id."""
    rows = [SimpleNamespace(**row) for row in pq.read_table(folder).to_pylist()]
    return sorted(rows, key=lambda row: (row.symbol, row.id))


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
    write(tmp_path / "in", trades(0, 50), "0")
    run(run_on_spark(sums(), stream(session, tmp_path / "in"), key="symbol", seq="n", emits="double"), tmp_path)
    write(tmp_path / "in", trades(50, 90), "1")
    run(run_on_spark(sums(), stream(session, tmp_path / "in"), key="symbol", seq="n", emits="double"), tmp_path)
    found = heard(tmp_path)
    for symbol in {trade["symbol"] for trade in trades(0, 90)}:
        mine = [trade for trade in trades(0, 90) if trade["symbol"] == symbol]
        assert [row.value for row in found[symbol]] == alone(sums(), mine)


def test_an_edited_query_goes_on_over_its_checkpoint(session: Any, tmp_path: Path) -> None:
    """What the edit leaves keeps its state and ids; another query, key or number of buckets is refused at start."""
    checkpoint = str(tmp_path / "checkpoint")

    def told(query: Any, **how: Any) -> Any:
        given = {"key": "symbol", "seq": "n", "emits": "double", "buckets": 4, "checkpoint": checkpoint, **how}
        return run_on_spark(query, stream(session, tmp_path / "in"), **given)

    def edited() -> Any:
        return rx.source("trades").pipe(
            ops.group_by(lambda trade: trade["symbol"]),
            ops.flat_map(lambda g: g.pipe(ops.scan(lambda total, trade: total + trade["size"], 0), ops.map(float))),
        )

    write(tmp_path / "in", trades(0, 40), "0")
    run(told(sums()), tmp_path)
    for what, other in {"key symbol string": {"key": "size"}, "buckets 4": {"buckets": 8}}.items():
        with pytest.raises(CheckpointRefused, match=f"was begun with {what}, and this query has"):
            told(sums(), **other)
    with pytest.raises(CheckpointRefused, match="/flat_map/inner/scan"):
        told(
            rx.source("trades").group_by(lambda t: t["symbol"]).flat_map(lambda g: g.pipe(ops.count(), ops.map(float)))
        )
    before = {symbol: each[-1].value for symbol, each in heard(tmp_path).items()}
    late = trades(40, 60)
    write(tmp_path / "in", late, "1")
    run(told(edited()), tmp_path)
    after = {symbol: each[-1].value for symbol, each in heard(tmp_path).items()}
    for symbol, value in after.items():
        assert value == before[symbol] + sum(trade["size"] for trade in late if trade["symbol"] == symbol)


def settled() -> Any:
    return rx.source("trades").pipe(
        ops.group_by(lambda t: t["symbol"]),
        ops.flat_map(lambda g: g.pipe(ops.map(lambda t: t["n"]), ops.debounce(5.0))),
    )


def test_event_time_closes_without_further_events(session: Any, tmp_path: Path) -> None:
    """When the watermark passes what is due, Spark's timer wakes the bucket in a batch that has no rows at all."""
    from pyspark.sql import functions as f

    for number, events in enumerate(([(10, "a"), (12, "a"), (13, "b"), (60, "c")], [(61, "c"), (90, "d")])):
        write(tmp_path / "in", [{"n": n, "symbol": s, "size": 0} for n, s in events], str(number))
        frame = stream(session, tmp_path / "in").withColumn("at", f.timestamp_seconds("n"))
        query = run(
            run_on_spark(settled(), frame, key="symbol", seq="n", time="at", lateness_s=3.0, emits="long"), tmp_path
        )
        assert [each["numInputRows"] for each in query.recentProgress][-1] == 0
        found = {symbol: [row.value for row in each] for symbol, each in heard(tmp_path).items()}
        assert found == ({"a": [12], "b": [13]} if number == 0 else {"a": [12], "b": [13], "c": [61]})


def test_ticks_move_the_clock_of_batches(session: Any, tmp_path: Path) -> None:
    """Without event time, what is due fires in a batch that has nothing but a tick."""
    write(tmp_path / "in", [{"n": 7, "symbol": "a", "size": 0}], "0")
    query = rx.source("trades").pipe(
        ops.group_by(lambda t: t["symbol"]), ops.flat_map(lambda g: g.pipe(ops.map(lambda t: t["n"]), ops.delay(1.0)))
    )
    frame = stream(session, tmp_path / "in")
    out = run_on_spark(query, frame, key="symbol", seq="n", emits="long", tick_s=1, buckets=2)
    writer = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    schema = "symbol string, id long, kind string, value long, error string"

    def there() -> list[Any]:
        """Return what is written; there may be files that are not committed, and none that are."""
        folder = tmp_path / "out"
        return list(session.read.schema(schema).parquet(str(folder)).collect()) if folder.exists() else []

    try:
        wait_for(there, running)
    finally:
        running.stop()
    assert [(row.symbol, row.value) for row in there()] == [("a", 7)]


def wait_for(done: Any, running: Any, within_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + within_s
    while not done():
        assert running.isActive, running.exception()
        assert time.monotonic() < deadline, running.lastProgress
        running.awaitTermination(1)


def test_an_error_is_a_row_and_two_sources_are_joined(session: Any) -> None:
    """A query written for one key joins two frames; where it fails, the row says why, and other keys go on."""
    bids = session.createDataFrame([(1, "x", 5), (3, "x", 6), (4, "y", 7)], "n long, k string, bid long")
    asks = session.createDataFrame([(0, "x", 2.5), (2, "x", 0.0), (1, "y", 7.0)], "n long, k string, ask double")
    query = rx.source("bids").pipe(
        ops.with_latest_from(rx.source("asks")), ops.map(lambda pair: pair[0]["bid"] / pair[1]["ask"])
    )
    out = run_on_spark(query, {"bids": bids, "asks": asks}, key="k", seq="n", emits="double", per_key=True)
    assert [tuple(row) for row in sorted(out.collect())] == [
        ("x", 0, "next", 2.0, None),
        ("x", 1, "error", None, "ZeroDivisionError: float division by zero"),
        ("y", 0, "next", 1.0, None),
        ("y", 1, "completed", None, None),
    ]


def test_what_no_row_can_hold_is_one_keys_problem(session: Any, tmp_path: Path) -> None:
    """An error without a text, one that no encoding has, a state that does not pickle: each ends its own key."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def spoilt(held: tuple[int, Any], trade: Any) -> tuple[int, Any]:
        if trade["symbol"] == "mute":
            raise Mute
        if trade["symbol"] == "half":
            raise ValueError("\ud800")
        if trade["symbol"] == "exit":
            raise SystemExit(3)
        return held[0] + trade["n"], threading.Lock() if trade["symbol"] == "lock" else None

    query = rx.source("trades").pipe(ops.scan(spoilt, (0, None)), ops.map(lambda held: held[0]))
    for part in range(2):
        symbols = enumerate(["mute", "half", "exit", "lock", "well"], 5 * part)
        write(tmp_path / "in", [{"n": n, "symbol": symbol, "size": 0} for n, symbol in symbols], str(part))
        frame = stream(session, tmp_path / "in")
        run(run_on_spark(query, frame, key="symbol", seq="n", emits="long", per_key=True), tmp_path)
    found = heard(tmp_path)
    assert [row.value for row in found.pop("well")] == [4, 13]
    assert [row.value for row in found["lock"]] == [3, None]
    said = {symbol: rows[-1].error for symbol, rows in found.items() if rows[-1].kind == "error"}
    assert "cannot be stored" in said.pop("lock")
    nothing = "Mute: <its text cannot be had: RuntimeError>"
    assert said == {"exit": "SystemExit: 3", "half": r"ValueError: \ud800", "mute": nothing}


def test_groups_move_to_spark_and_back(session: Any, tmp_path: Path) -> None:
    """An evaluator, then Spark, then another evaluator give what un-hosted runs give, and ids go on both times."""
    early, middle, late = trades(0, 30), trades(30, 60), trades(60, 90)
    before = in_evaluator(tmp_path / "before", {"sums": sums()}, early)["sums"]
    values, first_id = [value for _, value in before], len(before)
    write(tmp_path / "in", middle, "0")
    with SqliteStore(tmp_path / "before") as store:
        initial = to_spark(session, store, "sums", sums(), key="symbol string")
    frame = stream(session, tmp_path / "in")
    run(run_on_spark(sums(), frame, key="symbol", seq="n", emits="double", initial=initial), tmp_path)
    found = heard(tmp_path, first_id=first_id)
    values += [row.value for each in found.values() for row in each]
    with SqliteStore(tmp_path / "after") as store:
        joined = from_spark(session, str(tmp_path / "checkpoint"), store, "sums", sums(), positions=BEGIN)
    assert joined == Joined(max(each[-1].id for each in found.values()) + 1)
    after = in_evaluator(tmp_path / "after", {"sums": sums()}, late)["sums"]
    assert after[0][0] == joined.next_id
    assert sorted([*values, *(value for _, value in after)]) == sorted(alone(sums(), trades(0, 90)))


BEGIN = {"trades": {"0": 0}}
CLOCK = rx.event_time(lambda trade: float(trade["n"]), lateness_s=4.0)
MOVED = rx.source("trades").pipe(ops.map(lambda t: t["n"]), ops.buffer_with_time(10.0), ops.map(sum))


def symbol_of(trade: dict[str, Any]) -> str:
    return str(trade["symbol"])


def test_queries_for_one_key_move_with_what_waits(session: Any, tmp_path: Path) -> None:
    """Per key, on event time: timers, and events that the watermark has not passed, go to Spark and come back."""
    from pyspark.sql import functions as f

    told = [{"n": n, "symbol": SYMBOLS[n % 3], "size": 0} for n in range(90)]
    queries = {name_for("b", symbol): for_key(MOVED, symbol_of, symbol) for symbol in SYMBOLS[:3]}
    first = in_evaluator(tmp_path / "before", queries, told[:30], clock=CLOCK)
    with SqliteStore(tmp_path / "before") as store:
        initial = to_spark(session, store, "b", MOVED, key="symbol string", event_time=True, key_mapper=symbol_of)
    write(tmp_path / "in", told[30:60], "0")
    frame = stream(session, tmp_path / "in").withColumn("at", f.timestamp_seconds("n"))
    given = {"key": "symbol", "seq": "n", "emits": "long", "time": "at", "lateness_s": 4.0, "per_key": True}
    run(run_on_spark(MOVED, frame, initial=initial, **given), tmp_path)
    rows = rows_in(tmp_path / "out")
    with SqliteStore(tmp_path / "after") as store:
        joined = from_spark(
            session, str(tmp_path / "checkpoint"), store, "b", MOVED, positions=BEGIN, clock=CLOCK, key_mapper=symbol_of
        )
    assert joined == Joined()
    last = in_evaluator(tmp_path / "after", queries, told[60:], clock=CLOCK)
    whole = in_evaluator(tmp_path / "whole", queries, told, clock=CLOCK)
    for name in queries:
        middle = [(row.id, row.value) for row in rows if row.symbol == name[-1]]
        assert middle
        assert [*first[name], *middle, *last[name]] == whole[name]


def in_evaluator(
    folder: Path, queries: dict[str, Any], told: list[dict[str, Any]], *, clock: Any = None
) -> dict[str, list[tuple[int, Any]]]:
    """Let an evaluator take what is told, and leave a checkpoint; return what its streams hold, with ids."""
    with QueryEvaluator(SqliteStore(folder), background=False) as evaluator:
        pushed = evaluator.push("trades")
        for name, query in queries.items():
            evaluator.create(name, query, clock=clock)
        for trade in told:
            pushed.on_next(trade)
        while evaluator.step():
            pass
        found = {name: numbered(evaluator.stream(name)) for name in queries}
    evaluator.store.close()
    return found


def numbered(stream: Any) -> list[tuple[int, Any]]:
    parts = stream.read(stream.first, 1000)
    return [(part.first + place, value) for part in parts for place, value in enumerate(part.values)]


CLUSTER = """
import sys
sys.path.insert(0, {tests!r})
from spark_world import start_spark
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


@pytest.mark.timeout(900)
def test_order_is_kept_where_spark_keeps_none(tmp_path: Path) -> None:
    """On executors of their own, whose shuffle mixes rows, a query that minds the order is right for every key."""
    script = CLUSTER.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=800, cwd=Path(__file__).parents[2]
    )
    assert "in order" in done.stdout, done.stderr[-3000:]
