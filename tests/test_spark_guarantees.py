"""What docs/explanation/spark-guarantees.md promises: its table names tests that are there; and what is lost is found.

What takes a Spark is in tests/spark; here is what a log and an evaluator can show alone.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lanes import every, left_to_commits
from spark_log_world import SCHEMA, FailingDisk, Spark, table

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator
from hosting.edges.ingress import LISTING_S
from reliable_rx import operators as ops
from reliable_rx.errors import NondeterminismDetected, PositionUnavailable, StoreUnavailable
from reliable_rx.testing.faults import arm, disk_full
from spark_bridge import MicroBatchSink, MicroBatchSource, batch_writer, publish
from spark_bridge.micro_batch_log import LogRefused, end, names
from spark_bridge.micro_batch_log.noted import NOTE, Noted
from spark_bridge.micro_batch_log.retention import Held, acknowledge, register, retain
from spark_bridge.micro_batch_log.writer import LogWriter

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "explanation" / "spark-guarantees.md").read_text()
KINDS = {"S": "source", "P": "plan", "I": "into Spark", "F": "failure"}
GROUPS = ("WRITING", "FORGETTING", "COMPACTING")
OUTCOMES = {"exactly once", "newest wins", "at least once", "refused", "goes on", "not promised", "lost"}
ROW = re.compile(r"^\| ([SPIF]\d+) \| ([^|]+) \| \*\*([^|*]+)\*\*([^|]*) \| ([^|]+) \|$", re.M)
ROWS = {match[1]: match for match in ROW.finditer(PAGE)}
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
NOT_TESTED = "not tested here"


def test_every_row_is_there_once_and_in_its_order() -> None:
    """Rows are numbered from 1 in each table, all lines of the tables are rows, and outcomes are few words."""
    ids = [match[1] for match in ROW.finditer(PAGE)]
    for letter in KINDS:
        mine = [each for each in ids if each[0] == letter]
        assert mine == [f"{letter}{n}" for n in range(1, len(mine) + 1)] and len(mine) > 4
    assert len(ids) == len(re.findall(r"^\| [A-Z]\d+ ", PAGE, re.M)) == len(ROWS)
    assert {match[3] for match in ROWS.values()} <= OUTCOMES


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_is_shown_by_exists(row: str) -> None:
    """Each row names tests that are there, or says that it is not tested here, and never both."""
    _, _, _, _, shown = ROWS[row].groups()
    tests = TEST.findall(shown)
    assert bool(tests) != (NOT_TESTED in shown)
    assert not [test for test in tests if not is_there(*test)]


def is_there(file: str, name: str) -> bool:
    paths = list((ROOT / "tests").rglob(file))
    return len(paths) == 1 and re.search(rf"^def {name}\(", paths[0].read_text(), re.M) is not None


def test_every_point_of_the_bridge_is_one_where_something_is_killed() -> None:
    """Each named point in the code of the bridge is among those of the kills, and each of these is in the code."""
    modules = [path.read_text() for path in (ROOT / "spark_bridge").rglob("*.py")]
    points = {point for text in modules for point in re.findall(r"probe\(\"([^\"]+)\"\)", text)}
    kills = (ROOT / "tests" / "spark" / "test_spark_kill.py").read_text()
    named = {point for group in GROUPS for point in constant(kills, group)}
    assert points == named and len(points) >= 5
    usual = kills.partition("@pytest.mark.skipif")[0]
    assert not [point for point in named if not any(way in usual for way in ways(kills, point))]


def constant(text: str, name: str) -> list[str]:
    found = re.search(rf"^{name} = \((.*?)\)$", text, re.M | re.S)
    assert found is not None, name
    return re.findall(r"\"([^\"]+)\"", found[1])


def ways(kills: str, point: str) -> list[str]:
    """Return how a life may name *point*: by itself, or by the group of which it is killed at each."""
    groups = [group for group in GROUPS if point in constant(kills, group)]
    return [f'Kill("{point}"', *(f"*{group}" for group in groups)]


def rows_of(log: Path, batch: int) -> None:
    Spark(log).run(batch, table(*range(batch * 10, batch * 10 + 10)))


def host(folder: Path, store: str, sink: Any, *, upto: int) -> int:
    with SqliteStore(folder / store) as opened, QueryEvaluator(opened) as evaluator:
        evaluator.source("rows", MicroBatchSource(folder / "log"))
        evaluator.create("numbers", rx.source("rows").map(lambda row: {"n": row["n"]}))
        evaluator.sink("numbers", sink)
        evaluator.run(until=lambda: evaluator.stream("numbers").visible >= upto)
        evaluator.checkpoint()
        return evaluator.stream("numbers").visible


@pytest.mark.parametrize("kind", ["lines", "log"])
def test_a_lost_store_is_found_out_by_what_has_come_out(tmp_path: Path, kind: str) -> None:
    """An evaluator with an empty store does not begin anew where its sink already has what it said."""

    def sink() -> Any:
        if kind == "lines":
            return JsonLinesSink(tmp_path / "out.jsonl")
        return MicroBatchSink(tmp_path / "out", pa.schema([("n", pa.int64())]))

    rows_of(tmp_path / "log", 0)
    assert host(tmp_path, "store", sink(), upto=10) == 10
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(PositionUnavailable, match=r"belongs to (that|another store)"):
        host(tmp_path, "store", sink(), upto=10)


def test_an_evaluator_may_come_before_its_log(tmp_path: Path) -> None:
    """It waits, also when another source of its query has come to its end, and begins when there is a log."""
    now, looks = [0.0], 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        if looks == 50:
            rows_of(tmp_path / "log", 0)
            end(tmp_path / "log")
            now[0] += LISTING_S
        return looks > 10_000

    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=lambda: now[0])
    evaluator.source("rows", MicroBatchSource(tmp_path / "log"))
    evaluator.source("others", ListSource([{"n": 100}]))
    evaluator.create("sum", rx.merge(rx.source("rows"), rx.source("others")).map(lambda row: row["n"]).pipe(ops.sum()))
    evaluator.run(until=look)
    assert [value for part in evaluator.stream("sum").read(0, 9) for value in part.values] == [100 + sum(range(10))]
    evaluator.close()


def test_a_lost_log_is_found_out_by_its_readers(tmp_path: Path) -> None:
    """An evaluator that was behind the end of the log that is in its place now is told so."""
    for batch in range(2):
        rows_of(tmp_path / "log", batch)
    assert host(tmp_path, "store", JsonLinesSink(tmp_path / "out"), upto=20) == 20
    shutil.rmtree(tmp_path / "log")
    rows_of(tmp_path / "log", 0)
    with pytest.raises(PositionUnavailable, match="id 20 is wanted, and it ends at 10"):
        host(tmp_path, "store", JsonLinesSink(tmp_path / "out"), upto=30)


def test_a_log_set_back_is_found_out_by_sparks_checkpoint(tmp_path: Path) -> None:
    """Spark would go on behind what its checkpoint has noted, over a log that lacks it; so it is refused."""
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    spark = Spark(log, noted=Noted(checkpoint))
    checkpoint.mkdir()
    for batch in range(2):
        spark.run(batch, table(batch))
    shutil.copytree(log, older := tmp_path / "older")
    spark.run(2, table(2))
    log.rename(tmp_path / "newer")
    older.rename(log)
    for batch in (2, 3):
        with pytest.raises(LogRefused, match=r"has 2 batches, and the checkpoint .* knows of 3: it was set back"):
            spark.run(batch, table(batch))
    (checkpoint / NOTE).write_text("")  # a power loss may tear it: then nothing is known, and nothing refused
    spark.run(2, table(2))
    spark.run(3, table(3))
    assert spark.numbers() == [0, 1, 2, 3]
    assert Noted(checkpoint).newest == 3


@pytest.mark.parametrize("steps", every(3, range(12)))
def test_sinks_get_all_without_more_events_after_a_kill(tmp_path: Path, steps: int) -> None:
    """Whenever an evaluator goes, the next one brings the file and the log to the same end, though nothing follows."""
    for batch in range(2):
        rows_of(tmp_path / "log", batch)
    MicroBatchSink(tmp_path / "back", SCHEMA).open("numbers")
    back = MicroBatchSource(tmp_path / "back")
    for life in range(2):
        with SqliteStore(tmp_path / "store") as store:
            evaluator = QueryEvaluator(store, checkpoint_interval_s=1e-6, batch_events_max=4)
            evaluator.source("rows", MicroBatchSource(tmp_path / "log"))
            evaluator.create("numbers", rx.source("rows").map(lambda row: {"n": row["n"]}))
            evaluator.sink("numbers", JsonLinesSink(tmp_path / "out"))
            evaluator.sink("numbers", MicroBatchSink(tmp_path / "back", SCHEMA))
            for _ in range(0 if life else steps):
                evaluator.step()
            deadline = time.monotonic() + 60
            if life:
                evaluator.run(until=lambda: back.end_of("0") == 20 or time.monotonic() > deadline)
            evaluator.abandon()
    assert back.end_of("0") == len((tmp_path / "out").read_text().splitlines()) == 20


@pytest.mark.parametrize("point", ["spark.before_manifest", "spark.after_manifest"])
def test_a_full_disk_fails_the_batch_which_is_there_once_afterwards(tmp_path: Path, point: str) -> None:
    """Spark is told and its query fails; when there is room, the batch runs again, and its rows are there once."""
    spark = Spark(tmp_path)
    spark.run(0, table(0, 1))
    with arm(point, disk_full(by_sqlite=False)), pytest.raises(StoreUnavailable, match="No space left"):
        spark.run(1, table(2, 3))
    assert spark.numbers() in ([0, 1], [0, 1, 2, 3])
    spark.run(1, table(2, 3))
    spark.run(2, table(4))
    assert spark.numbers() == [0, 1, 2, 3, 4]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".new")]


@left_to_commits
def test_whatever_fails_once_fails_the_batch_which_is_there_once_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thing that is done with the disk in turn, also behind the manifest and where some are put together."""
    monkeypatch.setattr(names, "SPANS", (4, 16))
    for batch in range(7):
        Spark(tmp_path / "seven").run(batch, table(batch))
    for left in count(1):
        shutil.copytree(tmp_path / "seven", log := tmp_path / str(left))
        spark, disk = Spark(log), FailingDisk(log)
        parts = spark.wrote(7, table(7), table(*range(8, 6000)))
        disk.left = left
        with contextlib.suppress(StoreUnavailable):
            LogWriter(disk, where=spark.where).commit(spark.query, 7, parts)
        spark.run(7, table(7), table(*range(8, 6000)))
        assert spark.numbers() == list(range(6000)), left
        spark.run(8, table(6000))
        assert spark.numbers() == list(range(6001)), left
        if disk.left > 0:
            break
    assert left > 20


def test_an_older_checkpoint_is_recognised_as_far_as_batches_are_kept(tmp_path: Path) -> None:
    """Batches that are run once more are dropped; the newest is always kept, so one cut otherwise is found out."""
    spark = Spark(tmp_path)
    for batch in range(4):
        rows_of(tmp_path, batch)
    register(spark.view().disk, "reader", 0, 0, "rows", where=spark.where)
    acknowledge(spark.view().disk, "reader", 0, Held("rows", 40))
    assert retain(spark.view()) == 3
    for batch in range(1, 4):
        assert spark.run(batch, table(*range(batch * 10, batch * 10 + 10))).again
    assert spark.numbers() == list(range(30, 40))
    with pytest.raises(NondeterminismDetected, match=r"batch 3 .* came again with other rows"):
        spark.run(3, table(*range(35, 45)))


class RemoteFrame:
    """What a streaming frame of Spark Connect looks like from outside; a real one needs a server."""

    __module__ = "pyspark.sql.connect.dataframe"
    isStreaming = True


def test_spark_connect_is_told_what_it_cannot_do(tmp_path: Path) -> None:
    """Batches in a function need the driver's own process; nothing is written before that is said."""
    frame: Any = RemoteFrame()
    with pytest.raises(ValueError, match="Spark Connect runs foreachBatch in a process of its server's"):
        publish(frame, tmp_path / "log", checkpoint=tmp_path / "checkpoint", form="foreach_batch")
    with pytest.raises(ValueError, match="publish in mode 'append' and form 'sink'"):
        publish(frame, tmp_path / "log", checkpoint=tmp_path / "checkpoint", mode="update", key="n", partitions=2)
    with pytest.raises(ValueError, match="Spark Connect"):
        batch_writer(tmp_path / "log")(frame, 0)
    assert not any(tmp_path.iterdir())
