"""Queries on event time that read sources named by values, when they are edited, taken over or suspended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from other_pythons import Pythons

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops


def named(n: int) -> Any:
    return rx.source("m" if n % 2 else "k")


def plain(by: int) -> Any:
    return rx.source("n").map(named).merge_all().map(lambda value: value * by)


def shared(by: int) -> Any:
    step = ops.publish(lambda values: values.map(lambda value: value * by))
    return rx.source("n").map(named).merge_all().map(lambda value: rx.of(value).pipe(step)).merge_all()


QUERIES: dict[str, Callable[[int], Any]] = {"plain": plain, "with a part that is made anew": shared}


class Host:
    """One app, in one process after the other."""

    def __init__(self, query: Callable[[int], Any]) -> None:
        self.query, self.store = query, MemoryStore()
        self.values: dict[str, list[int]] = {"n": [], "m": [], "k": []}

    def opened(self, by: int | None) -> QueryEvaluator:
        self.store = self.store.reopen()
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9)
        for name, values in self.values.items():
            evaluator.source(name, ListSource(values, follow=True))
        if by is not None:
            self.create(evaluator, by)
        evaluator.start()
        return evaluator

    def create(self, evaluator: QueryEvaluator, by: int) -> None:
        evaluator.create("q", self.query(by), clock=rx.event_time(float, idle_s=1e6))

    def take(self, evaluator: QueryEvaluator, **values: list[int]) -> None:
        for name, new in values.items():
            self.values[name] += new
            while evaluator.step():
                pass


@pytest.mark.parametrize("by", [1, 10], ids=["unchanged", "edited"])
@pytest.mark.parametrize("how", ["here", "stopped", "killed", "taken over", "suspended"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_source_that_a_value_has_named_is_read_on(query: str, how: str, by: int, interpreters: Pythons) -> None:
    """Its events wait for those of the others, and none is lost."""
    host = Host(QUERIES[query])
    evaluator = host.opened(1)
    host.take(evaluator, n=[1, 10], m=[20, 30])
    host.take(evaluator, n=[40])
    if how == "here":
        host.create(evaluator, by)
    else:
        evaluator.flush()
        evaluator.abandon() if how == "killed" else evaluator.__exit__(None, None, None)
        if how in ("taken over", "suspended"):
            interpreters.change()
        if how == "suspended":
            host.opened(None).__exit__(None, None, None)
            interpreters.change()
        evaluator = host.opened(by)
    host.take(evaluator, m=[35, 50, 60], n=[70], k=[80])
    found = [value for part in evaluator.stream("q").read(0, 99) for value in part.values]
    evaluator.close()
    assert found == [20, 30 * by, 35 * by, 50 * by]


@pytest.mark.parametrize("how", ["here", "stopped", "killed"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_source_that_an_edit_reads_no_more_is_not_waited_for(query: str, how: str) -> None:
    """Neither then nor behind later starts, though nothing comes of it."""
    host = Host(QUERIES[query])
    evaluator = host.opened(1)
    host.take(evaluator, n=[1, 10], m=[20, 30])
    host.take(evaluator, n=[40])
    host.query = lambda by: rx.source("n").map(lambda n: n * by)
    if how == "here":
        host.create(evaluator, 10)
    for number in range(3):
        if how != "here" or number:
            evaluator.flush()
            evaluator.abandon() if how == "killed" else evaluator.__exit__(None, None, None)
            evaluator = host.opened(10)
        host.take(evaluator, n=[100 * number + 50, 100 * number + 60])
    found = [value for part in evaluator.stream("q").read(0, 99) for value in part.values]
    clock = evaluator.engine.standing["q"].clock
    assert clock is not None and clock.watermark.sources == {"n"}
    evaluator.close()
    assert found[-5:] == [500, 600, 1500, 1600, 2500]


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("how", ["stopped", "killed", "killed behind a checkpoint"])
@pytest.mark.parametrize("cut", range(1, 8))
def test_queries_of_one_watermark_take_their_turns_by_their_age(cut: int, how: str, edited: bool) -> None:
    """Whichever has joined it first: so it is in a process that begins now, and who reads them has the same order."""
    clock = rx.event_time(float, lateness_s=0.0, idle_s=1e6)
    values: dict[str, list[int]] = {"n": [], "m": []}

    def opened(store: MemoryStore, by: int) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        for name in values:
            evaluator.source(name, ListSource(values[name], follow=True))
        first = rx.source("n").flat_map(lambda v: rx.source("m" if v % 2 else "n").map(lambda w: w + by))
        evaluator.create("first", first, clock=clock)
        evaluator.create("second", rx.merge(rx.source("n"), rx.source("m")), clock=clock)
        evaluator.create("reader", rx.merge(rx.source("first"), rx.source("second")))
        evaluator.start()
        return evaluator

    def outputs(how: str) -> list[int]:
        for each in values.values():
            each.clear()
        store, by = MemoryStore(), 1000
        evaluator = opened(store, by)
        for number in range(1, 10):
            values["n" if number % 2 else "m"].append(number)
            while evaluator.step():
                pass
            if number == cut - 1 and how == "killed behind a checkpoint":
                evaluator.checkpoint()
            if number == cut and how:
                evaluator.flush()
                evaluator.__exit__(None, None, None) if how == "stopped" else evaluator.abandon()
                store = store.reopen()
                evaluator = opened(store, by)
            if number == 3 and edited:
                by = 2000
                first = rx.source("n").flat_map(lambda v: rx.source("m" if v % 2 else "n").map(lambda w: w + by))
                evaluator.create("first", first, clock=clock)
        assert {evaluator.query(name).status for name in evaluator.queries()} == {"running"}
        found = [value for part in evaluator.stream("reader").read(0, 99) for value in part.values]
        evaluator.close()
        return found

    assert outputs(how) == outputs("")
