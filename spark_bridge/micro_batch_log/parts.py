"""The rows of one task: written once by an executor, read by number of chunk ever after.

Rows are written as they come, in Arrow's file format, which gives any chunk back without reading those before it. The
first `INLINE_BYTES_MAX` bytes are kept in memory: a task that has no more writes no file, and its rows travel to the
driver with its message and from there into the manifest. A file has a name of its own for every attempt, so that two
attempts of one task never meet; it is synced before the message is sent, and seen by nobody before a manifest names it.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reliable_rx.errors import CheckpointRefused
from reliable_rx.failpoints import probe
from spark_bridge.micro_batch_log.columns import PARTITION, fitted
from spark_bridge.micro_batch_log.disk import LogDisk, Writing
from spark_bridge.micro_batch_log.errors import LogRefused
from spark_bridge.micro_batch_log.identity import Identity
from spark_bridge.micro_batch_log.manifest import Manifest, Part, digest_of
from spark_bridge.micro_batch_log.names import RowsName, query_name
from spark_bridge.micro_batch_log.view import LogView

INLINE_BYTES_MAX = 32 << 10
CHUNK_ROWS_MAX = 10_000
"""What one step of a reader turns into Python values, and what is gathered for a partition before it is written."""


class _Spill(io.RawIOBase):
    """Bytes in memory, from `INLINE_BYTES_MAX` on in the file *name*; digested on the way."""

    def __init__(self, disk: LogDisk, name: str) -> None:
        self._disk, self._name = disk, name
        self._file: Writing | None = None
        self._head = bytearray()
        self._digest = hashlib.blake2b(digest_size=16)
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._digest.update(data)
        self.count += (size := memoryview(data).nbytes)
        if self._file is not None:
            self._file.write(data)
        else:
            self._head += data
            if len(self._head) > INLINE_BYTES_MAX:
                self._file = self._disk.writing(self._name)
                self._file.write(self._head)
        return size

    def finish(self) -> bytes | None:
        """Make the file durable, or return the bytes if they are few."""
        if self._file is None:
            return bytes(self._head)
        self._file.finish()
        return None

    def abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class _Chunks:
    """The rows that have come, gathered by partition until they make a chunk."""

    def __init__(self, identity: Identity, where: str) -> None:
        self._identity, self._where = identity, where
        self._waiting: dict[int, list[Any]] = {}
        self._counts: dict[int, int] = {}

    def take(self, batch: Any) -> Iterator[tuple[int, Any]]:
        """Take a batch of Spark's; yield the chunks that are full, with their partitions."""
        for partition, rows in self._shared_out(batch):
            self._waiting.setdefault(partition, []).append(fitted(rows, self._identity.schema, where=self._where))
            self._counts[partition] = self._counts.get(partition, 0) + rows.num_rows
            if self._counts[partition] >= CHUNK_ROWS_MAX:
                yield from self._joined(partition)

    def rest(self) -> Iterator[tuple[int, Any]]:
        for partition in sorted(self._waiting):
            yield from self._joined(partition)

    def _shared_out(self, batch: Any) -> Iterator[tuple[int, Any]]:
        if self._identity.partitions == 1:
            yield 0, batch
            return
        names = batch.schema.names
        if PARTITION not in names:
            what = f"rows for {self._where} need a column {PARTITION!r}, as there are {self._identity.partitions}"
            raise LogRefused(f"{what} partitions: write with spark_bridge.publish, which adds it", where=self._where)
        column = batch.column(names.index(PARTITION))
        rows = batch.select([name for name in names if name != PARTITION])
        for partition in sorted(pc.unique(column).to_pylist()):
            yield int(partition), rows.filter(pc.equal(column, partition))

    def _joined(self, partition: int) -> Iterator[tuple[int, Any]]:
        self._counts[partition] = 0
        table = pa.Table.from_batches(self._waiting.pop(partition)).combine_chunks()
        for chunk in table.to_batches(max_chunksize=CHUNK_ROWS_MAX):
            if chunk.num_rows:
                yield partition, chunk


def write_part(
    disk: LogDisk, identity: Identity, batches: Iterable[Any], *, query: str, batch: int, task: int
) -> Part | None:
    """Write the rows in *batches* (Arrow record batches) of one task; return what the driver is told, None for no rows.

    *Raises* `LogRefused` for other columns than the log's; whatever it raises, no file is left open or behind.
    """
    attempt = uuid.uuid4().hex
    spill = _Spill(disk, str(RowsName(query_name(query), batch, task, attempt)))
    try:
        written = _write_all(spill, identity.schema, _all(_Chunks(identity, disk.where), batches))
        inline = spill.finish()
    except BaseException:
        spill.abandon()
        raise
    probe("spark.part_written")
    if not written:
        return None
    return Part(task, attempt, spill.digest, spill.count, tuple(written), inline=inline)


def _write_all(spill: _Spill, schema: Any, chunks: Iterable[tuple[int, Any]]) -> list[tuple[int, int]]:
    """Write *chunks*; return which partition and how many rows each has."""
    written = []
    with pa.ipc.new_file(pa.PythonFile(spill, mode="w"), schema) as file:
        for partition, chunk in chunks:
            file.write_batch(chunk)
            written.append((partition, chunk.num_rows))
    return written


def _all(gathered: _Chunks, batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for each in batches:
        yield from gathered.take(each)
    yield from gathered.rest()


def open_part(view: LogView, manifest: Manifest, part: Part) -> Any | None:
    """Return the Arrow file with the rows of *part*, checked against its digest; None if it has been forgotten.

    *Raises* `CheckpointRefused` if it is not as written.
    """
    found = _bytes(view, manifest, part)
    if found is None:
        return None
    if digest_of(found) != part.digest:
        what = f"the rows of batch {manifest.batch}, task {part.task} are damaged"
        raise CheckpointRefused(f"{view.where}: {what}", what=what, where=view.where)
    return pa.ipc.open_file(pa.py_buffer(found))


def _bytes(view: LogView, manifest: Manifest, part: Part) -> Any | None:
    if part.inline is not None:
        return part.inline
    found = None if part.is_inline else view.disk.view(manifest.file_of(part))
    return view.inline_rows(manifest.number, part) if found is None else found  # taken in since the manifest was read
