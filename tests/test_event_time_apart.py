"""Queries on event time that join one another's watermarks in the midst of events: each is as if it were alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any, Literal

import pytest
from lanes import every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

SOURCES = "nmk"
IDLE_S = 1e6
ENDS = ("", "stopped", "killed", "checkpoint", "mixed")
Late = Literal["drop", "keep", "side"]
Form = Callable[[], Any]


def stamp(value: int) -> float:
    return float(value // 1000)


def of_values(names: str, count: int) -> Callable[[int], Any]:
    return lambda value: rx.source(names[value % len(names)]).pipe(ops.take(count))


def form(draw: random.Random) -> Form:
    """Return what makes a query over a few sources, most of which name others by their values."""
    first, second = draw.choice(SOURCES), draw.choice(SOURCES)
    named = of_values("".join(draw.choices(SOURCES, k=2)), draw.randint(1, 3))
    forms: list[Form] = [
        lambda: rx.source(first).flat_map(named),
        lambda: rx.source(first).merge(rx.source(second).flat_map(named)),
        lambda: rx.source(first).map(named).switch_latest(),
        lambda: rx.merge(*map(rx.source, SOURCES)),
        lambda: rx.source(first).merge(rx.source(second)),
        lambda: rx.source(first).pipe(ops.delay(2.0), ops.flat_map(named)),
        lambda: rx.source(first).pipe(ops.buffer_with_time(3.0), ops.map(len)),
    ]
    return draw.choice(forms)


def app(seed: int) -> dict[str, tuple[Form, float, Late]]:
    draw = random.Random(seed)
    late: Sequence[Late] = ("drop", "keep", "side")
    one = draw.choice([0.0, 2.0]), draw.choice(late)
    other = draw.choice([0.0, 2.0]), draw.choice(late)
    return {f"q{number}": (form(draw), *draw.choice([one, one, other])) for number in range(4)}


def steps(seed: int) -> list[tuple[str, list[int]]]:
    """Return what comes of which source: on the whole later and later, now and then much too late."""
    draw, time, number, found = random.Random(-1 - seed), 1, 0, []
    for _ in range(14):
        values = []
        for _ in range(draw.choice([1, 1, 2, 3])):
            time, number = time + draw.choice([0, 1, 1, 3]), number + 1
            values.append((max(0, time - draw.choice([0, 0, 0, 4, 9]))) * 1000 + number)
        found.append((draw.choice(SOURCES), values))
    return found


class Host:
    """Some queries of an app, in one process after the other."""

    def __init__(self, queries: dict[str, tuple[Form, float, Late]], *, edits: bool = False) -> None:
        self.queries, self.store, self.edits = queries, MemoryStore(), edits
        self.now = 1000.0
        self.idle_s = dict.fromkeys(queries, IDLE_S)
        self.lists: dict[str, list[int]] = {name: [] for name in SOURCES}
        self.evaluator = self.opened()

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, clock=lambda: self.now)
        for name, values in self.lists.items():
            evaluator.source(name, ListSource(values, follow=True))
        for name in self.queries:
            self.create(evaluator, name)
        evaluator.start()
        return evaluator

    def create(self, evaluator: QueryEvaluator, name: str) -> None:
        made, lateness_s, late = self.queries[name]
        clock = rx.event_time(stamp, lateness_s=lateness_s, idle_s=self.idle_s[name], late=late)
        evaluator.create(name, made(), clock=clock)

    def settle(self) -> None:
        while self.evaluator.step():
            pass
        self.evaluator.flush()

    def end(self, how: str) -> None:
        if how in ("", "checkpoint"):
            if how:
                self.evaluator.checkpoint(full=False)
            return
        self.evaluator.abandon() if how == "killed" else self.evaluator.__exit__(None, None, None)
        self.store = self.store.reopen()
        self.evaluator = self.opened()
        self.settle()

    def play(self, seed: int, how: str) -> dict[str, list[int]]:
        draw, ends = random.Random(seed), random.Random(seed)
        for name, values in steps(seed):
            self.lists[name] += values
            self.settle()
            for edited in draw.sample(sorted(self.queries), self.edits * draw.randrange(3)):
                self.idle_s[edited] += 1.0
                self.create(self.evaluator, edited)
            self.end(ends.choice(ENDS[:-1]) if how == "mixed" else how)
        for _ in range(3):
            self.now += 2 * IDLE_S
            self.settle()
        self.check_silence()
        found = {name: list(self.told(name)) for name in self.queries}
        self.evaluator.close()
        return found

    def check_silence(self) -> None:
        """Nothing waits behind a long silence but what is as late as the last event, and may have company."""
        for name in self.queries:
            clock: Any = self.evaluator.engine.standing[name].clock
            last = max(mark.high for mark in clock.watermark.marks.values()) - clock.spec.lateness_s
            assert clock.clock == clock.watermark.time >= last, name
            assert all(entry[0] >= clock.clock for entry in clock.waiting.left), name

    def told(self, name: str) -> list[Any]:
        streams = (name, f"{name}.late") if self.queries[name][2] == "side" else (name,)
        parts = [part for stream in streams for part in self.evaluator.stream(stream).read(0, 10**6)]
        return [value for part in parts for value in part.values]


@cache
def alone(seed: int, name: str) -> list[int]:
    """Return what a query gives that nobody stands beside, in one process."""
    return Host({name: app(seed)[name]}).play(seed, "")[name]


@pytest.mark.parametrize("seed, how", every_of(23, product(range(100), ENDS), nightly=3))
def test_a_query_on_event_time_is_as_if_it_were_alone(seed: int, how: str) -> None:
    """Whoever shares its watermark, and whenever it comes to another one; ends of the process do not show, either."""
    found = Host(app(seed)).play(seed, how)
    assert found == {name: alone(seed, name) for name in app(seed)}


@pytest.mark.parametrize("seed, how", every_of(23, product(range(100), ENDS[1:]), nightly=3))
def test_clocks_that_are_edited_go_on(seed: int, how: str) -> None:
    """In the process that edits them and in those behind it, also if nothing comes any more."""
    assert Host(app(seed), edits=True).play(seed, how) == Host(app(seed), edits=True).play(seed, "")
