"""A repair of damaged files takes the place of the store whole or not at all, and what was there is kept."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from sys import byteorder

import killed_store
import pytest
from killed_store import killed
from lanes import every_of, left_to_commits

import reliable_rx as rx
from checkpoint import Checkpoint, SqliteStore
from checkpoint.sqlite.exchange import begin, commit, is_unfinished
from checkpoint.sqlite.files import RealDisk
from checkpoint.sqlite.leaf_pages import leaf_rows
from checkpoint.sqlite.mended_log import MendedLog, corrected
from checkpoint.sqlite.rescue import mend
from checkpoint.sqlite.store import key_from_file
from checkpoint.sqlite.write_ahead import Order, checksum, log_beside
from hosting import App
from hosting.cli.command import main
from reliable_rx.errors import CheckpointRefused, StoreUnavailable
from reliable_rx.failpoints import ARMED

PARTS = ("checkpoint", "journal", "log")
COMMITS = 12
FRAME_BYTES = 24 + 4096
APP = f"{__name__}:app"
app = App()
app.push("n")
app.query("q", rx.source("n"))


def damaged(folder: Path) -> dict[str, bytes]:
    """Make the store of a killed process of which all logs are damaged; return its files."""

    def work() -> None:
        store = SqliteStore(folder)
        for number in range(1, COMMITS + 1):
            store.log("pushed").append([b"x" * 3000])
            store.journal.append(number, 1, b"y" * 2000)
            store.commit(Checkpoint(number, "full", number, b"meta", [b"z" * 5000], 1))

    killed(work)
    for part in PARTS:
        log = folder / f"{part}.sqlite-wal"
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data)
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    names = [f"{part}.sqlite{beside}" for part in PARTS for beside in ("", "-wal")]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def mended(folder: Path) -> None:
    fresh = begin(folder)
    mend(fresh, key_from_file(fresh))
    with SqliteStore(fresh) as store:
        assert store.log("pushed").end == COMMITS


def is_whole(folder: Path) -> None:
    with SqliteStore(folder) as store:
        assert [store.log("pushed").end, store.journal.last_turn] == [COMMITS, COMMITS]
        recovered = store.recover(strict=True)
        assert recovered is not None
        assert recovered.generation == COMMITS


@pytest.mark.parametrize(
    ("place", "times"),
    every_of(8, [("exchange.committed", 1), *(("exchange.midst", n) for n in range(1, 13))], commits=4),
)
def test_killed_in_the_midst_of_a_repair(tmp_path: Path, place: str, times: int) -> None:
    """The next owner finishes the exchange, readers wait for it, and what was damaged is kept byte by byte."""
    folder = tmp_path / "store"
    before = damaged(folder)

    def work() -> None:
        left = times

        def die() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        mended(folder)
        ARMED[place] = die
        commit(folder)

    killed(work)
    if is_unfinished(folder):
        with pytest.raises(StoreUnavailable, match="not finished"):
            SqliteStore.read_only(folder)
    is_whole(folder)
    assert not is_unfinished(folder)
    assert files(folder / "damaged-1") == before


def test_killed_before_its_commit_a_repair_has_changed_nothing(tmp_path: Path) -> None:
    """It is begun anew then, and its second result is in the place of the first."""
    folder = tmp_path / "store"
    before = damaged(folder)
    killed(lambda: mended(folder))
    assert files(folder) == before
    with pytest.raises(CheckpointRefused, match="is damaged behind"):
        SqliteStore(folder)
    mended(folder)
    assert commit(folder) == folder / "damaged-1"
    is_whole(folder)


def test_without_consent_nothing_is_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is damaged is said, as often as it is asked; with consent it is mended, and kept beside."""
    folder = tmp_path / "store"
    killed_store.damaged(folder, "log")
    before = files(folder)
    for answer in ((), ("--yes",)):
        assert files(folder) == before
        assert main(["store", "repair", str(folder), "--app", APP, *answer]) == (0 if answer else 1)
        told = capsys.readouterr().out
        assert "log.sqlite-wal: it is damaged behind" in told
        assert ("repaired" in told) is bool(answer)
    assert files(folder / "damaged-1") == before
    SqliteStore(folder).close()


def test_one_wrong_word_is_put_right_or_left() -> None:
    """Any change of one word gives what was there, or nothing if several would explain it; more words give nothing."""
    draw = random.Random(5)
    order: Order = "little" if byteorder == "little" else "big"
    data, before = draw.randbytes(8 + 4096), (draw.randrange(1 << 32), draw.randrange(1 << 32))
    wanted = checksum(data, before, order)
    right = 0
    for _ in range(60):
        at = draw.randrange(0, len(data), 4)
        wrong = data[:at] + struct.pack("=I", draw.randrange(1 << 32)) + data[at + 4 :]
        found = corrected(wrong, before, wanted, order)
        assert found in (data, None)
        right += found == data
        more = bytes(4) + wrong[4:] if at else wrong[:8] + bytes(4) + wrong[12:]
        assert corrected(more, before, wanted, order) in (None, data)
    assert right > 50


@left_to_commits
def test_rows_are_read_from_leaf_pages(tmp_path: Path) -> None:
    """All that SQLite finds, of any length, is found without the way to it."""
    folder = tmp_path / "store"
    with SqliteStore(folder) as store:
        for number in range(1, 200):
            store.journal.append(number, 1, bytes([number]) * (number * number % 30_000))
    with sqlite3.connect(folder / "journal.sqlite") as connection:
        rows = connection.execute("SELECT first, count, seal, blob FROM turns").fetchall()
    connection.close()
    found = [(number, *values[1:]) for number, values in leaf_rows(folder / "journal.sqlite") if len(values) == 4]
    assert set(found) >= set(rows)  # one that runs over several pages may be given as it was not, too
    assert len(rows) == 199


def test_what_is_kept_is_durable_before_its_place_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the old files is synced ahead of each new file's renaming: a power cut loses neither."""
    with SqliteStore(tmp_path / "store") as store:
        store.journal.append(1, 1, b"turn")
    begin(tmp_path / "store")
    steps: list[str] = []
    sync, replace = RealDisk.sync_directory, os.replace

    def synced(disk: RealDisk) -> None:
        steps.append("kept" if "damaged-" in str(vars(disk)) else "store")
        sync(disk)

    def replaced(source: str | Path, target: str | Path) -> None:
        steps.extend(["new"] * ("repaired.ready-" in str(source)))
        replace(source, target)

    monkeypatch.setattr(RealDisk, "sync_directory", synced)
    monkeypatch.setattr(os, "replace", replaced)
    commit(tmp_path / "store")
    assert steps.count("new") == 3
    assert all(steps[at - 1] == "kept" and steps[at + 1] == "store" for at, step in enumerate(steps) if step == "new")


def test_a_damaged_row_costs_no_generation(tmp_path: Path) -> None:
    """Of a file that is made anew all checkpoints are kept whose own rows are as they were written."""
    folder = tmp_path / "store"
    with SqliteStore(folder) as store:
        for number in (1, 2):
            store.commit(Checkpoint(number, "full", number, b"meta", [b"chunk"], 1))
    with closing(sqlite3.connect(folder / "checkpoint.sqlite")) as connection, connection:
        connection.execute("UPDATE chunks SET number = 'odd' WHERE generation = 1")
    assert set(mend(folder, key_from_file(folder))) == {"checkpoint"}
    with SqliteStore(folder) as store:
        recovered = store.recover(strict=True)
    assert recovered is not None
    assert recovered.generation == 2


def test_a_journal_begins_behind_turns_that_are_damaged(tmp_path: Path) -> None:
    """Where its first turns are missing, those that cannot be read do not keep the others from being read."""
    folder = tmp_path / "store"
    turns = [(number, 1, b"turn %d" % number) for number in range(1, 6)]
    with SqliteStore(folder) as store:
        for each in turns:
            store.journal.append(*each)
    with closing(sqlite3.connect(folder / "journal.sqlite")) as connection, connection:
        connection.execute("DELETE FROM turns WHERE first = 1")
        connection.execute("UPDATE turns SET blob = zeroblob(length(blob)) WHERE first = 2")
    assert mend(folder, key_from_file(folder)) == {}
    with SqliteStore(folder) as store:
        assert list(store.journal.read(2)) == turns[2:]


def log_of(folder: Path, *, damaged: bool) -> Path:
    """Make a database with a whole transaction in its log, and behind it one of many pages: damaged, or still open."""
    database = folder / "rows.sqlite"
    with closing(sqlite3.connect(folder / "open.sqlite", isolation_level=None)) as connection:
        for setting in ("journal_mode = WAL", "wal_autocheckpoint = 0", "cache_size = 1"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("CREATE TABLE rows (content BLOB)")
        connection.execute("INSERT INTO rows VALUES (x'01')")
        connection.execute("BEGIN")
        whole = len(log_beside(folder / "open.sqlite").read_bytes())
        connection.execute("WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 30) "
                           "INSERT INTO rows SELECT zeroblob(4000) FROM n")  # fmt: skip
        if damaged:
            connection.execute("COMMIT")
        database.write_bytes((folder / "open.sqlite").read_bytes())
        log = bytearray(log_beside(folder / "open.sqlite").read_bytes())
    if damaged:
        log[whole + 2 * FRAME_BYTES - 400 : whole + 2 * FRAME_BYTES] = b"damaged " * 50
    assert len(log) > whole + 4 * FRAME_BYTES
    log_beside(database).write_bytes(log)
    return database


@pytest.mark.parametrize("is_damaged", [True, False], ids=["damaged", "open"])
def test_a_transaction_is_taken_whole_or_not_at_all(tmp_path: Path, is_damaged: bool) -> None:
    """Of one that is damaged in its midst, or was not committed, nothing is among what was committed before it."""
    log = MendedLog(log_of(tmp_path, damaged=is_damaged))
    assert bool(log.missed()) is is_damaged
    log.write(tmp_path / "before.sqlite", log.pages_before())
    with closing(sqlite3.connect(tmp_path / "before.sqlite")) as connection:
        assert connection.execute("SELECT content FROM rows").fetchall() == [(b"\1",)]
