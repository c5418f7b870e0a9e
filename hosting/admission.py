"""What a query must be to be hosted: all that can be known before its first event is said here, once, by name.

Un-hosted, an operator takes what RxPY's takes, and what is wrong shows when an event comes. A hosted query runs for
months, so that what can never work is refused when it is created: one sentence with a remedy. Each plan is looked at
once, when it is compiled, and not each query that shares it.
"""

from __future__ import annotations

from typing import Any

from hosting.plans import Plans
from hosting.standing import POLICIES
from reliable_rx.errors import QueryRefused
from reliable_rx.limits import Limits
from reliable_rx.plan import Plan
from reliable_rx.query import Query


def admit(plans: Plans, name: str, query: Any, policy: str, limits: Limits) -> tuple[Plan, tuple[Any, ...]]:
    """Return the plan of the query *name*, and its routing keys. *Raises* `QueryRefused` for what cannot be hosted."""
    if not isinstance(query, Query):
        raise QueryRefused(
            f"{name!r} is {type(query).__name__}, not a query: begin with reliable_rx.source(...)", path="/"
        )
    if policy not in POLICIES:
        raise ValueError(f"error policy must be one of {', '.join(POLICIES)}, got {policy!r}")
    try:
        return plans.compile(query.node, limits)
    except QueryRefused as refused:
        raise QueryRefused(f"query {name!r}: {refused.message}", path=refused.path) from refused
