"""A process of the demo that fails of something beside it is started again where it was, not for ever, with the reason.

The processes here are real and do nothing but say what a worker says; one with Spark is in tests/spark.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hosting.demo.job import AGAIN, AGAIN_MAX, Run, kills_told, under_fire
from reliable_rx.errors import SourceFailed

WORKER = """
import json, os, pathlib, signal, sys

life = pathlib.Path(sys.argv[1])
number = len(life.read_text()) if life.exists() else 0
life.write_text("x" * (number + 1))

def tell(position, **more):
    status = {"done": False, "position": position, "taken": 1, "emitted": 1, "time": 0.0}
    print(json.dumps(status | {"replayed": 3, "recovery_s": 0.5} | more), flush=True)

exec(sys.argv[2])
"""
TOTAL = Run(events=100, seconds=0.01)


def run(folder: Path, what: str, *, kills: int = 0) -> Run:
    worker = [sys.executable, "-I", "-S", "-c", WORKER, str(folder / "lives"), what]
    return under_fire(worker, "a run", kills, 3, TOTAL)


def lives(folder: Path) -> int:
    return len((folder / "lives").read_text())


def test_a_failure_that_passes_costs_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The process is started again, is done the second time, and what it failed of is told at once and at the end."""
    what = f"tell(40, failed='no route to host') or sys.exit({AGAIN}) if number == 0 else tell(100, done=True)"
    done = run(tmp_path, what)
    assert (done.events, done.restarts, done.kills, lives(tmp_path)) == (100, 1, [], 2)
    assert f"started again where it was, 1 of at most {AGAIN_MAX} times: no route to host" in capsys.readouterr().out
    assert "  besides, 1 failure told above" in next(line for line in kills_told(done, 3) if "besides" in line)


def test_a_failure_that_stays_ends_the_run(tmp_path: Path) -> None:
    """It is started again so often and no more; the error says how often, and what it failed of the last time."""
    with pytest.raises(
        SourceFailed, match=rf"has failed {AGAIN_MAX + 1} times, at last so: no disk, life {AGAIN_MAX}$"
    ):
        run(tmp_path, f"tell(40, failed=f'no disk, life {{number}}') or sys.exit({AGAIN})")
    assert lives(tmp_path) == AGAIN_MAX + 1


@pytest.mark.parametrize("code", [1, -9])
def test_any_other_end_is_no_reason_to_start_again(tmp_path: Path, code: int) -> None:
    """An exit code that asks for nothing, and a kill that is not ours, end the run at once."""
    end = f"sys.exit({code})" if code > 0 else "os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(SourceFailed, match=f"has failed with exit code {code}; see above"):
        run(tmp_path, f"tell(40) or {end}")
    assert lives(tmp_path) == 1


def test_failures_between_kills_are_counted_apart(tmp_path: Path) -> None:
    """Killed twice and failed after each: every kill happens, one recovery is told of each, and it comes to its end."""
    what = f"""
if number in (1, 3):
    tell(20, failed="again")
    sys.exit({AGAIN})
tell(96 + number, done=number == 4)
if number < 4:
    signal.pause()
"""
    done = run(tmp_path, what, kills=2)
    assert (done.kills, done.restarts, lives(tmp_path)) == ([96, 98], 2, 5)
    assert [each.at for each in done.recoveries] == [96, 98]
