"""The generic checks, each with a bounded number of examples, as the planted bugs meet them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_evaluator_machine import run

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import NondeterminismDetected
from reliable_rx.testing import check_query
from reliable_rx.testing.recipes import Recipe, Step, recipes

WINDOWS = Recipe(0, (Step("window_with_count", (Recipe(0, (Step("scan"),)),)),))
ZIPPED = Recipe(0, (Step("zip", (Recipe(1, ()),)),))
READERS = Recipe(1, (Step("combine_latest", (Recipe(0, ()),)), Step("window_with_count", (ZIPPED,))))


COUNTER = itertools.count()


def counted(value: int) -> tuple[int, int]:
    """What no query may do: read what changes from run to run."""
    return value, next(COUNTER)


def queries() -> None:
    """Timed queries and made-up ones over stored generations."""
    check_query(Recipe(0, (Step("debounce"), Step("scan"), Step("sample"))), examples=40)
    check_query(recipes(sources=2), sources=2, examples=60)


def nondeterminism() -> None:
    """A query that reads a counter is found out when its turns are taken again."""
    store = MemoryStore()
    for _ in range(2):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("counts", rx.source("n").map(counted))
        if not store.journal.last_turn:
            evaluator.run()
            store.crash()
            store = store.reopen()
        else:
            assert refuses(evaluator)


def refuses(evaluator: QueryEvaluator) -> bool:
    try:
        evaluator.start()
    except NondeterminismDetected:
        return True
    return False


CHECKS: dict[str, Callable[[], None]] = {
    "queries": queries,
    "windows": lambda: check_query(WINDOWS, examples=60),
    "samples": lambda: check_query(Recipe(0, (Step("sample"),)), examples=80),
    "readers": lambda: check_query(READERS, sources=2, examples=150),
    "machine": lambda: run(examples=60, steps=40),
    "nondeterminism": nondeterminism,
}
