"""Whatever a query reaches, and however odd its class is: it is created or refused in words, and is the same again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pandas
import pyarrow
import pytest
from lanes import crossed, left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import QueryRefused
from reliable_rx.testing import hostile_odd

TABLES: dict[str, Callable[[], Any]] = {
    "a frame": lambda: pandas.DataFrame({"sku": ["a", "b"], "price": [1.0, 2.0]}).set_index("sku"),
    "a series": lambda: pandas.Series([1, 2]),
    "categories": lambda: pandas.Categorical(["a", "b"]),
    "dates": lambda: pandas.date_range("2020-01-01", "2020-01-09"),
    "a table": lambda: pyarrow.table({"a": [1, 2]}),
    "an arrow array": lambda: pyarrow.array([1, 2]),
    "a schema": lambda: pyarrow.schema([("a", pyarrow.int64())]),
    "an array": lambda: numpy.arange(5),
    "a generator of numbers": lambda: numpy.random.default_rng(1),
}
VALUES = {name: make for name, make, _ in hostile_odd.VALUES}
CLASSES = {f"class {name}": lambda make=make: type(make()) for name, make in VALUES.items()}
REACHED: dict[str, Callable[[], Any]] = {**TABLES, **VALUES, **CLASSES}


class Holder:
    """Has what a function reaches as an attribute."""


def closing(thing: Any) -> Callable[[int], Any]:
    return lambda n: (thing is None, n)


def naming(thing: Any) -> Callable[[int], Any]:
    globals()["THING"] = thing
    return lambda n: (THING is None, n)  # type: ignore[name-defined]  # noqa: F821


def holding(thing: Any) -> Callable[[int], Any]:
    holder: Any = Holder()
    holder.thing = thing
    globals()["HOLDER"] = holder
    return lambda n: (HOLDER.thing is None, n)  # type: ignore[name-defined]  # noqa: F821


def of_module(module: Any) -> Callable[[int], Any]:
    def function(n: int) -> int:
        return n

    function.__module__ = module
    return function


def outcome(query: rx.Query[Any]) -> str:
    """Return the status of a query that was created and run, and whether it was refused."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        try:
            evaluator.create("q", query)
        except QueryRefused:
            return "refused"
        evaluator.create("beside", rx.source("n"))
        evaluator.run()
        assert evaluator.query("beside").status == "completed"
        return evaluator.query("q").status


@pytest.mark.parametrize("name, reach", crossed(REACHED, [closing, naming, holding], nth=4))
def test_what_a_function_reaches(name: str, reach: Any) -> None:
    """A query that reaches it works, or is refused in words; tables of the usual libraries work."""
    found = outcome(rx.source("n").map(reach(REACHED[name]())))
    assert found in (("completed",) if name in TABLES else ("completed", "refused"))


@pytest.mark.parametrize("module", [None, 7, hostile_odd.Numbered(), hostile_odd.Lazy()], ids=repr)
def test_functions_of_odd_modules(module: Any) -> None:
    """A function says of which module it is, and may say anything."""
    assert outcome(rx.source("n").map(of_module(module))) == "completed"


@left_to_commits
def test_tables_have_one_identity() -> None:
    """A query that reaches a table is the same query in every process."""
    script = "import test_odd_classes as t; print(*t.hashes_of_tables())"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout.split() == hashes_of_tables()


def hashes_of_tables() -> list[str]:
    return [
        rx.source("n").map(reach(make())).content_hash
        for make in TABLES.values()
        for reach in (closing, naming, holding)
    ]
