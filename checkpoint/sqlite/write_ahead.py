"""A look at a database's write-ahead log before SQLite opens it: is what it holds whole, or damaged in its midst?

SQLite takes the first frame whose checksum is wrong for the place where a write was cut short, and drops all behind it
in silence: one flipped byte would cost every later commit, whose pages it then writes over. But each commit is synced
before the next one begins. So a commit with a frame behind it that goes on from its checksum was durable once, and a
bad frame at or before it is damage. What a kill, a power cut or a transaction that was rolled back leaves is never
that: no whole commit with a successor, or frames of another salt. The newest commit alone cannot be told from a write
that was cut short. Bytes that were put in or taken out move all frames behind them: so they are looked for by their
salt, wherever it is. What a frame's checksum goes on from follows from the frame itself.
The format is SQLite's (https://sqlite.org/fileformat2.html#the_write_ahead_log): a header of 32 bytes with a salt, then
frames of 24 bytes and a page, with that salt and a checksum over all frames so far. Rejected: to have SQLite read a
copy and count (twice the disk, which may be full); to look in the transaction that it recovers in (too late).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from sys import byteorder
from typing import BinaryIO, Literal, NamedTuple, get_args

from checkpoint.failures import store_damaged

_HEADER_BYTES, _FRAME_BYTES = 32, 24
_MAGIC, _VERSION = 0x377F0682, 3_007_000
_PAGE_BYTES, _PAGE_BYTES_MIN, _PAGE_BYTES_MAX = 4096, 512, 65536
_SALT_BEHIND = 16
"""Where in a frame its salt has ended."""
_CHUNK_BYTES = 1 << 20
_ALIKE = bytes(8)
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
        raise store_damaged(path, database.parent, what)


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
    """The log in *file*.

    Without a readable header the salt is the one that two frames, one of which goes on from the other, have.
    """

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
        self._step = _FRAME_BYTES + self.page_bytes
        if not self.is_known:
            self.salt, self.order = self._repeated_salt() or (b"", self.order)

    def kept_bytes(self) -> int | None:
        """Return behind how many bytes something is lost; None if nothing is."""
        if not self.is_known:
            return 0 if self._has_later(0, None) else None
        sums = self.sums
        for at in count(_HEADER_BYTES, self._step):
            frame = self.frame(at)
            if frame is None:
                return at if self._has_later(at, None) else None
            found = checksum(frame.checked, sums, self.order)
            if frame.salt != self.salt or found != frame.stored:
                return at if self._has_later(at, found) else None
            sums = found
        return None

    def _has_later(self, bad: int, found: Sums | None) -> bool:
        """Whether a commit at or behind *bad*, where a frame should have the checksum *found*, has a successor."""
        ends = set[Sums]()
        for at in self._salted(bad):
            head, frame, front = self._head(at), self.frame(at), self._head(at - self._step)
            if frame is not None:
                seed = checksum_before(frame.checked, frame.stored, self.order)
                is_behind = front is not None and at - self._step >= bad and ends_commit(front)
                if seed in ends or (is_behind and seed in (_stored(front or b"", 16), found)):
                    return True
            if head is not None and ends_commit(head):
                ends.add(_stored(head, 16))
        return False

    def places(self) -> Iterator[int]:
        """Give where each frame begins: one behind the other, and where bytes are missing or too many, the salt tells.

        The frames behind the last one that has the salt are left out.
        """
        at = _HEADER_BYTES if self.is_known else 0
        for salted in self._salted(at):
            if not self.is_known and at == 0:
                at = salted - (salted - _HEADER_BYTES) // self._step * self._step
            yield from range(at, salted - self._step + 1, self._step)
            yield salted
            at = salted + self._step

    def _salted(self, start: int) -> Iterator[int]:
        """Give where frames with the salt begin, on the grid of frames or off it."""
        at, data = start, b""
        while self.salt:
            self._file.seek(at)
            data = self._file.read(_CHUNK_BYTES)
            if len(data) < _FRAME_BYTES:
                return
            place = data.find(self.salt, 8)
            while place >= 0:
                yield at + place - 8
                place = data.find(self.salt, place + len(self.salt))
            at += len(data) - _SALT_BEHIND + 1

    def _repeated_salt(self) -> tuple[bytes, Order] | None:
        """Return the salt and the order of two frames of which one goes on from the other."""
        at, orders = 0, get_args(Order)
        while True:
            self._file.seek(at)
            data = self._file.read(_CHUNK_BYTES)
            if len(data) < 2 * self._step:
                return None
            alike = _alike(data, self._step)
            place = alike.find(_ALIKE)
            while place >= 0:
                if place >= 8 and all(_is_likely(data[each - 8 : each + 8]) for each in (place, place + self._step)):
                    first, second = self.frame(at + place - 8), self.frame(at + place - 8 + self._step)
                    for order in orders:
                        if first and second and goes_on(first, second, order):
                            return first.salt, order
                place = alike.find(_ALIKE, place + 1)
            at += len(data) - 2 * self._step + 1

    def frame(self, at: int) -> Frame | None:
        """Return the frame that begins at a place in the file, None if it is cut short."""
        head = self._head(at)
        page = b"" if head is None else self._file.read(self.page_bytes)
        if head is None or len(page) < self.page_bytes:
            return None
        return Frame(head[8:16], _stored(head, 16), head[:8] + page)

    def _head(self, at: int) -> bytes | None:
        if at < 0:
            return None
        self._file.seek(at)
        head = self._file.read(_FRAME_BYTES)
        return head if len(head) == _FRAME_BYTES else None


def goes_on(before: Frame, behind: Frame, order: Order) -> bool:
    """Whether the checksum of *behind* goes on from that of *before*."""
    return checksum_before(behind.checked, behind.stored, order) == before.stored


def ends_commit(head: bytes) -> bool:
    """Whether a frame is the last one of its transaction."""
    return any(head[4:8])


def _alike(data: bytes, step: int) -> bytes:
    """Return zeroes where *data* has the same a *step* further on."""
    one, other = (int.from_bytes(each, "big") for each in (data[:-step], data[step:]))
    return (one ^ other).to_bytes(len(data) - step, "big")


def _is_likely(head: bytes) -> bool:
    """Whether a frame may begin so: with the number of a page, one of pages, and a salt."""
    return head[0] == 0 == head[4] and any(head[1:4]) and any(head[8:])


def _stored(head: bytes, at: int) -> Sums:
    first, second = struct.unpack_from(">2I", head, at)
    return first, second


def checksum_before(data: bytes, stored: Sums, order: Order) -> Sums:
    """Return what the checksum *stored* behind *data* goes on from, if both are right."""
    words = _words(data, order)
    first, second = stored
    for even, odd in zip(reversed(words[::2]), reversed(words[1::2]), strict=True):
        second = second - odd - first & _WORD
        first = first - even - second & _WORD
    return first, second


def checksum(data: bytes, before: Sums, order: Order) -> Sums:
    """Return the checksum of *data*, as it goes on from the one *before*."""
    words = _words(data, order)
    first, second = before
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = first + even + second & _WORD
        second = second + odd + first & _WORD
    return first, second


def _words(data: bytes, order: Order) -> array[int]:
    words = array("I", data)
    if order != byteorder:
        words.byteswap()
    return words
