"""The directory of a log as the few operations that its protocol takes, so that a simulated disk can stand in for it.

Beside those of `checkpoint.files.Disk`: what is there, a second name for a file which never replaces another (``link``
decides between two drivers that both think it is their turn), removal, and a view of a large file without reading it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from checkpoint.files import Disk, RealDisk, make_directory

View = bytes | mmap.mmap


class LogDisk(Disk, Protocol):
    """One directory. Names are bare file names."""

    def names(self) -> Sequence[str]:
        """Return the names of all files, in no order."""
        ...

    def size(self, name: str) -> int | None:
        """Return the size in bytes, None if *name* is not there."""
        ...

    def view(self, name: str) -> View | None:
        """Return the content, which stays readable if the file is removed meanwhile; None if *name* is not there."""
        ...

    def link(self, old: str, new: str) -> None:
        """Give *old* the name *new* as well. *Raises* `FileExistsError` if there is a *new*."""

    def remove(self, name: str) -> None:
        """Remove *name* if it is there."""


class RealLogDisk(RealDisk):
    """A `LogDisk` on a real directory, local or mounted."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory = directory

    def names(self) -> Sequence[str]:
        try:
            return os.listdir(self.directory)
        except FileNotFoundError:
            return ()

    def size(self, name: str) -> int | None:
        try:
            return (self.directory / name).stat().st_size
        except FileNotFoundError:
            return None

    def view(self, name: str) -> View | None:
        try:
            with open(self.directory / name, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            return None
        except ValueError:  # an empty file cannot be mapped
            return b""

    def link(self, old: str, new: str) -> None:
        os.link(self.directory / old, self.directory / new)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.directory / name)


def log_directory(place: str | os.PathLike[str]) -> Path:
    """Return the directory that *place* means: a path, or a ``file:`` URI as Spark writes them.

    >>> str(log_directory("file:///data/log")), str(log_directory("/data/log"))
    ('/data/log', '/data/log')

    *Raises* `ValueError` for any other scheme: a log needs links and syncs, which object stores do not have.
    """
    text = os.fspath(place)
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme or len(scheme) < 2:
        return Path(text).absolute()
    if scheme != "file":
        raise ValueError(f"path is {text!r}; a micro-batch log lies in a local or mounted directory, not in {scheme}:")
    return Path("/" + rest.lstrip("/"))


def open_directory(place: str | os.PathLike[str]) -> RealLogDisk:
    """Return the directory at *place*, made durably if it is missing."""
    directory = log_directory(place)
    make_directory(directory)
    return RealLogDisk(directory)
