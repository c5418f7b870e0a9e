"""What a running evaluator tells other processes: whole or not at all, of a process that runs, of this folder."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from lanes import left_to_commits

import reliable_rx as rx
from checkpoint import SqliteStore
from checkpoint.sqlite import files
from checkpoint.sqlite.files import lock_owner
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.cli.store_status import lines, look
from hosting.cli.wording import FAILED
from hosting.reports.failure_summary import FAILED_MAX
from hosting.reports.status_file import BYTES_MAX, NAME, ROOM_BYTES, StatusFile, is_torn, read_status


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


def within(room: int) -> Callable[[int, bytes, int], int]:
    """Return a `pwrite` on a disk that lets no file grow beyond *room* bytes, and of a write the part that fits."""
    pwrite = os.pwrite

    def write(descriptor: int, data: bytes, offset: int) -> int:
        fits = max(0, max(room, os.fstat(descriptor).st_size) - offset)
        if data and not fits:
            raise OSError(errno.ENOSPC, "no space left")
        return pwrite(descriptor, data[:fits], offset)

    return write


def test_a_full_disk_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room that it needs was taken when there was some; what is too long for it is cut, and fits."""
    file = StatusFile(tmp_path)
    file.write({"turns": 1})
    assert (tmp_path / NAME).stat().st_size == BYTES_MAX
    monkeypatch.setattr(os, "pwrite", within(0))
    for turns in range(2, 9):
        file.write({"turns": turns, "trouble": "x" * turns * BYTES_MAX, **much(100 * turns)})
        found = read_status(tmp_path)
        assert found is not None and found["turns"] == turns and found["trouble"].startswith("xxx")
        assert len(found["failed"]) + found["failed_left_out"] == 100 * turns
        assert {each["kind"] for each in found["incidents"]} >= {"sink"}, "errors of others are not starved"
    assert (tmp_path / NAME).stat().st_size == BYTES_MAX


def much(count: int) -> dict[str, Any]:
    """Return a summary of *count* failed queries, and of as many incidents."""
    failed = [
        {"name": f"q{n}", "error": "no" * 9, "emitted": n, "upstream": "", "trace": "t" * 99} for n in range(count)
    ]
    kinds = ["query"] * (count - 1) + ["sink"]
    incidents = [{"kind": kind, "subject": "q", "message": "m" * 50, "level": "error", "trace": "t"} for kind in kinds]
    return {"failed": failed, "incidents": incidents}


@pytest.mark.parametrize("room", [0, 300, 1000, 3000, ROOM_BYTES, ROOM_BYTES + 300, BYTES_MAX - 1])
def test_a_disk_that_is_nearly_full_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """What it has room for is said whole; where there is none, that somebody says something is seen."""
    monkeypatch.setattr(os, "pwrite", within(room))
    file = StatusFile(tmp_path)
    for turns in range(1, 4):
        file.write({"turns": turns, **much(500)})
        found = read_status(tmp_path)
        if not room:
            assert found is None and is_torn(tmp_path)
            continue
        assert found is not None and found["turns"] == turns and (found["failed"] or room < 1000)
        assert len(found["failed"]) + found["failed_left_out"] == 500


def test_a_write_that_is_cut_short_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it ends, what was said before can still be read, and the next write is."""
    file, pwrite = StatusFile(tmp_path), os.pwrite
    said = {"turns": 0, **much(3)}
    file.write(said)
    length = len((tmp_path / NAME).read_bytes().rstrip())
    for turns, end in enumerate(range(0, length, 7), 1):
        monkeypatch.setattr(os, "pwrite", lambda fd, data, offset, end=end: pwrite(fd, data[:end], offset))
        StatusFile(tmp_path).write({**said, "turns": turns})
        found = read_status(tmp_path)
        assert found is not None and found["turns"] in (turns - 1, turns), "the rest may be as it was there"
        monkeypatch.undo()
        StatusFile(tmp_path).write({**said, "turns": turns})
        found = read_status(tmp_path)
        assert found is not None and found["turns"] == turns


@pytest.mark.parametrize("content", [b"", b" " * BYTES_MAX, b"anything", b"00000009 00000000 1 \n{}"])
def test_what_cannot_be_read_of_a_process_that_runs_is_told(content: bytes, tmp_path: Path) -> None:
    """`status` says that there is a process, and not that all is well; behind its end the checkpoint counts."""
    with SqliteStore(tmp_path) as store, QueryEvaluator(store) as evaluator:
        evaluator.start()
        evaluator.checkpoint()
        (tmp_path / NAME).write_bytes(content)
        status = look(tmp_path)
        shown = "\n".join(lines(status))
        assert (status.exit_code, status.pid, status.state) == (FAILED, os.getpid(), "running")
        assert f"process {os.getpid()} runs on it, and what it says of itself cannot be read" in shown
        assert "nothing has failed" not in shown
    (tmp_path / NAME).write_bytes(content)
    status = look(tmp_path)
    assert (status.exit_code, status.pid, status.state) == (0, None, "unknown")
    assert "no process runs on it, and what the last one said of itself cannot be read" in "\n".join(lines(status))


def refuse(n: int, value: Any) -> None:
    raise ZeroDivisionError


@left_to_commits
def test_many_failures_are_counted_and_hide_no_others(tmp_path: Path) -> None:
    """Of more failed queries than a status has room for the first are named, all counted, and so is a failed sink."""
    with SqliteStore(tmp_path) as store, QueryEvaluator(store) as evaluator:
        evaluator.source("p", ListSource({"a": [1]}))
        evaluator.create("well", rx.source("p"))
        evaluator.sink("well", CallbackSink(refuse))
        count = FAILED_MAX + 200
        evaluator.create_many({f"q{n}": rx.source("p").map(lambda value: 1 // 0) for n in range(count)})
        evaluator.run()
    status = look(tmp_path)
    assert len(status.failed) + status.failed_left_out == count and status.exit_code == FAILED
    assert f"{count:,} queries have failed" in "\n".join(lines(status))
    assert "sink" in {each["kind"] for each in status.incidents}
    assert (tmp_path / NAME).stat().st_size == BYTES_MAX


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

    looking = [threading.Thread(target=look) for _ in range(4)]
    for each in looking:
        each.start()
    try:
        for _ in range(60):
            with SqliteStore(tmp_path):
                assert lock_owner(tmp_path) == str(os.getpid())
    finally:
        done.set()
        for each in looking:
            each.join()


def test_who_looks_for_long_is_waited_for(tmp_path: Path) -> None:
    """A look that takes its time, as in a process that the system has put aside, refuses nobody."""
    SqliteStore(tmp_path).close()
    descriptor = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    gone = threading.Timer(0.3, os.close, (descriptor,))
    gone.start()
    with SqliteStore(tmp_path):
        assert lock_owner(tmp_path) == str(os.getpid())
    gone.join()


def test_a_child_of_the_time_of_waiting_has_no_lock(tmp_path: Path) -> None:
    """It would hold the store beyond the death of its parent."""
    SqliteStore(tmp_path).close()
    descriptor = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    opened = list[SqliteStore]()
    opening = threading.Thread(target=lambda: opened.append(SqliteStore(tmp_path)))
    opening.start()
    until(lambda: bool(files._HELD))
    (lock,) = files._HELD
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(lock._descriptor)
        except OSError:  # it has let go of it
            os._exit(0)
        os._exit(1)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    opening.join()
    opened[0].close()
    os.close(descriptor)
    assert os.waitpid(pid, 0)[1] == 0
