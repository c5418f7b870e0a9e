"""Packets between Spark and a bucket, without Spark: every type of column comes in and goes out as what it is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_bridge.keyed import Emitted
from spark_bridge.micro_batch_log.columns import canonical_type
from spark_bridge.on_spark.layout import Layout, SourceColumns
from spark_bridge.on_spark.packets import PACKET_ROWS_MAX, packed, packing, sealed, unpacked, unpacking

NOON = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
ROME = pa.timestamp("us", tz="Europe/Rome")
TYPES: dict[str, tuple[Any, Any]] = {
    "long": (pa.int64(), -(2**63)),
    "double": (pa.float64(), 0.1),
    "text": (pa.large_string(), "ä"),
    "bytes": (pa.binary(), b"\0\1"),
    "truth": (pa.bool_(), True),
    "day": (pa.date32(), date(2026, 7, 1)),
    "instant": (ROME, NOON),
    "no zone": (pa.timestamp("us"), NOON.replace(tzinfo=None)),
    "span": (pa.duration("us"), timedelta(seconds=1.5)),
    "decimal": (pa.decimal128(20, 3), Decimal("123456789012345.678")),
    "array": (pa.list_(pa.int32()), [1, None, 3]),
    "array of instants": (pa.list_(ROME), [NOON, None]),
    "struct": (pa.struct([("a", pa.int64()), ("at", ROME)]), {"a": 1, "at": NOON}),
    "map": (pa.map_(pa.string(), pa.decimal128(5, 2)), {"x": Decimal("1.50"), "y": None}),
    "map of structs": (pa.map_(pa.string(), pa.struct([("n", pa.list_(pa.int8()))])), {"x": {"n": [1]}}),
}


def layout(kind: Any, **how: Any) -> Layout:
    kind = canonical_type(kind)
    sequence = pa.field("sequence id", pa.int64())
    source = SourceColumns("s", pa.schema([sequence, ("k", pa.string()), ("v", kind)]), (1,), (1, 2), ("k", "v"))
    fields = [("k", pa.string()), ("id", pa.int64()), ("kind", pa.string()), ("value", kind), ("error", pa.string())]
    told: dict[str, Any] = {"value": None, "rows": "dict", "event_time": False, "emitted": None, **how}
    return Layout(("k",), (source,), output=pa.schema(fields), **told)


@pytest.mark.parametrize("name", TYPES)
def test_values_keep_their_types_in_and_out(name: str) -> None:
    """What Spark's Arrow holds is a plain value in an event, and the same again when a query emits it; null is None."""
    kind, value = TYPES[name]
    rows = pa.record_batch(
        {"b": pa.array([3, 3], pa.int32()), "n": [5, 4], "k": ["x", None], "v": pa.array([value, None], kind)}
    )
    how = layout(kind)
    (packet,) = packed([rows], how.sources[0].schema).column("packet").to_pylist()
    arrivals = how.arrivals([(packet, 0)])
    assert (arrivals.keys, arrivals.seqs) == (["x", None], [5, 4])
    assert arrivals.values == [{"k": "x", "v": value}, {"k": None, "v": None}]
    out = Emitted()
    out.add("x", 7, [event["v"] for event in arrivals.values])
    back = unpacked(how.packet(out), how.output)
    assert back.schema.field("value").type == canonical_type(kind)
    found = how.sources[0].schema.with_metadata(None)
    again = pa.record_batch([pa.array([0, 1]), back["k"], back["value"]], schema=found)
    assert [each["v"] for each in how.arrivals([(sealed(again), 0)]).values] == [value, None]


WRONG: dict[str, tuple[Any, Any]] = {
    "a fraction": (pa.int64(), 1.5),
    "a fraction in an array": (pa.list_(pa.int64()), [1, 2.0]),
    "a text": (pa.float64(), "1"),
    "too large": (pa.int8(), 300),
    "more digits": (pa.decimal128(5, 2), Decimal("1.234")),
    "no zone": (ROME, NOON.replace(tzinfo=None)),
    "a zone": (pa.timestamp("us"), NOON),
    "no zone in a map": (pa.map_(pa.string(), ROME), {"x": NOON.replace(tzinfo=None)}),
    "a field too many": (pa.struct([("a", pa.int64())]), {"a": 1, "b": 2}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_and_never_changed(name: str) -> None:
    """A value that a column cannot hold as it is fails the query with the value, the column and its type."""
    kind, value = WRONG[name]
    out = Emitted()
    out.add("x", 0, [None, value])
    with pytest.raises(TypeError, match="for the column 'value', which is") as refused:
        layout(kind).packet(out)
    assert repr(value) in str(refused.value)


def test_ends_and_columns_of_what_is_emitted() -> None:
    """Terminal notifications have no value, an error has its text, and records are spread over their columns."""
    out = Emitted()
    out.add("x", 0, [1])
    out.end("x", 1, ValueError("no"))
    out.end("y", 0, None)
    rows = unpacked(layout(pa.int64()).packet(out), layout(pa.int64()).output).to_pylist()
    assert [(row["kind"], row["value"], row["error"]) for row in rows] == [
        ("next", 1, None),
        ("error", None, "ValueError: no"),
        ("completed", None, None),
    ]
    out = Emitted()
    out.add("x", 0, [(1,), {"value": 2}, 3])
    named = layout(pa.int64(), emitted=("value",))
    assert unpacked(named.packet(out), named.output)["value"].to_pylist() == [1, 2, 3]
    out.add("x", 3, [{"other": 2}])
    with pytest.raises(TypeError, match="emits= has the columns value"):
        named.packet(out)


def test_packets_are_cut_by_bucket_and_size() -> None:
    """Batches are gathered up to a number of rows; each packet has the rows of one bucket in the order they came."""
    schema = pa.schema([("n", pa.int64())])
    size = PACKET_ROWS_MAX // 4

    def batches() -> Any:
        for first in range(0, 6 * size, size):
            numbers = pa.array(range(first, first + size))
            yield pa.record_batch({"bucket": pa.array([n % 3 for n in numbers.to_pylist()], pa.int32()), "n": numbers})

    made = list(packing(schema)(batches()))
    assert [batch.num_rows for batch in made] == [3, 3]
    heard: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for batch in made:
        for bucket, packet in zip(batch["bucket"].to_pylist(), batch["packet"].to_pylist(), strict=True):
            heard[bucket] += unpacked(packet, schema)["n"].to_pylist()
    assert heard == {bucket: list(range(bucket, 6 * size, 3)) for bucket in heard}
    rows = [batch.num_rows for batch in unpacking(schema)(iter([batch.select(["packet"]) for batch in made]))]
    assert sum(rows) == 6 * size


def test_a_row_without_an_id_or_time_is_refused() -> None:
    """A null where the order comes from is an error that says which column."""
    how = layout(pa.int64())
    rows = pa.record_batch([pa.array([None], pa.int64()), ["x"], [1]], schema=how.sources[0].schema)
    with pytest.raises(ValueError, match="1 rows have no sequence id"):
        how.arrivals([(sealed(rows), 0)])
