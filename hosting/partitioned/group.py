"""What all nodes of a group know together: one document, which is data and holds no time.

It is written as JSON, because it is read by other versions of this library and by people in need. The epoch of a
partition is kept as long as the source lists it; then the highest epoch of all that went is the floor from which new
ones count, so that the document does not grow for ever and yet no epoch is used twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from hosting.partitioned.beats import Profile
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Epoch, Failure, Member, MemberId, Partition, Shard, Status
from reliable_rx.errors import CheckpointRefused

T = TypeVar("T")
FORMAT = 7
FORMER_MAX = 20
"""How many nodes that have left are remembered by what failed on them."""
RESTORE = "end all nodes and restore the group's registry from a back-up"
_NEVER = Epoch(0)


@dataclass(slots=True)
class Seat:
    """A member. *number* is its newest beat; one that is *leaving* gets nothing more. *version* is its catalog's."""

    token: str
    profile: Profile
    number: int = 0
    leaving: bool = False
    version: str = ""
    failing: dict[Partition, Failure] = field(default_factory=dict)
    trouble: str = ""

    @property
    def name(self) -> str:
        """What its node is called, whenever it joins."""
        return self.profile.instance or self.profile.tag or "member"

    def member(
        self,
        name: MemberId,
        *,
        knows: frozenset[Partition] | None = None,
        avoids: frozenset[Partition] = frozenset(),
    ) -> Member:
        """Return it as an assignor is told of it."""
        own = self.profile
        return Member(
            id=name,
            capacity=own.capacity,
            room=own.room,
            instance=own.instance,
            sources=own.sources,
            partitions=own.partitions,
            knows=knows,
            avoids=avoids,
        )


@dataclass(slots=True)
class Hold:
    """The coordinator's side of one partition. *failure* is what its last owner said when it let it go.

    *unwritten*: it was read to its end, but a sink lacks something, for which it is opened again by nodes that start;
    so it is while a query has failed in it.
    """

    status: Status = Status.WAIT
    owner: MemberId | None = None
    epoch: Epoch = _NEVER
    failure: Failure | None = None
    unwritten: bool = False

    @property
    def was_read(self) -> bool:
        """Whether it has been read to its end, so that what follows it may be opened."""
        return self.status is Status.TERMINATED or self.unwritten

    @property
    def is_over(self) -> bool:
        """Whether it has been read to its end and its sinks have all, so that no node opens it again for them."""
        return self.status is Status.TERMINATED and not self.unwritten

    @property
    def may_be_mended(self) -> bool:
        """Whether it has ended with something failed in it, which may have been mended when the next node starts."""
        has_failed = self.failure is not None and self.failure.is_of_query and not self.failure.warning
        return self.status is Status.TERMINATED and (self.unwritten or has_failed)


@dataclass(slots=True)
class Group:
    """The document. *generation* grows with everything that a node other than the one it happened to may wait for.

    Nodes of several versions of the app list different partitions. So the *catalogs* are kept by their versions, each
    for as long as a member has it, and *shards* is all of them together; of a partition that several list, what the
    newest catalog says.
    """

    name: str
    timing: Timing = field(default_factory=Timing)
    generation: int = 0
    joined: int = 0
    floor: int = 0
    gathering: bool = False
    listing: bool = False
    listed: int = 0
    stale: bool = False
    members: dict[MemberId, Seat] = field(default_factory=dict)
    catalogs: dict[str, Mapping[Partition, Shard]] = field(default_factory=dict)
    shards: Mapping[Partition, Shard] = field(default_factory=dict)
    holds: dict[Partition, Hold] = field(default_factory=dict)
    target: dict[Partition, MemberId] = field(default_factory=dict)
    former: dict[str, str] = field(default_factory=dict)
    """What failed on nodes beside partitions when they left, until they join again."""
    identity: str = ""
    """What tells it from another group of its name: what it was given when it was made."""

    def forget(self, member: MemberId) -> Seat | None:
        """Take *member* out; what fails on it beside partitions stays. Return its seat."""
        seat = self.members.pop(member, None)
        if seat is not None and seat.trouble:
            self.former.pop(seat.name, None)
            self.former[seat.name] = seat.trouble
            while len(self.former) > FORMER_MAX:
                del self.former[next(iter(self.former))]
        return seat

    def held_by(self, member: MemberId) -> Iterator[tuple[Partition, Hold]]:
        """What *member* has the lease of."""
        return ((partition, hold) for partition, hold in self.holds.items() if hold.owner == member)

    def knows(self, seat: Seat, partition: Partition) -> bool:
        """Whether the app of a member has *partition*, as far as it has said what it has."""
        catalog = self.catalogs.get(seat.version)
        return catalog is None or partition in catalog

    def unite(self) -> None:
        """Have `shards` be what all catalogs list."""
        catalogs = list(self.catalogs.values())
        self.shards = catalogs[0] if len(catalogs) == 1 else {p: each for one in catalogs for p, each in one.items()}

    def to_bytes(self) -> bytes:
        """Return the document as it is stored."""
        catalogs = list(self.catalogs.values())
        document = {
            "format": FORMAT,
            "group": self.name,
            "identity": self.identity,
            "timing": asdict(self.timing),
            "generation": self.generation,
            "joined": self.joined,
            "floor": self.floor,
            "gathering": self.gathering,
            "listing": self.listing,
            "listed": self.listed,
            "catalogs": list(self.catalogs),
            "stale": self.stale,
            "former": self.former,
            "members": {name: _seat_row(seat) for name, seat in self.members.items()},
            "partitions": [self._row(partition, catalogs) for partition in self.holds],
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def _row(self, partition: Partition, catalogs: Sequence[Mapping[Partition, Shard]]) -> list[Any]:
        hold, target = self.holds[partition], self.target.get(partition)
        listed = []
        for place, catalog in enumerate(catalogs):
            shard = catalog.get(partition)
            if shard is not None:
                parents = [_pair(each) for each in shard.parents] if shard.parents else ()
                listed.append((place, parents, shard.base, shard.room, shard.weight))
        failure = () if hold.failure is None else _failure_row(hold.failure)
        left = int(hold.unwritten)
        return [
            partition.source, partition.name, hold.status.value, hold.owner, hold.epoch, target, listed, left, *failure
        ]  # fmt: skip


def _seat_row(seat: Seat) -> dict[str, Any]:
    own = seat.profile
    row = asdict(own) | {
        "sources": None if own.sources is None else sorted(own.sources),
        "partitions": None if own.partitions is None else [_pair(each) for each in sorted(own.partitions)],
    }
    return {
        "token": seat.token,
        "number": seat.number,
        "leaving": seat.leaving,
        "profile": row,
        "version": seat.version,
        "failing": [[*_pair(each), *_failure_row(failure)] for each, failure in seat.failing.items()],
        "trouble": seat.trouble,
    }


def _failure_row(failure: Failure) -> tuple[int, str, bool]:
    return failure.count, failure.message, failure.warning


def _seat(row: dict[str, Any]) -> Seat:
    said = row["profile"]
    sources, partitions = said["sources"], said["partitions"]
    own = said | {
        "sources": None if sources is None else frozenset(sources),
        "partitions": None if partitions is None else frozenset(Partition(*each) for each in partitions),
    }
    failing = {Partition(source, name): Failure(*failure) for source, name, *failure in row["failing"]}
    return Seat(
        row["token"], Profile(**own), row["number"], row["leaving"], row["version"], failing, row["trouble"]
    )  # fmt: skip


def _pair(partition: Partition) -> tuple[str, str]:
    return (partition.source, partition.name)


def read_group(document: bytes, *, name: str) -> Group:
    """Return the group that *document* is of.

    *Raises* `CheckpointRefused` if it is another group's, of a newer format, or damaged.
    """
    return _read(document, name, _group)


def read_leases(document: bytes, *, name: str) -> dict[tuple[str, str], tuple[str | None, int]]:
    """Return owner and epoch by source and partition, at a ninth of the cost. *Raises* as `read_group`.

    >>> group = Group("g", holds={Partition("flights", "JFK"): Hold(Status.OPEN, MemberId("n-1"), Epoch(3))})
    >>> read_leases(group.to_bytes(), name="g")
    {('flights', 'JFK'): ('n-1', 3)}
    """
    return _read(document, name, lambda found: {(row[0], row[1]): (row[3], row[4]) for row in found["partitions"]})


def _read(document: bytes, name: str, make: Callable[[dict[str, Any]], T]) -> T:
    where = f"the document of group {name!r}"
    try:
        found: dict[str, Any] = json.loads(document)
        if found["format"] != FORMAT:
            what = f"it has format {found['format']}, this version reads format {FORMAT}; use one version on all nodes"
            raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
        if found["group"] != name:
            what = f"it belongs to group {found['group']!r}"
            raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
        return make(found)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, CheckpointRefused):
            raise
        what = f"it is not what was written ({error!r})"
        raise CheckpointRefused(f"{where}: {what}; {RESTORE}", what=what, where=where) from error


def _group(found: dict[str, Any]) -> Group:
    group = Group(
        found["group"],
        Timing(**found["timing"]),
        found["generation"],
        found["joined"],
        found["floor"],
        found["gathering"],
        found["listing"],
        found["listed"],
        found["stale"],
    )
    group.members = {MemberId(name): _seat(row) for name, row in found["members"].items()}
    group.former, group.identity = dict(found["former"]), str(found["identity"])
    catalogs: list[dict[Partition, Shard]] = [{} for _ in found["catalogs"]]
    for source, name, status, owner, epoch, target, listed, left, *failure in found["partitions"]:
        partition = Partition(source, name)
        failed = Failure(*failure) if failure else None
        group.holds[partition] = Hold(Status(status), owner, Epoch(epoch), failed, bool(left))
        if target is not None:
            group.target[partition] = target
        for place, *shard in listed:
            catalogs[place][partition] = _shard(partition, *shard)
    group.catalogs = dict(zip(found["catalogs"], catalogs, strict=True))
    group.unite()
    return group


def _shard(partition: Partition, parents: list[list[str]], base: bool, room: str | None, weight: int) -> Shard:
    before = tuple(Partition(*each) for each in parents)
    return Shard(partition=partition, parents=before, base=base, room=room, weight=weight)
