"""Rows out of Arrow: every type comes as the Python value that people expect, exactly, nested and null ones too."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_bridge.values import Timestamps, column_values, rows_of

ROME = pa.timestamp("us", tz="UTC")
LOCAL = pa.timestamp("us")
NOON = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
EARLY, LATE = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, None, False]),
    "byte": (pa.int8(), [-128, None, 127]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "float": (pa.float32(), [1.5, None, float("inf")]),
    "double": (pa.float64(), [1e300, -0.5, None]),
    "text": (pa.string(), ["żółw", "", None]),
    "bytes": (pa.binary(), [b"\x00\xff", b"", None]),
    "decimal": (pa.decimal128(38, 18), [Decimal("1.500000000000000001"), None, Decimal(-3).quantize(Decimal("1e-18"))]),
    "date": (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    "span": (pa.duration("us"), [timedelta(days=-3, microseconds=1), None, timedelta(0)]),
    "instant": (ROME, [NOON, None, LATE.replace(tzinfo=UTC)]),
    "wall": (LOCAL, [EARLY, LATE, None]),
    "array": (pa.list_(pa.int32()), [[1, None], [], None]),
    "instants": (pa.list_(ROME), [[NOON, None], None, []]),
    "struct": (
        pa.struct([("at", ROME), ("n", pa.int64())]),
        [{"at": NOON, "n": 1}, None, {"at": None, "n": None}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [{"a": 1, "b": None}, None, {}]),
    "times": (
        pa.map_(LOCAL, pa.list_(pa.struct([("at", ROME)]))),
        [{EARLY: [{"at": NOON}, None], LATE: None}, None, {}],
    ),
    "null": (pa.null(), [None, None, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_gives_back_what_went_in(name: str) -> None:
    """Values are equal and of the same type; also out of the middle of a column, as slices share its memory."""
    kind, values = COLUMNS[name]
    array = pa.array(values, kind)
    assert same(column_values(array, "datetime", name), values)
    padded = pa.concat_arrays([array, array, array])
    assert same(column_values(padded[2:5], "datetime", name), [values[2], *values[:2]])
    assert column_values(array[:0], "datetime", name) == []


def same(found: list[Any], wanted: list[Any]) -> bool:
    return repr(found) == repr(wanted)  # which tells types, zones and -0.0 apart


def test_a_zone_is_utc_whatever_the_session_was_set_to() -> None:
    """The same instant, written in a session in Rome, comes in UTC."""
    there = datetime(2026, 7, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    array = pa.array([there], pa.timestamp("us", tz="Europe/Rome"))
    assert same(column_values(array, "datetime", "at"), [there.astimezone(UTC)])


@pytest.mark.parametrize("name", ["instant", "wall", "instants", "struct", "times"])
def test_microseconds_are_the_same_moments(name: str) -> None:
    """Whole numbers since 1970 instead, also inside of what is nested; they make the same datetimes."""
    kind, values = COLUMNS[name]
    found = column_values(pa.array(values, kind), "microseconds", name)
    assert found == [as_microseconds(each) for each in values]


def as_microseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    if isinstance(value, dict):
        return {as_microseconds(key): as_microseconds(each) for key, each in value.items()}
    return [as_microseconds(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("moment", [2**62, -(2**62)])
def test_a_moment_that_datetime_cannot_hold_is_an_error_with_a_way_out(moment: int) -> None:
    """Spark holds years far beyond 9999; NumPy would give a number there, silently."""
    array = pa.array([0, moment, None], LOCAL)
    with pytest.raises(ValueError, match=r"column 'at' has a timestamp outside.*timestamps='microseconds'"):
        column_values(array, "datetime", "at")
    assert column_values(array, "microseconds", "at") == [0, moment, None]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([None, -800_000], pa.date32()),
        pa.array([[4_000_000]], pa.list_(pa.date32())),
        pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int64())]), pa.int64())),
        pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_what_python_cannot_hold_is_an_error_that_names_the_column(array: Any) -> None:
    """Dates far away, keys that are structs, the same key twice: never a wrong value."""
    with pytest.raises(ValueError, match=r"column 'x' holds what is no value of Python's.*values='arrow'"):
        rows_of(pa.record_batch({"x": array}))


@pytest.mark.parametrize("timestamps", ["datetime", "microseconds"])
def test_rows_as_dictionaries_and_as_tuples(timestamps: Timestamps) -> None:
    """A row has the columns in their order."""
    batch = pa.record_batch({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})
    rows, tuples = rows_of(batch, timestamps=timestamps), rows_of(batch, values="tuple", timestamps=timestamps)
    assert [list(row) for row in rows] == [list(COLUMNS)] * 3
    assert repr([tuple(row.values()) for row in rows]) == repr(tuples)
    if timestamps == "datetime":
        assert repr(rows) == repr([{name: values[i] for name, (_, values) in COLUMNS.items()} for i in range(3)])


def test_names_of_columns_are_only_names() -> None:
    """Quotes, braces and what looks like code stand in a row as they are; a batch without columns has empty rows."""
    names = ["a'b", 'c"d', "{e}", "f\\", "__import__('os')", "", "_0", "for"]
    batch = pa.record_batch([pa.array([n, n]) for n in range(len(names))], names=names)
    assert rows_of(batch) == [{name: n for n, name in enumerate(names)}] * 2
    assert rows_of(batch.select([])) == [{}, {}]
    assert rows_of(batch.select([]), values="tuple") == [(), ()]
