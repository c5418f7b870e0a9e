"""The fixture that sees to it that tests leave nothing behind: what is left is found, and named."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import leftovers
import pytest

from hosting import Deliveries


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what is ending for a moment only."""
    monkeypatch.setattr(leftovers, "ENDING_S", 0.05)


def test_nothing_is_found_where_nothing_is_left() -> None:
    """A test that does nothing leaves nothing."""
    assert not leftovers.left(leftovers.now())


def test_a_collector_that_stays_off_is_found_and_put_right() -> None:
    """So that the next test is not the one that pays; no test may leave it off, whatever else it may leave."""
    before = leftovers.now()
    for look in (leftovers.left, leftovers.drop):
        gc.disable()
        assert look(before) == [leftovers.COLLECTOR]
        assert gc.isenabled()


def test_threads_are_found() -> None:
    """Those that keep the process alive, and the library's own."""
    before, over = leftovers.now(), threading.Event()
    thread = threading.Thread(target=over.wait, name="stays")
    thread.start()
    deliveries = Deliveries()
    left = leftovers.left(before)
    assert "thread 'stays'" in left and "thread 'deliveries'" in left
    over.set()
    thread.join()
    deliveries.close()
    assert not leftovers.left(before)


def test_files_are_found(tmp_path: Path) -> None:
    """By their path."""
    before = leftovers.now()
    with (tmp_path / "f").open("w"):
        assert leftovers.left(before) == [f"open file {tmp_path / 'f'}"]
    assert not leftovers.left(before)


def test_processes_are_found() -> None:
    """By their id and command."""
    before = leftovers.now()
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()  # before it runs it has no command line
        (left,) = leftovers.left(before)
        assert left.startswith(f"process {process.pid} ") and "input()" in left
        process.communicate(b"\n")
    assert not leftovers.left(before)
