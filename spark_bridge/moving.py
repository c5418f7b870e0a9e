"""Begin a query on Spark with the state of an evaluator, and an evaluator with the state of a query on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkpoint.codec import decode, encode
from checkpoint.store import Store
from reliable_rx.limits import Limits
from reliable_rx.plan import NO_LIMITS
from spark_bridge.keyed import Bucket, KeyedQuery
from spark_bridge.keyed.moving import cut_out, put_together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "_row"


def to_spark(
    spark: SparkSession, store: Store, name: str, query: Any, *, key: str, event_time: bool = False,
    limits: Limits = NO_LIMITS,
) -> DataFrame:  # fmt: skip
    """Return the rows of the query *name* in an evaluator's *store*, for ``run_on_spark(initial=...)``.

    *key* describes the key columns as DDL, such as ``"symbol string"``. The store must have a checkpoint of everything
    and no evaluator; on Spark the sources begin where that checkpoint's positions stand. Ids begin at 0 for each key.

    *Raises* `CheckpointRefused` if the store has more than its checkpoint, or another query under that name.
    """
    bucket = cut_out(store, name, KeyedQuery(query, event_time=event_time, limits=limits))
    rows = [(*parts(each), encode(one(bucket, each))) for each in bucket.rows]
    return spark.createDataFrame(rows, f"{key}, {ROW} binary")


def parts(key: Hashable) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def one(bucket: Bucket, key: Hashable) -> tuple[Any, ...]:
    """Return what a bucket has for one key."""
    return key, bucket.rows[key], bucket.dues.get(key), bucket.clock, bucket.signatures


def gathered(initial: DataFrame, query: KeyedQuery, columns: Sequence[str], buckets: int) -> DataFrame:
    """Return the rows of `to_spark` as a blob for each bucket."""
    import cloudpickle
    from pyspark.sql import functions as f

    from spark_bridge.frames import BUCKET

    code = cloudpickle.dumps(query)

    def gather(rows: Any) -> Any:
        import pandas as pd  # type: ignore[import-untyped]

        bucket = Bucket(cloudpickle.loads(code))
        for row in rows[ROW]:
            key, bucket.rows[key], due, bucket.clock, signatures = decode(bytes(row))
            bucket.signatures.update(signatures)
            if due is not None:
                bucket.dues[key] = due
        return pd.DataFrame({BUCKET: [rows[BUCKET].iloc[0]], "blob": [bucket.blob()]})

    placed = initial.select(f.pmod(f.xxhash64(*columns), f.lit(buckets)).cast("int").alias(BUCKET), ROW)
    return placed.groupBy(BUCKET).applyInPandas(gather, f"{BUCKET} int, blob binary")


def from_spark(
    spark: SparkSession, checkpoint: str, store: Store, name: str, query: Any, *,
    positions: Mapping[str, Mapping[str, int]], limits: Limits = NO_LIMITS,
) -> list[Hashable]:  # fmt: skip
    """Begin an empty *store* with the state that a query on Spark has in its *checkpoint*.

    An evaluator that opens the store and creates *query* as *name* goes on with every key, reading its sources from
    *positions* on: the next id for each partition. Stop the query on Spark first. Returns the keys whose query had
    failed: they are left out. Raises as `run_on_spark` and `cut_out` do for another query.
    """
    keyed = KeyedQuery(query, limits=limits)
    return put_together(blobs(spark, checkpoint), store, name, keyed, positions=positions)


def blobs(spark: SparkSession, checkpoint: str) -> Iterator[bytes]:
    """Yield the buckets in a checkpoint of Spark's, as of its last batch."""
    from spark_bridge.processor import STATE

    state = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", STATE).load()
    for row in state.select("value.blob").toLocalIterator():
        yield bytes(row.blob)
