"""What a query must be to be hosted: all that can be known before its first event is said here, once, by name.

Un-hosted, an operator takes what RxPY's takes, and what is wrong shows when an event comes. A hosted query runs for
months, so that what can never work is refused when it is created: one sentence with a remedy. Each plan is looked at
once, when it is compiled, and not each query that shares it.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, get_args

from reactivex import Observable

from hosting.engine.plans import Plans
from hosting.engine.skipping import refuse_out_of_step
from reliable_rx.errors import QueryRefused
from reliable_rx.limits import Limits
from reliable_rx.operators.contract.arguments import cut, fault_of, half_a_query
from reliable_rx.operators.contract.choices import Policy, check_choice
from reliable_rx.query.query import Node, Query
from reliable_rx.query.refusal import foreign_message, refuse, refuse_emitted
from reliable_rx.query.size import check_size
from reliable_rx.query.symbols import yields_inner
from reliable_rx.runtime.plan import Plan

POLICIES = get_args(Policy)


def no_query(name: str, what: Any) -> str:
    """Say what is wrong with *what*, which should be a query."""
    if isinstance(what, Observable):
        return f"query {name!r}: {foreign_message(what, '/')}"
    half = half_a_query(what, "reliable_rx.source(...)")
    if isinstance(what, FunctionType):
        half = "a function, not a query: call it if it makes one, or begin with reliable_rx.source(...)"
    return f"{name!r} is {half or f'{type(what).__name__}, not a query: begin with reliable_rx.source(...)'}"


def check_how(name: str, policy: str, limits: Limits | Any) -> None:
    """*Raises* `ValueError` for a policy and `TypeError` for limits that are none, by the name of their query."""
    if not isinstance(limits, Limits):
        raise TypeError(f"the limits of {name!r} must be Limits(...), got {cut(limits)}")
    check_choice(f"the policy of {name!r}", policy, Policy)


def check_declared(name: str, query: Query[Any]) -> None:
    """*Raises* `QueryRefused` for what is seen to work never before anything is compiled: the line is at hand.

    Functions are not looked into: what they name may not be defined yet.
    """
    try:
        check_size(query.node)
        waiting, seen = [query.node], set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) not in seen:  # what is used twice each time has no end
                seen.add(id(node))
                _check_node(node)
                waiting += node.inputs[::-1]
        if yields_inner(query.node):
            refuse_emitted(f"/{query.node.op.name}")
    except QueryRefused as refused:
        raise QueryRefused(f"query {name!r}: {refused.message}", path="/") from refused


def _check_node(node: Node) -> None:
    if (fault := fault_of(node.op)) is not None:
        raise QueryRefused(f"{node.op.name} cannot work: {fault}", path="/")
    refuse(node.op, f"/{node.op.name}")


def admit(plans: Plans, name: str, query: Any, policy: str, limits: Limits) -> tuple[Plan, tuple[Any, ...]]:
    """Return the plan of the query *name*, and its routing keys. *Raises* `QueryRefused` for what cannot be hosted."""
    if not isinstance(query, Query):
        raise QueryRefused(no_query(name, query), path="/")
    if type(limits) is not Limits or policy not in POLICIES:
        check_how(name, policy, limits)
    try:
        plan, keys = plans.compile(query.node, limits)
        if policy != "fail":
            refuse_out_of_step(plan, policy)
        return plan, keys
    except QueryRefused as refused:
        raise QueryRefused(f"query {name!r}: {refused.message}", path=refused.path) from refused
