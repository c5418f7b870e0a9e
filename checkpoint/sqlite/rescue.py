"""What can be had of a store's files that are damaged, or whose write-ahead logs are, put into files that are whole.

Where the log can be put right (`checkpoint.sqlite.mended_log`), the database is what it was. Otherwise a new one is
made of the rows that can be read and whose seals are right: a row is whole or is not there, and what counts on one that
is not there refuses it, as it refuses any other damage. So it is where SQLite finds nothing wrong, and a row with which
the store opens is not what was written (`checkpoint.sealed_log.rows`). It all happens to a copy
(`checkpoint.sqlite.exchange`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

from checkpoint.failures import is_malformed
from checkpoint.format.envelope import FORMAT, SEAL_BYTES, KeyRing, seal, unseal
from checkpoint.sealed_log.generations import Seals
from checkpoint.sealed_log.rows import (
    TABLES,
    WRONG_IDENTITY,
    Row,
    Table,
    check_keys,
    check_owned,
    is_genuine,
    is_identity,
    not_written,
    telling,
    wrong_begin,
)
from checkpoint.sealed_log.store import position_kind
from checkpoint.sqlite.database import check_format, is_lost, is_of_kind, new_file, write_identity
from checkpoint.sqlite.leaf_pages import leaf_rows
from checkpoint.sqlite.mended_log import MendedLog, is_sound
from checkpoint.sqlite.parts import LOST, SCHEMAS
from checkpoint.sqlite.write_ahead import damaged_behind, log_beside
from reliable_rx.errors import CheckpointRefused

GAP_MAX = 100_000
"""How many outputs may be missing between two that are left, for the older ones to be kept."""
NAMED_MAX = 10


def damaged_files(directory: Path, keys: KeyRing) -> dict[str, tuple[str, str]]:
    """Return which parts of the store in *directory* have a damaged file: its name, and what is wrong with it."""
    return {part: each for part in SCHEMAS if (each := damage_of(directory, part, keys)) is not None}


def damage_of(directory: Path, part: str, keys: KeyRing) -> tuple[str, str] | None:
    """Return which file of *part* of a store is damaged or lost, and how; None if none is."""
    database = directory / f"{part}.sqlite"
    behind = damaged_behind(database)
    if behind is not None:
        return log_beside(database).name, f"it is damaged behind {behind:,} bytes, before commits that were durable"
    if is_lost(database):
        return database.name, LOST
    check_not_older(database)
    wrong = unsound(database, part, _looked_into) or wrong_rows(database, part, _looked_into, keys)
    return None if wrong is None else (database.name, wrong)


def check_not_older(database: Path) -> None:
    """*Raises* `CheckpointRefused` if *database* has an older format: none of its rows is damaged."""
    with suppress(sqlite3.Error), closing(_looked_into(database)) as connection:
        if 0 < connection.execute("PRAGMA user_version").fetchone()[0] < FORMAT:
            check_format(connection, database)


def unsound(database: Path, part: str, look: Callable[[Path], sqlite3.Connection]) -> str | None:
    """Return what is wrong with *database* as SQLite finds it, whatever its rows say."""
    try:
        with closing(look(database)) as connection:
            for (wrong,) in connection.execute("PRAGMA integrity_check(1)"):
                if wrong != "ok":
                    return f"it is damaged: {wrong.splitlines()[-1]}"
            for name, kind in (("owner", str), ("identity", bytes), ("key", bytes)):
                found = connection.execute("SELECT value FROM identity WHERE name = ?", (name,)).fetchall()
                if [type(each) for (each,) in found] != [kind]:
                    return "its identity is missing or damaged"
            return next(filter(None, (_odd_cell(connection, table) for table in TABLES[part])), None)
    except (sqlite3.DatabaseError, OverflowError) as error:
        if isinstance(error, sqlite3.OperationalError) and not is_malformed(error):
            raise
        return f"it is damaged: {error}"


def _odd_cell(connection: sqlite3.Connection, table: Table) -> str | None:
    rows = connection.execute(f"SELECT * FROM {table.name}")
    names = [column[0] for column in rows.description]
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            if not is_of_kind(name, (cell,)):
                return f"a cell of column {name!r} of {table.name} holds what was never written there"
    return None


def wrong_rows(database: Path, part: str, look: Callable[[Path], sqlite3.Connection], keys: KeyRing) -> str | None:
    """Return what is wrong with the rows of *database*, which is sound, that keep a store from opening."""
    with closing(look(database)) as connection:
        identity = dict(connection.execute("SELECT name, value FROM identity").fetchall())
        if not is_identity(identity["identity"], part, keys, identity["owner"]):
            return WRONG_IDENTITY

        def rows(table: Table) -> Iterator[Row]:
            return connection.execute(f"SELECT * FROM {table.name} WHERE {telling(table, table.name, 'true')}")

        table = not_written(part, rows, keys, identity["owner"])
    return None if table is None else f"a row of {table.name} is not what was written"


def wrong_start(directory: Path) -> str | None:
    """Say what is wrong with where the journal of a store begins; its logs are not damaged."""
    with suppress(sqlite3.Error), closing(_looked_into(directory / "journal.sqlite")) as journal:
        base = journal.execute("SELECT coalesce(max(turn), 0) FROM base").fetchone()[0]
        first = journal.execute("SELECT min(first) FROM turns").fetchone()[0]
        return wrong_begin(base, first) if isinstance(first, int | None) and isinstance(base, int) else None
    return None


def mend(directory: Path, keys: KeyRing) -> dict[str, list[str] | None]:
    """Make the store in *directory*, a copy, one that opens; return what each damaged part lost, None if nothing.

    *Raises* `CheckpointRefused` if nothing says which store it is.
    """
    lost = {part: _mend(directory, part, keys) for part in damaged_files(directory, keys)}
    if lost.get("journal") is not None or wrong_start(directory) is not None:
        _close_gaps(directory, keys)
    return lost


def _mend(directory: Path, part: str, keys: KeyRing) -> list[str] | None:
    database = directory / f"{part}.sqlite"
    log, whole, before = MendedLog(database), directory / "whole", directory / "before"
    log.write(whole, log.all_pages())
    lost: list[str] | None = None
    if log.missed() or unsound(whole, part, _looked_at) is not None:
        log.write(before, log.pages_before())
        whole, lost = _rebuilt(directory, part, keys, (whole, before))
    else:
        _seal_identity(directory, whole, part, keys)
        if wrong_rows(whole, part, _looked_at, keys) is not None:
            whole, lost = _rebuilt(directory, part, keys, (whole,))
    whole.replace(database)
    for suffix in ("-wal", "-shm"):
        database.with_name(f"{database.name}{suffix}").unlink(missing_ok=True)
    return lost


def _rebuilt(directory: Path, part: str, keys: KeyRing, sources: Sequence[Path]) -> tuple[Path, list[str]]:
    """Return a new file with what is genuine of *sources*, which are removed, and what is lost."""
    owner, fresh = _owner(directory, keys, dict.fromkeys(sources, part)), directory / "fresh"
    fresh.write_bytes(new_file(part, SCHEMAS[part], keys=keys, owner=owner))
    with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN")
        for source in sources:
            rescue(source, connection, part, keys, owner)
        lost = SETTLE[part](connection, keys, owner)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    for source in sources:
        source.unlink()
    return fresh, lost


def _seal_identity(directory: Path, database: Path, part: str, keys: KeyRing) -> None:
    """Seal the identity of *database* again if need be. *Raises* `CheckpointRefused` for another store's."""
    with closing(_looked_at(database)) as connection:
        identity = dict(connection.execute("SELECT name, value FROM identity").fetchall())
    if is_identity(identity["identity"], part, keys, identity["owner"]):
        return
    owner = _owner(directory, keys, {database: part})
    check_owned(rows_in(database, part), keys, owner, str(directory / f"{part}.sqlite"))
    with closing(sqlite3.connect(database)) as connection, connection:
        write_identity(connection, part, keys, owner)


def _owner(directory: Path, keys: KeyRing, others: Mapping[Path, str]) -> str:
    """Return which store this is, from whichever file can say it: by its identity, or by a row with that seal."""
    claimed: list[tuple[Path, str, str]] = []
    for file, part in {**others, **{directory / f"{part}.sqlite": part for part in SCHEMAS}}.items():
        with suppress(sqlite3.Error, TypeError), closing(_looked_at(file)) as connection:
            rows = dict(connection.execute("SELECT name, value FROM identity").fetchall())
            owner = str(rows.get("owner"))
            if is_identity(rows.get("identity"), part, keys, owner):
                return owner
            claimed.append((file, part, owner))
    for file, part, owner in claimed:
        with suppress(sqlite3.Error):
            if any(is_genuine(table, row, keys, owner) for table, row in rows_in(file, part)):
                return owner
    what, way = "none of its files says which store it is", "or give the key it was made with"
    databases = [directory / f"{part}.sqlite" for part in SCHEMAS]
    if all(map(is_lost, databases)):
        left = ", ".join(log_beside(each).name for each in databases if not is_lost(log_beside(each)))
        what = (
            f"{', '.join(each.name for each in databases)} are lost, without which nothing in {left} can be told apart"
        )
        way = "or move the folder away to begin anew: all that it had is lost then"
    raise CheckpointRefused(f"{directory}: {what}; restore it from a copy, {way}", what=what, where=str(directory))


def _looked_into(file: Path) -> sqlite3.Connection:
    """Connect for looking at a database and its log; without a log no file is made beside it."""
    how = "mode=ro" if log_beside(file).exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"{file.absolute().as_uri()}?{how}", uri=True)


def _looked_at(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def rescue(source: Path, target: sqlite3.Connection, part: str, keys: KeyRing, owner: str) -> None:
    """Put all rows of *source* that can be read, are genuine and are not there yet into *target*."""
    check_keys(rows_in(source, part), keys, owner, str(source.parent))
    for table, row in rows_in(source, part):
        insert_genuine(target, table, row, keys, owner)


def insert_genuine(target: sqlite3.Connection, table: Table, row: Row, keys: KeyRing, owner: str) -> None:
    """Put *row* of *table* into *target*, if it is as it was written and is not there yet."""
    row = with_own_seal(table, row)
    if is_genuine(table, row, keys, owner):
        if table.name == "generations":  # its base stands in its manifest too, sealed
            row = (row[0], Seals(keys, owner, table.name).manifest(row[0], row[2]).base, row[2])
        update = f" DO UPDATE SET {table.newest} = excluded.{table.newest}, blob = excluded.blob"
        newer = f"{update} WHERE excluded.{table.newest} > {table.newest}" if table.newest else " DO NOTHING"
        places = ", ".join("?" * table.columns)
        target.execute(f"INSERT INTO {table.name} VALUES ({places}) ON CONFLICT{newer}", row)


def with_own_seal(table: Table, row: Row) -> Row:
    """Return *row* of *table*; a turn with the seal in which it ends, whatever stands beside it."""
    if table.name == "turns" and isinstance(row[3], bytes):
        return *row[:2], row[3][-SEAL_BYTES:], row[3]
    return row


def rows_in(source: Path, part: str) -> Iterator[tuple[Table, Row]]:
    """Give the rows as SQLite finds them; if it cannot, all that look like one, wherever they are."""
    if is_sound(source) and _has_tables(source, part):
        with closing(_looked_at(source)) as connection:
            for table in TABLES[part]:
                for row in connection.execute(f"SELECT * FROM {table.name}"):
                    yield table, row
        return
    for number, values in leaf_rows(source):
        for table in TABLES[part]:
            if len(values) == table.columns:
                yield table, (number if values[0] is None else values[0], *values[1:])


def _has_tables(source: Path, part: str) -> bool:
    with closing(_looked_at(source)) as connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    return there.issuperset(table.name for table in TABLES[part])


def _close_gaps(directory: Path, keys: KeyRing) -> None:
    """Drop turns that are not as they were written, and those before a gap that the newest checkpoint covers.

    Nothing can begin there any more.
    """
    owner = _owner(directory, keys, {})
    seals = Seals(keys, owner, str(directory))
    with closing(sqlite3.connect(directory / "checkpoint.sqlite")) as checkpoint:
        turns = []
        with suppress(sqlite3.Error):
            for number, blob in checkpoint.execute("SELECT generation, manifest FROM generations"):
                with suppress(CheckpointRefused):
                    turns.append(seals.manifest(number, blob).turn)
    file = directory / "journal.sqlite"
    check_keys(rows_in(file, "journal"), keys, owner, str(directory))
    spoilt = [
        row[:1]
        for table, row in rows_in(file, "journal")
        if table.name == "turns" and not is_genuine(table, with_own_seal(table, row), keys, owner)
    ]
    with closing(sqlite3.connect(file)) as journal, journal:
        journal.executemany("DELETE FROM turns WHERE first = ?", spoilt)
        close_gaps(journal, turns, keys, owner)


def close_gaps(journal: sqlite3.Connection, turns: Sequence[int], keys: KeyRing, owner: str) -> None:
    """Drop the turns before a gap of *journal* that one of the checkpoints behind *turns* covers."""
    spans = [(first, first + count) for first, count in journal.execute("SELECT first, count FROM turns ORDER BY 1")]
    covered = [b for (_, a), (b, _) in pairwise(spans) if b > a and a <= max(turns, default=0)]
    if covered:
        journal.execute("DELETE FROM turns WHERE first < ?", (covered[-1],))
    settle_journal(journal, keys, owner)


def settle_checkpoint(connection: sqlite3.Connection, keys: KeyRing, owner: str) -> list[str]:
    """Leave generations as they are, since a recovery looks whether they are whole, and outputs before a gap too.

    The ids of a gap are filled behind this (`hosting.repair.lost_outputs`), but for one that is too wide: what lies
    before it is a stream's trimmed past, of a page that is not used any more.
    """
    told = []
    sql = "SELECT stream, first, count FROM outputs ORDER BY stream, first"
    for stream, rows in groupby(connection.execute(sql).fetchall(), key=itemgetter(0)):
        spans = [(first, first + count) for _, first, count in rows]
        oldest = next((b for (_, a), (b, _) in reversed([*pairwise(spans)]) if b - a > GAP_MAX), spans[0][0])
        if oldest > spans[0][0]:
            connection.execute("DELETE FROM outputs WHERE stream = ? AND first < ?", (stream, oldest))
            told.append(f"outputs of {stream!r} before id {oldest:,}")
    return told


def settle_journal(connection: sqlite3.Connection, keys: KeyRing, owner: str) -> list[str]:
    """Drop what lies before the base, and let the base be where the records begin."""
    base = connection.execute("SELECT coalesce(max(turn), 0) FROM base").fetchone()[0]
    connection.execute("DELETE FROM turns WHERE first <= ?", (base,))
    oldest = connection.execute("SELECT first, count, blob FROM turns ORDER BY first LIMIT 1").fetchone()
    if oldest is not None and oldest[0] != base + 1:
        first, count, blob = oldest
        payload = unseal(blob, keys=keys, kind="journal", owner=owner, generation=first, index=count, where="journal")
        sealed = seal(payload[:SEAL_BYTES], keys=keys, kind="journal base", owner=owner, generation=first - 1)
        connection.execute("INSERT OR REPLACE INTO base VALUES (0, ?, ?)", (first - 1, sealed))
    return []


def settle_log(connection: sqlite3.Connection, keys: KeyRing, owner: str) -> list[str]:
    """Drop what had been forgotten, and let each subscriber begin again at the oldest id that is kept.

    A row of a position may be an older one than that which is lost: a subscriber may have been let go since, or have
    begun again at a lower id, and would miss events in silence.
    """
    for log, first in connection.execute("SELECT log, first FROM bases").fetchall():
        connection.execute("DELETE FROM entries WHERE log = ? AND first + count <= ?", (log, first))
    rows = connection.execute("SELECT stream, subscriber FROM positions ORDER BY 1, 2").fetchall()
    for stream, subscriber in rows:
        blob = seal(b"", keys=keys, kind=position_kind(stream, subscriber), owner=owner, generation=0)
        sql = "UPDATE positions SET n = -1, blob = ? WHERE stream = ? AND subscriber = ?"
        connection.execute(sql, (blob, stream, subscriber))
    return told_of_positions(rows)


def told_of_positions(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Say what becomes of the positions of durable subscribers, given by stream and name."""
    unknown = (
        "positions of durable subscribers that are not named here, if there were any (subscribe those with at= the id "
        "that they need next)"
    )
    if not rows:
        return [unknown]
    more = f" and {len(rows) - NAMED_MAX:,} more" if len(rows) > NAMED_MAX else ""
    named = ", ".join(f"{subscriber!r} of stream {stream!r}" for stream, subscriber in rows[:NAMED_MAX])
    again = "which begin again at the oldest id that is kept (release those that had been let go)"
    return [f"positions of the subscribers {named}{more}, {again}", unknown]


SETTLE = {"checkpoint": settle_checkpoint, "journal": settle_journal, "log": settle_log}
