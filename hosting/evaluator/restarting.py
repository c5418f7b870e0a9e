"""Running queries again that have ended: without their state, under the ids that follow.

One is ended and created within one group of turns, so that a crash leaves both or neither; so are several that are
named together. What it read before is not read again: it goes on with the next events, as a query does that an edit has
revived. Rejected: putting the state back to before the failure (the turn is journalled with what came of it; the same
event would end it again).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from hosting.engine.cycles import there_are
from hosting.engine.ended_readers import in_reading_order
from hosting.engine.hosted_query import FAILED, Standing
from hosting.engine.turns import Create, Dispose
from hosting.evaluator.creating import create_declared
from hosting.reports.begun_again import afresh_told
from reliable_rx.errors import QueryDisposed, QueryRefused
from reliable_rx.names import check_query, query_of

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.evaluator.evaluator import QueryEvaluator

LOG = logging.getLogger("reliable_rx")


def restart(evaluator: QueryEvaluator, names: Sequence[str]) -> None:
    """End the queries *names* and create them again, as they are declared or else stored. *Raises* `KeyError`."""
    with evaluator.inside.change("restart"), evaluator.inside:
        standing = evaluator.engine.standing
        for name in names:
            if isinstance(name, str):
                check_query(name)
            if name not in standing:
                raise KeyError(f"no query is called {name!r}; {there_are(standing, name)}")
        turns = [_creation(evaluator, name) for name in in_reading_order(evaluator.engine, names)]
        for turn in reversed(turns):
            evaluator.turns.take(Dispose(turn.name, turn.time))
        for turn in turns:
            evaluator.late.take_create(turn)
        follow(evaluator)
    evaluator.flush()


def begin_declared(evaluator: QueryEvaluator) -> None:
    """Create what was declared before the start, and run those again that had failed with what begins anew."""
    with evaluator.late.shut_for_some():
        held = evaluator.late.held_back()
        for name, source in held.items():
            LOG.warning("query %r was edited and waits for a restart, as what is new in %r does", name, source)
        create_declared(evaluator, but=held)
        follow(evaluator, starting=True)


def follow(evaluator: QueryEvaluator, *, starting: bool = False) -> None:
    """Run those again that have failed with the end of a query which has begun anew since: theirs was no fault.

    At the *starting* all are looked at: a kill may have come between the one and the other.
    """
    engine = evaluator.engine
    begun: Container[str] = engine.standing if starting or (engine.begun and engine.has_refused) else engine.begun
    while begun:
        engine.begun = {}
        for name, origin in left_behind(engine, begun).items():
            how = f"runs again with {origin!r}"
            try:
                with afresh_told(evaluator.engine.reports, name, how):
                    evaluator.late.take_create(_creation(evaluator, name))
            except QueryRefused as error:  # it reads one that is not there, or only its app has its clock
                engine.has_refused = True
                LOG.warning("query %r stays as it ended, though %r runs again: %s", name, origin, error.message)
        begun = engine.begun


def follow_late(evaluator: QueryEvaluator) -> bool:
    """Run those again that have failed in the turns just taken with an end that was told late; return if there are."""
    late = bool(evaluator.engine.begun)
    if late:
        follow(evaluator)
    return late


def left_behind(engine: QueryEngine, begun: Container[str]) -> dict[str, str]:
    """Return who has failed with the end of a query that has *begun* and has not failed since, and of which.

    A source may have the name of one that was disposed of. They are in the order in which they read each other: one
    that ran before what it reads would fail with it again.
    """
    failed = {name: each for name, each in engine.standing.items() if each.status == FAILED}
    origins = {name: each.failure.origin for name, each in failed.items() if each.failure is not None}
    return {
        name: origins[name]
        for name in in_reading_order(engine, origins)
        if _goes_on(engine, failed[name], query_of(origins[name]), begun)
    }


def _goes_on(engine: QueryEngine, standing: Standing, origin: str, begun: Container[str]) -> bool:
    """Whether *origin*, with which *standing* has failed, has *begun* since, or is a source by now."""
    there = engine.standing.get(origin)
    if there is None:
        return origin in engine.live and origin not in engine.failures and isinstance(standing.error, QueryDisposed)
    return origin in begun and there.error is None


def _creation(evaluator: QueryEvaluator, name: str) -> Create:
    engine, time = evaluator.engine, evaluator.turns.now()
    declared = evaluator.declared.get(name)
    if declared is not None:
        query, policy, limits, clock = declared
        return engine.creation(name, query, time=time, policy=policy, limits=limits, clock=clock)
    standing = engine.standing[name]
    clock = getattr(standing.clock, "spec", None)
    if standing.clock is not None and clock is None:
        raise QueryRefused(
            f"{name!r} is on event time, and its clock is not stored with a query that has ended: give the app that "
            f"declares it",
            path="/",
        )
    return engine.creation(
        name, standing.query, time=time, policy=standing.policy, limits=standing.plan.limits, clock=clock
    )
