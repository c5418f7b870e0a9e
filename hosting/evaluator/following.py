"""Queries that run again with what they have failed with: theirs was no fault.

One that was told of the end of another begins anew behind it, with the next events, and before what reads it: that one
would be told of its old end. Rejected: to let it wait for a restart by its own name (a mended query would leave all
behind it dead).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from hosting.engine.ended_readers import in_reading_order
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import FAILED, Standing
from hosting.engine.turns import Create
from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.begun_again import afresh_told
from hosting.reports.log import LOG
from reliable_rx.errors import QueryDisposed, QueryRefused
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.names import query_of
from reliable_rx.operators.contract.choices import Policy

Declared = dict[str, tuple[Any, Policy, Limits, EventTime | None]]
"""What was declared: each query by its name, and how it is hosted."""


class Following:
    """Runs the queries of one evaluator again that have failed with others, once these have begun anew.

    *let_come* lets come what is due by now.
    """

    def __init__(
        self,
        engine: QueryEngine,
        turns: TurnExecutor,
        *,
        late: LateReaders,
        declared: Declared,
        let_come: Callable[[], None],
    ) -> None:
        self._engine, self._turns, self._late = engine, turns, late
        self._declared, self._let_come = declared, let_come
        self._stay: set[str] = set()
        """Who cannot be run again with what has just begun."""

    def follow(self, *, starting: bool = False) -> None:
        """Run those again that have failed with the end of a query which has begun anew since: theirs was no fault.

        At the *starting* all are looked at: a kill may have come between the one and the other.
        """
        engine, begun = self._engine, self._begun(starting=starting)
        while begun:
            if starting and left_behind(engine, engine.standing, begun):
                self._let_come()  # who begins now has not been there then
            engine.begun = {}
            self._stay.clear()
            for name in in_reading_order(engine, handed_on(engine, engine.standing)):
                self._run_left_behind(name, begun)
            begun = engine.begun

    def run_first(self, turn: Create, *, starting: bool = False) -> None:
        """Run those again first that the query of *turn* reads, and that `follow` would: it is told of no old end."""
        self._stay.clear()
        if begun := self._begun(starting=starting):
            self._run_before(turn, begun)

    def follow_late(self) -> bool:
        """Run those again that have failed in the turns just taken with an end told late; return if there are."""
        late = bool(self._engine.begun)
        if late:
            self.follow()
        return late

    def creation_of(self, name: str) -> Create:
        """Return the turn that creates *name* again, as it is declared or else stored."""
        engine, time = self._engine, self._turns.now()
        declared = self._declared.get(name)
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

    def _begun(self, *, starting: bool) -> Mapping[str, Any]:
        """Return the queries that may have begun since others have failed with them."""
        engine = self._engine
        return engine.standing if starting or (engine.begun and engine.has_refused) else engine.begun

    def _failed_before(self, turn: Create) -> set[str]:
        """Return which failed queries the query of *turn* reads, directly or by way of such."""
        engine, found, waiting = self._engine, set[str](), [*turn.code.sources]
        while waiting:
            name = query_of(waiting.pop())
            there = engine.standing.get(name)
            if there is not None and there.status == FAILED and name not in found:
                found.add(name)
                waiting += engine.readers.reads(name)
        return found

    def _run_before(self, turn: Create, begun: Mapping[str, Any]) -> str | None:
        """Run those again first that the query of *turn* reads; return one that stays as it ended, if any does."""
        engine, failed = self._engine, self._failed_before(turn)
        for name in in_reading_order(engine, failed):
            self._run_left_behind(name, begun)
        return next(iter(left_behind(engine, failed, begun, engine.begun)), None)

    def _run_left_behind(self, name: str, begun: Mapping[str, Any]) -> None:
        """Run *name* again if one has *begun* that it had failed with, and if it may."""
        origin = left_behind(self._engine, [name], begun, self._engine.begun).get(name)
        if origin and name not in self._stay:
            self._run_again(name, origin, begun)

    def _run_again(self, name: str, origin: str, begun: Mapping[str, Any]) -> None:
        try:
            turn = self.creation_of(name)
            if stays := self._run_before(turn, begun):  # which would tell it of its old end
                raise QueryRefused(f"{name!r} reads {stays!r}, which does, too", path="/")
            with afresh_told(self._engine.reports, name, f"runs again with {origin!r}"):
                self._late.take_create(turn)
        except QueryRefused as error:  # it reads one that is not there, or only its app has its clock
            self._engine.has_refused = True
            self._stay.add(name)
            LOG.warning("query %r stays as it ended, though %r runs again: %s", name, origin, error.message)


def left_behind(engine: QueryEngine, names: Iterable[str], *begun: Container[str]) -> dict[str, str]:
    """Return who of *names* has failed with the end of a query that has *begun* and not failed since, and of which.

    A source may have the name of one that was disposed of. They are in the order in which they read each other: one
    that ran before what it reads would fail with it again.
    """
    found = dict[str, str]()
    for name in in_reading_order(engine, handed_on(engine, names)):
        standing = engine.standing[name]
        with_whom = () if standing.failure is None else (standing.failure.origin, *standing.failure.others)
        goes_on = (each for each in with_whom if _goes_on(engine, standing, query_of(each), *begun))
        if (origin := next(goes_on, None)) is not None:
            found[name] = origin
    return found


def handed_on(engine: QueryEngine, names: Iterable[str]) -> dict[str, str]:
    """Return who of *names* has failed with the end of another query, and of which."""
    failures = {name: engine.standing[name].failure for name in names if engine.standing[name].status == FAILED}
    return {name: failure.origin for name, failure in failures.items() if failure is not None and failure.origin}


def _goes_on(engine: QueryEngine, standing: Standing, origin: str, *begun: Container[str]) -> bool:
    """Whether *origin*, with which *standing* has failed, has *begun* since, or is a source by now."""
    there = engine.standing.get(origin)
    if there is None:
        return origin in engine.live and origin not in engine.failures and isinstance(standing.error, QueryDisposed)
    return there.error is None and any(origin in each for each in begun)
