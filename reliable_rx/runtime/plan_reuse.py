"""Queries that are alike: the same kinds of operators in the same places, with other parameters.

What a selector returns for one element is nearly always alike to what it returned for the one before. Paths, wiring and
the layout of a row follow from the kinds alone, so one plan runs all queries that are alike, and an instance brings the
operators of its own. The nodes of such a plan know the kind of their operator only: a parameter read from a node would
be another query's. Rejected: a plan for each query, which costs more than all else that opening it takes, and a copy of
the nodes for each, which still leaves cycles to Python's collector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reliable_rx.functions.shared_parts import shared_anywhere, shared_within
from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.query.query import LEAVES, Node, Query, SourceLeaf, walk
from reliable_rx.query.refusal import may_refuse, refuse
from reliable_rx.query.symbols import chosen_once
from reliable_rx.runtime.hub import hubs_made

if TYPE_CHECKING:
    from reliable_rx.runtime.plan import Plan

MADE_MAX = 8
"""How many plans for queries that are not alike are kept for one selector."""


class Alike:
    """What a query must have to be run by a plan, and what is left to be checked of its parameters."""

    __slots__ = (
        "above", "arities", "before", "ends_freely", "found", "kinds", "latest", "leaf", "looked", "paths",
        "taken",
    )  # fmt: skip

    def __init__(self, plan: Plan) -> None:
        nodes = plan.nodes[::-1]
        self.kinds: list[type[Any]] = [type(node.op) for node in nodes]
        self.arities = [len(node.inputs) for node in nodes]
        self.above = self.kinds[:-1] if max(self.arities) <= 1 else None
        self.leaf = self.kinds[-1]
        self.paths = [node.path for node in plan.nodes]
        self.taken = {node.index: node.op for node in plan.nodes if parameters_matter(node.op)}
        """Those whose parameters matter, as they were last: a selector returns one and the same again and again."""
        self.looked = dict.fromkeys(self.taken, hubs_made())
        """How many shared parts there were when these were last looked at for those that they reach."""
        self.ends_freely = self.above is not None and nodes[0].index not in self.taken
        self.latest: Query[Any] | None = None
        self.found: list[Any] = []
        self.before: Any = None
        """What stands before the last operator of the latest, if that may have any parameters."""

    def operators(self, query: Query[Any]) -> list[Any] | None:
        """Return the operators of *query* in the order of the plan's nodes; None if it is not alike.

        *Raises* `QueryRefused` for parameters that no host takes.
        """
        if query is self.latest:
            return self.found
        inputs = query.inputs
        found: list[Any] | None
        if len(inputs) == 1 and inputs[0] is self.before and type(query.op) is self.kinds[0]:
            found = self.found.copy()  # the latest row has the one before
            found[-1] = query.op
        else:
            found = self._in_tree(query) if self.above is None else self._in_chain(query, self.above)
            if found is None or not self._take(found):
                return None
            self.before = inputs[0] if self.ends_freely and inputs else None
        self.latest, self.found = query, found
        return found

    def _take(self, found: list[Any]) -> bool:
        for index, taken in self.taken.items():
            if found[index] is not taken and not self._takes(index, found[index], taken):
                return False
        return True

    def _takes(self, index: int, op: Any, taken: Any) -> bool:
        if not takes_place(op, taken):
            return False
        if self.looked[index] != (made := hubs_made()):
            if selects(op) and shared_anywhere(op):
                return False
            self.looked[index] = made
        refuse(op, self.paths[index])
        self.taken[index] = op
        return True

    def _in_chain(self, query: Query[Any], above: list[type[Any]]) -> list[Any] | None:
        """Walk a query without branches, as nearly all are."""
        found: list[Any] = []
        at: Any = query
        for kind in above:
            op, inputs = at.op, at.inputs
            if type(op) is not kind or len(inputs) != 1:
                return None
            found.append(op)
            at = inputs[0]
        if type(at.op) is not self.leaf or at.inputs:
            return None
        found.append(at.op)
        found.reverse()
        return found

    def _in_tree(self, query: Query[Any] | Node) -> list[Any] | None:
        found: list[Any] = []
        waiting = [query]
        for kind, arity in zip(self.kinds, self.arities, strict=True):
            each = waiting.pop()
            if type(each.op) is not kind or len(each.inputs) != arity:
                return None
            found.append(each.op)
            waiting += each.inputs
        found.reverse()
        return found


def parameters_matter(op: Operator) -> bool:
    """Whether an operator of this kind can have parameters with which it needs another plan, or none will do."""
    return isinstance(op, SourceLeaf) or selects(op) or may_refuse(type(op))


def takes_place(op: Any, taken: Any) -> bool:
    """Whether *op* may stand where *taken* stood, which is of its kind."""
    if isinstance(op, SourceLeaf):
        return op.source == taken.source and op.key_mapper is None
    return not any(True for _ in shared_within(op))


def let_others_use(plan: Plan) -> None:
    """Let *plan* run all queries that are alike to its own, if nothing in it follows from parameters."""
    if not plan.hubs and all(follows_from_kinds(node) for node in walk(plan.query)):
        plan.alike = Alike(plan)
        for node in plan.nodes:
            if not node.leaf:
                node.op = object.__new__(type(node.op))


def follows_from_kinds(node: Node) -> bool:
    """Whether where *node* stands and its kind say all that a plan needs to know of it."""
    op = node.op
    if isinstance(op, LEAVES):
        return isinstance(op, SourceLeaf) and op.key_mapper is None
    chooses = isinstance(op, Stage) and bool(node.inputs) and chosen_once(node)
    return not (op.is_hub or op.counts_readers or op.calls_out or chooses)


def selects(op: Operator) -> bool:
    return isinstance(op, Stage) and type(op).inner is not Stage.inner
