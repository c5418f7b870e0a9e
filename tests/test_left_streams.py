"""Streams that are subscribed to in the midst of an event, by readers that come and go."""

from __future__ import annotations

from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

n, b = rx.source("n"), rx.source("b")
READERS: dict[str, Any] = {
    "one value each": n.flat_map(lambda _: b.take(1)),
    "the latest": n.map(lambda _: b).switch_latest(),
    "now and then": n.filter(lambda v: v % 3 == 0).flat_map(lambda _: b.take(2)),
    "until the next": n.flat_map(lambda _: b.take_until(n)),
    "one after the other": n.map(lambda _: b.take(1)).merge(max_concurrent=1),
}
HOW = ("stopped", "killed", "killed behind turns")


def outputs(reader: str, cut: int, how: str) -> list[Any]:
    """Return what comes of eight events, one by one, with an end of the evaluator behind event *cut*."""
    store, values = MemoryStore(), list[int]()

    def opened(store: MemoryStore) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create("b", n.map(abs))
        evaluator.create("e", READERS[reader])
        evaluator.start()
        return evaluator

    evaluator = opened(store)
    for value in range(1, 9):
        values.append(value)
        while evaluator.step():
            pass
        if value == cut - 2 and how == "killed behind turns":
            evaluator.checkpoint(full=True)
        if value == cut and how:
            evaluator.flush()
            evaluator.__exit__(None, None, None) if how == "stopped" else evaluator.abandon()
            store = store.reopen()
            evaluator = opened(store)
    assert evaluator.query("e").status == "running"
    found = [value for part in evaluator.stream("e").read(0, 99) for value in part.values]
    evaluator.close()
    return found


@pytest.mark.parametrize("clock", [None, rx.event_time(float, lateness_s=0.0)], ids=["the host's", "its own"])
def test_names_that_were_read_leave_nothing(clock: Any) -> None:
    """Behind each event there is a route for each name that is read then, and no other, also within a query."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        values = list[int]()
        evaluator.source("n", ListSource(values, follow=True))
        for number in range(20):
            evaluator.create(f"b{number}", n.map(abs))
        evaluator.create("reader", n.map(lambda v: rx.source(f"b{v}").take(1)).switch_latest(), clock=clock)
        evaluator.start()
        for number in range(20):
            values.append(number)
            while evaluator.step():
                pass
        for number in range(20):
            evaluator.dispose(f"b{number}")
        values.append(20)
        while evaluator.step():
            pass
        world = evaluator.engine if clock is None else evaluator.engine.standing["reader"].clock
        assert world is not None and all(route.is_read for route in world.routes.values())
        assert world.routes.keys() <= {"n", "b19", "b20"} and evaluator.engine.routes.keys() <= {"n", "b20"}


@pytest.mark.parametrize("reader, cut, how", crossed(READERS, range(3, 8), HOW))
def test_whoever_has_read_a_stream_before_makes_no_difference(reader: str, cut: int, how: str) -> None:
    """A stream that all readers have left is as one that nobody has read, as it is behind a restart."""
    assert outputs(reader, cut, how) == outputs(reader, 0, "")
