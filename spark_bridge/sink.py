"""A stream of an evaluator into a micro-batch log, where Spark reads it: the way from a standing query into Spark.

The ids of the stream are those of the log's rows, so the log knows what it has, and nothing is written twice. A flush
is a batch: as many files as checkpoints, and few rows lie in the manifest itself. A log is one stream's; of two writers
that both think it is theirs the link of the next manifest lets one through, and the other is told.

The end of the stream ends the log: its readers are told, and read no more. Where the query begins again behind it, what
comes is refused, and a log of its own is begun with it. Rejected: to go on behind the end (whoever has read it would
get nothing of that, without a word, and the rows would have other ids than the stream).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from checkpoint.failures import unavailable
from hosting.admission.constructor_types import checks_kinds
from hosting.sinks.origins import text_of
from hosting.sinks.text import shown
from reliable_rx.errors import InternalError, PositionUnavailable, SourceFailed, ValueRefused, described, invariant
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.arguments import check_count
from reliable_rx.reliable import Origin
from spark_bridge.feeds import record_batch
from spark_bridge.micro_batch_log.columns import canonical
from spark_bridge.micro_batch_log.disk import new_log_disk
from spark_bridge.micro_batch_log.errors import LogRefused
from spark_bridge.micro_batch_log.identity import Identity, claim
from spark_bridge.micro_batch_log.manifest import Manifest
from spark_bridge.micro_batch_log.notify import ring
from spark_bridge.micro_batch_log.parts import CHUNK_ROWS_MAX, write_part
from spark_bridge.micro_batch_log.writer import BYTES_MAX, LogWriter

_STREAM_DIGITS = 16


class MicroBatchSink:
    """Write a stream's values, with the columns of the Arrow *schema*, into the micro-batch log at *path*.

    Values are records (mappings, dataclasses, named tuples) by the names of their fields, or plain tuples by place;
    *encode* makes such a one of a value that is none, or that does not have the columns.
    State: at most `CHUNK_ROWS_MAX` rows wait for the next flush. It cannot leave ids out (they are those of the rows).
    The end of the stream ends the log for good. If the query is run again behind it, give the sink an empty directory,
    and *first*, the id of the stream that the rows of this log begin with, for as long as the log is written.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from spark_bridge import MicroBatchSource
    >>> log = tempfile.mkdtemp()
    >>> sink = MicroBatchSink(log, pa.schema([("user", pa.string()), ("total", pa.int64())]))
    >>> sink.open("totals")
    0
    >>> sink.write(0, [("ada", 3)])
    >>> sink.flush()
    >>> MicroBatchSource(log).open("0", 0).fetch(9).values
    [{'user': 'ada', 'total': 3}]

    *Raises* `LogRefused` if the log is another stream's, has other columns or has ended, `PositionUnavailable` if it is
    that of another store, `ValueRefused` for a value that does not have the columns, `StoreUnavailable` if the disk
    fails or another writer is at work, `LogFull` if readers are more than *bytes_max* behind: the evaluator then tries
    again, and takes no turns when its buffer is full.
    """

    @checks_kinds()
    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Any,
        *,
        encode: Callable[[Any], Any] | None = None,
        bytes_max: int = BYTES_MAX,
        first: int = 0,
    ) -> None:
        check_count("first", first, 0)
        self._first = first
        self._schema, self._encode = canonical(schema), encode
        self._disk = new_log_disk(path)
        self._where = self._disk.where
        self._writer = LogWriter(self._disk, where=self._where, bytes_max=bytes_max, on_full="refuse")
        self._identity: Identity | None = None
        self._origin: Origin | None = None
        self._query = ""
        self._waiting: list[Any] = []  # Arrow record batches
        self._rows = 0
        self._tried: str | None = None
        """The name of the part that was written last, until it is known to be in the log."""
        self._durable = 0
        self._ended = False

    def claim(self, origin: Origin, /) -> None:
        """Take note of where the ids come from."""
        self._origin = origin

    def stored_position(self, stream: str, /) -> int | None:
        """Return the id behind the last row of the log, or behind the end; nothing is written for that."""
        with unavailable(self._where):
            newest = self._newest(_query_of(self._origin or Origin(stream), self._first))
        return self._first + (0 if newest is None else newest.after("rows", 0) + (newest.ended is not None))

    def open(self, stream: str, /) -> int | None:
        self._query = _query_of(self._origin or Origin(stream), self._first)
        with unavailable(self._where):
            self._identity = claim(self._disk, self._schema, where=self._where)
            newest = self._newest(self._query)
        self._waiting.clear()
        self._rows = 0
        self._tried = None
        self._durable = 0 if newest is None else newest.after("rows", 0)
        self._ended = newest is not None and newest.ended is not None
        return self._first + self._durable + self._ended

    def _newest(self, query: str) -> Manifest | None:
        """Return the newest batch. *Raises* `PositionUnavailable` for the ids of another store, under this stream."""
        try:
            return self._writer.check_query(query)
        except LogRefused as error:
            found = str(error.fields["found"])
            if error.fields["wanted"] != query:  # it was set back
                raise
            if found[:_STREAM_DIGITS] != query[:_STREAM_DIGITS]:
                message = f"{self._where} has the rows of another stream or partition; give the sink another log"
                raise LogRefused(message, where=self._where, found=found, wanted=query) from None
            raise PositionUnavailable(
                f"{self._where} has the rows of this stream of another store, or from another first= on, and belongs "
                f"to that: start with that, or give the sink another log",
                wanted=None,
                first=None,
                end=None,
            ) from error

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._check_open()
        have = self._first + self._durable + self._rows
        if self._ended and first + len(values) > have:
            raise self._over(have + 1)
        invariant(first <= have, f"id {have} is next, not {first}")
        fresh = values[have - first :]
        if fresh:
            self._waiting += self._batches(have, fresh)
            self._rows += len(fresh)
        while self._rows >= CHUNK_ROWS_MAX:
            self._write(CHUNK_ROWS_MAX)

    def end(self, n: int, error: Exception | None, /) -> None:
        self._check_open()
        have = self._first + self._durable + self._rows
        if self._ended and n > have:
            raise self._over(have + 1)
        if self._ended:
            return
        self.flush()
        invariant(n == have, f"the end has id {have}, not {n}")
        text = "" if error is None else shown(error)
        with unavailable(self._where):
            newest = self._writer.check_query(self._query)
            if newest is not None and newest.ended == text:  # to write it has failed, behind the manifest
                self._disk.settle()
            else:
                self._writer.append(self._query, [], at=self._durable, ended=text)
        self._ended = True
        ring(self._disk.directory)

    def flush(self) -> None:
        if self._rows:
            self._write(self._rows)

    def close(self) -> None:
        """Nothing is held open; what was not flushed comes again."""
        self._origin = None

    def _over(self, n: int) -> LogRefused:
        """Say that the log has ended, and how what comes from id *n* on is written."""
        return LogRefused(
            f"{self._where} has ended with its stream, and who reads it has been told so: what comes behind, from id "
            f"{n:,} on, goes into a log of its own: give the sink another, empty directory, and first={n}",
            where=self._where,
            found="its end",
            wanted=f"id {n}",
            names_way=True,
        )

    def _check_open(self) -> Identity:
        if self._identity is None:
            raise InternalError("a sink is opened before it is written to")
        return self._identity

    def _write(self, count: int) -> None:
        identity = self._check_open()
        with unavailable(self._where):
            count -= self._found()
            if count > 0:
                self._writer.make_room()
                self._append(identity, list(_first(self._waiting, count)))
                self._take(count)
        ring(self._disk.directory)

    def _append(self, identity: Identity, rows: Any) -> None:
        at = self._durable
        part = write_part(self._disk, identity, rows, query=self._query, batch=at, task=0)
        if part is not None:
            self._tried = part.attempt
            self._writer.append(self._query, [part], at=at)

    def _found(self) -> int:
        """Return how many values are in the log though to write them has failed, and take them for written.

        What fails behind the manifest, or loses its answer, has made it: a sync, a look, putting manifests together.
        """
        newest = None if self._tried is None else self._writer.check_query(self._query)
        if newest is None or self._tried not in [part.attempt for part in newest.parts]:
            return 0
        self._disk.settle()
        count = newest.after("rows", 0) - self._durable
        self._take(count)
        return count

    def _take(self, count: int) -> None:
        self._waiting = list(_behind(self._waiting, count))
        self._rows -= count
        self._durable += count
        self._tried = None

    def _batches(self, first: int, values: Sequence[Any]) -> list[Any]:
        """Return *values* as rows. *Raises* `ValueRefused`, naming the first that does not have the columns."""
        try:
            return [self._batch_of(values)]
        except BaseException as raised:
            let_through(raised)
            return [self._batch(n, value) for n, value in enumerate(values, first)]

    def _batch_of(self, values: Sequence[Any]) -> Any:
        encoded = values if self._encode is None else [self._encode(value) for value in values]
        return record_batch(encoded, self._schema)

    def _batch(self, n: int, value: Any) -> Any:
        try:
            return self._batch_of([value])
        except BaseException as error:
            let_through(error)
            why = error.message if isinstance(error, SourceFailed) else described(error)
            message = (
                f"value {n:,} cannot be written to {self._where}: {why}; give the sink encode=, which maps it to them"
            )
            raise ValueRefused(message, n=n) from error


def _query_of(origin: Origin, first: int) -> str:
    """Return the name of the writer of the log: its first half is of the stream and partition, its second of all.

    A log that begins behind the id 0 has another one for each id that it may begin with.
    """
    begins = f" from {first}" if first else ""
    parts = (text_of(Origin(origin.stream, partition=origin.partition)), text_of(origin) + begins)
    return "".join(hashlib.blake2b(part.encode(), digest_size=_STREAM_DIGITS // 2).hexdigest() for part in parts)


def _first(batches: Sequence[Any], count: int) -> Iterator[Any]:
    """Return the first *count* rows of *batches*."""
    for batch in batches:
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows


def _behind(batches: Sequence[Any], count: int) -> Iterator[Any]:
    """Return the rows of *batches* behind the first *count*."""
    for batch in batches:
        if count < batch.num_rows:
            yield batch.slice(max(0, count))
        count -= batch.num_rows
