"""Opens a command's store from its address: a folder, or a database and the name of the store in it.

Every command opens stores here and nowhere else, so that what it does to a folder it does to a database too. Rejected:
the name as a part of the address (``#name`` may be in a password, ``?name=`` is the server's).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from checkpoint import PostgresStore, SqliteStore
from checkpoint.format.envelope import KeyRing
from checkpoint.sqlite.exchange import copy_store
from checkpoint.sqlite.parts import GROUP_FILE, is_store
from checkpoint.store import Store, StoreReader
from hosting.cli.loading import name_of
from hosting.cli.store_status import StoreStatus, look, look_in_database
from hosting.cli.terminal import complain
from hosting.cli.whereabouts import what_is_there
from hosting.cli.wording import BadUsage
from hosting.partitioned.opening import is_on_a_server
from hosting.partitioned.store_beside import holds_both, way_apart
from hosting.reports.failure_summary import to_hand_on
from hosting.reports.partition_store import Group, group_named_in, group_of
from reliable_rx.errors import ReliableRxError, StoreUnavailable

NAMED_MAX = 10
OF_PARTITION = "SELECT name FROM stores WHERE kind = 'store' AND name ~ '^[^/]+/[^/]+/[^/]+$' ORDER BY name LIMIT 1"
OLDER_BESIDE = "and older ones into seal.key.older beside it, in hexadecimal, a line each"
TOLD = Callable[[str], str]
"""What says of a store what was said of its copy."""


class StoreAddress(Protocol):
    """Where the store of one program is; as text, what people call it."""

    @property
    def folder(self) -> Path | None:
        """The folder of a store that is there, if it has one."""

    def look(self) -> StoreReader:
        """Open it for looking only. *Raises* `CheckpointRefused`, `StoreUnavailable`."""

    def own(self) -> Store:
        """Open it to change it. *Raises* `StoreOwned`, `CheckpointRefused`, `StoreUnavailable`."""

    def status(self) -> StoreStatus:
        """Read what has failed in it. *Raises* `CheckpointRefused`, `StoreUnavailable`."""

    def group(self) -> Group | None:
        """Return the group of whose partition it is. *Raises* `StoreUnavailable`."""

    def copied(self) -> AbstractContextManager[tuple[StoreAddress, TOLD]]:
        """Copy it, while nothing runs on it, for as long as the context lasts."""


class Folder:
    """A store in a folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return str(self._directory)

    @property
    def folder(self) -> Path | None:
        return self._directory if is_store(self._directory) else None

    def look(self) -> StoreReader:
        return SqliteStore.read_only(self._directory)

    def own(self) -> Store:
        return SqliteStore(self._directory)

    def status(self) -> StoreStatus:
        return look(self._directory)

    def group(self) -> Group | None:
        return group_of(self._directory)

    @contextmanager
    def copied(self) -> Iterator[tuple[StoreAddress, TOLD]]:
        with tempfile.TemporaryDirectory(prefix=".repair-", dir=self._directory.parent) as beside:
            copy = Path(beside, "store")
            copy_store(self._directory, copy)
            yield Folder(copy), lambda text: text.replace(str(copy), str(self._directory))


class Database:
    """A store in a database, under a name; *keys* are those that its program gives."""

    folder = None

    def __init__(self, dsn: str, name: str, keys: KeyRing | None = None) -> None:
        self._dsn, self._name, self._keys = dsn, name, keys

    def with_keys(self, keys: KeyRing) -> Database:
        """Return the same, to be opened with *keys*."""
        return Database(self._dsn, self._name, keys)

    def __str__(self) -> str:
        return f"{self._name} in the database"

    def look(self) -> StoreReader:
        return PostgresStore.read_only(self._dsn, self._name, keys=self._keys)

    def own(self) -> Store:
        try:
            return PostgresStore(self._dsn, self._name, keys=self._keys)
        except ValueError as error:
            raise BadUsage(str(error)) from error

    def status(self) -> StoreStatus:
        return look_in_database(self._dsn, self._name)

    def group(self) -> Group | None:
        named = group_named_in(self._name)
        return None if named is None or named not in groups_in(self._dsn) else (self._dsn, named)

    def is_damaged(self) -> bool:
        """Whether rows must be mended before it opens."""
        from checkpoint.postgres.rescue import damaged_rows

        return bool(damaged_rows(self._dsn, self._name, self._keys))

    def mend(self) -> dict[str, tuple[str, list[str] | None]]:
        """Have it open; return by part what was wrong, and what that has lost (None: nothing)."""
        from checkpoint.postgres.rescue import mend_rows

        return mend_rows(self._dsn, self._name, self._keys)

    @contextmanager
    def copied(self) -> Iterator[tuple[StoreAddress, TOLD]]:
        from checkpoint.postgres.copy import COPY, copied_store

        with copied_store(self._dsn, self._name) as copy:
            yield Database(self._dsn, copy, self._keys), lambda text: text.replace(COPY, "")


def address_of(where: str, name: str | None = None, *, app: str | None = None) -> StoreAddress:
    """Return the address of a store that is there: in the folder *where*, or called *name* in the database there.

    Without *name*, it is the only one of the database, or the one that is called as *app* is. *Raises* `BadUsage`, so
    that looking never makes a store.
    """
    if not is_on_a_server(where):
        check_unnamed(where, name)
        if not is_store(Path(where)):
            raise BadUsage(f"there is no store in {where}: {what_is_there(Path(where))}; give the folder of one")
        if holds_both(where):
            complain(way_apart(where))
        return Folder(Path(where))
    if name is None:
        return Database(where, chosen(where, stores_in(where), app))
    if not names_in(where, "SELECT name FROM stores WHERE kind = 'store' AND name = %s", name):
        raise BadUsage(f"there is no store {name!r} in the database; {known(where, stores_in(where))}")
    return Database(where, name)


def address_to_host(where: str | None, name: str | None, *, app: str) -> StoreAddress:
    """Return the address of the store on which *app* is hosted, which may be made. *Raises* `BadUsage`."""
    if where is not None and is_on_a_server(where):
        check_no_group_called(name or name_of(app), where)
        return Database(where, name or name_of(app))
    directory = Path(where or f"{name_of(app)}.store")
    check_unnamed(str(directory), name)
    if holds_both(directory):
        raise BadUsage(way_apart(directory))
    if (directory / GROUP_FILE).is_file():
        raise BadUsage(f"{directory} is shared by a group of nodes: give a folder of its own, or use reliable-rx node")
    return Folder(directory)


def check_no_group_called(name: str, dsn: str) -> None:
    """*Raises* `BadUsage` if a store that is made in the database *dsn* would have the *name* of a group."""
    with suppress(StoreUnavailable):  # what opens the store says so
        if name in groups_in(dsn) and name not in stores_in(dsn):
            raise BadUsage(
                f"{name!r} is a group of nodes in that database: give the store another --name, or use reliable-rx node"
            )


def store_or_group(where: str, name: str | None, group: str | None, *, app: str | None) -> StoreAddress | None:
    """Return the address of the store that is meant, None if it is a group. *Raises* `BadUsage` if that is not clear.

    A path is one or the other, whatever is there; of a folder with both, only the group can be meant, by its name.
    """
    if name is not None and group is not None:
        raise BadUsage("give --name for the store of one program, or --group for a group of nodes, and not both")
    if not is_on_a_server(where):
        check_unnamed(where, name)
        if group is None and holds_both(where):
            raise BadUsage(way_apart(where))
        shared = group is not None or (Path(where) / GROUP_FILE).is_file()
        return None if shared else Folder(Path(where))
    if name is not None:
        return address_of(where, name)
    groups, stores = groups_in(where), stores_in(where)
    if group is not None:
        if group not in groups and group in stores:
            raise BadUsage(f"{group!r} is the store of one program, and no group: give --name {group}")
        return None
    own = name_of(app) if app is not None else None
    if groups and stores and (own in groups) == (own in stores):
        raise BadUsage(f"say which with --group: {listed(groups)}, or with --name one of the stores {listed(stores)}")
    if groups and (not stores or own in groups):
        return None
    return Database(where, chosen(where, stores, app))


def given_keys(address: StoreAddress, file: Path | None) -> StoreAddress:
    """Return *address* with the keys in *file*: a line each, the present one first. *Raises* `BadUsage`."""
    if file is None:
        return address
    if not isinstance(address, Database):
        raise BadUsage(f"--keys is for a store in a database: put the key into {address}/seal.key, {OLDER_BESIDE}")
    try:
        current, *older = [bytes.fromhex(line) for line in file.read_text().split()]
        return address.with_keys(KeyRing(current, older=tuple(older)))
    except (OSError, ValueError) as error:
        raise BadUsage(f"{file}: {error}; give keys in hexadecimal, a line each, the present one first") from error


def check_unnamed(where: str, name: str | None) -> None:
    if name is not None:
        raise BadUsage(f"--name names a store in a database, and {where} is a folder: leave it out")


def chosen(dsn: str, stores: Sequence[str], app: str | None) -> str:
    """Return which of the *stores* of a database is meant where none is named. *Raises* `BadUsage`."""
    if app is not None and name_of(app) in stores:
        return name_of(app)
    if len(stores) != 1:
        raise BadUsage(f"say which store with --name; {known(dsn, stores)}")
    return stores[0]


def known(dsn: str, stores: Sequence[str]) -> str:
    if stores:
        return f"there are: {listed(stores)}"
    such = "".join(f", such as {each}" for each in names_in(dsn, OF_PARTITION))
    return f"there is none of a program, and that of a partition is called GROUP/SOURCE/PARTITION{such}"


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def stores_in(dsn: str) -> list[str]:
    """Name the stores of programs in a database; what has a slash is a partition's, or a copy."""
    return names_in(dsn, "SELECT name FROM stores WHERE kind = 'store' AND strpos(name, '/') = 0 ORDER BY name")


def groups_in(dsn: str) -> list[str]:
    """Name the groups that live in a database."""
    return names_in(dsn, "SELECT name FROM registry ORDER BY name")


def names_in(dsn: str, sql: str, *parameters: str) -> list[str]:
    """Return the names that *sql* asks for. *Raises* `BadUsage`; `StoreUnavailable` if nothing of ours is there."""
    from checkpoint.postgres.connections import Connections
    from checkpoint.postgres.schema import look as look_at

    try:
        with closing(Connections(dsn, connections_max=2, prepare=look_at)) as connections, connections.use() as server:
            return [name for (name,) in server.execute(sql.encode(), parameters or None).fetchall()]
    except ValueError as error:
        raise BadUsage(str(error)) from error


def left_open(address: StoreAddress) -> list[dict[str, Any]]:
    """Return what the last run has left open that a command which only changes a query cannot tell."""
    try:
        return to_hand_on(address.status().incidents)
    except ReliableRxError:
        return []
