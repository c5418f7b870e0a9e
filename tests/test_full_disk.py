"""What is tried again and again on a full disk leaves no pile of files, and is well when the disk is."""

from __future__ import annotations

import errno
import fcntl
import json
import resource
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from checkpoint import SqliteStore
from checkpoint.offsets import SqliteOffsets
from hosting import JsonLinesSink, SqliteTableSink
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.sqlite_registry import SqliteRegistry
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition
from hosting.sinks import line_recovery
from reliable_rx.errors import ReliableRxError, StoreUnavailable
from spark_bridge.micro_batch_log.disk import RealLogDisk

TRIES = 12


@contextmanager
def full_disk() -> Iterator[None]:
    """Let this process make files, and write nothing into them: so is a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def torn(path: Path) -> Path:
    """Return a file of a sink as a kill leaves it."""
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(0, ["a", "b"])
    sink.flush()
    sink.close()
    with path.open("a") as file:
        file.write('{"id":2,"val')
    return path


def opened_sink(folder: Path) -> Callable[[], Any]:
    path = torn(folder / "out.jsonl")

    def attempt() -> None:
        sink = JsonLinesSink(path)
        sink.open("s")
        sink.close()

    return attempt


def taken_over_sink(folder: Path) -> Callable[[], Any]:
    path, epochs = torn(folder / "out.jsonl"), iter(range(1, 10 * TRIES))

    def attempt() -> None:
        with path.open("r+b") as held:  # by a former writer
            fcntl.flock(held, fcntl.LOCK_EX)
            sink = JsonLinesSink(path)
            try:
                sink.fence(next(epochs))
                sink.open("s")
            finally:
                sink.close()

    return attempt


def table_sink(folder: Path) -> Callable[[], Any]:
    def attempt() -> None:
        sink = SqliteTableSink(folder / "t.db", "t")
        sink.open("s")
        sink.close()

    return attempt


def partition_store(folder: Path) -> Callable[[], Any]:
    stores, epochs = FolderStores(folder), iter(range(1, 10 * TRIES))
    return lambda: stores.open(Lease(Partition("n", "a"), MemberId("m"), Epoch(next(epochs)))).close()


def store_that_is_held(folder: Path) -> Callable[[], Any]:
    stores, part = FolderStores(folder), Partition("n", "a")
    epochs = iter(range(2, 10 * TRIES))
    with closing(stores.open(Lease(part, MemberId("m"), Epoch(1)))) as made:
        made.journal.append(1, 1, b"a turn")

    def attempt() -> None:
        newest = max(
            (each for each in (folder / "n" / "a").iterdir() if each.name.isdecimal()), key=lambda p: int(p.name)
        )
        with (newest / "lock").open("r+b") as held:  # by a former owner, which is stopped
            fcntl.flock(held, fcntl.LOCK_EX)
            stores.open(Lease(part, MemberId("m"), Epoch(next(epochs)))).close()

    return attempt


def log_file(folder: Path) -> Callable[[], Any]:
    disk = RealLogDisk(folder)
    numbers = iter(range(10 * TRIES))
    return lambda: disk.create(f"m{next(numbers)}", b"x" * 100)


MAKERS: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "a sink's torn file": opened_sink,
    "a sink's file that is taken over": taken_over_sink,
    "a table": table_sink,
    "a store": lambda folder: lambda: SqliteStore(folder / "store").close(),
    "a partition's store": partition_store,
    "a partition's store that is held": store_that_is_held,
    "offsets": lambda folder: lambda: SqliteOffsets(folder / "offsets", lambda group, partition: None).close(),
    "a registry": lambda folder: lambda: SqliteRegistry(folder / "r.sqlite", "g").close(),
    "a log of micro-batches": log_file,
}


@pytest.mark.parametrize("what", MAKERS)
def test_what_is_tried_again_on_a_full_disk_leaves_no_pile(what: str, tmp_path: Path) -> None:
    """However often it fails, there are not more files than after the second time; and it works when there is space."""
    attempt = MAKERS[what](tmp_path)
    counts = []
    for _ in range(TRIES):
        with full_disk(), suppress(OSError, ReliableRxError):
            attempt()
        counts.append(sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")))
    assert len(counts[-1]) <= len(counts[1]), (counts[1], counts[-1])
    attempt()


def test_a_sink_waits_on_a_full_disk_for_as_long_as_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More failed openings than there may be pieces: each is waited for, then the piece is kept once."""
    monkeypatch.setattr(line_recovery, "CUTS_MAX", 3)
    path = torn(tmp_path / "out.jsonl")
    for _ in range(TRIES):
        with full_disk(), pytest.raises(StoreUnavailable):
            JsonLinesSink(path).open("s")
    sink = JsonLinesSink(path)
    assert sink.open("s") == 2
    sink.close()
    assert [each.name for each in tmp_path.glob("*.cut-*")] == ["out.jsonl.cut-1"]
    assert (tmp_path / "out.jsonl.cut-1").read_text() == '{"id":2,"val'


@pytest.mark.parametrize("fails", ["copy", "sync", "truncate"])
@pytest.mark.parametrize("removing", ["works", "fails"])
def test_a_piece_is_kept_once_wherever_cutting_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, removing: str
) -> None:
    """Nothing is lost of what is torn, and no second copy of it is made, also where the copy cannot be removed."""
    path = torn(tmp_path / "out.jsonl")
    bad = [True]

    class File:
        """The open file, whose `truncate` fails."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def truncate(self, size: int) -> None:
            if bad[0] and fails == "truncate":
                raise OSError(errno.EIO, "Input/output error")
            self._file.truncate(size)

        def read(self, count: int) -> bytes:
            if bad[0] and fails == "copy" and self._file.tell() == good:
                raise OSError(errno.EIO, "Input/output error")
            return bytes(self._file.read(count))

    def fsync(descriptor: int) -> None:
        if bad[0] and fails == "sync":
            raise OSError(errno.EIO, "Input/output error")

    def unlink(self: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, "Input/output error")

    good = path.read_bytes().rindex(b'{"id":2')
    monkeypatch.setattr("os.fsync", fsync)
    if removing == "fails":
        monkeypatch.setattr(Path, "unlink", unlink)
    for _ in range(TRIES):
        with open(path, "r+b", buffering=0) as file, pytest.raises(OSError, match="Input/output"):
            line_recovery._cut(File(file), path, good, path.stat().st_size)
    bad[0] = False
    with open(path, "r+b", buffering=0) as file:
        line_recovery._cut(File(file), path, good, path.stat().st_size)
    assert [each.name for each in tmp_path.glob("*.cut-*")] == ["out.jsonl.cut-1"]
    assert (tmp_path / "out.jsonl.cut-1").read_text() == '{"id":2,"val'
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == [0, 1]
