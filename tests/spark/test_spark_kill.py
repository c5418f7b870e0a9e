"""Real kills of a process that is Spark's driver and an evaluator at once: no row is lost, none comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from spark_kill_app import FILES, ROWS
from spark_world import WAIT_S, put

from spark_bridge import MicroBatchSource
from spark_bridge.log.names import manifest_name

APP = Path(__file__).with_name("spark_kill_app.py")


def start(folder: Path, form: str, faults: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(APP), str(folder), form],
        env={**os.environ, "RELIABLE_RX_FAULTS": faults},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, complaint = process.communicate(timeout=WAIT_S)
    kill_rest(process)
    assert process.returncode == 0, complaint[-3000:]


def kill_rest(process: subprocess.Popen[str]) -> None:
    """Kill what the process has started as well: Spark's JVM and its workers."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.communicate()


def inputs(folder: Path) -> None:
    for file in range(FILES):
        put(folder / "in", file, range(file * ROWS, (file + 1) * ROWS))


def numbers_out(folder: Path) -> list[int]:
    """Return what came out, sorted: with two files in a batch, Spark's order is not that of the files."""
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [each["id"] for each in found] == list(range(len(found)))
    return sorted(each["value"] for each in found)


@pytest.mark.timeout(900)
def test_a_driver_that_dies_at_each_point(tmp_path: Path) -> None:
    """Before a manifest, behind one before Spark's own commit, and between an acknowledgement and what it forgets."""
    inputs(tmp_path)
    for faults in ("spark.before_manifest:kill@3", "spark.after_manifest:kill@2", "spark.before_forget:kill@2"):
        process = start(tmp_path, "foreach_batch", faults)
        process.wait(timeout=WAIT_S)
        kill_rest(process)
        assert process.returncode == -signal.SIGKILL, f"{faults} was not reached"
    finish(start(tmp_path, "foreach_batch"))
    assert numbers_out(tmp_path) == list(range(FILES * ROWS))


@pytest.mark.timeout(900)
def test_driver_and_executors_that_die_together(tmp_path: Path) -> None:
    """Everything is killed at once while the data source writes its third batch or a later one."""
    inputs(tmp_path)
    process = start(tmp_path, "sink")
    deadline = time.monotonic() + WAIT_S
    while not third_is_there(tmp_path / "log"):
        assert process.poll() is None, "the process has ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    kill_rest(process)
    finish(start(tmp_path, "sink"))
    assert numbers_out(tmp_path) == list(range(FILES * ROWS))
    assert MicroBatchSource(tmp_path / "log").bounds("0")[1] == FILES * ROWS


def third_is_there(log: Path) -> bool:
    return any(path.name > manifest_name(1) for path in log.glob("manifest-*"))
