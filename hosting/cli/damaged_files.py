"""Files of a store that SQLite would cut in silence: what a repair says of them, and where they are mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkpoint.exchange import begin, finish
from checkpoint.files import DirectoryLock
from checkpoint.rescue import begins_at, damaged_logs, mend
from checkpoint.sqlite import key_from_file
from hosting.repair import Finding

HOLDS = {"checkpoint": "checkpoints and stored outputs", "journal": "turns", "log": "pushed values and positions"}


def is_damaged(directory: Path) -> bool:
    """Whether a file of the store in *directory*, on which nothing runs, must be mended before it opens."""
    return bool(damaged_logs(directory)) or begins_at(directory) is not None


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Own the folder of a store. *Raises* `StoreOwned`."""
    lock = DirectoryLock(directory)
    try:
        finish(directory)
        yield
    finally:
        lock.release()


def mended(directory: Path) -> list[Finding]:
    """Mend the files of the store in *directory*, a copy; return what was wrong with each, and what that costs."""
    behind = damaged_logs(directory)
    begins = None if behind else begins_at(directory)
    if not behind and begins is None:
        return []
    lost = mend(directory, key_from_file(directory))
    found = [finding(part, at, lost[part]) for part, at in behind.items()]
    if begins is not None:
        wrong = f"it begins at turn {begins:,}, and turns before that are missing"
        remedy = "what a checkpoint has of them is not missed; what is missing is told here if it matters"
        found.append(Finding("journal.sqlite", wrong, remedy, depends_on_app=False))
    return found


def finding(part: str, behind: int, lost: list[str] | None) -> Finding:
    remedy = "it is put right, and nothing in it is lost"
    if lost is not None:
        more = f"; given up: {', '.join(lost)}" if lost else "; what is missing is told here if it matters"
        remedy = f"of its {HOLDS[part]} those are kept that can be read{more}"
    wrong = f"it is damaged behind {behind:,} bytes, before commits that were durable"
    return Finding(f"{part}.sqlite-wal", wrong, remedy, depends_on_app=False)


@contextmanager
def fresh_files(directory: Path) -> Iterator[Path]:
    """Give a copy of the store in *directory*, which is held, whose files are mended: `commit` puts it in its place."""
    fresh = begin(directory)
    mended(fresh)
    yield fresh
