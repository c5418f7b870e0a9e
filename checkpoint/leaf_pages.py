"""Rows of a SQLite database that are read from its leaf pages, whatever is wrong with the way that leads to them.

The format is SQLite's (https://sqlite.org/fileformat2.html#b_tree_pages). What cannot be parsed is left out; whether
a row is genuine its seal says. Rejected: the recovery of SQLite's shell (not in Python's module).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TABLE_LEAF = 13
_HEADER_BYTES = 100
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_PAGE_BYTES_MAX = 65536


def leaf_rows(database: Path) -> Iterator[tuple[int, list[Any]]]:
    """Give the number and the values of each row that lies in a leaf of a table."""
    if database.stat().st_size < _HEADER_BYTES:
        return
    with database.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = int.from_bytes(data[16:18], "big")
        size = _PAGE_BYTES_MAX if size == 1 else size if size in (1 << n for n in range(9, 16)) else 4096
        for start in range(0, len(data), size):
            at = start + (_HEADER_BYTES if start == 0 else 0)
            if data[at] == _TABLE_LEAF:
                count = int.from_bytes(data[at + 3 : at + 5], "big")
                for place in range(at + 8, min(at + 8 + 2 * count, start + size), 2):
                    try:
                        yield _cell(data, size, start, start + int.from_bytes(data[place : place + 2], "big"))
                    except (IndexError, ValueError, struct.error):
                        continue


def _cell(data: mmap.mmap, size: int, start: int, at: int) -> tuple[int, list[Any]]:
    length, at = _varint(data, at)
    number, at = _varint(data, at)
    if length > len(data):
        raise ValueError("longer than the file")
    most, least = size - 35, (size - 12) * 32 // 255 - 23
    local = length
    if length > most:
        local = least + (length - least) % (size - 4)
        local = local if local <= most else least
    if at + local > start + size:
        raise ValueError("beyond its page")
    payload = bytearray(data[at : at + local])
    more = int.from_bytes(data[at + local : at + local + 4], "big") if local < length else 0
    while len(payload) < length:
        if more == 0:
            raise ValueError("its end is missing")
        page = data[(more - 1) * size : more * size]
        payload += page[4 : 4 + min(size - 4, length - len(payload))]
        more = int.from_bytes(page[:4], "big") if len(page) == size else 0
    return number - (1 << 64) if number >> 63 else number, _values(bytes(payload))


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
