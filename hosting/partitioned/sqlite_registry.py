"""A registry for the processes of one machine: one row in one small SQLite file.

SQLite has no notices. One thread per process looks at the row's count of them every tenth of a second, and only while
somebody listens; that costs less than one per mille of a core and no disk access. Rejected: watching the file
(different on every system, silent over some file systems), a socket (somebody has to own it).
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from checkpoint.failures import unavailable
from checkpoint.format.envelope import KeyRing
from checkpoint.ownership import Ownership, keep_for_parent, tell_of_forks
from checkpoint.sqlite.database import checked
from hosting.partitioned.registry import Cancel, Subscribers
from hosting.partitioned.sealed_document import DocumentSeal
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

_APPLICATION_ID = 0x52525247  # "RRRG"
_FORMAT = 3
_BUSY_TIMEOUT_S = 10.0
_RETRY_S = 0.01
_SCHEMA = """CREATE TABLE registry (
    name TEXT PRIMARY KEY, version INTEGER NOT NULL, notices INTEGER NOT NULL, document BLOB NOT NULL,
    written REAL NOT NULL
) WITHOUT ROWID"""
_WHAT_IT_IS = """SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version"""
"""In one statement: another process may make the table meanwhile."""
_INSERT = "INSERT OR IGNORE INTO registry VALUES (?, 1, ?, ?, ?)"
_UPDATE = (
    "UPDATE registry SET version = version + 1, notices = notices + ?, document = ?, written = ?"
    " WHERE name = ? AND version = ?"
)

_REMEDY = (
    "end all nodes and restore this file with its -wal; or move it, and the folder `partitions`, away to begin anew"
)


class SqliteRegistry:
    """The document *name* in the file *path*, which is made if need be and *make*; several groups may share a file.

    *poll_s* is how soon a notice is seen by another process. *keys* seal the document; without them a key that is known
    to everybody does, against damage and edits by hand.

    *Raises* `CheckpointRefused` if the file is something else, `StoreUnavailable` if the disk fails.
    """

    def __init__(
        self, path: str | Path, name: str, *, poll_s: float = 0.1, make: bool = True, keys: KeyRing | None = None
    ) -> None:
        path = Path(path).absolute()
        self._seal = DocumentSeal(name, where=str(path), remedy=_REMEDY, keys=keys)
        self._where, self._name, self._poll_s = str(path), name, poll_s
        self._lock = threading.Lock()
        self._subscribers = Subscribers()
        self._stop = threading.Event()
        self._poller: threading.Thread | None = None
        self._ownership = Ownership(path.parent)
        tell_of_forks(self)
        with unavailable(self._where):
            self._connection: sqlite3.Connection | None = _connect(path, make=make)
        self._ownership.watch(*(f"{path.name}{end}" for end in ("", "-wal")))

    def load(self) -> tuple[int, bytes | None]:
        self._ownership.check_process()
        with self._lock, unavailable(self._where):
            sql = "SELECT version, document FROM registry WHERE name = ?"
            rows = checked(self._open().execute(sql, (self._name,)), self._where)
        return (rows[0][0], self._seal.opened(*rows[0])) if rows else (0, None)

    def swap(self, expected_version: int, document: bytes, *, notice: bool) -> bool:
        self._ownership.check()
        with self._lock, unavailable(self._where):
            given = (int(notice), self._seal.sealed(expected_version + 1, document), time.time())
            if expected_version == 0:
                done = self._open().execute(_INSERT, (self._name, *given))
            else:
                done = self._open().execute(_UPDATE, (*given, self._name, expected_version))
            self._ownership.check()
            return done.rowcount == 1

    def age_s(self) -> float | None:
        self._ownership.check_process()
        with self._lock, unavailable(self._where):
            sql = "SELECT written FROM registry WHERE name = ?"
            rows = checked(self._open().execute(sql, (self._name,)), self._where)
            return max(0.0, time.time() - rows[0][0]) if rows else None

    def subscribe(self, wake: Callable[[], None]) -> Cancel:
        cancel = self._subscribers.add(wake)
        with self._lock:
            if self._poller is None and not self._stop.is_set():
                seen = self._notices()
                self._poller = threading.Thread(target=self._poll, args=(seen,), name="registry", daemon=True)
                self._poller.start()
        return cancel

    def close(self) -> None:
        """Close the file; nobody is woken any longer. Twice is harmless; in a forked child it does nothing."""
        if not self._ownership.is_this_process:
            return
        self._stop.set()
        if self._poller is not None and self._poller is not threading.current_thread():
            self._poller.join()
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def forget_in_child(self) -> None:
        """Leave the connection to the parent: SQLite's may neither be used nor closed in a child."""
        if self._connection is not None:
            keep_for_parent(self._connection)

    def _poll(self, seen: int | None) -> None:
        """Wake the subscribers whenever the count has grown, or cannot be read: they will find out what that means."""
        while not self._stop.wait(self._poll_s):
            with self._lock:
                now = self._notices()
            if now is None or now != seen:
                seen = now
                self._subscribers.call()

    def _notices(self) -> int | None:
        with suppress(sqlite3.Error, StoreUnavailable, ValueError, TypeError, OverflowError):
            sql = "SELECT notices FROM registry WHERE name = ?"
            (count,) = self._open().execute(sql, (self._name,)).fetchone() or (0,)
            return int(count)
        return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"{self._where}: this registry is closed; open it again", where=self._where)
        return self._connection


def lost(path: str | Path, what: str) -> CheckpointRefused:
    """Return the error for a registry without a group whose stores are there: with it their epochs are lost."""
    remedy = "restore it with its -wal, or move the group's folder under `partitions` away to begin anew"
    return CheckpointRefused(f"{path}: {what}, of which stores are here; {remedy}", what=what, where=str(path))


def _connect(path: Path, *, make: bool) -> sqlite3.Connection:
    if not make and not path.exists():
        raise lost(path, "the registry of the group is gone")
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_S)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        if not _ours(connection, path):
            if not make:
                raise lost(path, "the registry of the group is empty")
            _make(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether it is a registry of this format; False if it is nothing yet."""
    application_id, version, tables = connection.execute(_WHAT_IT_IS).fetchone()
    if application_id == _APPLICATION_ID and version == _FORMAT:
        return True
    if not tables and not application_id:
        return False
    remedy = "use one version of reliable_rx on all nodes, or move it and `partitions` away to begin anew"
    what = (
        f"it has format {version}, not {_FORMAT}; {remedy}"
        if application_id == _APPLICATION_ID
        else "it is not a registry"
    )
    raise CheckpointRefused(f"{path}: {what}", what=what, where=str(path))


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Have the file written ahead, for which SQLite does not wait as for all else: another process may be making it."""
    until = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_RETRY_S)


def _make(connection: sqlite3.Connection, path: Path) -> None:
    """Make the table, unless another process does so first."""
    _keep_a_log(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _ours(connection, path):
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
