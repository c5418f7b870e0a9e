"""The rows of journal and logs in PostgreSQL: one statement, so one round trip, for what is written most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoint.format.envelope import SEAL_BYTES
from checkpoint.postgres.owner import Owned, Rows
from checkpoint.sealed_log.journal import ChainedJournal
from checkpoint.sealed_log.log import Row
from checkpoint.store import Segment
from reliable_rx.errors import StoreUnavailable

_APPEND_TURNS = """INSERT INTO turns
    SELECT %(store)s, %(first)s, %(count)s, %(seal)s, %(blob)s FROM fence(%(store)s, %(opening)s)
    ON CONFLICT (store, first) DO UPDATE SET count = excluded.count, seal = excluded.seal, blob = excluded.blob"""
# What a commit left behind that failed and was durable all the same is replaced.
_APPEND_ENTRIES = """WITH gone AS (DELETE FROM entries WHERE store = %(store)s AND log = %(log)s AND first > %(first)s)
    INSERT INTO entries
    SELECT %(store)s, %(log)s, %(first)s, %(count)s, %(blob)s FROM fence(%(store)s, %(opening)s)
    ON CONFLICT (store, log, first) DO UPDATE SET count = excluded.count, blob = excluded.blob"""


class PostgresJournal(ChainedJournal):
    """A journal in ``turns``; with *owned* None for reading only."""

    def __init__(self, stored: Rows, owned: Owned | None) -> None:
        identity = stored.identity
        super().__init__(keys=identity.keys, owner=identity.owner, where=f"{identity.where}, journal")
        self._stored, self._owned = stored, owned
        self.load(begins=owned is not None)

    @property
    def last_turn(self) -> int:
        if self._owned is None:
            self.load()  # its owner goes on meanwhile
        return self._last_turn

    def _rows(self, first_min: int, limit: int) -> Sequence[Segment]:
        sql = "SELECT first, count, blob FROM turns WHERE store = %s AND first >= %s ORDER BY first LIMIT %s"
        return self._stored.read(sql, (self._stored.id, first_min, limit))

    def _newest(self, first_max: int, limit: int) -> Sequence[Segment]:
        sql = "SELECT first, count, seal FROM turns WHERE store = %s AND first <= %s ORDER BY first DESC LIMIT %s"
        return self._stored.read(sql, (self._stored.id, first_max, limit))

    def _oldest(self, behind: int, limit: int) -> Sequence[Segment]:
        sql = "SELECT first, count, seal FROM turns WHERE store = %s AND first > %s ORDER BY first LIMIT %s"
        return self._stored.read(sql, (self._stored.id, behind, limit))

    def _base(self) -> tuple[int, bytes] | None:
        rows = self._stored.read("SELECT turn, blob FROM turn_bases WHERE store = %s", (self._stored.id,))
        return rows[0] if rows else None

    def _insert(self, first: int, count: int, blob: bytes) -> None:
        row = {"first": first, "count": count, "seal": blob[-SEAL_BYTES:], "blob": blob}
        self._writable().execute(_APPEND_TURNS, row)

    def _drop(self, first_max: int, turn: int, base: bytes, records: int) -> None:
        sql = """INSERT INTO turn_bases VALUES (%s, %s, %s)
            ON CONFLICT (store) DO UPDATE SET turn = excluded.turn, blob = excluded.blob"""
        with self._writable().transaction() as connection:
            delete = "DELETE FROM turns WHERE store = %s AND first <= %s"
            self._check_dropped(records, connection.execute(delete, (self._stored.id, first_max)).rowcount)
            connection.execute(sql, (self._stored.id, turn, base))

    def _writable(self) -> Owned:
        if self._owned is None:
            raise StoreUnavailable(f"{self._where}: this store is read-only", where=self._where)
        return self._owned


class PostgresLogRows:
    """The rows of all logs, in ``entries``."""

    def __init__(self, owned: Owned) -> None:
        self._owned = owned

    def insert(self, rows: Sequence[Row]) -> None:
        named: list[dict[str, Any]] = [dict(zip(("log", "first", "count", "blob"), row, strict=True)) for row in rows]
        if len(named) == 1:
            self._owned.execute(_APPEND_ENTRIES, named[0])
            return
        fixed = {"store": self._owned.id, "opening": self._owned.opening}
        with self._owned.transaction() as connection, connection.cursor() as cursor:
            cursor.executemany(_APPEND_ENTRIES, [row | fixed for row in named])

    def rows(self, name: str, start: int, limit: int) -> Sequence[Segment]:
        from_row = "SELECT max(first) FROM entries WHERE store = %s AND log = %s AND first <= %s"
        wanted = f"store = %s AND log = %s AND first >= coalesce(({from_row}), 0)"
        sql = f"SELECT first, count, blob FROM entries WHERE {wanted} ORDER BY first LIMIT %s"
        mine = (self._owned.id, name)
        return self._owned.read(sql, (*mine, *mine, start, limit))

    def end(self, name: str) -> int | None:
        sql = "SELECT first + count FROM entries WHERE store = %s AND log = %s ORDER BY first DESC LIMIT 1"
        rows = self._owned.read(sql, (self._owned.id, name))
        return rows[0][0] if rows else None

    def base(self, name: str) -> tuple[int, bytes] | None:
        sql = "SELECT first, blob FROM entry_bases WHERE store = %s AND log = %s"
        rows = self._owned.read(sql, (self._owned.id, name))
        return rows[0] if rows else None

    def trim(self, name: str, first: int, base: bytes) -> None:
        delete = "DELETE FROM entries WHERE store = %s AND log = %s AND first < %s AND first + count <= %s"
        set_base = """INSERT INTO entry_bases VALUES (%s, %s, %s, %s)
            ON CONFLICT (store, log) DO UPDATE SET first = excluded.first, blob = excluded.blob"""
        with self._owned.transaction() as connection:
            connection.execute(delete, (self._owned.id, name, first, first))
            connection.execute(set_base, (self._owned.id, name, first, base))
