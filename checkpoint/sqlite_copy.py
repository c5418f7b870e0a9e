"""A copy of a store whose owner still has it open, stopped perhaps in the midst of a transaction.

SQLite's backup reads one committed state through a connection of its own: a writer that holds the write lock for ever
does not hold it up, and the write-ahead log is read along. There are a few instructions in which a stopped writer does
hold up readers too (between the two copies of the log's header in shared memory; during recovery; while the last
connection closes). Then nothing moves in the files either, and they are copied as they are, with their logs, and
compared once more: equal means that they were one state, which SQLite recovers when the copy is opened. Rejected:
copying files first (a running owner may move pages from the log into the database between two reads), `VACUUM INTO`
(rebuilds what only needs to be copied).
"""

from __future__ import annotations

import filecmp
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from checkpoint.files import RealDisk
from reliable_rx.errors import StoreUnavailable
from reliable_rx.probes import probe

BUSY_S = 0.5
STILL_TRIES_MAX = 10
_PARTS = ("journal", "checkpoint", "log")
_BESIDE = ("", "-wal", "-journal")
_KEY_FILE = "seal.key"


def copy_store(source: Path, target: Path) -> None:
    """Make the directory *target* hold, durably, what the store in *source* holds; its lock and its files stay.

    What is committed to *source* while it is copied may be missing in one file and not in another: see to it that
    nothing counts as durable there any more. The journal goes first and the log last, so that the log holds what the
    journal refers to, and a checkpoint newer than the journal makes `recover` cut it.

    *Raises* `StoreUnavailable` if the disk fails, or if the files neither can be read nor stand still.
    """
    for left in target.iterdir():
        left.unlink()
    for part in _PARTS:
        _copy_database(source / f"{part}.sqlite", target / f"{part}.sqlite")
        probe("take_over.mid_copy")
    key, disk = RealDisk(source).read(_KEY_FILE), RealDisk(target)
    if key is not None:
        disk.write(_KEY_FILE, key)
    for copied in target.iterdir():
        disk.sync(copied.name)
    disk.sync_directory()


def _copy_database(source: Path, target: Path) -> None:
    if not source.exists():
        return  # its making had just begun
    try:
        _copy_committed(source, target)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN):
            raise
        _copy_standing_still(source, target)


def _copy_committed(source: Path, target: Path) -> None:
    uri = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the snapshot: a backup would wait for ever
        with closing(sqlite3.connect(target, isolation_level=None)) as writing:
            writing.execute("PRAGMA synchronous = OFF")  # synced once, when everything is there
            reading.backup(writing)


def _copy_standing_still(source: Path, target: Path) -> None:
    for _ in range(STILL_TRIES_MAX):
        names = [beside for beside in _BESIDE if os.path.exists(f"{source}{beside}")]
        for beside in _BESIDE:
            Path(f"{target}{beside}").unlink(missing_ok=True)
        for beside in names:
            shutil.copyfile(f"{source}{beside}", f"{target}{beside}")
        if all(filecmp.cmp(f"{source}{beside}", f"{target}{beside}", shallow=False) for beside in names):
            return
    raise StoreUnavailable(f"{source} cannot be read and does not stand still; try again", where=str(source))
