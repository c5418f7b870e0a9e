"""A micro-batch log: what Spark's batches become on disk, for readers that must lose and double nothing.

names.py      the files, by name            disk.py       the operations the protocol takes
identity.py   what a log is, fixed for life columns.py    its columns
manifest.py   one batch                     parts.py      the rows of one task
writer.py     the driver's side             compare.py    a batch that comes again
view.py       what is there                 cursor.py     reading on from a position
retention.py  who has read, and forgetting  compaction.py many old manifests made one file (spans.py)
bells.py      being woken                   remote.py     a log in an object store

Nothing here knows Spark: the file protocol is tested without it, on a disk that loses what was not synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from spark_bridge.micro_batch_log.columns import canonical
from spark_bridge.micro_batch_log.disk import log_disk, new_log_disk
from spark_bridge.micro_batch_log.errors import LogFull, LogRefused
from spark_bridge.micro_batch_log.identity import claim, read_identity
from spark_bridge.micro_batch_log.notify import ring
from spark_bridge.micro_batch_log.parts import write_part
from spark_bridge.micro_batch_log.retention import readers_on, release_on
from spark_bridge.micro_batch_log.writer import LogWriter

__all__ = ["LogFull", "LogRefused", "append", "end", "readers", "release"]
BY_HAND = "0" * 32


def readers(path: str | os.PathLike[str]) -> list[str]:
    """Name the readers that the log at *path* keeps batches for."""
    return readers_on(log_disk(path))


def release(path: str | os.PathLike[str], reader: str) -> None:
    """Forget *reader*: the log at *path* keeps nothing for it any more."""
    release_on(log_disk(path), reader)


def end(path: str | os.PathLike[str]) -> None:
    """End the log at *path*: its readers come to an end behind what is there, as those of a bounded source do.

    For a query that has come to its end itself (``trigger={"availableNow": True}`` over files that are complete).
    Batches that come again are known as before; new rows are refused. *Raises* `LogRefused` if it has no rows.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from spark_bridge import MicroBatchSource
    >>> log = tempfile.mkdtemp()
    >>> append(log, [pa.record_batch({"n": [1, 2]})], batch=0)
    2
    >>> end(log)
    >>> MicroBatchSource(log, values="tuple").open("0", 0).fetch(9)
    Batch(first=0, values=[(1,), (2,)], ended=True, error=None, skipped=0, coming=False, rejected=())
    """
    disk = log_disk(path)
    identity = read_identity(disk, where=disk.where)
    LogWriter(disk, where=disk.where, partitions=1 if identity is None else identity.partitions).end()
    ring(disk.directory)


def append(path: str | os.PathLike[str], batches: Iterable[Any], *, batch: int, query: str = BY_HAND) -> int:
    """Write Arrow record *batches* as the rows of *batch* into the log at *path*, as one task of Spark's would.

    For tests and for filling a log by hand. Returns how many rows the batch has. *Raises* as `publish` does.
    """
    disk, rows = new_log_disk(path), list(batches)
    identity = claim(disk, canonical(rows[0].schema), where=disk.where)
    part = write_part(disk, identity, rows, query=query, batch=batch, task=0)
    writer = LogWriter(disk, where=disk.where, partitions=identity.partitions)
    done = writer.commit(query, batch, [] if part is None else [part])
    ring(disk.directory)
    return 0 if done.manifest is None else done.manifest.rows
