"""Shares of pieces of different weight: even within the heaviest piece, with few moves.

No member is more loaded, as to its capacity, than another would be with the heaviest of its pieces added that the
other may own. To move least within that is a knapsack, so this goes by a rule: from the most loaded, its heaviest
first, one that is not at home before one that is; and in the end what can go home again goes home. It is often the
fewest moves, not always. Rejected: tighter balance; it would move a light piece for every change of the load, and
gain little.
"""

from __future__ import annotations

from hosting.partitioned.assign.board import Board, Stack, cost


def weigh_out(board: Board) -> None:
    """Bring *board* into an order that is even within the heaviest piece."""
    board.deal()
    while step := _step(board):
        giver, taker, stack = step
        board.move(giver, taker, stack)
    _send_home(board)


def _step(board: Board) -> tuple[int, int, Stack] | None:
    """Return what to hand over next: from the most loaded member who has too much beside somebody."""
    places = range(len(board.members))
    for giver in sorted(places, key=lambda place: board.load[place] / board.members[place].capacity, reverse=True):
        found = [change for taker in places if (change := _too_much(board, giver, taker))]
        if found:
            return giver, *min(found, key=lambda change: (cost(change[1], giver, change[0]), -change[1].weight, change))
    return None


def _too_much(board: Board, giver: int, taker: int) -> tuple[int, Stack] | None:
    """Return the best stack for *taker* if *giver* is more loaded than it would be with the heaviest of them."""
    stacks = [stack for stack in board.held[giver] if taker in stack.takers]
    if not stacks or not board.less_with(taker, max(stack.weight for stack in stacks), giver):
        return None
    return taker, min(stacks, key=lambda stack: (cost(stack, giver, taker), -stack.weight, stack))


def _send_home(board: Board) -> None:
    away = [
        (stack, place) for place, stacks in enumerate(board.held) for stack in stacks if stack.home not in (-1, place)
    ]
    for stack, place in sorted(away, key=lambda each: (-each[0].weight, each)):
        while stack in board.held[place]:
            board.move(place, stack.home, stack)
            if _step(board) is not None:
                board.move(stack.home, place, stack)
                break
