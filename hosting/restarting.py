"""Running a query again that has ended: without its state, under the ids that follow.

It is ended and created within one group of turns, so that a crash leaves both or neither. What it read before is not
read again: it goes on with the next events, as a query does that an edit has revived. Rejected: putting the state back
to before the failure (the turn is journalled with what came of it; the same event would end it again).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hosting.afresh import afresh_told
from hosting.cycles import there_are
from hosting.standing import FAILED, Standing
from hosting.suspended import disposed
from hosting.turn import Create, Dispose
from reliable_rx.errors import QueryRefused, described
from reliable_rx.names import check_query

if TYPE_CHECKING:
    from hosting.engine import QueryEngine
    from hosting.evaluator import QueryEvaluator


def restart(evaluator: QueryEvaluator, name: str) -> None:
    """End the query *name* and create it again, as it is declared or else as it is stored. *Raises* `KeyError`."""
    with evaluator.inside.change("restart"), evaluator.inside:
        if isinstance(name, str):
            check_query(name)
        if name not in evaluator.engine.standing:
            raise KeyError(f"no query is called {name!r}; {there_are(evaluator.engine.standing, name)}")
        turn = _creation(evaluator, name)
        there = evaluator.engine.standing[name]
        error = disposed(name) if there.error is None else there.error  # its readers may have failed with a disposal
        evaluator.engine.revived[name] = described(error)
        evaluator._take(Dispose(name, turn.time))
        evaluator._take(turn)
        follow(evaluator)
    evaluator.flush()


def follow(evaluator: QueryEvaluator) -> None:
    """Run those again that have failed with the error of a stream that goes on now: nothing of theirs was wrong."""
    revived, evaluator.engine.revived = evaluator.engine.revived, {}
    while revived:
        found = [
            name
            for name, standing in evaluator.engine.standing.items()
            if standing.status == FAILED and _is_left_behind(evaluator.engine, revived, standing)
        ]
        for name in found:
            with (
                suppress(QueryRefused),
                afresh_told(evaluator, name, "runs again"),
            ):  # it needs a clock that only its app has
                evaluator._take(_creation(evaluator, name))
        revived, evaluator.engine.revived = evaluator.engine.revived, {}


def _is_left_behind(engine: QueryEngine, revived: dict[str, str], standing: Standing) -> bool:
    """Whether *standing* has failed with what it reads, and was there before, when that began anew.

    What was created behind it has failed since, however alike: a start that takes these turns again leaves it.
    """
    sources = [each for each in standing.plan.sources if each in revived and each in engine.standing]
    before = [each for each in sources if standing.born < engine.standing[each].born]
    if standing.failure is not None and not standing.failure.origin:
        return False  # its own function raised, whatever the text
    if standing.failure is not None and standing.failure.origin in before:
        return True
    return standing.error is not None and described(standing.error) in [revived[each] for each in before]


def _creation(evaluator: QueryEvaluator, name: str) -> Create:
    engine, time = evaluator.engine, evaluator._now()
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
