"""The columns between Spark and a bucket: frames of sources made one frame of rows in buckets, and notifications back.

Pandas has no whole number that may be missing, so a column that may be null travels as a filled column and a mask;
timestamps travel as microseconds, because a `datetime` for each row made one by one costs more than most queries. A row
has the columns of all sources; those of the others are null in it. Rows of source -1 are ticks of the clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal

from spark_bridge.keyed import Arrivals, Emitted
from spark_bridge.keyed.emitted import COMPLETED, ERROR, NEXT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

Rows = Literal["dict", "tuple"]
TICK = -1
BUCKET, SEQ, SOURCE, NOW, TIME = "_bucket", "_seq", "_source", "_now", "_time"


@dataclass(frozen=True)
class SourceColumns:
    """The columns of one source: their names, whether they may be null, whether they hold timestamps."""

    name: str
    columns: tuple[str, ...]
    masked: tuple[bool, ...]
    stamped: tuple[bool, ...]


@dataclass(frozen=True)
class Layout:
    """What the columns of a bucket's rows mean, as the workers need to know it."""

    key: SourceColumns
    sources: tuple[SourceColumns, ...]
    value: str | None
    rows: Rows
    event_time: bool
    output: tuple[str, ...]
    struct: bool
    carried: tuple[str, ...] = ()

    # -- rows in

    def arrivals(self, frames: Sequence[Any]) -> tuple[Arrivals, float | None]:
        """Return the events in pandas *frames*, and the newest batch time in them."""
        keys: list[Hashable] = []
        seqs: list[int] = []
        values: list[Any] = []
        sources: list[str] = []
        times: list[float] = []
        now = None
        for frame in frames:
            if not len(frame):
                continue
            frame.columns = self.carried  # Spark's batch form gives them names of its own
            now = max(now or 0.0, frame[NOW].max() / 1e6)
            for number, source in enumerate(self.sources):
                part = frame
                if len(self.sources) > 1 or TICK in frame[SOURCE].values:
                    part = frame[frame[SOURCE] == number]
                keys += self.keys_of(part)
                seqs += part[SEQ].tolist()
                values += self.values_of(part, number, source)
                if len(self.sources) > 1:
                    sources += [source.name] * len(part)
                if self.event_time:
                    times += (part[TIME] / 1e6).tolist()
        several = len(self.sources) > 1
        return Arrivals(keys, seqs, values, sources if several else None, times if self.event_time else None), now

    def keys_of(self, part: Any) -> list[Hashable]:
        columns = columns_of(part, "_key", self.key)
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def values_of(self, part: Any, number: int, source: SourceColumns) -> list[Any]:
        columns = columns_of(part, f"_{number}", source)
        if self.value is not None:
            return columns[0]
        rows = list(zip(*columns, strict=True))
        return rows if self.rows == "tuple" else [dict(zip(source.columns, row, strict=True)) for row in rows]

    # -- rows out

    def frame(self, out: Emitted) -> Any:
        """Return the notifications of a batch as a pandas frame."""
        import pandas as pd  # type: ignore[import-untyped]

        names = self.key.columns
        parts = [out.keys] if len(names) == 1 else list(zip(*out.keys, strict=True))
        data = {name: pd.Series(part, dtype=object) for name, part in zip(names, parts, strict=True)}
        data["id"] = pd.Series(out.ids, dtype="int64")
        kinds, errors = [NEXT] * len(out.ids), list[str | None]([None]) * len(out.ids)
        for place, error in out.ends.items():
            kinds[place] = COMPLETED if error is None else ERROR
            errors[place] = None if error is None else f"{type(error).__name__}: {error}"
        data["kind"] = pd.Series(kinds, dtype=object)
        for name, values in zip(self.output, self.columns_out(out), strict=True):
            data[name] = pd.Series(values, dtype=object)
        data["error"] = pd.Series(errors, dtype=object)
        return pd.DataFrame(data)

    def columns_out(self, out: Emitted) -> list[Sequence[Any]]:
        if not self.struct:
            return [out.values]
        rows = [spread(value, self.output) for value in out.values]
        return list(zip(*rows, strict=True))


def spread(value: Any, names: Sequence[str]) -> Sequence[Any]:
    """Return the fields of what a query emits: by name of a mapping, by place of a tuple, or it is the only one."""
    if value is None:
        return [None] * len(names)
    if isinstance(value, Mapping):
        return [value[name] for name in names]
    if len(names) == 1 and not isinstance(value, (tuple, list)):
        return [value]
    if not isinstance(value, (tuple, list)) or len(value) != len(names):
        raise TypeError(f"the query emitted {value!r}, but emits= has the columns {', '.join(names)}")
    return value


def columns_of(part: Any, prefix: str, source: SourceColumns) -> list[list[Any]]:
    """Return the columns of a source as Python values."""
    told = enumerate(zip(source.masked, source.stamped, strict=True))
    return [column(part, f"{prefix}_{n}", masked=masked, stamped=stamped) for n, (masked, stamped) in told]


def column(part: Any, name: str, *, masked: bool, stamped: bool) -> list[Any]:
    """Return one column as Python values."""
    series = part[name]
    if stamped:
        found = [each.replace(tzinfo=UTC) for each in series.to_numpy("int64").astype("M8[us]").tolist()]
    else:
        found = series.tolist()
    if masked and (mask := part[f"{name}_null"]).any():
        for place in compress(range(len(found)), mask.tolist()):
            found[place] = None
    return found


# -- on the driver


def projected(
    frame: DataFrame, number: int, source: SourceColumns, others: Sequence[tuple[int, SourceColumns, StructType]],
    *, key: SourceColumns, seq: str, time: str | None, buckets: int,
) -> DataFrame:  # fmt: skip
    """Return the rows of one source with the columns of all."""
    from pyspark.sql import functions as f

    columns: list[Column] = [
        f.pmod(f.xxhash64(*key.columns), f.lit(buckets)).cast("int").alias(BUCKET),
        f.col(seq).cast("long").alias(SEQ),
        f.lit(number).alias(SOURCE),
        f.unix_micros(f.current_timestamp()).alias(NOW),
        (f.lit(0) if time is None else f.unix_micros(f.col(time))).cast("long").alias(TIME),
    ]
    if time is not None:
        columns.append(f.col(time).alias("_watermarked"))
    for n, name in enumerate(key.columns):
        columns += carried(f.col(name), frame.schema[name].dataType, f"_key_{n}", masked=key.masked[n])
    for n, each, schema in others:
        for place, name in enumerate(each.columns):
            kind = schema[name].dataType
            given = f.col(name) if n == number else f.lit(None).cast(kind)
            columns += carried(given, kind, f"_{n}_{place}", masked=each.masked[place])
    return frame.select(*columns)


def carried(given: Column, kind: DataType, name: str, *, masked: bool) -> list[Column]:
    """Return the column, and its mask, in which values travel."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    stamped = isinstance(kind, TimestampType)
    value = f.unix_micros(given) if stamped else given
    if not masked:
        return [value.alias(name)]
    zero = f.lit(0).cast("long" if stamped else kind)
    return [f.coalesce(value, zero).alias(name), given.isNull().alias(f"{name}_null")]


def source_columns(name: str, schema: StructType, columns: Sequence[str], *, several: bool) -> SourceColumns:
    """Describe the columns of a source. *Raises* `TypeError` for a type that has no plain Python value here."""
    from pyspark.sql import types as t

    numbers = (t.IntegralType, t.FractionalType, t.BooleanType, t.TimestampType)
    simple = (*numbers, t.StringType, t.BinaryType, t.DateType)
    for each in columns:
        if not isinstance(schema[each].dataType, simple):
            raise TypeError(
                f"column {each!r} of {name!r} is {schema[each].dataType.simpleString()}, which no event can hold: "
                f"select what the query needs of it, or to_json(...) it"
            )
    kinds = [schema[each] for each in columns]
    masked = tuple(
        isinstance(field.dataType, numbers) and not isinstance(field.dataType, t.DecimalType)
        and (field.nullable or several) for field in kinds
    )  # fmt: skip
    return SourceColumns(name, tuple(columns), masked, tuple(isinstance(k.dataType, t.TimestampType) for k in kinds))
