"""Names that get another meaning while queries run: told, with what it means for a start behind a kill.

Of a source's functions the same is told (`hosting/evaluator/source_definitions.py` has what becomes of them).

Python looks a global up when a function runs. So a helper whose cell is run again is called by running queries at once,
while the store has the code of their `create`: behind a kill a replay may give something else. Names that are bound
anew are looked for every few rounds of turns, and the incident `redefined` says which, and the remedy.

Rejected: taking it for an edit (a global that is set late, as `log = None` by a `setup()`, would make an unchanged app
an edited one at each start, and revive what has ended), functions with globals of their own (what a program does to its
module, a registry by function, a mock, a counter that is shown, would be another world than theirs; and methods keep
the globals of their class), stopping the query (that is what is to be avoided). What changes in place (an item of a
table) is not looked for: it would have to be hashed for each round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import thread_time
from typing import Protocol

from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.evaluator import class_versions
from hosting.evaluator.class_versions import ClassVersions
from hosting.evaluator.reentrancy import Inside
from hosting.evaluator.source_definitions import REDEFINED, SourceDefinitions
from hosting.reports.incidents import Incidents
from reliable_rx.class_of import is_a
from reliable_rx.errors import StoreUnavailable, described
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.plan import Plan
from reliable_rx.shown import listed

COMPARED_S = 0.1
"""After that, plans that reach another object are told of without a look at what it holds: events wait meanwhile."""


class Checkpoints(class_versions.Checkpoints, Protocol):
    """The checkpoints of an evaluator: one is to be taken soon where no replay has the old and the new meaning."""

    @property
    def trouble(self) -> StoreUnavailable | None: ...
    def soon(self) -> None: ...


class Redefinitions:
    """What one evaluator tells about names that mean something else: once for the queries that share a plan."""

    def __init__(
        self,
        engine: QueryEngine,
        definitions: SourceDefinitions,
        *,
        inside: Inside,
        incidents: Incidents,
        checkpoints: Callable[[], Checkpoints],
    ) -> None:
        self._engine, self._definitions, self.watched = engine, definitions, engine.plans.watched
        self._inside, self._incidents, self._checkpoints = inside, incidents, checkpoints
        self.classes = ClassVersions(inside, incidents, checkpoints)
        self._compares_until = 0.0
        self._told: dict[str, str] = {}

    def look(self) -> bool:
        """Tell of the queries and sources that reach what was defined anew; return whether turns may be taken."""
        self._definitions.look()
        if not all(map(self._runs, self._told)):
            self.watched.is_due = True
        if self.watched.are_due():
            with self._inside:
                found = self._found()
            self._tell(found)
            self.watched.compared()
        self.classes.look()
        return self._checkpoints().trouble is None

    def settle(self, name: str) -> None:
        """Close the incident of the query *name*: it was created again, with what its functions reach now."""
        if self._told.pop(name, None) is not None:
            self.watched.is_due = True  # others may share its plan
            self._incidents.resolve(REDEFINED, name)

    def _runs(self, name: str) -> bool:
        there = self._engine.standing.get(name)
        return there is not None and there.status == RUNNING

    def _found(self) -> dict[str, str]:
        """Return what is to be told, by the first query of each plan."""
        by_plan: dict[Plan, list[Standing]] = {}
        plans = self._engine.plans
        for each in self._engine.standing.values():
            if each.status == RUNNING and each.plan in plans.contents:
                by_plan.setdefault(each.plan, []).append(each)
        found: dict[str, str] = {}
        self._compares_until = thread_time() + COMPARED_S
        with plans.looking_once():
            for plan, running in by_plan.items():
                names = list(dict.fromkeys(self.watched.changed(plans.contents[plan])))
                if names and (why := self._differs(plan)) is not None:
                    are_classes = any(is_a(each[2], type) for each in plans.contents[plan].lost())
                    found[running[0].name] = sentence(names, len(running) - 1, why, are_classes=are_classes)
        return found

    def _differs(self, plan: Plan) -> str | None:
        """Return None if a plan does what it did, and else what more is to be said of it."""
        if thread_time() > self._compares_until:
            return " (it is not compared, which would take long)"
        try:
            return None if self._engine.plans.is_current(plan) else ""
        except BaseException as raised:  # what is reached is the user's
            let_through(raised)
            return f" (it cannot be compared: {described(raised)})"

    def _tell(self, found: dict[str, str]) -> None:
        for name in self._told.keys() - found.keys():
            self._incidents.resolve(REDEFINED, name)
        for name, message in found.items():
            if self._told.get(name) != message:
                self._incidents.report(REDEFINED, name, message, level=logging.WARNING, once=True)
                self._checkpoints().soon()  # a class goes by its name: no replay has the old and the new one
        self._told = found


def sentence(names: list[str], others: int, more: str, *, are_classes: bool) -> str:
    """Say which names were bound anew, what that means, and the remedy."""
    shared = f", as do {others:,} more that share its functions" if others else ""
    kept = " while this process runs, or its state keeps values of the old class for good" if are_classes else ""
    return (
        f"{listed(names)} was defined anew while it ran{more}: the query uses the new meaning from now on{shared}, and "
        f"the store has the one of its create, so a start behind a kill may find other outputs and end it; create the "
        f"query again (in a notebook: run the cell with create again){kept}, and set what is set once before its create"
    )
