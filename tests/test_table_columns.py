"""A table of which the columns are others by now: what is said of it helps, and loses no row."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lanes import every

from hosting import SqliteTableSink
from reliable_rx.errors import CheckpointRefused

COLUMNS = ["a", "b", "a b", "b a", "a b c", "c a b", "b c", "A b", 'a "', "a id2"]


def of(name: str) -> Callable[[Any], Any]:
    return lambda value: f"{name} of {value}"


def fill(path: Path, first: int, names: str, partition: str | None) -> None:
    sink = SqliteTableSink(path, "t", columns={each: of(each) for each in names.split()}, partition=partition)
    with closing(sink):
        assert sink.open("s") == first
        sink.write(first, [first])
        sink.flush()


def do_what_is_said(path: Path, said: str) -> None:
    statements = re.findall(r"ALTER TABLE [^;]*", said)
    assert statements and "drop this one" not in said
    with closing(sqlite3.connect(path)) as database:
        for each in statements:
            database.execute(each)


@pytest.mark.parametrize("partition", [None, "p"])
@pytest.mark.parametrize("before", every(3, COLUMNS, commits=1))
def test_what_is_said_of_other_columns_helps(tmp_path: Path, before: str, partition: str | None) -> None:
    """Done to the letter, no row is lost, and each value is in the column of its name."""
    for number, after in enumerate(COLUMNS):
        path = tmp_path / f"{number}.db"
        fill(path, 0, before, partition)
        try:
            fill(path, 1, after, partition)
        except CheckpointRefused as error:
            do_what_is_said(path, error.message)
            fill(path, 1, after, partition)
        old = {each.lower(): f"{each} of 0" for each in before.split()}
        with closing(sqlite3.connect(path)) as database:
            for each in after.split():
                quoted = each.replace('"', '""')
                found = database.execute(f'SELECT "{quoted}" FROM t ORDER BY id').fetchall()
                assert found == [(old.get(each.lower()),), (f"{each} of 1",)], (before, after)


def test_a_column_that_is_added_while_it_is_written(tmp_path: Path) -> None:
    """It goes on, with nothing in that column, and the next start has it filled."""
    path = tmp_path / "o.db"
    with closing(SqliteTableSink(path, "t", columns={"a": of("a")})) as sink:
        sink.open("s")
        sink.write(0, [0])
        sink.flush()
        do_what_is_said(path, 'ALTER TABLE "t" ADD COLUMN "b"')
        sink.write(1, [1])
        sink.flush()
    fill(path, 2, "a b", None)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT a, b FROM t").fetchall() == [
            ("a of 0", None), ("a of 1", None), ("a of 2", "b of 2"),
        ]  # fmt: skip
