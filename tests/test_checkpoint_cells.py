"""Every cell of a SQLite store as something else: another type, nothing, too large, of another store."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit, every

from checkpoint import SqliteStore, failures
from checkpoint.offsets import SqliteOffsets
from checkpoint.offsets.store import Lease, Partition
from checkpoint.store import Checkpoint
from hosting.partitioned.sqlite_registry import SqliteRegistry
from reliable_rx.errors import LimitExceeded, ReliableRxError

CELLS: dict[str, Any] = {
    "null": None, "zero": 0, "negative": -1, "large": 2**63 - 1, "fraction": 0.5, "infinite": float("inf"),
    "text": "text", "no text": "", "surrogate": b"\xff\xfe".decode("utf-16-le", "replace"), "bytes": b"bytes",
    "no bytes": b"", "null byte": "a\0b", "number as text": "1", "long": b"RRX\x1a" + b"\x01" * 100,
}  # fmt: skip
QUICK = ("text",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "store"
    make_whole(folder)
    return folder


def make_whole(folder: Path) -> None:
    """Make a store with something in every table."""
    with SqliteStore(folder) as store:
        log = store.log("orders")
        log.append([b"one", b"two"])
        log.append([b"three"])
        log.trim(0)
        for turn in range(1, 7):
            store.journal.append(turn, 1, b"a turn")
        store.commit(
            Checkpoint(generation=1, kind="full", turn=2, meta=b"meta", chunks=[b"one", b"two"], rows=2),
            outputs={"s": [(0, 2, b"output")]},
        )
        store.commit(
            Checkpoint(generation=2, kind="differential", turn=4, meta=b"meta", chunks=[b"three"], rows=1),
            outputs={"s": [(2, 2, b"output")]},
        )
        store.journal.truncate(1)
        store.acknowledge("s", "reader", 1)


def cells(folder: Path) -> Iterator[tuple[str, str, str]]:
    for part in ("checkpoint", "journal", "log"):
        connection = sqlite3.connect(folder / f"{part}.sqlite")
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for column in connection.execute(f"PRAGMA table_info({table})").fetchall():
                yield part, table, column[1]
        connection.close()


def read_everything(store: Any) -> None:
    """Do all that an owner or a reader does."""
    store.recover()
    store.generations()
    list(store.journal.read(0))
    assert isinstance(store.journal.last_turn, int)
    for stream in store.streams():
        store.bounds(stream)
        list(store.outputs(stream, 0))
    for stream in store.subscribed():
        store.acknowledged(stream)


def use(folder: Path) -> None:
    with SqliteStore(folder) as store:
        store.recover(strict=True)
        read_everything(store)
        log = store.log("orders")
        log.read(log.first, 10)
        log.append([b"more"])
        store.journal.append(store.journal.last_turn + 1, 1, b"more")
        store.acknowledge("s", "reader", 2)


def look(folder: Path) -> None:
    with SqliteStore.read_only(folder) as store:
        read_everything(store)


def refused(act: Callable[[Path], None], folder: Path) -> None:
    """Do it, or have it refused."""
    try:
        act(folder)
    except ReliableRxError as error:
        assert len(str(error)) > 10


@pytest.mark.parametrize("value", [each if each in QUICK else at_each_commit(each) for each in CELLS])
def test_any_cell_as_anything(whole: Path, tmp_path: Path, value: str) -> None:
    """Whatever a cell holds, opening, reading and writing work or are refused in our words."""
    for number, (part, table, column) in enumerate(cells(whole)):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        with closing(sqlite3.connect(folder / f"{part}.sqlite")) as connection:
            try:
                connection.execute(
                    f"UPDATE {table} SET {column} = ? WHERE rowid = (SELECT max(rowid) FROM {table})", (CELLS[value],)
                )
            except sqlite3.IntegrityError:
                continue
            finally:
                connection.commit()
        try:
            refused(look, folder)
            refused(use, folder)
        except Exception as error:
            raise AssertionError(f"{part}.{table}.{column} as {value}") from error
        shutil.rmtree(folder)


def test_a_row_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with the limit, for its author alone, and the store goes on: to try again is no use."""
    with SqliteStore(tmp_path / "store") as store:
        for part in (store._parts.checkpoint, store._parts.journal, store._parts.log):
            assert part._writing is not None
            part._writing.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
        log = store.log("orders")
        made = Checkpoint(generation=1, kind="full", turn=0, meta=b"", chunks=[b"x" * 2000], rows=1)
        for act in (
            lambda: log.append([b"x" * 2000]),
            lambda: store.journal.append(1, 1, b"x" * 2000),
            lambda: store.commit(made),
        ):
            with pytest.raises(LimitExceeded, match="at most 1,000,000,000 bytes: bound the state"):
                act()
        assert log.append([b"x"]) == 0
        store.journal.append(1, 1, b"x")
        monkeypatch.setattr(failures, "ROW_BYTES_MAX", 500)
        with pytest.raises(LimitExceeded, match=r"[67][0-9][0-9] bytes were to be appended at once"):
            log.append([b"x" * 600])
        assert log.append([b"y"]) == 1
        assert log.read(0, 10) == (0, [b"x", b"y"])


def held(group: str, partition: Partition) -> Lease:
    return "a", 1


PLACE = ("log", "0")


def use_offsets(folder: Path) -> None:
    with SqliteOffsets(folder, held) as store:
        store.fetch("g")
        store.groups()
        store.commit("g", {PLACE: 20}, {PLACE: ("a", 1)})
        store.delete("g")


def use_registry(folder: Path) -> None:
    registry = SqliteRegistry(folder / "registry.sqlite", "g")
    try:
        version, _ = registry.load()
        registry.swap(version, b"new", notice=True)
        assert isinstance(registry._notices(), int | None)
    finally:
        registry.close()


@pytest.mark.parametrize("value", every(4, CELLS))
@pytest.mark.parametrize("kind", ["offsets", "registry"])
def test_any_cell_of_what_groups_share(tmp_path: Path, kind: str, value: str) -> None:
    """Positions of groups and their registries are refused in our words too, and never end a node in a raw error."""
    whole = tmp_path / "whole"
    whole.mkdir()
    use = use_offsets if kind == "offsets" else use_registry
    if kind == "offsets":
        with SqliteOffsets(whole, held) as store:
            store.commit("g", {PLACE: 12}, {PLACE: ("a", 1)})
            store.commit("g", {PLACE: 14}, {PLACE: ("a", 1)})
    else:
        use(whole)
    connection = sqlite3.connect(whole / f"{kind}.sqlite")
    tables = [table for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = [(table, row[1]) for table in tables for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    assert len(columns) >= 3
    for number, (table, column) in enumerate(columns):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        connection = sqlite3.connect(folder / f"{kind}.sqlite")
        with suppress(sqlite3.IntegrityError), connection:
            connection.execute(f"UPDATE {table} SET {column} = ?", (CELLS[value],))
        connection.close()
        try:
            refused(use, folder)
        except Exception as error:
            raise AssertionError(f"{table}.{column} as {value}") from error
