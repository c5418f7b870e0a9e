"""The Python data source ``reliable_rx``: Spark reads from a log or any bounded source, and writes micro-batch logs.

Who calls what, and where: Spark makes these objects in processes of its own, pickled, as often as it likes; `write`
and `read` run on executors, all else on the driver's side, `commit` of a batch in a process of its own. So nothing is
kept in them that is not on disk. Spark confirms a batch to its *source* only while it builds the next one, which is
late and safe: what is acknowledged then is in a batch that Spark has written down as done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkTypeError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructField, StructType

from reliable_rx.errors import InternalError
from spark_bridge.checkpoints import check_checkpoint
from spark_bridge.feeds import (
    PARTITION,
    POSITION,
    Feed,
    Range,
    admitted,
    check_not_set_back,
    check_offsets,
    feed_of,
    position_fields,
    ranges,
    resolved,
    same_columns,
    with_positions,
)
from spark_bridge.micro_batch_log.columns import PARTITION as SHARED_BY
from spark_bridge.micro_batch_log.columns import canonical
from spark_bridge.micro_batch_log.disk import log_disk, new_log_disk
from spark_bridge.micro_batch_log.identity import claim, read_identity
from spark_bridge.micro_batch_log.manifest import Part
from spark_bridge.micro_batch_log.noted import Noted
from spark_bridge.micro_batch_log.notify import ring
from spark_bridge.micro_batch_log.parts import write_part
from spark_bridge.micro_batch_log.writer import LogWriter
from spark_bridge.options import ReadOptions, WriteOptions, read_options, write_options

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to \w+)?")
"""Intervals that are all one type but for how they are shown."""


class ReliableRxSource(DataSource):
    """``format("reliable_rx")``; `spark_bridge.register` makes a session know it."""

    @classmethod
    def name(cls) -> str:
        return "reliable_rx"

    def schema(self) -> StructType:
        given = {
            name: value
            for name, value in self.options.items()
            if name.lower() not in ("end", "maxrowsperbatch", "reader")
        }
        options = read_options(given, streaming=False)
        rows = feed_of(options).schema()
        if rows is None:
            raise ValueError("option source: say with schema() which columns its events have")
        fields = [*rows, *(position_fields() if options.with_positions else ())]
        return from_arrow_schema(pa.schema(fields))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:
        return LogStreamWriter(write_options(self.options), schema, self.options.get("checkpointLocation"))

    def streamReader(self, schema: StructType) -> FeedStreamReader:
        return FeedStreamReader(read_options(self.options, streaming=True), schema)

    def reader(self, schema: StructType) -> FeedReader:
        return FeedReader(read_options(self.options, streaming=False), schema)


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    query: str
    batch: int
    part: Part | None


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch into a log."""

    def __init__(self, options: WriteOptions, schema: StructType, checkpoint: str | None) -> None:
        self._options = options
        disk = new_log_disk(options.path)
        self._where = disk.where
        claimed = claim(disk, log_schema(schema), partitions=options.partitions, key=options.key, where=self._where)
        self._partitions = claimed.partitions
        self._checkpoint = checkpoint
        if checkpoint is not None:
            check_checkpoint(checkpoint, claimed.id, where=self._where)

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of one task, on an executor."""
        context = TaskContext.get()
        query, batch = (None if context is None else context.getLocalProperty(name) for name in (QUERY, BATCH))
        if context is None or query is None or batch is None:
            raise InternalError(f"Spark no longer says in {QUERY} and {BATCH} which batch a task belongs to")
        disk = log_disk(self._options.path)
        identity = read_identity(disk, where=self._where)
        if identity is None:
            raise InternalError(f"{self._where} is not to be seen from an executor")
        part = write_part(disk, identity, iterator, query=query, batch=int(batch), task=context.partitionId())
        return Written(query, int(batch), part)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Make what the tasks wrote one batch of the log, on the driver."""
        written = [each for each in messages if isinstance(each, Written)]
        if len(written) < len(messages) or {each.batch for each in written} - {batchId}:
            raise InternalError(f"batch {batchId} of Spark's has tasks of batches {[each.batch for each in written]}")
        if written:
            parts = [each.part for each in written if each.part is not None]
            self._writer().commit(written[0].query, batchId, parts)
            ring(log_disk(self._options.path).directory)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Leave what tasks wrote that succeeded: nobody sees it, and the batch sweeps it when it runs again."""

    def _writer(self) -> LogWriter:
        options = self._options
        return LogWriter(
            log_disk(options.path),
            where=self._where,
            partitions=self._partitions,
            on_change=options.on_change,
            takeover=options.takeover,
            bytes_max=options.bytes_max,
            on_full=options.on_full,
            noted=None if self._checkpoint is None else Noted(self._checkpoint),
        )


def log_schema(schema: StructType) -> Any:
    """Return the columns that a log keeps of rows with *schema*. *Raises* `ValueError` naming one that it cannot."""
    return pa.schema([_kept(field) for field in schema.fields if field.name != SHARED_BY])


def _kept(field: StructField) -> Any:
    kind, remedy = field.dataType.simpleString(), "cast it before, to a string for example"
    try:
        (kept,) = canonical(to_arrow_schema(StructType([field]), timezone="UTC"))
    except PySparkTypeError as error:
        raise ValueError(f"column {field.name!r} is {kind}, which a log cannot keep; {remedy}") from error
    back = from_arrow_type(kept.type).simpleString()
    if back != DAY_TIME.sub("interval day to second", kind):
        raise ValueError(f"column {field.name!r} is {kind}, which would come back as {back}; {remedy}")
    return kept


@dataclass
class FeedPartition(InputPartition):
    """The ids that one task reads."""

    ids: Range


class _Reads:
    """What the streaming and the batch reader have in common."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._target = to_arrow_schema(schema, timezone="UTC")
        own = self._feed().schema()
        if own is not None:
            extra = position_fields() if options.with_positions else ()
            same_columns(self._target, pa.schema([*own, *extra]))

    def _feed(self) -> Feed:
        return feed_of(self._options)

    def _read(self, ids: Range) -> Iterator[Any]:
        target = self._target
        wanted = pa.schema([field for field in target if field.name not in (PARTITION, POSITION)])
        for numbers, rows in self._feed().batches(ids, wanted):
            found = with_positions(rows, ids.partition, numbers) if len(wanted) < len(target) else rows
            yield pa.RecordBatch.from_arrays(
                [_cast(found.column(each.name), each.type) for each in target], schema=target
            )


def _cast(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)


class FeedReader(_Reads, DataSourceReader):
    """Reads what lies between two positions, in parallel."""

    def partitions(self) -> list[InputPartition]:
        bounds = self._feed().bounds()
        start = resolved(self._options.start, bounds, option="start")
        end = resolved(self._options.end, bounds, option="end")
        return [FeedPartition(ids=each) for each in ranges(start, end, self._options.rows_per_task)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._read(partition.ids) if isinstance(partition, FeedPartition) else iter(())


class FeedStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on; offsets are ids per partition."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target_ends: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        feed = self._feed()
        start = resolved(self._options.start, feed.bounds(), option="start")
        feed.hold(start)
        return _offsets(feed, start)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        feed = self._feed()
        begin = check_offsets(feed, start)
        ends = self._target_ends if self._target_ends is not None else _ends(feed)
        check_not_set_back(feed, begin, ends)
        return _offsets(feed, admitted(begin, ends, limit.max_rows if isinstance(limit, ReadMaxRows) else None))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.rows_per_batch_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any]:
        feed = self._feed()
        return _offsets(feed, _ends(feed))

    def prepareForTriggerAvailableNow(self) -> None:
        self._target_ends = _ends(self._feed())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        feed = self._feed()
        pieces = ranges(check_offsets(feed, start), check_offsets(feed, end), self._options.rows_per_task)
        return [FeedPartition(ids=each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._read(partition.ids) if isinstance(partition, FeedPartition) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge what Spark has finished."""
        feed = self._feed()
        feed.acknowledge(check_offsets(feed, end))


def _ends(feed: Feed) -> dict[str, int]:
    return {partition: end for partition, (_, end) in feed.bounds().items()}


def _offsets(feed: Feed, positions: dict[str, int]) -> dict[str, Any]:
    return {"of": feed.id, "next": positions}
