"""Spark beside an evaluator: what the listener tells, a query that fails, and an orderly stop in a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from spark_world import WAIT_S, put, stream

from reliable_rx.errors import SourceFailed
from spark_bridge import MicroBatchSource, SparkCompanion, publish

ROOT = Path(__file__).parent.parent.parent


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@dataclass
class Stopped:
    """A companion that is stopped however a test ends: the session is that of all."""

    companion: SparkCompanion

    def close(self) -> None:
        self.companion.stop()


def test_the_listener_tells_what_spark_did(spark: Any, tmp_path: Path) -> None:
    """Batches, rows, state and the end come out as figures, without asking the queries."""
    for file in range(2):
        put(tmp_path / "in", file, range(file * 10, file * 10 + 10))
    rows, log = stream(spark, tmp_path / "in").dropDuplicates(["n"]), tmp_path / "log"
    once = {"availableNow": True}
    query = publish(rows, log, checkpoint=tmp_path / "c", name="rows", form="foreach_batch", trigger=once)
    with closing(Stopped(SparkCompanion(spark, query))) as stopped:
        companion = stopped.companion
        wait_until(lambda: companion.ended and companion.figures()[0].status == "ended")
    (figures,) = companion.figures()
    assert (figures.name, figures.batch, figures.rows, figures.state_rows) == ("rows", 1, 20, 20)
    assert figures.latency_s > 0 and figures.rows_per_s > 0
    assert MicroBatchSource(log).end_of("0") == 20


def test_a_query_that_fails_is_named(spark: Any, tmp_path: Path) -> None:
    """What Spark says of it comes out of `ended`; the other query is stopped in order."""
    put(tmp_path / "in", 0, range(10))
    rows = stream(spark, tmp_path / "in")
    ill = rows.selectExpr("n", "raise_error('ill') as user")
    bad, good = (
        publish(frame, tmp_path / name, checkpoint=tmp_path / f"{name}.c", name=name, form="foreach_batch")
        for frame, name in ((ill, "bad"), (rows, "good"))
    )
    with closing(Stopped(SparkCompanion(spark, good, bad))) as stopped:
        wait_until(lambda: not bad.isActive)
        with pytest.raises(SourceFailed, match="Spark's query bad has failed"):
            _ = stopped.companion.ended
        assert good.isActive
    assert not good.isActive


@dataclass
class Looks:
    """The module `time` as a companion sees it, which counts how often it has looked."""

    monotonic = staticmethod(time.monotonic)
    count: int = 0

    def sleep(self, duration_s: float) -> None:
        self.count += 1
        time.sleep(duration_s)


def test_a_batch_is_finished_however_late_the_last_one_is_heard_of(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy driver hears of batch 0 while batch 1 is under way and is to be stopped: batch 1 is finished."""
    for file in range(2):
        put(tmp_path / "in", file, range(file * 10, file * 10 + 10))
    under_way, go_on, heard_late, looks = threading.Event(), threading.Event(), threading.Event(), Looks()

    def write(rows: Any, batch: int) -> None:
        if batch == 1:
            under_way.set()
            assert go_on.wait(WAIT_S)

    writer = stream(spark, tmp_path / "in").writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(processingTime="0 seconds").start()
    monkeypatch.setattr("spark_bridge.sidecar.time", looks)
    with closing(Stopped(SparkCompanion(spark, query))) as stopped:
        companion = stopped.companion
        progress = companion._table.progress
        monkeypatch.setattr(companion._table, "progress", lambda *told: (heard_late.wait(WAIT_S), progress(*told)))
        assert under_way.wait(WAIT_S)
        stop = threading.Thread(target=companion.stop)
        stop.start()
        wait_until(lambda: looks.count >= 2)
        heard_late.set()
        wait_until(lambda: companion.figures()[0].batch == 0)
        seen = looks.count
        wait_until(lambda: looks.count >= seen + 3 or not stop.is_alive())
        go_on.set()
        stop.join(WAIT_S)
    assert sorted(numbers(tmp_path / "c" / "commits")) == [0, 1] and not query.isActive


class Run:
    """`reliable-rx run` of the example, as the leader of a group of processes, as a terminal starts it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "hosting.cli", "run", str(ROOT / "examples" / "rides.py:app"), "--plain"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.guard = threading.Timer(WAIT_S, self.process.kill)
        self.guard.start()

    def wait_for(self, text: str) -> None:
        """Read until a line has *text*; the guard ends a process that never says it."""
        assert self.process.stdout is not None
        assert any(text in line for line in self.process.stdout), "it has ended"

    def end(self, number: signal.Signals) -> str:
        """Send *number* to every process of the group; return what was said from then on."""
        os.killpg(self.process.pid, number)
        said, complaint = self.process.communicate(timeout=WAIT_S)
        self.guard.cancel()
        assert self.process.returncode == 0, complaint[-3000:]
        return said


def numbers(folder: Path) -> list[int]:
    return [int(each.name) for each in folder.iterdir() if each.name.isdigit()]


@pytest.mark.timeout(900)
def test_a_signal_to_the_whole_group_ends_in_order(tmp_path: Path) -> None:
    """Ctrl-C, SIGTERM to all: the batch under way is finished, then a checkpoint is taken; the next run goes on."""
    for number in (signal.SIGINT, signal.SIGTERM):
        run = Run(tmp_path)
        run.wait_for("rides: batch ")
        under_way = max(numbers(tmp_path / "rides.checkpoint" / "offsets"))
        said = run.end(number)
        assert "stopped: " in said and "is durable" in said
        assert under_way in numbers(tmp_path / "rides.checkpoint" / "commits")
    found = [json.loads(line) for line in (tmp_path / "fares.jsonl").read_text().splitlines()]
    assert [each["id"] for each in found] == list(range(len(found)))
    assert [each["value"] for each in found] == list(accumulate(n % 7 for n in range(len(found))))
