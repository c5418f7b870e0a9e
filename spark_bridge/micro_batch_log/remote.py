"""A log in an object store, or whatever else fsspec has a URL for, if that can create a file only where there is none.

An object is there whole or not at all, is durable once the put has returned, and is seen by everyone from then on; so
nothing is written beside its place, and nothing is synced. What is left to ask for is the conditional put: fsspec's
``pipe_file(mode="create")``. The base class of fsspec plays it with a look beforehand, between which and the put
another driver fits; stores that inherit this are refused, and so are those that overwrite all the same, as older
versions of fsspec's own packages do, which every driver tries out.

Rejected: a lock object (who frees it for the dead?), and a table of versions that can (a try says the same, and of
servers that only speak S3's language as well).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from reliable_rx.errors import ReliableRxError, StoreUnavailable
from spark_bridge.micro_batch_log.disk import Writing
from spark_bridge.micro_batch_log.errors import LogRefused

TRIED = "tried-"


class RemoteLogDisk:
    """A `LogDisk` under the *url* of an fsspec file system, which finds its keys in fsspec's own configuration."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ValueError(f"path is {url!r}, which needs the extra: pip install 'reliable-rx[fsspec]'") from error
        try:
            self.files, root = fsspec.url_to_fs(url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise ValueError(f"path is {url!r}, which fsspec cannot open: {error}") from error
        self._root = root.rstrip("/")
        self.where, self.directory = f"the log {url}", None

    def names(self) -> Sequence[str]:
        self.files.invalidate_cache(self._root)
        with _errors(self.where):
            try:
                listed = self.files.ls(self._root, detail=False)
            except FileNotFoundError:
                return ()
        return [path.rstrip("/").rpartition("/")[2] for path in listed]

    def size(self, name: str) -> int | None:
        self.files.invalidate_cache(self._root)
        with _errors(self.where):
            try:
                return int(self.files.size(self.path(name)))
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes | None:
        with _errors(self.where):
            try:
                return bytes(self.files.cat_file(self.path(name)))
            except FileNotFoundError:
                return None

    def view(self, name: str) -> bytes | None:
        return self.read(name)

    def create(self, name: str, data: bytes) -> None:
        with _errors(self.where):
            self.files.pipe_file(self.path(name), data, mode="create")

    def replace(self, name: str, data: bytes, *, durably: bool) -> None:
        with _errors(self.where):
            self.files.pipe_file(self.path(name), data)

    def remove(self, name: str) -> None:
        with _errors(self.where), contextlib.suppress(FileNotFoundError):
            self.files.rm_file(self.path(name))

    def settle(self) -> None:
        """A put and a removal are durable when they return."""

    def writing(self, name: str) -> Writing:
        with _errors(self.where):
            return _Upload(self, name)

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"


class _Upload:
    def __init__(self, disk: RemoteLogDisk, name: str) -> None:
        self._disk, self._name, self._where = disk, name, disk.where
        self._file = disk.files.open(disk.path(name), "wb")

    def write(self, data: Any, /) -> int:
        with _errors(self._where):
            return int(self._file.write(bytes(data)))

    def finish(self) -> None:
        with _errors(self._where):
            self._file.close()

    def abandon(self) -> None:
        """An upload that is not closed is finished when it is collected; so it is, and what it made goes."""
        for undo in (self.finish, lambda: self._disk.remove(self._name)):
            with contextlib.suppress(OSError, ReliableRxError):  # what brought us here is told already
                undo()


@contextlib.contextmanager
def _errors(where: str) -> Iterator[None]:
    """Every client library has errors of its own: what is no error of a file is trouble with the store."""
    try:
        yield
    except (OSError, TypeError, LogRefused):
        raise
    except Exception as error:
        raise StoreUnavailable(f"{where}: {error!r}; nothing was promised, try again", where=where) from error


def check_creates_once(disk: RemoteLogDisk) -> None:
    """Check that the store of *disk* refuses to create an object twice. *Raises* `LogRefused` if it does not."""
    from fsspec import AbstractFileSystem

    kind = type(disk.files)
    remedy = "use one that has conditional puts (S3, GCS, Azure with current s3fs, gcsfs, adlfs), or a directory"
    if kind.pipe_file is AbstractFileSystem.pipe_file:
        message = f"{disk.where}: {kind.__name__} only looks whether a file is there before it writes it; two drivers"
        raise LogRefused(f"{message} could overwrite each other: {remedy}", where=disk.where, found=kind.__name__)
    name = f"{TRIED}{uuid.uuid4().hex}"
    try:
        disk.create(name, b"1")
        disk.create(name, b"2")
    except FileExistsError:
        return
    except TypeError as error:
        message = f"{disk.where}: {kind.__name__} knows no exclusive creation ({error}): {remedy}"
        raise LogRefused(message, where=disk.where, found=kind.__name__) from error
    finally:
        disk.remove(name)
    message = f"{disk.where}: {kind.__name__} overwrites what is there, though it was told to create it: {remedy}"
    raise LogRefused(message, where=disk.where, found=kind.__name__)
