"""What the functions of queries say, as a store has it: by digests of their text, which any Python can compare.

Turns behind a checkpoint can be taken again only by the interpreter that took them. Who starts another one has often
changed code as well, and is told of both at once. Rejected: the texts in the journal, with each query (what is created
behind the last checkpoint is not named, and that is little).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from operator import is_not
from typing import Protocol

from hosting.engine.code_text import text_of
from hosting.engine.hosted_query import Standing
from hosting.engine.turns import Create
from reliable_rx.query.query import Node
from reliable_rx.runtime.plan import Plan

QUERIES_MAX = 200
"""Of how many queries a store has the texts: those that were created first."""
Texts = dict[str, list[str]]
"""By ``module.name`` the digests of the functions that are called so."""


class Declared(Protocol):
    """What the app declares."""

    declared: dict[str, Create]


class FunctionTexts:
    """The texts of the functions of one evaluator's queries: those it has, those of the store, those of the app."""

    def __init__(self, standing: Mapping[str, Standing], app: Declared) -> None:
        self._standing, self._app = standing, app
        self.stored: Texts = {}
        self._plans: list[Plan] = []
        self._texts: Texts = {}
        """What is known of the newest of these."""

    def for_checkpoint(self) -> Texts:
        """Return the texts of the functions at work; they are read anew where other queries are there."""
        plans = [each.plan for each in islice(self._standing.values(), QUERIES_MAX)]
        if len(plans) != len(self._plans) or any(map(is_not, plans, self._plans)):
            self._plans, self._texts = plans, united(each.query for each in plans)
        return self._texts

    def changed(self) -> list[str]:
        """Name the functions of the app that say something else than when the store was written.

        Of several of one name (lambdas) there may be more today.
        """
        today = united(each.code.query for each in self._app.declared.values())
        return sorted(name for name, texts in self.stored.items() if name in today and not {*texts} <= {*today[name]})


def united(nodes: Iterable[Node]) -> Texts:
    """Return what is known of the functions of several queries."""
    found = dict[str, set[str]]()
    for node in nodes:
        text = text_of(node)
        for name, trees in () if text is None else text.functions:
            found.setdefault(name, set()).add(trees)
    return {name: sorted(trees) for name, trees in found.items()}
