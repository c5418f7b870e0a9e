"""The offset store in PostgreSQL: the rows of one log, for the processes of many machines.

Every commit is a transaction that holds the log's lock alone, so the log has one order and nothing comes between what
is read and what is written. Who is stopped in the midst of a commit is ended by whoever waits for him: his answer was
never given, and asking again is harmless. Rejected: a table with a row per partition (the rules would be said twice,
in SQL and in `checkpoint.offsets.table`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from checkpoint.format.envelope import KeyRing
from checkpoint.offsets.log import COMPACT_ROWS, ENTRIES_MAX, OffsetLog, Row
from checkpoint.offsets.logged import OpenedOffsets
from checkpoint.offsets.store import LeaseAuthority
from checkpoint.postgres.connections import Connections
from checkpoint.postgres.owner import Identity, alone, find_identity, make_identity
from checkpoint.postgres.schema import look, make
from reliable_rx.errors import StoreUnavailable

if TYPE_CHECKING:
    import psycopg

KIND = "offsets"


class _Reading:
    def __init__(self, connection: psycopg.Connection[Any], store: int) -> None:
        self._connection, self._store = connection, store

    def after(self, number: int, limit: int) -> Sequence[Row]:
        sql = "SELECT number, whole, blob FROM offsets WHERE store = %s AND number > %s ORDER BY number LIMIT %s"
        return self._connection.execute(sql, (self._store, number, limit)).fetchall()


class _Writing(_Reading):
    def append(self, row: Row) -> None:
        self._connection.execute("INSERT INTO offsets VALUES (%s, %s, %s, %s)", (self._store, *row))

    def drop_below(self, number: int) -> None:
        self._connection.execute("DELETE FROM offsets WHERE store = %s AND number < %s", (self._store, number))


class _PostgresRows:
    def __init__(self, connections: Connections, identity: Identity) -> None:
        self._connections, self._identity = connections, identity

    @contextmanager
    def writing(self) -> Iterator[_Writing]:
        with alone(self._connections, self._identity, stopped_only=True) as connection:
            yield _Writing(connection, self._identity.id)

    @contextmanager
    def reading(self) -> Iterator[_Reading]:
        """Read without a transaction: rows are only added behind, or replaced by one that stands for all of them."""
        with self._connections.use() as connection:
            yield _Reading(connection, self._identity.id)


class PostgresOffsets(OpenedOffsets):
    """Keep positions in the database *dsn*, under *name*; other processes may have them open too.

    *leases* knows who holds what. Without *keys* the key lies in the database beside the data. With ``load=False`` the
    log is read by `load`, on a thread of the caller's; with ``create=False`` a store must be there.

    >>> held = lambda group, partition: ("a", 1)
    >>> with PostgresOffsets(dsn, held) as store:
    ...     store.commit("flights", {("log", "0"): 12}, {("log", "0"): ("a", 1)})
    {('log', '0'): None}

    *Raises* `CheckpointRefused` if the tables are of another format or sealed with another key, `StoreUnavailable` if
    the server does not do what it is asked.
    """

    def __init__(
        self,
        dsn: str,
        leases: LeaseAuthority,
        *,
        name: str = "offsets",
        keys: KeyRing | None = None,
        clock: Callable[[], float] = time.time,
        compact_rows: int = COMPACT_ROWS,
        entries_max: int = ENTRIES_MAX,
        load: bool = True,
        create: bool = True,
    ) -> None:
        self._connections = Connections(dsn, connections_max=2, prepare=make if create else look)
        try:
            identity = self._identity(name, keys, create=create)
            log = OffsetLog(
                _PostgresRows(self._connections, identity), leases, keys=identity.keys, owner=identity.owner,
                where=identity.where, clock=clock, compact_rows=compact_rows, entries_max=entries_max,
            )  # fmt: skip
            super().__init__(log, load=load)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections. Doing it twice is harmless."""
        self._connections.close()

    def _identity(self, name: str, keys: KeyRing | None, *, create: bool) -> Identity:
        if create:
            return make_identity(self._connections, KIND, name, keys)
        found = find_identity(self._connections, KIND, name, keys)
        if found is None:
            message = f"there is no offset store {name!r} in {self._connections.where}; give the name of one"
            raise StoreUnavailable(message, where=self._connections.where)
        return found
