"""What a group has read before, as its stores say: under which sections, with which code, and whether anything.

A store is there from the moment at which a partition is first opened, and has what was read and shown, in a checkpoint
or in its journal. Rejected: asking the group's document (it forgets what no member lists), and positions alone (they
are committed behind the first checkpoint; but they outlive their stores, so both count); a checkpoint of nothing when a
partition is first opened (a commit for each, and it would not say whether anything was read behind it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoint.format.codec import decode
from checkpoint.offsets.store import Committed
from checkpoint.store import StoreReader
from hosting.evaluator import group_commit as journaling
from hosting.evaluator.source_definitions import READ
from hosting.partitioned.keys import WHOLE, Key, lease_over, section_of, sources_in
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.words import Partition
from hosting.sources.fingerprint import Fingerprint, Versions
from reliable_rx.errors import CheckpointRefused

LOOKED_AT_MAX = 4
TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Trace:
    """What the store of a partition says: what its *sources* are read with, whether it is *used*, and its *queries*.

    It is used if anything was read into it, or has come out of it. *queries* are those that it has had since and
    that were not disposed of. One that cannot be read, for the reason *refused*, is taken to be used.
    """

    sources: Mapping[str, Versions]
    used: bool
    queries: frozenset[str] = frozenset()
    refused: CheckpointRefused | None = None


class Past:
    """The partitions that a group has *opened*, or has a position of, with a look into their stores, at most once each.

    Methods raise `StoreUnavailable`.
    """

    def __init__(self, stores: PartitionStores, committed: Mapping[Key, Committed]) -> None:
        self._stores, self._traces = stores, dict[Partition, Trace]()
        self._keys = committed.keys()
        self._moved = {lease_over(key) for key, found in committed.items() if found.position}
        self._committed_at = {lease_over(key): found.time for key, found in committed.items()}
        self.opened = {*stores.opened(), *map(lease_over, self._keys)}

    def partitions(self, section: str) -> set[str]:
        """Name the partitions of *section* that were opened."""
        return {each.name for each in self.opened if each.source == section}

    def sections(self) -> list[str]:
        """Name the sections of which a partition was opened."""
        return sorted({each.source for each in self.opened})

    def is_used(self, section: str) -> bool:
        """Whether anything was read in *section*, or has come out of it."""
        found = [each for each in self.opened if each.source == section]
        return not self._moved.isdisjoint(found) or any(self._trace(each).used for each in found)

    def is_at_work(self, section: str) -> bool:
        """Whether *section* has a query that has read anything, or may have, as a store cannot be read or is gone."""
        found = [(self._trace(each), each in self._moved) for each in self.opened if each.source == section]
        return any(each.queries or each.refused or (moved and not each.used) for each, moved in found)

    def sources(self, section: str) -> frozenset[str]:
        """Name the sources of *section*."""
        if section != WHOLE:
            return sources_in(section)
        committed = {source for of, source in map(section_of, self._keys) if of == WHOLE}
        return frozenset(committed).union(*(each.sources for each in self._traces_of(WHOLE)))

    def queries(self, section: str) -> frozenset[str]:
        """Name the queries of *section* that have read anything, or may have, as far as its stores can be read."""
        return frozenset[str]().union(*(each.queries for each in self._traces_of(section)))

    def refused(self, section: str) -> CheckpointRefused | None:
        """Return why a store of *section* cannot be read, None if all can."""
        return next((each.refused for each in self._traces_of(section) if each.refused is not None), None)

    def definitions(self, section: str, source: str) -> Versions:
        """Return what *source* was read with last in *section*, as far as the partitions say that committed last."""
        opened = sorted(each for each in self.opened if each.source == section)
        opened.sort(key=lambda each: self._committed_at.get(each, 0.0), reverse=True)
        for partition in opened[:LOOKED_AT_MAX]:
            trace = self._trace(partition)
            if source in trace.sources:
                return trace.sources[source]
        return ()

    def _traces_of(self, section: str) -> list[Trace]:
        return [self._trace(each) for each in sorted(self.opened) if each.source == section]

    def _trace(self, partition: Partition) -> Trace:
        """Return what its store says."""
        if partition not in self._traces:
            self._traces[partition] = self._look(partition)
        return self._traces[partition]

    def _look(self, partition: Partition) -> Trace:
        refused = None
        for _ in range(TRIES_MAX):  # its owner may take a checkpoint, and cut the journal, meanwhile
            try:
                reader = self._stores.look(partition, claimed=True)
                if reader is None:
                    return Trace({}, used=False)
                with reader as store:
                    return trace_of(store)
            except CheckpointRefused as error:
                refused = error
        return Trace({}, used=True, refused=refused)


def trace_of(store: StoreReader) -> Trace:
    """Return what *store* says, by the turns behind its newest checkpoint and what that says besides rows.

    *Raises* `CheckpointRefused`.
    """
    newest = next(reversed(store.generations()), None) or store.recover()  # which tells if some are there
    meta: Mapping[str, Any] = {} if newest is None else decode(newest.meta)
    definitions = dict(meta.get("definitions", {}))
    used = bool(meta.get("ended")) or any(meta.get("positions", {}).values()) or _has_emitted(store, meta)
    queries = set[str](meta.get("queries", ()))
    for _, _, entries, digests, told in journaling.read(store.journal, 0 if newest is None else newest.turn):
        definitions |= told.definitions
        for entry in entries:
            if entry[0] == "create":
                queries.add(entry[1])
            elif entry[0] == "dispose":
                queries.discard(entry[1])
        used = used or bool(digests) or any(entry[0] in READ for entry in entries)
    sources = {name: tuple(Fingerprint(*each) for each in found) for name, found in definitions.items()}
    return Trace(sources, used, frozenset(queries if used else ()))


def _has_emitted(store: StoreReader, meta: Mapping[str, Any]) -> bool:
    """Whether the checkpoint has outputs, or somebody who has had some."""
    held: Iterator[int] = (at for holders in meta.get("holders", {}).values() for at in holders.values())
    return bool(store.streams()) or any(at > 0 for at in held)
