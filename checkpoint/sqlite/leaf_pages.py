"""Rows of a SQLite database that are read from its leaf pages, whatever is wrong with the way that leads to them.

The format is SQLite's (https://sqlite.org/fileformat2.html#b_tree_pages). What cannot be parsed is left out; whether
a row is genuine its seal says. Bytes too many or too few move all pages behind them; how many they are, the size of the
file says, but for whole pages. Rejected: the recovery of SQLite's shell (not in Python's module).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

_TABLE_LEAF = 13
_HEADER_BYTES = 100
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_PAGE_BYTES_MAX = 65536
_TRIES_MAX = 1000
"""How many overflow pages are looked at for one row, beside those that it has."""


def leaf_rows(database: Path) -> Iterator[tuple[int, list[Any]]]:
    """Give the number and the values of each row that lies in a leaf of a table.

    Where bytes were put into the file or taken out, a row may be given several times, once as it was.
    """
    if database.stat().st_size < _HEADER_BYTES:
        return
    with database.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = int.from_bytes(data[16:18], "big")
        size = _PAGE_BYTES_MAX if size == 1 else size if size in (1 << n for n in range(9, 16)) else 4096
        more = len(data) % size
        shifts = list(dict.fromkeys((0, more, more - size, more + size, more - 2 * size)))
        for start in (each for grid in {0, more} for each in range(grid, len(data), size)):
            at = start + (_HEADER_BYTES if start == 0 else 0)
            if data[at] == _TABLE_LEAF:
                count = int.from_bytes(data[at + 3 : at + 5], "big")
                for place in range(at + 8, min(at + 8 + 2 * count, start + size), 2):
                    cell = start + int.from_bytes(data[place : place + 2], "big")
                    yield from _rows_at(Pages(data, size, shifts), start, cell)


class Pages(NamedTuple):
    """A file of pages, each of which may lie some bytes from its place."""

    data: mmap.mmap
    size: int
    shifts: Sequence[int]


def _rows_at(pages: Pages, start: int, at: int) -> Iterator[tuple[int, list[Any]]]:
    """Give what the cell of a leaf at *start* may be."""
    data, size = pages.data, pages.size
    try:
        length, at = _varint(data, at)
        number, at = _varint(data, at)
        local = _local_bytes(length, size)
        if length > len(data) or at + local > start + size:
            return
        payload, behind = data[at : at + local], at + local
        rests = [b""] if local == length else _rests(pages, _number(data, behind), length - local)
    except IndexError:
        return
    for rest in rests:
        with suppress(IndexError, ValueError, struct.error):
            yield number - (1 << 64) if number >> 63 else number, _values(payload + rest)


def _local_bytes(length: int, size: int) -> int:
    """Return how much of a payload is in the leaf itself."""
    most, least = size - 35, (size - 12) * 32 // 255 - 23
    if length <= most:
        return length
    local = least + (length - least) % (size - 4)
    return local if local <= most else least


def _rests(pages: Pages, first: int, length: int) -> Iterator[bytes]:
    """Give what the overflow pages from *first* on may hold, of so many bytes; where a page may lie, it is tried."""
    data, size = pages.data, pages.size
    tries = _TRIES_MAX + length // size * len(pages.shifts)
    waiting: list[tuple[int, int, Part]] = [(first, length, None)]
    while waiting and tries > 0:
        number, missing, before = waiting.pop()
        if missing <= 0:
            yield joined(before)
        for shift in reversed(pages.shifts) if missing > 0 and number > 0 else ():
            tries -= 1
            at = (number - 1) * size + shift
            page = data[at : at + size] if at >= 0 else b""
            if len(page) >= min(size, missing + 4):
                waiting.append((_number(page, 0), missing - size + 4, (before, page[4 : 4 + missing])))


Part: TypeAlias = "tuple[Part, bytes] | None"
"""What is behind other parts."""


def joined(part: Part) -> bytes:
    parts = list[bytes]()
    while part is not None:
        parts.append(part[1])
        part = part[0]
    return b"".join(reversed(parts))


def _number(data: Any, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _values(record: bytes) -> list[Any]:
    behind, at = _varint(record, 0)
    kinds, values, place = [], [], behind
    while at < behind:
        kind, at = _varint(record, at)
        kinds.append(kind)
    for kind in kinds:
        value, place = _value(record, kind, place)
        values.append(value)
    if place > len(record):
        raise ValueError("shorter than its values")
    return values


def _value(record: bytes, kind: int, at: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind <= 6:
        behind = at + _INTEGER_BYTES[kind]
        return int.from_bytes(record[at:behind], "big", signed=True), behind
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("no value of ours")
    behind = at + (kind - 12) // 2
    value = record[at:behind]
    return (value.decode() if kind % 2 else value), behind


def _varint(data: Any, at: int) -> tuple[int, int]:
    """Return the number at *at*, and where it ends."""
    found = 0
    for place in range(at, at + 8):
        found = found << 7 | data[place] & 127
        if data[place] < 128:
            return found, place + 1
    return found << 8 | data[at + 8], at + 9
