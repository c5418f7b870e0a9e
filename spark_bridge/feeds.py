"""What Spark can read from: a micro-batch log, or any bounded `Source`, cut into ranges of ids and given as Arrow.

Offsets are ids per partition. A range of ids is read the same however often and wherever, so a task that fails is run
again, and a batch that Spark builds again is the batch that it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from reliable_rx.errors import SourceFailed, described
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import Batch, Bounded, Source
from spark_bridge.bad_records import BadRecords
from spark_bridge.micro_batch_log.columns import canonical
from spark_bridge.micro_batch_log.cursor import Cursor
from spark_bridge.micro_batch_log.disk import log_disk
from spark_bridge.micro_batch_log.errors import LogRefused
from spark_bridge.micro_batch_log.retention import Held, acknowledge, held, register, retain
from spark_bridge.micro_batch_log.view import LogView
from spark_bridge.options import Positions, ReadOptions

PARTITION, POSITION = "_partition", "_position"
FETCH_ROWS = 10_000
PATIENCE_S = 60.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Range:
    """The ids *start* to *end* - 1 of a partition."""

    partition: str
    start: int
    end: int


class Feed(Protocol):
    """Something with ids, whose rows Spark can read."""

    id: str
    """What the ids are of: offsets of another are refused."""

    def schema(self) -> Any | None:
        """Return the Arrow schema of the rows, None if only the user knows it."""
        ...

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Return the first id that is kept, and the one behind the last, of each partition."""
        ...

    def batches(self, ids: Range, schema: Any) -> Iterator[tuple[range, Any]]:
        """Yield rows with the columns of *schema*, and their ids."""
        ...

    def hold(self, positions: Mapping[str, int]) -> None:
        """Keep what follows *positions* until it is acknowledged."""

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Say that what is before *positions* is no longer needed."""


class LogFeed:
    """A micro-batch log."""

    def __init__(self, path: str, reader: str) -> None:
        disk = log_disk(path)
        self._view = LogView(disk, where=disk.where)
        self._reader = reader
        identity = self._view.identity
        if identity is None:
            raise SourceFailed(f"option path: there is no micro-batch log in {path} yet", source=path)
        self._identity, self.id = identity, identity.id

    def schema(self) -> Any | None:
        return self._identity.schema

    def bounds(self) -> dict[str, tuple[int, int]]:
        return {str(number): self._view.bounds(number, "rows") for number in range(self._identity.partitions)}

    def batches(self, ids: Range, schema: Any) -> Iterator[tuple[range, Any]]:
        missing = [name for name in schema.names if name not in self._identity.schema.names]
        if missing:
            message = f"{self._view.where} has columns {self._identity.schema.names}, not {missing}"
            raise SourceFailed(message, source=self._view.where)
        cursor, at = Cursor(self._view, int(ids.partition), "rows", ids.start), ids.start
        while at < ids.end:
            chunk = cursor.next()
            if chunk is None:
                raise _short(self._view.where, ids, at)
            end = min(ids.end, chunk.after("rows"))
            yield range(at, end), chunk.rows.slice(at - chunk.first, end - at).select(schema.names)
            at = end

    def hold(self, positions: Mapping[str, int]) -> None:
        for partition, at in positions.items():
            register(self._view.disk, self._reader, int(partition), at, "rows", where=self._view.where)

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        for partition, at in positions.items():
            before = held(self._view.disk, self._reader, int(partition))
            if before is None or before.next < at:
                acknowledge(self._view.disk, self._reader, int(partition), Held("rows", at))
        retain(self._view)


class SourceFeed:
    """A `Source` that knows its bounds, made anew by ``module:function`` in every process that reads it.

    What it gives of records that cannot be read is no row: each task logs how many there were, and a `DeadLetterFeed`
    has them as rows of their own.
    """

    def __init__(self, name: str) -> None:
        self.id, self._name, self._source = name, name, _made(name)

    def schema(self) -> Any | None:
        return None

    def bounds(self) -> dict[str, tuple[int, int]]:
        source: Any = self._source
        return {partition: source.bounds(partition) for partition in self._source.partitions()}

    def batches(self, ids: Range, schema: Any) -> Iterator[tuple[range, Any]]:
        bad = BadRecords(self._name, ids, self.policy)
        try:
            for batch, numbers in self.fetched(ids):
                bad.add(batch.rejected)
                if numbers:
                    yield numbers, record_batch(batch.values[: len(numbers)], schema)
        finally:
            bad.tell()

    @property
    def policy(self) -> str:
        """What the source does with records that it cannot read."""
        return str(getattr(self._source, "on_bad_record", "fail"))

    def fetched(self, ids: Range) -> Iterator[tuple[Batch, range]]:
        """Yield what is there of *ids*, each batch with the ids of its events among them."""
        with closing(self._source.open(ids.partition, ids.start)) as reader:
            at, deadline = ids.start, time.monotonic() + PATIENCE_S
            while at < ids.end:
                batch = reader.fetch(min(FETCH_ROWS, ids.end - at))
                numbers = range(batch.first, min(batch.next, ids.end))
                if numbers or batch.rejected:
                    yield batch, numbers
                    deadline = time.monotonic() + PATIENCE_S
                elif batch.next == at:
                    if batch.ended or time.monotonic() > deadline:
                        raise _short(self.id, ids, at)
                    time.sleep(POLL_S)
                at = batch.next

    def hold(self, positions: Mapping[str, int]) -> None:
        """Sources keep for who has opened them, each as it does."""

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        for partition, at in positions.items():
            if at:
                with closing(self._source.open(partition, at)) as reader:
                    reader.acknowledge(at - 1)


def _made(name: str) -> Source:
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f"option source is {name!r}; it is 'module:function', and the function returns a source")
    try:
        made = getattr(import_module(module), function)()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"option source is {name!r}, which cannot be had: {error}") from error
    if not isinstance(made, Bounded):
        raise ValueError(f"option source is {name!r}, which made {made!r}; Spark needs a source that has bounds")
    return made  # type: ignore[return-value]


def feed_of(options: ReadOptions) -> Feed:
    """Return what *options* name."""
    if options.path is not None:
        return LogFeed(options.path, options.reader)
    if options.dead_letters:
        from spark_bridge.dead_letters import DeadLetterFeed

        return DeadLetterFeed(options.source or "")
    return SourceFeed(options.source or "")


def record_batch(values: Any, schema: Any) -> Any:
    """Return *values* (records by name, or tuples by place) as rows. *Raises* `SourceFailed` naming what misfits."""
    from hosting.bulk.columns import fields_of  # which brings all of hosting, and few tasks need it

    names = schema.names
    try:
        rows = [each if type(each) is tuple else fields_of(each) for each in values]
        if all(type(row) is tuple for row in rows):
            cells: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
        else:
            cells = [[row[name] for row in rows] for name in names]  # type: ignore[index]
        arrays = [pa.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
    except BaseException as error:  # values are the user's, and so is what they raise
        let_through(error)
        message = f"the events do not have the columns {names} that schema() was told: {described(error)}"
        raise SourceFailed(message, source="schema") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_positions(rows: Any, partition: str, ids: range) -> Any:
    """Return *rows* with the columns that say where each comes from."""
    positions = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(ids)), start=ids.start - 1)
    arrays = [*rows.columns, pa.repeat(partition, len(ids)), positions]
    return pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, PARTITION, POSITION])


def position_fields() -> Any:
    return pa.schema([(PARTITION, pa.string()), (POSITION, pa.int64())])


def resolved(wanted: Positions, bounds: Mapping[str, tuple[int, int]], *, option: str) -> dict[str, int]:
    """Return the ids that *wanted* means now. *Raises* `ValueError` naming the *option*."""
    if isinstance(wanted, str):
        return {partition: ends[wanted == "latest"] for partition, ends in bounds.items()}
    unknown = wanted.keys() - bounds.keys()
    if unknown:
        raise ValueError(f"option {option} names partition {min(unknown)!r}; there are {', '.join(bounds)}")
    for partition, at in wanted.items():
        first, end = bounds[partition]
        if not first <= at <= end:
            raise ValueError(f"option {option} is {at} for partition {partition}; it holds ids {first} to {end}")
    default = 0 if option == "start" else 1
    return {partition: wanted.get(partition, ends[default]) for partition, ends in bounds.items()}


def admitted(start: Mapping[str, int], ends: Mapping[str, int], rows_max: int | None) -> dict[str, int]:
    """Return how far to read: at most *rows_max* rows in all, shared evenly, what one leaves going to the others.

    >>> admitted({"0": 0, "1": 0, "2": 5}, {"0": 100, "1": 3, "2": 100}, 30)
    {'0': 13, '1': 3, '2': 19}
    """
    waiting = {partition: end - start.get(partition, 0) for partition, end in ends.items()}
    left = sum(waiting.values()) if rows_max is None else rows_max
    upto = {}
    for place, partition in enumerate(sorted(waiting, key=lambda each: (waiting[each], each))):
        share = min(waiting[partition], -(-left // (len(waiting) - place)))
        upto[partition] = start.get(partition, 0) + share
        left -= share
    return {partition: upto[partition] for partition in ends}


def ranges(start: Mapping[str, int], end: Mapping[str, int], rows: int) -> list[Range]:
    """Cut what lies between into pieces of at most *rows* ids.

    >>> ranges({"0": 2}, {"0": 7}, 3)
    [Range(partition='0', start=2, end=5), Range(partition='0', start=5, end=7)]
    """
    return [
        Range(partition, at, min(at + rows, stop))
        for partition, stop in end.items()
        for at in range(start.get(partition, 0), stop, rows)
    ]


def check_offsets(feed: Feed, offsets: Mapping[str, Any]) -> dict[str, int]:
    """Return the positions in *offsets*. *Raises* `LogRefused` if they are of something else than *feed*."""
    if offsets.get("of") != feed.id:
        message = f"this checkpoint has offsets of {offsets.get('of')!r}, not of {feed.id!r}: the log is another one"
        raise LogRefused(f"{message}; use its own checkpoint, or a new one", found=offsets.get("of"), wanted=feed.id)
    return dict(offsets["next"])


def check_not_set_back(feed: Feed, begin: Mapping[str, int], ends: Mapping[str, int]) -> None:
    """*Raises* `LogRefused` if *begin*, where a checkpoint has come to, is not there."""
    for partition, end in ends.items():
        if (at := begin.get(partition, 0)) > end:
            message = f"partition {partition} of {feed.id!r} ends at {end:,}, and this checkpoint has read {at:,} of it"
            remedy = "it was set back to an older copy; bring the newer one back, or use a new checkpoint"
            raise LogRefused(f"{message}: {remedy}", found=str(end), wanted=str(at))


def same_columns(asked: Any, schema: Any) -> None:
    """Check that each column of *asked* is one of *schema*'s. *Raises* `LogRefused` naming the first that is not."""
    has = {field.name: field.type for field in schema}
    for field in canonical(asked):
        if has.get(field.name) != field.type:
            found = has.get(field.name, "missing")
            message = f"schema(): column {field.name!r} is {field.type}, in the log it is {found}"
            raise LogRefused(message, found=str(found), wanted=str(field.type))


def _short(where: str, ids: Range, at: int) -> SourceFailed:
    message = f"{where}, partition {ids.partition}: ids {ids.start:,} to {ids.end:,} were said to be there"
    return SourceFailed(f"{message}, and nothing comes at {at:,}", source=where, partition=ids.partition, position=at)
