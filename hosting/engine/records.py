"""Rows of a checkpoint as the chunks of a store hold them: key and row, in blobs that are read one by one.

A key is an address inside a query, or the kind of a row and a name.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from checkpoint import failures
from checkpoint.format.code import OtherCode
from checkpoint.format.codec import encode
from checkpoint.format.salvage import findable, salvage
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.rows import Loader

Record = tuple[Any, Any]  # key, row or None for a row that is gone
CHUNK_BYTES_MAX = 1 << 20
INSIDE, ADDRESS_MIN = "", 4  # an address has a name, and three parts per step into the query


def query_of(key: Any) -> str:
    """Return the name of the query to which the row under *key* belongs."""
    name: str = key[1] if len(key) < ADDRESS_MIN else key[0]
    return name


def portions(records: list[Record]) -> list[bytes]:
    """Write *records* in one blob, or in several where one would be too long."""
    blob = encode(records)
    if len(blob) <= failures.JOINED_BYTES_MAX or len(records) <= 1:
        return [blob]
    half = len(records) // 2
    return portions(records[:half]) + portions(records[half:])


def packed(blobs: Iterable[bytes]) -> Iterator[bytes]:
    """Join blobs into chunks of about a megabyte; a larger one is a chunk by itself."""
    waiting: list[bytes] = []
    size = 0
    for blob in blobs:
        if waiting and len(blob) >= CHUNK_BYTES_MAX:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(blob)
        size += len(blob)
        if size >= CHUNK_BYTES_MAX:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def unpacked(chunk: bytes, loader: Loader, bears: type[BaseException]) -> Iterator[list[Record]]:
    """Read the blobs of a chunk, leniently those that are read with an error that is among *bears*."""
    stream = io.BytesIO(chunk)
    end = len(chunk)
    while (start := stream.tell()) < end:
        try:
            records = pickle.load(stream)
        except bears as raised:
            let_through(raised)
            stream.seek(start)
            loader.lenient = True
            records = salvage(stream, code=True).value
        yield records


def read_records(chunks: Sequence[bytes], loader: Loader, *, bears: type[BaseException] = OtherCode) -> dict[Any, Any]:
    """Return the newest row under every key; what cannot be read for a reason among *bears* is left out of them."""
    rows: dict[Any, Any] = {}

    def read() -> None:
        for chunk in chunks:
            for records in unpacked(chunk, loader, bears):
                for key, row in records:
                    try:
                        if row is None:
                            rows.pop(key, None)
                        else:
                            rows[key] = row
                    except BaseException as raised:  # the class of a group's key has no hash any more
                        let_through(raised)
                        rows[findable(key)], loader.lenient = row, True

    loader.reading(read)
    return rows


def by_kind(rows: dict[Any, Any]) -> dict[str, dict[Any, Any]]:
    """Sort rows by what they are; the address of what is inside a query begins with its name, which may be any."""
    kinds: dict[str, dict[Any, Any]] = defaultdict(dict)
    for key, row in rows.items():
        kinds[key[0] if len(key) < ADDRESS_MIN else INSIDE][key] = row
    return kinds
