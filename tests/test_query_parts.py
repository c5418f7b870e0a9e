"""What a query is made of: an operator and what stands before it, and a plan as data when somebody asks for it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events
from reliable_rx import operators as ops
from reliable_rx.query.query import Query, walk

S = rx.source("s")
QUERIES: dict[str, Query[Any]] = {
    "leaf": S,
    "chain": S.map(str).take(2),
    "branches": rx.merge(S.map(str), rx.timer(1.0)).take(2),
    "shared": S.share().map(str),
    "connectable": S.publish(),
    "restored": pickle.loads(pickle.dumps(S.take(2))).take(1),
}


@pytest.mark.parametrize("name", QUERIES)
def test_no_part_of_a_query_hides_an_operator(name: str) -> None:
    """Operators are methods of a query, so nothing that it holds may have the name of one."""
    query = QUERIES[name]
    assert query.node.op is query.op
    assert not [part for part in vars(query) if hasattr(ops, part)]


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_is_the_same_whenever_it_is_asked_for(name: str) -> None:
    """A plan is made once, of the operators that the query was written with, in their places."""
    query = QUERIES[name]
    assert query.node is vars(query)["node"]
    at: Any = query
    for node in walk(query.node):
        assert node.op is at.op
        assert len(node.inputs) == len(at.inputs)
        if len(at.inputs) != 1:
            break
        at = at.inputs[0]
    assert query.origin is node.op or at.inputs


def through(*makes: Any) -> list[Any]:
    """Return what a `flat_map` emits whose selector makes one query after the other."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    engine.take(engine.creation("q", S.flat_map(lambda n: makes[n]()), time=0.0))
    engine.take(Events("s", "0", 0, list(range(len(makes))), 0.0))
    return [value for out in engine.take(Events("s", "0", len(makes), [], 100.0)) for value in out.values]


def test_queries_of_the_same_kinds_in_other_places_have_plans_of_their_own() -> None:
    """`merge` of two is alike to no chain of the same operators, and a longer chain to none that it begins like."""
    nested = lambda: rx.merge(rx.merge(rx.timer(1.0).map(lambda _: "nested")))  # noqa: E731
    branched = lambda: rx.merge(rx.timer(1.0).map(lambda _: "left"), rx.timer(2.0).map(lambda _: "right"))  # noqa: E731
    short = lambda: rx.timer(3.0).map(lambda _: "short")  # noqa: E731
    long = lambda: rx.timer(4.0).map(lambda _: "lo").map(lambda text: text + "ng")  # noqa: E731
    assert through(branched, nested, long, short, branched, short, long, nested) == [
        "left", "nested", "left", "nested", "right", "right", "short", "short", "long", "long",
    ]  # fmt: skip
