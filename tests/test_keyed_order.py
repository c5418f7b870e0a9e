"""Queries that read by key: who is first at an event is told by their age, as in a process that begins now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

n = rx.source("n")


def by_two(value: int) -> int:
    return value % 2


def by_three(value: int) -> int:
    return value % 3


def told(name: str, query: Any) -> Any:
    return query.map(lambda value: (name, value))


def one_key_function_twice() -> dict[str, Any]:
    return {
        "gone": told("gone", n.where_key(by_two, 0)),
        "a": told("a", n.where_key(by_three, 0)),
        "b": told("b", n.where_key(by_two, 0)),
    }


def one_that_reads_again() -> dict[str, Any]:
    again = n.where_key(by_two, 0).take(1).repeat()
    return {"a": told("a", again), "b": told("b", n.where_key(by_two, 0)), "c": told("c", n.where_key(by_three, 0))}


def one_that_is_edited() -> dict[str, Any]:
    return {"a": told("a", n.where_key(by_two, 0)), "b": told("b", n.where_key(by_two, 0)), "edited": None}


APPS: dict[str, Callable[[], dict[str, Any]]] = {
    "a key function that is left and read again": one_key_function_twice,
    "a reader that reads again": one_that_reads_again,
    "an edit": one_that_is_edited,
}
HOW = ("stopped", "killed", "killed behind a checkpoint")


def outputs(app: str, clocked: bool, batch: int, how: str) -> list[Any]:
    store, values = MemoryStore(), list[int]()

    def opened(store: MemoryStore) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, batch_events_max=batch)
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.start()
        return evaluator

    clock = rx.event_time(float, lateness_s=0.0) if clocked else None
    evaluator = opened(store)
    made = {name: query for name, query in APPS[app]().items() if query is not None}
    for name, query in made.items():
        evaluator.create(name, query, clock=clock)
    evaluator.create("reader", rx.merge(*(rx.source(name) for name in made if name != "gone")))
    if app == "an edit":
        evaluator.create("a", told("edited", n.where_key(by_two, 0)), clock=clock)
    if "gone" in made:
        evaluator.dispose("gone")
    for number, value in enumerate(range(6, 54, 6)):
        values += [value, value + 1, value + 4]
        while evaluator.step():
            pass
        if number == 2 and how == "killed behind a checkpoint":
            evaluator.checkpoint()
        if number == 3 and how:
            evaluator.flush()
            evaluator.__exit__(None, None, None) if how == "stopped" else evaluator.abandon()
            evaluator = opened(store.reopen())
    assert evaluator.query("reader").status == "running"
    found = [value for part in evaluator.stream("reader").read(0, 999) for value in part.values]
    evaluator.close()
    return found


@pytest.mark.parametrize("app, clocked, batch, how", crossed(APPS, [False, True], [1, 100], HOW))
def test_whoever_is_older_is_first(app: str, clocked: bool, batch: int, how: str) -> None:
    """Whoever has subscribed sooner, or again, or under a key function that was there sooner."""
    assert outputs(app, clocked, batch, how) == outputs(app, clocked, batch, "")
