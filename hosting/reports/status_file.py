"""What an evaluator tells other processes: a small file beside its store, written once a second and at the end.

It is overwritten in place: the space it needs is there before a disk is full, and a full disk is what it has to tell
of. It has room for two statuses, each with length, checksum and number in front, and the older one is written over: a
write that is cut short leaves the newer one as it is. What is too long for the room is cut (`fitted`). Nothing relies
on it, and it is not synced. It stays when the process ends, and says whether that was in order. Rejected: a file
renamed into place (needs space), a socket (a thread per evaluator), the checkpoint alone (what is wrong may be that
none can be taken).
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from checkpoint.sqlite.files import lock_owner
from hosting.reports.failure_summary import fitted

State = Literal["running", "stopped", "ended", "killed"]
NAME = "status.json"
ROOM_BYTES = 1 << 16
"""How long one status may be, with what is in front of it."""
BYTES_MAX = 2 * ROOM_BYTES
HEAD_BYTES_MAX = 48
READS_MAX = 50
READ_AGAIN_S = 0.002
KEPT = ("at", "failed", "failed_left_out", "incidents", "incidents_left_out")
"""What stays of an earlier run until one that starts has something to say."""
SILENT_S = 30.0
"""A process that has not written for so long is stopped, or hangs."""


class StatusFile:
    """Writes the status of this process into *directory*; a disk that does not let it is ignored.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = StatusFile(Path(directory))
    ...     file.write({"turns": 7})
    ...     read_status(Path(directory))["state"]
    ...     file.write({"turns": 7, "stopped": True})
    ...     read_status(Path(directory))["state"]
    'running'
    'stopped'
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._owner = os.getpid()
        self._there = False

    def write(self, status: Mapping[str, Any]) -> None:
        """Replace what the file says; of what is too long for it the least important is left out."""
        if os.getpid() != self._owner:
            return
        where = inode(self._path.parent)
        who = {"pid": self._owner, "began": began(self._owner), "folder": where, "at": time.time()}
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if not self._there:
                    self._there = _has_room(descriptor)
                _replace_older(descriptor, {**who, **status})
            finally:
                os.close(descriptor)

    def begin(self) -> None:
        """Say that this process starts, which may take long, and leave what the last one has said."""
        before = read_status(self._path.parent) or {}
        kept = {key: before[key] for key in KEPT if key in before}
        self.write({"at": 0.0, **kept, "starting": True})

    def end(self, why: str) -> None:
        """Say that this process ends, before a start, because of *why*, and leave what the last one has said."""
        before = read_status(self._path.parent)
        kept = {key: before[key] for key in KEPT if key in before and key != "at"} if before else {"at": 0.0}
        self.write({**kept, "ended": why})


def _has_room(descriptor: int) -> bool:
    """Take the space that the file needs, behind what it has, as far as the disk has it; return whether it had."""
    size = os.fstat(descriptor).st_size
    with suppress(OSError):
        size += os.pwrite(descriptor, b" " * max(0, BYTES_MAX - size), size)
    return size >= BYTES_MAX


def _replace_older(descriptor: int, status: Mapping[str, Any]) -> None:
    """Write *status* over the older one of the two; over the only one, if the disk had no space for two."""
    found = _statuses(os.pread(descriptor, BYTES_MAX, 0))
    number, newer = max(((each[0], place) for place, each in enumerate(found) if each is not None), default=(0, 1))
    size, offset = os.fstat(descriptor).st_size, ROOM_BYTES * (1 - newer)
    if size < BYTES_MAX:
        offset = 0
    most = min(size, ROOM_BYTES) - HEAD_BYTES_MAX
    payload = json.dumps(fitted(status, most)).encode()
    if len(payload) <= most:
        head = b"%08d %08x %d \n" % (len(payload), zlib.crc32(payload), number + 1)
        os.pwrite(descriptor, head + payload, offset)


def read_status(directory: Path) -> dict[str, Any] | None:
    """Return what the process that runs on the store in *directory* says, or what the last one has said.

    Its *state* is ``running``; ``stopped`` if it ended in order; ``ended`` if an error ended it, which *ended* names;
    ``killed`` if it is gone without a word. None if none has said anything.
    """
    for _ in range(READS_MAX):
        try:
            content = (directory / NAME).read_bytes()
        except OSError:
            return None
        statuses = [each for each in _statuses(content) if each is not None]
        if statuses:
            _, found = max(statuses, key=lambda each: each[0])
            is_here = found.get("folder") == inode(directory)  # a copy of the store has a copy of this
            return {**found, "state": _state(directory, found)} if is_here else None
        time.sleep(READ_AGAIN_S)
    return None


def is_torn(directory: Path) -> bool:
    """Whether a process has begun to say something on the store in *directory* that cannot be read."""
    try:
        content = (directory / NAME).read_bytes()
    except OSError:
        return False
    return not any(_statuses(content))


def _state(directory: Path, found: Mapping[str, Any]) -> State:
    if "ended" in found:
        return "ended"
    if "stopped" in found:
        return "stopped"
    owner = lock_owner(directory)
    if owner is not None:
        return "running" if owner == str(found["pid"]) else "killed"
    is_same = _is_alive(found["pid"]) and found.get("began") == began(found["pid"])
    return "running" if is_same else "killed"


def began(pid: int) -> int:
    """Return when a process began, in ticks, by which it is told from a later one of its number; 0 if not known."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def inode(directory: Path) -> list[int]:
    """Return what tells a folder from a copy of it; nothing if it is gone."""
    try:
        found = directory.stat()
    except OSError:
        return []
    return [found.st_dev, found.st_ino]


def _statuses(content: bytes) -> list[tuple[int, dict[str, Any]] | None]:
    """Return the statuses in both places with their numbers; None for what is none."""
    return [_parsed(content[offset : offset + ROOM_BYTES]) for offset in (0, ROOM_BYTES)]


def _parsed(content: bytes) -> tuple[int, dict[str, Any]] | None:
    try:
        head, rest = content.split(b"\n", 1)
        length, checksum, number = head.split()
        payload = rest[: int(length)]
        found = json.loads(payload) if zlib.crc32(payload) == int(checksum, 16) else None
    except ValueError:
        return None
    return (int(number), found) if isinstance(found, dict) and isinstance(found.get("pid"), int) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
