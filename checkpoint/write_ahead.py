"""A look at a database's write-ahead log before SQLite opens it: is what it holds whole, or damaged in its midst?

SQLite takes the first frame whose checksum is wrong for the place where a write was cut short, and drops all behind it
in silence: one flipped byte would cost every later commit, whose pages it then writes over. But each commit is synced
before the next one begins. So a commit with a frame behind it that goes on from its checksum was durable once, and a
bad frame at or before it is damage. What a kill, a power cut or a transaction that was rolled back leaves is never
that: no whole commit with a successor, or frames of another salt. The newest commit alone cannot be told from a write
that was cut short.
The format is SQLite's (https://sqlite.org/fileformat2.html#the_write_ahead_log): a header of 32 bytes with a salt, then
frames of 24 bytes and a page, with that salt and a checksum over all frames so far. Rejected: to have SQLite read a
copy and count (twice the disk, which may be full); to look in the transaction that it recovers in (too late).
"""

from __future__ import annotations

import shlex
import struct
from array import array
from itertools import count
from pathlib import Path
from sys import byteorder
from typing import BinaryIO, Literal, NamedTuple

from reliable_rx.errors import CheckpointRefused

_HEADER_BYTES, _FRAME_BYTES = 32, 24
_MAGIC, _VERSION = 0x377F0682, 3_007_000
_PAGE_BYTES, _PAGE_BYTES_MIN, _PAGE_BYTES_MAX = 4096, 512, 65536
_WORD = (1 << 32) - 1
Order = Literal["little", "big"]
Sums = tuple[int, int]


class Frame(NamedTuple):
    """One page as a transaction has written it."""

    salt: bytes
    stored: Sums
    checked: bytes
    """What its checksum is over, beside all before it."""


def check_write_ahead(database: Path) -> None:
    """*Raises* `CheckpointRefused` if the log beside *database* has lost what a later commit stands behind."""
    path, kept = log_beside(database), damaged_behind(database)
    if kept is not None:
        what = f"it is damaged behind {kept:,} bytes, and commits that were durable lie behind that"
        command = shlex.join(["reliable-rx", "store", "repair", str(database.parent), "--app", "MODULE:APP"])
        remedy = f"restore the whole folder from a copy, or see what can be saved with `{command}`"
        raise CheckpointRefused(f"{path}: {what}; {remedy}", what=what, where=str(path))


def log_beside(database: Path) -> Path:
    """Return where the write-ahead log of *database* is."""
    return database.with_name(f"{database.name}-wal")


def damaged_behind(database: Path) -> int | None:
    """Return behind how many bytes the log beside *database* has lost what was durable; None if it has not."""
    try:
        with log_beside(database).open("rb") as file:
            return WriteAheadLog(file).kept_bytes()
    except FileNotFoundError:
        return None


class WriteAheadLog:
    """The log in *file*."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        header = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        magic, version, size = struct.unpack_from(">3I", header)
        is_size = _PAGE_BYTES_MIN <= size <= _PAGE_BYTES_MAX and size & (size - 1) == 0
        self.order: Order = "big" if magic & 1 else "little"
        self.salt, self.sums = header[16:24], _stored(header, 24)
        is_whole = magic | 1 == _MAGIC | 1 and version == _VERSION and is_size
        found = checksum(header[:24], (0, 0), self.order)
        self.is_known = is_whole and found == self.sums
        self.seeds = [self.sums] if self.is_known else [self.sums, found]
        """What the checksum of the first frame may go on from."""
        self.page_bytes = size if self.is_known else _PAGE_BYTES

    def kept_bytes(self) -> int | None:
        """Return behind how many bytes something is lost; None if nothing is."""
        if not self.is_known:
            orders: tuple[Order, ...] = ("little", "big")
            return 0 if any(self._has_later(1, (0, 0), each) for each in orders) else None
        sums = found = self.sums
        for number in count(1):
            frame = self.frame(number)
            if frame is None:
                return None
            found = checksum(frame.checked, sums, self.order)
            if frame.salt != self.salt or found != frame.stored:
                return self._offset(number) if self._has_later(number, found, self.order) else None
            sums = found
        return None

    def _has_later(self, bad: int, found: Sums, order: Order) -> bool:
        """Whether a commit at or behind the frame *bad*, which should have the checksum *found*, has a successor."""
        for number in count(bad):
            head = self._head(number)
            if head is None:
                return False
            if not struct.unpack_from(">I", head, 4)[0]:
                continue  # it ends no commit
            after = self.frame(number + 1)
            if after is None:
                return False
            seeds = [_stored(head, 16), *([found] if number == bad else [])]
            salt = self.salt if self.is_known else head[8:16]
            if after.salt == salt and any(checksum(after.checked, each, order) == after.stored for each in seeds):
                return True
        return False

    def frame(self, number: int) -> Frame | None:
        """Return a frame, counted from 1, None behind the last whole one."""
        head = self._head(number)
        page = b"" if head is None else self._file.read(self.page_bytes)
        if head is None or len(page) < self.page_bytes:
            return None
        return Frame(head[8:16], _stored(head, 16), head[:8] + page)

    def _head(self, number: int) -> bytes | None:
        self._file.seek(self._offset(number))
        head = self._file.read(_FRAME_BYTES)
        return head if len(head) == _FRAME_BYTES else None

    def _offset(self, number: int) -> int:
        return _HEADER_BYTES + (number - 1) * (_FRAME_BYTES + self.page_bytes)


def _stored(head: bytes, at: int) -> Sums:
    first, second = struct.unpack_from(">2I", head, at)
    return first, second


def checksum(data: bytes, before: Sums, order: Order) -> Sums:
    """Return the checksum of *data*, as it goes on from the one *before*."""
    words = array("I", data)
    if order != byteorder:
        words.byteswap()
    first, second = before
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = first + even + second & _WORD
        second = second + odd + first & _WORD
    return first, second
