"""Whose a store in PostgreSQL is: its identity, its opening, and the fence that every later change passes.

Whoever opens it counts one opening more, under a lock that waits for the transactions of the opening before. One that
waits for its client (stopped, or cut off, in the midst) is ended after a moment: nothing it could still do would
count. Whether an owner without an epoch is alive is told by the lock of its process (`Presence`), which the server
drops with the connection. Rejected: waiting for ``idle_in_transaction_session_timeout`` (it is set too, for those whom
nobody succeeds), ids of backends in the row (they change with every connection of a pool).
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from checkpoint.format.envelope import FORMAT, KeyRing, seal, unseal
from checkpoint.ownership import OwnProcess
from checkpoint.postgres.connections import FENCED, Connections
from checkpoint.postgres.schema import LOCKS, PRESENCE, TABLES
from reliable_rx.errors import CheckpointRefused, LeaseLost, StoreOwned, StoreUnavailable

if TYPE_CHECKING:
    import psycopg

_KEY_BYTES = 32
_PATIENCE_MS = 250
_DYING_MS = 500
_TRIES_MAX = 40
_END_HOLDERS = """SELECT pg_terminate_backend(pid, 2000) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND objsubid = 2 AND granted
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND application_name LIKE 'reliable_rx %%'"""
_END_STOPPED = f"{_END_HOLDERS} AND wait_event_type = 'Client' AND state_change < now() - interval '1 second'"


@dataclass(frozen=True, slots=True)
class Identity:
    """The row that stands for a store: its id, its random owner, the keys it is sealed with."""

    id: int
    owner: str
    keys: KeyRing
    where: str
    rotated: bool
    """Whether the key has been changed since its identity was sealed."""


def find_identity(connections: Connections, kind: str, name: str, keys: KeyRing | None) -> Identity | None:
    """Return the identity of the store *name*, None if there is none. *Raises* `CheckpointRefused` for other keys."""
    where = f"{connections.where}, {kind} {name!r}"
    with connections.use() as connection:
        sql = "SELECT id, owner, identity, key_id, key FROM stores WHERE kind = %s AND name = %s"
        found = connection.execute(sql, (kind, name)).fetchone()
        if found is None:
            return None
        number, owner, blob, key_id, key = found
        if keys is None and key is None:
            what = "it was made with keys that are not stored here; give those keys"
            raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
        ring = keys or KeyRing(key)
        unseal(blob, keys=ring, kind=f"identity {kind}", owner=owner, generation=FORMAT, where=where)
        return Identity(number, owner, ring, where, rotated=key_id != ring.current_id)


def find_unverified(connections: Connections, kind: str, name: str) -> Identity | None:
    """Return the identity of the store *name* as its row has it, whatever its seal, to copy, mend or forget the store.

    Where keys are not stored, it has one that fits nothing.
    """
    with connections.use() as connection:
        sql = "SELECT id, owner, key FROM stores WHERE kind = %s AND name = %s"
        found = connection.execute(sql, (kind, name)).fetchone()
    if found is None:
        return None
    number, owner, key = found
    keys = KeyRing(bytes(_KEY_BYTES) if key is None else key)
    return Identity(number, owner, keys, f"{connections.where}, {kind} {name!r}", rotated=False)


def make_identity(connections: Connections, kind: str, name: str, keys: KeyRing | None) -> Identity:
    """Return the identity of the store *name*, made if need be; without *keys*, with a key that lies beside it."""
    found = find_identity(connections, kind, name, keys)
    if found is not None:
        if found.rotated:
            _seal_again(connections, kind, found)
        return found
    owner, key = secrets.token_hex(8), None if keys else secrets.token_bytes(_KEY_BYTES)
    ring = keys or KeyRing(key or b"")
    with connections.use() as connection:
        sql = """INSERT INTO stores (kind, name, epoch, opening, owner, identity, key_id, key)
            VALUES (%s, %s, 0, 0, %s, %s, %s, %s) ON CONFLICT DO NOTHING"""
        connection.execute(sql, (kind, name, owner, _sealed(ring, kind, owner), ring.current_id, key))
    return make_identity(connections, kind, name, keys)


def _seal_again(connections: Connections, kind: str, identity: Identity) -> None:
    with connections.use() as connection:
        sql = "UPDATE stores SET identity = %s, key_id = %s WHERE id = %s"
        blob = _sealed(identity.keys, kind, identity.owner)
        connection.execute(sql, (blob, identity.keys.current_id, identity.id))


def _sealed(keys: KeyRing, kind: str, owner: str) -> bytes:
    return seal(b"", keys=keys, kind=f"identity {kind}", owner=owner, generation=FORMAT)


class Presence:
    """The sign that this process is alive: a lock that lasts as long as a connection of its own."""

    def __init__(self, connections: Connections) -> None:
        self._connections, self._key = connections, secrets.randbelow(2**31)
        self._lock = threading.Lock()
        self._kept: psycopg.Connection[Any] | None = None
        self._process = OwnProcess(connections.where)

    def key(self) -> int:
        """Return the second half of the lock, held by now."""
        self._process.check()
        with self._lock:
            if self._kept is None or not self._connections.is_alive(self._kept):
                if self._kept is not None:
                    self._kept.close()
                self._kept = self._connections.dedicated()
                with self._connections.translated():
                    self._kept.execute("SELECT pg_advisory_lock_shared(%s, %s)", (PRESENCE, self._key))
            return self._key

    @property
    def is_ours(self) -> bool:
        """Whether it is the sign of this process, not of one that has forked us."""
        return self._process.is_this

    def close(self) -> None:
        if not self.is_ours:
            return
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


class Rows:
    """The rows of one store, for reading; inside `snapshot`, all reads of the thread see one state."""

    def __init__(self, connections: Connections, identity: Identity) -> None:
        self._connections, self.identity = connections, identity
        self._of_thread = threading.local()

    @property
    def id(self) -> int:
        return self.identity.id

    def read(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        inside: psycopg.Connection[Any] | None = getattr(self._of_thread, "connection", None)
        if inside is not None:
            # In a savepoint, so that one damaged row does not end the snapshot: what is read next may be well.
            with self._connections.translated(), inside.transaction():
                return inside.execute(sql.encode(), parameters).fetchall()
        with self._connections.use() as connection:
            return connection.execute(sql.encode(), parameters).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._connections.snapshot() as connection:
            self._of_thread.connection = connection
            try:
                yield
            finally:
                self._of_thread.connection = None


class Owned(Rows):
    """The rows of one store, for its owner: every change passes the fence of his opening."""

    def __init__(
        self,
        connections: Connections,
        identity: Identity,
        presence: Presence,
        *,
        epoch: int | None,
        called: object = None,
    ) -> None:
        super().__init__(connections, identity)
        self._presence, self._epoch, self._called = presence, epoch, called or identity.where
        self._closed = self.is_outside_lease = False
        self.opening = self._take_over()

    @contextmanager
    def transaction(self, *, long: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection inside a transaction of this opening, durable at the end. *Raises* `LeaseLost`."""
        with self._fenced(), self._connections.transaction(long=long) as connection:
            connection.execute("SELECT fence(%s, %s)", (self.id, self.opening))
            yield connection

    def execute(self, sql: str, parameters: dict[str, Any]) -> None:
        """Do one statement durably, which must itself pass ``fence(%(store)s, %(opening)s)``. *Raises* `LeaseLost`."""
        with self._fenced(), self._connections.use() as connection:
            connection.execute(sql.encode(), parameters | {"store": self.id, "opening": self.opening})

    def check(self) -> None:
        """Return if a change would count now. *Raises* `LeaseLost`, `StoreUnavailable`."""
        self.execute("SELECT fence(%(store)s, %(opening)s)", {})

    def _take_over(self) -> int:
        """Count one opening more; from then on nothing of an earlier one can change anything."""
        holder = (self._presence.key(), f"process {os.getpid()} on {socket.gethostname()}")
        with self._connections.use() as connection:
            self._check(connection)  # before anybody is ended for it
        with alone(self._connections, self.identity, stopped_only=False) as connection:
            self._check(connection)
            sql = """UPDATE stores SET opening = opening + 1, epoch = greatest(epoch, %s), holder = %s, held_by = %s
                WHERE id = %s RETURNING opening, epoch"""
            rows = connection.execute(sql, (self._epoch or 0, *holder, self.id)).fetchall()
        if not rows:
            message = f"{self.identity.where}: it has just been forgotten; open it again"
            raise StoreUnavailable(message, where=self.identity.where)
        self.is_outside_lease = self._epoch is None and rows[0][1] > 0
        return int(rows[0][0])

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse to take over from a living owner without epochs having been agreed, or from a later epoch."""
        if self._epoch is None:
            check_not_held(connection, self.identity)
            return
        rows = connection.execute("SELECT epoch FROM stores WHERE id = %s", (self.id,)).fetchall()
        if rows and rows[0][0] > self._epoch:
            raise _lost(self._called, self._epoch, rows[0][0])

    def close(self) -> None:
        """Say that nobody owns it now, if the server can be told. Doing it twice is harmless."""
        if not self._closed and self._presence.is_ours:
            self._closed = True
            with suppress(StoreUnavailable), self._connections.use() as connection:
                sql = "UPDATE stores SET holder = NULL, held_by = NULL WHERE id = %s AND opening = %s"
                connection.execute(sql, (self.id, self.opening))

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        import psycopg

        if self._closed:
            message = f"{self.identity.where}: this store is closed; open it again"
            raise StoreUnavailable(message, where=self.identity.where)
        self._presence.key()
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate == FENCED:
                self._refuse()
            raise
        except StoreUnavailable:
            self._refuse_if_lost()
            raise

    def _refuse_if_lost(self) -> None:
        """Say so if the server has ended us because there is a new owner."""
        with suppress(StoreUnavailable):
            ((opening,),) = self.read("SELECT max(opening) FROM stores WHERE id = %s", (self.id,))
            if opening != self.opening:
                self._refuse()

    def _refuse(self) -> NoReturn:
        ((newest,),) = self.read("SELECT max(epoch) FROM stores WHERE id = %s", (self.id,))
        raise _lost(self._called, self._epoch, newest)


def forget(connections: Connections, identity: Identity) -> None:
    """Delete a store. *Raises* `StoreOwned` if somebody has it open who is alive."""

    with connections.use() as connection:
        check_not_held(connection, identity)  # before anybody is ended for it
    with alone(connections, identity, stopped_only=False) as connection:
        check_not_held(connection, identity)
        for table in TABLES:
            connection.execute(f"DELETE FROM {table} WHERE store = %s".encode(), (identity.id,))
        connection.execute("DELETE FROM stores WHERE id = %s", (identity.id,))


@contextmanager
def alone(connections: Connections, identity: Identity, *, stopped_only: bool) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection inside a transaction while no other of the store's is in progress.

    Those that are in the way for long are ended; with *stopped_only*, only if they wait for their client.
    """
    with connections.transaction() as connection:
        for _ in range(_TRIES_MAX):
            if _lock(connection, identity):
                break
            connection.execute(_END_STOPPED if stopped_only else _END_HOLDERS, (LOCKS, identity.id))
        else:
            raise StoreUnavailable(f"{identity.where}: somebody is always at it; try again later", where=identity.where)
        yield connection


def _lock(connection: psycopg.Connection[Any], identity: Identity) -> bool:
    """Lock the store for this transaction alone, or return False after a moment."""
    from psycopg.errors import LockNotAvailable

    lock = (LOCKS, identity.id)
    ((free,),) = connection.execute("SELECT pg_try_advisory_xact_lock(%s, %s)", lock).fetchall()
    if free:
        return True
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {_PATIENCE_MS}".encode())
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", lock)
    except LockNotAvailable:
        return False
    return True


def check_not_held(connection: psycopg.Connection[Any], identity: Identity) -> None:
    """Refuse to go on while its owner is alive; give the server a moment to see that he has just died."""
    from psycopg.errors import LockNotAvailable

    sql = "SELECT holder, held_by FROM stores WHERE id = %s AND holder IS NOT NULL"
    for holder, held_by in connection.execute(sql, (identity.id,)).fetchall():
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {_DYING_MS}".encode())
                connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (PRESENCE, holder))
        except LockNotAvailable:
            message = f"{identity.where} is in use by {held_by}; stop that process first, or use another store"
            raise StoreOwned(message, owner=held_by) from None


def _lost(called: object, epoch: int | None, newest: int | None) -> LeaseLost:
    what = "has been forgotten" if newest is None else "has been taken over by a later opening"
    if newest is not None and epoch is not None and newest != epoch:
        what = f"has been taken over by epoch {newest} (this is epoch {epoch})"
    return LeaseLost(f"{called} {what}: stop and write nothing", partition=called, epoch=epoch, newest=newest or 0)
