"""What the functions of queries say, as a store has it: by digests of their text, which any Python can compare.

Turns behind a checkpoint can be taken again only by the interpreter that took them. Who starts another one has often
changed code as well, and is told of both at once. Rejected: the texts in the journal, with each query (what is created
behind the last checkpoint is not named, and that is little).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from time import monotonic
from typing import Protocol

from hosting.engine.code_text import CodeText, text_of
from hosting.engine.hosted_query import Standing
from hosting.engine.turns import Create
from reliable_rx.runtime.plan import Plan

QUERIES_MAX = 200
"""Of how many queries a store has the texts: those that were created first."""
AT_ONCE_S = 0.05
"""For how long a checkpoint reads texts; the next one goes on. What has been read is kept."""
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
        self._read: dict[int, tuple[Plan, CodeText | None]] = {}
        self._united: Texts = {}
        self._of: list[Plan] | None = None
        """The plans of which these are all texts; None if some are still to be read."""

    def for_checkpoint(self) -> Texts:
        """Return the texts of the functions at work, as far as there has been time to read them."""
        plans = [each.plan for each in islice(self._standing.values(), QUERIES_MAX)]
        if plans != self._of:
            different = {id(plan): plan for plan in plans}
            self._united = united(self._texts(different))
            self._of = plans if len(self._read) == len(different) else None
        return self._united

    def _texts(self, plans: Mapping[int, Plan]) -> list[CodeText | None]:
        """Return the texts of *plans* that are known, having read as many more as there is time for."""
        self._read = {known: read for known, read in self._read.items() if known in plans}
        until = monotonic() + AT_ONCE_S
        for known, plan in plans.items():
            if known not in self._read and monotonic() < until:
                self._read[known] = plan, text_of(plan.query)
        return [text for _, text in self._read.values()]

    def changed(self) -> list[str]:
        """Name the functions of the app that say something else than when the store was written.

        Of several of one name (lambdas) there may be more today.
        """
        today = united(text_of(each.code.query) for each in self._app.declared.values())
        return sorted(name for name, texts in self.stored.items() if name in today and not {*texts} <= {*today[name]})


def united(texts: Iterable[CodeText | None]) -> Texts:
    """Return what is known of the functions of several queries."""
    found = dict[str, set[str]]()
    for text in texts:
        for name, trees in () if text is None else text.functions:
            found.setdefault(name, set()).add(trees)
    return {name: sorted(trees) for name, trees in found.items()}
