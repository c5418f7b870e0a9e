"""Who reads a source or stream, and how an event reaches them.

Queries over a declared key (`where_key` behind the source) are found by a dictionary look-up per event; the others
get every event. A query that cannot be fed lists (it uses one source twice, resubscribes, or runs inner sequences
of its own choosing) is fed event by event, because Rx promises that order.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from hosting.engine.blame import blamed
from reliable_rx.query.query import SourceLeaf
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import PlanNode

Entry = tuple[Instance, PlanNode]
Fan = tuple[Instance, PlanNode | None, list[Entry]]
"""A standing query, the leaf that takes lists if there is no other, and all its readers in order of subscription."""


class Route:
    """The readers of one source."""

    __slots__ = ("fans", "keyed", "picky", "plain")

    def __init__(self) -> None:
        self.fans: tuple[Fan, ...] | None = None
        self.picky = 0  # how many readers by key must be fed event by event
        self.plain: dict[Instance, list[tuple[int, Instance, PlanNode]]] = {}
        self.keyed: dict[Callable[[Any], Any], dict[Any, Any]] = {}

    @property
    def is_read(self) -> bool:
        """Whether it has a reader: one that all have left is as one that was never there, as it is behind a restart."""
        return bool(self.plain or self.keyed)

    def add(self, instance: Instance, leaf: PlanNode, order: int) -> None:
        op: SourceLeaf = leaf.op  # type: ignore[assignment]
        self.fans = None
        if op.key_mapper is None:
            insort(self.plain.setdefault(top_of(instance), []), (order, instance, leaf), key=lambda reader: reader[0])
            return
        table = self.keyed.setdefault(op.key_mapper, {})
        key = instance.route_key  # type: ignore[attr-defined]
        readers = table.get(key)
        self.picky += not takes_lists(instance)
        # one reader is the common case and is stored bare: with a list and its leaf it would cost 130 bytes more
        if readers is None:
            table[key] = instance
        elif isinstance(readers, list):
            readers.append(instance)
        else:
            table[key] = [readers, instance]

    def remove(self, instance: Instance, leaf: PlanNode) -> None:
        op: SourceLeaf = leaf.op  # type: ignore[assignment]
        self.fans = None
        if op.key_mapper is None:
            top = top_of(instance)
            left = [reader for reader in self.plain.get(top, ()) if reader[1] is not instance or reader[2] is not leaf]
            if left:
                self.plain[top] = left
            else:
                self.plain.pop(top, None)
            return
        table = self.keyed.get(op.key_mapper, {})
        key = instance.route_key  # type: ignore[attr-defined]
        readers = [each for each, _ in several(table.get(key)) if each is not instance]
        self.picky -= not takes_lists(instance)
        if not readers:
            table.pop(key, None)
            if not table:
                self.keyed.pop(op.key_mapper, None)
        else:
            table[key] = readers[0] if len(readers) == 1 else readers

    def everyone(self) -> tuple[Fan, ...]:
        """Return who gets every event, the oldest query first."""
        if self.fans is None:
            self.fans = tuple(fan(top, self.readers_of(top)) for top in sorted(self.plain, key=age))
        return self.fans

    def only_reader(self) -> Entry | None:
        """Return who gets every event, if it is known who does, and is one leaf that takes lists."""
        if self.keyed or self.fans is None or len(self.fans) != 1:
            return None
        _, leaf, readers = self.fans[0]
        return None if leaf is None else readers[0]

    def readers_of(self, top: Instance) -> list[Entry]:
        """Return the readers of one standing query, also those inside it, in the order in which they subscribed."""
        return [(instance, leaf) for _, instance, leaf in self.plain.get(top, ())]

    def readers(self) -> Iterator[Entry]:
        """Yield everyone, in a stable order."""
        for _, _, readers in self.everyone():
            yield from readers
        keyed = [entry for table in self.keyed.values() for readers in table.values() for entry in several(readers)]
        yield from sorted(keyed, key=lambda entry: age(entry[0]))

    def wanted(self, values: Sequence[Any]) -> Iterator[tuple[Entry, list[Any], Exception | None]]:
        """Yield each reader by key with the events it wants, in the order in which the events first name it.

        Of those that one event names the oldest query is first. If the key of an event cannot be read, every reader
        under that key function gets what came before, and the error.
        """
        if len(self.keyed) > 1:
            yield from self._wanted_by_some(values)
            return
        for key_mapper, table in list(self.keyed.items()):
            found, error = sorted_by_key(key_mapper, table, values)
            for key in found if error is None else by_age(table):
                for entry in several(table.get(key)):
                    yield entry, found.get(key, []), error

    def _wanted_by_some(self, values: Sequence[Any]) -> Iterator[tuple[Entry, list[Any], Exception | None]]:
        """Yield what `wanted` does for several key functions, whichever of them came first."""
        places = {id(value): place for place, value in reversed([*enumerate(values)])}
        wanted = list[tuple[int, int, tuple[Entry, list[Any], Exception | None]]]()
        for key_mapper, table in self.keyed.items():
            found, error = sorted_by_key(key_mapper, table, values)
            for key in found if error is None else list(table):
                mine = found.get(key, [])
                place = places[id(mine[0])] if mine else len(values)
                wanted += [(place, age(entry[0]), (entry, mine, error)) for entry in several(table.get(key))]
        for _, _, found_by in sorted(wanted, key=itemgetter(0, 1)):
            instance, leaf = found_by[0]
            if instance.active & leaf.bit:  # it may have left meanwhile
                yield found_by


class Routes(dict[str, Route]):
    """The routes of one world, by the name of what is read; one that all readers have left goes behind the turn.

    Not sooner: it may be at work, and who leaves it may read it again at once.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        super().__init__()
        self.left: set[str] = set()

    def of(self, source: str) -> Route:
        """Return the route of *source*, making it for its first reader."""
        route = self.get(source)
        if route is None:
            route = self[source] = Route()
        return route

    def leave(self, source: str, instance: Instance, leaf: PlanNode) -> None:
        """Let a reader leave."""
        route = self.get(source)
        if route is None:
            return
        route.remove(instance, leaf)
        if not route.is_read:
            self.left.add(source)

    def sweep(self) -> set[str]:
        """Forget the routes that nobody reads any more; return their names."""
        left, self.left = {source for source in self.left if not self[source].is_read}, set()
        for source in left:
            del self[source]
        return left


def fan(top: Instance, readers: list[Entry]) -> Fan:
    alone = len(readers) == 1 and takes_lists(readers[0][0])
    return top, readers[0][1] if alone else None, readers


def age(top: Instance) -> int:
    return top.born  # type: ignore[attr-defined, no-any-return]


def top_of(instance: Instance) -> Instance:
    """Return the standing query that *instance* is part of."""
    while instance.parent is not None:
        instance = instance.parent
    return instance


def takes_lists(instance: Instance) -> bool:
    """Whether events may be handed to *instance* as one list.

    To one inside another only if that takes lists too: it may answer an event by subscribing to what reads the next.
    """
    top = top_of(instance)
    return instance.plan.by_list and top.plan.by_list and top.policy == "fail"  # type: ignore[attr-defined]


def sorted_by_key(
    key_mapper: Callable[[Any], Any], table: dict[Any, Any], values: Sequence[Any]
) -> tuple[dict[Any, list[Any]], Exception | None]:
    """Return the events that somebody wants by key, and what *key_mapper* raised."""
    found: dict[Any, list[Any]] = {}
    try:
        for value in values:
            key = key_mapper(value)
            if key in table:
                found.setdefault(key, []).append(value)
    except BaseException as raised:
        return found, blamed(raised)
    return found, None


def several(readers: Any) -> list[Entry]:
    """Return the readers by one key, each with its only leaf, the oldest query first."""
    if readers is None:
        return []
    return [
        (each, each.plan.leaves[0]) for each in (sorted(readers, key=age) if isinstance(readers, list) else [readers])
    ]


def by_age(table: dict[Any, Any]) -> list[Any]:
    """Return the keys of *table* by the age of their oldest readers."""
    return sorted(table, key=lambda key: age(several(table[key])[0][0]))
