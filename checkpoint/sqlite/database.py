"""One SQLite file of a store: opened, recognised, and used from two sides.

A writing and a reading connection, each behind a lock of its own, so that reading never waits for a commit. The second
is made when a read meets a commit for the first time: a connection takes 150 kB, and as much time to make as a small
transaction, and most partitions of a node never need two.
Write-ahead log with ``synchronous=FULL``: one fsync per commit. Transactions are begun and ended by hand, because the
module's implicit ones do not cover what they seem to. The file says that it is ours (``application_id``) and in which
format (``user_version``), and holds a sealed identity, so that a foreign file, a newer one, or a wrong key is refused
when it is opened. A new file is put together in memory and written as a whole (`new_file`): SQLite would sync seven
times to make it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from checkpoint.failures import is_malformed, or_repaired, store_damaged, unavailable
from checkpoint.format.envelope import FORMAT, NOT_READ, KeyRing, seal, unseal
from checkpoint.ownership import OwnProcess, keep_for_parent, tell_of_forks
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

_APPLICATION_ID = 0x52525831  # "RRX1"
_BUSY_TIMEOUT_S = 10.0
_WAL_KEPT_BYTES_MAX = 64 << 20  # what one large commit may leave lying on the disk
KINDS: Mapping[str, type] = {
    **dict.fromkeys(
        ("generation", "base", "number", "first", "count", "turn", "n", "end", "whole", "version", "notices"), int
    ),
    **dict.fromkeys(("manifest", "blob", "seal", "document"), bytes),
    **dict.fromkeys(("stream", "subscriber", "log", "name"), str),
}
NUMBER_MIN, NUMBER_MAX = -1, 1 << 62
"""The least number that is stored, a position before the first, and the largest to which others can be added."""
SHOWN_MAX = 60
STORE_PARTS = ("checkpoint", "journal", "log")
"""The files of a store, which `reliable-rx store repair` mends."""
_IDENTITY_SCHEMA = "CREATE TABLE identity (name TEXT PRIMARY KEY, value BLOB NOT NULL)"


def is_of_kind(column: str, cells: Sequence[Any]) -> bool:
    """Whether *cells* are what columns of that name hold: SQLite itself takes any value in any column."""
    kind = KINDS.get(column)
    if kind is None:
        return True
    if set(map(type, cells)) != {kind}:
        return False
    return kind is not int or (min(cells) >= NUMBER_MIN and max(cells) <= NUMBER_MAX)


def checked(cursor: sqlite3.Cursor, where: str, folder: Path | None = None) -> list[Any]:
    """Return the rows of *cursor*. *Raises* `CheckpointRefused` for a cell that is of another kind than its column.

    In a store the *folder* is named, and what mends it.
    """
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    for name, cells in zip(names, zip(*rows)):  # noqa: B905 (without rows there are no cells)
        if not is_of_kind(name, cells):
            odd = next(cell for cell in cells if not is_of_kind(name, (cell,)))
            what = f"a cell of column {name!r} holds {repr(odd)[:SHOWN_MAX]}, which was never written there"
            if folder is not None:
                raise store_damaged(Path(where), folder, what)
            raise CheckpointRefused(f"{where}: {what}; restore the file", what=what, where=where)
    return rows


def is_lost(database: Path) -> bool:
    """Whether the file *database* is missing, or has nothing in it."""
    try:
        return database.stat().st_size == 0
    except FileNotFoundError:
        return True


class Named:
    """Say which *file* of the store in *folder* SQLite finds damaged, and what mends it; each commit has it."""

    __slots__ = ("_file", "_folder")

    def __init__(self, file: Path, folder: Path | None) -> None:
        self._file, self._folder = file, folder

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: object) -> None:
        if raised is not None and self._folder is not None and is_malformed(raised):
            raise store_damaged(self._file, self._folder, str(raised)) from raised


class Database:
    """One file. *part* is its role in the store, sealed into it so that two files cannot be exchanged.

    *fence* is called inside every transaction and once more when it is durable; it raises if the store has been taken
    over, and then nothing was promised.
    """

    def __init__(
        self, path: Path, part: str, *, read_only: bool = False, fence: Callable[[], None] = lambda: None
    ) -> None:
        self.path, self.read_only, self._part, self._fence = path, read_only, part, fence
        self._folder = path.parent if part in STORE_PARTS else None
        self._named = Named(path, self._folder)
        self._write_lock, self._read_lock = threading.Lock(), threading.RLock()
        self._writing: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._seen: sqlite3.Connection | None = None
        self._frozen = False
        self._process = OwnProcess(str(path))
        tell_of_forks(self)
        with unavailable(str(path)), self._named:
            try:
                if not read_only:
                    self._writing = _connect(path, "rwc")
                else:
                    self._reading = self._connect_reading()
                    check_format(self._reading, path)
            except BaseException:
                self.close()
                raise

    def _connect_reading(self) -> sqlite3.Connection:
        """Connect for reading; as a mere reader, make no files beside the database: its owner could not open them."""
        if not self.read_only:
            return _connect(self.path, "rw")
        self._frozen = not self.path.with_name(f"{self.path.name}-wal").exists()
        return _connect(self.path, "ro&immutable=1" if self._frozen else "ro")

    def open_identity(self, schema: Sequence[str], *, keys: KeyRing, owner: str | None) -> str | None:
        """Return the owner that the file belongs to; make the file if it is empty and *owner* is given."""
        with unavailable(str(self.path)):
            stored = self._identity()
            if stored is None:
                if owner is not None:
                    self._create(schema, keys, owner)
                return owner
            found, blob, key_id = stored
            kind = f"identity {self._part}"
            with or_repaired([] if self._folder is None else [str(self._folder)]):
                unseal(blob, keys=keys, kind=kind, owner=found, generation=FORMAT, where=str(self.path))
            self.check_owner(found, owner)
            if self._writing is not None and key_id != keys.current_id:
                self._set_identity(keys, found)
            return found

    def _identity(self) -> tuple[str, bytes, bytes] | None:
        if not self.read("SELECT 1 FROM sqlite_master WHERE name = 'identity'"):
            return None
        rows = dict(self.read("SELECT name, value FROM identity"))
        kinds = {name: type(rows.get(name)) for name in ("owner", "identity", "key")}
        if kinds != {"owner": str, "identity": bytes, "key": bytes}:
            what = "its identity is missing or damaged"
            if self._folder is not None:
                raise store_damaged(self.path, self._folder, what)
            raise CheckpointRefused(f"{self.path}: {what}", what=what, where=str(self.path))
        return rows["owner"], rows["identity"], rows["key"]

    def check_owner(self, found: str, owner: str | None) -> None:
        """*Raises* `CheckpointRefused` if the file was *found* to belong to another store than that of *owner*."""
        if owner is not None and found != owner:
            what = f"it belongs to another store (owner {found}, this one is {owner})"
            raise CheckpointRefused(f"{self.path}: {what}", what=what, where=str(self.path))

    def _create(self, schema: Sequence[str], keys: KeyRing, owner: str) -> None:
        with self.transaction() as connection:
            _create_tables(connection, self._part, schema, keys, owner)

    def _set_identity(self, keys: KeyRing, owner: str) -> None:
        with self.transaction() as connection:
            write_identity(connection, self._part, keys, owner)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the writing connection inside a transaction that is committed durably at the end, or rolled back."""
        self._process.check()  # before the lock, which another thread may have held when we were forked
        with self._write_lock, self._named:
            connection = self._open(self._writing)
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._fence()
                yield connection
                connection.execute("COMMIT")
                self._fence()
            except BaseException:
                # A failed COMMIT may or may not have ended the transaction already.
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def read(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query, as last committed. *Raises* `CheckpointRefused` for a cell of another kind."""
        self._process.check()
        with self._read_lock, self._named, self._free() as connection:
            return checked(connection.execute(sql, parameters), str(self.path), self._folder)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads of this thread inside see one committed state; it must not write meanwhile."""
        self._process.check()
        with self._read_lock, self._free() as connection:
            connection.execute("BEGIN")
            self._seen = connection
            try:
                yield
            finally:
                self._seen = None
                connection.execute("ROLLBACK")

    @contextmanager
    def _free(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that can read now: that of this thread's snapshot, the writing one, or the second."""
        if self._seen is not None:
            yield self._seen
        elif self._writing is not None and self._write_lock.acquire(blocking=False):
            try:
                yield self._open(self._writing)
            finally:
                self._write_lock.release()
        else:
            yield self._second()

    def _second(self) -> sqlite3.Connection:
        """Return the reading connection; a frozen view ends when an owner has come."""
        if self._reading is None and self._writing is not None:
            with unavailable(str(self.path)):
                self._reading = self._connect_reading()
        connection = self._open(self._reading)
        if self._frozen:
            connection.close()
            connection = self._reading = self._connect_reading()
        return connection

    def _open(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        if connection is None:
            raise StoreUnavailable(f"{self.path}: this store is closed or read-only; open it again")
        return connection

    def close(self) -> None:
        """Close both connections, once nobody uses them."""
        for connection in self.given_up():
            connection.close()

    def given_up(self) -> list[sqlite3.Connection]:
        """Take no more reads and commits, wait for those under way, and return the connections, for closing in order.

        The writing one is the last: it tidies the write-ahead log away.
        """
        if not self._process.is_this:
            return []
        with self._read_lock:
            reading, self._reading = self._reading, None
        with self._write_lock:
            writing, self._writing = self._writing, None
        return [each for each in (reading, writing) if each is not None]

    def forget_in_child(self) -> None:
        """Leave the connections to the parent: SQLite's may neither be used nor closed in a child."""
        keep_for_parent(*(each for each in (self._reading, self._writing, self._seen) if each is not None))
        self._reading = self._writing = self._seen = None


def new_file(part: str, schema: Sequence[str], *, keys: KeyRing, owner: str) -> bytes:
    """Return the bytes of a file that has been made and never used.

    It says of itself that it has a write-ahead log (the bytes 18 and 19 of its header), which in memory it cannot have.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        _create_tables(connection, part, schema, keys, owner)
        connection.commit()
        data = bytearray(connection.serialize())
    data[18:20] = b"\x02\x02"
    return bytes(data)


def _create_tables(connection: sqlite3.Connection, part: str, schema: Sequence[str], keys: KeyRing, owner: str) -> None:
    for statement in (_IDENTITY_SCHEMA, *schema):
        connection.execute(statement)
    write_identity(connection, part, keys, owner)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def write_identity(connection: sqlite3.Connection, part: str, keys: KeyRing, owner: str) -> None:
    """Say in a file which *part* of whose store it is."""
    blob = seal(b"", keys=keys, kind=f"identity {part}", owner=owner, generation=FORMAT)
    rows = [("owner", owner), ("identity", blob), ("key", keys.current_id)]
    connection.executemany("INSERT OR REPLACE INTO identity VALUES (?, ?)", rows)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_TIMEOUT_S,
    )
    try:
        if mode == "rwc":
            _configure(connection, path)
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: sqlite3.Connection, path: Path) -> None:
    check_format(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # Matters on macOS only, where a plain fsync does not reach the platter.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES_MAX}")


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that something else made, before a byte of it is changed."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0 and application_id == 0:
        return
    if application_id != _APPLICATION_ID:
        what = "it is a database, but not one of reliable_rx"
    elif version > FORMAT:
        what = f"it has the newer format {version}, this version reads format {FORMAT}; upgrade reliable_rx"
    elif version < FORMAT:
        what = f"it has the older format {version}, {NOT_READ}"
    else:
        return
    raise CheckpointRefused(f"{path}: {what}", what=what, where=str(path))
