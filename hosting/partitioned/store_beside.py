"""Refusal of a group where the store of one evaluator is, and the way apart of a folder that holds both.

Commands and programs find what is in a folder by its files, so one that holds both would hide one of the two. In a
database both have names, and one name is refused where it would be that of both.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from checkpoint.sqlite.parts import GROUP_FILE, is_store
from reliable_rx.errors import StoreOwned


def holds_both(directory: str | Path) -> bool:
    """Whether *directory* is the folder of a store and of a group."""
    return (Path(directory) / GROUP_FILE).is_file() and is_store(Path(directory))


def way_apart(directory: str | Path) -> str:
    """Say how to part the two that are in *directory*."""
    return (
        f"{directory} holds a store and a group of nodes: while nothing runs on either, move what is the group's "
        f"({GROUP_FILE}*, offsets, partitions) to a folder of its own; each then goes on from where it was"
    )


def check_no_store_in(directory: Path) -> None:
    """*Raises* `StoreOwned` if a group that is made in *directory* would lie beside a store."""
    if is_store(directory) and not holds_both(directory):
        raise StoreOwned(
            f"{directory} is the folder of a store, which one evaluator has for itself: give the group of nodes a "
            f"folder of its own, or use `reliable-rx run`",
            owner="a store",
        )


def check_no_store_called(name: str, dsn: str) -> None:
    """*Raises* `StoreOwned` if a store of one evaluator in the database *dsn* is called *name*; `StoreUnavailable`."""
    from checkpoint.postgres.connections import Connections
    from checkpoint.postgres.schema import make

    sql = b"SELECT name FROM stores WHERE kind = 'store' AND name = %s"
    with closing(Connections(dsn, connections_max=2, prepare=make)) as connections, connections.use() as server:
        if server.execute(sql, (name,)).fetchone() is not None:
            raise StoreOwned(
                f"{name!r} is a store in that database, which one evaluator has for itself: give the group of nodes "
                f"another name (--group), or use `reliable-rx run`",
                owner="a store",
            )
