"""Attributes in which the objects of an edited query differ: one that holds a time makes each start an edit.

A method's object travels with its query, whole. So all that it holds says which query it is, also what no code reads;
the report of the edit names it. Rejected: to leave out what no method reads (a method may hand its object on).
"""

from __future__ import annotations

from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from hosting.engine.plan_names import do_the_same
from reliable_rx.functions.reach import is_own
from reliable_rx.interrupts import let_through
from reliable_rx.query.held import held
from reliable_rx.query.identity import hash_of
from reliable_rx.query.query import Node, parameters

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.hosted_query import Standing

NODES_MAX, NAMED_MAX = 1000, 5


def note_of(engine: QueryEngine, before: Standing, after: Standing) -> str:
    """Return what to say of the objects in which two queries differ; nothing if their contents are the same."""
    ids = engine.plans.ids
    if do_the_same(ids[before.plan], ids[after.plan]):
        return ""
    try:
        names = sorted(differing(before.plan.query, after.plan.query))
    except BaseException as error:  # objects are the user's
        let_through(error)
        return ""
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"what its objects hold differs: {', '.join(names[:NAMED_MAX])}{more}" if names else ""


def differing(before: Node, after: Node) -> set[str]:
    """Name the attributes, with their class, in which the objects at the same places of two plans differ."""
    waiting, seen, found = [(before, after)], set[tuple[int, int]](), set[str]()
    while waiting and len(seen) < NODES_MAX:
        one, other = waiting.pop()
        if (id(one), id(other)) in seen or one.op.name != other.op.name:
            continue
        seen.add((id(one), id(other)))
        waiting += zip(one.inputs, other.inputs, strict=False)
        mine, its = parameters(one.op), parameters(other.op)
        for name in mine.keys() & its.keys():
            found |= _differing(_receiver(mine[name]), _receiver(its[name]))
    return found


def _receiver(value: Any) -> Any:
    """Return the object of the user's that a parameter calls; None if it is none."""
    while isinstance(value, (partial, MethodType)):
        value = value.func if isinstance(value, partial) else value.__self__
    return value if is_own(type(value)) else None


def _differing(one: Any, other: Any) -> set[str]:
    if one is None or type(one).__qualname__ != type(other).__qualname__:
        return set()
    mine, its = held(one), held(other)
    return {
        f"{type(other).__qualname__}.{name}"
        for name in mine.keys() | its.keys()
        if name not in mine or name not in its or hash_of(mine[name]) != hash_of(its[name])
    }
