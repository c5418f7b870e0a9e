"""Tables beside those of `hosting.sinks.sqlite_table`: positions and dead letters, and their transactions.

``made`` says that the table has been there: without it a table that was dropped would be taken for one that has had no
rows yet, whose position may have moved all the same (by what was skipped).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hosting.sinks.origins import better, origin_in, text_of
from reliable_rx.reliable import Origin

_LETTERS = """CREATE TABLE IF NOT EXISTS reliable_rx_dead_letters (
    name TEXT, partition TEXT NOT NULL DEFAULT '', id INTEGER NOT NULL, error TEXT NOT NULL, type TEXT NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (name, partition, id)
)"""
_INSERT_LETTER = "INSERT OR REPLACE INTO reliable_rx_dead_letters VALUES (?, ?, ?, ?, ?, ?)"
"""In place of itself: a table that was dropped is written again, with its letters."""
_REGISTRY = """CREATE TABLE IF NOT EXISTS reliable_rx_sinks (
    name TEXT, stream TEXT NOT NULL, next_id INTEGER NOT NULL, ended_id INTEGER, error TEXT,
    partition TEXT NOT NULL DEFAULT '', epoch INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0,
    origin TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (name, partition)
)"""
_WITHOUT_EPOCH = (
    "ALTER TABLE reliable_rx_sinks RENAME TO reliable_rx_sinks_old",
    _REGISTRY,
    "INSERT INTO reliable_rx_sinks (name, stream, next_id, ended_id, error) SELECT * FROM reliable_rx_sinks_old",
    "DROP TABLE reliable_rx_sinks_old",
)
_ADDED = {"made": "INTEGER NOT NULL DEFAULT 0", "origin": "TEXT NOT NULL DEFAULT ''"}


def connected(path: str) -> sqlite3.Connection:
    """Open the database *path* to write."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
    except BaseException:
        database.close()
        raise
    return database


def make_registry(database: sqlite3.Connection) -> None:
    """Make the table of positions, also out of an older one."""
    found = {row[0] for row in database.execute("SELECT name FROM pragma_table_info('reliable_rx_sinks')")}
    if not found:
        database.execute(_REGISTRY)
    elif "epoch" not in found:
        for statement in _WITHOUT_EPOCH:
            database.execute(statement)
    else:
        for name in _ADDED.keys() - found:
            database.execute(f"ALTER TABLE reliable_rx_sinks ADD COLUMN {name} {_ADDED[name]}")


def stored_position(path: str, key: tuple[str, str]) -> tuple[int, Origin | None]:
    """Return position and origin of the table and partition *key* in the database *path*, which is left as it is.

    A log beside it is read too; without one SQLite is told that nobody writes, as it would make one.
    """
    has_log = os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal") > 0
    address = f"{Path(path).absolute().as_uri()}?{'mode=ro' if has_log else 'immutable=1'}"
    with closing(sqlite3.connect(address, uri=True)) as database:
        names = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "reliable_rx_sinks" not in names:
            return 0, None
        columns = {row[0] for row in database.execute("SELECT name FROM pragma_table_info('reliable_rx_sinks')")}
        made, partition, origin = (
            name if name in columns else there for name, there in (("made", "0"), ("partition", "''"), ("origin", "''"))
        )
        sql = f"SELECT next_id, {made}, {origin} FROM reliable_rx_sinks WHERE name = ? AND {partition} = ?"
        found = database.execute(sql, key).fetchone()
    return (0, None) if found is None or (found[1] and key[0] not in names) else (int(found[0]), origin_in(found[2]))


def insert_letters(database: sqlite3.Connection, letters: Sequence[tuple[Any, ...]]) -> None:
    """Keep dead *letters* beside the values."""
    database.execute(_LETTERS)
    database.executemany(_INSERT_LETTER, letters)


def enter(database: sqlite3.Connection, key: tuple[str, str]) -> None:
    """Enter a table, at its first id."""
    sql = "INSERT INTO reliable_rx_sinks (name, partition, stream, next_id) VALUES (?, ?, '', 0)"
    database.execute(sql, key)


def enter_origin(database: sqlite3.Connection, key: tuple[str, str], origin: Origin | None) -> None:
    """Say, if it is known, whose the ids are. Another sink may have said so of itself while there were none."""
    if origin is not None:
        where = "WHERE name = ? AND partition = ?"
        found = database.execute(f"SELECT origin FROM reliable_rx_sinks {where}", key).fetchone()
        kept = better(origin_in(found[0]), origin)
        sql = f"UPDATE reliable_rx_sinks SET stream = ?, origin = ? {where}"
        database.execute(sql, (kept.stream, text_of(kept), *key))


def forget_dropped(database: sqlite3.Connection, table: str) -> bool:
    """Let all positions in *table*, which is not there, begin anew if it has been; return whether it has."""
    sql = "UPDATE reliable_rx_sinks SET next_id = 0, ended_id = NULL, error = NULL, made = 0 WHERE name = ?1"
    return database.execute(f"{sql} AND EXISTS ({_MADE})", (table,)).rowcount > 0


_MADE = "SELECT 1 FROM reliable_rx_sinks WHERE name = ?1 AND made"


@contextmanager
def transaction(database: sqlite3.Connection | None) -> Iterator[sqlite3.Connection]:
    """Give the connection inside a transaction, which is committed or rolled back."""
    if database is None:
        raise sqlite3.ProgrammingError("the database is closed")
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
