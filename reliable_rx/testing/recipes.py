"""Queries made at random: compositions of operators that one text can run on plain `reactivex` and on a host.

A recipe is a readable list of steps; every step takes whole numbers and gives whole numbers, so that any may follow
any. Together they use every operator that a host takes (`steps`, `steps_inner`). Durations are whole 64ths of a second,
which floats and microseconds both hold exactly, and odd ones: an event, a timer and an action without delay at one and
the same time have no order that Rx promises, so few such ties are made. Rejected: drawing operators with random
parameters of any type, which mostly makes queries that fail at their first event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reliable_rx.testing.needed import need_hypothesis
from reliable_rx.testing.steps import AGAIN, ENDS, SHARED, SUMS, TIME, VALUES, Apply, Tools, bounded
from reliable_rx.testing.steps_inner import INNER, MADE, NESTED

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


@dataclass(frozen=True)
class Step:
    """One operator (with what brings its result back to whole numbers); *inner* recipes are run inside."""

    name: str
    inner: tuple[Recipe, ...] = ()

    def __repr__(self) -> str:
        return self.name + (f"({', '.join(map(repr, self.inner))})" if self.inner else "")

    def apply(self, tools: Tools, query: Any) -> Any:
        return STEPS[self.name](tools, query, *self.inner)


@dataclass(frozen=True)
class Recipe:
    """A query over source number *source*: its steps, one behind the other."""

    source: int
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return " ".join([f"s{self.source}", *map(repr, self.steps)])

    def __call__(self, ops: Any, rx: Any, *sources: Any) -> Any:
        """Build the query: this is what `check_query` wants."""
        tools = Tools(ops, rx, sources)
        return self.cook(tools, tools.other(self.source))

    def cook(self, tools: Tools, query: Any) -> Any:
        """Put the steps behind *query*."""
        for step in self.steps:
            query = step.apply(tools, query)
        return query.pipe(tools.ops.map(bounded)) if self.steps else query

    def of_source(self, tools: Tools) -> Any:
        return self.cook(tools, tools.other(self.source))


PLAIN: dict[str, Apply] = {**VALUES, **ENDS, **SUMS, **AGAIN, **TIME, **SHARED, **INNER, **MADE}
STEPS: dict[str, Apply] = {**PLAIN, **NESTED}
"""Steps by name: each takes the tools, a query, and what `NESTED` ones run inside."""


def recipes(*, sources: int = 2, steps_max: int = 6, nested_steps_max: int = 2) -> SearchStrategy[Recipe]:
    """Return a Hypothesis strategy for queries of up to *steps_max* operators over several sources."""
    need_hypothesis()
    from hypothesis import strategies as st

    source = st.integers(0, sources - 1)
    plain = st.builds(Step, st.sampled_from(sorted(PLAIN)))

    def nested(inner: SearchStrategy[Recipe]) -> SearchStrategy[Step]:
        return st.builds(Step, st.sampled_from(sorted(NESTED)), st.tuples(inner))

    @st.composite
    def made(draw: DrawFn, depth: int, most: int) -> Recipe:
        choice = plain if depth == 0 else st.one_of(plain, plain, nested(made(depth - 1, nested_steps_max)))
        return Recipe(draw(source), tuple(draw(st.lists(choice, min_size=1 if depth == 2 else 0, max_size=most))))

    return made(2, steps_max)
