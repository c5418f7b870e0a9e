"""Sticky balanced, the default: as even as can be, and of all that is as even, what moves least.

All sources are shared out at once. Where all shards weigh the same both claims hold exactly, also with capacities and
with members that may own only some of them; see `even`. Weights make that a knapsack; see `weighted` for what holds
then.

A partition counts as moved if its owner before is still here and may still own it, and is not its owner afterwards.
What was asked for before is what to give as *owners*, not who happens to hold it still: else a partition on its way
would be called back by the next round.
"""

from __future__ import annotations

from collections.abc import Sequence

from hosting.partitioned.assign.board import Board, board_of
from hosting.partitioned.assign.even import even_out
from hosting.partitioned.assign.table import laid_out
from hosting.partitioned.assign.weighted import weigh_out
from hosting.partitioned.words import Assignment, Member, Shard


def sticky(members: Sequence[Member], shards: Sequence[Shard], owners: Assignment, /) -> Assignment:
    """Share out evenly by weight and capacity, and let every member keep as much as that allows."""
    board: Board = board_of(laid_out(members, shards), owners)
    if len({shard.weight for shard in shards}) > 1:
        weigh_out(board)
    else:
        even_out(board)
    return board.assignment()
