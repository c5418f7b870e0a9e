"""What can be had of a store's rows in PostgreSQL that keep it from opening.

What is wrong is told by `checkpoint.sealed_log.rows`. Of the part that such a row belongs to those rows are kept whose
seals are right, by the rules for damaged files (`checkpoint.sqlite.rescue`), which work on tables of SQLite: so that
part is put into one, and back. Rejected: the same rules in the words of another database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from checkpoint.format.envelope import FORMAT, KeyRing, check_version, seal
from checkpoint.postgres.connections import Connections
from checkpoint.postgres.owner import alone, check_not_held, find_unverified
from checkpoint.postgres.schema import look
from checkpoint.postgres.store import KIND
from checkpoint.sealed_log.generations import Seals
from checkpoint.sealed_log.rows import (
    KEYS_WAY,
    OPENED_WITH,
    TABLES,
    WRONG_IDENTITY,
    Row,
    Table,
    check_keys,
    check_owned,
    is_identity,
    not_written,
    telling,
    wrong_begin,
)
from checkpoint.sqlite.parts import SCHEMAS
from checkpoint.sqlite.rescue import SETTLE, close_gaps, insert_genuine
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

if TYPE_CHECKING:
    import psycopg

_ROWS = {
    "generations": ("generations", "generation, base, manifest", ""),
    "base": ("turn_bases", "turn, blob", "0, "),
    "turns": ("turns", "first, count, seal, blob", ""),
    "bases": ("entry_bases", "log, first, blob", ""),
    "entries": ("entries", "log, first, count, blob", ""),
    "positions": ("positions", "stream, subscriber, n, blob", ""),
}
"""Where the rows of one of `TABLES` are: the table, its columns, and what stands before them there."""
_NUMBERED = count()
Found = dict[str, tuple[str, list[str] | None]]
"""Per part what is wrong, and what is lost; None: nothing."""


@dataclass(frozen=True, slots=True)
class _Store:
    connection: psycopg.Connection[Any]
    id: int
    owner: str
    identity: bytes
    keys: KeyRing
    where: str

    def rows(self, table: str, more: str = "") -> Iterator[Row]:
        name, columns, before = _ROWS[table]
        sql = f"SELECT {before}{columns} FROM {name} WHERE store = %s {more}"
        with self.connection.cursor(name=f"rescue_{next(_NUMBERED)}") as cursor:
            cursor.execute(sql.encode(), (self.id,))
            yield from cursor

    def telling(self, table: Table) -> Iterator[Row]:
        """Give those rows of *table* with which the store opens."""
        return self.rows(table.name, f"AND {telling(table, _ROWS[table.name][0], f'store = {int(self.id)}')}")


def damaged_rows(dsn: str, name: str, keys: KeyRing | None = None) -> dict[str, str]:
    """Return which parts of the store *name* keep it from opening, and what is wrong with each."""
    with closing(Connections(dsn, prepare=look)) as connections, _opened(connections, name, keys) as store:
        return {part: wrong for part in ("identity", *OPENED_WITH) if (wrong := _wrong(store, part))}


def mend_rows(dsn: str, name: str, keys: KeyRing | None = None) -> Found:
    """Make the store *name* one that opens, in one transaction; return what was wrong, and what that has lost.

    *keys* are those that the program gives.

    *Raises* `CheckpointRefused` if nothing says which store it is, `StoreOwned`.
    """
    with closing(Connections(dsn, prepare=look)) as connections, _opened(connections, name, keys, own=True) as store:
        found: Found = {}
        for part in ("identity", *OPENED_WITH):
            if wrong := _wrong(store, part):
                if part == "identity":
                    _seal_identity(store)
                found[part] = wrong, None if part == "identity" else _rescue(store, part)
        return found


@contextmanager
def _opened(connections: Connections, name: str, keys: KeyRing | None, *, own: bool = False) -> Iterator[_Store]:
    identity = find_unverified(connections, KIND, name)
    if identity is None:
        message = f"there is no store {name!r} in {connections.where}; give the name of one"
        raise StoreUnavailable(message, where=connections.where)
    with alone(connections, identity, stopped_only=True) if own else connections.transaction(long=True) as connection:
        if own:
            check_not_held(connection, identity)
        sql = "SELECT identity, key FROM stores WHERE id = %s"
        ((blob, key),) = connection.execute(sql, (identity.id,)).fetchall()
        if type(blob) is bytes:
            check_version(blob, identity.where)
        if keys is None and key is None:
            what = "it was made with keys that are not stored here"
            raise CheckpointRefused(f"{identity.where}: {what}; {KEYS_WAY}", what=what, where=identity.where)
        yield _Store(connection, identity.id, identity.owner, blob, keys or identity.keys, identity.where)


def _wrong(store: _Store, part: str) -> str | None:
    """Say what keeps *store* from opening, if something of *part* does."""
    if part == "identity":
        return None if is_identity(store.identity, KIND, store.keys, store.owner) else WRONG_IDENTITY
    table = not_written(part, store.telling, store.keys, store.owner)
    if table is not None:
        return f"a row of {_ROWS[table.name][0]} is not what was written"
    return _begins(store) if part == "journal" else None


def _begins(store: _Store) -> str | None:
    base = max((turn for _, turn, _ in store.rows("base")), default=0)
    return wrong_begin(base, next((row[0] for row in store.rows("turns", "ORDER BY first LIMIT 1")), None))


def _seal_identity(store: _Store) -> None:
    """Seal the identity again, if a row of the store has the seal of that owner. *Raises* `CheckpointRefused`."""
    tables = [table for part in ("checkpoint", *OPENED_WITH) for table in TABLES[part] if table.name in _ROWS]
    check_keys(
        ((table, row) for table in tables for row in store.rows(table.name)),
        store.keys,
        store.owner,
        store.where,
        KEYS_WAY,
    )
    check_owned(
        ((table, row) for table in tables for row in store.rows(table.name)), store.keys, store.owner, store.where
    )
    blob = seal(b"", keys=store.keys, kind=f"identity {KIND}", owner=store.owner, generation=FORMAT)
    sql = "UPDATE stores SET identity = %s, key_id = %s WHERE id = %s"
    store.connection.execute(sql, (blob, store.keys.current_id, store.id))


def _rescue(store: _Store, part: str) -> list[str]:
    """Leave what is genuine of *part*, and what the other rows let stand; return what is lost."""
    with closing(sqlite3.connect("")) as kept:
        for statement in SCHEMAS[part]:
            kept.execute(statement)
        every = ((table, row) for table in TABLES[part] for row in store.rows(table.name))
        check_keys(every, store.keys, store.owner, store.where, KEYS_WAY)
        for table in TABLES[part]:
            for row in store.rows(table.name):
                insert_genuine(kept, table, row, store.keys, store.owner)
        if part == "journal":
            close_gaps(kept, _turns(store), store.keys, store.owner)
        lost = SETTLE[part](kept, store.keys, store.owner)
        for table in TABLES[part]:
            _put_back(store, kept, table)
    return lost


def _turns(store: _Store) -> list[int]:
    """Return behind which turns there is a checkpoint."""
    seals, turns = Seals(store.keys, store.owner, store.where), []
    for number, _, blob in store.rows("generations"):
        with suppress(CheckpointRefused):
            turns.append(seals.manifest(number, blob).turn)
    return turns


def _put_back(store: _Store, kept: sqlite3.Connection, table: Table) -> None:
    name, columns, _ = _ROWS[table.name]
    store.connection.execute(f"DELETE FROM {name} WHERE store = %s".encode(), (store.id,))
    marks = ", ".join(["%s"] * (columns.count(",") + 2))
    insert = f"INSERT INTO {name} (store, {columns}) VALUES ({marks})"
    with store.connection.cursor() as cursor:
        cursor.executemany(
            insert.encode(), [(store.id, *row) for row in kept.execute(f"SELECT {columns} FROM {table.name}")]
        )
