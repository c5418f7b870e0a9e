"""Branches of a query that read the same events and meet again in an operator that pairs by position.

A host that leaves out an event at which a function raises leaves out what the branch of that function would have made
of it, and no more: what stands in the other branches has it. An operator that pairs the n-th elements (`zip`) is out of
step from then on. Here is said which operators stand in one such branch only. Rejected: to undo the event in the other
branches, which takes a copy of the row before every event; and to leave a gap for the operator that pairs, since what
stands between (`filter`, `flat_map`) does not say how many elements the event would have made.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.query.query import HubLeaf, InnerLeaf, SourceLeaf, SymbolLeaf
from reliable_rx.query.symbols import is_known

if TYPE_CHECKING:
    from reliable_rx.runtime.plan import Plan, PlanNode


SCALARS = frozenset((int, float, complex, bool, str, bytes, type(None)))


SOURCE = "source"
ANYTHING = "anything"
"""The origin of what is made at run time."""
OURS = "reliable_rx."
"""Where the operators of this library are."""


class Part(NamedTuple):
    """A node with all that stands before it: each by a number for what it is, and the origins of its events."""

    number: int
    steps: dict[int, PlanNode]
    origins: frozenset[Hashable]


class Alone(NamedTuple):
    """A node in one branch of an operator that pairs by position, and what it and the others are fed by."""

    node: PlanNode
    pairing: PlanNode
    origins: frozenset[Hashable]
    others: frozenset[Hashable]


def alone(plan: Plan) -> Iterator[Alone]:
    """Yield each node that stands in one of the branches that an operator of *plan* pairs by position."""
    parts = Parts()
    for node in [each for each in plan.nodes if each.op.by_position]:
        for mine, others in permutations(map(parts.before, node.inputs), 2):
            for number, step in mine.steps.items():
                if number not in others.steps:
                    yield Alone(step, node, parts.before(step).origins, others.origins)


def out_of_step(plan: Plan) -> Iterator[tuple[PlanNode, PlanNode]]:
    """Yield each node that can put an operator of *plan* that pairs by position out of step, with that operator."""
    return ((each.node, each.pairing) for each in alone(plan) if each.origins & each.others - {ANYTHING})


def read_beside(plan: Plan) -> dict[PlanNode, frozenset[Hashable]]:
    """Return for each node that stands in one such branch alone what the other branches read.

    What its inner sequences read is not known before they are made: by that they may be branches of the same events.
    """
    found: dict[PlanNode, frozenset[Hashable]] = {}
    for each in alone(plan):
        found[each.node] = found.get(each.node, frozenset()) | each.others
    return found


def may_read(origins: frozenset[Hashable], source: str) -> bool:
    """Whether one of *origins* may bring the events of *source*: of a group or a shared part that is not known."""
    return ANYTHING in origins or any(
        isinstance(each, tuple) and (each[0] != SOURCE or each[1] == source) for each in origins
    )


class Parts:
    """The parts of a plan. What is written twice, with operators that do the same on the same inputs, is one part."""

    def __init__(self) -> None:
        self._known: dict[PlanNode, Part] = {}
        self._numbers: dict[Hashable, int] = {}

    def before(self, node: PlanNode) -> Part:
        """Return the part that ends with *node*; a chain may be too long to recur into."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            inputs, inner = feeding(at), [] if at.template is None else [at.template.root]
            left = [each for each in (*inputs, *inner) if each not in self._known]
            waiting += left
            if not left:
                parts = ([self._known[each] for each in nodes] for nodes in (inputs, inner))
                self._known[waiting.pop()] = self._part(at, *parts)
        return self._known[node]

    def _part(self, node: PlanNode, before: Sequence[Part], inner: Sequence[Part]) -> Part:
        what = identity_of(node)
        number = self._numbers.setdefault((what, *[each.number for each in before]), len(self._numbers))
        steps, origins = {number: node}, frozenset[Hashable]()
        for each in before:
            steps |= each.steps
        for each in (*before, *inner):
            origins |= each.origins
        if not before:
            origins |= {what}
        return Part(number, steps, origins | {ANYTHING} if makes_inner(node) else origins)


def identity_of(node: PlanNode) -> Hashable:
    op = node.op
    if isinstance(op, SourceLeaf):
        return SOURCE, op.source
    if isinstance(op, HubLeaf):
        return "shared", op.token
    if isinstance(op, SymbolLeaf):
        return "group", id(op.symbol)
    if isinstance(op, InnerLeaf):
        return "group", id(op.subject)
    return sameness(op) if node.inputs else id(op)  # two that begin alike have not the same events


def sameness(value: Any) -> Hashable:
    """Return what is equal for operators that do the same: of one kind, with arguments that are one object or number.

    >>> from reliable_rx import operators as ops
    >>> sameness(ops.map(len)) == sameness(ops.map(len)), sameness(ops.take(2)) == sameness(ops.take(3))
    (True, False)
    """
    if isinstance(value, Operator) and is_dataclass(value):
        try:
            return type(value), *(sameness(getattr(value, each.name)) for each in fields(value))
        except AttributeError:  # one of a plan that many run with operators of their own
            return id(value)
    if type(value) is tuple:
        return tuple(map(sameness, value))
    return (type(value), repr(value)) if type(value) in SCALARS else id(value)


def feeding(node: PlanNode) -> Sequence[PlanNode]:
    """Return what *node* is fed by: its inputs, the hub that a leaf reads, or what its group is made of."""
    op, plan = node.op, node.plan
    if isinstance(op, HubLeaf):
        while True:
            hub, opener = plan.hubs.get(op.token), opener_of(plan)
            if hub is not None:
                return (hub,)
            if opener is None:
                return ()
            if opener.op.is_hub and opener.template is plan and not opener.op.counts_readers:
                return opener.inputs
            plan = opener.plan
    if isinstance(op, SymbolLeaf):
        while plan.reads is not op.symbol and plan.around is not None:
            plan = plan.around
        opener = opener_of(plan)
        return () if opener is None else opener.inputs
    return node.inputs


def makes_inner(node: PlanNode) -> bool:
    """Whether a function makes at run time what *node* reads: no shared sub-plan says what that is."""
    kind = type(node.op)
    if not issubclass(kind, Stage) or (kind.inner is Stage.inner and kind.__module__.startswith(OURS)):
        return False
    return node.template is None or not is_known(node)


def opener_of(plan: Plan) -> PlanNode | None:
    """Return the operator around a plan that opens its inner sequences; None for a whole query."""
    return None if plan.around is None else plan.around.by_path[plan.prefix.removesuffix("/inner")]
