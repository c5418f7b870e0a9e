"""The columns of a log: one Arrow schema for its whole life, the same whatever the session of Spark was set to.

Spark's Arrow types depend on settings that say nothing about the rows: the session's time zone stands in every
timestamp that has one, large strings can be switched on, and whether a column may be null depends on the plan. So a log
keeps timestamps with a zone in UTC (Spark keeps instants and no zone either), plain strings, and columns that may all
be null. What differs after that differs.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from spark_bridge.micro_batch_log.errors import LogRefused

PARTITION = "_log_partition"
"""The column that says into which partition of a log a row belongs, where there are several. It is not kept."""


def canonical(schema: Any) -> Any:
    """Return *schema* as a log keeps it.

    >>> canonical(pa.schema([pa.field("t", pa.timestamp("us", tz="Europe/Rome"), nullable=False)]))
    t: timestamp[us, tz=UTC]
    """
    return pa.schema([_field(each) for each in schema])


def _field(field: Any) -> Any:
    return pa.field(field.name, canonical_type(field.type))


def canonical_type(kind: Any) -> Any:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_struct(kind):
        return pa.struct([_field(each) for each in kind])
    if types.is_map(kind):
        return pa.map_(canonical_type(kind.key_type), canonical_type(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", canonical_type(kind.value_type)))
    return kind


def fitted(batch: Any, schema: Any, *, where: str) -> Any:
    """Return *batch* with the columns of *schema*. *Raises* `LogRefused` naming those that differ."""
    if batch.schema.equals(schema):
        return batch
    check_columns(canonical(batch.schema), schema, where=where)
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
    )


def check_columns(found: Any, wanted: Any, *, where: str) -> None:
    """Check that rows with the columns *found* belong into a log that has those *wanted*."""
    if found.equals(wanted):
        return
    has, comes = described(wanted), described(found)
    differ = [f"{name} is {comes.get(name, 'missing')} instead of {kind}" for name, kind in has.items()]
    differ = [each for each, name in zip(differ, has, strict=True) if comes.get(name) != has[name]]
    differ += [f"{name} ({kind}) is new" for name, kind in comes.items() if name not in has]
    what = "; ".join(differ) or "the columns come in another order"
    message = f"{where} has other columns than these rows: {what}. A log keeps its columns: use a new directory"
    raise LogRefused(message, where=where, found=has, wanted=comes)


def described(schema: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def to_text(schema: Any) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def from_text(text: str) -> Any:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
