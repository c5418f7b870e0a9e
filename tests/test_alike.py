"""Selectors that return a new query for each element: one plan runs all that are alike, and nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from every_case import CASES, lanes
from hypothesis import strategies as st
from lanes import share_of

import hosting.engine.plans
import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import Standing
from hosting.engine.turns import Events
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan_reuse import MADE_MAX, Alike
from reliable_rx.testing import HOSTED, RUNNERS, check_query, parse_marbles
from reliable_rx.testing.oracle import compare
from reliable_rx.testing.queries import check_run

Make = Callable[[Any, Any, Any, int], Any]
MAKES: tuple[Make, ...] = (
    lambda o, r, s, n: r.timer(float(n)).pipe(o.map(lambda v: v * 10 + n)),
    lambda o, r, s, n: r.timer(n + 0.375).pipe(o.map(lambda v: n)),
    lambda o, r, s, n: r.timer(1.0).pipe(o.map(lambda v: v * 10 + n)),
    lambda o, r, s, n: r.timer(1.0).pipe(o.map(lambda v: n + 1), o.map(lambda v: v * 10 + n)),
    lambda o, r, s, n: r.timer(1.0).pipe(o.filter(lambda v: n % 2)),
    lambda o, r, s, n: r.timer(1.0).pipe(o.merge(r.timer(n + 0.375))),
    lambda o, r, s, n: r.timer(1.0, n + 1.0).pipe(o.take(n + 1), o.scan(lambda total, v: total + v + n, n * 100)),
    lambda o, r, s, n: r.empty().pipe(o.start_with(n)),
    lambda o, r, s, n: r.merge(*[r.timer(each + 0.375) for each in range(n + 1)]),
    lambda o, r, s, n: r.timer(1.0).pipe(o.flat_map(lambda v: r.timer(n + 0.375).pipe(o.map(lambda w: n)))),
    lambda o, r, s, n: r.throw(ValueError(n)).pipe(o.catch(r.timer(n + 1.0).pipe(o.map(lambda v: n)))),
    lambda o, r, s, n: s.pipe(o.map(lambda v: (n, v)), o.take(n + 1)),
    lambda o, r, s, n: s.pipe(o.share(), o.map(lambda v: (n, v)), o.take(2)),
    lambda o, r, s, n: s.pipe(
        o.group_by(lambda v: v % 2), o.flat_map(lambda g: g.pipe(o.map(lambda v: (n, v)))), o.take(3)
    ),
)
"""Queries that differ from element to element: in a parameter, in a function, in what they are made of."""


@dataclass(frozen=True)
class Chosen:
    """A query whose selector returns for *n* what one of *makes* makes of it."""

    outer: str
    makes: tuple[int, ...]

    def __call__(self, o: Any, r: Any, s: Any, t: Any) -> Any:
        return s.pipe(getattr(o, self.outer)(lambda n: MAKES[self.makes[n % len(self.makes)]](o, r, t, n)))


def chosen() -> st.SearchStrategy[Chosen]:
    makes = st.lists(st.integers(0, len(MAKES) - 1), min_size=1, max_size=3).map(tuple)
    return st.builds(Chosen, st.sampled_from(("flat_map", "switch_map", "concat_map")), makes)


def test_alike_or_not_it_does_what_reactivex_does() -> None:
    """Whatever the selector returns for each element, and wherever the host crashes, it is as if compiled anew."""
    check_query(chosen(), sources=2, examples=share_of(25))


@pytest.mark.parametrize("makes", [(2, 3), (3, 2), (2, 4), (2, 3, 4, 5)])
def test_queries_that_begin_alike_and_go_on_otherwise(makes: tuple[int, ...]) -> None:
    """What stands before the last operator may be one and the same, and be another query's end."""
    check_run(Chosen("flat_map", makes), [parse_marbles("-01234501234501|"), parse_marbles("-|")], [])


@pytest.mark.slow
def test_alike_or_not_it_does_what_reactivex_does_many_times() -> None:
    """The same over many more queries."""
    check_query(chosen(), sources=2, examples=1000)


@pytest.mark.parametrize("name", lanes((name for name, case in CASES.items() if case.hostable), fast=1, every=16))
def test_every_operator_runs_under_a_plan_made_for_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a selector it does what it does under a plan of its own: it reads no parameter from the plan's nodes."""
    case = CASES[name]

    def build(o: Any, r: Any, s: Any) -> Any:
        def made(n: int) -> Any:
            letters = [case.alphabet[(n + each) % len(case.alphabet)] for each in range(3)]
            ticks = [r.timer(0.5 + port, 1.0).pipe(o.take(3)) for port in range(case.sources)]
            return case.build(o, r, *[each.pipe(o.map(letters.__getitem__)) for each in ticks])

        return s.pipe(o.flat_map(made))

    streams = [parse_marbles("-0---1|")]
    for who in HOSTED:
        together = RUNNERS[who](build, streams, 15.0)
        with monkeypatch.context() as patch:
            patch.setattr(hosting.engine.plans, "let_others_use", lambda plan: None)
            compare(who, streams, RUNNERS[who](build, streams, 15.0), together)


def fed(query: Any, *events: Any) -> Standing:
    """Return *query* after these events of ``n``."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.take(engine.creation("q", query, time=0.0))
    engine.take(Events("n", "0", 0, list(events), 1.0))
    return engine.standing["q"]


def children(standing: Standing) -> list[Instance]:
    (open_ones,) = (standing.children or {}).values()
    return list(open_ones.values())


def test_one_plan_runs_all_that_are_alike() -> None:
    """A thousand inner sequences that differ in parameters only share one plan, which keeps none of them."""
    late = rx.source("n").pipe(ops.flat_map(lambda n: rx.timer(n + 1.0).pipe(ops.map(lambda v: n))))
    open_ones = children(fed(late, *range(1000)))
    (plan,) = {each.plan for each in open_ones}
    assert len(open_ones) == 1000
    assert [each.ops[0].duetime for each in open_ones] == [n + 1.0 for n in range(1000)]
    assert not any(vars(node.op) for node in plan.nodes)


def test_plans_that_are_kept_are_bounded() -> None:
    """A selector of which no two queries are alike keeps few plans."""
    merged = rx.source("n").pipe(ops.flat_map(lambda n: rx.merge(*[rx.timer(9.0)] * (n + 1))))
    standing = fed(merged, *range(3 * MADE_MAX))
    assert len({each.plan for each in children(standing)}) == 3 * MADE_MAX
    assert len(standing.plan.root.made) == MADE_MAX


def test_parameters_that_no_host_takes_are_refused_under_a_plan_that_is_there() -> None:
    """The first query of a selector is fine, a later one is not: the error names the operator's path."""
    standing = fed(rx.source("n").pipe(ops.flat_map(lambda n: rx.timer(5.0, scheduler=n and object()))), 0, 1)
    assert isinstance(standing.error, QueryRefused)
    assert standing.error.path == "/flat_map/inner/timer"


FIRST: dict[Alike, Any] = {}


def first_of_all(self: Alike, query: Any, operators: Any = Alike.operators) -> Any:
    found = operators(self, query)
    return found and FIRST.setdefault(self, found)


def whatever_number(self: Alike, query: Any) -> Any:
    found, waiting = [], [query]
    while waiting:
        op, inputs = waiting.pop()
        found.append(op)
        waiting += inputs
    kinds = self.kinds
    return found[::-1] if [type(op) for op in found][: len(kinds)] == kinds[: len(found)] else None


def whatever_ends(self: Alike, query: Any, operators: Any = Alike.operators) -> Any:
    if query.inputs and query.inputs[0] is self.before:
        return [*self.found[:-1], query.op]
    return operators(self, query)


@pytest.mark.parametrize(
    ("bug", "makes"),
    [(first_of_all, (0, 8)), (whatever_number, (0, 8)), (whatever_ends, (2, 4)), (whatever_ends, (2, 5))],
)
def test_a_plan_that_is_not_alike_is_found_out(
    bug: Any, makes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that runs another query's operators, or a query of another build, does not pass the check above."""
    monkeypatch.setattr(Alike, "operators", bug)
    with pytest.raises(AssertionError, match="disagrees"):
        check_run(Chosen("flat_map", makes), [parse_marbles("-024135|"), parse_marbles("-|")], [])
