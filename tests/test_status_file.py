"""What a running evaluator tells other processes: whole or not at all, of a process that runs, of this folder."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from checkpoint import SqliteStore
from checkpoint.files import lock_owner
from hosting.status_file import BYTES_MAX, NAME, StatusFile, read_status


def test_whoever_reads_has_the_whole_of_one_write(tmp_path: Path) -> None:
    """While one thread writes texts of all lengths, another reads only such that were written."""
    file, done = StatusFile(tmp_path), threading.Event()
    file.write({"number": 0, "text": ""})

    def write() -> None:
        for number in range(2000):
            file.write({"number": number, "text": "x" * (number * 37 % 5000)})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = -1
    while not done.is_set():
        found = read_status(tmp_path)
        assert found is not None and len(found["text"]) == found["number"] * 37 % 5000
        assert found["number"] >= seen
        seen = found["number"]
    writer.join()


def test_a_status_is_that_of_a_process_that_runs_here(tmp_path: Path) -> None:
    """A copy of the folder and a file of something else say nothing; of one that is gone it is told how it ended."""
    here, copy = tmp_path / "here", tmp_path / "copy"
    here.mkdir()
    StatusFile(here).write({"turns": 1})
    shutil.copytree(here, copy)
    assert read_status(here) is not None and read_status(copy) is None and read_status(tmp_path) is None
    pid = os.fork()
    if pid == 0:
        StatusFile(here).write({"turns": 2})
        os._exit(0)
    os.waitpid(pid, 0)
    assert state(here) == "killed"
    for word, value in (("ended", "why"), ("stopped", True)):
        pid = os.fork()
        if pid == 0:
            StatusFile(here).write({word: value})
            os._exit(0)
        os.waitpid(pid, 0)
        found = read_status(here)
        assert found is not None and (found["state"], found[word]) == (word, value)
    StatusFile(here).write({"began": 1})
    assert state(here) == "killed", "another process has its number"
    (here / NAME).write_bytes(b"anything")
    assert read_status(here) is None


def state(directory: Path) -> str | None:
    found = read_status(directory)
    return None if found is None else found["state"]


def test_a_full_disk_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room that it needs was taken when there was some; a disk that lets nothing be written is borne."""
    file = StatusFile(tmp_path)
    file.write({"turns": 1})
    assert (tmp_path / NAME).stat().st_size == BYTES_MAX
    pwrite = os.pwrite

    def within(descriptor: int, data: bytes, offset: int) -> int:
        if offset + len(data) > os.fstat(descriptor).st_size:
            raise OSError(errno.ENOSPC, "no space left")
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", within)
    file.write({"turns": 2, "text": "x" * 1000})
    file.write({"turns": 3, "text": "x" * 2 * BYTES_MAX})
    found = read_status(tmp_path)
    assert found is not None and found["turns"] == 2


def test_a_dead_process_runs_on_nothing(tmp_path: Path) -> None:
    """The store's lock says it: of a killed child that nobody has waited for, whose id is still taken."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        store = SqliteStore(tmp_path)
        StatusFile(tmp_path).write({"turns": 1})
        os.write(writing, b"!")
        signal.pause()
        store.close()
        os._exit(0)
    try:
        os.read(reading, 1)
        assert state(tmp_path) == "running"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        assert state(tmp_path) == "killed", "it is dead, and its id is not free yet"
    finally:
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)


def test_to_look_keeps_nobody_out(tmp_path: Path) -> None:
    """While others ask again and again who owns a store, it can be opened."""
    SqliteStore(tmp_path).close()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            lock_owner(tmp_path)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            with SqliteStore(tmp_path):
                assert lock_owner(tmp_path) == str(os.getpid())
    finally:
        done.set()
        looking.join()
