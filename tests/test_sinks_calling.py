"""Sinks that call the evaluator which writes to them, or raise what ends a process."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from reliable_rx.errors import TooLate

Call = Callable[[QueryEvaluator, Any], Any]

LABELS = count()
CALLS: dict[str, Call] = {
    "create": lambda evaluator, value: evaluator.create(f"session-{value}", rx.source("n").count()),
    "create again": lambda evaluator, _: evaluator.create("same", rx.source("n")),
    "step": lambda evaluator, _: evaluator.step(),
    "flush": lambda evaluator, _: evaluator.flush(),
    "checkpoint": lambda evaluator, _: evaluator.checkpoint(),
    "full checkpoint": lambda evaluator, _: evaluator.checkpoint(full=True),
    "restart": lambda evaluator, _: evaluator.restart("other"),
    "statistics": lambda evaluator, _: evaluator.statistics(),
    "sink": lambda evaluator, _: evaluator.sink("other", CallbackSink(lambda n, value: None, label=str(next(LABELS)))),
}


def watched(store: MemoryStore, sink: CallbackSink) -> QueryEvaluator:
    evaluator = QueryEvaluator(store)
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.sink("s", sink)
    evaluator.start()
    evaluator.create("other", rx.source("n").map(lambda n: -n))
    evaluator.create("s", rx.source("n").map(lambda n: n * 10))
    return evaluator


@pytest.mark.parametrize("name", CALLS)
def test_a_sink_may_call_the_evaluator_and_is_called_once_for_each_id(name: str) -> None:
    """A call from within a sink is carried out, and the sink has each id once and in order, none within another."""
    had: list[tuple[int, Any]] = []
    depths: list[int] = []
    depth = 0

    def take(n: int, value: Any) -> None:
        nonlocal depth
        had.append((n, value))
        depth += 1
        depths.append(depth)
        CALLS[name](evaluator, value)
        depth -= 1

    store = MemoryStore()
    with watched(store, CallbackSink(take)) as evaluator:
        evaluator.run()
        assert evaluator.statistics().incidents == ()
        assert evaluator.query("other").status == "completed"
    assert had == [(0, 10), (1, 20), (2, 30)]
    assert set(depths) == {1}


RUNS: dict[str, Call] = {
    "run": lambda evaluator, _: evaluator.run(),
    "run until": lambda evaluator, _: evaluator.run(until=lambda: False),
}


@pytest.mark.parametrize("where", ["sink", "observer", "query"])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_within_a_run_is_refused_at_once(name: str, where: str) -> None:
    """It would wait for the step that it is in, for ever: who calls it is told so, and all else goes on."""
    told: list[Exception] = []

    def take(n: int, value: Any) -> None:
        try:
            RUNS[name](evaluator, value)
        except TooLate as error:
            told.append(error)

    def calls(value: int) -> int:
        take(0, value)
        return value

    with watched(MemoryStore(), CallbackSink(take if where == "sink" else lambda n, value: None)) as evaluator:
        if where == "observer":
            evaluator.stream("s").observable(0).subscribe(lambda value: take(0, value))
        if where == "query":
            CALLED.append(calls)
            evaluator.create("calls", rx.source("n").map(called))
        evaluator.run()
        CALLED.clear()
        assert evaluator.query("other").status == "completed"
    assert len(told) == 3


CALLED: list[Any] = []


def called(value: int) -> int:
    result: int = CALLED[0](value)
    return result


@pytest.mark.parametrize("name", ["checkpoint", "full checkpoint"])
def test_a_checkpoint_from_within_a_sink_keeps_what_the_sink_has_not_had(name: str) -> None:
    """A process that dies behind such a checkpoint gives the sink of the next one what it lacks."""
    had: list[int] = []
    called: list[int] = []
    store = MemoryStore()

    def dies(n: int, value: Any) -> None:
        called.append(value)
        CALLS[name](evaluator, value)
        raise OSError("the process dies here")

    evaluator = watched(store, CallbackSink(dies))
    evaluator.step()
    evaluator.flush()
    assert called == [10]
    assert evaluator.checkpointer.generation > 0
    evaluator.abandon()
    store = store.reopen()
    with watched(store, CallbackSink(lambda n, value: had.append(value))) as evaluator:
        evaluator.run()
    assert had == [10, 20, 30]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_sink_raises_by_itself_is_its_own_failure(raised: type[BaseException]) -> None:
    """No exception of a sink's function ends the evaluator; the others go on, and it is reported."""

    def take(n: int, value: Any) -> None:
        raise raised

    with watched(MemoryStore(), CallbackSink(take)) as evaluator:
        evaluator.run()
        assert evaluator.query("other").status == "completed"
        (found,) = evaluator.statistics().incidents
        assert raised.__name__ in found.message
