"""The embedded offset store: a directory with one SQLite file and a seal key, for all processes of one machine.

    offsets.sqlite   the log
    seal.key         the default key (0600)
    opening          locked by whoever is opening the store, so that two do not make it at once

Every commit is a transaction of the file, so any number of processes may have the store open; SQLite lets one of them
write at a time. One fsync per commit, as in the other stores.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from checkpoint.failures import unavailable
from checkpoint.format.envelope import KEY_BYTES_MAX, KEY_BYTES_MIN, KeyRing
from checkpoint.offsets.log import COMPACT_ROWS, ENTRIES_MAX, OffsetLog, Row
from checkpoint.offsets.logged import OpenedOffsets
from checkpoint.offsets.store import LeaseAuthority
from checkpoint.ownership import Ownership
from checkpoint.sqlite.database import Database, checked
from checkpoint.sqlite.files import RealDisk, folder_path, make_directory, read_or_create
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

_FILE, _KEY_FILE, _OPENING = "offsets.sqlite", "seal.key", "opening"
_KEY_BYTES = 32
_SCHEMA = ("CREATE TABLE offsets (number INTEGER PRIMARY KEY, whole INTEGER NOT NULL, blob BLOB NOT NULL)",)


class _Reading:
    def __init__(self, read: Callable[[str, Sequence[Any]], list[Row]]) -> None:
        self._read = read

    def after(self, number: int, limit: int) -> Sequence[Row]:
        sql = "SELECT number, whole, blob FROM offsets WHERE number > ? ORDER BY number LIMIT ?"
        return self._read(sql, (number, limit))


class _Writing(_Reading):
    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        super().__init__(lambda sql, parameters: checked(connection.execute(sql, parameters), where))
        self._connection = connection

    def append(self, row: Row) -> None:
        self._connection.execute("INSERT INTO offsets VALUES (?, ?, ?)", row)

    def drop_below(self, number: int) -> None:
        self._connection.execute("DELETE FROM offsets WHERE number < ?", (number,))


class _SqliteRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def writing(self) -> Iterator[_Writing]:
        with self._database.transaction() as connection:
            yield _Writing(connection, str(self._database.path))

    @contextmanager
    def reading(self) -> Iterator[_Reading]:
        with self._database.snapshot():
            yield _Reading(self._database.read)


class SqliteOffsets(OpenedOffsets):
    """Keep positions in *directory*, which is created if need be; other processes may have it open too.

    *leases* knows who holds what. Without *keys* the key is a file in the directory. With ``load=False`` the log is
    read by `load`, on a thread of the caller's; with ``create=False`` a store must be there.

    >>> import tempfile
    >>> held = lambda group, partition: ("a", 1)
    >>> with tempfile.TemporaryDirectory() as directory, SqliteOffsets(directory, held) as store:
    ...     store.commit("flights", {("log", "0"): 12}, {("log", "0"): ("a", 1)})
    {('log', '0'): None}

    *Raises* `CheckpointRefused` if it is not an offset store, of a newer format, or sealed with another key,
    `StoreUnavailable` if the disk fails.
    """

    def __init__(
        self,
        directory: str | Path,
        leases: LeaseAuthority,
        *,
        keys: KeyRing | None = None,
        clock: Callable[[], float] = time.time,
        compact_rows: int = COMPACT_ROWS,
        entries_max: int = ENTRIES_MAX,
        load: bool = True,
        create: bool = True,
    ) -> None:
        directory = folder_path(directory).absolute()
        if not create and not (directory / _FILE).exists():
            message = f"there is no offset store in {directory}; give the directory of one"
            raise StoreUnavailable(message, where=str(directory))
        with ExitStack() as undo, unavailable(str(directory)):
            make_directory(directory)
            ownership = Ownership(directory)
            with _only_opener(directory):
                keyed, keys = keys is not None, keys or _key_from_file(directory)
                self._database = Database(directory / _FILE, "offsets", fence=ownership.check)
                undo.callback(self._database.close)
                owner = _identify(self._database, keys)
                RealDisk(directory).sync_directory()
            ownership.watch(_FILE, f"{_FILE}-wal", *([] if keyed else [_KEY_FILE]))
            log = OffsetLog(
                _SqliteRows(self._database), leases, keys=keys, owner=owner, where=str(directory),
                clock=clock, compact_rows=compact_rows, entries_max=entries_max,
            )  # fmt: skip
            super().__init__(log, load=load)
            undo.pop_all()

    def close(self) -> None:
        """Close the file. Doing it twice is harmless."""
        self._database.close()


def _identify(database: Database, keys: KeyRing) -> str:
    """Return the owner sealed into the file; make it if it is new."""
    owner = database.open_identity((), keys=keys, owner=None)
    if owner is None:
        owner = secrets.token_hex(8)
        database.open_identity(_SCHEMA, keys=keys, owner=owner)
    return owner


@contextmanager
def _only_opener(directory: Path) -> Iterator[None]:
    """Keep other processes from opening the store meanwhile; they wait. A dead one's lock is gone with it."""
    descriptor = os.open(directory / _OPENING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _key_from_file(directory: Path) -> KeyRing:
    """Read the key file, or make one; never beside data, which only the lost key could read."""
    disk, where = RealDisk(directory), str(directory / _KEY_FILE)
    if (directory / _FILE).exists():
        key = disk.read(_KEY_FILE)
    else:
        key = read_or_create(disk, _KEY_FILE, lambda: secrets.token_bytes(_KEY_BYTES))
    if key is None or not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        what = "the key file is missing or no seal key; restore it, or give the keys that the store was made with"
        raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
    return KeyRing(key)
