"""Consistent hash: who owns a partition depends on the two of them and on who stands near, and on nothing before.

A member stands at many points of a ring, a partition at one, and it belongs to the first member clockwise that may
own it. So one member more takes some from everybody and nothing else moves; but the shares differ widely (5 to 11 of
64 for eight members at 160 points each), and the sticky one moves no more, so this one is for groups that must agree
without a memory. The hash is BLAKE2b, since `hash` of a text differs from process to process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Member, Partition, Shard


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Give a partition to the next member on a ring, where each stands at *points* places per unit of its capacity."""

    points: int = 160

    def __post_init__(self) -> None:
        if self.points < 1:
            raise ValueError(f"a member needs at least one point on the ring, got {self.points}; the more, the evener")

    def __call__(self, members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
        table = laid_out(members, shards)
        ring = sorted(
            (_hash(member.name, str(number)), place)
            for place, member in enumerate(table.members)
            for number in range(self.points * member.capacity)
        )
        assigned = {}
        for takers, kind in table.kinds.items():
            mine = set(takers)
            standing = [(point, place) for point, place in ring if place in mine]
            for shard in kind:
                assigned[shard.partition] = table.members[_next_on(standing, shard.partition)].id
        return assigned


def _next_on(ring: list[tuple[int, int]], partition: Partition) -> int:
    found = bisect_left(ring, (_hash(partition.source, partition.name), -1))
    return ring[found % len(ring)][1]


def _hash(first: str, second: str) -> int:
    text = f"{len(first)}:{first}{second}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest())
