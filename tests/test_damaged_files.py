"""A store whose files are damaged anywhere: it opens with nothing lost, or says how it is made to open.

Then no id that was delivered has another value, no subscriber misses what it had not, and what is lost has been told.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import damaged_world
import pytest
from damaged_world import PUSHED, WORLDS, World, check, hosting, in_files, plain, push, read
from killed_store import killed
from lanes import at_each_commit, crossed, every, every_of, left_to_commits

import reliable_rx as rx
from checkpoint import KeyRing, SqliteStore
from checkpoint.format.envelope import SEAL_BYTES, seal
from checkpoint.format.salvage import Unreadable
from checkpoint.sealed_log.rows import TABLES, check_keys
from hosting import App, ListSource
from hosting.cli.command import main
from hosting.repair.repair import span
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused

APP = f"{damaged_world.__name__}:app"
PARTS = ("checkpoint", "journal", "log")


def inverse(value: int) -> float:
    return 1 / value


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """Stores without a checkpoint, with one now and then, and with many."""
    folder = tmp_path_factory.mktemp("worlds")
    return {name: World(folder / name, often) for name, often in WORLDS.items()}


def flipped(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(each ^ 0x41 for each in data[at : at + size]) + data[at + size :]


def zeroed(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


def inserted(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + random.Random(at).randbytes(size) + data[at:]


def removed(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + data[at + size :]


SHIFTS = (1, 8, 24, 100, 4120)
DAMAGE: dict[str, tuple[Callable[[bytes, int, int], bytes], int]] = {
    "a byte": (flipped, 1),
    "a sector": (zeroed, 512),
    "a page": (flipped, 4120),
    "many pages": (zeroed, 40_000),
    **{f"{size} more": (inserted, size) for size in SHIFTS},
    **{f"{size} less": (removed, size) for size in SHIFTS},
}


def places(log: bytes, size: int, count: int, draw: random.Random) -> list[int]:
    """Draw where to damage *log*: half in headers, all before the last commits, of which nothing can be known."""
    frames = range(32, len(log), 4120)
    upto = [start for start in frames if any(log[start + 4 : start + 8])][-2] - size
    found = [draw.choice([0, 20, draw.choice(frames), draw.choice(frames) + 4]) for _ in range(count // 2)]
    found += [draw.randrange(len(log)) for _ in range(count - len(found))]
    return [each for each in found if each < upto]


def damage_some(
    world: World, part: str, kind: str, count: int, seed: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, (damage, size) = world.log(part), DAMAGE[kind]
    for at in places(log, size, count, random.Random(seed)) if len(log) > 10_000 else ():
        folder = world.copy(copy)
        (folder / "store" / f"{part}.sqlite-wal").write_bytes(damage(log, at, size))
        try:
            check(world.delivered, in_files(folder), capsys)
        except BaseException as error:
            error.add_note(f"{kind} at {at} of {len(log)}")
            raise


@pytest.mark.parametrize("checkpoints, part, kind", every_of(197, product(WORLDS, PARTS, DAMAGE), nightly=14))
def test_damage_anywhere(
    tmp_path: Path,
    worlds: dict[str, World],
    checkpoints: str,
    part: str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At drawn places of headers and pages."""
    seed = f"{checkpoints} {part} {kind}"
    damage_some(worlds[checkpoints], part, kind, 2, seed, tmp_path / "copy", capsys)


def spoil_database(
    world: World, part: str, kind: str, count: int, seed: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, size = DAMAGE[kind]
    draw = random.Random(seed)
    for _ in range(count):
        folder = world.copy(copy)
        file = folder / "store" / f"{part}.sqlite"
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = file.read_bytes()
        at = draw.choice([draw.randrange(len(data)), draw.randrange(0, len(data), 4096) + draw.randrange(20)])
        file.write_bytes(damage(data, at, size))
        try:
            check(world.delivered, in_files(folder), capsys)
        except BaseException as error:
            error.add_note(f"{kind} at {at} of {len(data)}")
            raise


@pytest.mark.parametrize("checkpoints, part, kind", every_of(211, product(WORLDS, PARTS, DAMAGE), nightly=14))
def test_damage_of_the_database(
    tmp_path: Path,
    worlds: dict[str, World],
    checkpoints: str,
    part: str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the file beside the log, in which everything is after a clean stop."""
    seed = f"{checkpoints} {part} {kind}"
    spoil_database(worlds[checkpoints], part, kind, 2, seed, tmp_path / "copy", capsys)


@left_to_commits
@pytest.mark.parametrize("checkpoints, commits, part", crossed(["some", "none"], [1, 7, 2, 30], PARTS))
def test_newest_commits_that_are_lost(
    tmp_path: Path,
    worlds: dict[str, World],
    checkpoints: str,
    commits: int,
    part: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a power cut would leave them, of a disk that lies: a sink that is ahead shows it, and the remedy works."""
    world = worlds[checkpoints]
    log = world.log(part)
    ends = [start for start in range(32, len(log), 4120) if any(log[start + 4 : start + 8])]
    folder = world.copy(tmp_path / "copy")
    (folder / "store" / f"{part}.sqlite-wal").write_bytes(log[: ends[-min(commits, len(ends))]] if ends else log)
    told = check(world.delivered, in_files(folder), capsys)
    if part == "journal" and ends:
        assert re.search(rf"sink of stream 'total': it has ids? .*{PUSHED - 1}, which this store has never given", told)
        further = re.search(r"the ids go on ([\d,]+) further(, past retain_events=10,000)?", told)
        assert further is not None
        assert (int(further[1].replace(",", "")) >= 10_000) is (further[2] is not None), told


@left_to_commits
@pytest.mark.parametrize("place", [0, at_each_commit(1), 10])
def test_an_old_turn_that_is_missing(
    tmp_path: Path, worlds: dict[str, World], place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the first, which an owner looks for, or another: then a checkpoint stops where it cuts the journal.

    No start needs it. The refusal names the repair, which mends.
    """
    world = worlds["some"]
    folder = world.copy(tmp_path / "copy")
    with closing(sqlite3.connect(folder / "store" / "journal.sqlite", isolation_level=None)) as connection:
        first = connection.execute("SELECT first FROM turns ORDER BY first LIMIT 1 OFFSET ?", (place,)).fetchone()[0]
        connection.execute("DELETE FROM turns WHERE first = ?", (first,))
    declared = hosting(folder)
    pushed = 0
    with (
        pytest.raises(CheckpointRefused, match=r"belongs there is turn .* store repair"),
        SqliteStore(folder / "store") as store,
        closing(declared.evaluator(store)) as evaluator,
    ):
        evaluator.start()
        push(evaluator, range(PUSHED, PUSHED + 5), checkpoint_every=10**9)
        pushed = 5
        for _ in range(5):
            evaluator.checkpoint()
    assert main(["store", "repair", str(folder / "store"), "--app", APP, "--yes"]) == 0
    assert ("all records are dropped" if place else "it begins at turn") in capsys.readouterr().out
    with SqliteStore(folder / "store") as store, closing(declared.evaluator(store)) as evaluator:
        evaluator.start()
        push(evaluator, range(PUSHED + pushed, PUSHED + 10), checkpoint_every=2)
        found = read(evaluator)["total"]
    assert {n: plain(found[n]) for n in found if n in world.delivered["total"]}.items() <= world.delivered[
        "total"
    ].items()
    assert found[max(found)][:2] == (PUSHED + 10, sum(range(PUSHED + 10)))


def spoil_outputs(folder: Path, stream: str, how: str) -> set[int]:
    """Delete or spoil stored outputs of *stream*; return the ids that this loses."""
    place = {"last": -1, "seal of the last": -1}.get(how, 3)
    with closing(sqlite3.connect(folder / "store" / "checkpoint.sqlite", isolation_level=None)) as connection:
        rows = connection.execute(
            "SELECT first, count FROM outputs WHERE stream = ? ORDER BY first", (stream,)
        ).fetchall()
        first, count = rows[place]
        spoil = "UPDATE outputs SET blob = zeroblob(length(blob))" if how.startswith("seal") else "DELETE FROM outputs"
        connection.execute(f"{spoil} WHERE stream = ? AND first = ?", (stream, first))
    return set(range(first, first + count))


@pytest.mark.parametrize("how", every(4, ["midst", "last", "seal", "seal of the last"]))
def test_stored_outputs_that_are_lost(
    tmp_path: Path, worlds: dict[str, World], how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The app starts, but nobody could read its streams: a repair names the ids, and keeps them as unreadable.

    What is left can be read then, a sink that has them goes on, and no id is used for another value.
    """
    world = worlds["many"]
    folder = world.copy(tmp_path / "copy")
    hosting(folder)
    lost = {name: spoil_outputs(folder, name, how) for name in ("total", "both")}
    command = ["store", "repair", str(folder / "store"), "--app", APP]
    for _ in range(2):  # it is not agreed to, so it is there again
        assert main(command) == 1
        said = capsys.readouterr().out
        for name, ids in lost.items():
            assert f"stream '{name}': {span('id', min(ids), max(ids))} lost" in said, said
    assert main([*command, "--yes"]) == 0
    assert main(command) == 0
    assert "there is nothing to repair" in capsys.readouterr().out
    check(world.delivered, in_files(folder), capsys)
    with SqliteStore(folder / "store") as store, closing(hosting(folder).evaluator(store)) as evaluator:
        evaluator.start()
        found = read(evaluator)
    for name in lost:
        assert {n for n, value in found[name].items() if isinstance(value, Unreadable)} == lost[name]
        assert found[name].keys() >= world.delivered[name].keys()
    assert len((folder / "total.jsonl").read_text().splitlines()) == PUSHED + 5


def test_a_stored_end_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a query that has ended the end is known: its stream ends as it did, behind what stands for its values."""
    declared = App(checkpoint_interval_s=1e9)
    declared.source("m", ListSource([1, 2, 0]))
    declared.query("inverse", rx.source("m").pipe(ops.map(inverse)))
    monkeypatch.setattr(damaged_world, "app", declared)
    store = tmp_path / "store"
    with closing(declared.evaluator(SqliteStore(store))) as evaluator:
        evaluator.run()
        whole = list(evaluator.stream("inverse").read(0, 10))
        evaluator.checkpoint()
        evaluator.store.close()
    with closing(sqlite3.connect(store / "checkpoint.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE outputs SET blob = x'00'")
    assert main(["store", "repair", str(store), "--app", APP, "--yes"]) == 0
    with SqliteStore(store) as opened, closing(declared.evaluator(opened)) as evaluator:
        evaluator.start()
        (part,) = evaluator.stream("inverse").read(0, 10)
    assert (part.first, part.next, part.ended) == (0, whole[-1].next, True)
    assert isinstance(part.error, ZeroDivisionError)
    assert all(isinstance(each, Unreadable) for each in part.values)


def damage_journal(folder: Path, kind: str) -> None:
    """Damage the journal's log in its midst."""
    log = folder / "journal.sqlite-wal"
    damage, size = DAMAGE[kind]
    log.write_bytes(damage(log.read_bytes(), 32 + 4120 * 20 + 500, size))


@pytest.mark.parametrize("kind", ["a byte", "many pages"])
def test_the_store_of_a_partition(
    tmp_path: Path, worlds: dict[str, World], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are put right; what would give turns up is refused, since its group would not learn of it."""
    copy = worlds["none"].copy(tmp_path / "copy")
    folder = tmp_path / "group" / "partitions" / "app" / "n" / "0" / "1"
    folder.parent.mkdir(parents=True)
    (copy / "store").rename(folder)
    (tmp_path / "group" / "registry.sqlite").touch()
    damage_journal(folder, kind)
    damaged = (folder / "journal.sqlite-wal").read_bytes()
    code = main(["store", "repair", str(folder), "--app", APP, "--yes"])
    said = "".join(capsys.readouterr())
    if kind == "a byte":
        assert (code, "nothing in it is lost" in said) == (0, True), said
        SqliteStore(folder).close()
    else:
        assert (code != 0, "no repair helps" in said) == (True, True), (code, said)
        assert (folder / "journal.sqlite-wal").read_bytes() == damaged


def test_a_store_with_keys_of_its_own(
    tmp_path: Path, worlds: dict[str, World], capsys: pytest.CaptureFixture[str]
) -> None:
    """The repair says where it takes the key from, and works with it."""
    folder = worlds["some"].copy(tmp_path / "copy")
    hosting(folder)
    key = (folder / "store" / "seal.key").read_bytes()
    (folder / "store" / "seal.key").unlink()
    damage_journal(folder / "store", "a byte")
    command = ["store", "repair", str(folder / "store"), "--app", APP, "--yes"]
    assert main(command) == 1
    assert "put the key (its bytes) into that file" in "".join(capsys.readouterr())
    (folder / "store" / "seal.key").write_bytes(key)
    assert main(command) == 0
    (folder / "store" / "seal.key").unlink()
    SqliteStore(folder / "store", keys=KeyRing(key)).close()


@left_to_commits
@pytest.mark.parametrize("kind", ["a byte", at_each_commit("many pages")])
def test_a_store_with_older_keys(
    tmp_path: Path, worlds: dict[str, World], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is sealed with an older key is kept as the rest is; without that key nothing is given up for it."""
    folder = worlds["some"].copy(tmp_path / "copy")
    store, told = folder / "store", folder / "told"
    old, new = (store / "seal.key").read_bytes(), b"n" * 32
    ring = KeyRing(new, older=(old,))
    (store / "seal.key").unlink()

    def work() -> None:
        evaluator = hosting(folder).evaluator(SqliteStore(store, keys=ring))
        evaluator.start()
        push(evaluator, range(PUSHED, PUSHED + 20), checkpoint_every=10**9)
        told.write_text(json.dumps(read(evaluator)))

    killed(work)
    delivered = json.loads(told.read_text())["total"]
    hosting(folder)
    damage_journal(store, kind)
    before = (store / "journal.sqlite-wal").read_bytes()
    command = ["store", "repair", str(store), "--app", APP, "--yes"]
    (store / "seal.key").write_bytes(new)
    if kind == "many pages":
        assert main(command) == 1
        assert "seal.key.older" in "".join(capsys.readouterr())
        assert (store / "journal.sqlite-wal").read_bytes() == before
    (store / "seal.key.older").write_text(f"{old.hex()}\n")
    assert main(command) == 0, "".join(capsys.readouterr())
    for name in ("seal.key", "seal.key.older"):
        (store / name).unlink()
    with SqliteStore(store, keys=ring) as opened, closing(hosting(folder).evaluator(opened)) as evaluator:
        evaluator.start()
        found = read(evaluator)["total"]
    kept = {n: plain(value) for n, value in found.items() if not isinstance(value, Unreadable)}
    assert all(kept[n] == delivered[str(n)] for n in kept if str(n) in delivered)
    assert len(kept) >= (len(delivered) if kind == "a byte" else 25)


def test_an_older_key_that_is_not_given_is_no_damage() -> None:
    """Rows that are as they were but for their key refuse a repair; the odd one may be damaged in its key's name."""
    old, table = KeyRing(b"o" * 32), next(each for each in TABLES["journal"] if each.name == "turns")
    blobs = [seal(b"turn", keys=old, kind="journal", owner="me", generation=n, index=1) for n in (1, 2)]
    rows = [(table, (n, 1, blob[-SEAL_BYTES:], blob)) for n, blob in enumerate(blobs, 1)]
    check_keys(rows, old, "me", "here")
    check_keys(rows[:1], KeyRing(b"n" * 32), "me", "here")
    with pytest.raises(CheckpointRefused, match=r"put older keys into seal.key.older"):
        check_keys(rows, KeyRing(b"n" * 32), "me", "here")
    check_keys(rows, KeyRing(b"n" * 32, older=(old.current,)), "me", "here")


def test_what_else_lies_in_the_folder(
    tmp_path: Path, worlds: dict[str, World], capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of others, whatever they are called, stay and are not copied."""
    folder = worlds["some"].copy(tmp_path / "copy")
    store = folder / "store"
    (store / "link").symlink_to(tmp_path / "nowhere")
    (store / "repaired-notes.txt").write_text("mine")
    (store / "repaired-2026").mkdir()
    (store / "repaired-2026" / "notes").write_text("mine")
    damage_journal(store, "many pages")
    hosting(folder)
    check(worlds["some"].delivered, in_files(folder), capsys)
    assert (store / "repaired-notes.txt").read_text() == (store / "repaired-2026" / "notes").read_text() == "mine"
    assert (store / "link").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("seed", range(2))
def test_more_damage(
    tmp_path: Path, worlds: dict[str, World], part: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """At many more places."""
    for name, world in worlds.items():
        for kind in DAMAGE:
            damage_some(world, part, kind, 4, f"{seed} {name} {kind}", tmp_path / "copy", capsys)
