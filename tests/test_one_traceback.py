"""One failure has one traceback: it is told once, whatever reads what has failed, and each raise stands in it once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from lanes import at_each_commit

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from reliable_rx import operators as ops

n: Any = rx.source("n")
SEVEN = 7


def fails(value: Any, *_: Any) -> Any:
    if value == SEVEN:
        raise ValueError("seven cannot be had")
    return value


async def fails_outside(value: Any) -> Any:
    return fails(value)


def second(_: Any, value: Any) -> Any:
    return fails(value)


def timed(timestamp: Any = float) -> Any:
    return rx.event_time(timestamp, lateness_s=0.0)


Create = Callable[[QueryEvaluator], object]
WAYS: dict[str, Create] = {
    "a mapper": lambda e: e.create("q", n.map(fails)),
    "a mapper behind others": lambda e: e.create("q", n.filter(bool).map(fails).map(str)),
    "an accumulator": lambda e: e.create("q", n.scan(second, 0)),
    "a key": lambda e: e.create("q", n.group_by(fails).flat_map(lambda group: group.map(str))),
    "a selector": lambda e: e.create("q", n.flat_map(lambda x: rx.of(fails(x)))),
    "inside an inner sequence": lambda e: e.create("q", n.flat_map(lambda x: rx.of(x).map(fails))),
    "a timer": lambda e: e.create("q", n.delay(0.0).map(fails)),
    "a comparer": lambda e: e.create("q", n.distinct_until_changed(fails)),
    "a call": lambda e: e.create("q", n.map_async(fails_outside)),
    "behind a share": lambda e: e.create("q", n.pipe(ops.share(), ops.map(fails))),
    "behind two readers": lambda e: e.create("q", n.merge(n).map(fails)),
    "on event time": lambda e: e.create("q", n.map(fails), clock=timed()),
    "the time of an event": lambda e: e.create("q", n, clock=timed(fails)),
    "the key of an event": lambda e: e.create("q", n.where_key(fails, 3)),
    "the key of an event on event time": lambda e: e.create("q", n.where_key(fails, 3), clock=timed()),
    "a skipped event": lambda e: e.create("q", n.map(fails), policy="skip"),
    "a skipped event without a time": lambda e: e.create("q", n, clock=timed(fails), policy="skip"),
    "a sink": lambda e: (e.create("q", n), e.sink("q", CallbackSink(second))),
    "a sink that skips": lambda e: (e.create("q", n), e.sink("q", CallbackSink(second), on_error="skip")),
}
READERS: dict[str, Any] = {
    "plain": rx.source("q").map(str),
    "merged": rx.source("q").merge(n),
    "by a selector": rx.of(1).flat_map(lambda _: rx.source("q")),
    "of a reader": rx.source("plain"),
    "which goes on": rx.source("q").catch(rx.of(0)),
}


@pytest.mark.parametrize("batch", [at_each_commit(1), 1000])
@pytest.mark.parametrize("create", WAYS.values(), ids=WAYS)
def test_one_failure_is_one_traceback(create: Create, batch: int, caplog: pytest.LogCaptureFixture) -> None:
    """With readers of all kinds, live and behind a restart: each run tells it once, and the raise is in it once."""
    store = MemoryStore()
    for run in range(2):
        caplog.clear()
        with (
            QueryEvaluator(store, background=False, batch_events_max=batch) as evaluator,
            caplog.at_level(logging.INFO),
        ):
            evaluator.source("n", ListSource([1, 5, 3, SEVEN, 9]))
            create(evaluator)
            for name, query in READERS.items():
                evaluator.create(name, query)
            evaluator.create("timed", rx.source("q"), clock=timed())
            evaluator.run()
            told = [each.trace for each in evaluator.incidents.open() if each.trace]
            figures = [evaluator.query(name).trace for name in evaluator.queries()]
        assert caplog.text.count("Traceback (most recent call last)") == len(told), caplog.text
        assert len(told) == 1 or (run and not told)
        assert all(each.count("raise ValueError") == 1 for each in told), told[0]
        assert sum(map(bool, figures)) <= 1, "only what has failed by itself has a traceback"
