"""Averagely by circle: shards are dealt like cards.

It counts shards, whatever they weigh, and knows nothing of who had what, as RocketMQ's way of that name: one member
more moves nearly everything. It is for sources whose neighbours are busy at the same time and had better be apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Member, Shard


def averagely_by_circle(members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
    """Deal the shards in their order to the members in theirs, round and round."""
    table = laid_out(members, shards)
    return {
        shard.partition: table.members[takers[place % len(takers)]].id
        for takers, kind in table.kinds.items()
        for place, shard in enumerate(kind)
    }
