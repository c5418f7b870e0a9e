"""Moments: what opens a group or window keeps it until all has begun that its emission sets going without delay.

`take(1)` behind `group_by` ends it with the group that it passes on, before `start_with` inside reads that group, one
action later. On a live subject that action comes at once, within the emission. So who opens something is not let go of
before its moment is over, as if somebody read it; then it is, unless somebody does by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def may_begin_again(opener: Cx, instance: Instance, node: PlanNode) -> bool:
    """Whether an action of *node* may subscribe anew to *opener*, which has ended but for its moment."""
    at, owner, below = opener.instance, opener.node, opener.instance.detached & opener.node.bit
    while below and at is not instance:
        if at.parent is None:
            return False
        at, owner = at.parent, at.sink
    return bool(below and owner is not None and node.mask & owner.bit)
