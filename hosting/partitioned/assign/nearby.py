"""Machine room nearby: what lives in a room goes to the members of that room, and only what has none to all.

Within a room, and for the rest, another assignor decides. The rest is shared out at once, not room by room, for the
sake of the remainders. A room whose members may not own a shard counts as empty for that shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hosting.partitioned.assign.sticky import sticky
from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Assignor, Member, MemberId, Partition, Shard


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Let *inner* share out every room's shards among the members of that room, and the rest among all."""

    inner: Assignor = sticky

    def __post_init__(self) -> None:
        if not callable(self.inner):
            raise ValueError(f"inner must be an assignor, got {self.inner!r}; pass one of hosting.partitioned.assign")

    def __call__(self, members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
        table = laid_out(members, shards)
        near: dict[str, list[Member]] = {}
        for member in table.members:
            if member.room is not None:
                near.setdefault(member.room, []).append(member)
        by_room: dict[str | None, list[Shard]] = {}
        for shard in table.shards:
            served = any(member.may_own(shard.partition) for member in near.get(shard.room or "", ()))
            by_room.setdefault(shard.room if served else None, []).append(shard)
        assigned: dict[Partition, MemberId] = {}
        for room, kind in by_room.items():
            assigned.update(self.inner(table.members if room is None else near[room], kind, owners))
        return assigned
