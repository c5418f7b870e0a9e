"""Begin a query on Spark with the state of an evaluator, and an evaluator with the state of a query on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkpoint.format.codec import decode, encode
from checkpoint.store import Store
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.runtime.plan import NO_LIMITS
from spark_bridge.keyed import Bucket, KeyedQuery
from spark_bridge.keyed.editing import Manner
from spark_bridge.keyed.joining import Joined, put_together
from spark_bridge.keyed.moving import KeyMapper, cut_out, for_key, name_for
from spark_bridge.keyed.seals import Seals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Joined", "KeyedState", "for_key", "from_spark", "name_for", "to_spark"]

ROW = "_row"


@dataclass(frozen=True)
class KeyedState:
    """What an evaluator had of each key, on its way to Spark: *rows* by key, and what is *common* to them."""

    rows: DataFrame
    common: bytes


def to_spark(
    spark: SparkSession, store: Store, name: str, query: Any, *, key: str, event_time: bool = False,
    key_mapper: KeyMapper | None = None, limits: Limits = NO_LIMITS, seal_key: str | None = None,
) -> KeyedState:  # fmt: skip
    """Return what an evaluator's *store* has of the query *name*, for ``run_on_spark(initial=...)``.

    *key* describes the key columns as DDL, such as ``"symbol string"``. The store must have a checkpoint of everything
    and no evaluator; on Spark the sources begin where that checkpoint's positions stand. Events that wait for the
    watermark (*event_time*) go along.

    A query with groups has one stream, and on Spark every key has ids of its own: those of all keys, also of new ones,
    go on at the id with which that stream would have gone on. With *key_mapper* the query is one written for one key,
    and what moves are the queries `for_key` under names that begin with ``name/``, each with its own ids.
    *seal_key* is that of `run_on_spark`.

    *Raises* `CheckpointRefused` if the store has more than its checkpoint, or another query under that name.
    """
    keyed = KeyedQuery(query, per_key=key_mapper is not None, event_time=event_time, limits=limits)
    bucket = cut_out(store, name, keyed, key_mapper=key_mapper)
    keys = dict.fromkeys((*bucket.rows, *bucket.waiting))
    seals, content = Seals(seal_key), bucket.content
    rows = [(*parts(each), seals.sealed(encode(one(bucket, each)), kind="key")) for each in keys]
    common = seals.sealed(encode((content.clock, content.first_id, content.signatures)), kind="state")
    return KeyedState(spark.createDataFrame(rows, f"{key}, {ROW} binary"), common)


def parts(key: Hashable) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def one(bucket: Bucket, key: Hashable) -> tuple[Any, ...]:
    """Return what a bucket has for one key."""
    return key, bucket.rows.get(key), bucket.dues.get(key), bucket.waiting.get(key)


def blobs_of(
    state: KeyedState, query: KeyedQuery, columns: Sequence[str], placed: Manner, *, buckets: int, seals: Seals
) -> DataFrame:
    """Return *state* as a blob for each bucket, also for those that have no key yet."""
    import cloudpickle
    from pyspark.sql import functions as f

    from spark_bridge.on_spark.placing import BUCKET, bucket_of

    rows = state.rows
    code = seals.sealed(cloudpickle.dumps((query, dict(placed), state.common)), kind="query")

    def gather(part: Any) -> Any:
        import pandas as pd  # type: ignore[import-untyped]

        query, placed, common = cloudpickle.loads(seals.unsealed(code, kind="query"))
        rows = [bytes(row) for row in part[ROW] if row is not None]
        bucket = filled(Bucket(query, placed=placed, seals=seals), common, rows)
        return pd.DataFrame({BUCKET: [part[BUCKET].iloc[0]], "blob": [bucket.blob()]})

    every = rows.sparkSession.range(buckets).select(f.col("id").cast("int").alias(BUCKET), f.lit(None).cast("binary"))
    there = rows.select(bucket_of(columns, buckets).alias(BUCKET), ROW)
    return there.unionAll(every).groupBy(BUCKET).applyInPandas(gather, f"{BUCKET} int, blob binary")


def filled(bucket: Bucket, common: bytes, rows: Sequence[bytes]) -> Bucket:
    content, seals = bucket.content, bucket.seals
    content.clock, content.first_id, signatures = decode(seals.unsealed(common, kind="state"))
    content.signatures.update(signatures)
    for key, row, due, waiting in (decode(seals.unsealed(row, kind="key")) for row in rows):
        if row is not None:
            bucket.rows[key] = row
        if waiting is not None:
            bucket.waiting[key] = waiting
        bucket.wake(key, due)
    return bucket


def from_spark(
    spark: SparkSession, checkpoint: str, store: Store, name: str, query: Any, *,
    positions: Mapping[str, Mapping[str, int]], clock: EventTime | None = None, key_mapper: KeyMapper | None = None,
    limits: Limits = NO_LIMITS, seal_key: str | None = None,
) -> Joined:  # fmt: skip
    """Begin an empty *store* with the state that a query on Spark has in its *checkpoint*.

    An evaluator that opens the store and creates *query* as *name* goes on with every key, reading its sources from
    *positions* on: the next id for each partition. A query on event time is created with that *clock*; one written for
    one key (*key_mapper*) goes on as a query `for_key` each, under the names of `name_for`. Stop the query on Spark
    first. *seal_key* is that of `run_on_spark`. Returns which keys had ended, and the id that the stream goes on with.
    Raises as `put_together` does.
    """
    keyed = KeyedQuery(query, per_key=key_mapper is not None, event_time=clock is not None, limits=limits)
    found = blobs(spark, checkpoint)
    return put_together(
        found, store, name, keyed, positions=positions, clock=clock, key_mapper=key_mapper, seals=Seals(seal_key)
    )  # fmt: skip


def blobs(spark: SparkSession, checkpoint: str) -> Iterator[bytes]:
    """Yield the buckets in a checkpoint of Spark's, as of its last batch."""
    from spark_bridge.on_spark.processor import STATE

    state = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", STATE).load()
    for row in state.select("value.blob").toLocalIterator():
        yield bytes(row.blob)
