"""Being woken when a batch has come, across processes: a named pipe per process that waits, in the log's directory.

Spark commits a batch in a process of its own, even where the driver and the evaluator are one, so memory cannot tell.
Whoever commits writes a byte into every pipe there is; a pipe that nobody reads is removed. One thread of ours waits
for all readers of a source, and looks by itself at least every `LOOK_S`: a pipe does not reach another machine, and
some file systems have none. In an object store, where each look is a request that is paid for, it is every
`LOOK_FAR_S`. Rejected: inotify (Linux only, and silent on network file systems as well).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from spark_bridge.micro_batch_log.names import BELLS, UNFINISHED

LOOK_S, LOOK_FAR_S = 0.25, 1.0
_NOBODY_READS = (errno.ENXIO, errno.EPIPE, errno.ENOENT)


def ring(directory: Path | None) -> None:
    """Wake every process that waits for the log in *directory*, if it is one."""
    if directory is None:
        return
    try:
        bells = os.listdir(directory / BELLS)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in bells:
        if not name.endswith(UNFINISHED):
            _ring_one(directory / BELLS / name)


def _ring_one(bell: Path) -> None:
    try:
        pipe = os.open(bell, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NOBODY_READS:
            bell.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):  # a full pipe has woken already
        os.write(pipe, b"!")
    os.close(pipe)


class Bell:
    """A thread that calls *heard* when the bell of the log in *directory* rings, and every so often besides."""

    def __init__(self, directory: Path | None, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._stopped = threading.Event()
        self._look_s = LOOK_FAR_S if directory is None else LOOK_S
        self._path = None if directory is None else directory / BELLS / uuid.uuid4().hex
        self._pipe = None if self._path is None else _pipe(self._path)
        name = f"reliable_rx micro-batches {directory or 'far away'}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pipe = self._pipe
        while not self._stopped.is_set():
            if pipe is None:
                self._stopped.wait(self._look_s)
            elif select.select([pipe], [], [], self._look_s)[0]:
                os.read(pipe, 1 << 16)
            if not self._stopped.is_set():
                self._heard()
        if pipe is not None and self._path is not None:
            os.close(pipe)
            self._path.unlink(missing_ok=True)

    def stop(self) -> None:
        """End the thread; it is gone when this returns, unless it is the one that calls."""
        self._stopped.set()
        if self._pipe is not None and self._path is not None:
            _ring_one(self._path)
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _pipe(path: Path) -> int | None:
    """Make a named pipe and open it; None where the file system has no such thing."""
    beside = path.with_name(path.name + UNFINISHED)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(beside, 0o600)
        # Also for writing, by which it is never at its end; and opened before others can see it and find nobody there.
        descriptor = os.open(beside, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.rename(beside, path)
    except OSError:
        return None
    return descriptor
