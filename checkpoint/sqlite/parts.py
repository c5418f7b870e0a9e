"""The three files of a SQLite store: their tables, their opening together, the rows of journal and logs.

The files know each other by the owner sealed into each. New ones are written whole, beside their places, synced and
renamed, ``checkpoint.sqlite`` last, when the names of the others are durable. So a store whose making was interrupted
is one without it, or without its identity: then the others are empty too and the making goes on. A store that has it
and lacks another file has lost that file, and says so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from checkpoint.failures import store_damaged
from checkpoint.format.envelope import SEAL_BYTES, KeyRing
from checkpoint.sealed_log.journal import ChainedJournal
from checkpoint.sealed_log.log import Row
from checkpoint.sqlite.database import Database, is_lost, new_file
from checkpoint.sqlite.exchange import is_unfinished
from checkpoint.sqlite.files import Disk, RealDisk, lock_owner
from checkpoint.sqlite.write_ahead import check_write_ahead, log_beside
from checkpoint.store import Segment
from reliable_rx.errors import CheckpointRefused, StoreOwned, StoreUnavailable

# Blobs stand last in their rows, so that the numbers before them are read without following overflow pages.
_CHECKPOINT_SCHEMA = (
    "CREATE TABLE generations (generation INTEGER PRIMARY KEY, base INTEGER NOT NULL, manifest BLOB NOT NULL)",
    "CREATE TABLE chunks (generation INTEGER, number INTEGER, blob BLOB NOT NULL, PRIMARY KEY (generation, number))",
    "CREATE TABLE outputs (stream TEXT, first INTEGER, count INTEGER, blob BLOB NOT NULL, PRIMARY KEY (stream, first))",
)
_JOURNAL_SCHEMA = (
    # The seal stands by itself before the blob that ends in it: truncation reads the seals of records it need not load.
    "CREATE TABLE turns (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, seal BLOB NOT NULL, blob BLOB NOT NULL)",
    "CREATE TABLE base (only INTEGER PRIMARY KEY CHECK (only = 0), turn INTEGER NOT NULL, blob BLOB NOT NULL)",
)
_LOG_SCHEMA = (
    "CREATE TABLE entries (log TEXT, first INTEGER, count INTEGER, blob BLOB NOT NULL, PRIMARY KEY (log, first))",
    "CREATE TABLE bases (log TEXT PRIMARY KEY, first INTEGER NOT NULL, blob BLOB NOT NULL)",
    "CREATE TABLE positions (stream TEXT, subscriber TEXT, n INTEGER, blob BLOB NOT NULL,"
    " PRIMARY KEY (stream, subscriber))",
)
LOST = "it is missing or empty, though this store has been used"
GROUP_FILE = "registry.sqlite"
"""What lies in a folder that a group of nodes shares."""
SCHEMAS = {"checkpoint": _CHECKPOINT_SCHEMA, "journal": _JOURNAL_SCHEMA, "log": _LOG_SCHEMA}
USED = {"journal": ("turns", "base"), "log": ("entries", "bases")}
"""The tables of which one has a row in a store that has been used."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The open files of one store."""

    owner: str
    checkpoint: Database
    journal: Database
    log: Database

    def files(self) -> list[str]:
        """Name the files that a commit is in: without one of them it is not found again."""
        names = (part.path.name for part in (self.checkpoint, self.journal, self.log))
        return [each for name in names for each in (name, f"{name}-wal")]

    def close(self) -> None:
        """Close all files, once nothing is being written into any: each commit looks whether all of them are there.

        SQLite deletes the log of a file that it closes.
        """
        for connection in [each for part in (self.checkpoint, self.journal, self.log) for each in part.given_up()]:
            connection.close()


def open_parts(
    directory: Path, keys: KeyRing, *, read_only: bool = False, fence: Callable[[], None] = lambda: None
) -> Parts:
    """Open the files of the store in *directory*; make them if it is a new one.

    *Raises* `CheckpointRefused` if a file is missing, foreign, of another format, or sealed with another key.
    """
    if not read_only and not is_store(directory):
        make_files(RealDisk(directory), keys)
    check_logs(directory, read_only=read_only)
    check_there(directory)
    with ExitStack() as undo:
        files = dict[str, Database]()
        for part in sorted(SCHEMAS, key=lambda part: is_lost(directory / f"{part}.sqlite")):
            path = directory / f"{part}.sqlite"
            if is_lost(path):  # and would be made by opening it
                _check_unused(path, files, keys)
            files[part] = Database(path, part, read_only=read_only, fence=fence)
            undo.callback(files[part].close)
        checkpoint, journal, log = (files[part] for part in SCHEMAS)
        owner = checkpoint.open_identity((), keys=keys, owner=None)
        if owner is None:
            if read_only:
                raise StoreUnavailable(f"the store in {directory} is still being made; look again later")
            owner = _finish(checkpoint, journal, log, keys)
        for file in (journal, log):
            found = file.open_identity((), keys=keys, owner=None)
            if found is None:
                raise store_damaged(file.path, directory, LOST)
            file.check_owner(found, owner)
        undo.pop_all()
        return Parts(owner, checkpoint, journal, log)


def is_whole(directory: Path) -> bool:
    """Whether the store in *directory* was made to the end, without which nothing is in it, and is not lost."""
    return (directory / "checkpoint.sqlite").exists()


def is_store(directory: Path) -> bool:
    """Whether *directory* is the folder of a store, of which a file or a log beside a lost one is left."""
    databases = [directory / f"{part}.sqlite" for part in SCHEMAS]
    logs = [each for each in map(log_beside, databases) if each.is_file()]
    return any(each.is_file() for each in databases) or not all(map(is_lost, logs))


def check_no_group(directory: Path) -> None:
    """*Raises* `StoreOwned` if a store that is made in *directory* would lie beside a group of nodes."""
    if (directory / GROUP_FILE).is_file() and not is_store(directory):
        raise StoreOwned(
            f"{directory} is shared by a group of nodes: give the store a folder of its own", owner="a group of nodes"
        )


def check_there(directory: Path) -> None:
    """*Raises* `CheckpointRefused` if a file of a store is lost, before SQLite drops the log beside it."""
    is_made = not is_lost(directory / "checkpoint.sqlite")
    for database in (directory / f"{part}.sqlite" for part in SCHEMAS):
        if is_lost(database) and (is_made or not is_lost(log_beside(database))):
            raise store_damaged(database, directory, LOST)


def check_logs(directory: Path, *, read_only: bool) -> None:
    """*Raises* `CheckpointRefused` if a write-ahead log has lost what was durable; a reader asks if nobody owns it."""
    if read_only and is_unfinished(directory):
        raise StoreUnavailable(f"the repair of {directory} is not finished; start it, or repair it again")
    try:
        if not read_only or not lock_owner(directory):
            for part in SCHEMAS:
                check_write_ahead(directory / f"{part}.sqlite")
    except CheckpointRefused:
        if not read_only or not lock_owner(directory):  # an owner that has come meanwhile writes into it
            raise


def make_files(disk: Disk, keys: KeyRing) -> None:
    """Make the files of a new store durably."""
    owner = secrets.token_hex(8)
    for part, schema in SCHEMAS.items():
        disk.write(f"{part}.sqlite.new", new_file(part, schema, keys=keys, owner=owner))
        disk.sync(f"{part}.sqlite.new")
    for part in ("journal", "log"):
        disk.rename(f"{part}.sqlite.new", f"{part}.sqlite")
    disk.sync_directory()
    disk.rename("checkpoint.sqlite.new", "checkpoint.sqlite")
    disk.sync_directory()


def _finish(checkpoint: Database, journal: Database, log: Database, keys: KeyRing) -> str:
    """Finish the making of a store that was interrupted; return the owner."""
    _check_unused(checkpoint.path, {"journal": journal, "log": log}, keys)
    found = [file.open_identity((), keys=keys, owner=None) for file in (journal, log)]
    owner = found[0] or found[1] or secrets.token_hex(8)
    journal.open_identity(_JOURNAL_SCHEMA, keys=keys, owner=owner)
    log.open_identity(_LOG_SCHEMA, keys=keys, owner=owner)
    checkpoint.open_identity(_CHECKPOINT_SCHEMA, keys=keys, owner=owner)
    return owner


def _check_unused(lost: Path, files: Mapping[str, Database], keys: KeyRing) -> None:
    """*Raises* `CheckpointRefused` if one of *files* has anything in it, as then *lost* has been there."""
    for part, file in files.items():
        is_made = file.open_identity((), keys=keys, owner=None) is not None
        if is_made and any(file.read(f"SELECT 1 FROM {table} LIMIT 1") for table in USED[part]):
            raise store_damaged(lost, lost.parent, LOST)


class SqliteJournal(ChainedJournal):
    """A journal in ``journal.sqlite``."""

    def __init__(self, database: Database, *, keys: KeyRing, owner: str) -> None:
        super().__init__(keys=keys, owner=owner, where=str(database.path))
        self._database = database
        self.load(begins=not database.read_only)

    @property
    def last_turn(self) -> int:
        if self._database.read_only:
            self.load()  # its owner goes on meanwhile
        return self._last_turn

    def _rows(self, first_min: int, limit: int) -> Sequence[Segment]:
        sql = "SELECT first, count, blob FROM turns WHERE first >= ? ORDER BY first LIMIT ?"
        return self._database.read(sql, (first_min, limit))

    def _newest(self, first_max: int, limit: int) -> Sequence[Segment]:
        sql = "SELECT first, count, seal FROM turns WHERE first <= ? ORDER BY first DESC LIMIT ?"
        return self._database.read(sql, (first_max, limit))

    def _oldest(self, behind: int, limit: int) -> Sequence[Segment]:
        sql = "SELECT first, count, seal FROM turns WHERE first > ? ORDER BY first LIMIT ?"
        return self._database.read(sql, (behind, limit))

    def _base(self) -> tuple[int, bytes] | None:
        rows = self._database.read("SELECT turn, blob FROM base")
        return rows[0] if rows else None

    def _insert(self, first: int, count: int, blob: bytes) -> None:
        with self._database.transaction() as connection:
            row = (first, count, blob[-SEAL_BYTES:], blob)
            connection.execute("INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?)", row)

    def _drop(self, first_max: int, turn: int, base: bytes, records: int) -> None:
        with self._database.transaction() as connection:
            self._check_dropped(
                records, connection.execute("DELETE FROM turns WHERE first <= ?", (first_max,)).rowcount
            )
            connection.execute("INSERT OR REPLACE INTO base VALUES (0, ?, ?)", (turn, base))


class SqliteLogRows:
    """The rows of all logs, in ``log.sqlite``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert(self, rows: Sequence[Row]) -> None:
        with self._database.transaction() as connection:
            for name, first, count, blob in rows:
                # What a commit left behind that failed and was durable all the same.
                connection.execute("DELETE FROM entries WHERE log = ? AND first >= ?", (name, first))
                connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (name, first, count, blob))

    def rows(self, name: str, start: int, limit: int) -> Sequence[Segment]:
        from_row = "SELECT max(first) FROM entries WHERE log = ? AND first <= ?"
        sql = f"SELECT first, count, blob FROM entries WHERE log = ? AND first >= coalesce(({from_row}), 0)"
        return self._database.read(f"{sql} ORDER BY first LIMIT ?", (name, name, start, limit))

    def end(self, name: str) -> int | None:
        rows = self._database.read(
            "SELECT first + count AS `end` FROM entries WHERE log = ? ORDER BY first DESC LIMIT 1", (name,)
        )
        return rows[0][0] if rows else None

    def base(self, name: str) -> tuple[int, bytes] | None:
        rows = self._database.read("SELECT first, blob FROM bases WHERE log = ?", (name,))
        return rows[0] if rows else None

    def trim(self, name: str, first: int, base: bytes) -> None:
        with self._database.transaction() as connection:
            sql = "DELETE FROM entries WHERE log = ? AND first < ? AND first + count <= ?"
            connection.execute(sql, (name, first, first))
            connection.execute("INSERT OR REPLACE INTO bases VALUES (?, ?, ?)", (name, first, base))
