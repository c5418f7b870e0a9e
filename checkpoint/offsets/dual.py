"""Two stores of one group, written one after the other, while the group moves from the one to the other.

A commit goes to the new store first and then, for the partitions that succeeded, to the old one; it is done when both
have it. What is read is the larger. So a member that knows one of the stores only, and one that knows both, may take
partitions from each other in any order. Because the larger counts, a position goes back only if both are reset. A
store that says that the group has moved away from it is left out: so one write puts all members onto the other.
Rejected: reading one store only (the last commit may have reached the other alone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from checkpoint.offsets.store import Committed, Lease, MovableOffsets, OffsetStore, Partition, Refusal
from checkpoint.offsets.table import behind, check_metadata
from reliable_rx.errors import OffsetsMoved
from reliable_rx.failpoints import probe

A = TypeVar("A")
Answers = dict[Partition, Refusal | None]
Write = Callable[[OffsetStore, list[Partition]], Answers]


class DualOffsets:
    """An `OffsetStore` over a *new* and an *old* one; the new one is used once the group's migration has begun."""

    def __init__(self, new: MovableOffsets, old: MovableOffsets) -> None:
        self._new, self._old, self._both = new, old, (new.paired(), old.paired())

    def fetch(self, group: str, partitions: Iterable[Partition] | None = None) -> dict[Partition, Committed]:
        wanted = None if partitions is None else list(partitions)
        found: dict[Partition, Committed] = {}
        for each in self._of_each(group, lambda store: store.fetch(group, wanted)):
            for partition, committed in each.items():
                if partition not in found or found[partition].position < committed.position:
                    found[partition] = committed
        return found

    def claim(self, group: str, leases: Mapping[Partition, Lease]) -> dict[Partition, Refusal | None]:
        return self._in_turn(group, leases, lambda store, those: store.claim(group, {p: leases[p] for p in those}))

    def commit(
        self, group: str, vector: Mapping[Partition, int], leases: Mapping[Partition, Lease], *, metadata: str = ""
    ) -> dict[Partition, Refusal | None]:
        check_metadata(metadata)
        ahead = {p: committed.position for p, committed in self.fetch(group, vector).items()}
        refused = {p: behind(group, p, vector[p], ahead[p]) for p in ahead if vector[p] < ahead[p]}
        done = self._in_turn(
            group,
            [p for p in vector if p not in refused],
            lambda store, those: store.commit(group, {p: vector[p] for p in those}, leases, metadata=metadata),
        )
        return {p: refused.get(p) or done[p] for p in vector}

    def reset(self, group: str, vector: Mapping[Partition, int]) -> None:
        self._of_each(group, lambda store: store.reset(group, vector))

    def delete(self, group: str, *, unless_after: float | None = None) -> bool:
        latest = self.groups().get(group)
        if unless_after is not None and latest is not None and latest > unless_after:
            return False
        return all(self._of_each(group, lambda store: store.delete(group, unless_after=unless_after)))

    def groups(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for store in self._both:
            for group, last in store.groups().items():
                found[group] = max(last, found.get(group, last))
        return dict(sorted(found.items()))

    def _in_turn(self, group: str, partitions: Iterable[Partition], write: Write) -> Answers:
        """Write one store, and then the other for what the first has taken."""
        answers: Answers = dict.fromkeys(partitions)

        def act(store: OffsetStore) -> None:
            answers.update(write(store, [p for p, refusal in answers.items() if refusal is None]))
            probe("offsets.between")

        self._of_each(group, act)
        return answers

    def _of_each(self, group: str, act: Callable[[OffsetStore], A]) -> list[A]:
        """Do it with the new store and then the old one, without one that is not, or no longer, the group's.

        If it changed meanwhile whose the group is, do it again: what was not written where it counts now would be
        lost. All that is done here may be done twice.
        """
        while True:
            before = self._charges(group)
            done, moved = self._attempt(group, act)
            if self._charges(group) != before:
                continue
            if moved is not None and not done:
                raise moved
            return done

    def _charges(self, group: str) -> tuple[int, int]:
        return self._new.charge_number(group), self._old.charge_number(group)

    def _attempt(self, group: str, act: Callable[[OffsetStore], A]) -> tuple[list[A], OffsetsMoved | None]:
        done: list[A] = []
        moved: OffsetsMoved | None = None
        for store in self._both if self._new.charge(group) is not None else self._both[1:]:
            try:
                done.append(act(store))
            except OffsetsMoved as error:
                moved = error
        return done, moved
