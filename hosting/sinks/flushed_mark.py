"""How far a file is known to be durable, and where its ids come from, in a small file beside it.

What was never flushed may be torn anywhere after a power cut, and is cut off. What was flushed cannot be torn; if it
does not read as it should, somebody has changed it, and nothing may be cut. ``out.jsonl.flushed`` holds one length. It
is written after each sync of the file and not synced itself, so that it may be behind and never ahead: then more counts
as possibly torn, and what is cut is kept in any case. Rejected: marks in the file itself (readers would stumble), the
position that the evaluator's checkpoint knows (a sink would be safe only in an evaluator), a sync of its own (twice the
cost of a flush).

Behind the length stands the origin, with a checksum: a file goes by many paths, and moves, so that only what goes with
it says whose it is. A line that is damaged says nothing. Rejected: paths in the evaluator's checkpoint (a kill before
the first one, a link, a folder that was moved, and two streams were mixed), the stream alone (a new store counts anew,
and what two stores had under the same ids was mixed).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from hosting.sinks.origins import origin_in, text_of
from hosting.sinks.places import beside
from reliable_rx.reliable import Origin

DIGITS = 20
READ_BYTES_MAX = 1 << 16


class Flushed(NamedTuple):
    """What a mark says: the durable length, None if it is not known, and the origin, None if it does not say."""

    length: int | None
    origin: Origin | None = None


class FlushedMark:
    """The mark of the file *path*, to be moved."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(beside(path, ".flushed"), flags, 0o644)

    def write(self, length: int, *, sync: bool = False) -> None:
        """Set it to *length*, durably with *sync*."""
        os.pwrite(self._descriptor, b"%0*d\n" % (DIGITS, length), 0)
        if sync:
            os.fsync(self._descriptor)

    def name(self, origin: Origin) -> None:
        """Have it say, durably, that the ids of the file are of *origin*."""
        line = text_of(origin).encode()
        os.ftruncate(self._descriptor, DIGITS + 1)
        os.pwrite(self._descriptor, b"%s %08x\n" % (line, crc32(line)), DIGITS + 1)
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def read_mark(path: Path) -> Flushed:
    """Return what is known of the file *path* by its mark.

    A mark without its content was made before a power cut, and never synced: nothing was flushed, as far as is known.
    """
    try:
        with open(beside(path, ".flushed"), "rb") as file:
            text = file.read(READ_BYTES_MAX)
    except FileNotFoundError:
        return Flushed(None)
    length, origin = text[: DIGITS + 1], _origin_in(text[DIGITS + 1 :])
    if not length.strip(b"\0"):
        return Flushed(0, origin)
    is_whole = len(length) == DIGITS + 1 and length.endswith(b"\n") and length[:-1].isdigit()
    return Flushed(int(length) if is_whole else None, origin)


def _origin_in(line: bytes) -> Origin | None:
    text, _, checksum = line.rstrip(b"\n").rpartition(b" ")
    return origin_in(text.decode()) if text and checksum == b"%08x" % crc32(text) else None
