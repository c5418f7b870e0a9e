"""A notebook whose cells are run twice, or that composes with what a query gives: a sentence and the way."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from reliable_rx import operators as ops


@pytest.fixture
def evaluator() -> Any:
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.push("n")
        evaluator.create("q", rx.source("n"))
        yield evaluator


@pytest.mark.parametrize(
    "again",
    [
        lambda app: app.push("n"),
        lambda app: app.source("n", ListSource([1])),
        lambda app: app.query("q", rx.source("n")),
    ],
    ids=["push", "source", "query"],
)
def test_a_declaration_that_is_run_again_is_refused_with_the_way(again: Callable[[Any], Any]) -> None:
    """It says that the first one goes on, or what to begin with anew."""
    app = App()
    app.push("n")
    app.query("q", rx.source("n"))
    with pytest.raises(ValueError, match=r"is taken; .*: use what it gave the first time, or begin with a new"):
        again(app)


def test_an_input_that_is_pushed_into_is_declared_once(evaluator: QueryEvaluator) -> None:
    """The same on an evaluator."""
    with pytest.raises(ValueError, match=r"is taken; .*: use what it gave the first time, or begin with a new"):
        evaluator.push("n")


@pytest.mark.parametrize("make", [JsonLinesSink, lambda path: SqliteTableSink(path, "t")], ids=["lines", "table"])
def test_a_file_has_one_sink_of_a_stream(make: Any, tmp_path: Path, evaluator: QueryEvaluator) -> None:
    """A second one is refused where it is declared, and the first one is written."""
    path = tmp_path / "out"
    evaluator.sink("q", make(path))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"out is that of another sink of stream 'q'"):
            evaluator.sink("q", make(path))
        evaluator.start()
    evaluator.sink("q", make(tmp_path / "other"))
    assert [each.status for each in evaluator.statistics().sinks] == ["open", "closed"]


@pytest.mark.parametrize("name", ["map", "scan", "group_by", "pipe", "sum"])
def test_what_a_query_gives_is_no_query(name: str, evaluator: QueryEvaluator) -> None:
    """Its stream and its figures have no operators, and say what has."""
    evaluator.start()
    for thing in (evaluator.stream("q"), evaluator.query("q")):
        with pytest.raises(AttributeError, match="is no query and has no operators") as raised:
            getattr(thing, name)
        assert f"reliable_rx.source('q').{name}(...)" in str(raised.value)
        with pytest.raises(AttributeError, match=r"object has no attribute 'mapp'"):
            getattr(thing, "mapp")
    figures = evaluator.query("q")
    assert copy.copy(figures) == pickle.loads(pickle.dumps(figures)) == figures


@pytest.mark.parametrize("name", ops.__all__)
def test_a_method_shows_its_parameters(name: str) -> None:
    """Those of the operator, as a notebook and `help` ask for them."""
    expected = inspect.signature(getattr(ops, name)).parameters
    if name != "do":  # which takes functions as a method
        assert inspect.signature(getattr(rx.source("n"), name)).parameters == expected
