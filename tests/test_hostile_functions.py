"""Functions given to sinks and consumers do what they like to their own output, and the list of all such parameters."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from test_hostile_queries import sampled_with

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import (
    CallbackSink,
    Deliveries,
    Delivering,
    JsonLinesSink,
    ListSource,
    QueryEvaluator,
    SqliteTableSink,
    Verdict,
)
from hosting.subscriptions.consumers import Retry
from reliable_rx.testing.hostile import FUNCTIONS, Hostile

COUNT = 10


def of_value(function: Any) -> Any:
    """Call *function* with the value, which comes last or is a letter or an end."""
    return lambda *given: function(given[-1] if type(given[-1]) is int else 4)


SINKS: dict[str, Callable[[Path, Any], Any]] = {
    "encode": lambda folder, f: JsonLinesSink(folder / "odd.jsonl", encode=f),
    "columns": lambda folder, f: SqliteTableSink(folder / "odd.db", "odd", columns={"value": f}),
    "on_next": lambda folder, f: CallbackSink(of_value(f), on_dead_letter=lambda letter: None),
    "on_end": lambda folder, f: CallbackSink(lambda n, value: None, of_value(f), on_dead_letter=lambda letter: None),
    "on_dead_letter": lambda folder, f: CallbackSink(refuses, on_dead_letter=of_value(f)),
}


def refuses(n: int, value: int) -> None:
    if value % 5 == 4:
        raise ValueError(value)


@pytest.mark.parametrize(
    "function, place, on_error", sampled_with(FUNCTIONS, list(SINKS), ["fail", "skip", "dead_letter"]), ids=str
)
def test_functions_of_sinks(tmp_path: Path, function: Hostile, place: str, on_error: Any) -> None:
    """What a sink's function does is that sink's trouble, told by its stream; the sink beside it has all."""
    try:
        SINKS[place](tmp_path, function.make())
    except TypeError as refused:  # a function that can be no such one, where it is written
        assert function.name == "generates" and " is called with (one)" in str(refused)
        return
    store: Any = MemoryStore()
    for crashes in (True, False):
        with QueryEvaluator(store, background=False, batch_events_max=3, checkpoint_interval_s=1e9) as evaluator:
            evaluator.source("n", ListSource(list(range(COUNT))))
            evaluator.create("q", rx.source("n").map(int))
            evaluator.sink("q", JsonLinesSink(tmp_path / "whole.jsonl"))
            evaluator.sink("q", SINKS[place](tmp_path, function.make()), on_error=on_error)
            for _ in range(3 if crashes else 1000):
                if not evaluator.step():
                    break
            told = [each for each in evaluator.statistics().incidents if each.kind.startswith("sink")]
            assert all(each.subject.startswith("q") and len(each.message) < 5000 for each in told)
            if crashes:
                evaluator.abandon()
        store = store.reopen()
    rows = [json.loads(line) for line in (tmp_path / "whole.jsonl").read_text().splitlines()]
    assert rows == [*({"id": n, "value": n} for n in range(COUNT)), {"id": COUNT, "completed": True}]


class Answering:
    """A consumer that answers with what a function gives."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.seen: list[Any] = []

    def deliver(self, records: Any, after: int, /) -> Any:
        answers = [self.function(value) for _, value in records]
        self.seen += [value for _, value in records]
        return next((answer for answer in answers if type(answer) is not int), None)

    def end(self, n: int, error: Exception | None, /) -> None:
        self.seen.append("end")


@pytest.mark.parametrize("function, place", sampled_with(FUNCTIONS, ["deliver", "keep", "park"]), ids=str)
def test_functions_of_consumers(function: Hostile, place: str) -> None:
    """What a consumer's function does leaves the reader beside it alone, and is told."""
    soon = Retry(first_s=0.0, jitter=0.0, within_s=0.0)
    made: Any = function.make()
    odd = Answering(made if place == "deliver" else refuses_four if place == "park" else int)
    delivering = {
        "deliver": Delivering(batch=2, verdict=Verdict.SKIP, retry=soon),
        "keep": Delivering(batch=2, keep=made, retry=soon),
        "park": Delivering(batch=2, verdict=Verdict.PARK, park=lambda letter: made(letter.value), retry=soon),
    }[place]
    whole = Answering(int)
    deliveries = Deliveries()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator, closing(deliveries):
        evaluator.source("n", ListSource(list(range(COUNT))))
        evaluator.create("q", rx.source("n").map(int))
        subscription = deliveries.subscribe("q", odd, name="odd", at=0, delivering=delivering)
        deliveries.subscribe("q", whole, name="whole", at=0)
        deliveries.offer("q", evaluator.stream("q"))
        evaluator.run()
        assert deliveries.wait(lambda: whole.seen[-1:] == ["end"], timeout_s=20.0)
        assert whole.seen == [*range(COUNT), "end"]
        assert deliveries.wait(lambda: odd.seen[-1:] == ["end"] or subscription.error is not None, timeout_s=20.0)


def refuses_four(value: int) -> int:
    refuses(0, value)
    return value


DRAWN = {
    "CallbackSink.on_next": "test_hostile_functions.py::test_functions_of_sinks",
    "CallbackSink.on_end": "test_hostile_functions.py::test_functions_of_sinks",
    "CallbackSink.on_dead_letter": "test_hostile_functions.py::test_functions_of_sinks",
    "JsonLinesSink.encode": "test_hostile_functions.py::test_functions_of_sinks",
    "MicroBatchSink.encode": "test_spark_sink.py::test_whatever_encode_does_is_the_trouble_of_its_sink",
    "SqliteTableSink.columns": "test_hostile_functions.py::test_functions_of_sinks",
    "Deliveries.subscribe.consumer": "test_hostile_functions.py::test_functions_of_consumers",
    "Deliveries.implicit.fits": "test_consumers_raising.py::test_a_rule_that_raises",
    "Deliveries.implicit.make": "test_consumers_raising.py::test_a_rule_that_raises",
    "Delivering.keep": "test_hostile_functions.py::test_functions_of_consumers",
    "Delivering.park": "test_hostile_functions.py::test_functions_of_consumers",
    "Stream.subscribe.observer": "test_consumers_raising.py::test_an_observer_that_raises",
    "App.start_feeds.failed": "test_consumers_raising.py::test_a_feed_that_raises",
    "FileSource.types": "test_bad_records.py::test_whatever_the_functions_of_a_source_raise",
    "FileSource.parse": "test_hostile_sources.py::test_functions",
    "FileSource.partition_by": "test_hostile_sources.py::test_functions",
    "FileSource.sort_by": "test_hostile_sources.py::test_functions",
    "FileSource.timestamp": "test_hostile_sources.py::test_functions",
    "GeneratorSource.function": "test_hostile_sources.py::test_functions",
    "GeneratorSource.timestamp": "test_hostile_sources.py::test_functions",
    "ListSource.timestamp": "test_hostile_sources.py::test_functions",
    "SharedSource.bytes_of": "test_hostile_sources.py::test_functions",
    "SharedSource.stream_of": "test_hostile_sources.py::test_functions",
    "KafkaSource.decode": "test_kafka_source.py::test_whatever_decode_raises",
    "QueryEvaluator.clock": "test_host_clock.py::test_a_clock_that_reads_no_time_stands_still",
}
"""By which test each function of a user is drawn."""
READ_BY_PARTITION = "any source's is called by the partition that reads it: ListSource.timestamp"
NOT_DRAWN = {
    "KafkaSource.timestamp": READ_BY_PARTITION,
    "MicroBatchSource.timestamp": READ_BY_PARTITION,
    "QueryEngine.declare.timestamp": READ_BY_PARTITION,
    "QueryEngine.follow_up.call": "given by an operator",
    "QueryEngine.moment.call": "given by an operator",
    "App.source.source": "it makes a source when the app starts: what it raises is what the start raises",
    "App.sink.sink": "it makes a sink when the app starts: what it raises is what the start raises",
    "SharedSource.apart": "it makes a source, and what that does is drawn",
    "QueryEvaluator.sink.sink": "no function; test_sinks_policies.py raises from each method",
    "QueryEvaluator.run.until": "it is the caller's own loop: what it raises comes out of run",
    "Deliveries.wait.until": "it is the caller's own loop: what it raises comes out of wait",
    "Deliveries.follow.at": "it is called at once, by the caller",
    "Deliveries.clock": "for tests: steady seconds",
    "Deliveries.draw": "for tests: the jitter of pauses",
    "GeneratorSource.clock": "for tests: the time at which its script says what happens",
    "PushedStream.wake": "given by an evaluator",
    "PushedStream.check": "given by an evaluator",
    "PushedStream.told": "given by an evaluator",
    "MicroBatchSource.on_bell.wake": "given by an evaluator",
    "export.each": "it is the caller's own loop: what it raises comes out of export",
    "Node.assignor": "one of an operator's choice for a whole group; tests/partitioned/test_assignors.py",
}
"""Why the others are not."""
MODULES = ("hosting", "hosting.sources", "hosting.sinks", "hosting.partitioned", "hosting.bulk", "spark_bridge")
FUNCTION = re.compile(r"Callable|Function|Columns|Sink\b|Consumer|Observer|Assignor")


def functions_of_users() -> set[str]:
    """Name every public parameter that takes a function, or an object whose methods are called."""
    found = set[str]()
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            methods = inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else ()
            called = [(name, thing), *((f"{name}.{key}", each) for key, each in methods if key[0] != "_")]
            for place, each in called if callable(thing) else ():
                with suppress(TypeError, ValueError):
                    given = inspect.signature(each).parameters.values()
                    found |= {f"{place}.{one.name}" for one in given if FUNCTION.search(str(one.annotation))}
    return found


def test_every_function_of_a_user_is_drawn() -> None:
    """Each is drawn by a test, or it is said why not; a new one must be put into the list."""
    assert functions_of_users() == DRAWN.keys() | NOT_DRAWN.keys()
    texts = {path.name: path.read_text() for path in Path(__file__).parent.rglob("test_*.py")}
    for place, named in DRAWN.items():
        file, _, test = named.partition("::")
        assert f"def {test}(" in texts[file], f"{place} is drawn by {named}"
