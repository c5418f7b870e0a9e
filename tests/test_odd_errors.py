"""An exception that raises when it is asked for its class is the trouble of who raised it, wherever that is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed
from test_hostile_functions import refuses
from test_sinks_policies import Refusing

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode
from checkpoint.format.stored_errors import plain_trace, trace_of
from hosting import CallbackSink, JsonLinesSink, ListSource, PushedStream, QueryEvaluator
from hosting.evaluator.call_executor import recorded
from reliable_rx.class_of import is_a, path_of
from reliable_rx.errors import AnswerRefused, SourceFailed
from reliable_rx.testing.hostile_odd import ERRORS
from reliable_rx.testing.hostile_odd import VALUES as ODD_VALUES

VALUES = [1, 2, 3, 4]
ODD = dict(ERRORS)


class OddSource(ListSource):
    """Raises what a test gives it in its method *where*."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(VALUES)
        self.where, self.error = where, error

    def partitions(self) -> Any:
        if self.where == "partitions":
            raise self.error
        return super().partitions()

    def open(self, partition: str, position: int) -> Any:
        if self.where == "open":
            raise self.error
        reader = super().open(partition, position)
        if self.where != "fetch":
            return reader
        return OddReader(reader, self.error)


class OddReader:
    """Raises at its second fetch."""

    def __init__(self, reader: Any, error: Exception) -> None:
        self.reader, self.error, self.calls = reader, error, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)

    def fetch(self, count_max: int) -> Any:
        self.calls += 1
        if self.calls > 1:
            raise self.error
        return self.reader.fetch(2)


def raised_by(act: Callable[[], object]) -> BaseException | None:
    """Return what *act* raises, but a failure of the test itself, which pytest could not tell of such an error."""
    try:
        act()
    except AssertionError:
        raise
    except BaseException as raised:
        return raised
    return None


def said(raised: BaseException | None) -> str:
    return "nothing" if raised is None else path_of(type(raised))


def whole(path: Path) -> list[Any]:
    return [json.loads(line).get("value") for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name, where", crossed(ODD, ["open", "write", "end", "flush", "close", "skip"]))
def test_methods_of_sinks(tmp_path: Path, name: str, where: str) -> None:
    """It is that sink's incident, or the values' (``skip``), and the sink beside it has all."""

    def run() -> None:
        with QueryEvaluator(MemoryStore(), background=False) as evaluator:
            evaluator.source("n", ListSource(VALUES))
            evaluator.create("q", rx.source("n"))
            evaluator.sink("q", JsonLinesSink(tmp_path / "whole.jsonl"))
            if where == "skip":
                letter: Any = Raising(ODD[name]())
                evaluator.sink("q", CallbackSink(refuses, on_dead_letter=letter), on_error="dead_letter")
            else:
                evaluator.sink("q", Refusing(tmp_path / "odd.jsonl", where, ODD[name]()), on_error="skip")
            evaluator.run()
        told = [each.message for each in evaluator.statistics().incidents if each.kind.startswith("sink")]
        assert told or where == "close"

    assert said(raised_by(run)) == "nothing"
    assert whole(tmp_path / "whole.jsonl") == [*VALUES, None]


class Raising:
    """Raises, whatever it is called with."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *given: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("name, where", crossed(ODD, ["partitions", "open", "fetch"]))
def test_methods_of_sources(name: str, where: str) -> None:
    """It ends the run as any other error of a source does: itself, and no other one in its place."""
    error = ODD[name]()

    def run() -> None:
        with QueryEvaluator(MemoryStore(), background=False) as evaluator:
            evaluator.source("n", ListSource(VALUES))
            evaluator.source("odd", OddSource(where, error))
            evaluator.create("q", rx.source("n"))
            evaluator.create("r", rx.source("odd"))
            evaluator.run()

    raised = raised_by(run)
    is_same = raised is error or is_a(raised, SourceFailed)
    assert is_same, said(raised)


@pytest.mark.parametrize("name", ODD)
def test_what_until_raises_comes_out_as_it_is(name: str) -> None:
    """It is the caller's own loop: the error is theirs, and no other one has taken its place."""
    error = ODD[name]()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(VALUES))
        evaluator.create("q", rx.source("n"))
        raised = raised_by(lambda: evaluator.run(until=Raising(error)))
        is_same = raised is error
        assert is_same, said(raised)
        assert [each.kind for each in evaluator.statistics().incidents] == ["loop"]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_error_that_is_pushed(name: str) -> None:
    """A stream may end with it: the query that reads it fails, and the one beside it does not."""

    def run() -> None:
        with QueryEvaluator(MemoryStore(), background=False) as evaluator:
            evaluator.source("n", ListSource(VALUES))
            pushed: PushedStream = evaluator.push("odd")
            evaluator.create("q", rx.source("n"))
            evaluator.create("r", rx.source("odd"))
            pushed.on_error(ODD[name]())
            evaluator.run()
            assert evaluator.query("q").status == "completed"
            assert evaluator.query("r").status == "failed"

    assert said(raised_by(run)) == "nothing"


@pytest.mark.parametrize("name", [name for name, _, _ in ODD_VALUES])
def test_an_odd_answer(name: str) -> None:
    """What a call answers with is recorded, or refused in words in its place."""
    make = next(make for each, make, _ in ODD_VALUES if each == name)
    _, error = decode(recorded(make(), None))
    assert error is None or type(error) is AnswerRefused


class RaisesOdd:
    """A function that raises a new error of a kind."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, n: Any) -> Any:
        raise ODD[self.name]()


@pytest.mark.parametrize("name", ODD)
def test_an_odd_error_has_a_traceback(name: str) -> None:
    """Whatever it answers when it is asked for it: the incident of its query says in which function it was raised."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(VALUES))
        evaluator.create("q", rx.source("n").map(RaisesOdd(name)))
        evaluator.run()
        (incident,) = [each for each in evaluator.statistics().incidents if each.kind == "query"]
        assert "in __call__" in incident.trace or "in RaisesOdd.__call__" in incident.trace
    error = raised_by(lambda: RaisesOdd(name)(0))
    assert error is not None
    for trace in (trace_of(error), plain_trace(error)):
        assert "__call__" in trace and path_of(type(error)).rpartition(".")[2] in trace
