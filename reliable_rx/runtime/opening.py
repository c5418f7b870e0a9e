"""Moments: what opens a group or window keeps it until all has begun that its emission sets going without delay.

`take(1)` behind `group_by` ends it with the group that it passes on, before `start_with` inside reads that group, one
action later. On a live subject that action comes at once, within the emission. So who opens something is not let go of
before its moment is over, as if somebody read it; then it is, unless somebody does by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliable_rx.query.query import HubLeaf
from reliable_rx.runtime.hub import find_hub

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode
    from reliable_rx.runtime.stage_context import Cx


def is_opening(instance: Instance, node: PlanNode) -> bool:
    """Whether a moment of *node* is going on, so that what it has just opened may yet be read."""
    return any(each.instance is instance and each.node is node for each in instance.world.openers)


def close(opener: Cx) -> None:
    """End a moment: let go of *opener* if it was kept for that alone."""
    openers = opener.instance.world.openers
    if opener in openers:
        openers.remove(opener)
        opener.instance.reader_left(opener.node)


def may_begin_again(opener: Cx, instance: Instance, node: PlanNode | None) -> bool:
    """Whether an action of *node* may subscribe anew to *opener*, which has ended but for its moment.

    What ends a query in the place of a timer is of no *node*, and begins nothing.
    """
    at: Instance | None = opener.instance
    owner: PlanNode | None = opener.node
    if node is None or not opener.instance.detached & opener.node.bit:
        return False
    masks = _before(instance, node)
    while at is not None and owner is not None:
        if masks.get(at, 0) & owner.bit:
            return True
        owner, at = at.sink, at.parent
    return False


def is_kept(instance: Instance, node: PlanNode | None) -> bool:
    """Whether what stands before *node* is kept for a moment, so that *node* is to begin again behind that."""
    return any(may_begin_again(each, instance, node) for each in instance.world.openers)


def _before(instance: Instance, node: PlanNode) -> dict[Instance, int]:
    """Return the nodes that stand before *node*, by instance: also those behind what is shared."""
    masks: dict[Instance, int] = {}
    left = [(instance, node)]
    while left:
        at, node = left.pop()
        known = masks.get(at, 0)
        masks[at] = known | node.mask
        new = node.mask & ~known
        left += [find_hub(at, leaf) for leaf in at.plan.leaves if leaf.bit & new and isinstance(leaf.op, HubLeaf)]
    return masks
