"""A store that a script has made is looked after by the command line, which is told of the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lanes import at_each_commit, left_to_commits

ROOT = str(Path(__file__).parent.parent)
DEFINED = """
import dataclasses, os, sys
import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import App, ListSource, QueryEvaluator

@dataclasses.dataclass(frozen=True)
class Data:
    a: int

def failing(x):
    return Data(1 // (x != 2))

n = rx.source("n")
"""
DONE = """
    print("it runs")
    count, how = int(sys.argv[1]), sys.argv[2]
    evaluator = QueryEvaluator(SqliteStore("store"), checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource(list(range(count)), follow=True))
    evaluator.create("fails", n.map(failing))
    evaluator.create("seen", n.scan(lambda a, x: a | {Data(x % 2)}, frozenset()).map(len))
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= count)
    evaluator.flush()
    if how == "kill":
        os._exit(0)
    evaluator.checkpoint()
    evaluator.close()
"""
BARE = DONE.replace("\n    ", "\n")
WITH_APP = """
NUMBERS = App(checkpoint_interval_s=1e9)
NUMBERS.source("n", lambda: ListSource(list(range(int(os.environ["COUNT"])), ), follow=True))
NUMBERS.query("fails", n.map(failing))
NUMBERS.query("seen", n.scan(lambda a, x: a | {Data(x % 2)}, frozenset()).map(len))
if __name__ == "__main__":
    count, how = int(os.environ["COUNT"]), sys.argv[2]
    evaluator = NUMBERS.evaluator(SqliteStore("store"))
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= count)
    evaluator.flush()
    if how == "kill":
        os._exit(0)
    evaluator.checkpoint()
    evaluator.close()
"""
SCRIPTS = {
    "guarded": DEFINED + 'if __name__ == "__main__":' + DONE,
    "bare": DEFINED + BARE,
    "with an app": DEFINED + WITH_APP,
}


def run(folder: Path, *arguments: str, count: int = 4) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": ROOT, "COUNT": str(count)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def command(folder: Path, *arguments: str, count: int = 4) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "hosting.cli", *arguments, count=count)


@left_to_commits
@pytest.mark.parametrize("which", SCRIPTS)
def test_a_query_of_a_script_is_restarted_and_disposed_of(tmp_path: Path, which: str) -> None:
    """The script is named, and its classes are found; it is not run, and goes on from what was done."""
    (tmp_path / "script.py").write_text(SCRIPTS[which])
    assert run(tmp_path, "script.py", "4", "stop").returncode == 0
    done = command(tmp_path, "restart", "store", "seen", "--yes")
    assert done.returncode == 2
    assert "the script" in done.stderr
    done = command(tmp_path, "restart", "store", "fails", "--app", "script.py")
    assert (done.returncode, "it runs again" in done.stdout) == (0, True), done.stderr
    assert "it runs\n" not in done.stdout
    done = command(tmp_path, "restart", "store", "seen", "--yes", "--app", "script.py:__main__")
    assert done.returncode == 0, done.stderr
    done = command(tmp_path, "tail", "store", "seen", "--app", "script.py")
    assert done.returncode == 0, done.stderr
    ran = run(tmp_path, "script.py", "6", "stop", count=6)
    assert ran.returncode == 0, ran.stderr
    done = command(tmp_path, "tail", "store", "seen", "--app", "script.py")
    values = [line.split("\t")[-1] for line in done.stdout.splitlines()]
    assert values[-2:] == ["1", "2"], "without state, with the next events"
    done = command(tmp_path, "dispose", "store", "seen", "--yes", "--app", "script.py", count=6)
    assert done.returncode == 0, done.stderr
    done = command(tmp_path, "restart", "store", "seen", "--app", "script.py", count=6)
    assert (done.returncode, "has no query 'seen'" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("which", [each if each == "with an app" else at_each_commit(each) for each in SCRIPTS])
def test_behind_a_kill_the_sources_are_needed(tmp_path: Path, which: str) -> None:
    """A script whose app has them is enough; of another one it is said that it must be started and stopped once."""
    (tmp_path / "script.py").write_text(SCRIPTS[which])
    assert run(tmp_path, "script.py", "4", "kill").returncode == 0
    done = command(tmp_path, "restart", "store", "fails", "--app", "script.py")
    if which == "with an app":
        assert (done.returncode, "it runs again" in done.stdout) == (0, True), done.stderr
    else:
        assert done.returncode == 2
        assert "start the script, and stop it in order" in done.stderr
    done = command(tmp_path, "store", "repair", "store", "--yes", "--app", "script.py")
    assert done.returncode in (0, 1), done.stderr
    assert "Data" not in done.stdout + done.stderr


def test_repair_finds_the_classes_of_a_script(tmp_path: Path) -> None:
    """What starts with its script needs no repair; without the script that is not said."""
    (tmp_path / "script.py").write_text(SCRIPTS["guarded"])
    assert run(tmp_path, "script.py", "4", "stop").returncode == 0
    done = command(tmp_path, "store", "repair", "store", "--yes")
    assert done.returncode == 2
    assert "script" in done.stderr
    done = command(tmp_path, "store", "repair", "store", "--yes", "--app", "script.py")
    assert (done.returncode, "starts as it is" in done.stdout) == (0, True), done.stderr
