"""What is at a path where no store is, so that who named the wrong one sees which he meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from shlex import quote

from checkpoint.sqlite.parts import GROUP_FILE, is_store

LOOKED_MAX, NAMED_MAX = 1000, 5


def what_is_there(directory: Path) -> str:
    """Say what is at the path *directory*, which is no store, and where stores are near it.

    >>> import tempfile
    >>> what_is_there(Path(tempfile.mkdtemp()))
    'it is an empty folder'
    """
    if directory.is_file():
        return "it is a file" + ("; its folder is a store" if is_store(directory.parent) else "")
    if not directory.is_dir():
        if directory.is_symlink():
            return f"it is a link to {os.readlink(directory)}, which is not there"
        parent = directory.parent
        if not parent.is_dir():
            return f"there is no folder {parent} either (looked from {os.getcwd()})"
        return f"there is no such folder (looked from {os.getcwd()})" + near(directory.name, parent)
    if (directory / GROUP_FILE).is_file():
        shown = f"a group of nodes shares it (reliable-rx status --store {quote(str(directory))})"
        stores = [quote(str(each)) for each in stores_of_group(directory)]
        if not stores:
            return f"{shown}, and no partition of it has a store yet"
        return f"{shown}; stores of its partitions: {some(stores)}"
    names = sorted(each.name for each in entries(directory))
    if not names:
        return "it is an empty folder"
    lost = "; no database of a store is there: they are lost, or not made yet" if any(map(is_beside, names)) else ""
    return f"that folder has {some(names)}{lost}" + near("", directory)


def stores_of_group(directory: Path) -> list[Path]:
    """Return the newest store of each partition of the groups that share *directory*, at most some of them."""
    folders = sorted(islice((directory / "partitions").glob("*/*/*"), LOOKED_MAX))
    found = ([each for each in entries(folder) if each.name.isdecimal() and is_store(each)] for folder in folders)
    return [max(stores, key=lambda each: int(each.name)) for stores in found if stores]


def some(names: Sequence[str]) -> str:
    """Name the first few of *names*."""
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def is_beside(name: str) -> bool:
    """Whether a file lies beside the databases of a store, and has nothing of what was in it."""
    return name == "seal.key" or name.endswith((".sqlite-shm", ".sqlite-wal"))


def near(wanted: str, folder: Path) -> str:
    """Name the stores in *folder*, the one that is called most like *wanted* first."""
    stores = sorted(each.name for each in entries(folder) if is_store(each))
    close = difflib.get_close_matches(wanted, stores, n=1)
    named = [str(folder / name) for name in (*close, *(each for each in stores if each not in close))][:NAMED_MAX]
    return f"; stores near it: {', '.join(named)}" if named else ""


def entries(folder: Path) -> Iterator[Path]:
    try:
        yield from islice(folder.iterdir(), LOOKED_MAX)
    except OSError:
        return
