"""Apps that are drawn at random, ended and started again behind each event: nothing shows that they were."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
from lanes import NIGHT, every_of
from random_apps import COUNT, INPUTS, app

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

EVENTS, STEPS_MAX, ACTIONS_MAX = 14, 2000, 2000
SEEDS = range(40)
HOW = ("stopped", "killed", "killed behind checkpoints", "killed at once", "mixed")
ENDS = ("", "stopped", "full checkpoint", "killed", "killed at once")
KEPT: list[tuple[int, bool, str]] = [
    (33, True, "mixed"),
    (21, True, "killed behind checkpoints"),
    (23, True, "mixed"),
    (8, False, "stopped"),
]
"""Rows that have found a fault."""


class Run:
    """One app from its first event to its last, in one process after the other."""

    def __init__(self, seed: int, *, clocked: bool) -> None:
        self.seed, self.clocked = seed, clocked
        self.lists: dict[str, list[int]] = {name: [] for name in INPUTS}
        self.store, self.now = MemoryStore(), 1000.0
        self.evaluator = self.opened()

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, clock=lambda: self.now)
        for name, values in self.lists.items():
            evaluator.source(name, ListSource(values, follow=True))
        for name, (query, policy, clock) in app(self.seed, clocked=self.clocked).items():
            evaluator.create(name, query, policy=policy, clock=clock, limits=rx.Limits(actions_max=ACTIONS_MAX))
        evaluator.start()
        return evaluator

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.evaluator.step():
                return
        raise AssertionError("there is no end of it")

    def again(self, end: str) -> None:
        """End the process and start another one, or only take a checkpoint."""
        if end == "full checkpoint":
            self.evaluator.checkpoint(full=True)
        if end in ("", "full checkpoint"):
            return
        if end != "killed at once":
            self.evaluator.flush()
        self.evaluator.close() if end == "stopped" else self.evaluator.abandon()
        self.store = self.store.reopen()
        self.evaluator = self.opened()
        assert not self.evaluator.engine.reports, "a query was taken for an edited one"
        self.settle()

    def play(self, how: str) -> None:
        draw, ends = random.Random(self.seed * 7 + 1), random.Random(self.seed)
        for number in range(EVENTS):
            self.now += 1.0
            values, value = self.lists[draw.choice("nnm")], draw.randint(0, 30) + number * 2
            values += [value, *((value * 7 + each * 3) % 60 for each in range(value % 4))]
            self.settle()
            if how == "killed behind checkpoints" and number % 3 == 0:
                self.evaluator.checkpoint(full=False)
            self.again("killed" if how == "killed behind checkpoints" else ends.choice(ENDS) if how == "mixed" else how)
        self.evaluator.flush()

    def found(self) -> dict[str, Any]:
        """Return the values of all streams with their ids, the ends among them, and how the queries are."""
        queries = self.evaluator.queries()
        found: dict[str, Any] = {f"{name} is": self.evaluator.query(name).status for name in queries}
        for name in (f"q{number}{aside}" for number in range(COUNT) for aside in ("", ".dead_letters", ".late")):
            parts = self.evaluator.stream(name).read(0, 10**6)
            found[name] = [(part.first + n, shown(value)) for part in parts for n, value in enumerate(part.values)]
            found[name] += [(part.first + len(part.values), repr(part.error)) for part in parts if part.ended]
        return found


def shown(value: Any) -> str:
    """Return the text of *value*, without a traceback: it names the file of a function, which a store has not."""
    return repr(replace(value, traceback="") if isinstance(value, rx.DeadLetter) else value)


@cache
def outputs(seed: int, clocked: bool, how: str) -> dict[str, Any]:
    run = Run(seed, clocked=clocked)
    run.play(how)
    found = run.found()
    run.evaluator.close()
    return found


ROWS = [pytest.param(*row) for row in KEPT] + every_of(127, product(SEEDS, [False, True], HOW), nightly=9)


@pytest.mark.parametrize("seed, clocked, how", ROWS)
def test_no_end_of_a_process_shows_in_any_stream(seed: int, clocked: bool, how: str) -> None:
    """Each stream has the same values under the same ids, and each query the same state, as if it had never ended."""
    assert outputs(seed, clocked, how) == outputs(seed, clocked, "")


@pytest.mark.parametrize("how", [pytest.param(how, marks=NIGHT) for how in HOW])
@pytest.mark.parametrize("clocked", [False, True])
def test_each_night_draws_apps_of_its_own(clocked: bool, how: str) -> None:
    """Apps that no row above has: the seed that a failure names repeats it there."""
    for _ in range(20):
        seed = random.randrange(10**6)
        assert (seed, outputs(seed, clocked, how)) == (seed, outputs(seed, clocked, ""))
