"""An exactly-once sink into a table of SQLite: the row, its id and the sink's position in one transaction.

Rows wait in memory until `flush` and go in at once, so that several sinks may share a database without holding its
write lock between flushes. The position lies in a table of its own beside them (`reliable_rx_sinks`), so rows may
be deleted freely. A commit that fails may have happened all the same; so the position is read again before
a retry, and what it covers is not written twice. A table that was dropped is begun anew: its position is the first id.

The epoch of the writer lies there too, and is looked at inside the transaction of each write: a former writer whose
transaction comes later is refused. A writer that is stopped in the midst of its transaction holds SQLite's write lock,
and holds up all other writers of the file until it goes on or ends; there is no taking the lock from it, and a file
that others have open cannot be exchanged under their feet. Rejected: a copy of the database in place of the old one,
as `hosting.sinks.json_lines` does it (the log beside it would have to be exchanged in the same instant).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from checkpoint.ownership import OwnProcess, keep_for_parent, tell_of_forks
from hosting.admission.constructor_types import checks_kinds
from hosting.engine.blame import blamed
from hosting.sinks import sqlite_positions
from hosting.sinks.cells import Cells, Columns, Get, as_json, field, fields_of, getters_of, quoted, ways_to
from hosting.sinks.fencing import lost
from hosting.sinks.origins import check_origin, origin_in
from hosting.sinks.places import Place, check_rights, opening
from hosting.sinks.sqlite_errors import guard
from hosting.sinks.text import error_text, shown
from reliable_rx.class_of import qualname_of
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, ValueRefused, invariant
from reliable_rx.failpoints import probe
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.choices import names_keywords
from reliable_rx.reliable import DeadLetter, Origin

ROWS_HELD_MAX = 65_536
_HEADER_BYTES = 100


class SqliteTableSink:
    """Write a stream to *table* of the SQLite database *path*, each value as exactly one row.

    The table has ``id INTEGER PRIMARY KEY`` and the *columns*: a function of the value for each, or the names of
    fields or keys of the value. Without *columns* they are the fields of the first value, or one column ``value`` of
    JSON text if it has none. What SQLite cannot hold is stored as text or JSON; NaN it stores as NULL. Table
    ``reliable_rx_sinks`` holds the position, and the end when it has come: ``ended_id``, and ``error`` (NULL:
    completed). Dead letters are rows of ``reliable_rx_dead_letters``, with the value as text.

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
    that this sink did not make and a database that is damaged or was changed, `ValueRefused` for a value that does not
    fit the columns, `LeaseLost` if a later epoch writes the table, or this partition of it.
    """

    @names_keywords
    @checks_kinds()
    def __init__(
        self, path: str | os.PathLike[str], table: str, *, columns: Columns = None, partition: str | None = None
    ) -> None:
        self._path = os.fspath(path)
        self._table = table
        self._partition = partition
        self._keys = ("id",) if partition is None else ("partition", "id")
        self._getters: Mapping[str, Get] | None = getters_of(columns, self._keys)
        self._cells = Cells(0)
        self._epoch = 0
        self._open = False
        self._origin: Origin | None = None
        self._process = OwnProcess(f"the sink {self._path}")
        tell_of_forks(self)
        self._database: sqlite3.Connection | None = None
        self._next = self._committed = 0
        self._rows: list[tuple[Any, ...]] = []
        self._letters: list[tuple[Any, ...]] = []
        self._end: tuple[int, str | None] | None = None
        self._doubtful: int | None = None
        """The next id behind a commit that seemed to fail, and may have been made."""
        self._made = False
        self._places: list[Place] = []
        self.remark = ""
        if not table or table.startswith("sqlite_") or "\0" in table or table == "reliable_rx_sinks":
            raise ValueError(f"{table!r} cannot name a table; choose another name")
        if partition == "":
            raise ValueError("a partition needs a name; without partitions leave partition= out")

    @property
    def target(self) -> str:
        """What no other sink may write."""
        table = f"table {self._table} of {os.path.abspath(self._path)}"
        return table if self._partition is None else f"partition {self._partition!r} in {table}"

    def claim(self, origin: Origin, /) -> None:
        """Take note of where the ids come from."""
        invariant(not self._open, f"the sink {self._path} is claimed before it opens")
        self._origin = origin

    def fence(self, epoch: int, /) -> None:
        """Take the table, or this partition of it, from every earlier epoch."""
        invariant(not self._open and not self._epoch, f"the sink {self._path} is fenced once, before it opens")
        self._epoch = epoch
        try:
            self._connected("fenced")
        except BaseException:
            self._epoch = 0
            raise
        finally:
            self._disconnect()

    def open(self, stream: str, /) -> int | None:
        """Return the next id wanted."""
        invariant(not self._open, f"the sink {self._path} is opened once")
        self._origin = self._origin or Origin(stream)
        self._next = self._committed = self._connected("opened")
        self._open = True
        return self._next

    def stored_position(self, stream: str, /) -> int | None:
        """Return the next id wanted, and change nothing."""
        with opening(self._path), self._guard("looked at"):
            if not os.path.exists(self._path):
                return 0
            position, found = sqlite_positions.stored_position(self._path, self._key)
            self._check_origin(position, found, self._origin or Origin(stream))
            return position

    def _check_origin(self, position: int, found: Origin | None, origin: Origin | None) -> None:
        """*Raises* `CheckpointRefused` if the table has ids, and is *found* to have those of another origin."""
        if origin is not None:
            table = f"table {self._table} of {self._path}"
            check_origin(found, origin, position, what=table, where=self._path, remedy=self._remedy)

    def _connected(self, what: str) -> int:
        """Connect if need be, and enter origin and epoch in the registry; return the position."""
        try:
            with opening(self._path), self._guard(what):
                os.makedirs(os.path.dirname(os.path.abspath(self._path)), exist_ok=True)
                check_rights(self._path)  # SQLite says only that it cannot open or write it
                self._database = self._database or sqlite_positions.connected(self._path)
                self._cells = Cells(self._database.getlimit(sqlite3.SQLITE_LIMIT_LENGTH))
                position = self._register()
                self._places = [Place(name) for name in (self._path, f"{self._path}-wal") if os.path.exists(name)]
                return position
        except BaseException:
            self._disconnect()
            raise

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._check_gap(first)
        values = values[max(0, self._next - first) :]
        if not values:
            return
        rows, getters = self._to_rows(values)
        if len(self._rows) + len(values) > ROWS_HELD_MAX:
            self._commit()
        self._getters = getters
        self._rows += rows
        self._next, self._end = self._next + len(values), None  # what had ended goes on

    def end(self, n: int, error: Exception | None, /) -> None:
        self._check_gap(n)
        if n == self._next:
            self._end = (n, None if error is None else error_text(error))
            self._next = n + 1

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None:
        self._check_gap(n)
        if until <= self._next:
            return
        if letter is not None:
            self._letters.append((*self._key, n, why, qualname_of(type(letter.value)), shown(letter.value)))
        self._next, self._end = until, None

    def flush(self) -> None:
        self._process.check()
        probe("sink.before_flush")
        self._commit()
        probe("sink.after_flush")

    def forget_in_child(self) -> None:
        """Leave the connection to the parent: SQLite's may neither be used nor closed in a child."""
        if self._database is not None:
            keep_for_parent(self._database)
            self._database = None

    def close(self) -> None:
        """Let go of the database; whoever opens the sink again begins anew, and fences it anew."""
        self._disconnect()
        self._epoch, self._origin = 0, None

    def _disconnect(self) -> None:
        """Close the connection, and forget what waits for a flush: whoever opens the sink again is asked for it."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self._rows, self._letters, self._end, self._doubtful = [], [], None, None
        self._open = False

    def _check_gap(self, first: int) -> None:
        self._process.check()
        if first > self._next:
            message = f"table {self._table} of {self._path} wants id {self._next} next and is given {first}"
            raise PositionUnavailable(
                f"{message}: ids between are no longer to be had; begin a new table",
                wanted=self._next,
                first=first,
                end=None,
            )

    def _register(self) -> int:
        """Find this table's position in the registry, or enter it there; let the epoch be known."""
        with sqlite_positions.transaction(self._database) as database:
            sqlite_positions.make_registry(database)
            columns = self._columns_found(database)
            if not columns and sqlite_positions.forget_dropped(database, self._table):
                self.remark = f"table {self._table} of {self._path} is gone: it is begun anew with the first id"
            sql = f"SELECT next_id, epoch, origin FROM reliable_rx_sinks {self._mine}"
            known = database.execute(sql, self._key).fetchone()
            if known is not None:
                self._check_origin(known[0], origin_in(known[2]), self._origin)
            elif columns and not self._is_registered(database):
                raise self._refused("was not made by this sink")
            else:
                sqlite_positions.enter(database, self._key)
            self._check_epoch(0 if known is None else known[1])
            sql = "UPDATE reliable_rx_sinks SET epoch = ?, made = ?"
            database.execute(f"{sql} {self._mine}", (self._epoch, bool(columns), *self._key))
        self._made = False
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
            self._getters = {"value": as_json} if names == ("value",) else {name: field(name) for name in names}
        there, wanted = ({each.lower() for each in names} for names in (columns, (*self._keys, *self._getters)))
        if there != wanted or columns[: len(self._keys)] != self._keys:  # in whatever order
            raise self._other_columns(columns, self._getters)

    def _other_columns(self, columns: Sequence[str], getters: Collection[str]) -> CheckpointRefused:
        """Return the error for a table with *columns* where *getters* are those that it is to have."""
        why = f"has the columns {', '.join(columns)}, not {', '.join((*self._keys, *getters))}"
        if tuple(columns[: len(self._keys)]) != self._keys:
            return self._refused(why)
        message = f"table {self._table} of {self._path} {why}; {ways_to(self._table, columns, self._keys, getters)}"
        return CheckpointRefused(message, what=why, where=f"{self._path}, {self._table}")

    def _refused(self, why: str) -> CheckpointRefused:
        message = f"table {self._table} of {self._path} {why}; {self._remedy}"
        return CheckpointRefused(message, what=why, where=f"{self._path}, {self._table}")

    _remedy = "name another table, or drop this one and its entry in reliable_rx_sinks"

    def _to_rows(self, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], Mapping[str, Get]]:
        """Return the rows of *values*, and the columns. *Raises* `ValueRefused`, naming the first that does not fit."""
        try:
            return self._rows_of(self._next, values)
        except BaseException as raised:  # a column may be somebody else's function
            let_through(raised)
            for n, value in enumerate(values, self._next):
                try:
                    self._rows_of(n, [value])
                except BaseException as error:
                    let_through(error)
                    raise self._misfit(n, error) from blamed(error)
            raise

    def _rows_of(self, first: int, values: Sequence[Any]) -> tuple[list[tuple[Any, ...]], Mapping[str, Get]]:
        getters = self._getters or fields_of(values[0], self._keys)
        before = () if self._partition is None else (self._partition,)
        return self._cells.rows(before, range(first, first + len(values)), values, getters), getters

    def _misfit(self, n: int, error: BaseException) -> ValueRefused:
        columns = f", columns {', '.join(self._getters)}" if self._getters else ""
        where = f"value {n:,} does not fit table {self._table} of {self._path}{columns}: {error_text(error)}"
        return ValueRefused(f"{where}; give the sink columns= with functions that take it", n=n)

    def _commit(self) -> None:
        invariant(self._open, f"the sink {self._path} is open when it is flushed")
        if self._next == self._committed and self._doubtful is None:
            if self._epoch:
                with self._guard("looked at"):
                    self._stored()
            return
        with self._guard("written"):
            if self._doubtful is not None:
                self._forget_committed(self._doubtful)
            if self._next != self._committed:
                self._doubtful = self._next
                with sqlite_positions.transaction(self._database) as database:
                    self._insert(database)
            for place in self._places:
                place.check(_HEADER_BYTES if place is self._places[0] else 0)
            self._doubtful = None
        self._made = self._made or bool(self._rows)
        self._rows.clear()
        self._letters.clear()
        self._end = None
        self._committed = self._next

    def _insert(self, database: sqlite3.Connection) -> None:
        stored, wanted = self._stored()[0], self._committed
        if stored != wanted:
            self._doubtful = None
            raise self._refused(f"is written by another sink, too: id {stored:,} is next there, not {wanted:,}")
        if self._rows and not self._made:
            self._make_table(database)
        if self._rows:
            marks = ", ".join("?" * len(self._rows[0]))
            names = ", ".join(map(quoted, (*self._keys, *(self._getters or ()))))
            database.executemany(f"INSERT INTO {quoted(self._table)} ({names}) VALUES ({marks})", self._rows)
        if self._letters:
            sqlite_positions.insert_letters(database, self._letters)
        ended, error = self._end or (None, None)
        made = self._made or bool(self._rows)
        sql = "UPDATE reliable_rx_sinks SET next_id = ?, ended_id = ?, error = ?, made = ?"
        database.execute(f"{sql} {self._mine}", (self._next, ended, error, made, *self._key))
        sqlite_positions.enter_origin(database, self._key, self._origin)
        probe("sink.mid_flush")

    def _make_table(self, database: sqlite3.Connection) -> None:
        if columns := self._columns_found(database):  # the sink of another partition was faster
            self._adopt(columns)
            return
        names = ", ".join(quoted(name) for name in self._getters or ())
        keys = "id INTEGER PRIMARY KEY" if self._partition is None else "partition TEXT NOT NULL, id INTEGER NOT NULL"
        last = "" if self._partition is None else ", PRIMARY KEY (partition, id)"
        database.execute(f"CREATE TABLE {quoted(self._table)} ({keys}, {names}{last})")

    def _stored(self) -> tuple[int, int | None]:
        """Return the stored position and end, if no later epoch has been here."""
        if self._database is None:
            raise sqlite3.ProgrammingError("the database is closed")
        query = f"SELECT next_id, ended_id, epoch FROM reliable_rx_sinks {self._mine}"
        found = self._database.execute(query, self._key).fetchone()
        if found is None:
            raise self._refused("has lost its entry in reliable_rx_sinks")
        next_id, ended, newest = found
        self._check_epoch(newest)
        return next_id, ended

    def _forget_committed(self, tried: int) -> None:
        """Drop what a commit up to id *tried* that seemed to fail has stored all the same."""
        stored, ended = self._stored()
        if stored != tried:
            return
        rows, self._rows = self._rows, [row for row in self._rows if row[len(self._keys) - 1] >= stored]
        self._committed, self._made = stored, self._made or len(self._rows) < len(rows)
        self._letters = [letter for letter in self._letters if letter[2] >= stored]
        if self._end is not None and self._end[0] == ended:
            self._end = None

    def _guard(self, what: str) -> AbstractContextManager[None]:
        return guard(self._table, self._path, what)
