"""An exactly-once sink into a file of JSON lines.

Every line carries its id, so the file itself is the record of what has arrived: after a crash the last good line says
where to go on. Traps that are met here:

* *A torn tail.* A kill leaves half a line; a power cut may leave a hole *before* whole lines, because unsynced
  pages reach the disk in any order. So the file beside says how far it was flushed (`hosting.sinks.flushed_mark`), and
  behind that, what is not a consecutive run of lines is cut off, and kept (`hosting.sinks.line_recovery`). At most
  `UNSYNCED_BYTES_MAX` (or one line) are ever unsynced.
* *Damage.* What was flushed and is not what it was is refused: there is nothing that could be cut without loss.
* *A failed fsync.* The pages may be gone from the cache though marked clean, and the next fsync says "fine". So
  unsynced bytes are kept and written again before the next try.
* *A second writer.* The file is locked while open.
* *A file that is taken away* (deleted, moved, cut) while it is written: `hosting.sinks.places`.
* *A former writer*, stopped with the file open and locked, that goes on later. A writer with a later epoch (`fence`)
  copies the file and puts the copy in its place; the former one writes into a file without a name, and is told so when
  it writes or flushes (`hosting.sinks.fencing`). A file that nobody has locked is gone on with as it is.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from checkpoint.ownership import OwnProcess
from hosting.admission.constructor_types import checks_kinds
from hosting.engine.blame import blamed
from hosting.sinks.fencing import EACH, EpochFile, fenced, lost
from hosting.sinks.flushed_mark import FlushedMark, read_mark
from hosting.sinks.line_recovery import inspect, recover, refuse_others
from hosting.sinks.origins import better
from hosting.sinks.places import Place, beside, opening
from hosting.sinks.plain import to_plain
from hosting.sinks.text import JSON, bounded, error_text, shown, to_json
from reliable_rx.class_of import qualname_of
from reliable_rx.errors import (
    PositionUnavailable,
    StoreOwned,
    StoreUnavailable,
    ValueRefused,
    invariant,
)
from reliable_rx.failpoints import probe
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.choices import names_keywords
from reliable_rx.reliable import DeadLetter, Origin

UNSYNCED_BYTES_MAX = 8 << 20
_COPIED_BYTES = 1 << 20


class JsonLinesSink:
    """Write a stream to *path*, each notification exactly once.

    A value is a line ``{"id":17,"value":…}``; the end is ``{"id":18,"completed":true}`` or
    ``{"id":18,"error":"ValueError: …"}``. *encode* turns a value into what JSON can hold; the default is
    `to_plain`. Values written are in the file at once, and safe from a power cut after `flush`. An id that is left out
    is a line too: ``{"id":17,"skipped":"why"}`` or ``{"id":17,"dead_letter":{"error":…,"type":…,"value":…}}`` with the
    value as text, and ``"until":20`` behind the first id of several. How far the file was flushed says
    ``out.jsonl.flushed`` beside it; what is found torn behind that is moved to ``out.jsonl.cut-1``, as `remark` says.

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
    did not write or whose flushed lines are damaged, `StoreOwned` when another process has it open, `ValueRefused` for
    a value that JSON cannot hold, `LeaseLost` if a later epoch writes the file.
    """

    writes_at_once = True
    """A repair takes what the file has for all that readers have had."""

    @names_keywords
    @checks_kinds()
    def __init__(self, path: str | os.PathLike[str], *, encode: Callable[[Any], Any] = to_plain) -> None:
        self._path = Path(path)
        self._encode = encode if encode is to_plain else partial(bounded, encode)
        self._file: Any = None
        self._next = 0
        self._length = 0
        self._unsynced: list[bytes] = []
        self._unsynced_bytes = 0
        self._suspect = False
        self._process = OwnProcess(f"the sink {self._path}")
        self._epoch: int | None = None
        self._origin: Origin | None = None
        self._unnamed: Origin | None = None
        """What the mark does not say yet, as nothing was written: who opens a file may be the wrong one."""
        self._epochs: EpochFile | None = None
        self._mark: FlushedMark | None = None
        self._place: Place | None = None
        self.remark = ""
        """What was found when the file was opened, if that was not as it should be."""

    @property
    def target(self) -> str:
        """What no other sink may write."""
        return str(self._path.absolute())

    def claim(self, origin: Origin, /) -> None:
        """Take note of where the ids come from."""
        invariant(self._file is None, f"the sink {self._path} is claimed before it opens")
        self._origin = origin

    def fence(self, epoch: int, /) -> None:
        """Take the file from every earlier epoch. Nothing is open behind it."""
        invariant(self._file is None and self._epoch is None, f"the sink {self._path} is fenced once, before it opens")
        with opening(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._origin is not None and self._path.exists():
                with open(self._path, "rb", buffering=0) as file:
                    refuse_others(file, self._path, read_mark(self._path), self._origin)
            with closing(EpochFile(self._path, epoch)) as epochs:
                epochs.claim()
                _sync_directory(self._path.parent)
        self._epoch = epoch

    def open(self, stream: str, /) -> int | None:
        """Lock the file, cut off a torn tail, and return the id behind the last line."""
        invariant(self._file is None, f"the sink {self._path} is opened once")
        try:
            with opening(self._path):
                self._file, origin = _open(self._path), self._origin or Origin(stream)
                refuse_others(self._file, self._path, read_mark(self._path), origin)
                self._epochs = None if self._epoch is None else EpochFile(self._path, self._epoch)
                self._own()
                self._recover(origin)
                self._place = Place(self._path, self._file.fileno())
        except BaseException:
            self._release()
            raise
        return self._next

    def stored_position(self, stream: str, /) -> int | None:
        """Return the id behind the last line that is whole, and leave the file as it is."""
        with opening(self._path):
            if not self._path.exists():
                return 0
            with open(self._path, "rb", buffering=0) as file:
                mark = read_mark(self._path)
                refuse_others(file, self._path, mark, self._origin or Origin(stream))
                return inspect(file, self._path, mark.length).next_id

    def _recover(self, origin: Origin) -> None:
        """Find where to go on. What is there then is made durable, so that nothing unsynced piles up over restarts."""
        mark = read_mark(self._path)
        refuse_others(self._file, self._path, mark, origin)
        origin, flushed = better(mark.origin, origin), mark.length
        self._unnamed = None if mark.origin == origin else origin
        found = recover(self._file, self._path, flushed)
        self._length, self._next, self.remark = found.length, found.next_id, found.remark
        self._mark = FlushedMark(self._path)
        if found.length != (flushed or 0):
            os.fsync(self._file.fileno())
        if found.length != (flushed or 0) or flushed is None:
            self._mark.write(found.length, sync=flushed is None)
        if flushed is None or not found.length:  # then the one or the other is new
            _sync_directory(beside(self._path, "").parent)

    def _own(self) -> None:
        """Lock the file; if a former writer has it locked, put a copy in its place."""
        if self._epochs is None:
            _lock(self._file, self._path)
            if newest := fenced(self._path):
                raise lost(str(self._path), 0, newest)
            return
        copy = beside(self._path, ".tmp")
        with self._epochs.held():
            self._epochs.check()
            copy.unlink(missing_ok=True)  # what a killed process left
        try:
            _lock(self._file, self._path)
        except StoreOwned:
            self._replace(self._epochs, copy)
        self._epochs.check()

    def _replace(self, epochs: EpochFile, there: Path) -> None:
        """Go on in a copy, in the place of a file that a former writer has open."""
        with epochs.held():
            epochs.check()
            copy = _open(there)
        with self._file as file:
            self._file = copy
            _lock(copy, there)
            probe("sink.before_copy")
            file.seek(0)
            shutil.copyfileobj(file, copy, _COPIED_BYTES)
        os.fsync(copy.fileno())
        with epochs.held():
            epochs.check()
            probe("sink.before_rename")
            there.rename(os.path.realpath(self._path))
        _sync_directory(there.parent)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._check_gap(first)
        skip = self._next - first  # ids that the file has already
        if skip >= len(values):
            return
        encode, text = self._encode, JSON.encode
        try:
            lines = [f'{{"id":{n},"value":{text(encode(v))}}}\n' for n, v in enumerate(values[skip:], self._next)]
            data = "".join(lines).encode()
        except BaseException as raised:  # `encode` is somebody else's
            let_through(raised)
            lines = [self._line(n, value) for n, value in enumerate(values[skip:], self._next)]
            data = "".join(lines).encode()
        if len(data) <= UNSYNCED_BYTES_MAX:
            self._append(data)
            self._next = first + len(values)
            return
        for line in lines:  # so that each has its sync in time; a failure on the way leaves the position right
            self._append(line.encode())
            self._next += 1

    def _line(self, n: int, value: Any) -> str:
        """Write one value with whatever JSON can say. *Raises* `ValueRefused`."""
        try:
            return f'{{"id":{n},"value":{to_json(self._encode(value))}}}\n'
        except BaseException as error:
            let_through(error)
            why = error_text(error)
            remedy = "" if "encode=" in why else "; give the sink encode=, which maps it to what JSON has"
            what = f"value {n:,} cannot be written to {self._path}: {why}{remedy}"
            raise ValueRefused(what, n=n) from blamed(error)

    def end(self, n: int, error: Exception | None, /) -> None:
        what = {"completed": True} if error is None else {"error": error_text(error)}
        self._note(n, n + 1, what)

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None:
        reach = {"until": until} if until > n + 1 else {}
        if letter is None:
            self._note(n, until, {**reach, "skipped": why})
        else:
            value = {"error": why, "type": qualname_of(type(letter.value)), "value": shown(letter.value)}
            self._note(n, until, {**reach, "dead_letter": value})

    def _note(self, n: int, until: int, what: dict[str, Any]) -> None:
        self._check_gap(n)
        if n >= self._next:
            self._append(f"{to_json({'id': n, **what})}\n".encode())
            self._next = until

    def flush(self) -> None:
        self._process.check()
        probe("sink.before_flush")
        self._sync()
        probe("sink.mid_flush")
        if self._epochs is not None:
            self._epochs.check()
        if self._place is not None:
            self._place.check(self._length)
        if self._mark is not None:
            try:
                self._mark.write(self._length)
            except OSError as error:
                raise self._unavailable("marked as flushed", error) from error
        probe("sink.after_flush")

    def close(self) -> None:
        """Let go of the file; whoever opens the sink again begins anew, and fences it anew."""
        self._release()
        self._epoch = self._origin = None

    def _release(self) -> None:
        """Close all that is open. What is in the file is found there again."""
        self._unsynced.clear()
        self._unsynced_bytes, self._suspect = 0, False
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._epochs is not None:
            self._epochs.close()
            self._epochs = None
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    def _check_gap(self, first: int) -> None:
        self._process.check()
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
            if self._unnamed is not None and self._mark is not None:
                self._mark.name(self._unnamed)
                self._unnamed = None
            if self._suspect:
                self._rewrite()
            self._check_whole(self._length)
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
        self._check_whole(self._length - self._unsynced_bytes)
        self._file.truncate(self._length)
        _write_at(self._file, self._length - self._unsynced_bytes, b"".join(self._unsynced))

    def _check_whole(self, length: int) -> None:
        """Refuse to write behind a cut, which would leave a hole. *Raises* `CheckpointRefused`."""
        if self._place is not None and os.fstat(self._file.fileno()).st_size < length:
            self._place.check(length)

    def _unavailable(self, what: str, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"{self._path} cannot be {what}: {error}; mend the disk, then try again")


def _open(path: Path) -> Any:
    """Open for reading and writing; who makes a new file syncs its directory, so that the name is durable too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    return os.fdopen(descriptor, "r+b", buffering=0)


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
        message = f"{path} is open in another sink; stop the other one, or write to another file: {EACH}"
        raise StoreOwned(message, owner=None) from error


def _write_at(file: Any, offset: int, data: bytes) -> None:
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
