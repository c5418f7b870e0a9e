"""Which partitions of a source must have ended before which: splits, merges, and data that was there before.

A partition waits for its parents, and unless it is a base partition for all base partitions of its source. What the
source no longer lists holds nobody back, as the group's coordinator has it too. A list in which partitions wait for
each other in a ring would stand still for ever, so it is refused when it is read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Protocol, TypeVar

from reliable_rx.errors import LimitExceeded, SourceFailed
from reliable_rx.names import check_name
from reliable_rx.reliable import Listed, Listing

PARTITIONS_MAX = 100_000


class Placed(Protocol):
    """A partition of a source, by their names."""

    source: str
    name: str


P = TypeVar("P", bound=Placed)


class Lineage:
    """The partitions of one source as it last listed them.

    >>> split = [Listing("p"), Listing("a", ("p",)), Listing("b", ("p",))]
    >>> Lineage("s", split).ready(["p", "a", "b"], ended=set())
    ['p']
    >>> Lineage("s", split).ready(["a", "b"], ended={"p"})
    ['a', 'b']
    """

    def __init__(self, source: str, listing: Iterable[Listing]) -> None:
        self.source = source
        self.listed: Mapping[str, Listing] = {}
        self.base: Sequence[str] = ()
        self.update(listing)

    def update(self, listing: Iterable[Listing]) -> list[str]:
        """Take the list as it is now; return the names that are new.

        *Raises* `SourceFailed` for a list that cannot be followed, `LimitExceeded` for too long a one.
        """
        listing = list(listing)
        listed = {each.name: each for each in listing}
        self._check(listing, listed)
        fresh = [name for name in listed if name not in self.listed]
        self.listed, self.base = listed, [each.name for each in listing if each.base]
        return fresh

    def ready(self, waiting: Iterable[str], *, ended: Container[str]) -> list[str]:
        """Name those of *waiting* before whom everything has *ended*."""
        base_over = all(name in ended for name in self.base)
        return [name for name in waiting if self._is_ready(name, ended, base_over)]

    def follow(self, waiting: Iterable[str], name: str) -> bool:
        """Whether one of *waiting* waits for *name*."""
        is_base = name in self.listed and self.listed[name].base
        known = [self.listed[each] for each in waiting if each in self.listed]
        return any(name in each.parents or (is_base and not each.base) for each in known)

    def _is_ready(self, name: str, ended: Container[str], base_over: bool) -> bool:
        each = self.listed.get(name)
        if each is None:
            return True
        parents_over = all(parent in ended for parent in each.parents if parent in self.listed)
        return parents_over and (each.base or base_over)

    def _check(self, listing: Sequence[Listing], listed: Mapping[str, Listing]) -> None:
        if len(listing) > PARTITIONS_MAX:
            message = f"source {self.source!r} lists {len(listing):,} partitions, and the most is {PARTITIONS_MAX:,}"
            raise LimitExceeded(message, path=self.source, limit="partitions", most=PARTITIONS_MAX)
        if len(listed) < len(listing):
            raise SourceFailed(
                f"source {self.source!r} lists a partition twice; give each its name", source=self.source
            )
        check_partitions(self.source, listed)
        if all(not each.parents and not each.base for each in listing):
            return
        base = [each.name for each in listing if each.base]
        try:
            TopologicalSorter({each.name: list(_before(each, listed, base)) for each in listing}).prepare()
        except CycleError as error:
            ring = " waits for ".join(map(repr, error.args[1][::-1]))
            message = f"source {self.source!r} lists a ring, in which none can begin: {ring}; correct its parents"
            raise SourceFailed(message, source=self.source) from None


def lineage_of(name: str, source: object) -> Lineage | None:
    """Return what *source*, known as *name*, lists; None if it only names its partitions."""
    return Lineage(name, source.listing()) if isinstance(source, Listed) else None


def in_order(partitions: Iterable[P], sources: Iterable[str], lineages: Mapping[str, Lineage]) -> list[P]:
    """Sort as *sources* are declared and partitions listed, so that it is the same whenever a partition appeared."""
    declared = {source: place for place, source in enumerate(sources)}
    listed = {source: {name: at for at, name in enumerate(each.listed)} for source, each in lineages.items()}
    unlisted: dict[str, int] = {}
    return sorted(
        partitions,
        key=lambda each: (declared[each.source], listed.get(each.source, unlisted).get(each.name, PARTITIONS_MAX)),
    )


def check_partitions(source: str, names: Iterable[str], rooms: Iterable[str | None] = ()) -> None:
    """*Raises* `SourceFailed` for a partition whose name no store can hold, as that of a file may be; or a room's."""
    _check_named(source, "partition", names, "has no usable name")
    _check_named(source, "room", filter(None, rooms), "is in a room without a usable name")


def _check_named(source: str, kind: str, names: Iterable[str], lacks: str) -> None:
    for name in names:
        try:
            check_name(kind, name)
        except (TypeError, ValueError) as error:
            message = f"source {source!r} lists a partition that {lacks}: {error}"
            raise SourceFailed(message, source=source) from None


def _before(each: Listing, listed: Mapping[str, Listing], base: Sequence[str]) -> Iterator[str]:
    yield from (parent for parent in each.parents if parent in listed)
    if not each.base:
        yield from base
