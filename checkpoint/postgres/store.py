"""A store in PostgreSQL: rows of one database, for owners that come and go on many machines.

The same tables hold the stores of all partitions (`checkpoint.postgres.schema`). Journal, logs and checkpoints are
transactions of their own over connections of their own, so that none waits for another. Who owns the store is decided
by its epoch: each opening is counted in its row, and inside every transaction it is checked that there has been no
later one. A connection that is lost is `StoreUnavailable`; the next call connects anew. Whether what was lost in the
midst has been done does not matter: doing it again does the same, as with a file whose disk has failed in the midst.
Rejected: a lock held for as long as the owner lives (a stopped owner keeps it), one schema or database per store (a
thousand of either is slow to make and to vacuum).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from checkpoint.failures import or_repaired
from checkpoint.format.envelope import KeyRing
from checkpoint.postgres.connections import Connections, without_password
from checkpoint.postgres.owner import Owned, Presence, Rows, find_identity, make_identity
from checkpoint.postgres.parts import PostgresJournal, PostgresLogRows
from checkpoint.postgres.schema import look, make
from checkpoint.sealed_log.generations import Seals
from checkpoint.sealed_log.log import LogBook
from checkpoint.sealed_log.store import SealedReader, SealedStore, Write
from checkpoint.store import Segment
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import probe
from reliable_rx.names import check_name

KIND = "store"


class _PostgresReading(SealedReader):
    """The queries that the owner and a mere reader share."""

    _stored: Rows

    def _snapshot(self) -> AbstractContextManager[object]:
        return self._stored.snapshot()

    def _manifests(self) -> Sequence[tuple[int, bytes]]:
        sql = "SELECT generation, manifest FROM generations WHERE store = %s ORDER BY generation"
        return self._stored.read(sql, (self._stored.id,))

    def _chunks(self, generation: int) -> Sequence[bytes]:
        sql = "SELECT blob FROM chunks WHERE store = %s AND generation = %s ORDER BY number"
        return [blob for (blob,) in self._stored.read(sql, (self._stored.id, generation))]

    def _stream_names(self) -> list[str]:
        sql = "SELECT DISTINCT stream FROM outputs WHERE store = %s ORDER BY stream"
        return [name for (name,) in self._stored.read(sql, (self._stored.id,))]

    def _stream_bounds(self, stream: str) -> tuple[int, int] | None:
        mine = "FROM outputs WHERE store = %s AND stream = %s"
        sql = f"SELECT min(first), (SELECT first + greatest(count, 1) {mine} ORDER BY first DESC LIMIT 1) {mine}"
        ((first, end),) = self._stored.read(sql, (self._stored.id, stream) * 2)
        return None if first is None else (first, end)

    def _stream_bytes(self, stream: str) -> int:
        sql = "SELECT coalesce(sum(length(blob)), 0) FROM outputs WHERE store = %s AND stream = %s"
        ((size,),) = self._stored.read(sql, (self._stored.id, stream))
        return int(size)

    def _segments(self, stream: str, start: int, limit: int) -> Sequence[Segment]:
        mine = "FROM outputs WHERE store = %s AND stream = %s"
        sql = f"SELECT first, count, blob {mine} AND first >= coalesce((SELECT max(first) {mine} AND first <= %s), 0)"
        parameters = (*(self._stored.id, stream) * 2, start, limit)
        return self._stored.read(f"{sql} ORDER BY first LIMIT %s", parameters)

    def _positions(self, stream: str) -> Sequence[tuple[str, int, bytes]]:
        sql = "SELECT subscriber, n, blob FROM positions WHERE store = %s AND stream = %s ORDER BY subscriber"
        return self._stored.read(sql, (self._stored.id, stream))

    def _subscribed(self) -> list[str]:
        sql = "SELECT DISTINCT stream FROM positions WHERE store = %s ORDER BY stream"
        return [stream for (stream,) in self._stored.read(sql, (self._stored.id,))]


class PostgresStore(_PostgresReading, SealedStore):
    """Keep everything under *name* in the database *dsn*; the tables are made if need be.

    With *epoch* it is taken over from any owner of an earlier epoch (or of the same), alive or not, who can change
    nothing from then on. Without, it is owned until `close` or the end of the process. Without *keys* the key lies in
    the database beside the data. *retain* generations can be rebuilt. *clock* stamps generations. In place of *dsn*,
    several stores may share `Connections` (at most four and one more are made here) and a `Presence`. *called* is what
    `LeaseLost` names in place of *name*.

    >>> with PostgresStore(dsn, "flights", epoch=1) as store:
    ...     store.log("orders").append([b"one", b"two"])
    0

    *Raises* `LeaseLost` if a later epoch has been here, at opening and at every change; `StoreOwned` if it is opened
    without an epoch while another process has it open; `CheckpointRefused` if the tables are of another format or
    sealed with another key; `StoreUnavailable` if the server does not do what it is asked; `ValueError` for a *name*
    that is none.
    """

    def __init__(
        self,
        dsn: str | Connections,
        name: str,
        *,
        epoch: int | None = None,
        keys: KeyRing | None = None,
        retain: int = 3,
        clock: Callable[[], float] = time.time,
        presence: Presence | None = None,
        called: object = None,
    ) -> None:
        address = without_password(dsn) if isinstance(dsn, str) else None
        self.name = check_name("store", name) if isinstance(dsn, str) else name
        self.address = None if address is None else (address, name)
        """The database, without the password, and the name, as commands take them; None if they do not take *dsn*."""
        with ExitStack() as undo:
            self._mine = undo.enter_context(ExitStack())
            connections = _connections(dsn, self._mine, make)
            if presence is None:
                presence = Presence(connections)
                self._mine.callback(presence.close)
            repaired_at = [] if self.address is None else ["--name", name, self.address[0]]
            with or_repaired(repaired_at if keys is None else ()):
                identity = make_identity(connections, KIND, name, keys)
            owned = self._owned = self._stored = Owned(connections, identity, presence, epoch=epoch, called=called)
            undo.callback(owned.close)
            self.is_outside_lease = owned.is_outside_lease
            """Whether owners have had it by epochs, and this one has none."""
            owner, where, ring = identity.owner, identity.where, identity.keys
            logs = LogBook(PostgresLogRows(owned), keys=ring, owner=owner, where=where, repaired_at=repaired_at)
            with or_repaired(repaired_at):
                journal = PostgresJournal(owned, owned)
            journal.repaired_at = repaired_at
            super().__init__(Seals(ring, owner, where), journal, logs, retain=retain, clock=clock)
            undo.pop_all()

    @staticmethod
    def read_only(dsn: str | Connections, name: str, *, keys: KeyRing | None = None) -> PostgresReader:
        """Open a store that another process may own, to look at it. Nothing is locked, nothing is written."""
        return PostgresReader(dsn, name, keys)

    def check_owned(self) -> None:
        self._owned.check()

    def close(self) -> None:
        """Let another owner in. Doing it twice is harmless."""
        try:
            self._owned.close()
        finally:
            self._mine.close()

    def _bases(self) -> Sequence[tuple[int, int]]:
        return self._stored.read("SELECT generation, base FROM generations WHERE store = %s", (self._stored.id,))

    def _write(self, write: Write) -> None:
        manifest, number, store = write.sealed.manifest, write.sealed.manifest.generation, self._owned.id
        gone = "WHERE store = %s AND (generation < %s OR generation >= %s)"
        chunks = [(store, number, index, blob) for index, blob in enumerate(write.sealed.chunks)]
        replaced = [(store, stream, first) for stream, first, _, _ in write.segments]
        insert = """INSERT INTO outputs VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT (store, stream, first) DO UPDATE SET count = excluded.count, blob = excluded.blob"""
        trim = "DELETE FROM outputs WHERE store = %s AND stream = %s AND first < %s AND first + count <= %s"
        with self._owned.transaction(long=True) as connection, connection.cursor() as cursor:
            for table in ("chunks", "generations"):
                cursor.execute(f"DELETE FROM {table} {gone}".encode(), (store, write.drop_below, write.drop_from))
            cursor.executemany("INSERT INTO chunks VALUES (%s, %s, %s, %s)", chunks)
            probe("checkpoint.mid_commit")
            row = (store, number, manifest.base, write.sealed.blob)
            cursor.execute("INSERT INTO generations VALUES (%s, %s, %s, %s)", row)
            cursor.executemany("DELETE FROM outputs WHERE store = %s AND stream = %s AND first >= %s", replaced)
            cursor.executemany(insert, [(store, *each) for each in write.segments])
            cursor.executemany(trim, [(store, stream, first, first) for stream, first in write.kept_from])

    def _set_position(self, stream: str, subscriber: str, n: int, blob: bytes | None) -> None:
        delete = "DELETE FROM positions WHERE store = %s AND stream = %s AND subscriber = %s"
        with self._owned.transaction() as connection:
            connection.execute(delete, (self._owned.id, stream, subscriber))
            if blob is not None:
                row = (self._owned.id, stream, subscriber, n, blob)
                connection.execute("INSERT INTO positions VALUES (%s, %s, %s, %s, %s)", row)


class PostgresReader(_PostgresReading):
    """A store as it was last committed, for looking only. Made by `PostgresStore.read_only`."""

    def __init__(self, dsn: str | Connections, name: str, keys: KeyRing | None) -> None:
        with ExitStack() as undo:
            self._mine = undo.enter_context(ExitStack())
            connections = _connections(dsn, self._mine, look)
            identity = find_identity(connections, KIND, name, keys)
            if identity is None:
                message = f"there is no store {name!r} in {connections.where}; give the name of one"
                raise StoreUnavailable(message, where=connections.where)
            self._stored = Rows(connections, identity)
            seals = Seals(identity.keys, identity.owner, identity.where)
            super().__init__(seals, PostgresJournal(self._stored, None))
            undo.pop_all()

    def close(self) -> None:
        self._mine.close()


def _connections(dsn: str | Connections, mine: ExitStack, prepare: Callable[[Any], None]) -> Connections:
    """Return what is shared, or what is made here and closed by *mine*."""
    if isinstance(dsn, Connections):
        return dsn
    made = Connections(dsn, prepare=prepare)
    mine.callback(made.close)
    return made
