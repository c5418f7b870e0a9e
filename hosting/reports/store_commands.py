"""Names the command-line call that does something about a store, ready to be pasted into a shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hosting.reports.partition_store import RESTORE_GROUP, of_group
from reliable_rx.errors import CheckpointRefused

if TYPE_CHECKING:
    from checkpoint.store import Store, StoreReader


OF_GROUPS = ("restart", "dispose", "release")
"""Commands on all partitions of a group."""


def command_on(store: StoreReader, command: str, *more: str) -> str | None:
    """Return the call of *command* for *store*; None if no command finds it, as in memory.

    A query of a partition is restarted and disposed of in all partitions of its group. What an evaluator finds in the
    store of a partition no repair mends: that puts only files right.

    >>> from pathlib import Path
    >>> from types import SimpleNamespace
    >>> command_on(SimpleNamespace(directory=Path("my store")), "restart", "q")
    "reliable-rx restart 'my store' q"
    >>> command_on(SimpleNamespace(address=("postgresql://me@here/db", "shop")), "restart", "q")
    'reliable-rx restart --name shop postgresql://me@here/db q'
    >>> command_on(SimpleNamespace(directory=Path("store")), "status", "--json")
    'reliable-rx status --store store --json'
    """
    group = getattr(store, "group", None)
    directory, address = getattr(store, "directory", None), getattr(store, "address", None)
    if group is not None and command in OF_GROUPS:
        return of_group(command, group, *more)
    if group is not None and command == "store repair":
        return None
    if directory is not None:
        where = [str(directory)]
    elif address is not None:
        where = ["--name", address[1], address[0]]
    else:
        return None
    if command == "status":  # which is of groups as well
        where.insert(-1, "--store")
    return shlex.join(["reliable-rx", *command.split(), *where, *more])


def with_repair(store: StoreReader, error: CheckpointRefused) -> CheckpointRefused:
    """Return *error*, of what *store* keeps, with the command that repairs it."""
    command = command_on(store, "store repair", "--app", "MODULE:APP")
    way = RESTORE_GROUP if is_partition(store) else f"see what can be saved with `{command}`" if command else ""
    if not way or "`reliable-rx store repair" in error.message:
        return error
    return CheckpointRefused(f"{error.message}; {way}", **error.fields)


def is_partition(store: StoreReader | None) -> bool:
    """Whether *store* is that of a partition of a group."""
    return getattr(store, "group", None) is not None


def or_repair_it(store: StoreReader, before: str = " or ") -> str:
    """Return the end of a remedy that the repair of *store* is another one for; empty where it is none.

    >>> from types import SimpleNamespace
    >>> or_repair_it(SimpleNamespace(group=None)), or_repair_it(SimpleNamespace(group=("here", "g")))
    (' or `reliable-rx store repair`', '')
    """
    command = command_on(store, "store repair", "--app", "MODULE:APP") or "reliable-rx store repair"
    return "" if is_partition(store) else f"{before}`{command}`"


def way_to_restart(store: StoreReader, query: str) -> str:
    """Say how *query* is run again as it is.

    >>> from types import SimpleNamespace
    >>> way_to_restart(SimpleNamespace(), "q")
    "evaluator.restart('q')"
    >>> way_to_restart(SimpleNamespace(group=("here", "g")), "q")
    '`reliable-rx restart here q --group g --app MODULE:APP` while no node runs'
    """
    command, call = command_on(store, "restart", query), f"evaluator.restart({query!r})"
    if command is None:
        return call
    return f"`{command}` while no node runs" if getattr(store, "group", None) else f"`{command}` ({call} in a program)"


def way_to_release(store: Store | None, stream: str, holder: str) -> str:
    """Say how *holder* of *stream* is let go.

    >>> from types import SimpleNamespace
    >>> way_to_release(None, "q", "me")
    "evaluator.holders.release('q', 'me')"
    >>> way_to_release(SimpleNamespace(group=("here", "g")), "q", "sink 0")
    "`reliable-rx release here q 'sink 0' --group g` while no node runs"
    """
    command = None if store is None else command_on(store, "release", stream, holder)
    call = f"evaluator.holders.release({stream!r}, {holder!r})"
    if command is None:
        return call
    if is_partition(store):
        return f"`{command}` while no node runs"
    return f"`{command}` on the stopped store ({call} in a program)"
