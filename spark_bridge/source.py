"""A micro-batch log as a source of evaluators: partitioned, replayable, and forgetting what all readers have.

An event is a row, and its position the number of rows of its partition before it; or an event is a whole Arrow record
batch, and positions count those. The same position gives the same event for as long as it is kept, whatever Spark does
meanwhile. Nothing here needs pyspark: the evaluator may be any process that sees the directory, also the one that runs
Spark's driver.

A share that is away for a moment is no end of a query: what cannot be read is asked for again, less and less often. It
is said to be coming meanwhile, so that a replay waits as well. Rejected: to wait inside a fetch, which would hold up
all that the evaluator does besides.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from checkpoint.failures import unavailable
from hosting.admission.constructor_types import checks_kinds
from hosting.reports.log import LOG
from hosting.sources.polling import PATIENCE_S, Pace, Patience
from reliable_rx.errors import SourceFailed, StoreUnavailable
from reliable_rx.reliable import Batch, Listing
from spark_bridge.micro_batch_log.cursor import Chunk, Cursor
from spark_bridge.micro_batch_log.disk import log_disk
from spark_bridge.micro_batch_log.manifest import Unit
from spark_bridge.micro_batch_log.names import check_reader
from spark_bridge.micro_batch_log.notify import Bell
from spark_bridge.micro_batch_log.retention import Held, acknowledge, register, release_on, retain
from spark_bridge.micro_batch_log.view import LogView
from spark_bridge.values import Timestamps, Values, rows_of


class MicroBatchSource:
    """Read the micro-batch log at *path*, a directory or a URL of fsspec's, which `publish` writes.

    An event is a row, as *values* says: a ``"dict"`` of columns or a ``"tuple"``; with ``"arrow"`` it is a record batch
    of some thousand rows, and has an id of its own. *columns* names those that are wanted, in their order. *timestamps*
    are `datetime` (with a zone: in UTC) or, as ``"microseconds"``, whole numbers since 1970. *timestamp* is a function
    of the event, for event time.

    A batch is kept until every *reader* by name has acknowledged all of it. A reader is kept for from its first visit
    on; `release` ends that. Two evaluators that each need everything have two names; nodes that share the partitions of
    one log have one. A reader's positions count either rows or batches, for ever.

    While nobody has written, there are no partitions; they appear. Files that cannot be read are asked for again for
    *patience_s*, as a share may be away for a moment. Methods may be called from any thread.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from spark_bridge.micro_batch_log import append
    >>> log = tempfile.mkdtemp()
    >>> append(log, [pa.record_batch({"user": ["ada", "bob"], "spent": [3, 4]})], batch=0)
    2
    >>> source = MicroBatchSource(log)
    >>> source.open("0", 0).fetch(10).values
    [{'user': 'ada', 'spent': 3}, {'user': 'bob', 'spent': 4}]

    *Raises* `PositionUnavailable` for what has been forgotten or is not there yet, `SourceFailed` if there is no log or
    no such partition or column, `CheckpointRefused` for damaged files, `StoreUnavailable` if a disk fails for longer.
    """

    @checks_kinds("timestamp")
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        reader: str = "evaluator",
        values: Values = "dict",
        columns: Sequence[str] | None = None,
        timestamps: Timestamps = "datetime",
        timestamp: Callable[[Any], float] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.place = os.fspath(path)
        self.reader = check_reader(reader)
        self.timestamp = timestamp
        self.patience_s = patience_s
        self.unit: Unit = "chunks" if values == "arrow" else "rows"
        self._values, self._timestamps = values, timestamps
        self._columns = None if columns is None else list(columns)
        disk = log_disk(path)
        self.view = LogView(disk, where=disk.where)
        self._waking = _Waking(self)

    def __repr__(self) -> str:
        return f"MicroBatchSource({self.place!r}, reader={self.reader!r})"

    def definition(self) -> Mapping[str, Any]:
        """Return what its events and their times come from."""
        return {
            "values": self._values,
            "columns": self._columns,
            "timestamps": self._timestamps,
            "timestamp": self.timestamp,
        }

    def numbering(self) -> Mapping[str, Any]:
        """Return what its ids count: rows or record batches."""
        return {"values": self.unit}

    def partitions(self) -> Sequence[str]:
        """Name the partitions by their numbers; none while there is no log."""
        with unavailable(self.view.where):
            identity = self.view.identity
        return [] if identity is None else [str(number) for number in range(identity.partitions)]

    def listing(self) -> Sequence[Listing]:
        """List the partitions; they appear when the log is made."""
        return [Listing(name) for name in self.partitions()]

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return the first id that is kept and the one behind the last."""
        with unavailable(self.view.where):
            return self.view.bounds(self._number(partition), self.unit)

    def end_of(self, partition: str) -> int | None:
        """Return the id behind the last event of *partition*: what is taken lags behind it. None if the disk fails."""
        try:
            return self.bounds(partition)[1]
        except StoreUnavailable:
            return None

    def open(self, partition: str, at: int, /) -> MicroBatchReader:
        """Read *partition* from id *at* on, and keep what follows for this reader."""
        with unavailable(self.view.where):
            number = self._number(partition)
            cursor = Cursor(self.view, number, self.unit, at)
            register(self.view.disk, self.reader, number, at, self.unit, where=self.view.where)
        return MicroBatchReader(self, number, at, cursor)

    def release(self) -> None:
        """Forget this source's reader: nothing is kept for it any more."""
        release_on(self.view.disk, self.reader)

    def events(self, rows: Any) -> list[Any]:
        """Return the events that a record batch is."""
        chosen = rows if self._columns is None else rows.select(self._columns)
        if self._values == "arrow":
            return [chosen]
        return rows_of(chosen, values=self._values, timestamps=self._timestamps)

    def _number(self, partition: str) -> int:
        identity, names = self.view.identity, self.partitions()
        if identity is None:
            message = f"there is no log in {self.place} yet; spark_bridge.publish makes it"
            raise SourceFailed(message, source=self.place, partition=partition)
        if partition not in names:
            message = f"{self.view.where} has partitions 0 to {len(names) - 1}, not {partition!r}"
            raise SourceFailed(message, source=self.place, partition=partition)
        missing = sorted(set(self._columns or ()) - set(identity.schema.names))
        if missing:
            message = f"{self.view.where} has columns {identity.schema.names}, not {missing}"
            raise SourceFailed(message, source=self.place, partition=partition)
        return int(partition)

    def on_bell(self, reader: MicroBatchReader, wake: Callable[[], None]) -> None:
        self._waking.add(reader, wake)

    def off_bell(self, reader: MicroBatchReader) -> None:
        self._waking.discard(reader)


class MicroBatchReader:
    """Reads one partition of a micro-batch log."""

    def __init__(self, source: MicroBatchSource, number: int, at: int, cursor: Cursor) -> None:
        self._source, self._number, self._position, self._cursor = source, number, at, cursor
        self._events: list[Any] = []
        self._start = 0
        self._acknowledged = 0
        self._trouble = _Trouble(source.patience_s)
        self._lock = threading.Lock()  # two threads that read one cursor would take a chunk twice

    def fetch(self, count_max: int, /) -> Batch:
        with self._lock:
            return self._fetch(count_max)

    def _fetch(self, count_max: int) -> Batch:
        first = self._position
        if time.monotonic() < self._trouble.again_at:
            return Batch(first, (), coming=True)
        try:
            with unavailable(self._source.view.where):
                values = self._some(count_max)
        except StoreUnavailable as error:
            self._trouble.bear(error)
            return Batch(first, (), coming=True)
        self._trouble.over()
        has_all = count_max > 0 and not values
        with suppress(Exception):  # it comes again with the next fetch, and these values would be lost
            while values and len(values) < count_max and not has_all:
                more = self._some(count_max - len(values))
                values += more
                has_all = not more
        if has_all and self._cursor.ended is not None:
            text = self._cursor.ended
            return Batch(first, values, ended=True, error=RuntimeError(text) if text else None)
        return Batch(first, values)

    def _some(self, count_max: int) -> list[Any]:
        """Return some events, none at the end."""
        if count_max > 0 and self._start == len(self._events):
            chunk = self._cursor.peek()
            if chunk is None:
                return []
            self._events, self._start = self._converted(chunk), self._position - chunk.first
            self._cursor.advance()
        values = self._events[self._start : self._start + count_max]
        self._start += len(values)
        self._position += len(values)
        return values

    def _converted(self, chunk: Chunk) -> list[Any]:
        try:
            return self._source.events(chunk.rows)
        except ValueError as error:
            where, partition = self._source.view.where, str(self._number)
            message = f"{where}, partition {partition}, ids from {chunk.first:,} on: {error}"
            raise SourceFailed(message, source=where, partition=partition, position=chunk.first) from error

    def acknowledge(self, n: int, /) -> None:
        """Say that id *n* and all before are safe; forget the batches that are so for every reader."""
        if n < self._acknowledged:
            return
        self._acknowledged = n + 1
        source = self._source
        with unavailable(source.view.where):
            acknowledge(source.view.disk, source.reader, self._number, Held(source.unit, n + 1))
            retain(source.view)

    def has_more(self) -> bool:
        with self._lock:
            return self._start < len(self._events) or self._cursor.has_more()

    def on_available(self, wake: Callable[[], None], /) -> None:
        self._source.on_bell(self, wake)

    def close(self) -> None:
        self._source.off_bell(self)


class _Trouble:
    """What is the matter with the disk, and when it is asked again."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s, self._patience = patience_s, Patience(patience_s)
        self._pace = Pace()
        self.again_at = 0.0

    def bear(self, error: StoreUnavailable) -> None:
        """Have the disk asked again in a while. *Raises* the *error* if it has been so for too long."""
        if first := self._patience.bear(error):
            LOG.warning("%s; it is asked again for %g s", error, self._patience_s)
        self.again_at = time.monotonic() + (self._pace.begin() if first else self._pace.nothing())

    def over(self) -> None:
        """Nothing is the matter any more."""
        self._patience.over()
        self.again_at = 0.0


class _Waking:
    """Who waits; while somebody does, a thread listens."""

    def __init__(self, source: MicroBatchSource) -> None:
        self._source = source
        self._wakes: dict[MicroBatchReader, Callable[[], None]] = {}
        self._bell: Bell | None = None
        self._lock = threading.Lock()

    def add(self, reader: MicroBatchReader, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wakes[reader] = wake
            if self._bell is None:
                self._bell = Bell(self._source.view.disk.directory, self._heard)

    def discard(self, reader: MicroBatchReader) -> None:
        with self._lock:
            self._wakes.pop(reader, None)
            bell, self._bell = (self._bell, None) if not self._wakes else (None, self._bell)
        if bell is not None:
            bell.stop()

    def _heard(self) -> None:
        for reader, wake in list(self._wakes.items()):
            try:
                is_there = reader.has_more()
            except OSError:
                is_there = True  # the next fetch says what is wrong
            if is_there:
                wake()
