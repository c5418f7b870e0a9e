"""Which queries can run per key, and what is compiled for one key.

A query written for all events is `source(...)`, operators without state, `group_by(key)`, what happens to each group,
and operators without state behind it. Run on the events of one key alone it emits what it emits for that key among all
others; that is checked here on the plan, operator by operator, and everything else is refused. A query written for one
key (*per_key*) may do anything, since nobody but its key is there. Either way the *whole* query runs for each key:
``g.key`` answers, a group may end and begin anew. Cutting the inside of the group out instead would be a second meaning
of every operator around it; only chains of linear operators are cut out (`straight`), where nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from reliable_rx.errors import QueryRefused
from reliable_rx.limits import Limits
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.operators.filtering import Filter, IgnoreElements, WhereKey
from reliable_rx.operators.flatten import FlatMap, MergeAll
from reliable_rx.operators.grouping import GroupBy
from reliable_rx.operators.mapping import Map
from reliable_rx.operators.merge_concat import Merge
from reliable_rx.query.identity import content_hash
from reliable_rx.query.query import Node, Query, SourceLeaf, SymbolLeaf
from reliable_rx.query.refusal import refuse_foreign
from reliable_rx.query.symbols import Symbol
from reliable_rx.runtime.plan import NO_LIMITS, Plan, PlanNode
from reliable_rx.runtime.settings import settings_of
from reliable_rx.runtime.signatures import Signature
from spark_bridge.keyed.editing import signatures_of

STATELESS = (Map, Filter, WhereKey, IgnoreElements)
"""Operators that look at one element at a time and never end the sequence: one key cannot tell that others are."""


@dataclass(frozen=True)
class KeyedQuery:
    """A query that runs once per key.

    >>> import reliable_rx as rx
    >>> KeyedQuery(rx.source("trades").group_by(lambda t: t.symbol).flat_map(lambda g: g.count())).sources
    ('trades',)
    >>> KeyedQuery(rx.source("trades").count())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    reliable_rx.errors.QueryRefused: /count works on the events of all keys, ...

    With *per_key* the query is written for the events of one key, and *reads* names sources that only its selectors
    subscribe to. With *event_time* its clock follows the time of its
    events, otherwise the time of the batches. *Raises* `QueryRefused` with the path of what cannot run per key.
    """

    query: Query[Any]
    per_key: bool = False
    event_time: bool = False
    limits: Limits = NO_LIMITS
    reads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise QueryRefused(
                f"{type(self.query).__name__} is not a query: begin with reliable_rx.source(...)", path="/"
            )
        refuse_foreign(self.written)
        refuse_calls(self.written)
        if not self.sources:
            raise QueryRefused("the query reads no source, so no key would ever begin it", path=self.written.root.path)
        if not self.per_key:
            check_grouped(self.written)

    def __getstate__(self) -> dict[str, Any]:
        identity = self.identity
        return {
            "query": self.query, "per_key": self.per_key, "event_time": self.event_time, "limits": self.limits,
            "reads": self.reads, "identity": identity,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def identity(self) -> str:
        """What the query does, as a name that state is stored under."""
        return f"{content_hash(self.query.node)}, {self.limits}"

    @property
    def manner(self) -> dict[str, str]:
        """How the query is run: what an edit cannot change."""
        form, clock = "per key" if self.per_key else "grouped", "event time" if self.event_time else "time of batches"
        return {"form": form, "clock": clock}

    @cached_property
    def signatures(self) -> list[Signature]:
        """What the operators keep, by path."""
        return signatures_of(self.plan)

    @cached_property
    def written(self) -> Plan:
        """The plan of the query as it was written."""
        return Plan(self.query.node, limits=self.limits, symbolic=True)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The sources that the query reads, in the order of their names."""
        return tuple(sorted({*self.written.sources, *self.reads}))

    @cached_property
    def key(self) -> RunningKey:
        """The key at work."""
        return RunningKey()

    @cached_property
    def plan(self) -> Plan:
        """The whole plan, for one key."""
        node = self.query.node if self.per_key else checked(self.query.node, find_group(self.written).op, self.key)
        return Plan(node, limits=self.limits, symbolic=True)

    @cached_property
    def chain(self) -> Chain | None:
        """The plan as one chain of linear operators, if it comes to that."""
        return own_chain(self.written) if self.per_key else group_chain(self.written, self.key)


class RunningKey:
    """The key whose query is at work: what stands for a group while it is."""

    key: Hashable = None

    def check(self, found: Hashable) -> None:
        """*Raises* `QueryRefused` if an event belongs to another group than its row belongs to."""
        if found != self.key:
            raise QueryRefused(
                f"an event in the rows of key {cut(self.key)} is in group {cut(found)}: let key=... name the columns "
                f"that group_by reads",
                path="/group_by",
            )


@dataclass(frozen=True)
class Chain:
    """Linear operators in a row: those *before* the group's own, and *all* of them."""

    all: Plan
    before: Plan
    symbol: Symbol | None
    grouped: bool
    shape: Signature


def refuse_calls(plan: Plan) -> None:
    """*Raises* `QueryRefused` for what asks the world outside: nobody on Spark waits for the answers."""
    for node in plan.walk():
        if node.op.calls_out:
            raise QueryRefused(
                f"{node.path} calls out, and a Spark batch has nobody who waits for an answer: call before or behind "
                f"Spark",
                path=node.path,
            )


# -- the shape of a query for all events


def check_grouped(plan: Plan) -> None:
    """*Raises* `QueryRefused` for what would have to see several keys."""
    joint = first_other(plan.root)
    if isinstance(joint.op, GroupBy):
        raise refusal(joint, "emits groups, which are no values: put flat_map behind it")
    if not isinstance(joint.op, (FlatMap, MergeAll)):
        behind = any(isinstance(node.op, GroupBy) for node in upstream(joint))
        where = "behind the groups and would see what all keys emit" if behind else "on the events of all keys"
        raise refusal(joint, f"{'stands' if behind else 'works'} {where}")
    if isinstance(joint.op, MergeAll) and joint.op.max_concurrent is not None:
        raise refusal(joint, "lets some groups wait for others (max_concurrent=...)")
    group = first_other(joint.inputs[0])
    if not isinstance(group.op, GroupBy):
        raise refusal(group, "works on the events of all keys")
    if group.op.groups_max is not None:
        raise refusal(group, "counts the groups of all keys (groups_max=...); use ttl_s to let idle ones go")
    for node in upstream(group):
        if node is not group and not isinstance(node.op, (*STATELESS, Merge, SourceLeaf)):
            raise refusal(node, "stands before the groups and works on the events of all keys")
    for node in (inside for each in plan.nodes if each.template is not None for inside in each.template.walk()):
        if isinstance(node.op, SourceLeaf):
            raise refusal(node, f"reads all of {node.op.source!r} in each group: merge it in before group_by")


def refusal(node: PlanNode, why: str) -> QueryRefused:
    return QueryRefused(
        f"{node.path} {why}, and Spark runs a query per key: put it inside group_by(key).flat_map(...), host the query "
        f"in an evaluator, or say per_key=True if it is written for the events of one key",
        path=node.path,
    )


def first_other(node: PlanNode) -> PlanNode:
    """Return the first node upstream, *node* included, that is more than a function of single elements."""
    while isinstance(node.op, STATELESS):
        node = node.inputs[0]
    return node


def upstream(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for each in node.inputs:
        yield from upstream(each)


def find_group(plan: Plan) -> PlanNode:
    """Return the grouping of a plan that `check_grouped` has let pass."""
    return first_other(first_other(plan.root).inputs[0])


# -- what runs


def checked(node: Node, group: Any, key: RunningKey) -> Node:
    """Return the plan with the key of each event checked where it is grouped."""
    op = replace(node.op, key_mapper=CheckedMapper(node.op.key_mapper, key)) if node.op is group else node.op
    return Node(op, tuple([checked(each, group, key) for each in node.inputs]))


@dataclass(frozen=True, eq=False)
class CheckedMapper:
    """A key mapper that knows which key must come out."""

    mapper: Callable[[Any], Hashable]
    key: RunningKey

    def __call__(self, value: Any) -> Hashable:
        found = self.mapper(value)
        self.key.check(found)
        return found


@dataclass(frozen=True, eq=False)
class Group(Linear, name="group"):
    """What is left of a grouping where there is one key: the check of it, and the mapping of elements."""

    key_mapper: Callable[[Any], Hashable]
    element_mapper: Callable[[Any], Any] | None
    key: RunningKey

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        self.key.check(self.key_mapper(value))
        out.append(value if self.element_mapper is None else self.element_mapper(value))

    def on_batch(self, state: None, values: Any, out: list[Any]) -> None:
        key, key_mapper, element_mapper = self.key.key, self.key_mapper, self.element_mapper
        for value in values:
            if (found := key_mapper(value)) != key:
                self.key.check(found)
            out.append(value if element_mapper is None else element_mapper(value))


def group_chain(plan: Plan, key: RunningKey) -> Chain | None:
    """Return the chain of a query for all events, if each group is read by linear operators only."""
    behind: list[Any] = []
    node = plan.root
    while isinstance(node.op, STATELESS):
        behind.append(node.op)
        node = node.inputs[0]
    group = node.inputs[0] if node.inputs else node
    if not isinstance(node.op, FlatMap) or type(group.op) is not GroupBy or node.template is None:
        return None
    before, inside = linear_chain(group.inputs[0]), linear_chain(node.template.root)
    if before is None or inside is None or not isinstance(inside[0], SymbolLeaf):
        return None
    head = [*before, Group(group.op.key_mapper, group.op.element_mapper, key)]
    whole = [*head, *inside[1:], *reversed(behind)]
    every = compiled(whole, plan.limits)
    shape = shape_of(every, node.template)
    return Chain(every, compiled(head, plan.limits), node.template.symbol, grouped=True, shape=shape)


def own_chain(plan: Plan) -> Chain | None:
    """Return the chain of a query for one key, if it is one."""
    ops = linear_chain(plan.root)
    if ops is None:
        return None
    every = compiled(ops, plan.limits)
    return Chain(every, compiled(ops[:1], plan.limits), None, grouped=False, shape=shape_of(every, plan))


def shape_of(chain: Plan, plan: Plan) -> Signature:
    """Return the signature of a chain's row: what keeps something, under the paths that it has in *plan*.

    Each entry has a fifth part, the settings that a state depends on: a chain's row has no place for them.
    """
    paths = {id(node.op): node.path for node in plan.nodes}
    kept = [node.op for node in chain.slots]
    return tuple(
        (paths[id(op)], op.name, op.version, state_fields(type(op)), settings_of(op))  # type: ignore[misc]
        for op in kept
    )


def linear_chain(node: PlanNode) -> list[Any] | None:
    """Return a leaf and the linear operators up to *node*; None if there is anything else."""
    found = []
    while isinstance(node.op, Linear):
        found.append(node.op)
        (node,) = node.inputs
    if not isinstance(node.op, (SourceLeaf, SymbolLeaf)):
        return None
    return [node.op, *reversed(found)]


def compiled(ops: list[Any], limits: Limits) -> Plan:
    node = Node(ops[0])
    for op in ops[1:]:
        node = Node(op, (node,))
    return Plan(node, limits=limits, symbolic=True)
