"""Queries on event time that read sources named by values, when they are edited, taken over or suspended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_taken_over import Interpreters, interpreters

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

__all__ = ["interpreters"]


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
def test_a_source_that_a_value_has_named_is_read_on(query: str, how: str, by: int, interpreters: Interpreters) -> None:
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
