"""What every assignor begins with: its arguments checked and in an order that does not depend on how they came.

Members are in the order of their names, so that one which restarts under its own name takes its old place. Shards are
grouped by who may own them, all sources together: what is shared out per source adds up the remainders, and then the
first member owns far more than the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hosting.partitioned.words import Member, Shard


@dataclass(frozen=True, slots=True)
class Table:
    """Members and shards in order, and the shards by those who may own them: `kinds` has places in `members`."""

    members: tuple[Member, ...]
    shards: tuple[Shard, ...]
    kinds: dict[tuple[int, ...], tuple[Shard, ...]]


def laid_out(members: Iterable[Member], shards: Iterable[Shard]) -> Table:
    """Return the table of *members* and *shards*; *raises* `ValueError` where two of them are called the same."""
    in_order = tuple(sorted(members, key=lambda member: (member.name, member.id)))
    listed = tuple(sorted(shards, key=lambda shard: shard.partition))
    _refuse_twice("the member", [member.id for member in in_order], "ids are given out by the coordinator alone")
    _refuse_twice("the name of a member", [m.name for m in in_order], "an instance has one member at a time")
    _refuse_twice("the partition", [shard.partition for shard in listed], "list every partition once")
    return Table(in_order, listed, _kinds(in_order, listed))


def _refuse_twice(what: str, values: Sequence[Any], remedy: str) -> None:
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{what} {str(twice)!r} is there twice; {remedy}")


def _kinds(members: tuple[Member, ...], shards: tuple[Shard, ...]) -> dict[tuple[int, ...], tuple[Shard, ...]]:
    picky = [place for place, member in enumerate(members) if member.is_picky]
    kinds: dict[tuple[int, ...], list[Shard]] = {}
    everyone = range(len(members))
    for shard in shards:
        without = {place for place in picky if not members[place].may_own(shard.partition)}
        takers = tuple(place for place in everyone if place not in without)
        if takers:
            kinds.setdefault(takers, []).append(shard)
    return {takers: tuple(found) for takers, found in kinds.items()}
