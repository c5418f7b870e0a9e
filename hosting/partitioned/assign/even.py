"""Shares of equal pieces: exactly even, with exactly the fewest moves.

Sharing out is a flow from partitions to members in which every further piece costs a member more, by its capacity.
Such a flow is the cheapest there is if and only if no cycle of changes is cheaper than nothing; so cycles are looked
for and turned until there is none. A cycle's price is what it does to balance, and only then how much it moves. Where
all members may own the same pieces there is nothing to look for: to hand over from the most to the least loaded is
already the best.

Rejected: quotas (Kafka's uniform assignor: simple, not the fewest moves, and not for members of different wishes); a
linear-programming library, for one screen of Bellman and Ford.
"""

from __future__ import annotations

from math import lcm

from hosting.partitioned.assign.board import Board, Stack, cost

Edges = dict[tuple[int, int], tuple[int, Stack | None]]


def even_out(board: Board) -> None:
    """Bring *board*, whose pieces all weigh the same, into the most even order that moves least."""
    board.deal()
    _level(board)
    if len({stack.takers for stacks in board.held for stack in stacks}) > 1:
        while cycle := _cheaper_cycle(len(board.members) + 1, edges := _edges(board)):
            _turn(board, cycle, edges)


def _level(board: Board) -> None:
    """Hand pieces from the most to the least loaded, directly, for as long as that evens out."""
    for takers in sorted({stack.takers for stacks in board.held for stack in stacks}):
        while step := _step(board, takers):
            giver, taker, stack = step
            board.move(giver, taker, stack)


def _step(board: Board, takers: tuple[int, ...]) -> tuple[int, int, Stack] | None:
    giver: int | None = None
    for place in takers:
        if any(stack.takers == takers for stack in board.held[place]):
            giver = place if giver is None or board.less_with(giver, 0, place) else giver
    if giver is None:
        return None
    stacks = [stack for stack in board.held[giver] if stack.takers == takers]
    taker = board.least_loaded(stacks[0])
    if not board.less_with(taker, stacks[0].weight, giver):
        return None
    return giver, taker, min(stacks, key=lambda stack: (cost(stack, giver, taker), stack))


def _edges(board: Board) -> Edges:
    """Return every change of a piece's owner at its price, and the price of each load's first and last piece."""
    edges: Edges = {}
    pool = len(board.members)
    scale = 2 * (pool + 2) * lcm(*(member.capacity for member in board.members))
    for giver, stacks in enumerate(board.held):
        for stack in sorted(stacks):
            for taker in stack.takers:
                price = cost(stack, giver, taker)
                if taker != giver and price < edges.get((giver, taker), (2, None))[0]:
                    edges[giver, taker] = (price, stack)
    for place, member in enumerate(board.members):
        pieces = sum(map(len, board.held[place].values()))
        unit = scale // member.capacity
        edges[place, pool] = ((pieces + 1) * unit, None)
        if pieces:
            edges[pool, place] = (-pieces * unit, None)
    return edges


def _cheaper_cycle(count: int, edges: Edges) -> list[int]:
    """Return a cycle of negative price, or nothing if there is none (Bellman and Ford)."""
    price, before = [0] * count, [-1] * count
    while True:
        changed = False
        for (giver, taker), (step, _) in edges.items():
            if price[giver] + step < price[taker]:
                price[taker], before[taker], changed = price[giver] + step, giver, True
        if not changed:
            return []
        if cycle := _closed(before):
            return cycle


def _closed(before: list[int]) -> list[int]:
    """Return the nodes of a cycle in *before*, in the order of its edges, or nothing."""
    seen = [-1] * len(before)
    for start in range(len(before)):
        node, way = start, list[int]()
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            way.append(node)
            node = before[node]
        if node >= 0 and seen[node] == start:
            return way[way.index(node) :][::-1]
    return []


def _turn(board: Board, cycle: list[int], edges: Edges) -> None:
    pairs = zip(cycle, cycle[1:] + cycle[:1], strict=True)
    changes = [(giver, taker, stack) for giver, taker in pairs if (stack := edges[giver, taker][1]) is not None]
    taken = [board.take(giver, stack) for giver, _, stack in changes]
    for (_, taker, stack), partition in zip(changes, taken, strict=True):
        board.put(taker, stack, partition)
