"""Running queries again that have ended: without their state, under the ids that follow.

One is ended and created within one group of turns, so that a crash leaves both or neither; so are several that are
named together. What it read before is not read again: it goes on with the next events, as a query does that an edit has
revived. Rejected: putting the state back to before the failure (the turn is journalled with what came of it; the same
event would end it again).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence

from hosting.engine.cycles import there_are
from hosting.engine.ended_readers import in_reading_order
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import FAILED, Standing
from hosting.engine.turns import Create, Dispose
from hosting.evaluator.creating import Creation
from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.reentrancy import Inside
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.begun_again import afresh_told
from reliable_rx.errors import QueryDisposed, QueryRefused
from reliable_rx.names import check_query, query_of

LOG = logging.getLogger("reliable_rx")


class Restarts:
    """Runs the queries of one evaluator again that have ended."""

    def __init__(
        self, engine: QueryEngine, turns: TurnExecutor, *, inside: Inside, late: LateReaders, creation: Creation
    ) -> None:
        self._engine, self._turns, self._inside, self._late, self._creation = engine, turns, inside, late, creation

    def restart(self, names: Sequence[str]) -> None:
        """End the queries *names* and create them again, as they are declared or else stored. *Raises* `KeyError`."""
        with self._inside.change("restart"), self._inside:
            standing = self._engine.standing
            for name in names:
                if isinstance(name, str):
                    check_query(name)
                if name not in standing:
                    raise KeyError(f"no query is called {name!r}; {there_are(standing, name)}")
            turns = [self._creation_of(name) for name in in_reading_order(self._engine, names)]
            for turn in reversed(turns):
                self._turns.take(Dispose(turn.name, turn.time))
            for turn in turns:
                self._late.take_create(turn)
            self.follow()

    def begin_declared(self) -> None:
        """Create what was declared before the start, and run those again that had failed with what begins anew."""
        with self._late.shut_for_some():
            held = self._late.held_back()
            for name, source in held.items():
                LOG.warning("query %r was edited and waits for a restart, as what is new in %r does", name, source)
            self._creation.create_declared(but=held)
            self.follow(starting=True)

    def follow(self, *, starting: bool = False) -> None:
        """Run those again that have failed with the end of a query which has begun anew since: theirs was no fault.

        At the *starting* all are looked at: a kill may have come between the one and the other.
        """
        engine = self._engine
        begun: Container[str] = engine.standing if starting or (engine.begun and engine.has_refused) else engine.begun
        while begun:
            engine.begun = {}
            for name, origin in left_behind(engine, begun).items():
                how = f"runs again with {origin!r}"
                try:
                    with afresh_told(self._engine.reports, name, how):
                        self._late.take_create(self._creation_of(name))
                except QueryRefused as error:  # it reads one that is not there, or only its app has its clock
                    engine.has_refused = True
                    LOG.warning("query %r stays as it ended, though %r runs again: %s", name, origin, error.message)
            begun = engine.begun

    def follow_late(self) -> bool:
        """Run those again that have failed in the turns just taken with an end told late; return if there are."""
        late = bool(self._engine.begun)
        if late:
            self.follow()
        return late

    def _creation_of(self, name: str) -> Create:
        engine, time = self._engine, self._turns.now()
        declared = self._creation.declared.get(name)
        if declared is not None:
            query, policy, limits, clock = declared
            return engine.creation(name, query, time=time, policy=policy, limits=limits, clock=clock)
        standing = engine.standing[name]
        clock = getattr(standing.clock, "spec", None)
        if standing.clock is not None and clock is None:
            raise QueryRefused(
                f"{name!r} is on event time, and its clock is not stored with a query that has ended: give the app "
                f"that declares it",
                path="/",
            )
        return engine.creation(
            name, standing.query, time=time, policy=standing.policy, limits=standing.plan.limits, clock=clock
        )


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
