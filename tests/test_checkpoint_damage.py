"""Whatever happens to stored bytes, it is refused or fallen back from with a reason, never read as something else."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from lanes import sample_of

import reliable_rx as rx
from checkpoint import Checkpoint, KeyRing, MemoryStore, Recovered, SqliteStore, Store
from checkpoint.memory import MemoryJournal
from checkpoint.store import Kind
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

OLD, NEW = b"o" * 32, b"n" * 32


def fill(store: Store, generations: str = "fdfd", first: int = 1) -> None:
    """Commit a generation per letter, full or differential, with two chunks, an output and a turn each."""
    for number, letter in enumerate(generations, first):
        store.journal.append(number, 1, b"turn %d" % number)
        chunks = [b"%d.%d" % (number, index) for index in range(2)]
        kind: Kind = "full" if letter == "f" else "differential"
        made = Checkpoint(number, kind, number, b"meta %d" % number, chunks, 2)
        store.commit(made, outputs={"out": [(number, 1, b"out %d" % number)]})


def recovered(store: Store) -> Recovered:
    found = store.recover()
    assert found is not None
    return found


@pytest.fixture
def memory() -> MemoryStore:
    store = MemoryStore()
    fill(store)
    return store


def flipped(blob: bytes) -> Iterator[bytes]:
    """Every blob that differs from *blob* in one byte."""
    for position in range(len(blob)):
        yield blob[:position] + bytes([blob[position] ^ 0x40]) + blob[position + 1 :]


def test_every_damaged_byte_of_a_chunk_is_fallen_back_from(memory: MemoryStore) -> None:
    """One wrong byte anywhere in a chunk of the newest generation gives the one before it, and says so."""
    base, manifest, chunks = memory.rows.generations[4]
    for damaged in flipped(chunks[1]):
        memory.rows.generations[4] = base, manifest, [chunks[0], damaged]
        found = recovered(memory)
        assert (found.generation, found.meta, found.chunks) == (3, b"meta 3", [b"3.0", b"3.1"])
        (sentence,) = found.fallbacks
        assert "generation 4 was given up" in sentence and "chunk 1 of generation 4" in sentence
        with pytest.raises(CheckpointRefused):
            memory.recover(strict=True)


def test_every_damaged_byte_of_a_manifest_is_fallen_back_from(memory: MemoryStore) -> None:
    """One wrong byte anywhere in a manifest gives up its generation and what builds on it, nothing else."""
    base, manifest, chunks = memory.rows.generations[3]
    for damaged in flipped(manifest):
        memory.rows.generations[3] = base, damaged, chunks
        found = recovered(memory)
        assert found.generation == 2 and len(found.fallbacks) == 2
        assert [info.generation for info in memory.generations()] == [1, 2, 4]


def test_every_damaged_byte_of_a_turn_is_refused(memory: MemoryStore) -> None:
    """One wrong byte anywhere in a journal record refuses the journal there."""
    first, count, blob = memory.rows.journal[1]
    for damaged in flipped(blob):
        memory.rows.journal[1] = first, count, damaged
        with pytest.raises(CheckpointRefused, match="turn 2"):
            list(memory.journal.read(0))


def test_a_missing_chunk_or_one_too_many_is_found(memory: MemoryStore) -> None:
    """The number of chunks is part of a generation."""
    base, manifest, chunks = memory.rows.generations[4]
    for other in (chunks[:1], [*chunks, chunks[0]], [], [chunks[1], chunks[0]]):
        memory.rows.generations[4] = base, manifest, other
        assert recovered(memory).generation == 3


def test_chunks_of_another_generation_or_time_are_found(memory: MemoryStore) -> None:
    """A genuine chunk in another generation's place, or of another commit of the same generation, is refused."""
    base, manifest, chunks = memory.rows.generations[4]
    memory.rows.generations[4] = base, manifest, [memory.rows.generations[3][2][0], chunks[1]]
    assert "is from number 3" in recovered(memory).fallbacks[0]

    twin = memory.reopen()
    twin.recover()
    twin.commit(Checkpoint(4, "full", 4, b"other", [b"other", b"state"], 2))
    memory.rows.generations[4] = base, manifest, [twin.rows.generations[4][2][0], chunks[1]]
    assert "not the chunk that this generation was committed with" in recovered(memory).fallbacks[0]


def test_a_differential_on_another_base_is_found(memory: MemoryStore) -> None:
    """A generation exchanged for a genuine other one under the same number breaks what builds on it."""
    differential = memory.rows.generations[4]
    twin = memory.reopen()
    del twin.rows.generations[4], twin.rows.generations[3]
    twin.recover()
    twin.commit(Checkpoint(3, "full", 3, b"other", [b"other"], 1))
    twin.rows.generations[4] = differential
    found = recovered(twin)
    assert (found.generation, found.meta) == (3, b"other")
    assert "another generation 3" in found.fallbacks[0]


def test_a_lost_generation_in_a_chain_is_found(memory: MemoryStore) -> None:
    """A differential whose base is gone is given up."""
    del memory.rows.generations[3]
    found = recovered(memory)
    assert found.generation == 2 and "generation 3, which is missing" in found.fallbacks[0]


def test_nothing_readable_is_refused_and_not_taken_for_new(memory: MemoryStore) -> None:
    """If no generation can be read, recovery and commits are refused; the store is not begun anew."""
    for number, (base, manifest, _) in memory.rows.generations.items():
        memory.rows.generations[number] = base, manifest, []
    with pytest.raises(CheckpointRefused, match="none can be read"):
        memory.recover()
    with pytest.raises(CheckpointRefused, match="none can be read"):
        memory.reopen().commit(Checkpoint(9, "full", 9, b"", [], 0))


def test_the_work_goes_on_after_a_fallback(memory: MemoryStore) -> None:
    """What is committed after a fallback replaces the generations that were given up."""
    memory.rows.generations[4] = 3, b"damaged", []
    store = memory.reopen()
    assert recovered(store).generation == 3
    store.commit(Checkpoint(4, "differential", 4, b"new", [b"new"], 1))
    found = recovered(store.reopen())
    assert (found.generation, found.chunks, found.fallbacks) == (4, [b"3.0", b"3.1", b"new"], ())


def test_a_late_look_does_not_move_the_tip(memory: MemoryStore) -> None:
    """After a commit, a fallback in `recover` does not make the next differential build on older state."""
    store = memory.reopen()
    fill(store, "d", 5)
    base, manifest, _ = store.rows.generations[5]
    store.rows.generations[5] = base, manifest, []
    assert recovered(store).generation == 4
    store.commit(Checkpoint(6, "differential", 6, b"", [], 0))
    assert recovered(store).generation == 4
    store.commit(Checkpoint(7, "full", 7, b"", [b"whole"], 1))
    assert recovered(store).chunks == [b"whole"]


def test_a_journal_with_a_hole_is_refused(memory: MemoryStore) -> None:
    """A record missing at the front, in the middle or at the end of what this process wrote is found."""
    kept = list(memory.rows.journal)
    for gone in range(4):
        memory.rows.journal[:] = kept[:gone] + kept[gone + 1 :]
        with pytest.raises(CheckpointRefused, match="lost"):
            list(memory.journal.read(0))


def test_a_turn_brought_back_is_refused(memory: MemoryStore) -> None:
    """A genuine record of the same turn from another history does not fit into the chain."""
    kept = list(memory.rows.journal)
    del memory.rows.journal[1:]
    other = memory.reopen()
    other.journal.append(2, 1, b"another turn 2")
    memory.rows.journal[:] = [kept[0], other.rows.journal[1], *kept[2:]]
    with pytest.raises(CheckpointRefused, match=r"turn 3.*does not follow"):
        list(memory.reopen().journal.read(0))
    with pytest.raises(CheckpointRefused, match=r"turn 3.*does not follow"):
        list(memory.reopen().journal.read(2))


def test_dropped_turns_cannot_be_denied(memory: MemoryStore) -> None:
    """Removing records from the front, or the mark of where the journal begins, is found."""
    memory.journal.truncate(1)
    kept, base = list(memory.rows.journal), memory.rows.journal_base
    memory.rows.journal[:] = kept[1:]
    with pytest.raises(CheckpointRefused, match="lost"):
        list(memory.journal.read(1))
    memory.rows.journal[:], memory.rows.journal_base = kept, None
    with pytest.raises(CheckpointRefused, match="lost"):
        list(memory.reopen().journal.read(0))
    assert base is not None
    memory.rows.journal_base = base[0] + 1, base[1]
    with pytest.raises(CheckpointRefused, match="base"):
        memory.reopen()


def test_an_old_checkpoint_beside_a_newer_journal(memory: MemoryStore) -> None:
    """A state brought back from a backup is either carried forward by the journal or refused, never left behind."""
    del memory.rows.generations[3], memory.rows.generations[4]
    store = memory.reopen()
    assert [payload for _, _, payload in store.journal.read(recovered(store).turn)] == [b"turn 3", b"turn 4"]
    store.journal.truncate(3)
    with pytest.raises(CheckpointRefused, match="turn 3 is needed"):
        list(store.journal.read(recovered(store).turn))


def test_damaged_outputs_and_holes_are_refused(memory: MemoryStore) -> None:
    """An output segment that is damaged, of another stream or place, or missing in between, is refused."""
    kept = list(memory.rows.outputs["out"])
    for damaged in flipped(kept[1][2]):
        memory.rows.outputs["out"] = [kept[0], (2, 1, damaged), *kept[2:]]
        with pytest.raises(CheckpointRefused, match="stream 'out', id 2"):
            list(memory.outputs("out", 0))
    memory.rows.outputs["out"] = [kept[0], (2, 1, kept[2][2])]
    with pytest.raises(CheckpointRefused):
        list(memory.outputs("out", 0))
    memory.rows.outputs["out"] = [kept[0], *kept[2:]]
    with pytest.raises(CheckpointRefused, match="ids 2 to 2 are missing"):
        list(memory.outputs("out", 0))
    memory.rows.outputs["impostor"] = kept
    with pytest.raises(CheckpointRefused):
        list(memory.outputs("impostor", 0))


def test_damaged_logs_and_positions_are_refused(memory: MemoryStore) -> None:
    """A logged value or a subscriber's position that was edited, exchanged or removed is refused."""
    log = memory.log("in")
    for value in (b"a", b"b", b"c"):
        log.append([value])
    kept = list(memory.rows.logs["in"])
    for damaged in flipped(kept[1][2]):
        memory.rows.logs["in"] = [kept[0], (1, 1, damaged), kept[2]]
        with pytest.raises(CheckpointRefused, match="log 'in', id 1"):
            log.read(0, 9)
    memory.rows.logs["in"] = [kept[0], kept[2]]
    with pytest.raises(CheckpointRefused, match="id 1 is missing"):
        log.read(1, 9)
    memory.acknowledge("out", "me", 3)
    _, blob = memory.rows.positions["out"]["me"]
    memory.rows.positions["out"]["me"] = 4, blob
    with pytest.raises(CheckpointRefused, match="subscriber 'me'"):
        memory.acknowledged("out")


def test_keys_rotate_through_a_store(tmp_path: Path) -> None:
    """With the new key and the old one on the ring the store goes on; then it can do without the old one."""
    with SqliteStore(tmp_path, keys=KeyRing(OLD), retain=1) as store:
        fill(store, "ff")
    with SqliteStore(tmp_path, keys=KeyRing(NEW, older=(OLD,)), retain=1) as store:
        assert recovered(store).generation == 2
        store.journal.truncate(2)
        store.journal.append(3, 1, b"turn 3")
        store.commit(Checkpoint(3, "full", 3, b"", [b"new"], 1), kept_from={"out": 3})
    with SqliteStore(tmp_path, keys=KeyRing(NEW)) as store:
        assert recovered(store).chunks == [b"new"]
        assert len(list(store.journal.read(2))) == 1
    with pytest.raises(CheckpointRefused, match="key ring"):
        SqliteStore(tmp_path, keys=KeyRing(OLD))


def test_a_wrong_or_lost_key_is_refused_at_once(tmp_path: Path) -> None:
    """A store opened with another key, or whose key file is gone or cut, says so; no new key is made."""
    SqliteStore(tmp_path).close()
    with pytest.raises(CheckpointRefused, match="key ring"):
        SqliteStore(tmp_path, keys=KeyRing(OLD))
    key = (tmp_path / "seal.key").read_bytes()
    (tmp_path / "seal.key").write_bytes(b"")
    with pytest.raises(CheckpointRefused, match="no seal key"):
        SqliteStore(tmp_path)
    (tmp_path / "seal.key").unlink()
    with pytest.raises(CheckpointRefused, match="missing; restore it"):
        SqliteStore(tmp_path)
    assert not (tmp_path / "seal.key").exists()
    (tmp_path / "seal.key").write_bytes(key)
    SqliteStore(tmp_path).close()


def _garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 500)


def _foreign_database(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def _gone(path: Path) -> None:
    path.unlink()


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("name", ["checkpoint.sqlite", "journal.sqlite", "log.sqlite"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_garbage, "not a database"),
        (_foreign_database, "not one of reliable_rx"),
        (_newer, "newer format 99"),
        (_gone, "missing"),
        (_emptied, "missing"),
    ],
)
def test_files_that_are_not_ours(tmp_path: Path, name: str, damage: Callable[[Path], None], said: str) -> None:
    """A store file that is foreign, newer, gone or empty is refused by name, and not made anew."""
    with SqliteStore(tmp_path) as store:
        fill(store, "f")
        store.log("in").append([b"pushed"])
    damage(tmp_path / name)
    with pytest.raises(CheckpointRefused, match=said) as caught:
        SqliteStore(tmp_path)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint.sqlite", "journal.sqlite", "log.sqlite"])
def test_a_file_of_another_store(tmp_path: Path, name: str) -> None:
    """A file of another store, even one with the same key, is refused."""
    for directory in ("ours", "theirs"):
        SqliteStore(tmp_path / directory, keys=KeyRing(OLD)).close()
    shutil.copy(tmp_path / "theirs" / name, tmp_path / "ours" / name)
    with pytest.raises(CheckpointRefused, match="another store"):
        SqliteStore(tmp_path / "ours", keys=KeyRing(OLD))


def test_two_files_of_one_store_exchanged(tmp_path: Path) -> None:
    """Each file knows its role."""
    SqliteStore(tmp_path).close()
    shutil.copy(tmp_path / "log.sqlite", tmp_path / "journal.sqlite")
    with pytest.raises(CheckpointRefused, match="identity"):
        SqliteStore(tmp_path)


def test_damaged_pages_are_fallen_back_from_or_refused(tmp_path: Path) -> None:
    """With any one page of the file overwritten, what is recovered is a generation as it was, or nothing."""
    with SqliteStore(tmp_path / "store", keys=KeyRing(OLD)) as store:
        states = {}
        for number in range(1, 4):
            chunks = [bytes([number, index]) * 3_000 for index in range(3)]
            store.commit(Checkpoint(number, "full", number, b"", chunks, 3))
            states[number] = chunks
    path = tmp_path / "store" / "checkpoint.sqlite"
    whole = path.read_bytes()
    seen = set()
    for page in range(len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
        try:
            with SqliteStore(tmp_path / "store", keys=KeyRing(OLD)) as store:
                found = recovered(store)
        except (CheckpointRefused, StoreUnavailable):
            seen.add("refused")
        else:
            assert found.chunks == states[found.generation]
            assert len(found.fallbacks) == 3 - found.generation
            seen.add(str(found.generation))
    assert seen == {"1", "2", "3", "refused"} or seen == {"2", "3", "refused"}


def exchanged(data: bytes, page: int, other: int) -> bytes:
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    pages[page], pages[other] = pages[other], pages[page]
    return b"".join(pages)


def test_two_pages_exchanged_make_no_loop_and_drop_nothing(tmp_path: Path) -> None:
    """With any two pages of the journal exchanged, what drops all or some of it ends: as it should, or refused with
    all records still there."""
    folder = tmp_path / "store"
    with SqliteStore(folder, keys=KeyRing(OLD)) as store:
        for turn in range(1, 61):
            store.journal.append(turn, 1, b"%d" % turn * 300)
    path, refused = folder / "journal.sqlite", 0
    whole = path.read_bytes()
    last = len(whole) // 4096
    for page, other in sample_of(4, itertools.combinations(range(1, last), 2)):
        for upto in (30, 60, 100):
            damaged = exchanged(whole, page, other)
            path.write_bytes(damaged)
            try:
                with SqliteStore(folder, keys=KeyRing(OLD)) as store:
                    store.journal.truncate(upto)
            except (CheckpointRefused, StoreUnavailable):
                refused += 1
                if upto == 100:
                    assert path.read_bytes()[4096:] == damaged[4096:], (page, other)
    assert refused > last


class Disordered(MemoryJournal):
    """A journal whose table lists rows that its keys do not find, as that of a damaged B-tree does."""

    def _oldest(self, behind: int, limit: int) -> Sequence[tuple[int, int, bytes]]:
        return [(turn, 1, b"") for turn in range(behind + 1, 5)][:limit]


def test_rows_that_cannot_be_dropped_are_refused(memory: MemoryStore) -> None:
    """A journal that lists what it does not find by its turns is refused, and its base stays."""
    memory.journal.__class__ = Disordered
    memory.rows.journal.clear()
    for upto in (2, 4, 1_000):
        with pytest.raises(CheckpointRefused, match="were found by their turns"):
            memory.journal.truncate(upto)
        assert memory.rows.journal_base is None and memory.journal.last_turn == 4


def test_a_stream_that_does_not_ascend_is_refused(memory: MemoryStore) -> None:
    """Pages of a stream that never come to its end are refused."""
    rows = memory.rows.outputs["out"]
    memory._segments = lambda stream, start, limit: rows[:1] * limit  # type: ignore[method-assign]
    with pytest.raises(CheckpointRefused, match="restore a copy of the store"):
        list(memory.outputs("out", 0))


def test_an_evaluator_says_what_it_was_given_up() -> None:
    """It goes on from the generation before, and its warnings say so."""

    def evaluator(store: MemoryStore) -> QueryEvaluator:
        made = QueryEvaluator(store, background=False, strict=False)
        made.source("n", ListSource([1, 2, 3], follow=True))
        made.create("q", rx.source("n").scan(lambda a, b: a + b, 0))
        return made

    store = MemoryStore()
    for _ in range(2):
        with evaluator(store) as first:
            while first.step():
                pass
        store = store.reopen()
    newest = max(store.rows.generations)
    base, manifest, chunks = store.rows.generations[newest]
    store.rows.generations[newest] = base, manifest, [chunks[0][:-1] + bytes([chunks[0][-1] ^ 1]), *chunks[1:]]
    with evaluator(store) as second:
        second.start()
        assert any(f"generation {newest} was given up" in each for each in second.warnings)


@pytest.mark.parametrize("background", [True, False])
def test_a_checkpoint_says_what_is_wrong_with_the_journal(background: bool) -> None:
    """What is refused behind the commit, in a thread or not, is what is raised, and not tried again."""
    store = MemoryStore()
    with closing(QueryEvaluator(store, background=background)) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.create("q", rx.source("n"))
        while evaluator.step():
            pass
        evaluator.flush()
        store.rows.journal[0] = (7, *store.rows.journal[0][1:])
        for _ in range(2):
            with pytest.raises(CheckpointRefused, match="where turn 1 belongs there is turn 7"):
                evaluator.checkpoint()


def test_a_journal_without_its_base_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    """Not at the end of each run, when a checkpoint drops records; what opens the store to repair it is told too."""
    with SqliteStore(tmp_path) as store:
        for number in range(1, 9):
            store.journal.append(number, 1, b"turn")
        store.journal.truncate(5)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as connection, connection:
        assert connection.execute("DELETE FROM base").rowcount == 1
    with pytest.raises(CheckpointRefused, match=r"where turn 1 belongs there is turn 6.*restore"):
        SqliteStore(tmp_path)
