"""A copy of a store whose owner still has it open, stopped perhaps in the midst of a transaction.

First the files are copied as they are, each database with its log, and compared once more: equal means that they were
one state, the one a kill would have left, which SQLite recovers when the copy is opened. A stopped owner's files stand
still, so this needs no lock that it may hold. They differ if the owner is at work; then locks are held for moments
only, and SQLite's backup reads one committed state through a connection of its own. Rejected: the backup first (a
writer stopped between the two copies of the header in the index of its log holds up readers for ten seconds, until
SQLite calls it a protocol error), `VACUUM INTO` (rebuilds what only needs to be copied).

Opening and closing a database file costs this process the locks it has on it (POSIX). So do not copy what is to go on.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from checkpoint.sqlite.files import RealDisk
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import probe

BUSY_S = 0.5
TRIES_MAX = 5
_PARTS = ("journal", "checkpoint", "log")
_BESIDE = ("", "-wal", "-journal")
_KEY_FILE = "seal.key"


def copy_store(source: Path, target: Path) -> None:
    """Make the directory *target* hold, durably, what the store in *source* holds; its lock and its files stay.

    What is committed to *source* while it is copied may be missing in one file and not in another: see to it that
    nothing counts as durable there any more. The journal goes first and the log last, so that the log holds what the
    journal refers to, and a checkpoint newer than the journal makes `recover` cut it.

    *Raises* `StoreUnavailable` if the files neither stand still nor can be read, `OSError` or `sqlite3.Error` if the
    disk fails.
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
    for _ in range(TRIES_MAX):
        if _copied_standing_still(source, target) or _copied_committed(source, target):
            return
    message = f"{source} neither stands still nor can be read; try again"
    raise StoreUnavailable(message, where=str(source))


def _copied_standing_still(source: Path, target: Path) -> bool:
    names = [beside for beside in _BESIDE if os.path.exists(f"{source}{beside}")]
    for beside in names:
        shutil.copyfile(f"{source}{beside}", f"{target}{beside}")
    if all(filecmp.cmp(f"{source}{beside}", f"{target}{beside}", shallow=False) for beside in names):
        return True
    for beside in names:
        Path(f"{target}{beside}").unlink()
    return False


def _copied_committed(source: Path, target: Path) -> bool:
    uri = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_S)) as reading:
        try:
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()  # a backup would wait for it for ever
        except sqlite3.OperationalError:
            return False
        with closing(sqlite3.connect(target, isolation_level=None)) as writing:
            writing.execute("PRAGMA synchronous = OFF")  # synced once, when everything is there
            reading.backup(writing)
    return True
