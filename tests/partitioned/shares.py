"""Groups to share out among, drawn by Hypothesis, and the definitions that assignors are held to, by brute force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from hosting.partitioned.words import Assignment, Member, MemberId, Partition, Shard

SOURCES = ("air", "rail", "sea")
ROOMS = ("north", "south", "west")


@dataclass(frozen=True)
class Scene:
    """What an assignor is called with."""

    members: Sequence[Member]
    shards: Sequence[Shard]
    owners: Assignment

    @property
    def arguments(self) -> tuple[Sequence[Member], Sequence[Shard], Assignment]:
        return (self.members, self.shards, self.owners)


@st.composite
def scenes(
    draw: st.DrawFn,
    *,
    members_max: int = 6,
    shards_max: int = 24,
    capacities: int = 1,
    weights: int = 1,
    picky: bool = True,
    roomy: bool = False,
    kept: bool = True,
) -> Scene:
    """Draw members of all or some sources or partitions, shards, and who had them, were it one who is gone."""
    rooms = st.sampled_from((None, *ROOMS)) if roomy else st.none()
    places = draw(
        st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, shards_max)), unique=True, max_size=shards_max)
    )
    partitions = [Partition(source, f"{number:02}") for source, number in places]
    some = st.frozensets(st.sampled_from(partitions), max_size=3) if partitions else st.just(frozenset())
    wishes = st.one_of(
        st.just((None, None)), st.tuples(st.frozensets(st.sampled_from(SOURCES)), st.none()), st.tuples(st.none(), some)
    )
    members = [
        Member(
            MemberId(f"m{number}"),
            capacity=draw(st.integers(1, capacities)),
            room=draw(rooms),
            instance=draw(st.sampled_from((None, f"i{9 - number}"))),
            sources=wish[0],
            partitions=wish[1],
        )
        for number in range(draw(st.integers(0, members_max)))
        for wish in [draw(wishes) if picky else (None, None)]
    ]
    shards = [Shard(each, room=draw(rooms), weight=draw(st.integers(1, weights))) for each in partitions]
    had = st.sampled_from([None, MemberId("gone"), *(member.id for member in members)])
    before = {each: draw(had) for each in partitions} if kept else {}
    return Scene(members, shards, {each: owner for each, owner in before.items() if owner is not None})


def takers(scene: Scene, shard: Shard) -> list[MemberId]:
    return [member.id for member in scene.members if member.may_own(shard.partition)]


def loads(scene: Scene, assigned: Assignment) -> dict[MemberId, int]:
    found = {member.id: 0 for member in scene.members}
    for shard in scene.shards:
        if shard.partition in assigned:
            found[assigned[shard.partition]] += shard.weight
    return found


def moved(scene: Scene, assigned: Assignment) -> int:
    """Count what went from a member who stays, and may keep it, to another."""
    return sum(
        1
        for shard in scene.shards
        if (before := scene.owners.get(shard.partition)) in takers(scene, shard) and assigned[shard.partition] != before
    )


def total_and_allowed(scene: Scene, assigned: Assignment) -> None:
    """Every shard that somebody may own has one owner, who may; nothing else has one."""
    assert set(assigned) == {shard.partition for shard in scene.shards if takers(scene, shard)}
    assert not [shard for shard in scene.shards if assigned.get(shard.partition) not in [*takers(scene, shard), None]]


def too_much(scene: Scene, assigned: Assignment) -> list[tuple[MemberId, MemberId]]:
    """Who is more loaded than another would be with the heaviest of what it holds, and the other may own, added."""
    load, found = loads(scene, assigned), []
    for giver, taker in product(scene.members, repeat=2):
        held = [s.weight for s in scene.shards if assigned.get(s.partition) == giver.id and taker.may_own(s.partition)]
        if giver != taker and held:
            left, right = Fraction(load[giver.id], giver.capacity), Fraction(load[taker.id] + max(held), taker.capacity)
            found += [(giver.id, taker.id)] if left > right else []
    return found


def every_way(scene: Scene) -> Iterable[Assignment]:
    choices = [(shard.partition, who) for shard in scene.shards if (who := takers(scene, shard))]
    for picked in product(*(who for _, who in choices)):
        yield dict(zip((partition for partition, _ in choices), picked, strict=True))


def unevenness(scene: Scene, assigned: Assignment) -> Fraction:
    """What even shares have the least of: each further piece counts more, the less capacity its owner has."""
    load = loads(scene, assigned)
    return sum((Fraction(load[m.id] * (load[m.id] + 1), m.capacity) for m in scene.members), Fraction())


def by_kind(scene: Scene) -> Mapping[tuple[MemberId, ...], list[Shard]]:
    found: dict[tuple[MemberId, ...], list[Shard]] = {}
    for shard in scene.shards:
        if who := takers(scene, shard):
            found.setdefault(tuple(sorted(who)), []).append(shard)
    return found


def within_one(shards: Iterable[Shard], who: Iterable[MemberId], assigned: Assignment) -> bool:
    owners = [assigned[shard.partition] for shard in shards]
    counts = [owners.count(each) for each in who]
    return max(counts) - min(counts) <= 1
