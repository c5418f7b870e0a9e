"""The few files a store writes itself: its seal key and its lock.

The key must be whole or absent after any crash, because everything else is unreadable without it. So it is written
beside its place, synced, renamed, and the directory is synced; `Disk` is the handful of operations that takes, so
that `reliable_rx.testing.faults.SimulatedDisk` can show every state a power loss may leave. Rejected: writing in place
(torn), renaming without either sync (empty file, or no file, under the final name).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from checkpoint.ownership import tell_of_forks
from reliable_rx.errors import CheckpointRefused, StoreOwned, StoreUnavailable

LOOKED_AT_MAX, LOOKED_AT_S = 2_000, 0.005
"""How often, and how long in between, a lock is tried that others just look at."""


class Disk(Protocol):
    """One directory, and what can be done to the files in it. Names are bare file names."""

    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, data: bytes) -> None:
        """Create or truncate *name* and write *data*; durable only after `sync`."""

    def sync(self, name: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def sync_directory(self) -> None: ...


class RealDisk:
    """A `Disk` on a real directory. Files are created readable by their owner only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        path = self._directory / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)

    def sync(self, name: str) -> None:
        _sync(self._directory / name)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._directory / old, self._directory / new)

    def sync_directory(self) -> None:
        _sync(self._directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_durably(disk: Disk, name: str, data: bytes) -> None:
    """Make *name* hold *data*: after a crash it is whole or what it was, and once this has returned it stays."""
    beside = f"{name}.new"
    disk.write(beside, data)
    disk.sync(beside)
    disk.rename(beside, name)
    disk.sync_directory()


def read_or_create(disk: Disk, name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of *name*, made durably by *make* if it is not there yet.

    What is read is synced first: the process that wrote it may have died between its rename and its last sync.
    """
    found = disk.read(name)
    if found is None:
        create_durably(disk, name, made := make())
        return made
    disk.sync_directory()
    return found


def is_address(directory: Path) -> bool:
    """Whether a path was meant as the address of a database; a path has one slash where that has two."""
    return str(directory).startswith(("postgresql:/", "postgres:/"))


def _is_encodable(path: Path) -> bool:
    try:
        os.fsencode(path)
    except UnicodeError:
        return False
    return True


def folder_path(directory: str | Path) -> Path:
    """Return *directory*, as it was given, as a path. *Raises* `CheckpointRefused` for what can name no folder."""
    directory = Path(directory)
    if is_address(directory):
        what = f"{directory} is the address of a database, and this store is a folder: give PostgresStore the address"
        raise CheckpointRefused(what, what=what, where=str(directory))
    if "\0" in str(directory) or not _is_encodable(directory):
        what = f"{str(directory)!a} cannot name a folder: give a name without control characters and surrogates"
        raise CheckpointRefused(what, what=what, where=ascii(str(directory)))
    return directory


def make_directory(directory: Path) -> None:
    """Create *directory* and its missing parents, durably. *Raises* `CheckpointRefused` where there is a file."""
    folder_path(directory)
    for path in (directory, *directory.parents):
        if path.is_symlink() and not path.exists():
            raise StoreUnavailable(
                f"{path} is a link to {os.readlink(path)}, which is not there: mount it, or give another folder",
                where=str(directory),
            )
        if path.exists() and not path.is_dir():
            what = f"{path} is a file, and a store is a folder: give a folder"
            raise CheckpointRefused(what, what=what, where=str(directory))
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def lock_owner(directory: Path) -> str | None:
    """Return the process that owns *directory*, as it is called where it runs; empty if none does.

    None if that cannot be asked. It is asked for a moment's shared lock, which who comes to own it waits out: process
    ids say nothing of a process in another container, or of one that is dead and not waited for.
    """
    try:
        descriptor = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return ""
    except BlockingIOError:
        return os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Take the lock, also if others are just looking, however often. *Raises* `BlockingIOError` where it is owned."""
    for _ in range(LOOKED_AT_MAX):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # which an owner refuses, and who looks does not
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(LOOKED_AT_S)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class DirectoryLock:
    """Own a directory until `release` or the end of the process.

    ``flock`` belongs to the open file, so that a second open in the same process is refused too (a POSIX record lock
    would let it in). A forked child inherits it and would hold it beyond the parent's death: it lets go of it at
    birth.

    *Raises* `StoreOwned` naming the owner's pid.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _HELD.add(self)
        tell_of_forks(self)  # before it has the lock: a child of the meantime would share that
        try:
            _lock(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # a full disk, too: kept open, it would lock out the next attempt of this very process
            pid = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            _HELD.discard(self)
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise _owned(directory, pid) from None
            raise

    def release(self) -> None:
        """Let another owner in. Doing it twice is harmless."""
        if self in _HELD:
            _HELD.discard(self)
            # Emptied first: a pid left behind would name a process that owns nothing.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            # Unlocked, not only closed: a child that another thread is just starting still has the descriptor.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)

    def forget_in_child(self) -> None:
        """Close the descriptor without unlocking: the lock is the parent's."""
        if self in _HELD:
            _HELD.discard(self)
            with contextlib.suppress(OSError):
                os.close(self._descriptor)


_HELD: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _owned(directory: Path, pid: str) -> StoreOwned:
    if pid == str(os.getpid()):
        message = (
            f"the store {directory} is open already in this very process {pid}: close that store and its evaluator "
            f"first (in a notebook, in a cell before this one; where no variable has them any more, restart its "
            f"kernel), or use another directory"
        )
        return StoreOwned(message, owner=int(pid), directory=str(directory))
    who = f"process {pid}" if pid else "another process"
    message = f"the store {directory} is in use by {who}; stop that process first, or use another directory"
    return StoreOwned(message, owner=int(pid) if pid.isdigit() else None, directory=str(directory))
