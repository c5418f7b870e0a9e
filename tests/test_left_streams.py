"""Streams that are subscribed to in the midst of an event, by readers that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import reactivex.operators
from lanes import crossed
from reactivex.subject import Subject

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

READERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "one value each": lambda n, b, ops: n.pipe(ops.flat_map(lambda _: b.pipe(ops.take(1)))),
    "the latest": lambda n, b, ops: n.pipe(ops.map(lambda _: b), ops.switch_latest()),
    "now and then": lambda n, b, ops: n.pipe(
        ops.filter(lambda v: v % 3 == 0), ops.flat_map(lambda _: b.pipe(ops.take(2)))
    ),
    "until the next": lambda n, b, ops: n.pipe(ops.flat_map(lambda _: b.pipe(ops.take_until(n)))),
    "one after the other": lambda n, b, ops: n.pipe(
        ops.map(lambda _: b.pipe(ops.take(1))), ops.merge(max_concurrent=1)
    ),
    "again and again": lambda n, b, ops: n.pipe(
        ops.filter(lambda v: v % 3 == 1), ops.flat_map(lambda _: b.pipe(ops.take(1), ops.repeat(3)))
    ),
    "what it had missed": lambda n, b, ops: n.pipe(ops.flat_map(lambda v: b.pipe(ops.take(v), ops.count()))),
}
"""Over `n` and a stream over it, in the operators of one library or the other."""
n, b = rx.source("n"), rx.source("b")
HOW = ("stopped", "killed", "killed behind turns")


def outputs(reader: str, cut: int, how: str) -> list[Any]:
    """Return what comes of eight events, one by one, with an end of the evaluator behind event *cut*."""
    store, values = MemoryStore(), list[int]()

    def opened(store: MemoryStore) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create("b", n.map(abs))
        evaluator.create("e", READERS[reader](n, b, ops))
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


@pytest.mark.parametrize(
    "reader, is_older, beside, batch", crossed(READERS, [False, True], ["", "reads it", "chooses"], [1, 3, 1000])
)
def test_what_a_query_emits_comes_behind_the_event(reader: str, is_older: bool, beside: str, batch: int) -> None:
    """To all who read it by then, whichever is older, whoever else reads it, however many events come at a time."""
    source, stream, expected = Subject[int](), Subject[int](), list[Any]()
    READERS[reader](source, stream, reactivex.operators).subscribe(expected.append)
    for value in range(1, 9):
        source.on_next(value)
        stream.on_next(value)

    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch) as evaluator:
        evaluator.source("n", ListSource([*range(1, 9)], follow=True))
        queries = [("b", n.map(abs))]
        queries.insert(0 if is_older else 1, ("e", READERS[reader](n, b, ops)))
        if beside:
            queries.append(("other", b.map(abs) if beside == "reads it" else n.flat_map(lambda _: b.take(1))))
        for name, query in queries:
            evaluator.create(name, query)
        evaluator.start()
        while evaluator.step():
            pass
        assert [value for part in evaluator.stream("e").read(0, 99) for value in part.values] == expected


@pytest.mark.parametrize("reader", [n.merge(b), n.with_latest_from(b), b.with_latest_from(n), n.zip(b)], ids=str)
@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_a_query_that_reads_a_stream_and_its_source_has_the_event_first(reader: Any, batch: int) -> None:
    """Event by event, also where lists come."""
    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("b", n.map(lambda v: v * 10))
        evaluator.create("e", reader)
        evaluator.run()
        found = [value for part in evaluator.stream("e").read(0, 99) for value in part.values]
    assert (
        found
        == {
            str(n.merge(b)): [1, 10, 2, 20, 3, 30],
            str(n.with_latest_from(b)): [(2, 10), (3, 20)],
            str(b.with_latest_from(n)): [(10, 1), (20, 2), (30, 3)],
            str(n.zip(b)): [(1, 10), (2, 20), (3, 30)],
        }[str(reader)]
    )


def test_the_end_of_a_stream_comes_behind_what_it_has_emitted() -> None:
    """Who subscribes in the event with which a query ends has what it emitted in it, as in any event before."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("b", n.take(2))
        evaluator.create("e", n.flat_map(lambda _: b.take(1).default_if_empty("ended")))
        evaluator.run()
        assert [value for part in evaluator.stream("e").read(0, 99) for value in part.values] == [1, 2, "ended"]
