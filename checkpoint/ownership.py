"""Whether an owner still is one: its process, the folder of its store, and the files in it.

A lock says that nobody else came in by the door. It says nothing of a lock file that was deleted (the next process
makes another one and is let in), of a database that was replaced or whose folder was moved (SQLite goes on writing into
files without names), of a forked child (it has all that its parent has open). So an owner looks before it changes
anything, and once more before it calls a write durable.

A look costs one `stat` of the folder: nothing in a folder is deleted, moved or replaced without its change time moving.
Each file is looked at only when it has. Change times come from a clock of ticks, so one that is younger than
`SETTLED_NS` is not remembered. Rejected: `stat` of each file every time (8 at each look, 3 % of a small commit), a
watch of the system (inotify: a thread, not everywhere, and it tells afterwards).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import weakref
from pathlib import Path
from typing import Protocol

from reliable_rx.errors import StoreOwned, StoreUnavailable

SETTLED_NS = 100_000_000


class OwnProcess:
    """The process that has opened *what*; children that are forked from it have not.

    >>> OwnProcess("the store").check()
    """

    __slots__ = ("_pid", "_what")

    def __init__(self, what: str) -> None:
        self._what, self._pid = what, os.getpid()

    @property
    def is_this(self) -> bool:
        """Whether we are that process."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """*Raises* `StoreOwned` in a forked child."""
        if os.getpid() != self._pid:
            message = (
                f"{self._what} was opened by process {self._pid}, and this is process {os.getpid()}, which was forked "
                f"from it: write from process {self._pid}, or open it here, after the fork, once that one has closed it"
            )
            raise StoreOwned(message, owner=self._pid)


class Ownership:
    """That *directory*, and files in it, are those that this process has opened."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._path = directory, str(directory)
        self._process = OwnProcess(f"the store {directory}")
        self._files: dict[str, tuple[int, int]] = {}
        self._settled: tuple[int, int, int] | None = None

    def watch(self, *names: str) -> None:
        """Remember which files these are; what is not there is not watched."""
        for name in names:
            try:
                found = os.stat(self._directory / name)
            except FileNotFoundError:
                continue
            self._files[name] = found.st_dev, found.st_ino
        self._settled = None

    @property
    def is_this_process(self) -> bool:
        """Whether we are the process that has opened it."""
        return self._process.is_this

    def check_process(self) -> None:
        """*Raises* `StoreOwned` in a forked child."""
        self._process.check()

    def check(self) -> None:
        """*Raises* `StoreOwned` if another process may own the store, `StoreUnavailable` if something of it is gone."""
        self._process.check()
        try:
            now = os.stat(self._path)
        except OSError as error:
            raise self._gone(str(self._directory)) from error
        seen = now.st_dev, now.st_ino, now.st_ctime_ns
        if seen == self._settled:
            return
        self._settled = None
        for name, known in self._files.items():
            self._check_file(name, f"{self._path}{os.sep}{name}", known)
        if time.time_ns() - now.st_ctime_ns > SETTLED_NS:
            self._settled = seen

    def _check_file(self, name: str, path: str, known: tuple[int, int]) -> None:
        try:
            found = os.stat(path)
        except OSError as error:
            raise self._gone(path) from error
        if (found.st_dev, found.st_ino) == known:
            return
        pid = _pid_in(Path(path)) if name == "lock" else ""
        who = f"it is owned by process {pid}" if pid else "it may be owned by another process"
        message = (
            f"the store {self._directory} is no longer that of this process ({os.getpid()}): its {name} has been "
            f"replaced, and {who}; stop this process, and let nothing else write into the folder of a store"
        )
        raise StoreOwned(message, owner=int(pid) if pid else None, directory=str(self._directory))

    def _gone(self, path: str) -> StoreUnavailable:
        message = (
            f"{path} is gone: it was deleted or moved while this process owns the store, so that nothing written now "
            f"would be found again; put it back, or stop this process"
        )
        return StoreUnavailable(message, where=str(self._directory))


def _pid_in(path: Path) -> str:
    try:
        text = path.read_bytes()[:32].decode(errors="replace").strip()
    except OSError:
        return ""
    return text if text.isdecimal() else ""


# ---- what a child inherits


class Inherited(Protocol):
    """What holds something that is of no use, or dangerous, in a forked child."""

    def forget_in_child(self) -> None:
        """Let go of it; called in the child, before anything else runs there."""


_INHERITED: weakref.WeakSet[Inherited] = weakref.WeakSet()


def tell_of_forks(what: Inherited) -> None:
    """Have `forget_in_child` of *what* called in every child that is forked while it lives."""
    _INHERITED.add(what)


def keep_for_parent(*objects: object) -> None:
    """Have *objects* never be finalised in this child: closing a connection to SQLite would tidy up files in use."""
    _KEPT.extend(objects)
    if sys.implementation.name == "cpython":
        for each in objects:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


_KEPT: list[object] = []


def _after_fork() -> None:
    for each in list(_INHERITED):
        each.forget_in_child()


os.register_at_fork(after_in_child=_after_fork)
