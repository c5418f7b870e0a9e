"""Exchanges the files of a store for repaired ones, whole or not at all, and keeps those that were there.

The repaired files are made in a folder within the store. Its renaming is the commit: from then on the next owner
finishes the exchange before it opens anything. What was there is in ``damaged-N`` afterwards. Rejected: exchanging the
whole folder (for a moment there is none, and a start makes a new store; a mount point cannot be renamed).
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from checkpoint.failures import unavailable
from checkpoint.sqlite.files import RealDisk
from reliable_rx.failpoints import probe

PARTS = ("journal", "log", "checkpoint")
_BEGUN, _READY, _KEPT = "repaired.new", "repaired.ready-", "damaged-"
_NUMBERED = re.compile(rf"(?:{re.escape(_READY)}|{_KEPT})(\d+)", re.ASCII)
_COPIED = ("seal.key", "seal.key.older", *(f"{part}.sqlite{suffix}" for part in PARTS for suffix in ("", "-wal")))


def begin(directory: Path) -> Path:
    """Copy the files of the store in *directory*, which is owned, to where they are repaired; return the folder."""
    begun = directory / _BEGUN
    shutil.rmtree(begun, ignore_errors=True)
    copy_store(directory, begun)
    return begun


def copy_store(directory: Path, target: Path) -> None:
    """Copy the files of the store in *directory*, which is owned, and nothing else that lies there."""
    with unavailable(str(target)):
        target.mkdir()
        for name in _COPIED:
            with suppress(FileNotFoundError):
                shutil.copyfile(directory / name, target / name)
                shutil.copymode(directory / name, target / name)


def commit(directory: Path) -> Path:
    """Put what was repaired in the place of what was there; return the folder in which that is kept."""
    begun = directory / _BEGUN
    inside = RealDisk(begun)
    for each in begun.iterdir():
        inside.sync(each.name)
    inside.sync_directory()
    numbers = [int(found[1]) for each in directory.iterdir() if (found := _NUMBERED.fullmatch(each.name))]
    number = max(numbers, default=0) + 1
    disk = RealDisk(directory)
    disk.rename(_BEGUN, f"{_READY}{number}")
    disk.sync_directory()
    probe("exchange.committed")
    finish(directory)
    return directory / f"{_KEPT}{number}"


def is_unfinished(directory: Path) -> bool:
    """Whether an exchange in *directory* has been committed and not been finished."""
    return _ready(directory) is not None


def finish(directory: Path) -> None:
    """Finish an exchange that was committed, if there is one."""
    ready = _ready(directory)
    if ready is None:
        return
    kept = directory / ready.name.replace(_READY, _KEPT)
    kept.mkdir(exist_ok=True)
    for part in PARTS:
        fresh, old = ready / f"{part}.sqlite", directory / f"{part}.sqlite"
        if not fresh.exists():
            continue  # it is in its place already
        if old.exists() and not (kept / old.name).exists():
            _keep(old, kept / old.name)
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{old}{suffix}", f"{kept / old.name}{suffix}")
            probe("exchange.midst")
        RealDisk(kept).sync_directory()
        os.replace(fresh, old)
        RealDisk(directory).sync_directory()
        probe("exchange.midst")
    shutil.rmtree(ready)
    RealDisk(directory).sync_directory()


def _keep(old: Path, kept: Path) -> None:
    """Have the file there too, so that no moment is without one."""
    try:
        os.link(old, kept)
    except OSError:  # not every file system has links
        beside = kept.with_name(f"{kept.name}.new")
        shutil.copyfile(old, beside)
        RealDisk(kept.parent).sync(beside.name)
        beside.replace(kept)


def _ready(directory: Path) -> Path | None:
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(_READY) and _NUMBERED.fullmatch(name) and (directory / name).is_dir():
                return directory / name
    return None
