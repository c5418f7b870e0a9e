"""Several queries created in one call: all or none, whatever is wrong with one of them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator

LOCK = threading.Lock()
n: Any = rx.source("n")


def holding(lock: Any) -> Any:
    return lambda value: (lock, value)


BAD: dict[str, Any] = {
    "no query": 5,
    "a source that is not there": rx.source("elsewhere"),
    "what is no plain data": n.map(holding(LOCK)),
    "dead letters that will not come": rx.source("first.dead_letters"),
    "itself": rx.source("bad"),
    "what comes later": rx.source("last"),
}


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("bad", BAD)
def test_all_or_none(bad: str, started: bool) -> None:
    """A call with one bad query creates nothing, and works when that is mended."""
    if not started and bad in ("a source that is not there", "dead letters that will not come", "what comes later"):
        pytest.skip("what is declared may come until the start")
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        if started:
            evaluator.start()
        turns = evaluator.engine.number
        with pytest.raises(rx.QueryRefused):
            evaluator.create_many({"first": n.count(), "bad": BAD[bad], "last": n})
        assert evaluator.queries() == [] and evaluator.engine.number == turns
        evaluator.create_many({"first": n.count(), "bad": rx.source("first"), "last": n})
        assert evaluator.queries() == ["first", "bad", "last"]
        evaluator.run()
        assert [value for part in evaluator.stream("bad").read(0, 10) for value in part.values] == [3]


def values(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 10) for value in part.values]


@pytest.mark.parametrize("started", [False, True])
def test_a_name_that_is_taken_is_edited(started: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Before a start and behind it the last query of a name counts, also for its readers; it may read later ones."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        if started:
            evaluator.start()
        evaluator.create("q", n)
        evaluator.create("q", rx.source("n"))
        assert not caplog.text, "it is the same"
        evaluator.create("reads it", rx.source("q").count())
        evaluator.create("later", n.map(lambda x: 10 * x))
        evaluator.create("q", rx.source("later").map(lambda x: x + 1), policy="skip")
        assert started or "'q' was created before, as another one: the last one counts" in caplog.text
        for ring in (rx.source("q"), rx.source("reads it")):
            with pytest.raises(rx.QueryRefused):
                evaluator.create("q", ring)
        with pytest.raises(rx.QueryRefused):
            evaluator.create_many({"later": n, "q": n, "bad": 5})
        evaluator.run()
        assert values(evaluator, "q") == [11, 21, 31] and values(evaluator, "reads it") == [3]
        assert evaluator.engine.standing["q"].policy == "skip"


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("name", ["n", "", "q.late"])
def test_names_are_checked_first(name: str, started: bool) -> None:
    """The name of a source, or what is no name, is found before the others are declared."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("taken", n)
        if started:
            evaluator.start()
        with pytest.raises((ValueError, TypeError)):
            evaluator.create_many({"first": n, name: n.count()})
        assert evaluator.queries() == ["taken"]


def test_a_ring_is_refused_whole() -> None:
    """An edit in the same call that would close a ring is found before anything is edited."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.start()
        evaluator.create_many({"a": n, "b": rx.source("a")})
        turns = evaluator.engine.number
        with pytest.raises(rx.QueryRefused, match="which reads"):
            evaluator.create_many({"c": rx.source("b"), "a": rx.source("c")})
        assert evaluator.queries() == ["a", "b"] and evaluator.engine.number == turns


def test_side_streams_of_the_same_call() -> None:
    """A query may read the dead letters of one before it in the same call."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([0, 1]))
        evaluator.start()
        evaluator.create_many(
            {"q": n.map(lambda value: 1 // value), "letters": rx.source("q.dead_letters").count()}, policy="dead_letter"
        )
        evaluator.run()
        assert [value for part in evaluator.stream("letters").read(0, 10) for value in part.values] == [1]


@pytest.mark.parametrize("way", ["declared", "flush", "turns", "running"])
def test_when_a_creation_is_durable(way: str, tmp_path: Path) -> None:
    """One that `start` has made with the first turns behind it, or `flush`; while it runs when `create` returns."""
    with SqliteStore(tmp_path) as store:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2]))
        if way != "running":
            evaluator.create("q", n.map(abs))
        evaluator.start()
        if way == "running":
            evaluator.create("q", n.map(abs))
        elif way != "declared":
            (evaluator.flush if way == "flush" else evaluator.run)()
        evaluator.abandon()
    with SqliteStore(tmp_path) as store, QueryEvaluator(store) as after:
        after.source("n", ListSource([1, 2]))
        after.start()
        assert after.queries() == ([] if way == "declared" else ["q"])
