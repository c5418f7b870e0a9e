"""Runs of a random app, in one process after the other, and what its streams hold in the end."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from odd_neighbours import PROCESS, itself, odd_apps
from random_apps import INPUTS, NAMES, app

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

EVENTS, STEPS_MAX, ACTIONS_MAX = 14, 2000, 2000
HOW = ("stopped", "killed", "killed behind checkpoints", "killed at once", "mixed")
ENDS = ("", "stopped", "full checkpoint", "killed", "killed at once")
CALLED = "n"
"""Whose values are called with, in a query that nobody reads: when an answer comes is for the calls' thread to say."""
ACTS = ("restart", "edit", "back", "create anew")
TOLD_MAX = 10_000
LIMITS = rx.Limits(actions_max=ACTIONS_MAX)


class Run:
    """One app from its first event to its last; *acts*, its queries are restarted, edited, disposed of and created.

    *beside*, with a query that calls for each value of `CALLED`, and *odd*, with others that no replay repeats. *batch*
    events come in a turn.
    """

    def __init__(
        self,
        seed: int,
        *,
        clocked: bool,
        acts: bool = False,
        beside: bool = False,
        odd: bool = False,
        batch: int = 1000,
    ) -> None:
        self.seed, self.clocked, self.acts, self.beside, self.batch = seed, clocked, acts, beside, batch
        self.odd = odd_apps(seed, clocked=clocked) if odd else []
        self.processes = 0
        self.lists: dict[str, list[int]] = {name: [] for name in INPUTS}
        self.edited: set[str] = set()
        self.store, self.now = MemoryStore(), 1000.0
        self.evaluator = self.opened()

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store,
            background=False,
            checkpoint_interval_s=1e9,
            clock=lambda: self.now,
            batch_events_max=self.batch,
        )
        os.environ[PROCESS] = str(self.processes)
        self.processes += 1
        for name, values in self.lists.items():
            evaluator.source(name, ListSource(values, follow=True))
        for at, name in enumerate(NAMES):
            for odd, (query, policy, clock) in self.odd[at // 2 : at // 2 + 1] * (at % 2):
                evaluator.create(odd, query, policy=policy, clock=clock, limits=LIMITS)
            self.create(evaluator, name)
        if self.beside:
            calls = rx.source(CALLED).pipe(ops.map_async(itself, concurrency=3))
            evaluator.create("calls", calls, policy="dead_letter")
        evaluator.start()
        return evaluator

    def create(self, evaluator: QueryEvaluator, name: str) -> None:
        query, policy, clock = app(self.seed, clocked=self.clocked, edited=name in self.edited)[name]
        evaluator.create(name, query, policy=policy, clock=clock, limits=LIMITS)

    def settle(self) -> None:
        evaluator, steps = self.evaluator, 0
        while steps < STEPS_MAX:
            if evaluator.step():
                steps += 1
            elif not evaluator.engine.calls.askers:
                return
            elif evaluator.calls.made:
                evaluator._wait()
            else:
                evaluator.flush()  # a call goes out when the turn that wants it is durable
        raise AssertionError("there is no end of it")

    def again(self, end: str) -> None:
        """End the process and start another one, or only take a checkpoint."""
        if end == "full checkpoint":
            self.evaluator.checkpoint(full=True)
        if end in ("", "full checkpoint"):
            return
        if end != "killed at once":
            self.evaluator.flush()
        self.evaluator.__exit__(None, None, None) if end == "stopped" else self.evaluator.abandon()
        self.store = self.store.reopen()
        self.evaluator = self.opened()
        if not self.acts:
            assert not self.evaluator.engine.reports, "a query was taken for an edited one"
        self.settle()

    def play(self, how: str) -> None:
        draw, ends, acts = random.Random(self.seed * 7 + 1), random.Random(self.seed), random.Random(self.seed + 1)
        for number in range(EVENTS):
            self.now += 1.0
            values, value = self.lists[draw.choice("nnm")], draw.randint(0, 30) + number * 2
            values += [value, *((value * 7 + each * 3) % 60 for each in range(value % 4))]
            self.settle()
            if self.acts and acts.random() < 0.4:
                self.act(acts.choice(NAMES), acts.choice(ACTS))
                self.settle()
            if how == "killed behind checkpoints" and number % 3 == 0:
                self.evaluator.checkpoint(full=False)
            self.again("killed" if how == "killed behind checkpoints" else ends.choice(ENDS) if how == "mixed" else how)
        self.evaluator.flush()

    def act(self, name: str, act: str) -> None:
        if act == "restart":
            self.evaluator.restart(name)
            return
        if act == "create anew":
            self.evaluator.dispose(name)
        else:
            self.edited = self.edited | {name} if act == "edit" else self.edited - {name}
        self.create(self.evaluator, name)

    def found(self) -> dict[str, Any]:
        """Return the values of all streams with their ids, the ends among them, and how the queries are."""
        names = [*NAMES, *["calls"] * self.beside]
        found: dict[str, Any] = {f"{name} is": self.evaluator.query(name).status for name in names}
        found |= {f"{name} has failed with": self.failed_with(name) for name in names}
        for name in (f"{name}{aside}" for name in names for aside in ("", ".dead_letters", ".late")):
            found[name] = [*self.told(name)]
        return found

    def failed_with(self, name: str) -> str:
        failure = self.evaluator.engine.standing[name].failure
        return "" if failure is None else failure.origin

    def told(self, name: str) -> Iterator[tuple[int, str]]:
        stream = self.evaluator.stream(name)
        first = max(
            0, stream.next_id - TOLD_MAX
        )  # an empty buffer every second up to the end of time has three million
        for part in stream.read(first, TOLD_MAX):
            yield from enumerate(map(shown, part.values), part.first)
            if part.ended:
                yield part.first + len(part.values), repr(part.error)


def shown(value: Any) -> str:
    """Return the text of *value*, without a traceback: it names the file of a function, which a store has not."""
    return repr(replace(value, traceback="") if isinstance(value, rx.DeadLetter) else value)
