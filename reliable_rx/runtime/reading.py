"""How a leaf reads an inner sequence: which subject it means, in whose row its own lives, and who comes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reliable_rx.class_of import bases_of, is_a
from reliable_rx.functions.shared_elements import hands_on
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.operator import Stage
from reliable_rx.query.held import slots
from reliable_rx.query.query import HubLeaf, Inner, InnerLeaf, Query, SymbolLeaf, walk
from reliable_rx.runtime.hub import find_hub, join, subject_of_hub
from reliable_rx.runtime.opening import is_kept
from reliable_rx.runtime.outliving import outlives, rows_within

if TYPE_CHECKING:
    from reliable_rx.runtime.inner_sequences import Subject
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode


LOOKED_INTO_MAX = 1000
"""So many parts of an element are looked into for groups and windows."""


def subscribe_inner(instance: Instance, leaf: PlanNode, order: int) -> None:
    """Subscribe a leaf to the subject it refers to, or end it if that has ended."""
    if isinstance(leaf.op, HubLeaf):
        remember_order(instance, leaf, order)
        join(instance, leaf, order, is_kept)
        return
    subject = subject_of(instance, leaf)
    if subject.ended:
        instance.end_leaf(leaf, subject.error)
    else:
        remember_order(instance, leaf, order)
        attach(instance, subject)
        subject.add((order, instance, leaf))


def attach(instance: Instance, subject: Subject) -> None:
    """Let the row of a shared sub-plan live in the row of the group it reads, unless it outlives its sequence."""
    reads_own_group = isinstance(instance.outer, Inner) and instance.outer.subject is subject
    reads_own_group = reads_own_group and not outlives(instance)
    if reads_own_group and instance.unit is instance and instance.parent is subject.owner is not None:
        instance.world.forget(instance)
        instance.saved = None
        instance.unit = subject
        instance.world.touch(subject)


def subject_of(instance: Instance, leaf: PlanNode) -> Subject:
    """Return the subject that an inner leaf reads."""
    if isinstance(leaf.op, HubLeaf):
        return subject_of_hub(*find_hub(instance, leaf))
    if isinstance(leaf.op, SymbolLeaf):
        while instance.plan.reads is not leaf.op.symbol:  # a selector within a selector reads what the outer one got
            instance = instance.parent  # type: ignore[assignment]
        return instance.outer.subject  # type: ignore[no-any-return]
    op: InnerLeaf = leaf.op  # type: ignore[assignment]
    return op.subject


def remember_order(instance: Instance, leaf: PlanNode, order: int) -> None:
    """Note when a leaf subscribed, so that it takes the same place again."""
    if instance.orders is None:
        instance.orders = {}
    instance.orders[leaf.index] = order


def opens(node: PlanNode) -> bool:
    """Whether *node* may have inner subscriptions: one that owns inner sequences has them if it makes some itself."""
    return not node.op.yields_inner or type(node.op).inner is not Stage.inner  # type: ignore[attr-defined]


def inner_in(outer: Any) -> Iterator[Subject]:
    """Yield the groups and windows that *outer*, for which an inner sequence was opened, is or was made of."""
    waiting, seen = [outer], set[int]()
    while waiting:
        at = waiting.pop()
        if is_a(at, Query):
            yield from (each.op.subject for each in walk(at.node) if isinstance(each.op, InnerLeaf))
        elif id(at) not in seen and len(seen) < LOOKED_INTO_MAX:
            seen.add(id(at))
            waiting += held_by(at)


def read_in(child: Instance) -> Iterator[Subject]:
    """Yield the groups and windows for which an inner sequence was opened, or one within it."""
    yield from inner_in(child.outer)
    for row in rows_within(child):
        yield from read_in(row)


def held_by(outer: Any) -> Iterable[Any]:
    """Return what a container or an object of the user's holds."""
    if is_a(outer, dict):
        return dict.values(outer)
    if is_a(outer, (tuple, list, set, frozenset, deque)):
        return outer  # type: ignore[no-any-return]
    names = [name for kind in bases_of(type(outer)) for name in slots(kind)]
    return [each for name in ("__dict__", *names) for each in values_of(outer, name)]


def values_of(outer: Any, name: str) -> Iterable[Any]:
    """Return what *outer* holds in its `__dict__`, or under another *name*."""
    try:
        found = object.__getattribute__(outer, name)
    except BaseException as raised:  # there is none, or a class that makes something up
        let_through(raised)
        return ()
    return dict.values(found) if name == "__dict__" and type(found) is dict else (found,)


def is_given_others(
    instance: Instance, reader: PlanNode, opener: PlanNode, outer: Any, before: Sequence[str] | None = None
) -> bool:
    """Whether *reader* is given another thing today than *outer*, which it was given for what *opener* had opened.

    It is where what comes was handed on and something is made of it now, or the other way round, and where other
    operators make something of it than those that did *before*, as far as they are known. What one `map` makes of a
    group is asked: it may be that group.
    """
    made = between(reader, opener)
    if made is None:
        return False
    names = [each.op.name for each in made]
    if names == before and not (is_a(outer, Inner) and names == ["map"]):
        return False
    if not is_a(outer, Inner):  # a query that was made of a group is compared by its plan
        return not made or (before is not None and not is_a(outer, Query))
    if len(made) != 1 or made[0].op.name != "map":
        return bool(made)
    try:
        return not is_a(instance.ops[made[0].index].mapper(outer), Inner)
    except BaseException as raised:  # as it may for what is no group
        let_through(raised)
        return False


def cannot_read(instance: Instance, reader: PlanNode, outer: Any) -> bool:
    """Whether the selector of *reader* raises for *outer*, made of a group: it is given another thing today."""
    if is_a(outer, Inner):
        return False
    try:
        instance.plan_child(reader, outer)
    except BaseException as raised:  # a selector may raise anything
        let_through(raised)
        return True
    return False


def between(reader: PlanNode, opener: PlanNode) -> list[PlanNode] | None:
    """Return what makes something else of what *opener* emits on its way to *reader*, the last one first."""
    made: list[PlanNode] = []
    at: PlanNode | None = reader.inputs[0] if reader.inputs else None
    while at is not None and at is not opener:
        if isinstance(at.op, HubLeaf):
            at = reader.plan.hubs.get(at.op.token)
            continue
        if not (hands_on(at.op) or at.op.is_hub):
            made.append(at)
        at = at.inputs[0] if at.inputs else None
    return None if at is None else made


def stands_behind(reader: PlanNode, node: PlanNode) -> bool:
    """Whether what *node* emits comes to *reader*, be it by way of what is shared."""
    if reader.mask & node.bit:
        return True
    leaves = (leaf.op for leaf in reader.plan.leaves if reader.mask & leaf.bit and isinstance(leaf.op, HubLeaf))
    hubs = (reader.plan.hubs.get(leaf.token) for leaf in leaves)
    return any(hub is not None and stands_behind(hub, node) for hub in hubs)
