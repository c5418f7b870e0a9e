"""Inner sequences that are opened again when a query goes over to other functions: by an edit, or another Python.

The selector is asked again for each, and what it did for the functions before it may not do for these: it raises, it
returns no sequence, or what it returns cannot begin. That is an error of the query, as at an event, and counts when all
rows are back: the query fails with it, or its policy gives up that one inner sequence. What was read by nobody but
that, or by a part that is in another place now, would have its events lost without a word: a group so begins again
with the next event of its key.

Rejected: to drop the row and go on (a group that nobody reads takes events for ever), and to deal with each where it
is found (the operators that hear of it may not have their rows yet).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from hosting.letters import NEVER
from reliable_rx.class_of import is_a
from reliable_rx.errors import CheckpointRefused
from reliable_rx.giving_up import give_up
from reliable_rx.instance import Instance
from reliable_rx.plan import Plan, PlanNode
from reliable_rx.rows import Loader, Signature
from reliable_rx.stage import absorb, finish_node


class Refused(NamedTuple):
    """What stands for an inner sequence that cannot be opened again, and why it cannot."""

    child: Instance
    error: Exception


class Reopening(Loader):
    """Loads the rows of queries; of one that goes over to other functions it keeps what these cannot open again."""

    goes_over = True
    """Whether what is loaded now is of such a query."""

    def __init__(self, signatures: dict[int, Signature]) -> None:
        super().__init__(signatures)
        self.refused: list[Refused] = []

    def _stand_in(self, owner: Instance, node: PlanNode, key: Hashable, outer: Any, raised: BaseException) -> Instance:
        if is_a(raised, CheckpointRefused) or not self.goes_over:
            raise raised
        error = owner.world.blame(raised)
        opened = owner.opened(node)
        half = opened.pop(key, None)
        if half is not None:
            self.instances.pop(half.address(), None)
            half.dispose()
        plan = Plan(NEVER, limits=node.plan.limits, prefix=f"{node.path}/inner", symbolic=True, around=node.plan)
        child = opened[key] = Instance(plan, owner.world, node, key, parent=owner, outer=outer)
        self.refused.append(Refused(child, error))
        self.report.dropped.append(plan.prefix)
        return child

    def settle(self) -> None:
        """Deal with what cannot be opened again, and with groups that are read by nobody since."""
        refused, self.refused = self.refused, []
        for child, error in refused:
            deal_with(child, error)
        for subject in self.unread:
            owner, node = subject.owner, subject.node
            if not (owner is None or node is None or subject.ended or subject.subscribers) and node.op.begins_again:
                owner.end_group(node, subject.key, None)
                owner.close(node, subject.key)
        self.unread = []


def deal_with(child: Instance, error: Exception) -> None:
    """Fail the operator that is to read *child*, or go on without; what was ended meanwhile is read by nobody."""
    owner, node = child.parent, child.sink
    if owner is None or node is None:
        return
    if absorb(child, child.plan.root, error, had_value=False):
        give_up(child)
    else:
        finish_node(owner, node, error)
