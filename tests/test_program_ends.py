"""A program ends, whatever it left open and wherever its background was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import closing_process
import ending_process
import pytest
from lanes import at_each_commit, crossed, every
from test_interpreters import HERE, App, interpreters, links

from checkpoint import SqliteStore

__all__ = ["links"]

PROCESS = Path(ending_process.__file__)


@pytest.mark.parametrize("host", every(len(ending_process.HOSTS), ending_process.HOSTS, commits=1))
def test_a_program_ends_whatever_its_background_holds(tmp_path: Path, host: str) -> None:
    """No callback of the collector, and nothing at exit, waits for a lock that a thread took with it."""
    env = {**os.environ, "PYTHONPATH": str(PROCESS.parents[1])}
    command = [sys.executable, str(PROCESS), str(tmp_path), host]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 3, "it held locks"


PYTHONS = [each if each == HERE else at_each_commit(each) for each in interpreters()]


@pytest.mark.parametrize("where, before", crossed(["del", "atexit"], ["started", "ran", "checkpointed"], nth=3))
@pytest.mark.parametrize("python", PYTHONS)
def test_an_evaluator_can_be_closed_while_the_interpreter_ends(
    tmp_path: Path, links: Path, python: str, where: str, before: str
) -> None:
    """When no thread can begin and those there are stand still: it is closed, and its store, without a word.

    A checkpoint is taken as long as there are modules, and refused by one of our errors behind that.
    """
    ran = App(tmp_path / "store", links).python(python, closing_process.__file__, str(tmp_path / "s"), where, before)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "closed", "")
    with SqliteStore(tmp_path / "s") as store:
        assert bool(store.generations()) == (where == "atexit" or before == "checkpointed")
