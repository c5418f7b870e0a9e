"""Rows and pages of damaged SQLite files, without a store around them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from checkpoint.failures import is_malformed
from checkpoint.sealed_log.rows import wrong_begin
from checkpoint.sqlite.database import Named
from checkpoint.sqlite.leaf_pages import leaf_rows
from reliable_rx.errors import CheckpointRefused

SIZE = 4096
ROWS = {number: bytes([number]) * (number * 2500) for number in range(1, 9)}
"""From rows within a page to those that lie in five more."""


def written(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA page_size = {SIZE}")
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, value BLOB)")
        database.executemany("INSERT INTO t VALUES (?, ?)", ROWS.items())
        database.commit()
    return path.read_bytes()


@pytest.mark.parametrize("more", [0, 1, 10, SIZE - 1, SIZE + 10])
@pytest.mark.parametrize("page", [1, 2, 3, 8])
def test_rows_behind_bytes_that_were_put_in(page: int, more: int, tmp_path: Path) -> None:
    """All rows but those through which the damage goes are read, also those that lie in many pages."""
    path = tmp_path / "t.sqlite"
    data = written(path)
    path.write_bytes(data[: page * SIZE] + bytes(more) + data[page * SIZE :])
    found = {number: values[-1] for number, values in leaf_rows(path) if values[-1] == ROWS.get(number)}
    assert found == ROWS


@pytest.mark.parametrize("less", [1, 10, 100])
def test_rows_behind_bytes_that_were_taken_out(less: int, tmp_path: Path) -> None:
    """At the end of the first page, which holds no rows: all of them are read."""
    path = tmp_path / "t.sqlite"
    data = written(path)
    path.write_bytes(data[: SIZE - less] + data[SIZE:])
    assert {number for number, values in leaf_rows(path) if values[-1] == ROWS.get(number)} == ROWS.keys()


def test_a_file_that_sqlite_finds_damaged_is_named(tmp_path: Path) -> None:
    """With the store's repair where it is one of a store; other errors, and those of other files, are left alone."""
    malformed, busy = sqlite3.DatabaseError("database disk image is malformed"), sqlite3.OperationalError("locked")
    assert is_malformed(malformed) and not is_malformed(busy)
    file = tmp_path / "state.sqlite"
    with pytest.raises(CheckpointRefused, match=r"state\.sqlite.*malformed"), Named(file, tmp_path):
        raise malformed
    with pytest.raises(sqlite3.DatabaseError, match="malformed"), Named(file, None):
        raise malformed
    with pytest.raises(sqlite3.OperationalError), Named(file, tmp_path):
        raise busy
    with Named(file, tmp_path):
        pass


@pytest.mark.parametrize(
    ("base", "first", "wrong"),
    [
        (5, None, None),
        (5, 6, None),
        (0, 1, None),
        (5, 7, "begins at turn 7, and turns before that are missing"),
        (5, 5, "begins at turn 5, and those up to turn 5 had been dropped"),
        (5, 3, "begins at turn 3, and those up to turn 5 had been dropped"),
        (0, 2, "begins at turn 2, and turns before that are missing"),
    ],
)
def test_a_journal_begins_behind_what_was_dropped(base: int, first: int | None, wrong: str | None) -> None:
    """Not later, as turns are missing then, nor sooner, as an older copy of it does."""
    found = wrong_begin(base, first)
    assert found is None if wrong is None else found is not None and wrong in found
