"""What is so in a group, for people and monitors: its members, who has which partition, and who waits for what.

A pure function of the group's document, the committed positions and how far the sources reach; it asks nobody and
changes nothing, so that one can look at a group that is in trouble. Positions lie under the names of `keys.py`: a
partition may have several, one for each source that its queries read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from checkpoint.offsets.store import Committed
from hosting.partitioned.group import Group, Hold, Seat
from hosting.partitioned.keys import Key, lease_over
from hosting.partitioned.words import Failure, MemberId, Partition, Status

NAMED_MAX = 3
_NOBODY = MemberId("")
FAILING = "failing"
Bounds = Mapping[Key, tuple[int, int] | None]
"""The first id that can be read and the one behind the last, by the name of a position; None where nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """A member: *holds* counts the leases it has, *target* the partitions it is to have, *beat* its newest beat.

    *version* names the partitions that its app lists, *failing* counts those that it cannot run, *trouble* is what else
    fails on it.
    """

    id: str
    instance: str | None
    tag: str
    room: str | None
    capacity: int
    leaving: bool
    holds: int
    target: int
    beat: int
    offsets: str | None
    version: str
    failing: int
    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionStatus:
    """A committed position: the id of the next event. *lag* is how many events are behind it, None if unknown."""

    source: str
    partition: str
    position: int | None
    lag: int | None
    time: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """A partition. *why* says in words what it waits for, where it is going, or what is odd.

    Its *status* is that of its *lease*, or ``failing``: its owner could not run it *failures* times in a row, or (0
    times) something in it fails; *error* is the last one, or what it waits for or warns of. That of a
    partition which nobody has, or which has ended, is what its last owner said. *without* are the members that cannot
    have it, as their apps do not list it.
    """

    source: str
    partition: str
    status: str
    lease: str
    owner: str | None
    epoch: int
    target: str | None
    why: str
    failures: int
    error: str
    without: tuple[str, ...]
    positions: tuple[PositionStatus, ...]

    @property
    def lag(self) -> int | None:
        """The events behind all its positions; None if one is unknown."""
        lags = [each.lag for each in self.positions if each.lag is not None]
        return sum(lags) if lags and len(lags) == len(self.positions) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A group as of *generation* of its document; *loose* are positions that no lease covers any longer.

    *former* is what failed beside partitions on nodes that have left, by their names, until they join again. *silent_s*
    is how long nothing was written, if that is longer than a session and there are members: they are dead, or cannot
    write. None: it is not.
    """

    group: str
    generation: int
    gathering: bool
    members: tuple[MemberStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    loose: tuple[PositionStatus, ...]
    former: dict[str, str]
    silent_s: float | None = None

    @property
    def is_failing(self) -> bool:
        """Whether a partition or a member fails, or none is heard of; or a node did when it left, and none is there."""
        troubles = [each.trouble for each in self.members] or list(self.former.values())
        is_silent = self.silent_s is not None
        return is_silent or any(each.status == FAILING for each in self.partitions) or any(troubles)

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)


def status_of(
    group: Group, committed: Mapping[Key, Committed], bounds: Bounds, *, age_s: float | None = None
) -> GroupStatus:
    """Say what is so; *age_s*: how long ago the group's document was written.

    >>> status_of(Group("flights"), {}, {}).members
    ()
    """
    by_lease: dict[Partition, list[PositionStatus]] = {each: [] for each in group.holds}
    loose: list[PositionStatus] = []
    for key in sorted(committed.keys() | bounds.keys()):
        by_lease.get(lease_over(key), loose).append(_position(key, committed, bounds))
    return GroupStatus(
        group=group.name,
        generation=group.generation,
        gathering=group.gathering,
        members=tuple(_member(group, *each) for each in sorted(group.members.items())),
        partitions=tuple(
            _partition(group, each, hold, tuple(by_lease[each])) for each, hold in sorted(group.holds.items())
        ),
        loose=tuple(loose),
        former=dict(group.former),
        silent_s=_silent_s(group, age_s),
    )


def _silent_s(group: Group, age_s: float | None) -> float | None:
    """Return how long nobody was heard of, if a member that lives had been: each writes several times a session."""
    is_wanted = any(not seat.leaving for seat in group.members.values())
    return age_s if is_wanted and age_s is not None and age_s > group.timing.session_s else None


def _member(group: Group, name: MemberId, seat: Seat) -> MemberStatus:
    own = seat.profile
    return MemberStatus(
        id=name,
        instance=own.instance,
        tag=own.tag,
        room=own.room,
        capacity=own.capacity,
        leaving=seat.leaving,
        holds=sum(1 for _ in group.held_by(name)),
        target=sum(1 for owner in group.target.values() if owner == name),
        beat=seat.number,
        offsets=own.offsets,
        version=seat.version,
        failing=sum(not each.warning for each in seat.failing.values()),
        trouble=seat.trouble,
    )


def _position(key: Key, committed: Mapping[Key, Committed], bounds: Bounds) -> PositionStatus:
    found, reach = committed.get(key), bounds.get(key)
    position = None if found is None else found.position
    lag = None
    if reach is not None:
        first, end = reach
        lag = max(0, end - (first if position is None else position))
    return PositionStatus(
        source=key[0], partition=key[1], position=position, lag=lag, time=None if found is None else found.time
    )


def _partition(
    group: Group, partition: Partition, hold: Hold, positions: tuple[PositionStatus, ...]
) -> PartitionStatus:
    failure = _failure(group, partition, hold)
    return PartitionStatus(
        source=partition.source,
        partition=partition.name,
        status=hold.status.value if failure is None or failure.warning else FAILING,
        lease=hold.status.value,
        owner=hold.owner,
        epoch=hold.epoch,
        target=group.target.get(partition),
        why="; ".join(_why(group, partition, hold)),
        failures=0 if failure is None else failure.count,
        error="" if failure is None else failure.message,
        without=tuple(_without(group, partition)),
        positions=positions,
    )


def _failure(group: Group, partition: Partition, hold: Hold) -> Failure | None:
    """Return what its owner reports of a partition, or who is to have it next, or else what its last owner said."""
    seat = group.members.get(hold.owner or group.target.get(partition, _NOBODY))
    said = None if seat is None or hold.status is Status.TERMINATED else seat.failing.get(partition)
    return hold.failure if said is None else said


# ---- in words


def _why(group: Group, partition: Partition, hold: Hold) -> Iterator[str]:
    if partition not in group.shards:
        yield "no longer listed by its source"
    if hold.status is Status.WAIT:
        yield _waits_for(group, partition)
    elif hold.status in (Status.OPEN, Status.CLOSING):
        yield from _moves(group, partition, hold)
    if hold.may_be_mended:
        what = "a sink lacks something" if hold.unwritten else "a query has failed in it"
        yield f"{what}: the next node that starts opens it again"
    if hold.status is not Status.TERMINATED:
        yield from _fails(group, partition, hold)
    elif hold.failure is not None:
        yield f"{'' if hold.failure.is_late else 'when it ended: '}{hold.failure.message}"


def _fails(group: Group, partition: Partition, hold: Hold) -> Iterator[str]:
    """Say what fails where it is, who has failed to run it before, and who cannot have it."""
    here = _failure(group, partition, hold)
    if here is not None:
        when = "when it was let go: " if here is hold.failure else ""
        often = f"failed {_times(here.count)}, last: " if here.count else when
        yield f"{often}{here.message}"
    for name, seat in sorted(group.members.items()):
        failure = seat.failing.get(partition)
        if failure is not None and failure is not here and failure.count:
            yield f"{name} could not run it {_times(failure.count)}, last: {failure.message}"
    without = _without(group, partition)
    if without:
        yield f"not in the app of {_listed(without)}"


def _without(group: Group, partition: Partition) -> list[MemberId]:
    """Name the members whose apps do not list *partition*, where others do."""
    if partition not in group.shards:
        return []
    return sorted(each for each, seat in group.members.items() if not group.knows(seat, partition))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _waits_for(group: Group, partition: Partition) -> str:
    """Say what a partition that nobody has waits for."""
    before = list(_unfinished(group, partition))
    target = group.target.get(partition)
    if before:
        return f"waits for the end of {_listed(before)}"
    if not group.members:
        return "there is no member"
    if group.gathering:
        return "the group is gathering members"
    if target is None:
        return _nobody(group, partition)
    seat = group.members.get(target)
    if seat is None:
        return f"{target} is gone; to be assigned anew"
    if seat.leaving:
        return f"kept for {seat.profile.instance or target}, which has left, until its session ends"
    return f"{target} opens it with its next beat"


def _nobody(group: Group, partition: Partition) -> str:
    staying = {name: seat for name, seat in group.members.items() if not seat.leaving}
    if staying and not any(group.knows(seat, partition) for seat in staying.values()):
        return "no member's app has it"
    if not any(seat.member(name).may_own(partition) for name, seat in staying.items()):
        return "no member may own it" if staying else "all members are leaving"
    return "to be assigned" if group.stale else "the assignor gives it to nobody"


def _unfinished(group: Group, partition: Partition) -> Iterator[Partition]:
    """Yield what must be read to its end before *partition*: its parents, and the base of its source."""
    shard = group.shards.get(partition)
    if shard is None:
        return
    base = (each for each, other in group.shards.items() if other.base and each.source == partition.source)
    for each in dict.fromkeys([*shard.parents, *(() if shard.base else base)]):
        if each in group.holds and not group.holds[each].was_read:
            yield each


def _moves(group: Group, partition: Partition, hold: Hold) -> Iterator[str]:
    """Say where a partition that somebody has is going, if it is."""
    target = group.target.get(partition)
    seat = None if hold.owner is None else group.members.get(hold.owner)
    if target != hold.owner:
        yield f"moving from {hold.owner} to {target}" if target is not None else f"{hold.owner} is to give it back"
    if hold.status is Status.CLOSING:
        beat = "" if seat is None else f", whose newest beat is {seat.number:,}"
        yield f"asked back from {hold.owner}{beat}"
    elif seat is not None and seat.leaving:
        yield f"{hold.owner} is leaving"
    elif target != hold.owner:
        yield f"asked back with the next beat of {hold.owner}"


def _listed(partitions: Sequence[object]) -> str:
    names = ", ".join(map(str, partitions[:NAMED_MAX]))
    return names if len(partitions) <= NAMED_MAX else f"{names} and {len(partitions) - NAMED_MAX:,} more"
