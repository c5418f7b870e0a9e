"""Classes that are mended while queries run: a class goes by its name, so no replay has the old and the new one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

MODULE = "cells_of_test_edited_classes"
CELLS = {
    "a method": ("class C:\n    def of(self, n): return n", "class C:\n    def of(self, n): return n * 10"),
    "a field with a default": (
        "@dataclass(frozen=True)\nclass C:\n    k: int = 1\n    def of(self, n): return n * self.k",
        "@dataclass(frozen=True)\nclass C:\n    k: int = 1\n    m: int = 9\n    def of(self, n): return n * self.m",
    ),
    "fields that are moved": (
        "class C(NamedTuple):\n    a: int = 1\n    b: int = 2\n    def of(self, n): return n * self[0]",
        "class C(NamedTuple):\n    b: int = 2\n    a: int = 1\n    def of(self, n): return n * self[0]",
    ),
}


@pytest.fixture
def module() -> Iterator[Any]:
    sys.modules[MODULE] = made = ModuleType(MODULE)
    exec("from dataclasses import dataclass\nfrom typing import NamedTuple", made.__dict__)
    yield made
    del sys.modules[MODULE]


def run(cell: str, module: Any) -> Any:
    exec(cell, module.__dict__)
    exec("def make(n): return C().of(n)", module.__dict__)
    return rx.source("n").map(module.make).scan(lambda total, n: total + n, 0)


def hosted(store: MemoryStore, events: list[int]) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource(events, follow=True))
    return evaluator


def steps(evaluator: QueryEvaluator, most: int = 1000) -> None:
    for _ in range(most):
        if not evaluator.step():
            return


def outputs(evaluator: QueryEvaluator) -> list[Any]:
    return [value for part in evaluator.stream("q").read(0, 100) for value in part.values]


@pytest.mark.parametrize("events_after", range(3))
@pytest.mark.parametrize("change", CELLS)
def test_an_edit_of_a_class_is_behind_a_checkpoint(change: str, events_after: int, module: Any) -> None:
    """Killed after the edit and any number of events behind it, the store goes on with the new class."""
    before, after = CELLS[change]
    events, store = [1, 2], MemoryStore()
    evaluator = hosted(store, events)
    evaluator.create("q", run(before, module))
    evaluator.start()
    steps(evaluator)
    assert outputs(evaluator) == [1, 3]
    evaluator.create("q", run(after, module))
    steps(evaluator)
    for n in range(events_after):
        events.append(n + 3)
        steps(evaluator)
    found = outputs(evaluator)
    evaluator.abandon()
    store.crash()
    again = hosted(store.reopen(), events)
    again.create("q", run(after, module))
    again.start()
    steps(again)
    assert outputs(again) == found and again.query("q").status == "running"
    events.append(100)
    steps(again)
    assert len(outputs(again)) == len(found) + 1
    again.close()
