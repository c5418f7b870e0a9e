"""The words of partitioned hosting: what coordinator, channel, node, assignors and stores say to each other.

Values only, frozen, and nothing above the standard library, so that each part can be driven by a model and each word
can be stored. A *position* is what it is everywhere else in this library, the next id to take, a plain int; sources and
readers are those of `reliable_rx.reliable`. Rejected: a position of sequence and index, which would be a second kind of
the same thing; weights as floats, whose sums depend on the order in which they are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import NewType, Protocol

MemberId = NewType("MemberId", str)
"""One start of one node, named by the coordinator and by nobody else, so that no two are the same."""
Epoch = NewType("Epoch", int)
"""Counts the grants of one partition, for ever; the larger one is the newer one. This is what fences."""


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """One partition of one source.

    >>> str(Partition("flights", "JFK"))
    'flights/JFK'
    """

    source: str
    name: str

    def __str__(self) -> str:
        return f"{self.source}/{self.name}"


@dataclass(frozen=True, slots=True)
class Shard:
    """A partition as its source lists it.

    It opens once all its *parents* are terminated: two parents are a merge, two children of one parent a split. A
    *base* shard holds data that was there before; every other shard of its source waits for all of them. *room* is
    the machine room it lives in, *weight* how much work it is beside the others.
    """

    partition: Partition
    parents: tuple[Partition, ...] = ()
    _: KW_ONLY
    base: bool = False
    room: str | None = None
    weight: int = 1

    def __post_init__(self) -> None:
        _whole(f"the weight of {self.partition}", self.weight)
        if self.partition in self.parents:
            raise ValueError(f"{self.partition} is named as its own parent; it would wait for itself")


@dataclass(frozen=True, slots=True)
class Member:
    """A node as a group knows it.

    It may own the partitions of *sources* and those in *partitions*; where both are None, all. *capacity* is how much
    it takes beside the others, *room* the machine room it stands in. *instance* names it over its restarts. *knows* are
    the partitions that its app has, None where all apps have the same; *avoids* those that it has failed to run.
    """

    id: MemberId
    _: KW_ONLY
    capacity: int = 1
    room: str | None = None
    instance: str | None = None
    sources: frozenset[str] | None = None
    partitions: frozenset[Partition] | None = None
    knows: frozenset[Partition] | None = None
    avoids: frozenset[Partition] = frozenset()

    def __post_init__(self) -> None:
        _whole(f"the capacity of {self.name}", self.capacity)

    @property
    def name(self) -> str:
        """What it is called over its restarts if it has such a name, else its id."""
        return self.id if self.instance is None else self.instance

    @property
    def is_picky(self) -> bool:
        """Whether there may be a partition that it does not take."""
        return bool(self.avoids) or (self.sources, self.partitions, self.knows) != (None, None, None)

    def may_own(self, partition: Partition, /) -> bool:
        """Say whether this member takes *partition* at all."""
        if partition in self.avoids or not (self.knows is None or partition in self.knows):
            return False
        if self.sources is None and self.partitions is None:
            return True
        return partition.source in (self.sources or ()) or partition in (self.partitions or ())


def _whole(what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number from 1 on, got {value!r}; it only counts beside the others'")


@dataclass(frozen=True, slots=True)
class Lease:
    """*owner* may open, commit and write *partition* for as long as *epoch* is its newest."""

    partition: Partition
    owner: MemberId
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Failure:
    """What a member reports of a partition that it cannot run: how often in a row, and the last error in one line.

    With a *count* of 0 the partition runs, and something in it fails: a query, a sink. A *warning* only waits or
    warns, as its message says.
    """

    count: int
    message: str
    warning: bool = False

    @property
    def is_of_query(self) -> bool:
        """Whether a query fails, or waits, in a partition that runs.

        >>> Failure(0, "query 'q': has failed").is_of_query, Failure(3, "OSError: the disk is full").is_of_query
        (True, False)
        """
        return self.message.startswith("query ")

    @property
    def is_late(self) -> bool:
        """Whether it tells of partitions that have come when all there were had been read to their ends.

        >>> Failure(0, "warns: after the end 'n': partition 'b' has come", warning=True).is_late
        True
        """
        return self.message.startswith("warns: after the end ")


class Status(Enum):
    """Where a partition stands.

    ======================  ==================================  =======================================
    status                  the coordinator has                 the node that holds the lease has
    ======================  ==================================  =======================================
    ``WAIT``                nobody who holds it                 not opened it yet
    ``OPEN``                leased it                           a channel running
    ``CLOSING``             asked its owner to give it back     stopped fetching, commits what it has
    ``CLOSED``              (is never in this status)           committed and stopped: it may move
    ``TERMINATED``          seen its end committed              committed its end: it never opens again
    ``UNWRITTEN``           (is never in this status)           committed its end, but a sink lacks some
    ======================  ==================================  =======================================

    A partition that was told to be ``UNWRITTEN`` is ``TERMINATED`` until a node starts that may have it: then it waits
    to be opened once more.
    """

    WAIT = "wait"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    TERMINATED = "terminated"
    UNWRITTEN = "unwritten"


Assignment = Mapping[Partition, MemberId]
"""Who is to own what. What nobody may own is missing."""


class Assignor(Protocol):
    """Decides who is to own what: a pure function that gives the same for the same arguments in any order.

    *owners* is the assignment before; members who are gone and partitions that ended may still be in it.
    """

    def __call__(self, members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment: ...
