"""`run_on_spark`: a standing query, unchanged, past one machine: once per key, its rows in Spark's state store.

Keys are put into buckets by a hash, and Spark groups by the bucket: it calls Python once per group and batch, and at
100,000 keys a call for each costs ninety times as much. A bucket is one value in the state store, which Spark keeps
with its checkpoint; so it survives what Spark survives, and outputs are exactly once where Spark's are. Rejected:
Spark's processing-time timers, with which a query never idles and never ends; the time of batches is data, and so are
ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reliable_rx.limits import Limits
from reliable_rx.plan import NO_LIMITS
from spark_bridge.frames import BUCKET, NOW, SOURCE, TICK, Layout, Rows, projected, source_columns
from spark_bridge.keyed import KeyedQuery
from spark_bridge.moving import gathered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

BUCKETS_PER_PARTITION = 8
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""What a session must be set to before a query is started: set it, or let `configure` do it."""


def configure(spark: SparkSession) -> None:
    """Set up a session for `run_on_spark`: state in RocksDB, and changes of it written as changes."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)


def run_on_spark(
    query: Any,
    frames: DataFrame | Mapping[str, DataFrame],
    *,
    key: str | Sequence[str],
    seq: str,
    emits: str,
    value: str | None = None,
    rows: Rows = "dict",
    time: str | None = None,
    lateness_s: float = 5.0,
    tick_s: int | None = None,
    per_key: bool = False,
    limits: Limits = NO_LIMITS,
    buckets: int | None = None,
    initial: DataFrame | None = None,
) -> DataFrame:
    """Run *query* once per key of *frames*, and return what it emits as a frame: key, id, kind, value, error.

    A query for all events is written as ever, ``source(...).group_by(k).flat_map(f)``, with operators that keep nothing
    before and behind; *key* names the column (or columns) that ``k`` reads, which is checked for every event. A query
    that is written for the events of one key is given with *per_key*; it may read several sources, then *frames* is a
    mapping from their names. Everything else, such as a window over all keys, is refused.

    An event is a row as a dictionary (*rows* ``"tuple"``: as a tuple), or the column *value* alone. Events of one
    key are taken in the order of the column *seq*, which must grow from batch to batch. *emits* is the type of what
    comes out, as DDL: ``"double"`` for a column ``value``, ``"n long, total double"`` for tuples or dictionaries. Each
    row has the key's next ``id``; ``kind`` is ``next``, ``completed``, or ``error`` with the text in ``error``, after
    which the key is silent. Write with output mode ``append``. A frame that is no stream ends after its last row, and
    so do the queries.

    Without *time* the clock is that of the batches, and moves when a batch has rows for a bucket; with *tick_s* it
    also moves every so many seconds, as rows of a stream of ticks (such a query cannot be run until what is there is
    read). With *time*, a timestamp column, it is event time: events wait until the watermark, *lateness_s* behind the
    newest, has passed them, and late ones are dropped by Spark.

    *State*: one value per bucket in Spark's state store. There are 8 *buckets* per shuffle partition; their number is
    part of the state and cannot change. *initial* is what `spark_bridge.moving.to_spark` returns.

    *Raises* `QueryRefused` with the operator's path; `ValueError` for columns and settings that are not there;
    `TypeError` for column types that no event can hold. A checkpoint of another query fails the stream with
    `CheckpointRefused`.
    """
    from spark_bridge.processor import BucketProcessor

    given: Mapping[str, Any] = frames if isinstance(frames, Mapping) else {}
    keyed = KeyedQuery(query, per_key=per_key, event_time=time is not None, limits=limits, reads=tuple(given))
    named = given or dict.fromkeys(keyed.sources, frames)
    columns = (key,) if isinstance(key, str) else tuple(key)
    check(named, keyed, [*columns, seq, *([value] if value else []), *([time] if time else [])])
    first = next(iter(named.values()))
    spark, streaming = first.sparkSession, any(each.isStreaming for each in named.values())
    if streaming:
        check_settings(spark)
    count = buckets or BUCKETS_PER_PARTITION * int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    layout = lay_out(named, columns, value, rows, emits, event_time=time is not None)
    united = unite(named, layout, seq=seq, time=time, buckets=count)
    if streaming and time is not None:
        united = united.withWatermark("_watermarked", f"{int(lateness_s * 1000) + 1} milliseconds")
    if tick_s is not None:
        if time is not None or not streaming:
            raise ValueError("tick_s moves the clock of batches of a stream; event time is moved by the events")
        united = united.unionByName(ticks(spark, tick_s, count, united.schema))
    layout = replace(layout, carried=tuple(united.columns))
    processor = BucketProcessor(keyed, layout, buckets=count, streaming=streaming)
    return united.groupBy(BUCKET).transformWithStateInPandas(
        processor,
        output_schema(first, columns, emits),
        "append",
        "eventTime" if streaming and time is not None else "none",
        None if initial is None else gathered(initial, keyed, columns, count).groupBy(BUCKET),
    )


def check(named: Mapping[str, Any], keyed: KeyedQuery, columns: Sequence[str]) -> None:
    missing = [name for name in keyed.sources if name not in named]
    if missing:
        raise ValueError(f"the query reads {', '.join(missing)}, but frames has only {', '.join(named)}")
    for name, frame in named.items():
        absent = [each for each in columns if each not in frame.columns]
        if absent:
            raise ValueError(f"the frame of {name!r} has no column {absent[0]!r}; it has {', '.join(frame.columns)}")


def check_settings(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        if spark.conf.get(name, None) != value:
            raise ValueError(f"set {name} to {value} before the query is started: spark_bridge.configure(spark) does")


def lay_out(
    named: Mapping[str, Any], key: tuple[str, ...], value: str | None, rows: Rows, emits: str, *, event_time: bool
) -> Layout:
    names, struct = output_names(emits)
    sources = tuple(
        source_columns(name, frame.schema, [value] if value else frame.columns, several=len(named) > 1)
        for name, frame in sorted(named.items())
    )
    frames = list(named.values())
    keys = source_columns("key", frames[0].schema, key, several=len(frames) > 1)
    return Layout(keys, sources, value, rows, event_time, names, struct)


def unite(named: Mapping[str, Any], layout: Layout, *, seq: str, time: str | None, buckets: int) -> DataFrame:
    """Return one frame with the rows of all sources."""
    others = [(n, each, named[each.name].schema) for n, each in enumerate(layout.sources)]
    parts = [
        projected(named[each.name], n, each, others, key=layout.key, seq=seq, time=time, buckets=buckets)
        for n, each, _ in others
    ]
    united = parts[0]
    for part in parts[1:]:
        united = united.unionByName(part)
    return united


def ticks(spark: SparkSession, tick_s: int, buckets: int, schema: StructType) -> DataFrame:
    """Return a stream that has a row for each bucket every *tick_s* seconds."""
    from pyspark.sql import functions as f

    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    every = f.sequence(f.lit(0), f.lit(buckets - 1))
    told = {BUCKET: f.col(BUCKET), SOURCE: f.lit(TICK), NOW: f.unix_micros(f.current_timestamp())}
    due = rate.where(f.col("value") % tick_s == 0).select(f.explode(every).alias(BUCKET))
    return due.select(*(told.get(each.name, filler(each)).alias(each.name) for each in schema))


def filler(field: StructField) -> Column:
    """Return what stands in a column of a row that has none: a null would make another type of the column's numbers."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType, NumericType

    given = f.lit(0) if isinstance(field.dataType, (NumericType, BooleanType)) else f.lit(None)
    return given.cast(field.dataType)


def output_names(emits: str) -> tuple[tuple[str, ...], bool]:
    from pyspark.sql.types import DataType, StructType

    kind = DataType.fromDDL(emits)
    return (tuple(kind.names), True) if isinstance(kind, StructType) else (("value",), False)


def output_schema(frame: DataFrame, key: Sequence[str], emits: str) -> Any:
    """Return the columns of what comes out."""
    from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

    kind = DataType.fromDDL(emits)
    values = kind.fields if isinstance(kind, StructType) else [StructField("value", kind)]
    return StructType(
        [
            *(StructField(name, frame.schema[name].dataType) for name in key),
            StructField("id", LongType()),
            StructField("kind", StringType()),
            *values,
            StructField("error", StringType()),
        ]
    )
