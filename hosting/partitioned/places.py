"""Where a partition is at work: its place, and the stores that places keep their state in.

Every grant of a partition gets a store of its own epoch, taken over from the epoch before. So nothing that a former
owner still writes, stopped in the midst of a transaction and continued an hour later, can be seen or stand in the way.
The order of taking over is the promise: first the sinks are fenced, so that no older epoch can show anything more,
then the store is taken over, which holds all that was ever shown. Rejected: one store that owners lock in turn (a
stopped owner keeps its lock).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from checkpoint.store import Store, StoreReader
from hosting.partitioned.words import Epoch, Lease, Partition


@dataclass(frozen=True, slots=True)
class Place:
    """One partition of *group* on the node that holds its lease: what a sink is made for.

    >>> from hosting.partitioned.words import MemberId
    >>> place = Place("thermometers", Lease(Partition("readings", "attic"), MemberId("node-1"), Epoch(3)))
    >>> place.partition.source, place.partition.name, place.epoch
    ('readings', 'attic', 3)
    """

    group: str
    lease: Lease
    identity: str = ""
    """What tells the group from others of its name."""

    @property
    def partition(self) -> Partition:
        """The partition it is of."""
        return self.lease.partition

    @property
    def epoch(self) -> Epoch:
        """The count of its grants: what sinks and stores tell owners apart by."""
        return self.lease.epoch


class PartitionStores(Protocol):
    """The stores of all partitions of one group. Methods may be called from any thread; `StoreUnavailable` if not."""

    def open(self, lease: Lease, /) -> Store:
        """Take over what the newest owner before *lease* left, whether it has closed or not, and own it.

        *Raises* `LeaseLost` if a later epoch has been here.
        """
        ...

    def opened(self) -> list[Partition]:
        """Return every partition of which a store was ever made whole: in the others nothing can be."""
        ...

    def look(self, partition: Partition, /, *, claimed: bool = False) -> StoreReader | None:
        """Open the newest store of *partition* for looking only; None if it never had one.

        With *claimed* also while the next epoch takes it over, when it may have what nobody was shown.
        """
        ...

    def newest(self, partition: Partition, /) -> Epoch:
        """Return the newest epoch that has opened a store of *partition*, 0 if none has."""
        ...

    def forget(self, partition: Partition, /) -> None:
        """Delete everything of *partition*. *Raises* `StoreOwned` if a process has it open."""

    def close(self) -> None:
        """Let go of what is shared between the stores; they are closed by those who opened them."""
