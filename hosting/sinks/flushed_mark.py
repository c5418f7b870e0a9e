"""How far a file is known to be durable, in a small file beside it: what tells a torn tail from damage.

What was never flushed may be torn anywhere after a power cut, and is cut off. What was flushed cannot be torn; if it
does not read as it should, somebody has changed it, and nothing may be cut. ``out.jsonl.flushed`` holds one length. It
is written after each sync of the file and not synced itself, so that it may be behind and never ahead: then more counts
as possibly torn, and what is cut is kept in any case. Rejected: marks in the file itself (readers would stumble), the
position that the evaluator's checkpoint knows (a sink would be safe only in an evaluator), a sync of its own (twice the
cost of a flush).
"""

from __future__ import annotations

import os
from pathlib import Path

DIGITS = 20


class FlushedMark:
    """The mark of the file *path*, to be moved."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(_beside(path), flags, 0o644)

    def write(self, length: int, *, sync: bool = False) -> None:
        """Set it to *length*, durably with *sync*."""
        os.pwrite(self._descriptor, b"%0*d\n" % (DIGITS, length), 0)
        if sync:
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def flushed_length(path: Path) -> int | None:
    """Return how much of the file *path* is known to be durable; None if nothing is known.

    A mark without its content was made before a power cut, and never synced: nothing was flushed, as far as is known.
    """
    try:
        text = _beside(path).read_bytes()
    except FileNotFoundError:
        return None
    if not text.strip(b"\0"):
        return 0
    return int(text) if len(text) == DIGITS + 1 and text[:-1].isdigit() else None


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.flushed")
