"""What an offset store promises, and the small values that go in and out of it.

A group (the evaluators that share a query's input) has one position per partition: the id of the next event to take.
The position that counts lies in the query's checkpoint, together with its state and outputs; the offset store holds
the acknowledged copy, never ahead of it, which tools read and from which a member without a checkpoint begins. One
integer per partition stands for the acknowledgements of all events before it. Rejected: an acknowledgement per
message (lost if it is marked when sent, twice if the answer is lost, several states per message).

Who may commit is not decided here: a `LeaseAuthority` knows the present lease. The store asks it inside its own
transaction, and besides remembers the newest epoch it has seen per partition, so that a lease which changed hands
between the question and the write cannot be used again once the new owner has claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

Partition = tuple[str, str]
"""Source and name."""
Lease = tuple[str, int]
"""Owner and epoch. Epochs of a partition only grow."""
Charge = Literal["alone", "shared", "paired", "moved"]
"""Of which groups a store is in charge: *alone*; *shared* with another that is written too, so that a reset needs both;
*paired*, for those only that write both; or not at all, as the group has *moved*."""

METADATA_BYTES_MAX = 4096
RESET = "reset"
"""The metadata of a position that was reset, until somebody has committed from there."""


class Committed(NamedTuple):
    """What was committed last: the id of the next event to take, by whom, and when (Unix time in seconds)."""

    position: int
    epoch: int
    owner: str = ""
    time: float = 0.0
    metadata: str = ""

    @property
    def is_reset(self) -> bool:
        """Whether this was set by hand and nothing was committed since: whoever opens the partition begins there."""
        return self.metadata == RESET


class Refusal(NamedTuple):
    """Why a partition was not committed: another holds its lease, or the store is already further."""

    reason: Literal["fenced", "behind"]
    message: str


class LeaseAuthority(Protocol):
    """Knows who holds a partition for a group now."""

    def __call__(self, group: str, partition: Partition, /) -> Lease | None: ...


class OffsetStore(Protocol):
    """Positions by group and partition. Safe to use from many threads.

    Everything may raise `OffsetsLoading` (ask again soon), `OffsetsMoved` (ask the store in charge) and
    `StoreUnavailable` (nothing was promised).
    """

    def fetch(self, group: str, partitions: Iterable[Partition] | None = None) -> dict[Partition, Committed]:
        """Return what is committed, of all partitions or of those; what never was is left out."""
        ...

    def claim(self, group: str, leases: Mapping[Partition, Lease]) -> dict[Partition, Refusal | None]:
        """Durably fence every earlier epoch of these partitions; call it before the position is fetched."""
        ...

    def commit(
        self,
        group: str,
        vector: Mapping[Partition, int],
        leases: Mapping[Partition, Lease],
        *,
        metadata: str = "",
    ) -> dict[Partition, Refusal | None]:
        """Make positions durable before returning; answer per partition, None for success.

        A position is accepted if its lease is the present one and it is not below what is committed. The same again
        is accepted: the answer to the first may be lost. *Raises* `LimitExceeded` for more than 4 KiB of *metadata*.
        """
        ...

    def reset(self, group: str, vector: Mapping[Partition, int]) -> None:
        """Set positions, also back. *Raises* `StoreOwned` if one of the partitions is held, and changes nothing."""

    def delete(self, group: str, *, unless_after: float | None = None) -> bool:
        """Forget a group, unless it has committed after that time; return whether it is gone.

        *Raises* `StoreOwned` if one of its partitions is held.
        """
        ...

    def groups(self) -> dict[str, float]:
        """Return every group and when it committed last (Unix time in seconds)."""
        ...


class MovableOffsets(OffsetStore, Protocol):
    """An offset store that groups can be moved into and out of (`checkpoint.offsets.migration`)."""

    @property
    def where(self) -> str:
        """How people name this store."""
        ...

    def paired(self) -> OffsetStore:
        """Return this store as those see it who write both stores of a group."""
        ...

    def charge(self, group: str) -> Charge | None:
        """Return what was last put in charge, None if nothing ever was."""
        ...

    def charge_number(self, group: str) -> int:
        """Return how often something was put in charge: the same number twice means that nothing changed between."""
        ...

    def put_in_charge(self, group: str, charge: Charge, to: str) -> None:
        """Say durably what this store is for *group*; *to* names the other store."""

    def stored(self, group: str) -> dict[Partition, Committed]:
        """Return what is stored of *group*, whoever is in charge of it."""
        ...

    def adopt(self, group: str, vector: Mapping[Partition, Committed], *, exactly: bool) -> None:
        """Take over positions of another store: those ahead of ours, or all of them *exactly* in place of ours."""


def lag(store: OffsetStore, group: str, ends: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return how many events each partition of *ends* (the id its next event will get) is behind.

    >>> from checkpoint.offsets import MemoryOffsets
    >>> store = MemoryOffsets(lambda group, partition: ("me", 1))
    >>> store.commit("g", {("s", "0"): 7}, {("s", "0"): ("me", 1)})
    {('s', '0'): None}
    >>> lag(store, "g", {("s", "0"): 10, ("s", "1"): 4})
    {('s', '0'): 3, ('s', '1'): 4}
    """
    committed = store.fetch(group, ends)
    return {each: max(0, end - (committed[each].position if each in committed else 0)) for each, end in ends.items()}
