"""Fixed: shares are those of the members that are expected, whoever is here; nothing moves when one of them is gone.

For nodes that hold much beside their partitions and come back soon. What belongs to one who is away waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hosting.partitioned.assign.averagely import averagely
from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Assignor, Member, MemberId, Shard


class Fixed:
    """Let *inner* share out among all of *expected*, the names of instances, as if every one of them were here."""

    def __init__(self, expected: Iterable[str], inner: Assignor = averagely) -> None:
        self._expected = tuple(sorted([expected] if isinstance(expected, str) else expected))
        self._inner = inner
        if not self._expected or len(set(self._expected)) < len(self._expected):
            raise ValueError(f"expected must name at least one instance, each once, got {list(self._expected)}")

    def __call__(self, members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
        here = {member.name: member for member in laid_out(members, shards).members}
        away = {name: Member(MemberId(f"\0{name}"), instance=name) for name in self._expected}
        shares = self._inner([here.get(name, away[name]) for name in self._expected], shards, owners)
        present = {member.id for member in members}
        return {partition: owner for partition, owner in shares.items() if owner in present}
