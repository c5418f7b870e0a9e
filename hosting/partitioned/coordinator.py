"""Who has which partition of a group: a pure state machine that any node may run.

Partitions walk WAIT -> OPEN -> CLOSING -> WAIT, or end TERMINATED; every OPEN has the epoch after the last one. One
that has ended while a sink of it lacks something walks once more for each member that joins and may own it. The
machine only ever *asks* an owner to close; a partition is given to somebody else when its owner has said that it is
closed, or was silent for too long. Then the owner may still be running, and the epoch keeps what it does from counting.

It is driven by three calls (`beat`, `tick`, `shards_changed`) and keeps everything in one document, so that the nodes
need no leader: whoever has something to report loads the document, runs this machine over it and writes it back if
nobody else has meanwhile (`hosting.partitioned.shared`). Rejected: members that compute their share from a view of
their own (two views, two owners), one epoch per member (a bump for one partition fences good commits of another).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hosting.partitioned.beats import Answer, Beat, Catalog
from hosting.partitioned.group import Group, Hold, Seat, read_group
from hosting.partitioned.timing import Timing
from hosting.partitioned.watch import Key, Mark, Watch
from hosting.partitioned.words import (
    Assignment,
    Assignor,
    Epoch,
    Failure,
    Lease,
    Member,
    MemberId,
    Partition,
    Shard,
    Status,
)
from reliable_rx.errors import LimitExceeded, invariant

MEMBERS_MAX = 1_000
PARTITIONS_MAX = 100_000
FAILURES_MAX = 1_000
"""Of so many partitions that nobody has a document says what failed in them."""
AVOIDED_AFTER = 3
"""So often in a row a member fails to run a partition before it is given to one that may be able to."""
_OVER = {Status.CLOSED: Status.WAIT, Status.TERMINATED: Status.TERMINATED, Status.UNWRITTEN: Status.TERMINATED}
_NOBODY = MemberId("")


class Coordinator:
    """One node's running of the group's machine. *assignor* and the group's name are the same on all nodes.

    Times are *now* of this node's clock, whatever it counts from: they are only compared with each other.
    """

    def __init__(self, group: str, assignor: Assignor, *, timing: Timing | None = None) -> None:
        self._assignor = assignor
        self._name, self._timing = group, timing or Timing()
        self.group = Group(group, self._timing)
        self._watch = Watch(step_s=self._timing.session_s / 2)

    def load(self, document: bytes | None) -> None:
        """Go on from *document*; None: the group is new."""
        self.group = Group(self._name, self._timing) if document is None else read_group(document, name=self._name)
        self._watch.step_s = self.group.timing.session_s / 2

    # ---- what nodes call

    def beat(self, beat: Beat, now: float) -> Answer:
        """Take what a member reports, and answer with what it is to hold. An old beat that comes late changes nothing.

        *Raises* `LimitExceeded` if the group is full.
        """
        member = self._connect(beat) if beat.member is None else beat.member
        seat = self.group.members.get(member)
        if seat is None:
            self.tick(now)
            return self._fence(beat)
        if beat.number > seat.number:
            self._report(member, seat, beat)
        self.tick(now)
        self._walk(member, seat)
        grants = {each: (hold.epoch, hold.status) for each, hold in self.group.held_by(member)}
        if seat.leaving and not grants and seat.profile.instance is None:
            self._remove(member)
            self._settle()
        return Answer(
            number=beat.number, member=member, session_s=self.group.timing.session_s, grants=grants,
            catalogs=self.group.listed, identity=self.group.identity,
        )  # fmt: skip

    def _fence(self, beat: Beat) -> Answer:
        replaced = self._holder(beat.profile.instance) is not None
        session_s = self.group.timing.session_s
        return Answer(number=beat.number, member=_NOBODY, session_s=session_s, fenced=True, replaced=replaced)

    def tick(self, now: float) -> float | None:
        """Expire whom nobody has heard of, and what was not closed in time; return when to call again, if ever."""
        for kind, *rest in self._watch.look(self._marks(), now):
            if kind == "member":
                self._remove(MemberId(rest[0]))
            elif kind == "closing":
                self._release_late(Partition(*rest))
            elif kind == "listing":
                self.group.listing = False
            else:
                self.group.gathering = False
        self._settle()
        left_s = self._watch.remaining(self._marks())
        return None if left_s is None else now + min(left_s, self.group.timing.look_s)

    def shards_changed(self, shards: Sequence[Shard], version: str = "") -> None:
        """Take all shards that apps of *version* list now. What is in no member's catalog any longer is given up.

        *Raises* `LimitExceeded` if there are too many.
        """
        self._list(Catalog(version, {shard.partition: shard for shard in shards}))
        self._settle()

    def _list(self, catalog: Catalog) -> None:
        group, version = self.group, catalog.version
        if group.catalogs.get(version) == catalog.shards:
            return
        before, group.catalogs = (group.catalogs, group.shards), group.catalogs | {version: catalog.shards}
        group.unite()
        if len(group.shards) > PARTITIONS_MAX:
            group.catalogs, group.shards = before
            raise LimitExceeded(
                f"group {self._name!r}: {len(group.shards)} shards, the limit is {PARTITIONS_MAX}; use several groups",
                path=self._name, limit="shards", most=PARTITIONS_MAX,
            )  # fmt: skip
        group.listed += version not in before[0]
        for partition in catalog.shards:
            group.holds.setdefault(partition, Hold(epoch=Epoch(group.floor)))
        self._happened(stale=True)

    # ---- what is so

    def lease(self, partition: Partition) -> Lease | None:
        """Return the lease that is in force, if somebody has one."""
        hold = self.group.holds.get(partition)
        return None if hold is None or hold.owner is None else Lease(partition, hold.owner, hold.epoch)

    def guards(self, lease: Lease) -> bool:
        """Whether *lease* is the one in force: what its owner opens, commits and emits counts."""
        return self.lease(lease.partition) == lease

    def wanted(self) -> Assignment:
        """Return who is to have what, as the assignor said last."""
        return dict(self.group.target)

    def _ready(self, partition: Partition) -> bool:
        """Whether everything that must come before *partition* has been read to its end."""
        shard = self.group.shards[partition]
        before = [*shard.parents, *(() if shard.base else self._base(partition.source))]
        return all(hold.was_read for each in before if (hold := self.group.holds.get(each)))

    def _base(self, source: str) -> Iterator[Partition]:
        return (each for each, shard in self.group.shards.items() if shard.base and each.source == source)

    # ---- members

    def _connect(self, beat: Beat) -> MemberId:
        """Give a new process its id, and what its instance had; the same id again if its beat came twice."""
        for known, seat in self.group.members.items():
            if seat.token == beat.token:
                return known
        if len(self.group.members) >= MEMBERS_MAX:
            message = f"group {self._name!r} has {MEMBERS_MAX} members, which is the most; use several groups"
            raise LimitExceeded(message, path=self._name, limit="members", most=MEMBERS_MAX)
        group = self.group
        group.gathering |= not group.members and group.timing.gather_s > 0
        group.joined += 1
        seat = Seat(beat.token, beat.profile)
        member = MemberId(f"{seat.name}-{group.joined}")
        before = self._holder(beat.profile.instance)
        group.members[member] = seat
        if before is not None:
            group.target.update({each: member for each, owner in group.target.items() if owner == before})
            self._remove(before)
        group.former.pop(seat.name, None)
        self._reopen(group.members[member].member(member))
        self._happened(stale=True)
        return member

    def _reopen(self, member: Member) -> None:
        """Have what has ended with something failed in it opened once more: it may be mended by now."""
        for partition, hold in self.group.holds.items():
            if hold.may_be_mended and member.may_own(partition):
                hold.status, hold.unwritten = Status.WAIT, True

    def _holder(self, instance: str | None) -> MemberId | None:
        seats = self.group.members.items()
        return next((each for each, seat in seats if instance is not None and seat.profile.instance == instance), None)

    def _report(self, member: MemberId, seat: Seat, beat: Beat) -> None:
        before = (seat.profile, seat.leaving, _avoids(seat))
        seat.number, seat.profile = beat.number, beat.profile
        seat.leaving |= beat.leaving
        seat.failing, seat.trouble = dict(beat.failing), beat.trouble
        if before != (seat.profile, seat.leaving, _avoids(seat)):
            self._happened(stale=True)
        if beat.catalog is not None:
            self._change_catalog(seat, beat.catalog)
        for partition, (epoch, status) in beat.holds.items():
            if status in _OVER and self.guards(Lease(partition, member, epoch)):
                if _OVER[status] is Status.TERMINATED:
                    self.group.holds[partition].unwritten = status is Status.UNWRITTEN
                self._release(partition, status=_OVER[status], failure=beat.failing.get(partition))
            elif status is Status.OPEN and self.guards(Lease(partition, member, epoch)):
                self.group.holds[partition].failure = None  # what fails in it now the beat says

    def _change_catalog(self, seat: Seat, catalog: Catalog) -> None:
        """Take what a member's app lists. If that is new, the others are given a moment to find the same."""
        if seat.version != catalog.version:
            seat.version = catalog.version
            self._happened(stale=True)
        is_new = catalog.version not in self.group.catalogs
        self._list(catalog)
        differ = any(each.version != catalog.version for each in self.group.members.values())
        self.group.listing = differ and (self.group.listing or (is_new and self.group.timing.gather_s > 0))

    def _remove(self, member: MemberId) -> None:
        seat = self.group.forget(member)
        if seat is not None:
            for partition, hold in list(self.group.held_by(member)):
                self._release(partition, failure=seat.failing.get(partition, hold.failure))
            self._happened(stale=True)

    # ---- partitions

    def _walk(self, member: MemberId, seat: Seat) -> None:
        """Move what concerns *member*, who is there to hear of it: ask back what it is not to have, open what it is."""
        for partition, hold in self.group.holds.items():
            meant = (
                self.group.target.get(partition) == member and not seat.leaving and self.group.knows(seat, partition)
            )
            if hold.owner == member and hold.status is Status.OPEN and not meant:
                self._ask_back(partition, hold)
            elif meant and hold.status is Status.WAIT and self._ready(partition):
                hold.status, hold.owner, hold.epoch = Status.OPEN, member, Epoch(hold.epoch + 1)

    def _ask_back(self, partition: Partition, hold: Hold) -> None:
        hold.status = Status.CLOSING

    def _release(self, partition: Partition, *, status: Status = Status.WAIT, failure: Failure | None = None) -> None:
        """Nobody holds *partition* any longer. Its epoch stays: the next one is greater. So does what failed in it."""
        hold = self.group.holds[partition]
        hold.status, hold.owner, hold.failure = status, None, self._kept(failure)
        self._happened(stale=status is Status.TERMINATED)

    def _release_late(self, partition: Partition) -> None:
        """Take back what was not closed in time; what its owner said of it last stays."""
        hold = self.group.holds[partition]
        seat = self.group.members.get(hold.owner or _NOBODY)
        self._release(partition, failure=hold.failure if seat is None else seat.failing.get(partition, hold.failure))

    def _kept(self, failure: Failure | None) -> Failure | None:
        """Return what is kept of *failure*, of which a document has so many whole."""
        if failure is None or sum(each.failure is not None for each in self.group.holds.values()) < FAILURES_MAX:
            return failure
        return replace(failure, message="look into its store")

    def _settle(self) -> None:
        """Forget what the source no longer lists and nobody holds; then say anew who is to have what, if need be."""
        group = self.group
        self._prune()
        for partition in [
            each for each, hold in group.holds.items() if each not in group.shards and hold.owner is None
        ]:
            group.floor = max(group.floor, group.holds.pop(partition).epoch)
            group.target.pop(partition, None)
            self._happened(stale=True)
        if group.stale and not group.gathering and not group.listing:
            group.stale = False
            self._assign()

    def _prune(self) -> None:
        """Forget catalogs that no member has any more, as long as somebody is there who has one."""
        group = self.group
        kept = group.catalogs.keys() & {seat.version for seat in group.members.values()}
        if kept and kept != group.catalogs.keys():
            group.catalogs = {each: shards for each, shards in group.catalogs.items() if each in kept}
            group.unite()
            self._happened(stale=True)

    def _assign(self) -> None:
        """Ask the assignor. A static member that leaves keeps its share until its session ends: it may come back."""
        group = self.group
        seats = {each: seat for each, seat in group.members.items() if seat.profile.instance or not seat.leaving}
        members = self._members(seats)
        shards = [shard for each, shard in group.shards.items() if self._assignable(each)]
        target = dict(self._assignor(members, shards, group.target)) if members else {}
        invariant(target.keys() <= group.shards.keys(), "an assignor gives what it was told of")
        if len(group.catalogs) > 1:  # an assignor that does not look at members is not to give what they do not have
            target = {each: owner for each, owner in target.items() if group.knows(group.members[owner], each)}
        if target != group.target:
            group.target = target
            self._happened()

    def _members(self, seats: Mapping[MemberId, Seat]) -> list[Member]:
        """Return the members as the assignor sees them: with what they know, and what they had better not have."""
        catalogs = self.group.catalogs
        knows = {version: frozenset(shards) for version, shards in catalogs.items()} if len(catalogs) > 1 else {}
        plain = [seat.member(each, knows=knows.get(seat.version)) for each, seat in seats.items()]
        failing = {each: _avoids(seat) for each, seat in seats.items() if seat.failing}
        if not any(failing.values()):
            return plain
        able = {
            partition
            for partition in frozenset[Partition]().union(*failing.values())
            if any(each.may_own(partition) and partition not in failing.get(each.id, ()) for each in plain)
        }
        return [replace(each, avoids=failing.get(each.id, frozenset()) & able) for each in plain]

    def _assignable(self, partition: Partition) -> bool:
        hold = self.group.holds[partition]
        return hold.status is not Status.TERMINATED and (hold.owner is not None or self._ready(partition))

    # ---- bookkeeping

    def _happened(self, *, stale: bool = False) -> None:
        self.group.generation += 1
        self.group.stale |= stale

    def _marks(self) -> dict[Key, Mark]:
        timing = self.group.timing
        marks: dict[Key, Mark] = {
            ("member", each): Mark((seat.token, seat.number), timing.session_s)
            for each, seat in self.group.members.items()
        }
        for each, hold in self.group.holds.items():
            if hold.status is Status.CLOSING:
                marks["closing", each.source, each.name] = Mark(hold.epoch, timing.closing_s)
        if self.group.gathering:
            marks["gathering",] = Mark(self.group.name, timing.gather_s)
        if self.group.listing:
            marks["listing",] = Mark(self.group.listed, timing.gather_s)
        return marks


def _avoids(seat: Seat) -> frozenset[Partition]:
    """What a member has failed to run too often for it to be tried there while another can."""
    return frozenset(each for each, failure in seat.failing.items() if failure.count >= AVOIDED_AFTER)
