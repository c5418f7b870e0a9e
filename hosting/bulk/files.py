"""The files of one partition: what they are called, who may write them, and how one comes to its place.

    DIRECTORY/.columns                                     the columns of all files
    DIRECTORY/partition-JFK/.start                         where this partition began; locked by who writes it
    DIRECTORY/partition-JFK/.next                          the file that is being written
    DIRECTORY/partition-JFK/00…00000-00…01000.parquet      ids 0 to 999

The names of the files say all that a restart must know, so there is no list of them that could disagree. A file is
written beside its place, synced and renamed: it is whole or it is not there. What begins with a dot is passed over by
everything that reads folders of Parquet files. The lock goes with the process that has it, so that a worker which
outlives its parent for a moment and its successor never write one partition together.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from checkpoint.failures import unavailable
from checkpoint.sqlite.files import RealDisk, make_directory
from reliable_rx.errors import CheckpointRefused, StoreOwned
from reliable_rx.failpoints import probe
from reliable_rx.shown import cut_end

NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")
NAME_BYTES_MAX = 255
START, NEXT = ".start", ".next"
LOCK_WAIT_S, LOCK_PAUSE_S = 10.0, 0.02


def folder_name(partition: str) -> str:
    """Return the name of the folder of *partition*, from which no other partition's differs.

    >>> folder_name("JFK"), folder_name("a/b c")
    ('partition-JFK', 'partition-a%2Fb%20c')
    """
    name = f"partition-{quote(partition, safe='')}"
    if len(name) > NAME_BYTES_MAX:
        shown = cut_end(partition, 60)
        raise ValueError(f"the name of partition {shown!r} is too long for a folder; export it by itself")
    return name


def file_name(first: int, next: int) -> str:
    """Return the name of the file with the ids from *first* up to *next*, which sorts as the ids do."""
    return f"{first:020}-{next:020}.parquet"


@contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[int]:
    """Have the lock file *path* to oneself; it goes with the process. *Raises* `StoreOwned` if another keeps it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor, path, time.monotonic() + wait_s)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, give_up: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                message = f"another process is exporting into {path.parent}; wait for it, or use another directory"
                raise StoreOwned(message, owner=None, directory=str(path.parent)) from None
            time.sleep(LOCK_PAUSE_S)


class PartitionFiles:
    """The folder of one partition in *directory*, owned while it is entered.

    *Raises* `StoreOwned` if another process writes it, `StoreUnavailable` if the disk fails.
    """

    def __init__(self, directory: Path, partition: str, *, wait_s: float = LOCK_WAIT_S) -> None:
        self.folder = directory / folder_name(partition)
        self._wait_s = wait_s
        self._disk = RealDisk(self.folder)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with unavailable(str(self.folder)):
            make_directory(self.folder)
            self._start = self._held.enter_context(locked(self.folder / START, wait_s=self._wait_s))
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first and the next id of every whole file, in order.

        *Raises* `CheckpointRefused` if they overlap or leave something out.
        """
        found = (NAME.fullmatch(name) for name in sorted(os.listdir(self.folder)))
        ranges = [(int(each[1]), int(each[2])) for each in found if each]
        for before, after in pairwise(ranges):
            if before[1] != after[0]:
                what = (
                    f"{file_name(*before)} is followed by {file_name(*after)}; restore what lay between, or begin anew"
                )
                raise CheckpointRefused(f"{self.folder}: {what}", what=what, where=str(self.folder))
        return ranges

    def resume(self, first: Callable[[], int]) -> int:
        """Return where to go on: behind the last whole file, or where this partition began; *first* begins it."""
        with unavailable(str(self.folder)):
            ranges = self.ranges()
            said = os.pread(self._start, 64, 0)
            began = int(said) if said.endswith(b"\n") else None
        if began is None:
            began = ranges[0][0] if ranges else first()
            self._begin(began)
        return ranges[-1][1] if ranges else began

    def _begin(self, position: int) -> None:
        with unavailable(str(self.folder)):
            os.ftruncate(self._start, 0)
            os.pwrite(self._start, b"%d\n" % position, 0)
            os.fsync(self._start)
            self._disk.sync_directory()

    @contextmanager
    def writing(self, schema: Any) -> Iterator[Callable[[Any], None]]:
        """Write the next file, table by table; it comes to its place by `keep`, or not at all."""
        import pyarrow.parquet

        with unavailable(str(self.folder)), pyarrow.parquet.ParquetWriter(self.folder / NEXT, schema) as writer:
            yield writer.write_table

    def keep(self, first: int, next: int) -> None:
        """Put what was written where it belongs, durably."""
        with unavailable(str(self.folder)):
            probe("export.before_sync")
            self._disk.sync(NEXT)
            probe("export.before_rename")
            self._disk.rename(NEXT, file_name(first, next))
            self._disk.sync_directory()
            probe("export.after_rename")
