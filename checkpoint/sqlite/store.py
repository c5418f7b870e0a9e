"""The embedded store: a directory with three SQLite files, a seal key and a lock.

    checkpoint.sqlite   generations and the outputs that belong to them
    journal.sqlite      turns: a file of its own, so that a long checkpoint commit never delays a journal commit
    log.sqlite          pushed inputs and positions of subscribers, written by application threads
    seal.key            the default key (0600): against damage and mix-ups, not against a forger who can read it
    lock                held by the one process that owns the store

Rejected: one file (SQLite has one writer per file), files of our own format (SQLite's crash tests are better than
ours would be).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from checkpoint.failures import or_repaired, unavailable
from checkpoint.format.envelope import KEY_BYTES_MAX, KEY_BYTES_MIN, KeyRing
from checkpoint.ownership import Ownership
from checkpoint.sealed_log.generations import Seals
from checkpoint.sealed_log.log import LogBook
from checkpoint.sealed_log.store import SealedReader, SealedStore, Write
from checkpoint.sqlite.exchange import finish
from checkpoint.sqlite.files import DirectoryLock, RealDisk, folder_path, make_directory, read_or_create
from checkpoint.sqlite.parts import Parts, SqliteJournal, SqliteLogRows, check_no_group, is_store, is_whole, open_parts
from checkpoint.store import Segment
from reliable_rx.errors import CheckpointRefused, StoreUnavailable
from reliable_rx.failpoints import probe

_KEY_FILE = "seal.key"
OLDER_KEYS_FILE = "seal.key.older"
_KEY_BYTES = 32


class _SqliteReading(SealedReader):
    """The queries that the owner and a mere reader share."""

    _parts: Parts

    def _snapshot(self) -> AbstractContextManager[object]:
        return self._parts.checkpoint.snapshot()

    def _manifests(self) -> Sequence[tuple[int, bytes]]:
        return self._parts.checkpoint.read("SELECT generation, manifest FROM generations ORDER BY generation")

    def _chunks(self, generation: int) -> Sequence[bytes]:
        sql = "SELECT blob FROM chunks WHERE generation = ? ORDER BY number"
        return [blob for (blob,) in self._parts.checkpoint.read(sql, (generation,))]

    def _stream_names(self) -> list[str]:
        return [name for (name,) in self._parts.checkpoint.read("SELECT DISTINCT stream FROM outputs ORDER BY stream")]

    def _stream_bounds(self, stream: str) -> tuple[int, int] | None:
        mine = "FROM outputs WHERE stream = ? ORDER BY first"
        sql = f"SELECT first, (SELECT first + max(count, 1) {mine} DESC LIMIT 1) AS `end` {mine} LIMIT 1"
        rows = self._parts.checkpoint.read(sql, (stream, stream))
        return rows[0] if rows else None

    def _stream_bytes(self, stream: str) -> int:
        sql = "SELECT coalesce(sum(length(blob)), 0) FROM outputs WHERE stream = ?"
        ((size,),) = self._parts.checkpoint.read(sql, (stream,))
        return int(size)

    def _segments(self, stream: str, start: int, limit: int) -> Sequence[Segment]:
        from_row = "SELECT max(first) FROM outputs WHERE stream = ? AND first <= ?"
        sql = f"SELECT first, count, blob FROM outputs WHERE stream = ? AND first >= coalesce(({from_row}), 0)"
        return self._parts.checkpoint.read(f"{sql} ORDER BY first LIMIT ?", (stream, stream, start, limit))

    def _positions(self, stream: str) -> Sequence[tuple[str, int, bytes]]:
        sql = "SELECT subscriber, n, blob FROM positions WHERE stream = ? ORDER BY subscriber"
        return self._parts.log.read(sql, (stream,))

    def _subscribed(self) -> list[str]:
        return [stream for (stream,) in self._parts.log.read("SELECT DISTINCT stream FROM positions ORDER BY 1", ())]


class SqliteStore(_SqliteReading, SealedStore):
    """Keep everything in *directory*, which is created if need be and owned until `close`.

    Without *keys* the key is a file in the directory. *retain* generations can be rebuilt. *clock* stamps generations.
    *fence* is called inside every transaction and when it has become durable: if it raises, nothing was promised.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, SqliteStore(directory) as store:
    ...     store.log("orders").append([b"one", b"two"])
    0

    *Raises* `StoreOwned` if another process (or this one) has it open, or a group of nodes shares the folder of a new
    one, `CheckpointRefused` if it is not a store, of a newer format, or sealed with another key, `StoreUnavailable` if
    the disk fails.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        keys: KeyRing | None = None,
        retain: int = 3,
        clock: Callable[[], float] = time.time,
        fence: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = directory = folder_path(directory).absolute()
        with ExitStack() as undo, unavailable(str(directory)):
            make_directory(directory)
            check_no_group(directory)
            self._lock = DirectoryLock(directory)
            undo.callback(self._lock.release)
            finish(directory)
            ownership = Ownership(directory)
            ownership.watch("lock")

            def check() -> None:
                fence()
                ownership.check()

            self._check = check
            keyed, keys = keys is not None, keys or key_from_file(directory)
            self._parts = open_parts(directory, keys, fence=check)
            undo.callback(self._parts.close)
            RealDisk(directory).sync_directory()
            owner, where = self._parts.owner, str(directory)
            ownership.watch(*self._parts.files(), *([] if keyed else [_KEY_FILE]))
            with or_repaired([where]):
                journal = SqliteJournal(self._parts.journal, keys=keys, owner=owner)
            journal.repaired_at = [where]
            logs = LogBook(SqliteLogRows(self._parts.log), keys=keys, owner=owner, where=where, repaired_at=[where])
            super().__init__(Seals(keys, owner, where), journal, logs, retain=retain, clock=clock)
            undo.pop_all()

    @staticmethod
    def read_only(directory: str | Path, *, keys: KeyRing | None = None) -> SqliteReader:
        """Open a store that another process may own, to look at it. Nothing is locked, nothing is written."""
        return SqliteReader(Path(directory).absolute(), keys)

    def check_owned(self) -> None:
        self._check()
        self._parts.checkpoint.read("SELECT 1")

    def close(self) -> None:
        """Close the files and let another owner in. Doing it twice is harmless, and in a forked child does nothing."""
        try:
            self._parts.close()
        finally:
            self._lock.release()

    def _bases(self) -> Sequence[tuple[int, int]]:
        return self._parts.checkpoint.read("SELECT generation, base FROM generations")

    def _write(self, write: Write) -> None:
        manifest, number = write.sealed.manifest, write.sealed.manifest.generation
        gone = (write.drop_below, write.drop_from)
        chunks = [(number, index, blob) for index, blob in enumerate(write.sealed.chunks)]
        trim = "DELETE FROM outputs WHERE stream = ? AND first < ? AND first + count <= ?"
        replaced = [(stream, first) for stream, first, _, _ in write.segments]
        with self._parts.checkpoint.transaction() as connection:
            connection.execute("DELETE FROM chunks WHERE generation < ? OR generation >= ?", gone)
            connection.execute("DELETE FROM generations WHERE generation < ? OR generation >= ?", gone)
            connection.executemany("INSERT INTO chunks VALUES (?, ?, ?)", chunks)
            probe("checkpoint.mid_commit")
            row = (number, manifest.base, write.sealed.blob)
            connection.execute("INSERT INTO generations VALUES (?, ?, ?)", row)
            connection.executemany("DELETE FROM outputs WHERE stream = ? AND first >= ?", replaced)
            connection.executemany("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?)", write.segments)
            connection.executemany(trim, [(stream, first, first) for stream, first in write.kept_from])

    def _set_position(self, stream: str, subscriber: str, n: int, blob: bytes | None) -> None:
        with self._parts.log.transaction() as connection:
            connection.execute("DELETE FROM positions WHERE stream = ? AND subscriber = ?", (stream, subscriber))
            if blob is not None:
                connection.execute("INSERT INTO positions VALUES (?, ?, ?, ?)", (stream, subscriber, n, blob))


class SqliteReader(_SqliteReading):
    """A store as it was last committed, for looking only. Made by `SqliteStore.read_only`."""

    def __init__(self, directory: Path, keys: KeyRing | None) -> None:
        if not is_whole(directory):
            what = f"there is no store in {directory}; give the directory of one"
            if is_store(directory):
                what = (
                    f"{directory} has no checkpoint.sqlite: it is lost, or still being made; start its app, which tells"
                )
            raise StoreUnavailable(what, where=str(directory))
        with ExitStack() as undo, unavailable(str(directory)):
            keys = keys or KeyRing(_checked_key(directory, RealDisk(directory).read(_KEY_FILE)))
            self._parts = open_parts(directory, keys, read_only=True)
            undo.callback(self._parts.close)
            with or_repaired([str(directory)]):
                journal = SqliteJournal(self._parts.journal, keys=keys, owner=self._parts.owner)
            super().__init__(Seals(keys, self._parts.owner, str(directory)), journal)
            undo.pop_all()

    def close(self) -> None:
        self._parts.close()


def key_from_file(directory: Path) -> KeyRing:
    """Read the key file, or make one; never beside data, which only the lost key could read."""
    disk = RealDisk(directory)
    if is_store(directory):
        return KeyRing(_checked_key(directory, disk.read(_KEY_FILE)), older=_older_keys(directory, disk))
    key = read_or_create(disk, _KEY_FILE, lambda: secrets.token_bytes(_KEY_BYTES))
    return KeyRing(_checked_key(directory, key))


def _older_keys(directory: Path, disk: RealDisk) -> tuple[bytes, ...]:
    """Read the keys that were there before, a line each, which a person puts there for a repair."""
    try:
        lines = (disk.read(OLDER_KEYS_FILE) or b"").decode().split()
        return tuple(_checked_key(directory, bytes.fromhex(each)) for each in lines)
    except ValueError as error:
        what = "it has what is no key in hexadecimal, a line each; mend it, or take it away"
        raise CheckpointRefused(f"{directory / OLDER_KEYS_FILE}: {what}", what=what, where=str(directory)) from error


def _checked_key(directory: Path, key: bytes | None) -> bytes:
    where = str(directory / _KEY_FILE)
    if key is None:
        what = "the key file is missing; restore it, or give the keys that the store was made with"
    elif not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        what = f"it has {len(key)} bytes, which is no seal key; restore it"
    else:
        return key
    raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
