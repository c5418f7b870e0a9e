"""When to commit, and what: the position inside the last durable checkpoint, every so often and at the end.

An offset store that were ahead of the checkpoint would lose events: after a crash a member that begins from it would
skip what the state has not seen. So what was delivered is not reported here at all; `Committer.checkpointed` is called
when a checkpoint is durable, with the positions inside it. A commit is late by at most an interval, which costs at
most a repetition that the checkpoint filters out. The committer is a machine without a clock or a thread: its host
says what time it is (any steady clock, in seconds).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from checkpoint.offsets.store import Lease, OffsetStore, Partition, Refusal
from reliable_rx.errors import OffsetsLoading, OffsetsMoved, StoreUnavailable, invariant

RETRIED = (OffsetsLoading, OffsetsMoved, StoreUnavailable)
FIRST_PAUSE_S, PAUSE_S_MAX = 0.02, 1.0


class Committer:
    """Commit positions of one group for the partitions it was given; one thread uses it.

    An *automatic* one commits in `tick`, when *interval_s* have passed since the first position that waits, or *count*
    events wait; one that is not commits only when it is told to. What waits for a partition is the newest position.

    >>> from checkpoint.offsets import MemoryOffsets
    >>> store, partition = MemoryOffsets(lambda group, partition: ("me", 1)), ("log", "0")
    >>> committer = Committer(store, "g", interval_s=5.0)
    >>> committer.open(partition, ("me", 1), committed=0)
    >>> committer.checkpointed({partition: 3}, now=0.0)
    >>> committer.tick(4.9)
    {}
    >>> committer.tick(5.0)
    {('log', '0'): None}
    """

    def __init__(
        self,
        store: OffsetStore,
        group: str,
        *,
        interval_s: float = 5.0,
        count: int = 10_000,
        automatic: bool = True,
        attempts: int = 5,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store, self._group = store, group
        self._interval_s, self._count, self._automatic = interval_s, count, automatic
        self._attempts, self._sleep = attempts, sleep
        self._leases: dict[Partition, Lease] = {}
        self._committed: dict[Partition, int] = {}
        self._checkpointed: dict[Partition, int] = {}
        self._due: float | None = None
        self._not_before: float | None = None

    def open(self, partition: Partition, lease: Lease, *, committed: int) -> None:
        """Begin with a partition under *lease*, at the position that was committed (0 if none was)."""
        self._leases[partition] = lease
        self._committed[partition] = self._checkpointed[partition] = committed

    def drop(self, partition: Partition) -> None:
        """Forget a partition without committing it: its lease is lost."""
        for table in (self._leases, self._committed, self._checkpointed):
            table.pop(partition, None)

    def checkpointed(self, vector: Mapping[Partition, int], now: float) -> None:
        """Note the positions inside a checkpoint that is durable. Older ones, and other partitions, change nothing."""
        for partition, position in vector.items():
            if partition in self._leases:
                self._checkpointed[partition] = max(position, self._checkpointed[partition])
        if self._due is None and self.waiting():
            self._due = now + self._interval_s

    def waiting(self) -> dict[Partition, int]:
        """Return the positions that could be committed."""
        return {p: position for p, position in self._checkpointed.items() if position > self._committed[p]}

    def due(self, now: float) -> bool:
        """Tell whether an automatic commit should be made now."""
        if not self._automatic or self._due is None or (self._not_before is not None and now < self._not_before):
            return False
        waiting = self.waiting()
        return now >= self._due or sum(waiting[p] - self._committed[p] for p in waiting) >= self._count

    def tick(self, now: float) -> dict[Partition, Refusal | None]:
        """Commit if it is due; answer as the store does. A store that cannot now is asked again an interval later."""
        if not self.due(now):
            return {}
        try:
            answers = self._commit(self.waiting())
        except RETRIED:
            answers = {}
        if self._due is not None:  # some still wait
            self._not_before = now + self._interval_s
        return answers

    def commit(self, vector: Mapping[Partition, int] | None = None) -> dict[Partition, Refusal | None]:
        """Commit what waits, or *vector*, which may not be ahead of the checkpoints; retry, then raise what failed."""
        wanted = self.waiting() if vector is None else dict(vector)
        for partition, position in wanted.items():
            limit = self._checkpointed.get(partition, position)
            invariant(position <= limit, f"{position} of {partition} is in no checkpoint, only up to {limit}")
        pause_s = FIRST_PAUSE_S
        for _ in range(self._attempts - 1):
            try:
                return self._commit(wanted)
            except RETRIED:
                self._sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
        return self._commit(wanted)

    def close(self) -> dict[Partition, Refusal | None]:
        """Commit what waits, also if commits are not automatic, and forget every partition."""
        try:
            return self.commit()
        finally:
            for partition in list(self._leases):
                self.drop(partition)

    def _commit(self, vector: Mapping[Partition, int]) -> dict[Partition, Refusal | None]:
        """Commit *vector*; give up the partitions whose lease is over."""
        leases = {p: self._leases[p] for p in vector if p in self._leases}
        answers = self._store.commit(self._group, vector, leases) if vector else {}
        for partition, refusal in answers.items():
            if refusal is None:
                self._committed[partition] = vector[partition]
            elif refusal.reason == "fenced":
                self.drop(partition)
        if not self.waiting():
            self._due = self._not_before = None
        return answers
