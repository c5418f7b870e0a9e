"""Queries of any size are hosted, or refused by name when they are created; no recursion gives out in between."""

from __future__ import annotations

import contextlib
import gc
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from every_case import CASES, lanes
from lanes import Lane, at_each_commit, every, left_to_commits, of_lane

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, ListSource, QueryEvaluator
from hosting.partitioned.sections import sections_of
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.query.query import Node, walk
from reliable_rx.query.size import OPERATORS_MAX, STAGES_MAX, measure
from reliable_rx.testing import run_hosted
from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed

LONG = OPERATORS_MAX - 10
QUICK = ("maps",)
n: Any = rx.source("n")


def more(x: int) -> int:
    return x + 1


def add(total: int, x: int) -> int:
    return total + x


PIPES: dict[str, Callable[[int], Any]] = {
    "maps": lambda k: n.pipe(*[ops.map(more) for _ in range(k)]),
    "scans": lambda k: n.pipe(*[ops.scan(add) for _ in range(k)]),
    "one by one": lambda k: grown(k, lambda q: q.map(more)),
    "behind a stage": lambda k: n.merge(rx.source("m")).pipe(*[ops.map(more) for _ in range(k)]),
    "before a stage": lambda k: n.pipe(*[ops.map(more) for _ in range(k)]).merge(rx.source("m")),
    "as another input": lambda k: rx.source("m").merge(n.pipe(*[ops.map(more) for _ in range(k)])),
    "by key": lambda k: n.pipe(ops.where_key(more, 2), *[ops.map(more) for _ in range(k)]),
    "shared": lambda k: shared(n.pipe(*[ops.map(more) for _ in range(k // 2)])).pipe(*[ops.map(more)] * (k // 2 - 9)),
    "in a group": lambda k: n.pipe(
        ops.group_by(lambda x: x % 2), ops.flat_map(lambda group: group.pipe(*[ops.map(more) for _ in range(k)]))
    ),
    "chosen by a value": lambda k: n.pipe(ops.flat_map(lambda x: rx.of(x, x).pipe(*[ops.map(more)] * k))),
}  # fmt: skip


def grown(k: int, step: Callable[[Any], Any]) -> Any:
    query: Any = n
    for _ in range(k):
        query = step(query)
    return query


def shared(query: Any) -> Any:
    return query.pipe(ops.share())


def results(store: MemoryStore, query: Any) -> list[Any]:
    with QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.source("m", ListSource([]))
        evaluator.create("q", query)
        evaluator.run()
        assert evaluator.query("q").status == "completed"
        return [value for part in evaluator.stream("q").read(0, 100) for value in part.values]


@left_to_commits
@pytest.mark.parametrize("pipe", of_lane(each if each in QUICK else at_each_commit(each) for each in PIPES))
def test_a_long_pipe_is_a_query_like_any_other(pipe: str) -> None:
    """A pipe of nearly two thousand operators is hosted, recovered, edited, drawn, hashed and pickled."""
    make, most = PIPES[pipe], LONG
    short, long = results(MemoryStore(), make(20)), results(MemoryStore(), make(most))
    assert len(short) == len(long) > 0
    store, query = MemoryStore(), make(most)
    assert results(store, query) == results(store, make(most)) == long
    assert results(store, make(most - 1))[: len(long)] == long
    assert make(most).content_hash == query.content_hash != make(most - 2).content_hash
    assert len(repr(query)) > 20
    assert len(query.explain().splitlines()) > 1
    query.bind(n=rx.of(1), m=rx.of(2))


@left_to_commits
@pytest.mark.parametrize("pipe", every(len(PIPES), PIPES))
def test_the_room_of_a_pipe_grows_with_its_length(pipe: str) -> None:
    """One of four times the length takes some four times the memory, and not sixteen times."""
    short, long = room_of(PIPES[pipe], 100), room_of(PIPES[pipe], 400)
    assert long < 6 * short, (short, long)


def room_of(make: Callable[[int], Any], count: int) -> int:
    """Return how many bytes an evaluator holds more behind the creation and the end of a query."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.source("m", ListSource([]))
        gc.collect()
        tracemalloc.start()
        try:
            evaluator.create("q", make(count))
            evaluator.run()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()


def test_a_plan_comes_back_from_its_bytes() -> None:
    """The tree of a query is pickled as a flat list, and is the same tree again."""
    node = PIPES["as another input"](500).node
    again: Node = pickle.loads(pickle.dumps(node))
    assert [type(each.op) for each in walk(again)] == [type(each.op) for each in walk(node)]
    assert [len(each.inputs) for each in walk(again)] == [len(each.inputs) for each in walk(node)]


def doubled(k: int) -> Any:
    return grown(k, lambda q: q.merge(q))


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "a pipe": lambda: PIPES["maps"](OPERATORS_MAX + 1),
    "a pipe of tens of thousands": lambda: PIPES["one by one"](20_000 if Lane.fast_alone else 100_000),
    "stages": lambda: grown(400, lambda q: q.merge(rx.source("m"))),
    "stages in the other input": lambda: grown(400, lambda q: rx.source("m").merge(q)),
    "timers": lambda: grown(400, lambda q: q.pipe(ops.delay(1.0))),
    "used twice each time": lambda: doubled(60),
    "in a group": lambda: n.pipe(ops.group_by(more), ops.flat_map(lambda group: group.pipe(*[ops.delay(1.0)] * 400))),
}
"""Each would end in a `RecursionError`, or never end."""


@pytest.mark.commit
@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_is_too_large_is_refused_when_it_is_created(what: str) -> None:
    """Too large a query is refused by name, before and while an evaluator runs, for a group, and when it is drawn."""
    query = TOO_LARGE[what]()
    running = QueryEvaluator(MemoryStore())
    running.source("n", ListSource([1]))
    running.source("m", ListSource([1]))
    running.start()
    for evaluator in (QueryEvaluator(MemoryStore()), running):
        with pytest.raises(QueryRefused, match=r"query 'q'.* are the most; make several queries of it"):
            evaluator.create("q", query)
        assert evaluator.queries() == []
    app = App()
    app.source("n", ListSource([1]))
    if what != "in a group":
        with pytest.raises(QueryRefused, match=r"query 'q'.* are the most"):
            app.query("q", query)
    else:  # a declaration calls no selector
        app.query("q", query)
        with pytest.raises(QueryRefused, match="are the most"):
            sections_of(app)
    with pytest.raises(QueryRefused, match="are the most"):
        query.explain()
    running.close()


def test_as_many_stages_as_are_allowed_work() -> None:
    """The most stages that a query may have in a row leave room on Python's stack, also for the most costly kinds."""
    for step in (
        lambda q: q.merge(rx.source("m")),
        lambda q: q.pipe(ops.flat_map(lambda x: rx.of(x))),
        lambda q: q.pipe(ops.delay(0.0)),
        lambda q: q.pipe(ops.start_with(1)),
        lambda q: q.pipe(ops.retry(2)),
    ):
        query = grown(STAGES_MAX, step)
        assert measure(query.node)[1] == STAGES_MAX
        assert results(MemoryStore(), query)


NESTED = {"delay_with_mapper: the source"}
"""Whose inner sequences are each the row so far: fourteen nest deeper than Python's stack, and that is said."""


@pytest.mark.commit
@pytest.mark.parametrize("name", lanes([name for name in CASES if CASES[name].hostable], fast=1, every=4))
def test_a_row_of_one_operator_ends(name: str) -> None:
    """A row of an operator is silent about nothing: behind fourteen of a kind notifications still come, or errors.

    The fast lane has six of a kind.
    """
    case = CASES[name]

    def row(ops: Any, rx: Any, first: Any, *others: Any) -> Any:
        for _ in range(6 if Lane.fast_alone else 14):
            first = case.build(ops, rx, first, *others)
        return first

    values = [Timed(float(at), NEXT, value) for at, value in enumerate(list(case.alphabet)[:3], 1)]
    with contextlib.suppress(QueryRefused):  # what is used twice each time is sixteen thousand operators
        for each in run_hosted(row, [[*values, Timed(5.0, COMPLETED)] for _ in range(case.sources)], 40.0):
            assert not isinstance(each.value, RecursionError) or name in NESTED
