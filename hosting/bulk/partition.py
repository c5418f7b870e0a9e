"""One partition into files: read it from where the last whole file ends, and cut what comes.

It never acknowledges: a load that comes by now and then must not let the source forget what others have still to read.
A file that is not whole when a run ends is read again by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from checkpoint.sqlite.files import RealDisk, create_durably
from hosting.bulk.columns import Columns, Kind, Misfit, infer, read_columns
from hosting.bulk.feed import Feed, failed
from hosting.bulk.files import LOCK_WAIT_S, PartitionFiles, locked
from hosting.edges.positions import Point, position_of
from hosting.engine.blame import blamed
from reliable_rx.errors import SourceFailed
from reliable_rx.failpoints import probe
from reliable_rx.reliable import Reader, Source

CHUNK_EVENTS = 8_192
COLUMNS_FILE, COLUMNS_LOCK = ".columns", ".columns.lock"


@dataclass(frozen=True, slots=True)
class Exported:
    """What a run has done of one partition: ids *first* up to *next*, and the *error* that ended it, if one did."""

    partition: str
    first: int
    next: int
    events: int
    files: int
    seconds: float
    ended: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How an export is to be made; the same for all partitions."""

    directory: Path
    first: Point
    events_per_file: int
    stall_s: float
    kinds: Mapping[str, Kind] = field(default_factory=dict)


class PartitionExport:
    """Takes one partition up to id *until*, or to its end if that is None."""

    def __init__(
        self, source: Source, partition: str, order: Order, *, until: int | None, stopped: Callable[[], bool]
    ) -> None:
        self._source, self.partition, self._order = source, partition, order
        self._until, self._stopped = until, stopped
        self.first = self.next = 0
        self.events = self.files = 0
        self.ended = False
        self._columns: Columns | None = None

    def run(self) -> None:
        """Write until there is nothing left to take. *Raises* what the source, the disk or a misfit raises."""
        with PartitionFiles(self._order.directory, self.partition) as files:
            begin = partial(position_of, self._source, self.partition, self._order.first)
            self.first = self.next = files.resume(begin)
            if self._until is not None and self.next >= self._until:
                return
            with closing(self._source.open(self.partition, self.next)) as reader:
                feed = self._feed(reader)
                while not feed.done:
                    self._file(files, feed)
                self.ended = feed.ended
        if feed.error is not None:
            raise failed(self.partition, self.next, f"the partition ends with {blamed(feed.error)!r}") from feed.error

    def _feed(self, reader: Reader) -> Feed:
        stall_s, stopped = self._order.stall_s, self._stopped
        return Feed(reader, self.partition, self.next, until=self._until, stall_s=stall_s, stopped=stopped)

    def _file(self, files: PartitionFiles, feed: Feed) -> None:
        left = self._order.events_per_file
        chunk = feed.chunk(min(left, CHUNK_EVENTS))
        if not chunk.values:
            return
        columns = self._fixed(chunk.ids, chunk.values)
        with files.writing(columns.schema()) as write:
            while chunk.values:
                write(columns.table(self.partition, chunk.ids, chunk.values))
                left -= len(chunk.values)
                probe("export.after_chunk")
                chunk = feed.chunk(min(left, CHUNK_EVENTS))
        files.keep(self.next, feed.position)
        self.next = feed.position
        self.events += self._order.events_per_file - left
        self.files += 1

    def _fixed(self, ids: Sequence[int], values: Sequence[Any]) -> Columns:
        if self._columns is None:
            try:
                self._columns = fixed_columns(self._order, values)
            except Misfit as error:
                position = ids[error.index]
                message = f"partition {self.partition!r}, position {position:,}: {error.why}"
                raise SourceFailed(message, partition=self.partition, position=position) from error
        return self._columns


def fixed_columns(order: Order, values: Sequence[Any]) -> Columns:
    """Return the columns of the export, which *values* fix if nothing has yet, in whichever process."""
    disk, where = RealDisk(order.directory), str(order.directory / COLUMNS_FILE)
    found = disk.read(COLUMNS_FILE)
    if found is None:
        with locked(order.directory / COLUMNS_LOCK, wait_s=LOCK_WAIT_S):
            found = disk.read(COLUMNS_FILE)
            if found is None:
                found = infer(values, kinds=order.kinds).to_bytes()
                create_durably(disk, COLUMNS_FILE, found)
    return read_columns(found, where=where)
