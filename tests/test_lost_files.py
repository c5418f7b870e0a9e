"""A store of which one file is lost, or was brought back alone from an older copy.

The same world and claims as for damaged files (`test_damaged_files`): what is told names a command that helps.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import combinations, product
from pathlib import Path

import damaged_world
import pytest
from damaged_world import WORLDS, World, check, hosting, in_files
from lanes import every, every_of

from checkpoint import SqliteStore
from checkpoint.sqlite.database import is_lost
from checkpoint.sqlite.write_ahead import log_beside
from hosting.cli.command import main
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

APP = f"{damaged_world.__name__}:app"
PARTS = ("checkpoint", "journal", "log")
ENDS = ("killed", "copied", "stopped")


def suffixed(file: Path, *suffixes: str) -> list[Path]:
    return [file.with_name(f"{file.name}{each}") for each in suffixes]


def gone(file: Path) -> None:
    for each in suffixed(file, "", "-wal", "-shm"):
        each.unlink(missing_ok=True)


def gone_beside_its_log(file: Path) -> None:
    file.unlink()


def emptied(file: Path) -> None:
    gone(file)
    file.touch()


def emptied_beside_its_log(file: Path) -> None:
    file.write_bytes(b"")


def its_log_gone(file: Path) -> None:
    for each in suffixed(file, "-wal", "-shm"):
        each.unlink(missing_ok=True)


def brought_back(file: Path) -> None:
    gone(file)
    for each in (file.parent.with_name("older") / f"{file.name}{suffix}" for suffix in ("", "-wal")):
        if each.exists():
            shutil.copyfile(each, file.with_name(each.name))


LOSSES: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (gone, gone_beside_its_log, emptied, emptied_beside_its_log, its_log_gone, brought_back)
}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], World]:
    """Stores as they are behind a kill, without logs beside the files, and behind a clean stop."""
    folder, made = tmp_path_factory.mktemp("worlds"), dict[tuple[str, str], World]()

    def world(checkpoints: str, end: str) -> World:
        if (checkpoints, end) not in made:
            made[checkpoints, end] = found = World(folder / f"{checkpoints} {end}", WORLDS[checkpoints])
            for part in PARTS if end == "copied" else ():
                with closing(sqlite3.connect(found.folder / "store" / f"{part}.sqlite")) as connection:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if end == "stopped":
                stop(found)
        return made[checkpoints, end]

    return world


def stop(world: World) -> None:
    declared = hosting(world.folder)
    with in_files(world.folder).opened() as store, closing(declared.evaluator(store)) as evaluator:
        evaluator.start()
        for _ in range(4):
            evaluator.step()
            evaluator.checkpoint(full=True)


@pytest.mark.parametrize("checkpoints, end, part, loss", every_of(97, product(WORLDS, ENDS, PARTS, LOSSES), nightly=7))
def test_a_file_that_is_lost(
    tmp_path: Path,
    worlds: Callable[[str, str], World],
    checkpoints: str,
    end: str,
    part: str,
    loss: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is the database, its log, or both; it is gone, has nothing, or is an older one."""
    world = worlds(checkpoints, end)
    folder = world.copy(tmp_path / "copy")
    LOSSES[loss](folder / "store" / f"{part}.sqlite")
    check(world.delivered, in_files(folder), capsys)


LOST = [loss for loss in LOSSES if loss != "brought_back"]
TOGETHER = [(parts, loss, end) for parts in combinations(PARTS, 2) for loss in LOST for end in ENDS]


@pytest.mark.parametrize("parts, loss, end", every_of(len(TOGETHER), TOGETHER, nightly=7, commits=12))
def test_files_that_are_lost_together(
    tmp_path: Path,
    worlds: Callable[[str, str], World],
    parts: tuple[str, ...],
    loss: str,
    end: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two of the three databases: the third one says which store it is."""
    world = worlds("some", end)
    folder = world.copy(tmp_path / "copy")
    for part in parts:
        LOSSES[loss](folder / "store" / f"{part}.sqlite")
    check(world.delivered, in_files(folder), capsys)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("loss", ["gone", "emptied"])
@pytest.mark.parametrize("parts", [(part,) for part in PARTS] + list(combinations(PARTS, 2)), ids="-".join)
def test_a_start_that_is_refused_makes_no_database(
    tmp_path: Path, worlds: Callable[[str, str], World], parts: tuple[str, ...], loss: str, end: str
) -> None:
    """However many are lost, it looks before it makes: what was lost stays so, and none is taken for an empty one."""
    folder = worlds("some", end).copy(tmp_path / "copy") / "store"
    files = [folder / f"{part}.sqlite" for part in parts]
    for file in files:
        LOSSES[loss](file)
    for _ in range(2):
        with pytest.raises(CheckpointRefused, match=r"missing or empty.* store repair"):
            SqliteStore(folder)
        assert all(map(is_lost, files)) and {each.exists() for each in files} == {loss == "emptied"}


@pytest.mark.parametrize("loss", ["gone_beside_its_log", "emptied_beside_its_log"])
def test_a_store_of_which_only_logs_are_left_is_refused_as_it_is(
    tmp_path: Path, worlds: Callable[[str, str], World], loss: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No start makes a new one beside them; the repair, which is named, says what is there and what is lost."""
    folder = worlds("some", "killed").copy(tmp_path / "copy") / "store"
    for part in PARTS:
        LOSSES[loss](folder / f"{part}.sqlite")
    before = {each.name: each.read_bytes() for each in folder.iterdir() if each.suffix.startswith(".sqlite")}
    with pytest.raises(CheckpointRefused, match=r"missing or empty.* store repair"):
        SqliteStore(folder)
    assert main(["store", "repair", str(folder), "--app", APP, "--yes"]) == 1
    told = "".join(capsys.readouterr())
    assert all(f"{part}.sqlite" in told for part in PARTS), told
    assert "are lost" in told and "journal.sqlite-wal" in told and "restore it from a copy" in told
    assert before == {each.name: each.read_bytes() for each in folder.iterdir() if each.suffix.startswith(".sqlite")}
    (folder / "seal.key").unlink()
    with pytest.raises(CheckpointRefused, match="the key file is missing"):
        SqliteStore(folder)
    assert not (folder / "seal.key").exists()


@pytest.mark.parametrize("left", ["seal.key", "journal.sqlite-shm"])
def test_what_has_lost_all_is_no_store_and_says_so(
    tmp_path: Path, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key, or the index of a log, has nothing of what was stored."""
    (tmp_path / left).write_bytes(b"x" * 32)
    assert main(["store", "repair", str(tmp_path)]) != 0
    told = "".join(capsys.readouterr())
    assert left in told and "no database of a store is there: they are lost, or not made yet" in told


@pytest.mark.parametrize("end", every(len(ENDS), ENDS, commits=1))
def test_an_empty_sink_does_not_say_that_nothing_was_given(
    tmp_path: Path, worlds: Callable[[str, str], World], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may have been given another file since: of a query that the store knows no more the ids are guessed."""
    world = worlds("some", end)
    folder = world.copy(tmp_path / "copy")
    gone(folder / "store" / "checkpoint.sqlite")
    (folder / "first.jsonl").unlink()
    assert "'first'" in check(world.delivered, in_files(folder), capsys)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("loss", ["gone_beside_its_log", "emptied_beside_its_log"])
def test_a_start_that_is_refused_keeps_the_log(
    tmp_path: Path, worlds: Callable[[str, str], World], part: str, loss: str
) -> None:
    """SQLite drops the one beside a file that has nothing; all commits may be in it."""
    folder = worlds("some", "killed").copy(tmp_path / "copy")
    file = folder / "store" / f"{part}.sqlite"
    LOSSES[loss](file)
    before = log_beside(file).read_bytes() if log_beside(file).exists() else b""
    with pytest.raises(CheckpointRefused, match=r"missing or empty.* store repair"):
        SqliteStore(file.parent)
    with suppress(CheckpointRefused, StoreUnavailable):
        SqliteStore.read_only(file.parent).close()
    assert not before or log_beside(file).read_bytes() == before
