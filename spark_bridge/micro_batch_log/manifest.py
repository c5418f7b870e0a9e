"""A manifest: one batch of a log, whole or not there. It fixes which rows there are, their order, and their ids.

A manifest is one file: a digest of the rest, a line of JSON, and behind it the rows of the tasks that had few. So a
small batch is one file, and a large one has a file per task besides. Its number is ours and has no gaps (Spark's batch
ids can skip); a *chunk* is one Arrow record batch, all of whose rows belong to one partition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from reliable_rx.errors import CheckpointRefused
from spark_bridge.micro_batch_log.names import RowsName, query_name

FORMAT = 2
Unit = Literal["rows", "chunks"]
"""What a position counts."""
UNITS: tuple[Unit, ...] = ("rows", "chunks")


@dataclass(frozen=True, slots=True)
class Part:
    """What one task has written: *chunks* of (partition, rows), in a file of its own or *inline*."""

    task: int
    attempt: str
    digest: str
    size: int
    chunks: tuple[tuple[int, int], ...]
    inline: bytes | None = None
    offset: int | None = None
    """Where inline rows begin behind the line of JSON, once the part is in a manifest."""

    @property
    def is_inline(self) -> bool:
        return self.inline is not None or self.offset is not None

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.chunks)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one chunk of a partition is, and its *first* id."""

    first: int
    part: Part
    index: int
    count: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One batch. *before* are the next ids of all partitions, by unit, as they were before it."""

    number: int
    query: str
    batch: int
    before: dict[Unit, tuple[int, ...]]
    parts: tuple[Part, ...]
    ended: str | None = None
    """Where nothing will follow: empty if all is well, else what went wrong."""
    bytes_before: int = 0
    """How much the rows of all batches before it took, also of those that are forgotten."""

    def after(self, unit: Unit, partition: int) -> int:
        """Return the next id of *partition* behind this batch."""
        counts = (rows if unit == "rows" else 1 for part in self.parts for p, rows in part.chunks if p == partition)
        return self.before[unit][partition] + sum(counts)

    def all_after(self) -> dict[Unit, tuple[int, ...]]:
        return {unit: tuple(self.after(unit, p) for p in range(len(self.before[unit]))) for unit in UNITS}

    def places(self, partition: int, unit: Unit) -> Iterator[Place]:
        """Yield the chunks of *partition* in their order."""
        first = self.before[unit][partition]
        for part in self.parts:
            for index, (each, rows) in enumerate(part.chunks):
                if each == partition:
                    count = rows if unit == "rows" else 1
                    yield Place(first, part, index, count)
                    first += count

    def file_of(self, part: Part) -> str:
        """Return the name of the file that *part* has of its own."""
        return str(RowsName(query_name(self.query), self.batch, part.task, part.attempt))

    @property
    def files(self) -> list[str]:
        return [self.file_of(part) for part in self.parts if not part.is_inline]

    @property
    def digest(self) -> str:
        """Return a digest of what all tasks have written, in their order."""
        return digest_of("".join(part.digest for part in self.parts).encode())

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes_after(self) -> int:
        return self.bytes_before + sum(part.size for part in self.parts)

    def encoded(self) -> bytes:
        """Return the manifest's file, inline rows included."""
        blob, parts = b"", []
        for part in self.parts:
            parts.append(_part_body(part, len(blob)))
            blob += part.inline or b""
        body = {
            "format": FORMAT,
            "number": self.number,
            "query": self.query,
            "batch": self.batch,
            "before": self.before,
            "parts": parts,
            "ended": self.ended,
            "bytes": self.bytes_before,
        }
        rest = json.dumps(body, separators=(",", ":")).encode() + b"\n" + blob
        return digest_of(rest).encode() + b"\n" + rest


def _part_body(part: Part, offset: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "task": part.task,
        "attempt": part.attempt,
        "digest": part.digest,
        "bytes": part.size,
        "chunks": part.chunks,
    }
    return body | ({"offset": offset} if part.inline is not None else {})


def part_told(part: Part) -> bytes:
    """Return what a task tells its driver: data, not a pickle, since loading that would run what a worker says."""
    return (
        json.dumps({**_part_body(part, 0), "inline": part.inline is not None}).encode() + b"\n" + (part.inline or b"")
    )


def told_part(data: bytes) -> Part:
    """Return what a task has told.

    >>> part = Part(1, "a", digest_of(b"rows"), 4, ((0, 2),), inline=b"rows")
    >>> told_part(part_told(part)) == part
    True
    """
    line, _, blob = data.partition(b"\n")
    body = json.loads(line)
    chunks = tuple((int(partition), int(rows)) for partition, rows in body["chunks"])
    inline = blob if body["inline"] else None
    return Part(body["task"], body["attempt"], body["digest"], body["bytes"], chunks, inline=inline)


def digest_of(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def decoded(data: bytes, *, where: str) -> tuple[Manifest, memoryview]:
    """Return the manifest in *data* and its inline rows. *Raises* `CheckpointRefused` if it is not as written."""
    view = memoryview(data)
    head, _, _ = data.partition(b"\n")
    rest = view[len(head) + 1 :]
    if digest_of(rest) != head.decode(errors="replace"):
        raise CheckpointRefused(f"{where}: the manifest is damaged", what="a manifest is damaged", where=where)
    end = data.index(b"\n", len(head) + 1)
    body = json.loads(data[len(head) + 1 : end])
    if body["format"] != FORMAT:
        what = f"a manifest has format {body['format']}, this version reads {FORMAT}"
        raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
    before = {unit: tuple(body["before"][unit]) for unit in UNITS}
    parts = tuple(_part(each) for each in body["parts"])
    found = Manifest(body["number"], body["query"], body["batch"], before, parts, body["ended"], body["bytes"])
    return found, view[end + 1 :]


def _part(body: dict[str, Any]) -> Part:
    chunks = tuple((partition, rows) for partition, rows in body["chunks"])
    return Part(body["task"], body["attempt"], body["digest"], body["bytes"], chunks, offset=body.get("offset"))


def following(before: Manifest | None, *, query: str, batch: int, parts: Sequence[Part], partitions: int) -> Manifest:
    """Return the manifest that comes behind *before*, with *parts* in the order of their tasks."""
    ordered = tuple(sorted(parts, key=lambda part: part.task))
    start = dict.fromkeys(UNITS, (0,) * partitions) if before is None else before.all_after()
    number, so_far = (0, 0) if before is None else (before.number + 1, before.bytes_after)
    return Manifest(number, query, batch, start, ordered, bytes_before=so_far)


def inlined(part: Part, blob: memoryview) -> Part:
    """Return *part* with its inline rows taken out of *blob*."""
    if part.offset is None:
        return part
    return replace(part, inline=bytes(blob[part.offset : part.offset + part.size]))
