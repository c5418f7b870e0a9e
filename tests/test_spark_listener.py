"""What Spark tells of its batches, as figures, which Java will do, and which Python its workers have: without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hosting.evaluator.sidecars import CompanionFigures
from reliable_rx.errors import SourceFailed
from spark_bridge.listener import ENDED, IDLE, RUNNING, STARTING, QueryTable
from spark_bridge.session import check_java, worker_python

TOLD = {
    "batchId": 3,
    "numInputRows": 500,
    "durationMs": {"addBatch": 180, "triggerExecution": 250},
    "stateOperators": [{"numRowsTotal": 12}, {"numRowsTotal": 4}],
}
"""The parts of a `StreamingQueryProgress` that are looked at, as Spark writes them."""


def test_batches_become_figures() -> None:
    """Rows add up over batches; rate, latency and state are those of the last one; other queries are left out."""
    table = QueryTable()
    table.add("run", "rides")
    assert table.figures() == (CompanionFigures("rides", STARTING),)
    table.progress("run", TOLD)
    table.progress("somebody else's", TOLD)
    assert table.figures() == (CompanionFigures("rides", RUNNING, 3, 500, 2000.0, 0.25, 16),)
    table.progress("run", {"batchId": 4, "numInputRows": 0, "durationMs": {}, "stateOperators": []})
    assert table.figures() == (CompanionFigures("rides", RUNNING, 4, 500, 0.0, 0.0, 0),)


def test_what_has_nothing_to_do_says_so() -> None:
    """Idle and ended are told as such, and keep the figures of the last batch."""
    table = QueryTable()
    table.add("run", "rides")
    table.progress("run", TOLD)
    for status in (IDLE, ENDED):
        table.status("run", status)
        assert table.figures() == (CompanionFigures("rides", status, 3, 500, 2000.0, 0.25, 16),)
    table.status("somebody else's", ENDED)
    assert len(table.figures()) == 1


def a_java(folder: Path, says: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21-ea" 2023-09-19'])
def test_a_java_that_will_do_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """Seventeen and what is newer."""
    a_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize(
    ("says", "told"),
    [('java version "1.8.0_392"', "is version 8"), ("Segmentation fault", "is of no version that it tells")],
)
def test_a_java_that_is_too_old_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, told: str
) -> None:
    """The sentence has the path that was looked at, what it is, and the remedy."""
    a_java(tmp_path, says)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    with pytest.raises(SourceFailed, match=rf"needs Java 17 or newer, and {tmp_path}/bin/java {told}.*install one"):
        check_java()


def test_no_java_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on the PATH nor where JAVA_HOME points."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SourceFailed, match=f"none under JAVA_HOME, which is {tmp_path}; install one"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceFailed, match="none on the PATH; install one"):
        check_java()


def test_what_runs_workers_goes_when_its_process_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process has left is taken away; what others use, and what is somebody else's, stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = tmp_path / f"reliable_rx-{int(gone.stdout)}-left"
    stays = [tmp_path / name for name in (f"reliable_rx-{os.getppid()}-used", "reliable_rx-plan-b", "other-1-a")]
    for folder in (left, *stays):
        folder.mkdir()
    script = Path(worker_python())
    assert not left.exists()
    assert all(folder.exists() for folder in stays)
    said = subprocess.run([script, "-c", "import sys; print(sys.executable)"], capture_output=True, check=True)
    assert said.stdout.decode().strip() == sys.executable
