"""Blocks of whole lines of one text file, plain, gzipped or alone in a zip; decompressed as they are read.

What a block holds depends on where reading began; what a line is does not: it ends with its newline or the file, and
one longer than `RECORD_BYTES_MAX` is told from others by its own length alone. Such a line is never held whole, so that
neither a file without newlines nor a gzip bomb fills the memory.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from hosting.sources.bad_records import RAW_MAX
from hosting.sources.damaged import DAMAGE, PIECE_BYTES, Damage, find_damage, is_content, is_damage, open_content
from reliable_rx.errors import PositionUnavailable, SourceFailed

BLOCK_BYTES = 1 << 16
RECORD_BYTES_MAX = 1 << 26
STRETCH_BYTES = 1 << 23
"""How much is passed over in one go where no record is: empty lines, a line that is too long."""
COUNTED_BYTES_MAX = 1 << 30
HELD_SHIFT = 6
"""What part of what is held a block is at least: to cut one off copies the rest."""
READ_ERRORS = (OSError, *DAMAGE, NotImplementedError, RuntimeError)
PUT_BACK = "put it back as it was, as what was read of it may be read again"
BLANK = re.compile(rb"(?:\r?\n)+")
BOM = b"\xef\xbb\xbf"
WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


def open_bytes(path: Path) -> Any:
    """Open *path* for reading, decompressed. *Raises* `SourceFailed` for what is no file that can be read again."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceFailed(f"{path} {not_a_file(path)}", source=str(path))
        if path.suffix in (".gz", ".zip") and not os.path.getsize(path):  # it would be read as one that has ended
            raise SourceFailed(f"{path} is compressed and without a byte: cut short? Restore it", source=str(path))
        if path.suffix == ".gz":
            return gzip.open(path, "rb")
        if path.suffix == ".zip":
            return _open_zip(path)
        return open(path, "rb", buffering=0)
    except SourceFailed:
        raise
    except READ_ERRORS as error:
        raise SourceFailed(f"{path} cannot be opened: {error}; mend or restore it", source=str(path)) from error


def size_of(path: Path) -> int:
    """Return how long the file at *path* is. *Raises* `FileNotFoundError`, with the remedy, if it is there no more."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, f"the file is gone; {PUT_BACK}", str(path)) from None


def not_a_file(path: str | os.PathLike[str]) -> str:
    """Say what *path* is instead of a file, and what to do about it."""
    if os.path.isdir(path):
        return f"is a directory; name its files with a pattern, such as {os.fspath(path)}/*.csv"
    if not os.path.exists(path):
        return f"is gone; {PUT_BACK}"
    return "is no regular file (a pipe, a socket or a device) and cannot be read again; write it into a file first"


def _open_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if is_content(member)]
        if len(members) == 1:
            return open_content(archive, members[0])
    found = f"{path} holds {len(members)} files; a zip must hold exactly one, unpack it and name the files"
    raise SourceFailed(found, source=str(path))


def line_at(path: Path, offset: int) -> int | None:
    """Return the number of the line at byte *offset*, None where that cannot be counted, or is too much to be."""
    if offset > COUNTED_BYTES_MAX:
        return None
    try:
        with closing(open_bytes(path)) as file:
            left, line = offset, 1
            while left > 0 and (piece := file.read(min(BLOCK_BYTES, left))):
                left -= len(piece)
                line += piece.count(b"\n")
    except (SourceFailed, *READ_ERRORS):
        return None
    return None if left else line


def too_long() -> str:
    """Return what is wrong with a record of more than `RECORD_BYTES_MAX` bytes."""
    return f"it has more than {RECORD_BYTES_MAX:,} bytes (is it text, or is a quote never closed?)"


class Lines:
    """Blocks of whole lines of one file, kept until they are consumed."""

    def __init__(self, path: Path, *, follow: bool, fails: bool = True) -> None:
        self.offset = 0
        self.damage = ""
        """Why a compressed file cannot be read behind what is held, if so; empty once that is passed."""
        self.is_long = False
        """Whether the line at `offset` is longer than a record may be: then there is no block before `long_line`."""
        self._path = path
        self._follow, self._fails = follow, fails
        self._found: Damage | None = None
        self._packed_bytes = size_of(path)
        self._held = b""
        self._head, self._passed = b"", 0
        self._file = self._opened()

    def seek(self, offset: int) -> None:
        """Go forward to *offset*, which must be the start of a record, or be behind the damage."""
        reached, rest = offset, b""
        if self._found is None:
            try:
                reached = self._read_safely(lambda: self._go_to(offset))
            except SourceFailed as error:
                rest = self._salvage(offset, error)
        else:
            rest = self._salvage(offset, self._unreadable(self._found.reason, self._found.end))
        end = None if self._found is None else self._found.end
        if reached < offset or (self.plain and self._size() < offset) or (end is not None and offset > end + 1):
            raise self._shrunk(offset)
        self._held, self.offset = rest, offset
        if end is not None and offset > end:
            self.damage = ""

    @property
    def plain(self) -> bool:
        return isinstance(self._file, io.FileIO)

    @property
    def extent(self) -> int:
        """How many bytes of the file have been read, of a compressed one how many it had at first."""
        return self.offset + len(self._held) if self.plain else self._packed_bytes

    def block(self, *, longer_than: int = 0) -> bytes:
        """Return whole lines from `offset` on, more than *longer_than* bytes of them unless the file has no more."""
        while not self.is_long:
            cut = self._last_end(longer_than)
            if cut > longer_than:
                break
            if len(self._held) - cut > RECORD_BYTES_MAX:
                self.is_long = cut == 0
                break
            piece = self._read(min(max(BLOCK_BYTES, len(self._held)), RECORD_BYTES_MAX))
            if not piece:
                return self._last(cut, longer_than)
            self._held += piece
            if self.offset == 0:
                self._pass_over_mark()
        if not self.is_long and self._held.find(b"\n", 0, RECORD_BYTES_MAX) < 0:
            self.is_long = True
        return b"" if self.is_long else self._held[:cut]

    def _last_end(self, longer_than: int) -> int:
        """Return where a line ends behind *longer_than* bytes, not much further than a block if more is held."""
        end = max(BLOCK_BYTES, 2 * longer_than, len(self._held) >> HELD_SHIFT)
        cut = self._held.rfind(b"\n", 0, end) + 1
        if cut <= longer_than:
            cut = self._held.find(b"\n", max(end, longer_than)) + 1 or cut
        return cut

    def long_line(self) -> bytes | None:
        """Pass over the line that is too long; return how it begins, None while it has no end yet.

        A very long one takes several calls, of which each but the last returns nothing.
        """
        stretch = self._passed + STRETCH_BYTES
        while self._passed < stretch:
            end = self._held.find(b"\n") + 1
            taken = self._held[: end or len(self._held)]
            self._head = (self._head + taken[: RAW_MAX + 1])[: RAW_MAX + 1]
            self._passed += len(taken)
            self._held = self._held[len(taken) :]
            if not end:
                self._held = self._read(BLOCK_BYTES)
                if not self._held and self._follow:
                    return None
            if end or not self._held:
                found = self._head
                self.offset += self._passed
                self.is_long, self._head, self._passed = False, b"", 0
                return found
        return b""

    @property
    def head(self) -> bytes:
        """How the line at `offset` begins."""
        return self._held[: RAW_MAX + 1]

    def pass_blank(self) -> bool:
        """Pass over the empty lines at `offset` that are held; return whether there were any."""
        found = BLANK.match(self._held)
        if found:
            self.consume(found.end())
        return found is not None

    def is_stuck(self, length: int) -> bool:
        """Whether behind the block of *length* bytes lies a line that is too long, so that the block never grows."""
        return len(self._held) - length > RECORD_BYTES_MAX

    def consume(self, count: int) -> None:
        self._held = self._held[count:]
        self.offset += count

    def close(self) -> None:
        self._file.close()

    def pass_damage(self) -> bytes:
        """Go behind the damage; return what is held before it. The place behind is one byte further than any record."""
        tail, self._held = self._held, b""
        self.offset += len(tail) + 1
        self.damage = ""
        return tail

    def _go_to(self, offset: int) -> int:
        if not isinstance(self._file, zipfile.ZipExtFile):
            return int(self._file.seek(offset))
        self._file.close()  # its own `seek` passes over what is not compressed, and then checks no checksum
        self._file = open_bytes(self._path)
        while (at := self._file.tell()) < offset and self._file.read(min(PIECE_BYTES, offset - at)):
            pass
        return int(self._file.tell())

    def _opened(self) -> Any:
        try:
            return open_bytes(self._path)
        except SourceFailed as error:
            self._salvage(0, error)
            return io.BytesIO()

    def _read(self, size: int) -> bytes:
        if self._found is not None:
            return b""
        try:
            piece: bytes = self._read_safely(lambda: self._file.read(size))
        except SourceFailed as error:
            return self._salvage(self.offset + self._passed + len(self._held), error)
        return piece

    def _salvage(self, offset: int, error: SourceFailed) -> bytes:
        """Return what can be read from *offset* on before the damage. *Raises* *error* where that is no more.

        So also what fails the source does so at the same record in each reading, with all before that handed out.
        """
        if not (self._found or is_damage(error.__cause__)):
            raise error
        found = self._found
        is_behind = found is not None and offset >= found.end
        if found is None or not is_behind:
            found = cast(Damage, self._read_safely(lambda: find_damage(self._path, offset)))
        if self._fails and found.reason and not found.end:
            raise error
        self._found = found
        if self._fails and found.reason and offset >= found.end:
            raise self._unreadable(found.reason, found.end)
        self.damage = f"the rest of the file cannot be read: {found.reason}" if found.reason else ""
        return b"" if is_behind else found.rest

    def _last(self, cut: int, longer_than: int) -> bytes:
        if self._found is not None:
            if self._fails and self._found.reason and cut <= longer_than:
                raise self._unreadable(self._found.reason, self._found.end)
            return self._held[:cut]
        if not self._follow:
            return self._held
        if self._size() < self.offset:
            raise self._shrunk(self.offset)
        self._check_same()
        return self._held[:cut]

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _check_same(self) -> None:
        """*Raises* `SourceFailed` if what is followed has another file in its place by now."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return  # it may be on its way; what is open can still be read
        except OSError as error:
            raise SourceFailed(f"{self._path} cannot be looked at: {error}", source=str(self._path)) from error
        if not os.path.samestat(there, os.fstat(self._file.fileno())):
            message = f"{self._path} has been replaced by another file behind byte {self.offset:,}"
            remedy = (
                "append to a file that is followed, or put it back before the next start, which cannot tell the two"
            )
            other = "if it is gone, declare the new one as a source of another name"
            raise SourceFailed(f"{message}; {remedy}; {other}", source=str(self._path))

    def _read_safely(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except READ_ERRORS as error:
            raise self._unreadable(str(error), self.offset) from error

    def _unreadable(self, why: str, at: int) -> SourceFailed:
        message = f"{self._path} cannot be read behind byte {at:,}: {why}; is it damaged or cut short?"
        return SourceFailed(message, source=str(self._path))

    def _pass_over_mark(self) -> None:
        """A byte order mark is no text. *Raises* `SourceFailed` for one of another encoding."""
        if self._held.startswith(BOM):
            self.consume(len(BOM))
        elif self._held.startswith(WIDE_BOMS):
            message = f"{self._path} is written in UTF-16 or UTF-32, and only UTF-8 is read"
            raise SourceFailed(f"{message}; convert it: iconv -f UTF-16 -t UTF-8", source=str(self._path))

    def _shrunk(self, offset: int) -> PositionUnavailable:
        message = f"{self._path} is shorter than it was (it had {offset} bytes); put the whole file back"
        return PositionUnavailable(message, wanted=None, first=0, end=None)
