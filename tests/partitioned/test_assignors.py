"""What every assignor promises, and what each of them promises beside; the sticky one has a file of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import left_to_commits
from shares import ROOMS, Scene, by_kind, scenes, takers, total_and_allowed, within_one

from hosting.partitioned.assign import (
    ASSIGNORS,
    ByConfiguration,
    ConsistentHash,
    Fixed,
    MachineRoom,
    MachineRoomNearby,
    assignor_named,
    averagely,
    averagely_by_circle,
    sticky,
)
from hosting.partitioned.words import Assignor, Lease, Member, MemberId, Partition, Shard

ALL_ROOMS = MachineRoom(ROOMS)
WRITTEN = ByConfiguration({"m0": [Partition("air", "00")], "i8": [Partition("sea", "01")]}, otherwise=averagely)
EVERYTHING: dict[str, Assignor] = {
    "sticky": sticky,
    "averagely": averagely,
    "by circle": averagely_by_circle,
    "consistent hash": ConsistentHash(points=20),
    "nearby": MachineRoomNearby(),
    "nearby, averagely": MachineRoomNearby(averagely),
}
PARTLY: dict[str, Assignor] = {"rooms": ALL_ROOMS, "by configuration": WRITTEN, "fixed": Fixed(["m0", "i8", "i7"])}


def members(*names: str) -> list[Member]:
    return [Member(MemberId(name)) for name in names]


def shards(count: int, room: str | None = None) -> list[Shard]:
    return [Shard(Partition("air", f"{number:02}"), room=room) for number in range(count)]


def owned(assigned: dict[Partition, MemberId], *names: str) -> list[list[int]]:
    return [sorted(int(partition.name) for partition, owner in assigned.items() if owner == name) for name in names]


each = pytest.mark.parametrize("name", [*EVERYTHING, *PARTLY])


@pytest.mark.parametrize("name", EVERYTHING)
@given(scene=scenes(capacities=3, weights=3, roomy=True))
def test_every_partition_has_one_owner_who_may_own_it(name: str, scene: Scene) -> None:
    """What anybody may own has an owner, who may; what nobody may own is left out, and so is everything else."""
    total_and_allowed(scene, EVERYTHING[name](*scene.arguments))


@pytest.mark.parametrize("name", PARTLY)
@given(scene=scenes(roomy=True))
def test_who_leaves_some_to_others_gives_the_rest_to_those_who_may(name: str, scene: Scene) -> None:
    """Assignors that leave some partitions waiting on purpose give the others to members who may own them."""
    assigned = PARTLY[name](*scene.arguments)
    allowed = {shard.partition: takers(scene, shard) for shard in scene.shards}
    assert not [partition for partition, owner in assigned.items() if owner not in allowed[partition]]


@each
@given(scene=scenes(capacities=2, weights=3, roomy=True), data=st.data())
def test_the_order_of_what_comes_in_makes_no_difference(name: str, scene: Scene, data: st.DataObject) -> None:
    """Members, shards and owners in any other order give the same."""
    assign = {**EVERYTHING, **PARTLY}[name]
    again = assign(
        data.draw(st.permutations(scene.members)),
        data.draw(st.permutations(scene.shards)),
        dict(data.draw(st.permutations(list(scene.owners.items())))),
    )
    assert assign(*scene.arguments) == again


@each
def test_without_members_or_partitions_there_is_nothing_to_own(name: str) -> None:
    """No members or no shards give no owners, and no error."""
    assign = {**EVERYTHING, **PARTLY}[name]
    assert assign([], shards(3, "north"), {}) == {}
    assert assign(members("m0"), [], {}) == {}


@each
def test_what_is_there_twice_is_refused(name: str) -> None:
    """A member, an instance or a partition listed twice is an error that says which, not a guess."""
    assign = {**EVERYTHING, **PARTLY}[name]
    with pytest.raises(ValueError, match="the partition 'air/00' is there twice"):
        assign(members("m0"), shards(1, "north") * 2, {})
    with pytest.raises(ValueError, match="the partition 'air/01' is there twice"):
        assign(members("m0"), [*shards(2, "north"), shards(2, "north")[1]], {})
    with pytest.raises(ValueError, match="the member 'm0' is there twice"):
        assign(members("m0", "m0"), shards(1, "north"), {})
    with pytest.raises(ValueError, match="the name of a member 'i' is there twice"):
        assign([Member(MemberId(one), instance="i") for one in ("a", "b")], shards(1, "north"), {})


@pytest.mark.parametrize("name", ["averagely", "by circle"])
@given(scene=scenes(capacities=2, weights=3))
def test_those_that_count_are_within_one(name: str, scene: Scene) -> None:
    """Of the partitions that the same members may own, no member has two more than another."""
    assigned = EVERYTHING[name](*scene.arguments)
    assert all(within_one(kind, who, assigned) for who, kind in by_kind(scene).items())


@given(scenes(roomy=True, kept=False))
def test_rooms_are_within_one_and_leave_other_rooms_alone(scene: Scene) -> None:
    """Only shards of the named rooms have owners, and those who may own the same are within one of each other."""
    assigned = ALL_ROOMS(*scene.arguments)
    inside = Scene(scene.members, [shard for shard in scene.shards if shard.room is not None], {})
    total_and_allowed(inside, assigned)
    assert all(within_one(kind, who, assigned) for who, kind in by_kind(inside).items())


@given(scenes(roomy=True))
def test_what_is_near_goes_to_those_who_are_near(scene: Scene) -> None:
    """A shard whose room has members that may own it goes to one of them."""
    assigned = MachineRoomNearby()(*scene.arguments)
    rooms = {member.id: member.room for member in scene.members}
    for shard in scene.shards:
        near = [who for who in takers(scene, shard) if shard.room is not None and rooms[who] == shard.room]
        assert not near or assigned[shard.partition] in near


@given(scenes(picky=False, capacities=2), st.sampled_from(["n1", "n2", "n3"]))
def test_a_member_more_on_the_ring_only_receives(scene: Scene, name: str) -> None:
    """Whatever has another owner after a member came is owned by that member."""
    assign, new = ConsistentHash(points=10), MemberId(name)
    before = assign(*scene.arguments)
    after = assign([*scene.members, Member(new)], scene.shards, before)
    assert not [partition for partition, owner in before.items() if after[partition] not in (owner, new)]


@given(scenes(capacities=2))
def test_a_member_of_few_wishes_more_on_the_ring_only_receives(scene: Scene) -> None:
    """It holds as well where members may own only some partitions, the new one too."""
    assign, new = ConsistentHash(points=10), Member(MemberId("new"), sources=frozenset({"air", "sea"}))
    before = assign(*scene.arguments)
    after = assign([*scene.members, new], scene.shards, before)
    assert not [partition for partition, owner in before.items() if after[partition] not in (owner, new.id)]


@left_to_commits
def test_the_ring_is_the_same_in_every_process() -> None:
    """No part of it depends on the salt that Python gives to the hashes of texts."""
    text = (
        "from hosting.partitioned.assign import ConsistentHash; from hosting.partitioned.words import *;"
        "print(list(ConsistentHash()([Member(MemberId(n)) for n in 'abc'],"
        "[Shard(Partition('air', str(n))) for n in range(20)], {}).values()))"
    )
    root = Path(__file__).parents[2]
    runs = {
        subprocess.run([sys.executable, "-c", text], env={"PYTHONHASHSEED": seed}, cwd=root, capture_output=True).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert runs.pop().startswith(b"['")


def test_the_ring_spreads_64_partitions_as_is_said() -> None:
    """With 160 points each, 8 members have 4 to 13 of 64, and one who counts double has about twice as many."""
    many = [Shard(Partition("air", f"{number:03}")) for number in range(64)]
    owners = list(ConsistentHash()(members(*"abcdefgh"), many, {}).values())
    counts = [owners.count(MemberId(name)) for name in "abcdefgh"]
    assert min(counts) >= 4 and max(counts) <= 13
    more = [Shard(Partition("air", f"{number:04}")) for number in range(4_000)]
    double = [Member(MemberId("a"), capacity=2), Member(MemberId("b"))]
    share = list(ConsistentHash()(double, more, {}).values()).count(MemberId("a")) / 4_000
    assert 0.55 < share < 0.78


@pytest.mark.parametrize(
    ("assign", "wanted"),
    [
        (averagely, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (averagely_by_circle, [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (ALL_ROOMS, [[0, 1, 8], [2, 3, 9], [4, 5], [6, 7]]),
    ],
)
def test_ten_partitions_for_four_members(assign: Assignor, wanted: list[list[int]]) -> None:
    """The three that count lay ten partitions out as RocketMQ's of the same names do."""
    assert owned(dict(assign(members(*"abcd"), shards(10, "north"), {})), *"abcd") == wanted


def by_definition(rule: Callable[[int, int, int], list[int]], count: int, people: int) -> list[list[int]]:
    return [rule(me, count, people) for me in range(people)]


def run_of(me: int, count: int, people: int) -> list[int]:
    """RocketMQ's AllocateMessageQueueAveragely, as it is written there: sizes, starts, ranges."""
    left = count % people
    size = 1 if count <= people else count // people + (left > 0 and me < left)
    start = me * size if left > 0 and me < left else me * size + left
    return list(range(start, start + max(0, min(size, count - start))))


def circle_of(me: int, count: int, people: int) -> list[int]:
    """AllocateMessageQueueAveragelyByCircle: every j with j % people == me."""
    return [number for number in range(me, count) if number % people == me]


def room_of(me: int, count: int, people: int) -> list[int]:
    """AllocateMessageQueueByMachineRoom: a block each, and one of the rest."""
    size, left = divmod(count, people)
    return [*range(me * size, (me + 1) * size), *([people * size + me] if me < left else [])]


@pytest.mark.parametrize(
    ("assign", "rule"), [(averagely, run_of), (averagely_by_circle, circle_of), (ALL_ROOMS, room_of)]
)
def test_they_agree_with_the_definitions_each_member_would_compute(
    assign: Assignor, rule: Callable[[int, int, int], list[int]]
) -> None:
    """For every size up to 20 × 7, what is shared out here is what each of RocketMQ's members computes for itself."""
    for count in range(20):
        for people in range(1, 8):
            names = "abcdefg"[:people]
            found = owned(dict(assign(members(*names), shards(count, "north"), {})), *names)
            assert found == by_definition(rule, count, people), (count, people)


def test_a_member_takes_its_old_place_after_a_restart() -> None:
    """Averagely, by circle and on the ring, who comes back as the same instance under a new id owns the same."""
    first = [Member(MemberId("m1"), instance="a"), Member(MemberId("m2"), instance="b"), Member(MemberId("m3"))]
    second = [Member(MemberId("m9"), instance="a"), *first[1:]]
    for assign in (averagely, averagely_by_circle, ConsistentHash()):
        before, after = assign(first, shards(12), {}), assign(second, shards(12), {})
        assert {p: "m9" if owner == "m1" else owner for p, owner in before.items()} == after


def test_what_is_written_down_waits_for_who_is_away() -> None:
    """Nobody else gets what a member has who is not here; what nobody has waits, or another assignor shares it out."""
    mine = {"a": [Partition("air", "00"), Partition("air", "01")], "b": [Partition("air", "02")]}
    here = [Member(MemberId("m7"), instance="a"), Member(MemberId("c"))]
    assert owned(dict(ByConfiguration(mine)(here, shards(5), {})), "m7", "c") == [[0, 1], []]
    both = ByConfiguration(mine, otherwise=averagely_by_circle)
    assert owned(dict(both(here, shards(5), {})), "m7", "c") == [[0, 1, 3], [4]]


def test_fixed_shares_are_those_of_the_expected() -> None:
    """With one of three away, the others keep their thirds and nothing else moves."""
    fixed = Fixed(["a", "b", "c"])
    assert owned(dict(fixed(members("a", "c"), shards(6), {})), "a", "b", "c") == [[0, 1], [], [4, 5]]
    assert owned(dict(fixed(members("a", "b", "c", "d"), shards(6), {})), *"abcd") == [[0, 1], [2, 3], [4, 5], []]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ConsistentHash(points=0), "at least one point"),
        (lambda: MachineRoom([]), "at least one room"),
        (lambda: MachineRoom([""]), "at least one room"),
        (lambda: ByConfiguration({}), "would wait for ever"),
        (lambda: ByConfiguration({"a": ["air/00"]}), "is no partition"),  # type: ignore[list-item]
        (lambda: ByConfiguration({n: [Partition("air", "00")] for n in "ab"}), "for 'a' and for 'b'"),
        (lambda: MachineRoomNearby("sticky"), "must be an assignor"),  # type: ignore[arg-type]
        (lambda: Fixed([]), "at least one instance"),
        (lambda: Fixed(["a", "a"]), "each once"),
        (lambda: assignor_named("stiky"), "there is no assignor 'stiky'; choose one of averagely"),
        (lambda: assignor_named("sticky", points=3), "cannot be made with {'points': 3}"),
        (lambda: assignor_named("machine-room"), "cannot be made with {}"),
        (lambda: Shard(Partition("air", "00"), weight=0), "the weight of air/00 must be a whole number"),
        (lambda: Shard(Partition("air", "00"), weight=0.5), "only counts beside the others"),  # type: ignore[arg-type]
        (lambda: Shard(Partition("air", "00"), (Partition("air", "00"),)), "its own parent"),
        (lambda: Member(MemberId("m"), capacity=-1), "the capacity of m must be a whole number"),
    ],
)
def test_bad_configuration_is_refused_when_it_is_made(make: Callable[[], object], words: str) -> None:
    """What cannot work is said at once, with what to write instead, not when the first member joins."""
    with pytest.raises(ValueError, match=words):
        make()


def test_every_assignor_has_a_name() -> None:
    """Each can be asked for by name, with its options."""
    options: dict[str, dict[str, object]] = {
        "machine-room": {"rooms": ["north"]},
        "by-configuration": {"written": {"a": [Partition("air", "00")]}},
        "fixed": {"expected": ["m0"]},
    }
    for name in ASSIGNORS:
        assign = assignor_named(name, **options.get(name, {}))
        assert set(assign(members("m0"), shards(2, "north"), {}).values()) <= {"m0"}


def test_members_own_the_sources_and_partitions_they_name() -> None:
    """Sources and partitions add up; who names neither may own all; the words are values that order and hash."""
    air, sea = Partition("air", "1"), Partition("sea", "1")
    assert Member(MemberId("m")).may_own(air)
    picky = Member(MemberId("m"), sources=frozenset({"air"}), partitions=frozenset({sea}))
    assert picky.may_own(air) and picky.may_own(sea) and not picky.may_own(Partition("sea", "2"))
    assert not Member(MemberId("m"), sources=frozenset()).may_own(air)
    assert sorted([sea, air]) == [air, sea] and str(air) == "air/1"
    assert len({Lease(air, MemberId("m"), 1), Lease(air, MemberId("m"), 1)}) == 1  # type: ignore[arg-type]
