"""What an evaluator tells other processes: a small file beside its store, written once a second and at the end.

It is overwritten in place, with its length and checksum in front: the space it needs is there before a disk is full,
and a full disk is what it has to tell of. Whoever reads it between two writes reads again. Nothing relies on it, and it
is not synced. It stays when the process ends, and says whether that was in order. Rejected: a file renamed into place
(needs space), a socket (a thread per evaluator), the checkpoint alone (what is wrong may be that none can be taken).
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

from checkpoint.files import lock_owner

State = Literal["running", "stopped", "ended", "killed"]
NAME = "status.json"
BYTES_MAX = 1 << 16
READS_MAX = 50
READ_AGAIN_S = 0.002
KEPT = ("at", "failed", "incidents", "incidents_left_out")
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
        """Replace what the file says; what is too long for it is left out."""
        if os.getpid() != self._owner:
            return
        where = inode(self._path.parent)
        who = {"pid": self._owner, "began": began(self._owner), "folder": where, "at": time.time()}
        payload = json.dumps({**who, **status}).encode()
        content = b"%08d %08x \n" % (len(payload), zlib.crc32(payload)) + payload
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if not self._there:
                    os.pwrite(descriptor, b" " * BYTES_MAX, 0)
                os.pwrite(descriptor, content, 0)
                self._there = True
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
        found = _parsed(content)
        if found is not None:
            is_here = found.get("folder") == inode(directory)  # a copy of the store has a copy of this
            return {**found, "state": _state(directory, found)} if is_here else None
        time.sleep(READ_AGAIN_S)
    return None


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


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        head, rest = content.split(b"\n", 1)
        length, checksum = head.split()
        payload = rest[: int(length)]
        found = json.loads(payload) if zlib.crc32(payload) == int(checksum, 16) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("pid"), int) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
