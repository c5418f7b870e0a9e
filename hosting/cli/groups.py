"""Finding a group from the command line, and what its app says of its positions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from checkpoint.failures import unavailable
from checkpoint.offsets import Committed, DualOffsets, OffsetStore
from checkpoint.sqlite.parts import GROUP_FILE, is_store
from hosting.cli.loading import load_app
from hosting.cli.stores import groups_in
from hosting.cli.terminal import complain
from hosting.cli.whereabouts import what_is_there
from hosting.cli.wording import BadUsage, plural
from hosting.edges.positions import bounds_of
from hosting.edges.start_positions import ENDLESS
from hosting.partitioned.group import Group
from hosting.partitioned.keys import Key, key_of
from hosting.partitioned.opening import (
    Opened,
    groups_with_stores,
    is_on_a_server,
    lease_authority,
    open_group,
    open_offsets,
)
from hosting.partitioned.sections import listing_of, sections_of
from hosting.partitioned.store_beside import holds_both, way_apart
from hosting.partitioned.tending import bury, find_dead, look
from reliable_rx.errors import OffsetsMoved, StoreOwned
from reliable_rx.reliable import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A group as it was found: its name, and what its nodes share."""

    name: str
    where: str
    opened: Opened
    offsets: OffsetStore

    def document(self) -> Group:
        """Return what its nodes know together. *Raises* `BadUsage` if it has never had a node."""
        group = look(self.opened.registry, self.name)
        if group is None:
            raise BadUsage(f"{self.where} has no group {self.name!r}; {_known(group_names(self.where))}")
        return group

    def positions(self) -> Mapping[Key, Committed]:
        """Return what is committed. *Raises* `BadUsage` if that is nothing, as there is no such group."""
        try:
            committed = self.offsets.fetch(self.name)
        except OffsetsMoved:
            complain("the positions have been moved; give the other place too, with --new-offsets")
            raise
        if not committed:
            self.document()
        return committed

    def despite_the_dead(self, act: Callable[[], T]) -> T:
        """Do *act*; if members stand in its way that are not heard of for a session, do it without them."""
        try:
            return act()
        except StoreOwned as error:
            complain(f"{error.message}; looking whether it is alive")
            dead = find_dead(self.opened.registry, self.name, pause=time.sleep)
            if not dead:
                raise
            gone = bury(self.opened.registry, self.name, dead)
            complain(f"{plural(len(gone), 'member')} not heard of for a session, taken out of the group")
            return act()


@contextmanager
def found_group(where: str, name: str | None, *, new_offsets: str | None = None) -> Iterator[Found]:
    """Open a group that is there; without *name* the only one. *Raises* `BadUsage` if there is none, or several.

    With *new_offsets*, where its positions are being moved to or have been, both stores are asked.
    """
    if not is_on_a_server(where) and not (Path(where) / GROUP_FILE).is_file():
        there = f"neither a store nor a group in {where}: {what_is_there(Path(where))}"
        if is_store(Path(where)):
            there = f"a store and no group in {where}"
        raise BadUsage(f"there is {there}; give the --store that a store's app or a group's nodes were started with")
    if not is_on_a_server(where) and holds_both(where):
        complain(way_apart(where))
    if name is None:
        names = group_names(where)
        if len(names) != 1:
            raise BadUsage(f"say which group with --group; {_known(names)}")
        (name,) = names
    with ExitStack() as closed:
        opened = closed.enter_context(closing(open_group(where, name)))
        offsets: OffsetStore = opened.offsets
        if new_offsets is not None:
            leases = lease_authority(opened.registry, name)
            new = closed.enter_context(closing(open_offsets(new_offsets, leases)))
            offsets = DualOffsets(new, opened.offsets)
        yield Found(name, where, opened, offsets)


def _known(names: list[str]) -> str:
    return f"there are: {', '.join(names)}" if names else "there is none yet"


def group_names(where: str) -> list[str]:
    """Name the groups that are kept at *where*."""
    if is_on_a_server(where):
        return groups_in(where)
    sql = "SELECT name FROM registry ORDER BY name"
    with unavailable(where), closing(sqlite3.connect(Path(where) / GROUP_FILE)) as database:
        return [name for (name,) in database.execute(sql)] or groups_with_stores(where)


Positions = Mapping[Key, tuple[Source, str]]
"""By the name of a position: whose it is."""


def positions_of(where: str) -> Positions:
    """Return the positions that the app named by *where* has, over all its partitions as they are listed now."""
    return {
        key_of(section.name, name, each.name): (source, each.name)
        for section in sections_of(load_app(where))
        for name, source in section.sources.items()
        for each in listing_of(source)
    }


def bounds_at(positions: Positions) -> dict[Key, tuple[int, int] | None]:
    """Ask the sources how far they reach; a source that fails is told of, and left unknown."""
    found: dict[Key, tuple[int, int] | None] = {}
    failed: dict[Any, str] = {}
    for key, (source, partition) in positions.items():
        found[key] = None
        if id(source) not in failed:
            try:
                found[key] = bounds_of(source, partition)
            except OSError as error:
                failed[id(source)] = str(error)
    for why in failed.values():
        complain(f"how far a source reaches is not known: {why}")
    return {key: None if reach is None or reach[1] == ENDLESS else reach for key, reach in found.items()}


def shown(key: Key) -> str:
    return "/".join(key)
