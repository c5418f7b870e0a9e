"""Machine room: a group serves the shards of some rooms only, and shares those out averagely.

The shards of other rooms wait: another group, or nobody, is meant to have them. See `nearby` for members that serve
their own room first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Member, MemberId, Partition, Shard


class MachineRoom:
    """Share out the shards that live in one of *rooms*: runs of neighbours, then one each of what is left."""

    def __init__(self, rooms: Iterable[str]) -> None:
        self._rooms = frozenset([rooms] if isinstance(rooms, str) else rooms)
        if not self._rooms or not all(isinstance(room, str) and room for room in self._rooms):
            raise ValueError(f"rooms must name at least one room, got {sorted(map(repr, self._rooms))}")

    def __call__(self, members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
        table = laid_out(members, [shard for shard in shards if shard.room in self._rooms])
        assigned: dict[Partition, MemberId] = {}
        for takers, kind in table.kinds.items():
            share = len(kind) // len(takers)
            for place, shard in enumerate(kind):
                number = place // share if place < share * len(takers) else place - share * len(takers)
                assigned[shard.partition] = table.members[takers[number]].id
        return assigned
