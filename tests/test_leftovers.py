"""The fixture that sees to it that tests leave nothing behind: what is left is found, and named."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import leftovers

from hosting import Deliveries


def test_nothing_is_found_where_nothing_is_left() -> None:
    """A test that does nothing leaves nothing."""
    assert not leftovers.left(leftovers.now())


def test_a_collector_that_stays_off_is_found_and_put_right() -> None:
    """So that the next test is not the one that pays."""
    before = leftovers.now()
    gc.disable()
    assert leftovers.left(before) == [leftovers.COLLECTOR]
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
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (left,) = leftovers.left(before)
        assert left.startswith(f"process {process.pid} ") and "input()" in left
    assert not leftovers.left(before)
