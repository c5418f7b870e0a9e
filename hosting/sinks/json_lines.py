"""An exactly-once sink into a file of JSON lines.

Every line carries its id, so the file itself is the record of what has arrived: after a crash the last good line says
where to go on. Three traps are met here:

* *A torn tail.* A kill leaves half a line; a power cut may leave a hole *before* whole lines, because unsynced
  pages reach the disk in any order. So at most `UNSYNCED_BYTES_MAX` (or one line) are ever unsynced, and that much of
  the tail is checked line by line at opening; what is not a consecutive run of lines is cut off.
* *A failed fsync.* The pages may be gone from the cache though marked clean, and the next fsync says "fine". So
  unsynced bytes are kept and written again before the next try.
* *A second writer.* The file is locked while open.
* *A former writer*, stopped with the file open and locked, that goes on later. A writer with a later epoch (`fence`)
  copies the file and puts the copy in its place; the former one writes into a file without a name, and is told so when
  it writes or flushes (`hosting.sinks.fencing`). A file that nobody has locked is gone on with as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hosting.sinks.fencing import EpochFile, fenced, lost
from hosting.sinks.plain import to_plain
from reliable_rx.errors import (
    CheckpointRefused,
    PositionUnavailable,
    ReliableRxError,
    StoreOwned,
    StoreUnavailable,
    described,
    invariant,
)
from reliable_rx.probes import probe

UNSYNCED_BYTES_MAX = 8 << 20
PREFIX = b'{"id":'
_COPIED_BYTES = 1 << 20


class JsonLinesSink:
    """Write a stream to *path*, each notification exactly once.

    A value is a line ``{"id":17,"value":…}``; the end is ``{"id":18,"completed":true}`` or
    ``{"id":18,"error":"ValueError: …"}``. *encode* turns a value into what JSON can hold; the default is
    `to_plain`. Values written are in the file at once, and safe from a power cut after `flush`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.jsonl")
    >>> sink = JsonLinesSink(path)
    >>> sink.open("prices")
    0
    >>> sink.write(0, ["a", {"b": 1}])
    >>> sink.flush(); sink.close()
    >>> path.read_text().splitlines()
    ['{"id":0,"value":"a"}', '{"id":1,"value":{"b":1}}']
    >>> sink = JsonLinesSink(path)
    >>> sink.open("prices")
    2
    >>> sink.close()

    For the partitions of a stream, each its own file: ``JsonLinesSink(f"out/{partition}.jsonl")``. Once a file has been
    fenced, ``out.jsonl.epoch`` beside it says by whom; nothing that a former writer does holds up the next one, but a
    file that a stopped writer has open is copied once.

    *Raises* `StoreUnavailable` when the disk fails (call again later), `CheckpointRefused` for a file that this sink
    did not write, `StoreOwned` when another process has it open, `TypeError` for a value that JSON cannot hold,
    `LeaseLost` if a later epoch writes the file.
    """

    def __init__(self, path: str | os.PathLike[str], *, encode: Callable[[Any], Any] = to_plain) -> None:
        self._path = Path(path)
        self._encode = encode
        self._file: Any = None
        self._next = 0
        self._length = 0
        self._unsynced: list[bytes] = []
        self._unsynced_bytes = 0
        self._suspect = False
        self._epochs: EpochFile | None = None

    def fence(self, epoch: int, /) -> None:
        """Take the file from every earlier epoch."""
        invariant(self._file is None and self._epochs is None, f"the sink {self._path} is fenced once, before it opens")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._epochs = EpochFile(self._path, epoch)
            self._epochs.claim()
            _sync_directory(self._path.parent)
        except OSError as error:
            self.close()
            if isinstance(error, ReliableRxError):
                raise
            raise self._unavailable("fenced", error) from error
        except BaseException:
            self.close()
            raise

    def open(self, stream: str, /) -> int | None:
        """Lock the file, cut off a torn tail, and return the id behind the last line."""
        invariant(self._file is None, f"the sink {self._path} is opened once")
        try:
            self._file = _open(self._path)
            self._own()
            self._length, self._next = _recover(self._file, self._path)
        except OSError as error:
            self.close()
            if isinstance(error, ReliableRxError):
                raise
            raise self._unavailable("opened", error) from error
        except BaseException:
            self.close()
            raise
        return self._next

    def _own(self) -> None:
        """Lock the file; if a former writer has it locked, put a copy in its place."""
        if self._epochs is None:
            _lock(self._file, self._path)
            if newest := fenced(self._path):
                raise lost(str(self._path), 0, newest)
            return
        beside = self._path.with_name(f"{self._path.name}.tmp")
        with self._epochs.held():
            self._epochs.check()
            beside.unlink(missing_ok=True)  # what a killed process left
        try:
            _lock(self._file, self._path)
        except StoreOwned:
            self._replace(self._epochs, beside)
        self._epochs.check()

    def _replace(self, epochs: EpochFile, beside: Path) -> None:
        """Go on in a copy, in the place of a file that a former writer has open."""
        with epochs.held():
            epochs.check()
            copy = _open(beside)
        with self._file as file:
            self._file = copy
            _lock(copy, beside)
            probe("sink.before_copy")
            file.seek(0)
            shutil.copyfileobj(file, copy, _COPIED_BYTES)
        os.fsync(copy.fileno())
        with epochs.held():
            epochs.check()
            probe("sink.before_rename")
            beside.rename(self._path)
        _sync_directory(self._path.parent)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._check_gap(first)
        skip = self._next - first  # ids that the file has already
        if skip >= len(values):
            return
        encode, text = self._encode, _JSON.encode
        try:
            lines = [f'{{"id":{n},"value":{text(encode(v))}}}\n' for n, v in enumerate(values[skip:], self._next)]
            data = "".join(lines).encode()
        except _UNENCODABLE as error:
            raise self._unencodable(values, skip, error) from error
        if len(data) <= UNSYNCED_BYTES_MAX:
            self._append(data)
            self._next = first + len(values)
            return
        for line in lines:  # so that each has its sync in time; a failure on the way leaves the position right
            self._append(line.encode())
            self._next += 1

    def end(self, n: int, error: Exception | None, /) -> None:
        self._check_gap(n)
        if n < self._next:
            return
        what = {"completed": True} if error is None else {"error": described(error)}
        self._append(f"{_JSON.encode({'id': n, **what})}\n".encode())
        self._next = n + 1

    def flush(self) -> None:
        probe("sink.before_flush")
        self._sync()
        probe("sink.mid_flush")
        if self._epochs is not None:
            self._epochs.check()
        probe("sink.after_flush")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._epochs is not None:
            self._epochs.close()
            self._epochs = None

    def _check_gap(self, first: int) -> None:
        invariant(self._file is not None, f"the sink {self._path} is open when it is written to")
        if self._epochs is not None:
            self._epochs.check()
            probe("sink.mid_write")
        if first > self._next:
            message = (
                f"{self._path} wants id {self._next} next and is given {first}: ids between are no longer to be had"
            )
            raise PositionUnavailable(f"{message}; begin a new file", wanted=self._next, first=first, end=None)

    def _append(self, data: bytes) -> None:
        """Put *data* behind the last good byte; on failure nothing has happened, and it may be called again."""
        if self._unsynced_bytes + len(data) > UNSYNCED_BYTES_MAX and self._unsynced:
            self._sync()
        try:
            if self._suspect:
                self._rewrite()
            self._suspect = True
            _write_at(self._file, self._length, data)
            self._suspect = False
        except OSError as error:
            raise self._unavailable("written", error) from error
        self._length += len(data)
        self._unsynced.append(data)
        self._unsynced_bytes += len(data)

    def _sync(self) -> None:
        invariant(self._file is not None, f"the sink {self._path} is open when it is flushed")
        try:
            if self._suspect:
                self._rewrite()
            self._suspect = True
            os.fsync(self._file.fileno())
            self._suspect = False
        except OSError as error:
            raise self._unavailable("made durable", error) from error
        self._unsynced.clear()
        self._unsynced_bytes = 0

    def _rewrite(self) -> None:
        """Write again what is not known to be durable, and cut off what a failed write left."""
        self._file.truncate(self._length)
        _write_at(self._file, self._length - self._unsynced_bytes, b"".join(self._unsynced))

    def _unencodable(self, values: Sequence[Any], skip: int, error: Exception) -> TypeError:
        for n, value in enumerate(values[skip:], self._next):
            try:
                _JSON.encode(self._encode(value)).encode()
            except _UNENCODABLE as reason:
                return TypeError(f"value {n} cannot be written to {self._path}: {reason}")
        return TypeError(f"a value cannot be written to {self._path}: {error}")

    def _unavailable(self, what: str, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"{self._path} cannot be {what}: {error}; mend the disk, then try again")


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
_UNENCODABLE = (TypeError, ValueError, RecursionError)


def _open(path: Path) -> Any:
    """Open for reading and writing; the directory of a new file is synced, so that the name is durable too."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644), "r+b", buffering=0)
    if new:
        _sync_directory(path.parent)
    return file


def _sync_directory(path: Path) -> None:
    if sys.platform == "win32":
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _lock(file: Any, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        message = f"{path} is open in another sink; stop the other one, or write to another file"
        raise StoreOwned(message, owner=None) from error


def _write_at(file: Any, offset: int, data: bytes) -> None:
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _recover(file: Any, path: Path) -> tuple[int, int]:
    """Cut off what is not a consecutive run of lines; return the length left and the next id."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return 0, 0
    _check_ours(file, path)
    first_unsynced = _line_start(file, max(0, size - UNSYNCED_BYTES_MAX))
    start = _line_start(file, max(0, first_unsynced - 1))  # one line more: a good one, unless the file is not ours
    file.seek(start)
    good, next_id = _good_lines(_read_all(file, size - start), path)
    if start + good < size:
        file.truncate(start + good)
        os.fsync(file.fileno())
    return start + good, next_id


def _read_all(file: Any, size: int) -> bytes:
    pieces = []
    while piece := file.read(size):
        pieces.append(piece)
    return b"".join(pieces)


def _check_ours(file: Any, path: Path) -> None:
    file.seek(0)
    head: bytes = file.read(4096)
    first = head.split(b"\n", 1)[0].rstrip(b"\0")
    whole = b"\n" in head
    if first.startswith(PREFIX) or (not whole and PREFIX.startswith(first)):
        return
    message = (
        f"{path} was not written by this sink (its first line has no id); name another file, or move this one away"
    )
    raise CheckpointRefused(message, what="a foreign file", where=str(path))


def _line_start(file: Any, offset: int) -> int:
    """Return the start of the line around *offset*."""
    step = 1 << 16
    while offset > 0:
        begin = max(0, offset - step)
        file.seek(begin)
        newline = _read_exactly(file, offset - begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        offset = begin
    return 0


def _read_exactly(file: Any, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := file.read(count - len(data))):
        data += piece
    return data


def _good_lines(data: bytes, path: Path) -> tuple[int, int]:
    """Return the length of the consecutive run of lines at the beginning of *data*, and the id behind it."""
    good = 0
    next_id: int | None = None
    for line in _split(data):
        n = _id_of(line)
        if n is None or (next_id is not None and n != next_id):
            break
        good += len(line)
        next_id = n + 1
    if next_id is None and b"\n" in data:
        message = f"{path} holds a line that this sink did not write; put the old file back, or begin a new one"
        raise CheckpointRefused(message, what="a line without an id", where=str(path))
    return good, next_id or 0


def _split(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def _id_of(line: bytes) -> int | None:
    """Return the id of a whole line of ours."""
    if not (line.startswith(PREFIX) and line.endswith(b"}\n")):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    n = record.get("id")
    known = len(record) == 2 and ("value" in record or "completed" in record or "error" in record)
    return n if known and type(n) is int else None
