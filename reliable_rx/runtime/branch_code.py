"""What the branches do that an operator reads, as digests: which is which where several read the same.

They are taken of the code of before and of that of today in one process, where an edit has both. Rejected: to store
them with each row (a plan that is made for one element would be hashed for that, and another Python has other byte
code).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reliable_rx.interrupts import let_through
from reliable_rx.query.identity import content_hash
from reliable_rx.query.query import HubLeaf, InnerLeaf, Node, SourceLeaf, SymbolLeaf
from reliable_rx.runtime.settings import hub_of

if TYPE_CHECKING:
    from reliable_rx.runtime.plan import Plan, PlanNode


def codes_of(node: PlanNode, ops: Sequence[Any]) -> tuple[str, ...] | None:
    """Return a digest of each input of *node*, with the functions that it names; None where there is none.

    *ops* are the operators of the row, which may be others than those of its plan.
    """
    try:
        return tuple(content_hash(query_before(each, node.plan, ops)) for each in node.inputs)
    except BaseException as raised:  # what functions hold is the user's
        let_through(raised)
        return None


def query_before(top: PlanNode, plan: Plan, ops: Sequence[Any]) -> Node:
    """Return the query that ends with *top*; a chain may be too long to recur into."""
    done: dict[PlanNode, Node] = {}
    waiting = [top]
    while waiting:
        at = waiting[-1]
        inputs = feeding(at)
        left = [each for each in inputs if each not in done]
        waiting += left
        if not left:
            done[waiting.pop()] = as_read(
                at, ops[at.index] if at.plan is plan else at.op, [done[each] for each in inputs]
            )
    return done[top]


def feeding(node: PlanNode) -> Sequence[PlanNode]:
    """Return the inputs of *node*, or the shared part that it reads."""
    hub = hub_of(node.plan, node.op.token) if isinstance(node.op, HubLeaf) else None
    return node.inputs if hub is None else (hub,)


def as_read(node: PlanNode, op: Any, inputs: Sequence[Node]) -> Node:
    if isinstance(node.op, HubLeaf) and inputs:
        return inputs[0]
    if isinstance(op, (InnerLeaf, SymbolLeaf, HubLeaf)):  # the sequence that the row is made for
        return Node(SourceLeaf(f"({op.name})"))
    return Node(op, tuple(inputs))


def shared_in_first(plan: Plan, path: str) -> list[str]:
    """Return the paths of the shared parts, and before them, that only the first input of what is at *path* reads.

    They stand beside that input, and go where it goes.
    """
    node = plan.by_path[path]
    level, mask, readers = path.rpartition("/")[0], 0, dict[str, bool]()
    for each in plan.walk():
        if isinstance(each.op, HubLeaf):
            within = each.plan is plan and bool(node.inputs[0].mask & each.bit)
            readers[each.op.token] = within and readers.get(each.op.token, True)
    for token, is_alone in readers.items():
        if is_alone and (hub := plan.hubs.get(token)) is not None:
            mask |= hub.mask
    return [each.path for each in plan.nodes if mask & each.bit and each.path.rpartition("/")[0] == level]
