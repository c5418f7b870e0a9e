"""What a group is said to be, from documents that the real machine made, and what people change in them by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest

from checkpoint.offsets import Committed
from hosting.cli.status import partition_rows
from hosting.partitioned.assign import sticky
from hosting.partitioned.beats import Beat, Profile
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.group import Group, Seat, read_group
from hosting.partitioned.registry import MemoryRegistry
from hosting.partitioned.shared import Shared
from hosting.partitioned.status import GroupStatus, PartitionStatus, PositionStatus, status_of
from hosting.partitioned.tending import bury, find_dead, reopen
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition, Shard, Status

A, B, C = (Partition("log", name) for name in "abc")


class World:
    """A group, and members that beat when they are told to; each says of its partitions what it is told to say."""

    def __init__(self, shards: Iterable[Shard], *, gather_s: float = 0.0) -> None:
        timing = Timing(session_s=3.0, closing_s=5.0, gather_s=gather_s)
        self.registry = MemoryRegistry()
        self.shared = Shared(self.registry, Coordinator("g", sticky, timing=timing))
        self.shared.shards_changed(list(shards))
        self.now = 0.0
        self.numbers: dict[str, int] = {}
        self.ids: dict[str, MemberId] = {}
        self.profiles: dict[str, Profile] = {}

    def join(self, *names: str, **profile: object) -> None:
        for name in names:
            self.profiles[name] = Profile(tag=name, **profile)  # type: ignore[arg-type]
            self.beat(name)

    def beat(self, name: str, says: Mapping[Partition, Status] | None = None, *, leaving: bool = False) -> None:
        self.numbers[name] = self.numbers.get(name, 0) + 1
        holds = {each: (self.shared.group().holds[each].epoch, status) for each, status in (says or {}).items()}
        answer = self.shared.beat(
            Beat(
                number=self.numbers[name], token=name, member=self.ids.get(name), profile=self.profiles[name],
                holds=holds, leaving=leaving,
            ),
            self.now,
        )  # fmt: skip
        self.ids[name] = answer.member

    def status(self) -> GroupStatus:
        return status_of(self.shared.group(), {}, {})

    def why(self, partition: Partition) -> str:
        return next(each.why for each in self.status().partitions if each.partition == partition.name)


def shards(*partitions: Partition) -> list[Shard]:
    return [Shard(partition=each) for each in partitions]


def test_a_partition_waits_for_its_parents() -> None:
    """It says which of them are not at their end, and stops saying so when they are."""
    world = World([*shards(A, B), Shard(C, (A, B))])
    world.join("n")
    world.beat("n")
    assert world.why(C) == "waits for the end of log/a, log/b"
    world.beat("n", {A: Status.TERMINATED})
    assert world.why(C) == "waits for the end of log/b"
    world.beat("n", {B: Status.TERMINATED})
    assert [each.status for each in world.status().partitions] == ["terminated", "terminated", "open"]
    assert world.why(C) == ""


def test_a_partition_waits_for_the_base() -> None:
    """Those that hold what was there before come first, and many are counted rather than named."""
    base = [Shard(Partition("log", f"base{n}"), base=True) for n in range(5)]
    world = World([*base, *shards(A)])
    assert world.why(A) == "waits for the end of log/base0, log/base1, log/base2 and 2 more"


def test_nobody_is_there_or_may() -> None:
    """No member, members that gather, and members that may not own it are told apart."""
    world = World(shards(A), gather_s=1.0)
    assert world.why(A) == "there is no member"
    world.join("n", sources=frozenset({"other"}))
    assert world.why(A) == "the group is gathering members" and world.status().gathering
    for world.now in (0.5, 1.0, 1.5):
        world.beat("n")
    assert world.why(A) == "no member may own it"


def test_a_partition_that_moves() -> None:
    """Before its owner was told, while it closes, and when the next one has not come for it yet."""
    world = World(shards(A, B))
    world.join("n")
    world.beat("n")
    world.join("m")
    (moving,) = [each for each in world.status().partitions if each.target != each.owner]
    partition = Partition("log", moving.partition)
    assert moving.why == "moving from n-1 to m-2; asked back with the next beat of n-1"
    world.beat("n")
    assert world.why(partition) == "moving from n-1 to m-2; asked back from n-1, whose newest beat is 3"
    world.beat("n", {partition: Status.CLOSED})
    assert world.why(partition) == "m-2 opens it with its next beat"
    world.beat("m")
    assert world.why(partition) == ""


def test_members_that_leave() -> None:
    """One that leaves is asked back all it has; one with a name keeps its share until its session ends."""
    world = World(shards(A))
    world.join("n", instance="one")
    world.beat("n", leaving=True)
    assert world.why(A) == "asked back from one-1, whose newest beat is 2"
    world.beat("n", {A: Status.CLOSED}, leaving=True)
    assert world.why(A) == "kept for one, which has left, until its session ends"
    (member,) = world.status().members
    assert (member.id, member.instance, member.tag, member.leaving, member.holds) == ("one-1", "one", "n", True, 0)


def test_a_group_of_which_nothing_is_heard() -> None:
    """Nothing was written for longer than a session: that is told if a member should have, and not of one that left."""
    seat = Seat("t", Profile(instance="a"))
    group = Group("g", members={MemberId("a-1"): seat})
    session_s = group.timing.session_s
    for age_s, silent_s in [(None, None), (session_s / 2, None), (session_s * 2, session_s * 2)]:
        status = status_of(group, {}, {}, age_s=age_s)
        assert status.silent_s == silent_s and status.is_failing == (silent_s is not None)
    seat.leaving = True
    assert not status_of(group, {}, {}, age_s=session_s * 2).is_failing


def test_what_is_no_longer_listed() -> None:
    """Its owner is to give it back."""
    world = World(shards(A))
    world.join("n")
    world.beat("n")
    world.shared.shards_changed(shards(B))
    assert (
        world.why(A) == "no longer listed by its source; n-1 is to give it back; asked back with the next beat of n-1"
    )


def test_positions_and_lag() -> None:
    """They lie under the lease that covers them; one that none does is loose; what cannot be known is None."""
    whole = Partition("*", "all")
    world = World(shards(A, B, whole))
    committed = {
        ("log", "a"): Committed(7, 1, "n-1", 5.0), ("*/log", "a"): Committed(3, 1), ("gone", "x"): Committed(9, 1),
    }  # fmt: skip
    bounds = {("log", "a"): (2, 10), ("log", "b"): (2, 10), ("*/log", "a"): None}
    status = status_of(world.shared.group(), committed, bounds)
    assert {each.partition: each.lag for each in status.partitions} == {"a": 3, "b": 8, "all": None}
    assert [(each.source, each.position) for each in status.loose] == [("gone", 9)]
    assert json.loads(json.dumps(status.to_plain()))["partitions"][1]["positions"][0]["position"] == 7


def test_the_setting_of_a_migration_is_kept_in_the_document() -> None:
    """What a node was started with is told to all; a document without it says nothing; other words are refused."""
    world = World(shards(A))
    world.join("n", offsets="dual")
    group = world.shared.group()
    assert read_group(group.to_bytes(), name="g").members[MemberId("n-1")].profile.offsets == "dual"
    older = json.loads(group.to_bytes())
    del older["members"]["n-1"]["profile"]["offsets"]
    assert read_group(json.dumps(older).encode(), name="g").members[MemberId("n-1")].profile.offsets is None
    with pytest.raises(ValueError, match="old, dual and new"):
        Profile(offsets="both")


# ---- what people change


class Clock:
    """Time that passes by waiting; *beating* members beat meanwhile."""

    def __init__(self, world: World, *beating: str) -> None:
        self.world, self.beating, self.now = world, beating, 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        for each in self.beating:
            self.world.beat(each)


def test_the_dead_are_found_and_buried() -> None:
    """Nobody who was heard of within a session is dead; whoever is taken out has no lease any more, and is fenced."""
    world = World(shards(A, B))
    world.join("n", "m")
    world.beat("n", {A: Status.CLOSED})
    clock = Clock(world, "m")
    assert find_dead(world.registry, "g", clock=clock, pause=clock.pause) == {}
    clock = Clock(world)
    dead = find_dead(world.registry, "g", clock=clock, pause=clock.pause)
    assert clock.now >= 3.0 and set(dead) == {"n-1", "m-2"}
    world.beat("m")
    assert world.shared.lease(B) == Lease(B, MemberId("n-1"), Epoch(1))
    assert bury(world.registry, "g", dead) == ["n-1"] and bury(world.registry, "g", dead) == []
    assert world.shared.lease(B) is None
    world.beat("m")
    assert {hold.owner for hold in world.shared.group().holds.values()} == {"m-2"}
    world.beat("n")
    assert world.ids["n"] == ""


def test_epochs_go_on_after_a_burial() -> None:
    """The next owner has a newer epoch than the buried one."""
    world = World(shards(A))
    world.join("n")
    world.beat("n")
    assert world.shared.lease(A) == Lease(A, MemberId("n-1"), Epoch(1))
    bury(world.registry, "g", {MemberId("n-1"): ("n", 2)})
    assert world.shared.lease(A) is None and world.why(A) == "there is no member"
    world.join("m")
    world.beat("m")
    assert world.shared.lease(A) == Lease(A, MemberId("m-2"), Epoch(2))


def test_what_had_ended_is_opened_again() -> None:
    """Under a new epoch, by whoever it is assigned to; what has not ended is left alone."""
    world = World(shards(A, B))
    world.join("n")
    world.beat("n")
    world.beat("n", {A: Status.TERMINATED})
    assert reopen(world.registry, "g", [A, B, C]) == [A]
    assert reopen(world.registry, "g", [A]) == []
    world.beat("n")
    assert world.shared.lease(A) == Lease(A, MemberId("n-1"), Epoch(2))
    assert reopen(MemoryRegistry(), "g", [A]) == []


def test_each_position_is_shown_beside_its_own_name() -> None:
    """A partition of a section that reads all of its sources has no position itself: each of theirs has a row."""
    mine = PositionStatus(source="log", partition="a", position=3, lag=0, time=None)
    others = [
        PositionStatus(source="other", partition=name, position=n, lag=0, time=None) for n, name in enumerate("xy")
    ]
    for positions in ([mine], [mine, *others], others, []):
        whole = PartitionStatus(
            source="log", partition="a", status="processing", lease="processing", owner=None, epoch=1, target=None,
            why="", failures=0, error="", without=(), positions=tuple(positions),
        )  # fmt: skip
        rows = list(partition_rows(whole))
        assert rows[0][0] == "log/a"
        shown = {str(row[0]).strip(): row[4] for row in rows if row[4] is not None}
        assert shown == {f"{each.source}/{each.partition}": each.position for each in positions}
