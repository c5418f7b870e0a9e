"""Files of a store that SQLite would cut in silence: what a repair says of them, and where they are mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkpoint.format.envelope import KeyRing
from checkpoint.sqlite.exchange import begin, finish
from checkpoint.sqlite.files import DirectoryLock
from checkpoint.sqlite.rescue import damaged_files, mend, wrong_start
from checkpoint.sqlite.store import key_from_file
from hosting.cli.stores import Database, StoreAddress
from hosting.repair.repair import Finding
from reliable_rx.errors import CheckpointRefused

HOLDS = {"checkpoint": "checkpoints and stored outputs", "journal": "turns", "log": "pushed values and positions"}

OLDER_KEYS = (
    "put older keys of the program into seal.key.older in the store for the repair, in hexadecimal, a line each"
)
PUT_RIGHT = "it is put right, and nothing in it is lost"


def is_damaged(address: StoreAddress) -> bool:
    """Whether files or rows of the store at *address*, on which nothing runs, must be mended before it opens."""
    if isinstance(address, Database):
        return address.is_damaged()
    directory = address.folder
    if directory is None:
        return False
    return bool(damaged_files(directory, keys_of(directory))) or wrong_start(directory) is not None


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Own the folder of a store. *Raises* `StoreOwned`."""
    lock = DirectoryLock(directory)
    try:
        finish(directory)
        yield
    finally:
        lock.release()


def mended_store(address: StoreAddress) -> list[Finding]:
    """Mend what keeps the store at *address* from opening; return what was wrong, and what that costs."""
    if isinstance(address, Database):
        found = address.mend()
        return [finding(part, f"{part} of the store", wrong, lost) for part, (wrong, lost) in found.items()]
    return [] if address.folder is None else mended(address.folder)


def mended(directory: Path) -> list[Finding]:
    """Mend the files of the store in *directory*, a copy; return what was wrong with each, and what that costs."""
    keys = keys_of(directory)
    wrong = damaged_files(directory, keys)
    begins = None if wrong else wrong_start(directory)
    if not wrong and begins is None:
        return []
    lost = mend(directory, keys)
    found = [finding(part, *each, lost[part]) for part, each in wrong.items()]
    if begins is not None:
        remedy = "what a checkpoint has of them is not missed; what is missing is told here if it matters"
        found.append(Finding("journal.sqlite", begins, remedy, depends_on_app=False))
    return found


def keys_of(directory: Path) -> KeyRing:
    """Return the key in the store's folder. *Raises* `CheckpointRefused` where a program gave keys of its own."""
    if not (directory / "seal.key").exists():
        what = "seal.key is missing: it was lost, or the program gives keys= of its own"
        way = (
            "put the key (its bytes) into that file for the repair, older ones into seal.key.older (in hexadecimal, a "
            "line each), and remove both then"
        )
        raise CheckpointRefused(f"{directory}: {what}; {way}", what=what, where=str(directory))
    return key_from_file(directory)


def finding(part: str, file: str, wrong: str, lost: list[str] | None) -> Finding:
    remedy = PUT_RIGHT
    if lost is not None:
        more = f"; given up: {', '.join(lost)}" if lost else "; what is missing is told here if it matters"
        remedy = f"of its {HOLDS[part]} those are kept that can be read{more}"
    return Finding(file, wrong, remedy, depends_on_app=False)


@contextmanager
def fresh_files(directory: Path) -> Iterator[Path]:
    """Give a copy of the store in *directory*, which is held, whose files are mended: `commit` puts it in its place."""
    fresh = begin(directory)
    mended(fresh)
    yield fresh
