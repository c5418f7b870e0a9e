"""Queries that change the elements they are given, told when they are created and at each start.

An element belongs to all who read it: one that a function changes in place is another one for the queries beside, for
their sinks and their states, which would be wrong in silence. The query that does it is named, not those that suffer.
It is told and not refused, since in a pipe that nobody else reads it works. A plan is looked at once, however many
queries share it. Rejected: to give each reader a copy (it would cost all who change nothing).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hosting.incidents import Incidents
from reliable_rx.plan import Plan
from reliable_rx.shared_elements import ChangedElement, changed_elements

if TYPE_CHECKING:
    from hosting.standing import Standing

KIND = "mutation"


class Mutations:
    """What one evaluator knows of queries that change their elements."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self._by_plan = WeakKeyDictionary[Plan, str]()
        self._told: dict[str, str] = {}

    def look(self, name: str, standing: Standing | None) -> None:
        """Tell of the query *name* if it changes its elements and that is not told yet; or that it does no more."""
        message = "" if standing is None else self._message(standing.plan)
        if message == self._told.get(name, ""):
            return
        if message:
            self._told[name] = message
            self._incidents.report(KIND, name, message, level=logging.WARNING, once=True)
        else:
            del self._told[name]
            self._incidents.resolve(KIND, name, now="changes no element any more")

    def _message(self, plan: Plan) -> str:
        message = self._by_plan.get(plan)
        if message is None:
            found = changed_elements(plan)
            message = self._by_plan[plan] = sentence(found[0]) if found else ""
        return message


def sentence(found: ChangedElement) -> str:
    """Say which function changes what, and what to write instead."""
    at = found.change
    return (
        f"the {found.parameter} of {found.path} changes the element that it is given ({at.how} in {at.file}, line "
        f"{at.line}), which other queries, sinks and states may hold, so that they may see it changed: let it return a "
        f"new one, such as {{**row, key: value}} or dataclasses.replace(row, name=value), or change a copy"
    )
