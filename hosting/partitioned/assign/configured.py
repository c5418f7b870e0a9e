"""By configuration: somebody has written down who owns what, and nobody else takes it over.

What belongs to a member who is not here waits for it. Names are those that outlast a restart, since ids are not known
when configuration is written. What nobody has written down waits too, unless *otherwise* is there to share it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.words import Assignment, Assignor, Member, Partition, Shard


class ByConfiguration:
    """Give every member, by its name, the partitions that *written* has for it."""

    def __init__(self, written: Mapping[str, Iterable[Partition]], otherwise: Assignor | None = None) -> None:
        self._otherwise = otherwise
        self._name: dict[Partition, str] = {}
        for name, partitions in written.items():
            for partition in partitions:
                self._note(name, partition)
        if not self._name and otherwise is None:
            raise ValueError("no partition is written down for anybody, so that all would wait for ever; name some")

    def _note(self, name: str, partition: Partition) -> None:
        if not isinstance(partition, Partition):
            raise ValueError(f"{partition!r} of {name!r} is no partition; write Partition(source, name)")
        before = self._name.setdefault(partition, name)
        if before != name:
            raise ValueError(f"{partition} is written down for {before!r} and for {name!r}; a partition has one owner")

    def __call__(self, members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
        table = laid_out(members, shards)
        present = {member.name: member for member in table.members}
        assigned = {}
        for shard in table.shards:
            member = present.get(self._name.get(shard.partition, ""))
            if member is not None and member.may_own(shard.partition):
                assigned[shard.partition] = member.id
        if self._otherwise is None:
            return assigned
        rest = [shard for shard in table.shards if shard.partition not in self._name]
        return {**assigned, **self._otherwise(members, rest, owners)}
