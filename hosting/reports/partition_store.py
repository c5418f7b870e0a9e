"""Recognition of stores that belong to a partition of a group, on which only a holder of its lease starts an evaluator.

The evaluator of a whole app gets all partitions of its sources: on the store of one of them the others would appear, be
journalled, and be waited for by queries whose partition then never ends. So each start asks here, whoever built the
evaluator (`hosting.evaluator.ownership`); commands ask before they load an app, and name the way that works. A folder
is known by where it is, also behind a link, and a store in a database by the leases that have opened it. Rejected:
asking in each command (the next one forgets it, and a program that opens the folder has none).
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from checkpoint.sqlite.parts import GROUP_FILE
from hosting.partitioned.file_names import name_of
from reliable_rx.errors import StoreOwned

if TYPE_CHECKING:
    from checkpoint.store import Store

DEPTH = 4
"""How many folders are between that of a group and the store of a partition: partitions/GROUP/SOURCE/PARTITION."""
RESTORE_GROUP = "end the group's nodes, and restore all of it from a copy"
Group = tuple[str, str]
"""Where a group lives, and its name."""


def group_of(directory: Path) -> Group | None:
    """Return the group of whose partition *directory* is the store; None if of none."""
    resolved = directory.resolve()
    above = resolved.parents
    is_below = resolved.name.isdecimal() and len(above) > DEPTH and above[DEPTH - 1].name == "partitions"
    if not is_below or not any((above[DEPTH] / name).exists() for name in (GROUP_FILE, "offsets")):
        return None
    return str(above[DEPTH]), name_of(above[DEPTH - 2])


def group_named_in(name: str) -> str | None:
    """Return the group of whose partition a store in a database would be by its *name*.

    >>> group_named_in("night%20shift/orders/a"), group_named_in("shop")
    ('night shift', None)
    """
    return unquote(name.partition("/")[0]) if name.count("/") == 2 else None


def group_of_opened(store: Store) -> Group | None:
    """Return the group of whose partition *store* is, also if it was opened as that of a program."""
    group: Group | None = getattr(store, "group", None)
    directory = getattr(store, "directory", None)
    if group is None and directory is not None:
        return group_of(directory)
    if group is None and getattr(store, "is_outside_lease", False):
        address = getattr(store, "address", None)
        name = group_named_in(getattr(store, "name", ""))
        return None if name is None else ("WHERE" if address is None else address[0], name)
    return group


def check_lease(store: Store, *, is_placed: bool) -> None:
    """*Raises* `StoreOwned` if *store* is a partition's, unless it is leased, and by an evaluator that *is_placed*."""
    group = group_of_opened(store)
    if group is None or (is_placed and getattr(store, "group", None) is not None):
        return
    ways = f"`{of_group('dispose', group)}` and `{of_group('restart', group)}` end and restart a query of theirs"
    raise StoreOwned(f"{belongs(group)}: start its nodes with `reliable-rx node`; {ways}", owner=f"group {group[1]}")


def belongs(group: Group) -> str:
    """Say that a store is that of a partition of *group*."""
    return f"this is the store of a partition of the group {group[1]!r}, and no app's"


def of_group(command: str, group: Group, *more: str) -> str:
    """Return the call of *command* in all partitions of *group*, with *more* arguments: a query, unless they are given.

    >>> of_group("dispose", ("here", "g"))
    'reliable-rx dispose here QUERY --group g --app MODULE:APP'
    >>> of_group("release", ("here", "g"), "q", "me")
    'reliable-rx release here q me --group g'
    """
    where, name = group
    app = [] if command == "release" or "--app" in more else ["--app", "MODULE:APP"]
    return shlex.join(["reliable-rx", command, where, *(more or ["QUERY"]), "--group", name, *app])
