"""A copy of a store in its own database, to try something out on; it is gone afterwards.

The rows are copied by the server, in one transaction, and nothing of them travels. A process that is killed leaves
its copy behind: it has the name that the next copy of the same store gets, which deletes it first. Rejected: a copy in
a folder (all of the store through one connection, and a second form of everything that is sealed).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from checkpoint.postgres.connections import Connections
from checkpoint.postgres.owner import Identity, find_unverified, forget
from checkpoint.postgres.schema import TABLES, look
from checkpoint.postgres.store import KIND
from reliable_rx.errors import StoreUnavailable

COPY = "/.copy"
"""What the name of a copy ends in."""


@contextmanager
def copied_store(dsn: str, name: str) -> Iterator[str]:
    """Copy the store *name* in the database *dsn*, which nothing may run on; give the name of the copy.

    *Raises* `StoreOwned` if another process has a copy of it open, `StoreUnavailable`.
    """
    copy = f"{name}{COPY}"
    with closing(Connections(dsn, prepare=look)) as connections:
        _forget(connections, copy)
        identity = find_unverified(connections, KIND, name)
        if identity is None:
            message = f"there is no store {name!r} in {connections.where}; give the name of one"
            raise StoreUnavailable(message, where=connections.where)
        try:
            _copy(connections, identity, copy)
            yield copy
        finally:
            _forget(connections, copy)


def _forget(connections: Connections, name: str) -> None:
    identity = find_unverified(connections, KIND, name)
    if identity is not None:
        forget(connections, identity)


def _copy(connections: Connections, identity: Identity, name: str) -> None:
    sealed = "kind, owner, identity, key_id, key"
    row = f"SELECT %s, 0, 0, {sealed} FROM stores WHERE id = %s RETURNING id"
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
    with connections.transaction(long=True) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        insert = f"INSERT INTO stores (name, epoch, opening, {sealed}) {row}"
        ((number,),) = connection.execute(insert.encode(), (name, identity.id)).fetchall()
        for table in TABLES:
            _, *others = [each for (each,) in connection.execute(columns, (table,)).fetchall()]
            what = f"SELECT %s, {', '.join(others)} FROM {table} WHERE store = %s"
            connection.execute(f"INSERT INTO {table} {what}".encode(), (number, identity.id))
