"""The newest epoch that writes a file, in a small file beside it: how a sink without transactions refuses old writers.

``out.jsonl.epoch`` holds one number and is never replaced, so a writer looks into its own open file and needs no lock.
Whoever comes with a later epoch writes the number, durably, *before* it reads what is there; a writer looks after it
has made something durable. So what a former writer was told is durable was there before the number changed, and is
read. Changes are made under a lock, for the length of two system calls. Rejected: the number in a first line of the
file itself (a reader of the lines would stumble), telling by the file's inode alone (an older epoch that comes late
would put its copy in place of a newer one's).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hosting.sinks.places import beside
from reliable_rx.errors import CheckpointRefused, LeaseLost, StoreUnavailable

WAIT_S = 5.0
_PAUSE_S = 0.005
_DIGITS = 20


EACH = "on nodes each partition needs a target of its own, so a sink is a function of its place"


def lost(what: str, epoch: int, newest: int, partition: str | None = None) -> LeaseLost:
    """Say that *what* has a newer writer."""
    if epoch:
        message = f"{what} is written by epoch {newest} (this is epoch {epoch}): stop and write nothing; {EACH}"
    else:
        message = f"{what} is written by nodes (epoch {newest}), and this sink was not fenced: name another; {EACH}"
    return LeaseLost(message, partition=partition, epoch=epoch, newest=newest)


class EpochFile:
    """The epoch of *path*, for the writer of *epoch*."""

    def __init__(self, path: Path, epoch: int) -> None:
        self._path, self._epoch = path, epoch
        self._descriptor = os.open(beside(path, ".epoch"), os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)

    def claim(self) -> None:
        """From now on, durably, refuse earlier epochs. *Raises* `LeaseLost` if a later one has been here."""
        with self.held():
            newest = self._newest()
            if newest > self._epoch:
                raise lost(str(self._path), self._epoch, newest)
            if newest < self._epoch:
                os.pwrite(self._descriptor, b"%0*d\n" % (_DIGITS, self._epoch), 0)
        os.fsync(self._descriptor)  # not under the lock: who is stopped while he waits for a disk holds nobody up

    def check(self) -> None:
        """*Raises* `LeaseLost` if a later epoch has been here."""
        newest = self._newest()
        if newest != self._epoch:
            raise lost(str(self._path), self._epoch, newest)

    def _newest(self) -> int:
        text = os.pread(self._descriptor, _DIGITS + 2, 0)
        if not text:
            return 0
        if len(text) != _DIGITS + 1 or not text[:-1].isdigit():
            where = f"{self._path}.epoch"
            raise CheckpointRefused(f"{where} holds no epoch: {text!r}; restore it", what="no epoch", where=where)
        return int(text)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let nobody else change anything."""
        if sys.platform == "win32":
            yield
            return
        import fcntl

        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    message = f"{self._path} is being taken over by another process, which seems to have stopped"
                    raise StoreUnavailable(f"{message}; try again, or end that process") from error
                time.sleep(_PAUSE_S)
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)


def fenced(path: Path) -> int:
    """Return the epoch that *path* was last fenced with, 0 if never."""
    if not beside(path, ".epoch").exists():
        return 0
    file = EpochFile(path, 0)
    try:
        return file._newest()
    finally:
        file.close()
