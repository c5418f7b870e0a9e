"""The stores of all partitions of a group in one database, over a few connections for all of them.

Taking over copies nothing: the rows stay where they are, and the epoch in the store's row says whose they are now. A
node with a thousand partitions has no more connections than one with ten; a partition that does nothing uses none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote, unquote

from checkpoint.format.envelope import KeyRing
from checkpoint.postgres.connections import Connections, without_password
from checkpoint.postgres.owner import Presence, find_identity, forget
from checkpoint.postgres.schema import make
from checkpoint.postgres.store import KIND, PostgresReader, PostgresStore
from hosting.partitioned.words import Epoch, Lease, Partition


class PostgresStores:
    """A store per partition of *group* in the database *dsn*, over at most *connections_max* connections and one more.

    *keys*, *retain* and *clock* are those of `PostgresStore`.

    >>> from hosting.partitioned.words import MemberId
    >>> jfk = Partition("flights", "JFK")
    >>> stores = PostgresStores(dsn, "flights")
    >>> first = stores.open(Lease(jfk, MemberId("a"), Epoch(1)))
    >>> second = stores.open(Lease(jfk, MemberId("b"), Epoch(2)))
    >>> second.journal.append(1, 1, b"a turn")
    >>> first.journal.append(1, 1, b"the same turn")
    Traceback (most recent call last):
    reliable_rx.errors.LeaseLost: flights/JFK has been taken over by epoch 2 (this is epoch 1): stop and write nothing
    >>> first.close(); second.close(); stores.close()

    *Raises* `StoreUnavailable` if the server does not do what it is asked; the same call may be made again.
    """

    def __init__(
        self,
        dsn: str,
        group: str,
        *,
        connections_max: int = 8,
        keys: KeyRing | None = None,
        retain: int = 3,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._group, self._keys, self._retain, self._clock = group, keys, retain, clock
        self._address = without_password(dsn)
        self._connections = Connections(dsn, connections_max=connections_max, prepare=make)
        self._presence = Presence(self._connections)

    def open(self, lease: Lease, /) -> PostgresStore:
        """Own what is there of the partition; nothing of an earlier epoch can change it any more."""
        name = self._name(lease.partition)
        store = PostgresStore(
            self._connections,
            name,
            called=lease.partition,
            epoch=lease.epoch,
            keys=self._keys,
            retain=self._retain,
            clock=self._clock,
            presence=self._presence,
        )
        if self._address is not None:
            store.address, store.group = (self._address, name), (self._address, self._group)
        return store

    def opened(self) -> list[Partition]:
        """Return the partitions that an epoch has opened."""
        with self._connections.use() as connection:
            sql = "SELECT name FROM stores WHERE kind = %s AND epoch > 0 AND starts_with(name, %s)"
            found = connection.execute(sql, (KIND, f"{quote(self._group, safe='')}/")).fetchall()
        return sorted(Partition(*map(unquote, name.split("/")[1:])) for (name,) in found if name.count("/") == 2)

    def look(self, partition: Partition, /, *, claimed: bool = False) -> PostgresReader | None:
        """Open the store for looking only; what is seen has been committed, whoever owns it."""
        if not self.newest(partition):
            return None
        reader = PostgresStore.read_only(self._connections, self._name(partition), keys=self._keys)
        reader.group = None if self._address is None else (self._address, self._group)
        return reader

    def newest(self, partition: Partition, /) -> Epoch:
        """Return the newest epoch that has opened it."""
        with self._connections.use() as connection:
            sql = "SELECT epoch FROM stores WHERE kind = %s AND name = %s"
            found = connection.execute(sql, (KIND, self._name(partition))).fetchone()
            return Epoch(found[0] if found else 0)

    def forget(self, partition: Partition, /) -> None:
        """Delete everything of *partition*. *Raises* `StoreOwned` if a process that is alive has it open."""
        identity = find_identity(self._connections, KIND, self._name(partition), self._keys)
        if identity is not None:
            forget(self._connections, identity)

    def close(self) -> None:
        """Close the connections. Doing it twice is harmless."""
        self._presence.close()
        self._connections.close()

    def _name(self, partition: Partition) -> str:
        return "/".join(quote(each, safe="") for each in (self._group, partition.source, partition.name))
