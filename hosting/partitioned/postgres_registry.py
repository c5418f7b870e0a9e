"""A registry in PostgreSQL, for the nodes of many machines: one row, and ``NOTIFY`` in the transaction that changes it.

One thread per process listens, while somebody wants to be woken, over a connection of its own. Notices are not kept
for whoever is away, so it wakes everybody whenever it has connected anew: they look for themselves. Rejected: asking
every tenth of a second as in SQLite (a question over the network for every node), notices with content (a notice is a
reason to look, never what is seen).
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from checkpoint.format.envelope import KeyRing
from checkpoint.postgres.connections import Connections, translated
from checkpoint.postgres.schema import make
from hosting.partitioned.registry import Cancel, Subscribers
from hosting.partitioned.sealed_document import DocumentSeal
from reliable_rx.errors import ReliableRxError

if TYPE_CHECKING:
    import psycopg

_INSERT = (
    "INSERT INTO registry VALUES (%(name)s, 1, %(document)s, clock_timestamp()) ON CONFLICT DO NOTHING RETURNING name"
)
_UPDATE = (
    "UPDATE registry SET version = version + 1, document = %(document)s, written = clock_timestamp()"
    " WHERE name = %(name)s AND version = %(expected)s RETURNING name"
)
_REMEDY = "end all nodes and restore its row in the table `registry` of the schema `reliable_rx`"
_FIRST_PAUSE_S, _PAUSE_S_MAX = 0.1, 5.0


class PostgresRegistry:
    """The document *name* in the database *dsn*; its table is made if need be. Several groups may share a database.

    *keys* seal the document; without them a key that is known to everybody does, against damage and edits by hand.

    >>> registry = PostgresRegistry(dsn, "flights")
    >>> registry.swap(0, b"first", notice=True), registry.swap(0, b"late", notice=True), registry.load()
    (True, False, (1, b'first'))
    >>> registry.close()

    *Raises* `CheckpointRefused` if the tables are of another format, `StoreUnavailable` if the server does not answer.
    """

    def __init__(self, dsn: str, name: str, *, keys: KeyRing | None = None) -> None:
        self._connections, self._name = Connections(dsn, connections_max=2, prepare=make), name
        self._seal = DocumentSeal(name, where=self._connections.where, remedy=_REMEDY, keys=keys)
        self._channel = f"rrx_{blake2b(name.encode(), digest_size=16).hexdigest()}"
        self._lock = threading.Lock()
        self._subscribers = Subscribers()
        self._stop = threading.Event()
        self._stop_read, self._stop_write = os.pipe()
        self._listener: threading.Thread | None = None
        try:
            self.load()
        except BaseException:
            self.close()
            raise

    def load(self) -> tuple[int, bytes | None]:
        with self._connections.use() as connection:
            sql = "SELECT version, document FROM registry WHERE name = %s"
            found = connection.execute(sql, (self._name,)).fetchone()
        return (0, None) if found is None else (found[0], self._seal.opened(*found))

    def swap(self, expected_version: int, document: bytes, *, notice: bool) -> bool:
        change = _UPDATE if expected_version else _INSERT
        sql = f"WITH done AS ({change}) SELECT {'pg_notify(%(channel)s, NULL)' if notice else '1'} FROM done"
        sealed = self._seal.sealed(expected_version + 1, document)
        parameters = {"name": self._name, "document": sealed, "expected": expected_version}
        with self._connections.use() as connection:
            done = connection.execute(sql.encode(), parameters | {"channel": self._channel})
            return len(done.fetchall()) == 1

    def age_s(self) -> float | None:
        with self._connections.use() as connection:
            sql = "SELECT extract(epoch FROM clock_timestamp() - written) FROM registry WHERE name = %s"
            found = connection.execute(sql, (self._name,)).fetchone()
            return None if found is None else max(0.0, float(found[0]))

    def subscribe(self, wake: Callable[[], None]) -> Cancel:
        cancel = self._subscribers.add(wake)
        with self._lock:
            if self._listener is None and not self._stop.is_set():
                self._listener = threading.Thread(target=self._listen, name="registry", daemon=True)
                self._listener.start()
        return cancel

    def close(self) -> None:
        """Close the connections; nobody is woken any longer. Doing it twice is harmless."""
        with self._lock:
            if self._stop.is_set():
                return
            self._stop.set()
            os.close(self._stop_write)
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join()
        os.close(self._stop_read)
        self._connections.close()

    def _listen(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                with closing(self._connections.dedicated()) as connection, translated(self._connections.where):
                    connection.execute(f"LISTEN {self._channel}".encode())
                    pause_s = _FIRST_PAUSE_S
                    self._subscribers.call()
                    self._wake_on_notices(connection)
            except ReliableRxError:
                self._stop.wait(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_S_MAX)

    def _wake_on_notices(self, connection: psycopg.Connection[Any]) -> None:
        waiting = select.poll()
        waiting.register(self._stop_read, select.POLLIN)
        waiting.register(connection.fileno(), select.POLLIN)
        while not self._stop.is_set():
            waiting.poll()
            if list(connection.notifies(timeout=0)) and not self._stop.is_set():
                self._subscribers.call()
