"""Queries that change the elements they are given, remember or ask, told when they are created and at each start.

An element belongs to all who read it: one that a function changes in place is another one for the queries beside, for
their sinks and their states, which would be wrong in silence. The query that does it is named, not those that suffer.
It is told and not refused, since in a pipe that nobody else reads it works. A plan is looked at once, however many
queries share it. Rejected: to give each reader a copy (it would cost all who change nothing).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hosting.admission.impurities import impurities
from hosting.reports.incidents import Incidents
from hosting.reports.observing import observe
from reliable_rx.functions.memories import Memory, memories
from reliable_rx.functions.shared_elements import ChangedElement, changed_elements
from reliable_rx.runtime.plan import Plan

if TYPE_CHECKING:
    from hosting.engine.hosted_query import Standing


KINDS = {
    "mutation": "changes no element any more",
    "memory": "remembers nothing outside of its state any more",
    "impurity": "asks nothing any more that a replay does not repeat",
}
"""What is told, and what is said when it is no more."""


class Mutations:
    """What one evaluator knows of queries that change elements, remember, or ask what no replay repeats."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self._by_plan = WeakKeyDictionary[Plan, dict[str, str]]()
        self._told: dict[tuple[str, str], str] = {}

    def look(self, name: str, standing: Standing | None) -> None:
        """Tell of the query *name* if it changes what it should not, unless that is told; or that it does no more."""
        messages = {} if standing is None else self._messages(standing.plan)
        if not (messages or self._told):
            return
        for kind in KINDS:
            message = messages.get(kind, "")
            if message == self._told.get((kind, name), ""):
                continue
            if message:
                self._told[kind, name] = message
                self._incidents.report(kind, name, message, level=logging.WARNING, once=True)
            else:
                del self._told[kind, name]
                self._incidents.resolve(kind, name, now=KINDS[kind])

    def _messages(self, plan: Plan) -> dict[str, str]:
        messages = self._by_plan.get(plan)
        if messages is None:
            messages = self._by_plan[plan] = {}
            for kind, find in LOOKS.items():
                observe(self._incidents, kind, _look, kind, find, plan, messages)
        return messages


def _look(kind: str, find: Callable[[Plan], str], plan: Plan, messages: dict[str, str]) -> None:
    if message := find(plan):
        messages[kind] = message


def sentence(found: ChangedElement) -> str:
    """Say which function changes what, and what to write instead."""
    at = found.change
    return (
        f"the {found.parameter} of {found.path} changes the element that it is given ({at.how} in {at.file}, line "
        f"{at.line}), which other queries, sinks and states may hold, so that they may see it changed: let it return a "
        f"new one, such as {{**row, key: value}} or dataclasses.replace(row, name=value), or change a copy"
    )


def remembering(found: Memory) -> str:
    """Say which function remembers what, and where to keep it."""
    at = found.change
    place = f"{at.how} in {at.file}, line {at.line}" if at.file else at.how
    return (
        f"the {found.parameter} of {found.path} keeps something from one call to the next ({place}), which no "
        f"checkpoint has: behind a restart it begins anew, and outputs may come again or differ; keep it in scan, "
        f"distinct or the like (a cache of a pure function is harmless)"
    )


LOOKS: dict[str, Callable[[Plan], str]] = {
    "mutation": lambda plan: "".join(sentence(each) for each in changed_elements(plan)[:1]),
    "memory": lambda plan: "".join(remembering(each) for each in memories(plan)[:1]),
    "impurity": lambda plan: "".join(str(each) for each in impurities(plan)[:1]),
}
"""What is looked for in a plan, and what is said of the first that is found."""
