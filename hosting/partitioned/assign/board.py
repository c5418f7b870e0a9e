"""Where the pieces stand while the sticky assignor moves them: who holds what, and where each piece was at home.

Pieces that are alike for the purpose (same weight, same members that may own them, same home) lie on one stack: to
choose among stacks is cheap, and which piece of a stack is taken makes no difference to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from hosting.partitioned.assign.table import Table
from hosting.partitioned.words import Assignment, Member, MemberId, Partition, Shard


class Stack(NamedTuple):
    """What the pieces of one stack have in common; *home* is the place of the owner before, or -1."""

    weight: int
    takers: tuple[int, ...]
    home: int


@dataclass(slots=True)
class Board:
    """Members by their place, each with its stacks and its load."""

    members: tuple[Member, ...]
    held: list[dict[Stack, list[Partition]]]
    load: list[int]
    free: list[tuple[Stack, Partition]]

    def put(self, place: int, stack: Stack, partition: Partition) -> None:
        self.held[place].setdefault(stack, []).append(partition)
        self.load[place] += stack.weight

    def take(self, place: int, stack: Stack) -> Partition:
        pieces = self.held[place][stack]
        partition = pieces.pop()
        if not pieces:
            del self.held[place][stack]
        self.load[place] -= stack.weight
        return partition

    def move(self, giver: int, taker: int, stack: Stack) -> None:
        self.put(taker, stack, self.take(giver, stack))

    def deal(self) -> None:
        """Give each free piece, the heavy ones first, to the member whom it leaves least loaded."""
        self.free.sort(key=lambda piece: (-piece[0].weight, len(piece[0].takers), piece[1]))
        for stack, partition in self.free:
            self.put(self.least_loaded(stack), stack, partition)
        self.free.clear()

    def least_loaded(self, stack: Stack) -> int:
        """Return the member whom one more piece of *stack* would leave least loaded; of several the first."""
        best = stack.takers[0]
        for place in stack.takers[1:]:
            if self.less_with(place, stack.weight, best, stack.weight):
                best = place
        return best

    def less_with(self, place: int, more: int, other: int, other_more: int = 0) -> bool:
        """Say whether *place* with *more* on it is less loaded than *other* with *other_more*, as to its capacity."""
        left = (self.load[place] + more) * self.members[other].capacity
        return left < (self.load[other] + other_more) * self.members[place].capacity

    def assignment(self) -> Assignment:
        """Return who owns what, in the order of the partitions."""
        owned: Iterator[tuple[Partition, MemberId]] = chain.from_iterable(
            ((partition, self.members[place].id) for partition in pieces)
            for place, stacks in enumerate(self.held)
            for pieces in stacks.values()
        )
        return dict(sorted(owned))


def board_of(table: Table, owners: Assignment) -> Board:
    """Return the board on which everybody has what he had and may keep, and the rest is free."""
    places = {member.id: place for place, member in enumerate(table.members)}
    board = Board(table.members, [{} for _ in table.members], [0] * len(table.members), [])
    for takers, kind in table.kinds.items():
        mine = frozenset(takers)
        for shard in kind:
            _place(board, shard, takers, mine, places.get(owners.get(shard.partition, MemberId("")), -1))
    return board


def _place(board: Board, shard: Shard, takers: tuple[int, ...], allowed: frozenset[int], before: int) -> None:
    home = before if before in allowed else -1
    stack = Stack(shard.weight, takers, home)
    if home < 0:
        board.free.append((stack, shard.partition))
    else:
        board.put(home, stack, shard.partition)


def cost(stack: Stack, giver: int, taker: int) -> int:
    """Return the moves it costs to hand a piece of *stack* over: 1 away from home, -1 back home, else 0."""
    return (stack.home == giver) - (stack.home == taker)
