"""A store in files with a cell that holds other bytes, where SQLite finds every page sound.

The same world and claims as for damaged files and rows (`test_damaged_files`, `test_damaged_rows`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import damaged_world
import pytest
from damaged_world import OTHER_NUMBERS, WORLDS, World, check, hosting, in_files
from lanes import every_of, left_to_commits, sample_of

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.command import main
from reliable_rx.errors import CheckpointRefused

APP = f"{damaged_world.__name__}:app"
RETAINED = 3
KINDS = (*WORLDS, "stopped")
COLUMNS = (
    "checkpoint identity value", "checkpoint generations manifest", "checkpoint chunks blob", "checkpoint outputs blob",
    "journal identity value", "journal base blob", "journal turns seal", "journal turns blob",
    "log identity value", "log bases blob", "log entries blob", "log positions blob",
)  # fmt: skip
"""Part, table and column of all that holds bytes."""
NUMBERS = (
    "checkpoint generations generation", "checkpoint generations base", "checkpoint chunks generation",
    "checkpoint chunks number", "checkpoint outputs first", "checkpoint outputs count",
    "journal base turn", "journal turns first", "journal turns count",
    "log bases first", "log entries first", "log entries count", "log positions n",
)  # fmt: skip
"""The same of all that holds numbers."""
NAMES = (
    "checkpoint identity name", "checkpoint outputs stream", "journal identity name", "log identity name",
    "log bases log", "log entries log", "log positions stream", "log positions subscriber",
)  # fmt: skip
"""The same of all that holds names."""
ODD: dict[str, object] = {
    "less than any": -5, "none": 0, "too many": (1 << 63) - 1, "a part": 1.5,
    "a text": "odd", "no text": "", "a NUL": "a\0b",
    "bytes": b"odd", "no bytes": b"", "null": None,
}  # fmt: skip


def flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def key_flipped(data: bytes) -> bytes:
    """Flip a bit in what names the key, or, in what has no envelope, in the first byte."""
    at = 10 if len(data) > 32 else 0
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flipped,
    "its key flipped": key_flipped,
    "cut": lambda data: data[:-1],
    "cut in half": lambda data: data[: len(data) // 2],
    "zeroed": lambda data: bytes(len(data)),
    "emptied": lambda _: b"",
}


def stop(world: World) -> None:
    """Stop the app behind checkpoints that let nothing be behind them."""
    declared = hosting(world.folder)
    with in_files(world.folder).opened() as store, closing(declared.evaluator(store)) as evaluator:
        evaluator.start()
        for _ in range(RETAINED + 1):
            evaluator.step()
            evaluator.checkpoint(full=True)
    assert not cells(world.folder, "journal turns blob")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], World]:
    """Stores without a checkpoint, with one now and then, with many, and of a clean stop, made when asked for."""
    folder, made = tmp_path_factory.mktemp("worlds"), dict[str, World]()

    def world(name: str) -> World:
        if name not in made:
            made[name] = World(folder / name, WORLDS.get(name, 25))
            if name == "stopped":
                stop(made[name])
        return made[name]

    return world


def cells(folder: Path, place: str) -> list[tuple[int, bytes]]:
    """Return the row and the bytes of each cell of the column."""
    part, table, column = place.split()
    with closing(sqlite3.connect(folder / "store" / f"{part}.sqlite", isolation_level=None)) as connection:
        sql = f"SELECT rowid, {column} FROM {table} WHERE typeof({column}) = 'blob' ORDER BY rowid"
        return connection.execute(sql).fetchall()


def spoil(world: World, place: str, row: int, kind: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part, table, column = place.split()
    folder = world.copy(copy)
    data = dict(cells(folder, place))[row]
    file = folder / "store" / f"{part}.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (DAMAGE[kind](data), row))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    try:
        check(world.delivered, in_files(folder), capsys)
    except BaseException as error:
        error.add_note(f"row {row} of {table}, {column} {kind}")
        raise


@pytest.mark.parametrize("checkpoints, place, kind", every_of(131, product(KINDS, COLUMNS, DAMAGE), nightly=14))
def test_damage_of_a_cell(
    tmp_path: Path,
    worlds: Callable[[str], World],
    checkpoints: str,
    place: str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each column that holds bytes: in the oldest row, the newest and one between."""
    world = worlds(checkpoints)
    rows = [row for row, _ in cells(world.copy(tmp_path / "copy"), place)]
    for row in sample_of(2, sorted({rows[0], rows[len(rows) // 2], rows[-1]} if rows else ())):
        spoil(world, place, row, kind, tmp_path / "copy", capsys)


@pytest.mark.parametrize("checkpoints, place, how", every_of(53, product(KINDS, NUMBERS, OTHER_NUMBERS), nightly=14))
def test_another_number_in_the_oldest_and_newest_row(
    tmp_path: Path,
    worlds: Callable[[str], World],
    checkpoints: str,
    place: str,
    how: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each column of numbers: where tables begin and end they are read by other ways than between."""
    world, (part, table, column) = worlds(checkpoints), place.split()
    for edge in sample_of(2, ("DESC", "ASC")):
        folder = world.copy(tmp_path / f"copy {edge}")
        file, order = folder / "store" / f"{part}.sqlite", "first" if table in ("outputs", "entries") else column
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            sql = f"SELECT rowid, {column} FROM {table} ORDER BY {order} {edge} LIMIT 1"
            for row, number in connection.execute(sql).fetchall():
                update = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?"
                connection.execute(update, (OTHER_NUMBERS[how](number), row))
        check(world.delivered, in_files(folder), capsys)


@pytest.mark.parametrize(
    "checkpoints, place, odd", every_of(499, product(KINDS, (*COLUMNS, *NUMBERS, *NAMES), ODD), nightly=74)
)
def test_what_was_never_written_there(
    tmp_path: Path,
    worlds: Callable[[str], World],
    checkpoints: str,
    place: str,
    odd: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the oldest row and the newest of each column of each table: SQLite takes any value anywhere."""
    world, (part, table, column) = worlds(checkpoints), place.split()
    for edge in sample_of(2, ("max", "min")):
        folder = world.copy(tmp_path / f"copy {edge}")
        file, where = folder / "store" / f"{part}.sqlite", f"rowid = (SELECT {edge}(rowid) FROM {table})"
        never = sqlite3.IntegrityError  # a key, or what is never NULL
        with closing(sqlite3.connect(file, isolation_level=None)) as connection, suppress(never):
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (ODD[odd],))
        # a position whose names are others is not seen: its subscriber begins at the oldest id that is kept
        subscribers = place not in ("log positions stream", "log positions subscriber")
        check(world.delivered, in_files(folder), capsys, subscribers=subscribers)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoints, place, kind", list(product(KINDS, COLUMNS, ("flipped", "cut", "zeroed"))))
def test_damage_of_every_cell(
    tmp_path: Path,
    worlds: Callable[[str], World],
    checkpoints: str,
    place: str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of every row of such a column."""
    world = worlds(checkpoints)
    for row, _ in cells(world.copy(tmp_path / "copy"), place):
        spoil(world, place, row, kind, tmp_path / "copy", capsys)


@left_to_commits
@pytest.mark.parametrize("part", ["journal", "log"])
def test_a_file_of_another_store_is_no_damage(
    tmp_path: Path, worlds: Callable[[str], World], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sealed with another key it is refused by the repair too, which changes nothing."""
    folder, other = (World(tmp_path / name, 10).folder if name == "other" else worlds("some").copy(tmp_path / name)
                     for name in ("mine", "other"))  # fmt: skip
    for suffix in ("", "-wal", "-shm"):
        (folder / "store" / f"{part}.sqlite{suffix}").unlink(missing_ok=True)
    taken = sqlite3.connect(other / "store" / f"{part}.sqlite")
    with closing(taken), closing(sqlite3.connect(folder / "store" / f"{part}.sqlite")) as target:
        taken.backup(target)
    before = (folder / "store" / f"{part}.sqlite").read_bytes()
    hosting(folder)
    assert main(["store", "repair", str(folder / "store"), "--app", APP, "--yes"]) == 1
    said = "".join(capsys.readouterr())
    assert f"store/{part}.sqlite: none of its rows says which store it is; restore it from a copy" in said
    assert (folder / "store" / f"{part}.sqlite").read_bytes() == before


def test_what_was_replaced_is_kept(
    tmp_path: Path, worlds: Callable[[str], World], capsys: pytest.CaptureFixture[str]
) -> None:
    """The damaged cell is in the store's folder afterwards."""
    folder = worlds("some").copy(tmp_path / "copy")
    ((_, data),) = cells(folder, "journal base blob")
    spoil(worlds("some"), "journal base blob", 0, "zeroed", folder, capsys)
    assert cells(folder, "journal base blob") != [(0, bytes(len(data)))]
    (folder / "kept").mkdir()
    (folder / "store" / "damaged-1").rename(folder / "kept" / "store")
    assert cells(folder / "kept", "journal base blob") == [(0, bytes(len(data)))]


@pytest.mark.parametrize("row, upto", every_of(7, product(range(1, 6), range(6))))
def test_no_seal_beside_a_record_is_needed(tmp_path: Path, row: int, upto: int) -> None:
    """What a record is followed by is read behind it, and beside it only if it is damaged: nothing is lost."""
    told = [(number, 1, b"turn %d" % number) for number in range(1, 7)]
    with SqliteStore(tmp_path) as store:
        for each in told[:5]:
            store.journal.append(*each)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE turns SET seal = zeroblob(32) WHERE first = ?", (row,))
    with SqliteStore(tmp_path) as store:
        store.journal.append(*told[5])
        store.journal.truncate(upto)
    with SqliteStore(tmp_path) as store:
        for after in range(upto, 6):
            assert list(store.journal.read(after)) == told[after:]


def test_the_newest_outputs_are_missed_as_any_are(tmp_path: Path) -> None:
    """A row that is gone from the end is told to whoever reads, and not passed over."""
    for upto in (10, 20, 30):
        with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource(list(range(upto)), follow=True))
            evaluator.create("q", rx.source("n"))
            while evaluator.step():
                pass
            evaluator.checkpoint()
    with closing(sqlite3.connect(tmp_path / "s" / "checkpoint.sqlite")) as rows, rows:
        assert rows.execute("DELETE FROM outputs WHERE first = 20").rowcount == 1
    with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(list(range(31)), follow=True))
        evaluator.start()
        for start in (0, 15, 25):
            with pytest.raises(CheckpointRefused, match=r"ids 20 to 29 of stream 'q' are missing.*store repair"):
                list(evaluator.stream("q").read(start, 100))
