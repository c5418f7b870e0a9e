"""Frames of sources, on the driver: made one frame of packets in buckets, and what the packets hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_bridge.micro_batch_log.columns import canonical
from spark_bridge.on_spark.layout import TICK, Layout, Rows, SourceColumns
from spark_bridge.on_spark.packets import packing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

BUCKET = "bucket"
PLACED = f"{BUCKET} int, packet binary"


def lay_out(
    named: Mapping[str, Any], key: tuple[str, ...], value: str | None, rows: Rows, output: StructType,
    emitted: tuple[str, ...] | None, *, event_time: bool,
) -> Layout:  # fmt: skip
    """Return what packets hold. *Raises* `TypeError` for a column that Python cannot hold, or that no key can be."""
    sources = tuple(
        source_columns(name, frame, key, [value] if value else frame.columns, event_time=event_time)
        for name, frame in sorted(named.items())
    )
    check_keys(sources, key)
    return Layout(key, sources, value, rows, event_time, canonical(arrow_schema("what comes out", output)), emitted)


def output_columns(frame: DataFrame, key: Sequence[str], emits: str) -> tuple[StructType, tuple[str, ...] | None]:
    """Return the columns of what comes out, and the names of those in *emits* if it names any."""
    from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

    kind = DataType.fromDDL(emits)
    named = isinstance(kind, StructType)
    values = kind.fields if isinstance(kind, StructType) else [StructField("value", kind)]
    own = [StructField("id", LongType()), StructField("kind", StringType())]
    keys = [StructField(field.name, field.dataType) for field in frame.select(*key).schema]
    output = StructType([*keys, *own, *values, StructField("error", StringType())])
    return output, tuple(each.name for each in values) if named else None


def check_keys(sources: Sequence[SourceColumns], key: Sequence[str]) -> None:
    """*Raises* `TypeError` if keys are of different types: as such they are put into different buckets."""
    first = sources[0]
    for each in sources[1:]:
        for name, wanted, found in zip(key, first.key, each.key, strict=True):
            kinds = first.schema.field(wanted).type, each.schema.field(found).type
            if kinds[0] != kinds[1]:
                raise TypeError(
                    f"key column {name!r} is {kinds[0]} in {first.name!r} and {kinds[1]} in {each.name!r}: cast one, "
                    f"so that equal keys meet"
                )


def source_columns(
    name: str, frame: DataFrame, key: Sequence[str], event: Sequence[str], *, event_time: bool
) -> SourceColumns:
    own = [pa.field("sequence id", pa.int64()), *([pa.field("time", pa.int64())] if event_time else [])]
    columns = list(dict.fromkeys([*key, *event]))
    schema = canonical(arrow_schema(f"the frame of {name!r}", frame.select(*columns).schema))
    for each in key:
        if pa.types.is_nested(schema.field(each).type):
            raise TypeError(f"key column {each!r} of {name!r} is {schema.field(each).type}, which no key can be")
    places = {column: len(own) + n for n, column in enumerate(columns)}
    whole = pa.schema([*own, *schema])
    return SourceColumns(name, whole, places_of(places, key), places_of(places, event), tuple(event))


def places_of(places: Mapping[str, int], columns: Sequence[str]) -> tuple[int, ...]:
    return tuple(places[each] for each in columns)


def arrow_schema(where: str, schema: StructType) -> Any:
    """Return *schema* as Arrow has it. *Raises* `TypeError` naming a column that it cannot have."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        try:
            to_arrow_schema(type(schema)([field]), timezone="UTC")
        except PySparkException as error:
            raise TypeError(
                f"column {field.name!r} of {where} is {field.dataType.simpleString()}, which no event can hold: select "
                f"what the query needs of it, or to_json(...) it"
            ) from error
    return to_arrow_schema(schema, timezone="UTC")


def packets_of(
    frame: DataFrame, number: int, source: SourceColumns, *, key: Sequence[str], seq: str, time: str | None,
    lateness_s: float, buckets: int,
) -> DataFrame:  # fmt: skip
    """Return the rows of one source as packets."""
    from pyspark.sql import functions as f

    columns: list[Column] = [bucket_of(key, buckets), f.col(seq).cast("long")]
    if time is not None:
        columns.append(f.unix_micros(f.col(time)))
        if frame.isStreaming:
            frame = frame.withColumn("_watermarked", f.col(time))
            frame = frame.withWatermark("_watermarked", f"{round(lateness_s * 1000)} milliseconds")
    columns += [f.col(name) for name in source.schema.names[len(columns) - 1 :]]
    chosen = frame.select(*[each.alias(f"_{n}") for n, each in enumerate(columns)])
    packets = chosen.mapInArrow(packing(source.schema), PLACED)
    return packets.select(BUCKET, "packet", f.lit(number).alias("source"), batch_time())


def united(packets: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionAll(other), packets)


def placed_as(layout: Layout, buckets: int) -> dict[str, Any]:
    """Return what must stay as it is when a query goes on: its keys, the columns of its events, its buckets."""
    first = layout.sources[0]
    keys = [f"{name} {first.schema.field(place).type}" for name, place in zip(layout.key, first.key, strict=True)]
    events = {f"columns of {each.name!r}": columns_of(each, layout) for each in layout.sources}
    return {"buckets": buckets, "key": ", ".join(keys), "events": layout.value or layout.rows, **events}


def columns_of(source: SourceColumns, layout: Layout) -> Any:
    kinds = {name: str(source.schema.field(place).type) for name, place in zip(source.names, source.event, strict=True)}
    return kinds if layout.rows == "dict" else list(map(list, kinds.items()))


def bucket_of(key: Sequence[str], buckets: int) -> Column:
    from pyspark.sql import functions as f

    return f.pmod(f.xxhash64(*key), f.lit(buckets)).cast("int")


def batch_time() -> Column:
    """Return the time of the batch in microseconds: the same whenever the batch is run again."""
    from pyspark.sql import functions as f

    return f.unix_micros(f.current_timestamp()).alias("now")


def ticks(spark: SparkSession, tick_s: int, buckets: int) -> DataFrame:
    """Return a stream that has a row for each bucket every *tick_s* seconds."""
    from pyspark.sql import functions as f

    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    every = f.sequence(f.lit(0), f.lit(buckets - 1))
    due = rate.where(f.col("value") % tick_s == 0).select(f.explode(every).alias(BUCKET))
    return due.select(BUCKET, f.lit(None).cast("binary").alias("packet"), f.lit(TICK).alias("source"), batch_time())
