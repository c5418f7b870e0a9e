"""`run_on_spark`: a standing query, unchanged, past one machine: once per key, its rows in Spark's state store.

Keys are put into buckets by a hash, and Spark groups by the bucket: it calls Python once per group and batch, and at
100,000 keys a call for each costs ninety times as much. A bucket is one value in the state store, which Spark keeps
with its checkpoint; so it survives what Spark survives, and outputs are exactly once where Spark's are. Rejected:
Spark's processing-time timers, with which a query never idles and never ends; the time of batches is data, and so are
ticks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hosting.reports.log import LOG
from reliable_rx.limits import Limits
from reliable_rx.runtime.plan import NO_LIMITS
from reliable_rx.runtime.rows import Report
from spark_bridge.checkpoints import check_keyed
from spark_bridge.keyed import KeyedQuery
from spark_bridge.keyed.seals import Seals
from spark_bridge.on_spark.layout import Rows
from spark_bridge.on_spark.moving import KeyedState, blobs_of
from spark_bridge.on_spark.packets import unpacking
from spark_bridge.on_spark.placing import BUCKET, lay_out, output_columns, packets_of, placed_as, ticks, united

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    checkpoint: str | None = None,
    initial: KeyedState | None = None,
    seal_key: str | None = None,
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
    read). With *time*, a timestamp column, it is event time: events wait until Spark's watermark, *lateness_s* behind
    the newest, has passed them, late ones are left out, and Spark's timers wake what is due though nothing comes.

    *State*: one value per bucket in Spark's state store. There are 8 *buckets* per shuffle partition; their number is
    part of the state and cannot change. *checkpoint* is the directory that the query will be started with: it is marked
    as this query's, and looked into before anything is started. An edited query goes on with what it can keep of the
    state there, as in an evaluator. *initial* is what `spark_bridge.on_spark.moving.to_spark` returns. *seal_key* says
    where driver and workers find the key that seals the state, ``env:NAME`` or ``file:PATH``
    (`spark_bridge.keyed.seals.Seals`); without, whoever can write the checkpoint's directory can run code on workers.

    *Raises* `QueryRefused` with the operator's path; `ValueError` for columns and settings that are not there;
    `TypeError` for column types that no event can hold; `CheckpointRefused` if *checkpoint* belongs to another query,
    or has state that this one cannot read, which without *checkpoint* fails the stream in its first batch.
    """
    from spark_bridge.on_spark.processor import BucketProcessor

    seals = found_seals(seal_key)
    given = dict[str, Any](frames) if isinstance(frames, Mapping) else {}
    keyed = KeyedQuery(query, per_key=per_key, event_time=time is not None, limits=limits, reads=tuple(given))
    named = given or dict.fromkeys(keyed.sources, frames)
    columns = (key,) if isinstance(key, str) else tuple(key)
    check(named, keyed, [*columns, seq, *([value] if value else []), *([time] if time else [])])
    streaming = any(each.isStreaming for each in named.values())
    first, spark = next(iter(named.values())), checked_session(named, streaming=streaming)
    count = buckets or BUCKETS_PER_PARTITION * int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    output, emitted_columns = output_columns(first, columns, emits)
    layout = lay_out(named, columns, value, rows, output, emitted_columns, event_time=time is not None)
    pack = partial(packets_of, key=columns, seq=seq, time=time, lateness_s=lateness_s, buckets=count)
    packets = [pack(named[each.name], n, each) for n, each in enumerate(layout.sources)]
    if tick_s is not None:
        check_ticks(on_event_time=time is not None, streaming=streaming)
        packets.append(ticks(spark, tick_s, count))
    placed = placed_as(layout, count)
    if checkpoint is not None:
        tell_edit(check_keyed(checkpoint, keyed, placed), checkpoint)
    given_state = None if initial is None else blobs_of(initial, keyed, columns, placed, buckets=count, seals=seals)
    grouped = united(packets).groupBy(BUCKET)
    emitted = grouped.transformWithStateInPandas(
        BucketProcessor(keyed, layout, placed=placed, streaming=streaming, seals=seals),
        "packet binary",
        "append",
        "eventTime" if streaming and time is not None else "none",
        None if given_state is None else given_state.groupBy(BUCKET),
    )
    return emitted.mapInArrow(unpacking(layout.output), output)


def found_seals(seal_key: str | None) -> Seals:
    """Return what seals with the key at that place. *Raises* `ValueError` here, not on a worker, if none is there."""
    seals = Seals(seal_key)
    seals.ring()
    return seals


def tell_edit(report: Report | None, checkpoint: str) -> None:
    if report is not None:
        level = logging.WARNING if report.dropped else logging.INFO
        LOG.log(level, "the query in %s was edited: %s", checkpoint, report)


def check(named: Mapping[str, Any], keyed: KeyedQuery, columns: Sequence[str]) -> None:
    missing = [name for name in keyed.sources if name not in named]
    if missing:
        raise ValueError(f"the query reads {', '.join(missing)}, but frames has only {', '.join(named)}")
    for name, frame in named.items():
        absent = [each for each in columns if each not in frame.columns]
        if absent:
            raise ValueError(f"the frame of {name!r} has no column {absent[0]!r}; it has {', '.join(frame.columns)}")


def check_ticks(*, on_event_time: bool, streaming: bool) -> None:
    if on_event_time or not streaming:
        raise ValueError("tick_s moves the clock of batches of a stream; event time is moved by the events")


def checked_session(frames: Mapping[str, DataFrame], *, streaming: bool) -> SparkSession:
    """Return the session of *frames*, which for a stream must have its settings."""
    spark = next(iter(frames.values())).sparkSession
    if streaming:
        check_settings(spark)
    return spark


def check_settings(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        if spark.conf.get(name, None) != value:
            raise ValueError(f"set {name} to {value} before the query is started: spark_bridge.configure(spark) does")
