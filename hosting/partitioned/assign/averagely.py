"""Averagely: neighbours stay together, every member takes one run of them.

It counts shards, whatever they weigh, and knows nothing of who had what, as RocketMQ's default of that name: one
member more moves about half of everything. It is for sources whose neighbours belong together, such as days or key
ranges.
"""

from __future__ import annotations

from collections.abc import Sequence

from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Member, MemberId, Partition, Shard


def averagely(members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
    """Give every member a run of neighbours; the first of them have one more where it does not come out even."""
    table = laid_out(members, shards)
    assigned: dict[Partition, MemberId] = {}
    for takers, kind in table.kinds.items():
        share, left = divmod(len(kind), len(takers))
        for place, shard in enumerate(kind):
            longer = place // (share + 1)
            number = longer if longer < left else (place - left) // share
            assigned[shard.partition] = table.members[takers[number]].id
    return assigned
