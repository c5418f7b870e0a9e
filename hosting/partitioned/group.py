"""What all nodes of a group know together: one document, which is data and holds no time.

It is written as JSON, because it is read by other versions of this library and by people in need. The epoch of a
partition is kept as long as the source lists it; then the highest epoch of all that went is the floor from which new
ones count, so that the document does not grow for ever and yet no epoch is used twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Epoch, MemberId, Partition, Phase, Shard
from reliable_rx.errors import CheckpointRefused

FORMAT = 1


@dataclass(slots=True)
class Seat:
    """A member. *number* is its newest beat; *away*: left, but its instance is expected back before its session ends."""

    token: str
    number: int = 0
    instance: str | None = None
    tag: str = ""
    room: str | None = None
    weight: float = 1.0
    subscription: frozenset[str] = frozenset()
    leaving: bool = False
    away: bool = False


@dataclass(slots=True)
class Hold:
    """The coordinator's side of one partition."""

    phase: Phase = Phase.WAIT
    owner: MemberId | None = None
    epoch: Epoch = Epoch(0)


@dataclass(slots=True)
class Group:
    """The document. *generation* grows with everything that a node other than the one it happened to may wait for."""

    name: str
    timing: Timing = field(default_factory=Timing)
    generation: int = 0
    joined: int = 0
    floor: int = 0
    gathering: bool = False
    stale: bool = False
    members: dict[MemberId, Seat] = field(default_factory=dict)
    shards: dict[Partition, Shard] = field(default_factory=dict)
    holds: dict[Partition, Hold] = field(default_factory=dict)
    target: dict[Partition, MemberId] = field(default_factory=dict)

    def held_by(self, member: MemberId) -> Iterator[tuple[Partition, Hold]]:
        """What *member* has the lease of."""
        return ((partition, hold) for partition, hold in self.holds.items() if hold.owner == member)

    def to_bytes(self) -> bytes:
        """Return the document as it is stored."""
        document = {
            "format": FORMAT,
            "group": self.name,
            "timing": asdict(self.timing),
            "generation": self.generation,
            "joined": self.joined,
            "floor": self.floor,
            "gathering": self.gathering,
            "stale": self.stale,
            "members": {
                name: asdict(seat) | {"subscription": sorted(seat.subscription)} for name, seat in self.members.items()
            },
            "partitions": [self._row(partition) for partition in self.holds],
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def _row(self, partition: Partition) -> list[Any]:
        hold, shard, target = self.holds[partition], self.shards.get(partition), self.target.get(partition)
        listed = shard and [[_pair(each) for each in shard.parents], shard.base, shard.room, shard.weight]
        return [*_pair(partition), hold.phase.value, hold.owner, hold.epoch, target, listed]


def _pair(partition: Partition) -> tuple[str, str]:
    return (partition.source, partition.name)


def read_group(document: bytes, *, name: str) -> Group:
    """Return the group that *document* is of.

    *Raises* `CheckpointRefused` if it is another group's, of a newer format, or damaged.
    """
    where = f"the document of group {name!r}"
    try:
        found: dict[str, Any] = json.loads(document)
        if found["format"] != FORMAT:
            what = f"it has format {found['format']}, this version reads format {FORMAT}; use one version on all nodes"
            raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
        if found["group"] != name:
            what = f"it belongs to group {found['group']!r}"
            raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
        return _group(found)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointRefused):
            raise
        raise CheckpointRefused(f"{where} is damaged: {error!r}", what=repr(error), where=where) from error


def _group(found: dict[str, Any]) -> Group:
    group = Group(
        found["group"],
        Timing(**found["timing"]),
        found["generation"],
        found["joined"],
        found["floor"],
        found["gathering"],
        found["stale"],
    )
    for name, seat in found["members"].items():
        group.members[MemberId(name)] = Seat(**seat | {"subscription": frozenset(seat["subscription"])})
    for source, name, phase, owner, epoch, target, listed in found["partitions"]:
        partition = Partition(source, name)
        group.holds[partition] = Hold(Phase(phase), owner, Epoch(epoch))
        if target is not None:
            group.target[partition] = target
        if listed is not None:
            parents, base, room, weight = listed
            group.shards[partition] = Shard(partition, tuple(Partition(*each) for each in parents), base, room, weight)
    return group
