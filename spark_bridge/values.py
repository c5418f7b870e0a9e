"""Rows out of Arrow as plain Python values, column by column.

Every value has the type that people expect: timestamps with a zone are `datetime` in UTC (Spark keeps instants, and no
zone), those without are naive, decimals `Decimal`, arrays lists, structs and maps dictionaries, null None. pyarrow
makes one `datetime` in microseconds; NumPy makes them in bulk, text too, and so they are made here; one with a zone is
the epoch and a span, which costs a tenth of ``replace(tzinfo=...)``. A query that takes many and looks at few can have
whole numbers instead: microseconds since 1970, exact, and cheaper still.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.micro_batch_log.columns import canonical_type

Values = Literal["dict", "tuple", "arrow"]
"""What one event is: a row as a dictionary or as a tuple, or a whole Arrow record batch."""
Timestamps = Literal["datetime", "microseconds"]
MAKERS_MAX = 256
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS_MIN = (datetime.min - _EPOCH) // timedelta(microseconds=1)
_MICROSECONDS_MAX = (datetime.max - _EPOCH) // timedelta(microseconds=1)


def rows_of(batch: Any, *, values: Values = "dict", timestamps: Timestamps = "datetime") -> list[Any]:
    """Return the rows of an Arrow record *batch*.

    >>> batch = pa.record_batch({"user": ["ada", None], "at": pa.array([0, 1], pa.timestamp("us", tz="UTC"))})
    >>> rows_of(batch, timestamps="microseconds")
    [{'user': 'ada', 'at': 0}, {'user': None, 'at': 1}]
    >>> rows_of(batch, values="tuple")[0]
    ('ada', datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))

    *Raises* `ValueError` for what Python cannot hold: a timestamp or a date outside of the years 1 to 9999, a map whose
    keys are arrays or structs.
    """
    names = batch.schema.names
    columns = [_values(column, timestamps, name) for name, column in zip(names, batch.columns, strict=True)]
    if not columns:
        return [() if values == "tuple" else {} for _ in range(batch.num_rows)]
    if values == "tuple":
        return list(zip(*columns, strict=True))
    return _dictionaries(tuple(names))(columns)


@lru_cache(MAKERS_MAX)
def _dictionaries(names: tuple[str, ...]) -> Callable[[list[list[Any]]], list[dict[str, Any]]]:
    """Return a function that makes dictionaries with these *names*, written out: ``dict(zip(...))`` takes three times
    as long. As data classes are made, and the names stand in it as literals only."""
    cells = [f"_{place}" for place in range(len(names))]
    body = ", ".join(f"{name!r}: {cell}" for name, cell in zip(names, cells, strict=True))
    made: Callable[[list[list[Any]]], list[dict[str, Any]]]
    made = eval(f"lambda columns: [{{{body}}} for ({', '.join(cells)},) in zip(*columns, strict=True)]")
    return made


def _values(column: Any, timestamps: Timestamps, name: str) -> list[Any]:
    try:
        return column_values(column, timestamps, name)
    except (OverflowError, TypeError, KeyError) as error:
        message = f"column {name!r} holds what is no value of Python's ({error})"
        raise ValueError(f"{message}; read it with values='arrow', or leave it out with columns=") from error


def column_values(column: Any, timestamps: Timestamps, name: str) -> list[Any]:
    """Return one *column* as Python values."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        if timestamps == "microseconds":
            return _plain(column.cast(canonical_type(kind)).cast(pa.int64()))
        return _datetimes(column, name)
    if pa.types.is_nested(kind) and _has_timestamp(kind):
        return _nested(column, timestamps, name)
    return _plain(column)


def _plain(column: Any) -> list[Any]:
    kind = column.type
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or (numbers and not column.null_count):
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    return list(column.to_pylist(maps_as_pydicts="strict"))


def _datetimes(column: Any, name: str) -> list[Any]:
    kind = column.type
    exact = column.cast(canonical_type(kind))
    _check_range(exact, name)
    if kind.tz is None:
        return list(exact.to_numpy(zero_copy_only=False).tolist())
    since = exact.cast(pa.int64()).cast(pa.duration("us")).to_numpy(zero_copy_only=False).tolist()
    if not column.null_count:
        return [_EPOCH_UTC + each for each in since]
    return [None if each is None else _EPOCH_UTC + each for each in since]


def _check_range(column: Any, name: str) -> None:
    """NumPy gives numbers instead of datetimes for what lies outside."""
    extent = pc.min_max(column.cast(pa.int64())).as_py()
    least, most = extent["min"], extent["max"]
    if least is not None and (least < _MICROSECONDS_MIN or most > _MICROSECONDS_MAX):
        worst = least if least < _MICROSECONDS_MIN else most
        message = f"column {name!r} has a timestamp outside of the years 1 to 9999 ({worst} microseconds since 1970)"
        raise ValueError(f"{message}; read it with timestamps='microseconds'")


def _has_timestamp(kind: Any) -> bool:
    if pa.types.is_timestamp(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_timestamp(kind.field(i).type) for i in range(kind.num_fields))


def _nested(column: Any, timestamps: Timestamps, name: str) -> list[Any]:
    """Build what is nested from its parts, so that the timestamps in it are made as all others are."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _structs(column, timestamps, name)
    if pa.types.is_map(kind):
        keys = column_values(column.keys, timestamps, name)
        items = column_values(column.items, timestamps, name)
        pairs = list(zip(keys, items, strict=True))
        return _cut(column, pairs, dict)
    return _cut(column, column_values(column.values, timestamps, name), list)


def _structs(column: Any, timestamps: Timestamps, name: str) -> list[Any]:
    fields = [column.type.field(i).name for i in range(column.type.num_fields)]
    parts = [
        column_values(part, timestamps, f"{name}.{field}") for field, part in zip(fields, column.flatten(), strict=True)
    ]
    rows = [dict(zip(fields, row, strict=True)) for row in zip(*parts, strict=True)]
    valid = column.is_valid().to_pylist()
    return [row if there else None for row, there in zip(rows, valid, strict=True)]


def _cut(column: Any, flat: list[Any], make: Callable[[list[Any]], Any]) -> list[Any]:
    """Return the slices of *flat* that belong to each cell of *column*."""
    offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    bounds = zip(offsets, offsets[1:], valid, strict=False)
    return [make(flat[start:end]) if there else None for start, end, there in bounds]
