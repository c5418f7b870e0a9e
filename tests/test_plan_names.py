"""What runs under a query's name is its own code, whatever the hash of its content has not seen.

Here the hash sees nothing at all: all queries of an app are one to it. It still says that a query was not edited, so
nothing is reported, and nothing that has ended begins anew; but no query runs the code of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.plan_names import content_in
from reliable_rx import operators as ops
from reliable_rx.event_time import clock_id
from reliable_rx.functions.contents import content

Make = Callable[[int], Any]


class Holds:
    """A callable whose factor lies in an attribute."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, x: int) -> int:
        return x * self.k


MAKES: dict[str, Make] = {
    "a closure": lambda k: rx.source("n").pipe(ops.map(lambda x: x * k), ops.scan(lambda a, x: a + x, 0)),
    "an object": lambda k: rx.source("n").pipe(ops.map(Holds(k)), ops.scan(lambda a, x: a + x, 0)),
    "in groups": lambda k: rx.source("n").pipe(
        ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.scan(lambda a, x: a + x * k, 0)))
    ),
    "routed": lambda k: rx.source("n").pipe(ops.where_key(lambda x: x % 2, 1), ops.map(lambda x: x * k)),
}


@pytest.fixture(autouse=True)
def _blind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hosting.engine.plans.content", lambda node: content(node)._replace(digest="all the same"))
    monkeypatch.setattr("hosting.engine.plans.content_hash", lambda node: "all the same")


def hosted(store: MemoryStore, count: int, queries: dict[str, Any], *, cleanly: bool) -> tuple[dict[str, Any], Any]:
    """Run *queries* until they have taken *count* numbers; return what their streams hold, and the edit reports."""
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, background=False)
    evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
    for name, query in queries.items():
        evaluator.create(name, query)
    evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
    held = {name: [v for each in evaluator.stream(name).read(0, 1000) for v in each.values] for name in queries}
    if cleanly:
        evaluator.checkpoint()
    evaluator.close()
    return held, evaluator.statistics().reports


def given(make: Make, count: int) -> Callable[[int], list[Any]]:
    """Return what gives, for a factor, what a query that is never stopped gives."""

    def gives(k: int) -> list[Any]:
        evaluator = QueryEvaluator(MemoryStore(), background=False)
        evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
        evaluator.create("q", make(k))
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
        held = [v for each in evaluator.stream("q").read(0, 1000) for v in each.values]
        evaluator.close()
        return held

    return gives


STOPS = pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])


@STOPS
@pytest.mark.parametrize("kind", MAKES)
def test_no_query_runs_the_code_of_another(kind: str, cleanly: bool) -> None:
    """Three queries that the hash takes for one go on with their own code over three starts, in any order."""
    make, store = MAKES[kind], MemoryStore()
    wanted = given(make, 9)
    for count, order in ((3, (2, 3, 5)), (6, (5, 2, 3)), (9, (3, 5, 2))):
        held, reports = hosted(store, count, {f"by {k}": make(k) for k in order}, cleanly=cleanly)
        assert held == {f"by {k}": wanted(k)[: len(held[f"by {k}"])] for k in order}
        assert reports == {}
    assert {name: len(values) for name, values in held.items()} == {f"by {k}": len(wanted(k)) for k in order}


@STOPS
def test_a_change_the_hash_has_not_seen_comes_behind_what_was_done(cleanly: bool) -> None:
    """A replay runs the code that was stored; what comes then is done by what the app declares, with the state."""
    make, store = MAKES["an object"], MemoryStore()
    hosted(store, 3, {"q": make(2)}, cleanly=cleanly)
    held, reports = hosted(store, 5, {"q": make(3)}, cleanly=cleanly)
    assert held == {"q": [2, 6, 12, 12 + 3 * 4, 12 + 3 * 4 + 3 * 5]}
    assert reports == {}, "the hash tells of no edit, and nothing is lost"
    held, _ = hosted(store, 6, {"q": make(3)}, cleanly=cleanly)
    assert held["q"][-1] == 12 + 3 * 4 + 3 * 5 + 3 * 6


@STOPS
def test_what_was_skipped_stays_counted(cleanly: bool) -> None:
    """A query that goes over to other code without an edit has skipped what it had skipped."""
    store = MemoryStore()
    for count, by in ((3, 2), (6, 3)):
        evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, background=False)
        evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
        evaluator.create("q", rx.source("n").pipe(ops.map(lambda x, by=by: by // (x % 3))), policy="skip")
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
        assert evaluator.query("q").skipped == count // 3
        evaluator.checkpoint() if cleanly else None
        evaluator.close()


@STOPS
def test_what_has_ended_stays_ended(cleanly: bool) -> None:
    """Where no edit is seen a failed query does not begin anew, whatever bytes its code has today."""
    store = MemoryStore()
    failing = rx.source("n").pipe(ops.map(lambda x: 1 // (x - 2)))
    hosted(store, 3, {"q": failing}, cleanly=cleanly)
    held, reports = hosted(store, 5, {"q": MAKES["an object"](3)}, cleanly=cleanly)
    assert (held, reports) == ({"q": [-1]}, {})


@STOPS
def test_what_no_app_declares_runs_what_was_stored(cleanly: bool) -> None:
    """Stored queries that are not declared again keep their own code beside one that is."""
    make, store = MAKES["a closure"], MemoryStore()
    hosted(store, 3, {"by 2": make(2), "by 3": make(3)}, cleanly=cleanly)
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource(list(range(1, 6)), follow=True))
    evaluator.create("by 5", make(5))
    evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == 5)
    for k, at in ((2, 5), (3, 5)):
        values = [v for each in evaluator.stream(f"by {k}").read(0, 1000) for v in each.values]
        assert values == given(make, at)(k)
    evaluator.close()


@STOPS
def test_no_query_runs_the_clock_of_another(cleanly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clocks that the hash takes for one stay two, also in the next process."""
    monkeypatch.setattr("reliable_rx.query.identity.hash_of", lambda value: "all the same")
    clock_id.cache_clear()
    store = MemoryStore()
    for count in (4, 8):
        evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, background=False)
        evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
        for name, sign in (("up", 1), ("down", -1)):
            clock = rx.event_time(lambda x, sign=sign: float(sign * x), lateness_s=0.0)
            evaluator.create(name, rx.source("n").map(lambda x: x), clock=clock)
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
        up, down = ([v for p in evaluator.stream(each).read(0, 100) for v in p.values] for each in ("up", "down"))
        evaluator.checkpoint() if cleanly else None
        evaluator.close()
        assert up == list(range(1, count)) or up == list(range(1, count + 1))
        assert len(down) <= 1, "all but the first is late"
    clock_id.cache_clear()


def test_what_the_hash_sees_is_told() -> None:
    """A query of the same code under another policy is edited, and its report says so."""
    make, store = MAKES["a closure"], MemoryStore()
    for policy, told in (("fail", {}), ("skip", {"q": "kept: /scan"}), ("skip", {})):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("q", make(2), policy=policy)
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == 1)
        evaluator.checkpoint()
        assert evaluator.statistics().reports == told
        evaluator.close()


def test_the_content_is_a_part_of_the_name() -> None:
    """What the name says of the content is what the hash says."""
    evaluator = QueryEvaluator(MemoryStore())
    evaluator.source("n", ListSource([]))
    names = {evaluator.engine.creation(f"q{k}", MAKES["a closure"](k), time=0.0).plan for k in (1, 2)}
    assert len(names) == 2
    assert {content_in(name) for name in names} == {"all the same"}
