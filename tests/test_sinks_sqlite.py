"""The table sink and what SQLite refuses: a value is refused where it is written, a database in words of ours."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import QueryEvaluator
from hosting.sinks import SqliteTableSink, sqlite_positions
from hosting.sinks.cells import Cells
from reliable_rx.errors import CheckpointRefused, StoreUnavailable, ValueRefused
from reliable_rx.reliable import DeadLetter


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def change(path: Path, sql: str) -> None:
    database = sqlite3.connect(path)
    try:
        database.executescript(sql)
    finally:
        database.close()


def test_a_row_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused when it is written, by its cells or by all of them; the rows beside it go in."""
    real = sqlite_positions.connected

    def connect(path: str) -> sqlite3.Connection:
        database = real(path)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 300_000)
        return database

    monkeypatch.setattr(sqlite_positions, "connected", connect)
    sink = SqliteTableSink(tmp_path / "o.db", "t")
    sink.open("s")
    fits = {"a": "x" * 100_000, "b": b"y" * 100_000}
    half = "x" * 150_000
    for long in ({"a": half * 2, "b": None}, {"a": "é" * 150_000, "b": 1}, {"a": half, "b": half.encode()}):
        with pytest.raises(ValueRefused, match="SQLite takes 300,000") as caught:
            sink.write(0, [fits, long])
        assert caught.value.n == 1
    sink.write(0, [fits, {"a": "x", "b": 1}])
    sink.flush()
    sink.close()
    assert rows_of(tmp_path / "o.db", "SELECT id, length(a) FROM t") == [(0, 100_000), (1, 1)]


@pytest.mark.parametrize("value", [{"a\0b": 1}, {"\ud800": 1}, {"id": 1}, {"a": 1, "A": 2}, {}], ids=ascii)
def test_a_first_value_that_makes_no_table(tmp_path: Path, value: Any) -> None:
    """It is refused as any other, and does not say which columns there are: the first that fits does."""
    sink = SqliteTableSink(tmp_path / "o.db", "t")
    sink.open("s")
    with pytest.raises(ValueRefused, match="value 0 does not fit"):
        sink.write(0, [value, {"ok": 1}])
    sink.skip(0, 1, "why", None)
    sink.write(1, [{"ok": 1}])
    sink.flush()
    sink.close()
    assert rows_of(tmp_path / "o.db", "SELECT id, ok FROM t") == [(1, 1)]


def test_subclasses_are_stored_as_what_they_are(tmp_path: Path) -> None:
    """A number stays a number, whatever its class."""

    class Number(int): ...

    class Share(float): ...

    class Name(str):
        def __str__(self) -> str:
            return "another"

    sink = SqliteTableSink(tmp_path / "o.db", "t")
    sink.open("s")
    sink.write(0, [{"a": Number(7), "b": Share(0.5), "c": Name("name"), "d": True, "e": 10**5000}])
    sink.flush()
    sink.close()
    found = rows_of(tmp_path / "o.db", "SELECT a, b, c, d, typeof(a), typeof(b), length(e) FROM t")
    assert found == [(7, 0.5, "name", 1, "integer", "real", 5001)]


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It is refused and keeps every byte."""
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 1000)
    with pytest.raises(CheckpointRefused, match="file is not a database"):
        SqliteTableSink(path, "t").open("s")
    assert path.read_text() == "my notes\n" * 1000


CHANGES: dict[str, Callable[[Path], None]] = {
    "its table is gone": lambda path: change(path, "DROP TABLE t"),
    "a column is gone": lambda path: change(path, "ALTER TABLE t RENAME COLUMN value TO other"),
    "its id is there": lambda path: change(path, "INSERT INTO t VALUES (1, 'mine')"),
    "its position is gone": lambda path: change(path, "DELETE FROM reliable_rx_sinks"),
    "the registry is gone": lambda path: change(path, "DROP TABLE reliable_rx_sinks"),
    "a rule refuses the row": lambda path: change(
        path, "CREATE TRIGGER never BEFORE INSERT ON t BEGIN SELECT raise(ABORT, 'not you'); END"
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_database_that_somebody_has_changed(tmp_path: Path, what: str) -> None:
    """Waiting mends nothing: the flush is refused in words of ours, and says which table."""
    path = tmp_path / "o.db"
    sink = SqliteTableSink(path, "t")
    sink.open("s")
    sink.write(0, ["a"])
    sink.flush()
    CHANGES[what](path)
    sink.write(1, ["b"])
    with pytest.raises(CheckpointRefused, match=r"table t of .*o.db"):
        sink.flush()
    sink.close()


def test_a_database_that_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock passes: it is not available, and the same flush goes in afterwards."""
    path = tmp_path / "o.db"
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **{**k, "timeout": 0}))
    sink = SqliteTableSink(path, "t")
    sink.open("s")
    sink.write(0, ["a"])
    other = real(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        sink.flush()
    other.execute("ROLLBACK")
    other.close()
    sink.flush()
    sink.close()
    assert rows_of(path, "SELECT id FROM t") == [(0,)]


def test_letters_and_positions_are_one_transaction(tmp_path: Path) -> None:
    """What was set aside and not flushed is as if it had not been; it comes again, and is there once."""
    path = tmp_path / "o.db"
    for flushes in (False, True, True):
        sink = SqliteTableSink(path, "t")
        wanted = sink.open("s") or 0
        if wanted < 2:
            sink.write(0, ["a"])
            with pytest.raises(ValueRefused):
                sink.write(1, [b"b"])
            sink.skip(1, 2, "why", DeadLetter("s", "", 1, b"b", "why"))
        if flushes:
            sink.flush()
        sink.close()
    assert rows_of(path, "SELECT id, error, value FROM reliable_rx_dead_letters") == [(1, "why", "b'b'")]
    assert rows_of(path, "SELECT id FROM t") == [(0,)]


def test_what_behaves_like_text_or_a_number_is_stored_as_one() -> None:
    """An object of a subclass becomes what SQLite holds, and long text is looked at whatever its class."""

    class Text(str): ...

    class Whole(int): ...

    cells = Cells(1 << 10)
    for value, kind in ((Text("a"), str), (Whole(3), int), (True, bool), (Decimal("1.50"), str)):
        assert type(cells.cell(value)) is kind
    with pytest.raises(ValueError, match="bytes"):
        cells.rows((), [0], [Text("x" * 100_000)], {"text": lambda value: value})


def life(path: Path, store: SqliteStore, values: list[int], **how: int) -> list[str]:
    """Run once, push *values* and write what comes out; return the incidents."""
    with QueryEvaluator(store, **how) as evaluator:  # type: ignore[arg-type]
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda n: n))
        evaluator.sink("q", SqliteTableSink(path, "q"))
        evaluator.start()
        pushed.push(values)
        evaluator.run(until=lambda: evaluator.stream("q").visible > values[-1])
        evaluator.checkpoint()
        return [str(each) for each in evaluator.statistics().incidents]


def test_a_table_that_was_dropped_is_written_again(tmp_path: Path) -> None:
    """Between two runs, with the stream still there from its first id: all rows come again, and it is told."""
    with SqliteStore(tmp_path / "s") as store:
        life(tmp_path / "o.db", store, [0, 1, 2])
    change(tmp_path / "o.db", "DROP TABLE q")
    with SqliteStore(tmp_path / "s") as store:
        assert "is gone" in life(tmp_path / "o.db", store, [3, 4])[0]
    assert rows_of(tmp_path / "o.db", "SELECT id, value FROM q") == [(n, str(n)) for n in range(5)]


def test_a_table_that_was_dropped_is_never_made_with_a_hole(tmp_path: Path) -> None:
    """Where the stream has let go of what was in it, the sink fails with a sentence, at every start."""
    for values in ([0, 1, 2], [3, 4], [5]):
        with SqliteStore(tmp_path / "s") as store:
            assert not life(tmp_path / "o.db", store, values, retain_events=1)
    change(tmp_path / "o.db", "DROP TABLE q")
    for values in ([6], [7]):
        with SqliteStore(tmp_path / "s") as store:
            told = life(tmp_path / "o.db", store, values, retain_events=1)
        assert any("no longer kept" in each for each in told)
        assert not rows_of(tmp_path / "o.db", "SELECT 1 FROM sqlite_master WHERE name = 'q'")


def test_a_table_that_never_was_is_not_missed(tmp_path: Path) -> None:
    """A position moves without a row, by values that were skipped; letters may come again."""
    for first in (0, 1):
        sink = SqliteTableSink(tmp_path / "o.db", "t")
        assert sink.open("s") == first
        sink.skip(first, first + 1, "why", DeadLetter("s", "", first, 1, "no"))
        sink.flush()
        sink.close()
    for expected in (2, 0):
        sink = SqliteTableSink(tmp_path / "o.db", "t")
        assert sink.open("s") == expected
        if not expected:
            assert "is gone" in sink.remark
            for n in range(2):
                sink.skip(n, n + 1, "why", DeadLetter("s", "", n, 1, "no"))
        sink.write(2, [5])
        sink.flush()
        sink.close()
        change(tmp_path / "o.db", "DROP TABLE t")
    assert [row[0] for row in rows_of(tmp_path / "o.db", "SELECT id FROM reliable_rx_dead_letters")] == [0, 1]


def test_a_dropped_table_is_missed_by_all_its_partitions(tmp_path: Path) -> None:
    """The one that makes it anew tells the others, those that are open as well."""
    sinks = [SqliteTableSink(tmp_path / "o.db", "t", partition=name) for name in "abc"]
    for sink in sinks:
        sink.open("s")
        sink.write(0, [1, 2])
        sink.flush()
    sinks[0].close()
    sinks[1].close()
    change(tmp_path / "o.db", "DROP TABLE t")
    assert sinks[0].open("s") == 0
    sinks[0].write(0, [1, 2])
    sinks[0].flush()
    assert sinks[1].open("s") == 0
    sinks[2].write(2, [3])
    with pytest.raises(CheckpointRefused, match="dropped"):
        sinks[2].flush()
    for sink in sinks:
        sink.close()


@given(st.lists(st.sampled_from(["value", "skip", "end", "flush", "lost answer", "refused", "next run"]), max_size=12))
def test_a_commit_whose_answer_is_lost_is_made_once(steps: list[str]) -> None:
    """Whatever comes before it and before the retry: rows, skipped ids, ends; the last end is the one that is there."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path, real = Path(folder, "o.db"), sqlite_positions.transaction
        fault = [""]

        @contextmanager
        def transaction(database: Any) -> Iterator[Any]:
            kind, fault[0] = fault[0], ""
            with real(database) as given:
                yield given
                if kind == "refused":
                    raise sqlite3.OperationalError("disk I/O error")
            if kind == "lost answer":
                raise sqlite3.OperationalError("disk I/O error")

        def opened() -> SqliteTableSink:
            sink = SqliteTableSink(path, "t")
            assert sink.open("s") is not None
            return sink

        patch.setattr(sqlite_positions, "transaction", transaction)
        sink, told = opened(), list[str]()
        for step in steps:
            if step == "value":
                sink.write(len(told), ["v"])
            elif step == "skip":
                sink.skip(len(told), len(told) + 1, "why", None)
            elif step == "end":
                sink.end(len(told), None)
            else:
                fault[0] = step if step in ("lost answer", "refused") else ""
                with suppress(StoreUnavailable):
                    sink.flush()
                fault[0] = ""  # where there was nothing to commit
            told += [step] * (step in ("value", "skip", "end"))
            if step == "next run":
                sink.flush()
                sink.close()
                sink = opened()
        sink.flush()
        sink.close()
        values = [n for n, kind in enumerate(told) if kind == "value"]
        found = rows_of(path, "SELECT next_id, ended_id FROM reliable_rx_sinks")
        assert found[0][0] == len(told) and (not told or (found[0][1] is not None) == (told[-1] == "end"))
        assert found[0][1] in (None, len(told) - 1)
        if values:
            assert [n for (n,) in rows_of(path, "SELECT id FROM t")] == values
