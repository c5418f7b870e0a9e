"""Names the command-line call that does something about a store, ready to be pasted into a shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkpoint.store import StoreReader


def command_on(store: StoreReader, command: str, *more: str) -> str | None:
    """Return the call of *command* for *store*; None if no command finds it, as in memory or in a group.

    >>> from pathlib import Path
    >>> from types import SimpleNamespace
    >>> command_on(SimpleNamespace(directory=Path("my store")), "restart", "q")
    "reliable-rx restart 'my store' q"
    >>> command_on(SimpleNamespace(address=("postgresql://me@here/db", "shop")), "restart", "q")
    'reliable-rx restart --name shop postgresql://me@here/db q'
    """
    directory, address = getattr(store, "directory", None), getattr(store, "address", None)
    if directory is not None:
        where = [str(directory)]
    elif address is not None:
        where = ["--name", address[1], address[0]]
    else:
        return None
    return shlex.join(["reliable-rx", *command.split(), *where, *more])
