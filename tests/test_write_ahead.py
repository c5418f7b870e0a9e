"""Damage in a write-ahead log is refused before SQLite cuts it off; what a kill or a rollback leaves never is."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from pathlib import Path

import pytest
from killed_store import killed
from lanes import at_each_commit, crossed, left_to_commits, sample_of, share_of

from checkpoint import Checkpoint, SqliteStore
from checkpoint.sqlite.write_ahead import check_write_ahead
from reliable_rx.errors import CheckpointRefused

HEADER_BYTES, FRAME_BYTES, PAGE_BYTES = 32, 24, 4096
COMMITS = 6


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose owner was killed: each of its logs has several commits."""
    folder = tmp_path_factory.mktemp("killed") / "store"

    def work() -> None:
        store = SqliteStore(folder)
        for number in range(1, COMMITS + 1):
            store.log("pushed").append([b"x" * 3000 * number])
            store.journal.append(number, 1, b"y" * 2000 * number)
            store.commit(Checkpoint(number, "full", number, b"meta", [b"z" * 5000], 1))

    killed(work)
    return folder


def frames(log: bytes) -> list[tuple[int, bool]]:
    """Return where each frame begins, and whether it ends a commit."""
    starts = range(HEADER_BYTES, len(log), FRAME_BYTES + PAGE_BYTES)
    return [(start, any(log[start + 4 : start + 8])) for start in starts]


@pytest.mark.parametrize("part", ["checkpoint", "journal", "log"])
def test_every_damage_before_a_later_commit_is_refused(tmp_path: Path, written: Path, part: str) -> None:
    """Whichever byte of header, frame or page it is; the fast lane tries each eleventh of them."""
    log, database = (written / f"{part}.sqlite-wal").read_bytes(), tmp_path / f"{part}.sqlite"
    commits = [start for start, ends in frames(log) if ends]
    assert len(commits) >= COMMITS
    places = [*range(HEADER_BYTES)]
    for start, _ in frames(log):
        if start < commits[-2]:
            places += [start + at for at in (*range(FRAME_BYTES), FRAME_BYTES, 2000, FRAME_BYTES + PAGE_BYTES - 1)]
    unseen = []
    target = database.with_name(f"{database.name}-wal")
    for place in sample_of(11, places):
        target.write_bytes(log[:place] + bytes([log[place] ^ 1]) + log[place + 1 :])
        try:
            check_write_ahead(database)
            unseen.append(place)
        except CheckpointRefused as error:
            assert "reliable-rx store repair" in error.message
    assert unseen == []
    target.write_bytes(log)
    check_write_ahead(database)


@pytest.mark.parametrize(
    "size, part", crossed([1, 8, 24, 100, PAGE_BYTES + FRAME_BYTES], ["checkpoint", "journal", "log"])
)
def test_bytes_too_many_or_missing_before_a_later_commit_are_refused(
    tmp_path: Path, written: Path, part: str, size: int
) -> None:
    """Wherever it is: all that is behind is not where SQLite looks for it."""
    log, database = (written / f"{part}.sqlite-wal").read_bytes(), tmp_path / f"{part}.sqlite"
    target, draw = database.with_name(f"{database.name}-wal"), random.Random(size)
    upto = [start for start, ends in frames(log) if ends][-2]
    starts = [start + at for start, _ in frames(log) for at in (0, 4, 12, 20, FRAME_BYTES, 2000)]
    places = [0, 3, 17, 30, *draw.sample(starts, 20), *(draw.randrange(upto) for _ in range(20))]
    for place in places:
        more = log[:place] + draw.randbytes(size) + log[place:]
        less = log[:place] + log[place + size :]
        for damaged in ([more] if place <= upto else []) + ([less] if place + size <= upto else []):
            target.write_bytes(damaged)
            with pytest.raises(CheckpointRefused, match="reliable-rx store repair"):
                check_write_ahead(database)


@left_to_commits
@pytest.mark.parametrize("part", [at_each_commit("checkpoint"), at_each_commit("journal"), "log"])
def test_what_a_kill_cuts_off_is_accepted(tmp_path: Path, written: Path, part: str) -> None:
    """A log that ends anywhere, with or without an older one's frames behind, is no damage."""
    log, database = (written / f"{part}.sqlite-wal").read_bytes(), tmp_path / f"{part}.sqlite"
    older = bytearray(log)
    for start, _ in frames(log):
        older[start + 8] ^= 0xFF  # another salt
    for length in (*range(HEADER_BYTES, len(log), 997), *(start for start, _ in frames(log))):
        for content in (log[:length], log[:length] + older[length:]):
            database.with_name(f"{database.name}-wal").write_bytes(content)
            check_write_ahead(database)


def test_killed_and_rolled_back_at_random(tmp_path: Path) -> None:
    """Large transactions that are written before they commit, given up, begun anew, and killed at any moment."""
    database, draw = tmp_path / "any.sqlite", random.Random(7)
    for _ in range(share_of(40) * 2):
        ours, theirs = os.pipe()
        seed = draw.random()
        child = os.fork()
        if child == 0:
            try:
                _write_for_ever(database, random.Random(seed), theirs)
            finally:
                os._exit(1)
        for _ in range(draw.randrange(1, 60)):
            os.read(ours, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ours)
        os.close(theirs)
        check_write_ahead(database)


def _write_for_ever(database: Path, draw: random.Random, told: int) -> None:
    connection = sqlite3.connect(database, isolation_level=None)
    for pragma in ("journal_mode = WAL", "cache_size = 4", f"wal_autocheckpoint = {draw.choice([20, 200])}"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, x BLOB)")
    while True:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(draw.choice([1, 3, 30])):
            row = (draw.randrange(50), draw.randbytes(draw.choice([10, 3000])))
            connection.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", row)
            os.write(told, b".")
        connection.execute(draw.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        os.write(told, b".")
