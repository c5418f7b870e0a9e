"""Where a log lies, as the few operations that its protocol takes: a directory here, an object store in `remote`.

What the protocol stands on is `LogDisk.create`: it makes a file whole or not at all, durably, and never in the place of
another; it decides between two drivers that both think it is their turn. A directory does it with a link and syncs, an
object store with a conditional put. All else may be repeated.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from checkpoint.sqlite.files import Disk, RealDisk, make_directory
from spark_bridge.micro_batch_log.names import UNFINISHED

View = bytes | mmap.mmap


class Writing(Protocol):
    """A file that is being written; nobody reads it before `finish` has returned."""

    def write(self, data: Any, /) -> int: ...

    def finish(self) -> None:
        """Make the content durable; its name is so after `LogDisk.settle`."""

    def abandon(self) -> None:
        """Hold nothing open any more, and leave nothing behind as far as the disk lets us."""


class LogDisk(Protocol):
    """Files by bare names, in one place."""

    @property
    def where(self) -> str:
        """What messages call the log."""
        ...

    @property
    def directory(self) -> Path | None:
        """The directory, where it is one: bells can hang there."""
        ...

    def names(self) -> Sequence[str]:
        """Return the names of all files, in no order."""
        ...

    def size(self, name: str) -> int | None:
        """Return the size in bytes, None if *name* is not there."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content, None if *name* is not there."""
        ...

    def view(self, name: str) -> View | None:
        """Return the content, which stays readable if the file is removed meanwhile; None if *name* is not there."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """Make *name* hold *data*, whole and for good, and the files that were finished before. *Raises*
        `FileExistsError` if there is a *name*, which stays as it is."""

    def replace(self, name: str, data: bytes, *, durably: bool) -> None:
        """Make *name* hold *data*, whole; unless *durably*, a crash may bring back what it was, or tear it."""

    def remove(self, name: str) -> None:
        """Remove *name* if it is there."""

    def settle(self) -> None:
        """Make durable which names there are."""

    def writing(self, name: str) -> Writing:
        """Begin the new file *name*."""
        ...


class DirectoryPrimitives(Disk, Protocol):
    """What a directory can do, real or simulated: what `Disk` can, and second names that never replace a file."""

    def link(self, old: str, new: str) -> None:
        """Give *old* the name *new* as well. *Raises* `FileExistsError` if there is a *new*."""

    def remove(self, name: str) -> None: ...


class LinkedFiles:
    """The protocol's operations made of links and syncs; a class beside it has the `DirectoryPrimitives`."""

    def create(self: DirectoryPrimitives, name: str, data: bytes) -> None:
        beside = f"{name}.{uuid.uuid4().hex[:8]}{UNFINISHED}"
        self.sync_directory()
        try:
            self.write(beside, data)
            self.sync(beside)
            self.link(beside, name)
        except FileNotFoundError:  # another writer has swept ours away
            raise FileExistsError(name) from None
        finally:
            self.remove(beside)
        self.sync_directory()

    def replace(self: DirectoryPrimitives, name: str, data: bytes, *, durably: bool) -> None:
        beside = name + UNFINISHED
        self.write(beside, data)
        if durably:
            self.sync(beside)
        self.rename(beside, name)
        if durably:
            self.sync_directory()

    def settle(self: DirectoryPrimitives) -> None:
        self.sync_directory()


class RealLogDisk(LinkedFiles, RealDisk):
    """A `LogDisk` in a real directory, local or mounted."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory = directory
        self.where = f"the log {directory}"

    def _path(self, name: str) -> str:
        """Return the path of *name*: readers look where nothing is, and joining paths takes longer than that."""
        return f"{self.directory}/{name}"

    def names(self) -> Sequence[str]:
        try:
            return os.listdir(self.directory)
        except FileNotFoundError:
            return ()

    def size(self, name: str) -> int | None:
        try:
            return os.stat(self._path(name)).st_size
        except FileNotFoundError:
            return None

    def view(self, name: str) -> View | None:
        try:
            file = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return mmap.mmap(file, 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            return b""
        finally:
            os.close(file)

    def link(self, old: str, new: str) -> None:
        os.link(self.directory / old, self.directory / new)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.directory / name)

    def writing(self, name: str) -> Writing:
        return _RealFile(self, name)


class _RealFile(io.BufferedWriter):
    def __init__(self, disk: RealLogDisk, name: str) -> None:
        super().__init__(io.FileIO(disk.directory / name, "x"))
        self._disk, self._name = disk, name

    def finish(self) -> None:
        self.close()
        self._disk.sync(self._name)

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # what brought us here is told already
            self.close()
        with contextlib.suppress(OSError):
            self._disk.remove(self._name)


def log_directory(place: str | os.PathLike[str]) -> Path | None:
    """Return the directory that *place* means: a path, or a ``file:`` URI as Spark writes them; None for other URLs.

    >>> str(log_directory("file:///data/log")), str(log_directory("/data/log")), log_directory("s3://bucket/log")
    ('/data/log', '/data/log', None)
    """
    text = os.fspath(place)
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme or len(scheme) < 2:
        return Path(text).absolute()
    return Path("/" + rest.lstrip("/")) if scheme in ("file", "local") else None


def log_disk(place: str | os.PathLike[str]) -> LogDisk:
    """Return where the log at *place* lies: a directory, which need not be there, or any URL that fsspec knows.

    *Raises* `ValueError` for a URL that fsspec does not know, or while fsspec is not installed.
    """
    directory = log_directory(place)
    if directory is not None:
        return RealLogDisk(directory)
    from spark_bridge.micro_batch_log.remote import RemoteLogDisk

    return RemoteLogDisk(os.fspath(place))


def new_log_disk(place: str | os.PathLike[str]) -> LogDisk:
    """Return the same, for writing: a directory is made durably if it is missing, another place must be fit for a log.

    *Raises* `LogRefused` for a place that cannot refuse to overwrite.
    """
    directory = log_directory(place)
    if directory is not None:
        make_directory(directory)
        return RealLogDisk(directory)
    from spark_bridge.micro_batch_log.remote import RemoteLogDisk, check_creates_once

    disk = RemoteLogDisk(os.fspath(place))
    check_creates_once(disk)
    return disk
