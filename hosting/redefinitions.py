"""Names that get another meaning while queries run: noticed before the next turn, and taken as the edit that it is.

Python looks a global up when a function runs. So a helper whose cell is run again is called by running queries at once,
while the journal has the code of before: behind a kill a replay would give something else. A name that is bound anew is
noticed before each round of turns, and the queries that reach it are created again as they are: a turn like any other
edit, with its code, and the state stays.

Rejected: functions with globals of their own (what a program does to its module, a registry by function, a mock, a
counter that is shown, would be another world than theirs; and methods keep the globals of their class), telling it
only (the turns until somebody acts could not be repeated), stopping the query (that is what is to be avoided). What
changes in place (an item of a table) is not looked for: it would have to be hashed for each round.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, cast

from hosting.creations import How
from hosting.interpreters import shown
from hosting.standing import RUNNING, Standing
from reliable_rx.choices import Policy
from reliable_rx.errors import described
from reliable_rx.interrupts import let_through
from reliable_rx.plan import Plan

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator

LOG = logging.getLogger("reliable_rx")
REDEFINED = "redefined"
NAMES_A_ROUND = 200
"""Where more names are watched, rounds are left out, so that a round costs the same."""
EDITS_MAX, WITHIN_S, KNOWN_MAX = 20, 60.0, 10_000
"""A query that is edited more often than that reads what changes all the time."""


class Redefinitions:
    """What one evaluator does about names that mean something else."""

    def __init__(self, evaluator: QueryEvaluator) -> None:
        self.evaluator, self.watched = evaluator, evaluator.engine.plans.watched
        self._left_out = 0
        self._edits: dict[str, tuple[int, float]] = {}

    def look(self) -> None:
        """Edit the queries that reach what was defined anew."""
        if self._left_out:
            self._left_out -= 1
            return
        if self.watched.differ():
            self._edit_all()
        self._left_out = len(self.watched) // NAMES_A_ROUND

    def created(self, name: str) -> None:
        """The query *name* was created on purpose, with what its functions reach now."""
        self._edits.pop(name, None)
        self.evaluator.incidents.resolve(REDEFINED, name)

    def _edit_all(self) -> None:
        by_plan: dict[Plan, list[Standing]] = {}
        plans = self.evaluator.engine.plans
        for each in self.evaluator.engine.standing.values():
            if each.status == RUNNING and each.plan in plans.contents:
                by_plan.setdefault(each.plan, []).append(each)
        with plans.looking_once():
            for plan, running in by_plan.items():
                names = list(self.watched.changed(plans.contents[plan]))
                if not names:  # what else it holds may have been filled meanwhile
                    continue
                try:
                    if plans.is_current(plan):
                        self._resolve(running)
                        continue
                    found = [each.name for each in running if self._edit(each, names)]
                except BaseException as raised:  # what is reached is the user's
                    let_through(raised)
                    for each in running:
                        self._report(each, names, described(raised))
                    continue
                if found:
                    self._tell(found, names)

    def _tell(self, found: list[str], names: list[str]) -> None:
        more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
        report = self.evaluator.engine.reports.get(found[0])
        LOG.warning("query %r%s was edited, since %s: %s", found[0], more, told(names), report)

    def _edit(self, standing: Standing, names: list[str]) -> bool:
        """Create a query again as it is, with what its functions reach now."""
        evaluator, name = self.evaluator, standing.name
        if not self._may_edit(name):
            self._report(standing, names, f"as {EDITS_MAX} times within a minute: let it come as events")
            return False
        clock = getattr(standing.clock, "spec", None)
        how = How(policy=cast(Policy, standing.policy), limits=standing.plan.limits, clock=clock)
        evaluator._create(evaluator.engine.creation(name, standing.query, time=evaluator._now(), **how))
        return True

    def _may_edit(self, name: str) -> bool:
        now = monotonic()
        count, since = self._edits.get(name, (0, now))
        if now - since > WITHIN_S:
            count, since = 0, now
        if len(self._edits) >= KNOWN_MAX:
            self._edits.clear()
        self._edits[name] = (count + 1, since)
        return count < EDITS_MAX

    def _report(self, standing: Standing, names: list[str], why: str) -> None:
        message = (
            f"{told(names)}, and is not taken for an edit: until the query is created again, a start behind a kill may "
            f"find other outputs and end it ({why})"
        )
        self.evaluator.incidents.report(REDEFINED, standing.name, message, level=logging.WARNING)

    def _resolve(self, running: list[Standing]) -> None:
        for each in running if self.evaluator.incidents.any_open else ():
            self.evaluator.incidents.resolve(REDEFINED, each.name)


def told(names: list[str]) -> str:
    return f"{shown(names) or 'what it reaches'} was defined anew while it ran"
