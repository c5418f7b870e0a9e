"""From one word, where a group lives, to everything that it shares: a directory, or a PostgreSQL database.

    DIRECTORY/registry.sqlite   the documents of the groups
    DIRECTORY/offsets/          the positions
    DIRECTORY/partitions/       the stores of the partitions, by group

The nodes and the commands open a group here and nowhere else, so that they cannot look at different places. Rejected:
three addresses (they belong together: a lease of one registry says nothing to stores beside another).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol

from checkpoint.offsets.postgres import PostgresOffsets
from checkpoint.offsets.sqlite import SqliteOffsets
from checkpoint.offsets.store import Lease, MovableOffsets
from checkpoint.offsets.store import Partition as Named
from checkpoint.sqlite.files import make_directory
from checkpoint.sqlite.parts import GROUP_FILE
from hosting.partitioned.file_names import file_name, name_of, write_name
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.group import read_leases
from hosting.partitioned.keys import lease_over
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.postgres_registry import PostgresRegistry
from hosting.partitioned.postgres_stores import PostgresStores
from hosting.partitioned.registry import Registry
from hosting.partitioned.sqlite_registry import SqliteRegistry, lost
from hosting.partitioned.store_beside import check_no_store_called, check_no_store_in
from reliable_rx.names import check_name

ON_A_SERVER = ("postgresql://", "postgres://")


class Offsets(MovableOffsets, Protocol):
    """An offset store that is closed by whoever opened it."""

    def close(self) -> None: ...


class Opened(NamedTuple):
    """What the nodes of one group share."""

    registry: Registry
    offsets: Offsets
    stores: PartitionStores

    def close(self) -> None:
        """Close them all, even if one cannot be closed."""
        with ExitStack() as closing:
            for each in self:
                closing.callback(each.close)


def open_group(where: str | Path, group: str) -> Opened:
    """Open registry, offsets and stores of *group*, made if need be, in a directory or a database (``postgresql://``).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     opened = open_group(directory, "flights")
    ...     version, document = opened.registry.load()
    ...     opened.close()
    >>> version
    0

    *Raises* what they raise: `CheckpointRefused`, `StoreUnavailable`; `ValueError` if *group* is no name; `StoreOwned`
    for a new one in the folder of a store, or in a database under the name of one.
    """
    group = check_name("group", group)
    has_stores = not is_on_a_server(where) and _has_stores(Path(where), group)
    if not is_on_a_server(where):
        check_no_store_in(Path(where))
    with ExitStack() as undo:
        registry = _registry(where, group, make=not has_stores)
        undo.callback(registry.close)
        if registry.load()[1] is None:
            if has_stores:
                raise lost(f"{where}/{GROUP_FILE}", "it knows nothing of the group")
            if is_on_a_server(where):
                check_no_store_called(group, str(where))
        offsets = open_offsets(where, lease_authority(registry, group))
        undo.callback(offsets.close)
        opened = Opened(registry, offsets, _stores(where, group))
        undo.pop_all()
        return opened


def is_on_a_server(where: str | Path) -> bool:
    """Whether *where* is the address of a database rather than a directory."""
    return str(where).startswith(ON_A_SERVER)


def _registry(where: str | Path, group: str, *, make: bool = True) -> Registry:
    if is_on_a_server(where):
        return PostgresRegistry(str(where), group)
    make_directory(Path(where))
    return SqliteRegistry(Path(where) / GROUP_FILE, group, make=make)


def groups_with_stores(where: str | Path) -> list[str]:
    """Name the groups of which stores are in the directory *where*."""
    found = sorted(name_of(each) for each in (Path(where) / "partitions").glob("*"))
    return [each for each in found if _has_stores(Path(where), each)]


def _has_stores(where: Path, group: str) -> bool:
    """Whether there are stores of partitions, which only a group makes that is in the registry."""
    return any(each.name.isdecimal() for each in _folder(where, group).glob("*/*/*"))


def _folder(where: str | Path, group: str) -> Path:
    return Path(where) / "partitions" / file_name(group)


def open_offsets(where: str | Path, leases: Callable[[str, Named], Lease | None]) -> Offsets:
    """Open the positions at *where*, which may be another place than that of the group they are of.

    *Raises* `CheckpointRefused`, `StoreUnavailable`.
    """
    if is_on_a_server(where):
        return PostgresOffsets(str(where), leases)
    return SqliteOffsets(Path(where) / "offsets", leases)


def _stores(where: str | Path, group: str) -> PartitionStores:
    if is_on_a_server(where):
        return PostgresStores(str(where), group)
    folder = _folder(where, group)
    write_name(folder, group)
    return FolderStores(folder, group=(str(where), group))


def lease_authority(registry: Registry, group: str) -> Callable[[str, Named], Lease | None]:
    """Return the authority on who holds a partition of *group*: what its document says now."""

    read: tuple[int, dict[Named, tuple[str | None, int]]] = (0, {})

    def lease(asked: str, partition: Named) -> Lease | None:
        nonlocal read
        version, document = registry.load()
        if version != read[0]:
            read = version, {} if document is None else read_leases(document, name=group)
        if asked != group:
            return None
        over = lease_over(partition)
        owner, epoch = read[1].get((over.source, over.name), (None, 0))
        return None if owner is None else (owner, epoch)

    return lease
