"""Whether a sink can have a file at its path, and whether that path still is the file that it has open.

A file that is deleted, moved or replaced goes on without a name: what is written to it is not found again. So a sink
looks when it has made something durable, before it says so: one `stat` a flush. It does not open the path anew by
itself: what it had is not there, and only a person knows whether it was archived or lost. It fails, and says both
remedies; what was not flushed stays in its stream.

At its opening a fault that no waiting mends (a folder, a pipe, a missing right) fails the sink, others are waited
for: a full disk, a folder that is to be mounted. Rejected: waiting for all of them, as a sink that waits stops the
turns of all queries.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reliable_rx.errors import CheckpointRefused, ReliableRxError, StoreUnavailable, printable

PERMANENT = frozenset(
    getattr(errno, name)
    for name in ("EISDIR", "ENOTDIR", "EEXIST", "EACCES", "EPERM", "EROFS", "ENAMETOOLONG", "ELOOP", "EINVAL", "ENXIO")
)
"""What the system says of a path that waiting does not mend; all else may be mended while a sink waits."""


def beside(path: str | os.PathLike[str], ending: str) -> Path:
    """Return the file that lies beside *path*, whatever link it is called by.

    >>> beside("/srv/out.jsonl", ".flushed").name
    'out.jsonl.flushed'
    """
    return Path(f"{os.path.realpath(path)}{ending}")


@contextmanager
def opening(path: str | os.PathLike[str]) -> Iterator[None]:
    """Tell what waiting mends from what it does not. *Raises* `StoreUnavailable` or `CheckpointRefused`."""
    shown = printable(os.fspath(path))
    try:
        _check_kind(path)
        yield
    except ReliableRxError:
        raise
    except ValueError as error:  # a null character, or half a surrogate pair
        raise refused(path, f"{shown} cannot name a file ({error}); give the sink another path") from error
    except OSError as error:
        what = f"{shown} cannot be opened: {error.strerror or error}"
        if error.errno in PERMANENT:
            raise refused(path, f"{what}; mend the path or its rights, or give the sink another path") from error
        raise StoreUnavailable(f"{what}; mend the disk or bring its folder back, and it goes on by itself") from error


def _check_kind(path: str | os.PathLike[str]) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise refused(path, f"{printable(os.fspath(path))} is a folder; give the sink the path of a file")
    if not stat.S_ISREG(mode):
        what = "is a pipe, a socket or a device, where a sink could not find again what it has written"
        raise refused(path, f"{printable(os.fspath(path))} {what}; give it the path of a file")


def refused(path: str | os.PathLike[str], message: str) -> CheckpointRefused:
    """Return the error for a *path* that a sink cannot have, or has no more."""
    return CheckpointRefused(message, what=message, where=os.fspath(path))


def check_rights(path: str | os.PathLike[str]) -> None:
    """Look whether a file may be read and written, or made. *Raises* `PermissionError`."""
    folder = os.path.dirname(os.path.realpath(path))
    rights = [(folder, os.W_OK | os.X_OK), *([(path, os.R_OK | os.W_OK)] if os.path.exists(path) else [])]
    for each, needed in rights:
        if not os.access(each, needed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(each))


class Place:
    """A path, and the file that it is when this is made; of an open file by its *descriptor*.

    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> Place(file.name).check(); file.close()
    """

    def __init__(self, path: str | os.PathLike[str], descriptor: int | None = None) -> None:
        self._path = os.path.abspath(path)
        found = os.stat(self._path) if descriptor is None else os.fstat(descriptor)
        self._known = found.st_dev, found.st_ino

    def check(self, size_min: int = 0) -> None:
        """Look whether it still is that file, and has *size_min* bytes. *Raises* `CheckpointRefused` if not."""
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._lost("was deleted or moved") from error
        except OSError as error:
            message = f"{printable(self._path)} cannot be looked at: {error.strerror}; mend the disk, then try again"
            raise StoreUnavailable(message) from error
        if (found.st_dev, found.st_ino) != self._known:
            raise self._lost("was replaced by another file")
        if found.st_size < size_min:
            raise self._lost(f"was cut to {found.st_size:,} bytes")

    def _lost(self, what: str) -> CheckpointRefused:
        message = (
            f"{printable(self._path)} {what} while this sink was writing it: put it back, or begin a new file, with "
            f"on_error='skip' if the stream no longer has all"
        )
        return refused(self._path, message)
