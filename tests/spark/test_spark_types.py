"""Values keep their types, out of Spark and back: every type that Spark has and Arrow can carry, nested and null too.

Out: what Python sees of it. Back: the same rows as Spark reads them from the log, and once more after they have been
Python values, through a `MicroBatchSink`, which is the way of a standing query's stream.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from spark_world import finish, logged, put, stream

from spark_bridge import MicroBatchSink, MicroBatchSource, publish, register

ONCE = {"availableNow": True}
NOON = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TYPES: dict[str, tuple[str, Any]] = {
    "flag": ("true", True),
    "byte": ("cast(-128 as tinyint)", -128),
    "short": ("cast(32767 as smallint)", 32767),
    "int": ("cast(-7 as int)", -7),
    "long": ("cast(9223372036854775807 as bigint)", 2**63 - 1),
    "float": ("cast(1.5 as float)", 1.5),
    "nan": ("cast('NaN' as double)", float("nan")),
    "minus_zero": ("cast('-0.0' as double)", -0.0),
    "infinity": ("cast('-Infinity' as float)", float("-inf")),
    "text": ("concat('żółw ', char(0), '🐢')", "żółw \x00🐢"),
    "empty": ("''", ""),
    "raw": ("X'00ff10'", b"\x00\xff\x10"),
    "no_bytes": ("X''", b""),
    "money": ("cast('-12345678901234567890.123456789012345678' as decimal(38, 18))",
              Decimal("-12345678901234567890.123456789012345678")),
    "small_money": ("cast('1.50' as decimal(4, 2))", Decimal("1.50")),
    "first_day": ("date '0001-01-01'", date(1, 1, 1)),
    "last_day": ("date '9999-12-31'", date(9999, 12, 31)),
    "at": ("timestamp '2026-07-01 14:00:00.123456 Europe/Rome'", NOON),
    "early": ("timestamp '0001-01-01 00:00:00 UTC'", datetime(1, 1, 1, tzinfo=UTC)),
    "late": ("timestamp '9999-12-31 23:59:59.999999 UTC'", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    "wall": ("timestamp_ntz '2026-07-01 14:00:00.123456'", datetime(2026, 7, 1, 14, 0, 0, 123456)),
    "span": ("interval '-1 02:03:04.5' day to second", -timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    "nothing": ("null", None),
    "numbers": ("array(1, null, 3)", [1, None, 3]),
    "no_numbers": ("cast(array() as array<int>)", []),
    "moments": ("array(timestamp '2026-07-01 14:00:00.123456 Europe/Rome', null)", [NOON, None]),
    "monies": ("array(cast(1.5 as decimal(6, 2)), null)", [Decimal("1.50"), None]),
    "nans": ("array(cast('NaN' as double), cast('-0.0' as double), null)", [float("nan"), -0.0, None]),
    "spans": ("array(interval '0 00:00:01' day to second)", [timedelta(seconds=1)]),
    "raws": ("array(X'00', null, X'')", [b"\x00", None, b""]),
    "record": ("named_struct('a', 1, 'b', null, 'c', named_struct('d', X'01'))",
               {"a": 1, "b": None, "c": {"d": b"\x01"}}),
    "book": ("map('x', named_struct('price', cast(2.5 as decimal(6, 2)),"
             " 'at', timestamp '2026-07-01 12:00:00.123456 UTC'), 'y', null)",
             {"x": {"price": Decimal("2.50"), "at": NOON}, "y": None}),
    "by_day": ("map(date '2026-07-01', array(1.5BD, null))", {date(2026, 7, 1): [Decimal("1.5"), None]}),
    "by_moment": ("map(timestamp '2026-07-01 12:00:00.123456 UTC', map(1, 'a'))", {NOON: {1: "a"}}),
    "no_book": ("cast(map() as map<string, int>)", {}),
    "deep": ("array(array(named_struct('m', map(1, array(timestamp_ntz '2026-07-01 14:00:00')))), null, array())",
             [[{"m": {1: [datetime(2026, 7, 1, 14)]}}], None, []]),
}  # fmt: skip


def typed(frame: Any) -> Any:
    """Return a frame with a row of values for n = 0, and a row of nulls for n = 1."""
    return frame.selectExpr("n", *(f"if(n = 0, {sql}, null) as {name}" for name, (sql, _) in TYPES.items()))


@pytest.fixture(scope="module")
def log(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish all types, with the session in Rome."""
    where = tmp_path_factory.mktemp("types")
    put(where / "in", 0, range(2))
    finish(publish(typed(stream(spark, where / "in")), where / "log", checkpoint=where / "checkpoint", trigger=ONCE))
    register(spark)
    return where / "log"


def same(found: Any, wanted: Any) -> bool:
    return repr(found) == repr(wanted)  # which tells types and -0.0 apart, and NaN not


@pytest.mark.parametrize("name", TYPES)
def test_python_sees_the_value(log: Path, name: str) -> None:
    """Equal and of the type that one expects; null is None."""
    full, null = logged(log, columns=[name])
    wanted = TYPES[name][1]
    assert same(full[name], wanted)
    assert type(full[name]) is type(wanted)
    assert null == {name: None}


def test_tuples_and_arrow_hold_the_same(log: Path) -> None:
    """However an event is made, the values are those of pyarrow."""
    names = list(TYPES)
    (tuple_, _), (rows, _) = logged(log, values="tuple", columns=names), logged(log, columns=names)
    assert same(list(tuple_), [rows[name] for name in names])
    batches = MicroBatchSource(log, reader="arrow", values="arrow").open("0", 0).fetch(9).values
    assert sum(batch.num_rows for batch in batches) == 2


def test_spark_reads_what_it_had(spark: Any, log: Path) -> None:
    """From the log, value by value, as Spark compares and as it prints them."""
    assert differing(spark, log) == []


def test_spark_reads_what_python_had_in_hand(spark: Any, log: Path, tmp_path: Path) -> None:
    """The rows as Python values, written as a stream's by a sink, are what Spark had."""
    identity = MicroBatchSource(log, reader="schema").view.identity
    assert identity is not None
    sink = MicroBatchSink(tmp_path / "back", identity.schema)
    sink.open("typed")
    sink.write(0, logged(log))
    sink.flush()
    assert differing(spark, tmp_path / "back") == []


def differing(spark: Any, log: Path) -> list[str]:
    """Name the columns that are not as SQL makes them."""
    back = spark.read.format("reliable_rx").option("path", str(log)).option("positions", "false").load()
    plain = typed(spark.range(2).withColumnRenamed("id", "n"))
    kinds = {each.name: each.dataType.simpleString() for each in plain.schema}
    assert {each.name: each.dataType.simpleString() for each in back.schema} == kinds
    shown = [f"cast(struct({name}) as string) as {name}" for name in TYPES]
    (was, now) = ([row.asDict() for row in each.orderBy("n").selectExpr(*shown).collect()] for each in (plain, back))
    return [name for name in TYPES if [row[name] for row in was] != [row[name] for row in now]]


def test_years_that_python_does_not_have(spark: Any, tmp_path: Path) -> None:
    """Spark holds years before 1 and after 9999: an error that names the column and the way out, which holds them."""
    put(tmp_path / "in", 0, [0])
    early = -70_000_000_000_000_000
    frame = stream(spark, tmp_path / "in").selectExpr(f"timestamp_micros({early}) as early")
    finish(publish(frame, tmp_path / "log", checkpoint=tmp_path / "checkpoint", trigger=ONCE))
    with pytest.raises(Exception, match=r"column 'early' has a timestamp outside.*timestamps='microseconds'"):
        logged(tmp_path / "log")
    assert logged(tmp_path / "log", timestamps="microseconds") == [{"early": early}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("interval '1-2' year to month", "column 'x' is interval year to month, which a log cannot keep"),
        ("parse_json('[1]')", "column 'x' is variant, which would come back as struct<.*; cast it"),
        ("array(make_interval(1, 2))", "column 'x' is array<interval>"),
    ],
)
def test_what_arrow_cannot_carry_is_refused_at_once(spark: Any, tmp_path: Path, sql: str, said: str) -> None:
    """Before the query begins, with the column's name."""
    put(tmp_path / "in", 0, [0])
    with pytest.raises(ValueError, match=said):
        publish(stream(spark, tmp_path / "in").selectExpr(f"{sql} as x"), tmp_path / "log", checkpoint=tmp_path / "cp")
