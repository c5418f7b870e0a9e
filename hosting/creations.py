"""Creation of several queries in one call: all of them are checked before the first one is created.

So a call that is refused has changed nothing, and may be made again when the query that is named has been mended. A
query may read those before it in the same call, which is why they are known while the others are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from hosting.given import check_new
from hosting.turn import Create
from reliable_rx.choices import Policy
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.names import check_name

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator


class How(TypedDict):
    """How queries are hosted."""

    policy: Policy
    limits: Limits
    clock: EventTime | None


def creations(evaluator: QueryEvaluator, queries: Mapping[str, Any], how: How) -> list[Create]:
    """Return the turns that create *queries*. *Raises* `QueryRefused` if one of them cannot be."""
    engine, time, turns = evaluator.engine, evaluator._now(), list[Create]()
    coming = engine.readers.coming
    try:
        for name, query in queries.items():
            turn = engine.creation(check_name("query", name), query, time=time, **how)
            turns.append(turn)
            coming[turn.name] = turn
    finally:
        coming.clear()
    return turns


def declare(evaluator: QueryEvaluator, queries: Mapping[str, Any], how: How) -> None:
    """Note *queries* for the start, or none of them. *Raises* `QueryRefused`, `ValueError` for a name that is taken."""
    engine, noted = evaluator.engine, list[str]()
    try:
        for each, query in queries.items():
            name = check_new("query", each, evaluator.intake.sources, evaluator.declared)
            noted.append(name)
            engine.suspended.declare(name, query, **how)
            evaluator.declared[name] = (query, how["policy"], how["limits"], how["clock"])
    except BaseException:
        for name in noted:
            for known in (evaluator.declared, engine.suspended.declared, engine.readers.declared):
                known.pop(name, None)
        raise


def create_declared(evaluator: QueryEvaluator) -> None:
    """Create what was declared before the start and is not there yet."""
    for name, (query, policy, limits, clock) in evaluator.declared.items():
        for turn in creations(evaluator, {name: query}, How(policy=policy, limits=limits, clock=clock)):
            evaluator._create(turn)
