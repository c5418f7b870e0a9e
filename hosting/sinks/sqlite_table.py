"""An exactly-once sink into a table of SQLite: the row, its id and the sink's position in one transaction.

Rows wait in memory until `flush` and go in at once, so that several sinks may share a database without holding its
write lock between flushes. The position lies in a table of its own beside them (`reliable_rx_sinks`), so rows may
be deleted freely. A commit that fails may have happened all the same; so the position is read again before
a retry, and what it covers is not written twice.

The epoch of the writer lies there too, and is looked at inside the transaction of each write: a former writer whose
transaction comes later is refused. A writer that is stopped in the midst of its transaction holds SQLite's write lock,
and holds up all other writers of the file until it goes on or ends; there is no taking the lock from it, and a file
that others have open cannot be exchanged under their feet. Rejected: a copy of the database in place of the old one,
as `hosting.sinks.json_lines` does it (the log beside it would have to be exchanged in the same instant).
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hosting.sinks.fencing import lost
from hosting.sinks.plain import field_names, to_plain
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, StoreUnavailable, described, invariant
from reliable_rx.probes import probe

ROWS_HELD_MAX = 65_536
REGISTRY = """CREATE TABLE IF NOT EXISTS reliable_rx_sinks (
    name TEXT, stream TEXT NOT NULL, next_id INTEGER NOT NULL, ended_id INTEGER, error TEXT,
    partition TEXT NOT NULL DEFAULT '', epoch INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (name, partition)
)"""
_OLDER_REGISTRY = (
    "ALTER TABLE reliable_rx_sinks RENAME TO reliable_rx_sinks_old",
    REGISTRY,
    "INSERT INTO reliable_rx_sinks (name, stream, next_id, ended_id, error) SELECT * FROM reliable_rx_sinks_old",
    "DROP TABLE reliable_rx_sinks_old",
)

Get = Callable[[Any], Any]
Columns = Mapping[str, Get] | Sequence[str] | None


class SqliteTableSink:
    """Write a stream to *table* of the SQLite database *path*, each value as exactly one row.

    The table has ``id INTEGER PRIMARY KEY`` and the *columns*: a function of the value for each, or the names of
    fields or keys of the value. Without *columns* they are the fields of the first value, or one column ``value`` of
    JSON text if it has none. What SQLite cannot hold is stored as text or JSON. Table ``reliable_rx_sinks`` holds the
    position, and the end when it has come: ``ended_id``, and ``error`` (NULL: completed).

    The partitions of a stream may share a table: with *partition* it has a column of that name before the id, and both
    are its key. Position, end and epoch are then kept per partition.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.db")
    >>> sink = SqliteTableSink(path, "prices")
    >>> sink.open("prices")
    0
    >>> sink.write(0, [{"symbol": "A", "amount": 1.5}])
    >>> sink.flush(); sink.close()
    >>> database = sqlite3.connect(path)
    >>> database.execute("SELECT * FROM prices").fetchall()
    [(0, 'A', 1.5)]
    >>> database.close()

    A process that is stopped (SIGSTOP, a frozen machine) within a flush, which takes milliseconds, keeps the file
    locked: `StoreUnavailable` for all who write it, until it goes on or ends. Where nobody may wait for it, give each
    partition a file of its own, so that only that partition does, or use `JsonLinesSink`, where none does.

    *Raises* `StoreUnavailable` when the database fails (call `flush` again later), `CheckpointRefused` for a table
    that this sink did not make, `TypeError` for a value that does not fit the columns, `LeaseLost` if a later epoch
    writes the table, or this partition of it.
    """

    def __init__(
        self, path: str | os.PathLike[str], table: str, *, columns: Columns = None, partition: str | None = None
    ) -> None:
        self._path = os.fspath(path)
        self._table = table
        self._partition = partition
        self._keys = ("id",) if partition is None else ("partition", "id")
        self._getters = _getters(columns, self._keys)
        self._epoch = 0
        self._open = False
        self._database: sqlite3.Connection | None = None
        self._next = 0
        self._rows: list[tuple[Any, ...]] = []
        self._end: tuple[int, str | None] | None = None
        self._doubtful = False
        self._made = False
        if not table or table.startswith("sqlite_") or "\0" in table or table == "reliable_rx_sinks":
            raise ValueError(f"{table!r} cannot name a table; choose another name")
        if partition == "":
            raise ValueError("a partition needs a name; without partitions leave partition= out")

    def fence(self, epoch: int, /) -> None:
        """Take the table, or this partition of it, from every earlier epoch."""
        invariant(not self._open and not self._epoch, f"the sink {self._path} is fenced once, before it opens")
        self._epoch = epoch
        self._connected("fenced", "")

    def open(self, stream: str, /) -> int | None:
        """Return the next id wanted."""
        invariant(not self._open, f"the sink {self._path} is opened once")
        self._next = self._connected("opened", stream)
        self._open = True
        return self._next

    def _connected(self, what: str, stream: str) -> int:
        """Connect if need be, and enter *stream* and the epoch in the registry; return the position."""
        try:
            with self._guard(what):
                self._database = self._database or _connect(self._path)
                return self._register(stream)
        except BaseException:
            self.close()
            raise

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._check_gap(first)
        values = values[max(0, self._next - first) :]
        if not values:
            return
        if self._getters is None:
            self._getters = _fields_of(values[0], self._keys)
        if len(self._rows) + len(values) > ROWS_HELD_MAX:
            self._commit()
        self._rows += self._to_rows(values)
        self._next += len(values)

    def end(self, n: int, error: Exception | None, /) -> None:
        self._check_gap(n)
        if n == self._next:
            self._end = (n, None if error is None else described(error))
            self._next = n + 1

    def flush(self) -> None:
        probe("sink.before_flush")
        self._commit()
        probe("sink.after_flush")

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        self._open, self._epoch = False, 0

    def _check_gap(self, first: int) -> None:
        if first > self._next:
            message = f"table {self._table} of {self._path} wants id {self._next} next and is given {first}"
            raise PositionUnavailable(
                f"{message}: ids between are no longer to be had; begin a new table",
                wanted=self._next,
                first=first,
                end=None,
            )

    def _register(self, stream: str) -> int:
        """Find this table's position in the registry, or enter it there; let the epoch be known."""
        with _transaction(self._database) as database:
            _make_registry(database)
            known = database.execute(f"SELECT next_id, epoch FROM reliable_rx_sinks {self._mine}", self._key).fetchone()
            columns = self._columns_found(database)
            if known is None:
                if columns and not self._is_registered(database):
                    raise self._refused("was not made by this sink")
                database.execute(
                    "INSERT INTO reliable_rx_sinks (name, partition, stream, next_id) VALUES (?, ?, ?, 0)",
                    (*self._key, stream),
                )
            self._check_epoch(0 if known is None else known[1])
            sql = f"UPDATE reliable_rx_sinks SET epoch = ?, stream = coalesce(nullif(?, ''), stream) {self._mine}"
            database.execute(sql, (self._epoch, stream, *self._key))
        if columns:
            self._adopt(columns)
        return 0 if known is None else int(known[0])

    _mine = "WHERE name = ? AND partition = ?"

    @property
    def _key(self) -> tuple[str, str]:
        return self._table, self._partition or ""

    def _is_registered(self, database: sqlite3.Connection) -> bool:
        """Whether another partition of this table is."""
        found = database.execute("SELECT 1 FROM reliable_rx_sinks WHERE name = ? LIMIT 1", (self._table,)).fetchone()
        return found is not None

    def _check_epoch(self, newest: int) -> None:
        if newest > self._epoch:
            what = f"table {self._table} of {self._path}"
            named = f"{what}, partition {self._partition}" if self._partition else what
            raise lost(named, self._epoch, newest, self._partition)

    def _columns_found(self, database: sqlite3.Connection) -> tuple[str, ...]:
        rows = database.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (self._table,))
        return tuple(row[0] for row in rows)

    def _adopt(self, columns: tuple[str, ...]) -> None:
        """Go on with the columns that the table has."""
        self._made = True
        if self._getters is None:
            names = columns[len(self._keys) :]
            self._getters = {"value": _as_json} if names == ("value",) else {name: _field(name) for name in names}
        if (*self._keys, *self._getters) != columns:
            wanted = ", ".join((*self._keys, *self._getters))
            raise self._refused(f"has the columns {', '.join(columns)}, not {wanted}")

    def _refused(self, why: str) -> CheckpointRefused:
        message = f"table {self._table} of {self._path} {why}; name another table, or drop this one and its entry"
        return CheckpointRefused(f"{message} in reliable_rx_sinks", what=why, where=f"{self._path}, {self._table}")

    def _to_rows(self, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        getters = list((self._getters or {}).values())
        ids = range(self._next, self._next + len(values))
        before = () if self._partition is None else (self._partition,)
        try:
            return [(*before, n, *[_cell(get(value)) for get in getters]) for n, value in zip(ids, values, strict=True)]
        except Exception as error:
            where = f"table {self._table} of {self._path}, columns {', '.join(self._getters or ())}"
            message = f"a value does not fit {where}: {described(error)}; give the sink columns="
            raise TypeError(message) from error

    def _commit(self) -> None:
        invariant(self._open, f"the sink {self._path} is open when it is flushed")
        if not self._rows and self._end is None:
            if self._epoch:
                self._stored()
            return
        with self._guard("written"):
            if self._doubtful:
                self._forget_committed()
            self._doubtful = True
            with _transaction(self._database) as database:
                self._insert(database)
            self._doubtful = False
        self._made = self._made or bool(self._rows)
        self._rows.clear()
        self._end = None

    def _insert(self, database: sqlite3.Connection) -> None:
        self._stored()
        if self._rows and not self._made:
            self._make_table(database)
        if self._rows:
            marks = ", ".join("?" * len(self._rows[0]))
            database.executemany(f"INSERT INTO {_quoted(self._table)} VALUES ({marks})", self._rows)
        ended, error = self._end or (None, None)
        sql = f"UPDATE reliable_rx_sinks SET next_id = ?, ended_id = ?, error = ? {self._mine}"
        database.execute(sql, (self._next, ended, error, *self._key))
        probe("sink.mid_flush")

    def _make_table(self, database: sqlite3.Connection) -> None:
        if columns := self._columns_found(database):  # the sink of another partition was faster
            self._adopt(columns)
            return
        names = ", ".join(_quoted(name) for name in self._getters or ())
        keys = "id INTEGER PRIMARY KEY" if self._partition is None else "partition TEXT NOT NULL, id INTEGER NOT NULL"
        last = "" if self._partition is None else ", PRIMARY KEY (partition, id)"
        database.execute(f"CREATE TABLE {_quoted(self._table)} ({keys}, {names}{last})")

    def _stored(self) -> tuple[int, int | None]:
        """Return the stored position and end, if no later epoch has been here."""
        if self._database is None:
            raise sqlite3.ProgrammingError("the database is closed")
        query = f"SELECT next_id, ended_id, epoch FROM reliable_rx_sinks {self._mine}"
        next_id, ended, newest = self._database.execute(query, self._key).fetchone()
        self._check_epoch(newest)
        return next_id, ended

    def _forget_committed(self) -> None:
        """Drop what a commit that seemed to fail has stored all the same."""
        stored, ended = self._stored()
        self._rows = [row for row in self._rows if row[len(self._keys) - 1] >= stored]
        if ended is not None:
            self._end = None

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            message = f"table {self._table} of {self._path} cannot be {what}: {error}; mend it, then flush again"
            raise StoreUnavailable(message) from error


@contextmanager
def _transaction(database: sqlite3.Connection | None) -> Iterator[sqlite3.Connection]:
    if database is None:
        raise sqlite3.ProgrammingError("the database is closed")
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _make_registry(database: sqlite3.Connection) -> None:
    found = [row[0] for row in database.execute("SELECT name FROM pragma_table_info('reliable_rx_sinks')")]
    for statement in _OLDER_REGISTRY if found and "epoch" not in found else (REGISTRY,):
        database.execute(statement)


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
    except BaseException:
        database.close()
        raise
    return database


def _getters(columns: Columns, keys: Sequence[str]) -> dict[str, Get] | None:
    if columns is None:
        return None
    getters = dict(columns) if isinstance(columns, Mapping) else {name: _field(name) for name in columns}
    _check_names(getters, keys)
    return getters


def _fields_of(value: Any, keys: Sequence[str]) -> dict[str, Get]:
    names = field_names(value)
    getters: dict[str, Get] = {"value": _as_json} if names is None else {str(name): _field(str(name)) for name in names}
    _check_names(getters, keys)
    return getters


def _check_names(getters: Mapping[str, Get], keys: Sequence[str]) -> None:
    names = [name.lower() for name in getters]
    if not names:
        raise ValueError("a table needs a column beside its id; give columns=")
    if set(keys) & set(names) or len(set(names)) < len(names):
        remedy = "give columns={'name': function of the value, …} with other names"
        raise ValueError(
            f"the columns {', '.join(getters)} repeat a name or the table's own {' and '.join(keys)}; {remedy}"
        )


def _field(name: str) -> Get:
    def get(value: Any) -> Any:
        return value[name] if isinstance(value, Mapping) else getattr(value, name)

    return get


def _as_json(value: Any) -> str:
    return json.dumps(to_plain(value), ensure_ascii=False, separators=(",", ":"))


_DIRECT = {str, float, bool, bytes, type(None)}


def _cell(value: Any) -> Any:
    """Turn *value* into what SQLite holds; integers past 64 bits become text."""
    kind = type(value)
    if kind in _DIRECT:
        return value
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    plain = to_plain(value)
    if isinstance(plain, (dict, list)):
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return _cell(plain) if type(plain) in _DIRECT or type(plain) is int else str(plain)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
