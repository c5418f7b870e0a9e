"""Queries of one event-time clock are suspended and taken up again in any order, and get what came while they ran once.

Another interpreter is played by other `Makers`, as in `test_taken_over`. A life is one run of an app: under which
interpreter, which of the queries it declares, with which clock, and whether it is killed on the way. What a query must
have seen is known without a clock: the events that came while it ran, in the order of their times, once the source has
ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import pytest
from lanes import every
from other_pythons import Pythons

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx.errors import ReliableRxError

BOTH = ("a", "b")
LATENESS_S = 2.0


@dataclass(frozen=True)
class Life:
    """One run of the app: what it declares is by query the lateness of its clock (None: processing time)."""

    interpreter: int
    declared: dict[str, float | None]
    killed: bool = False
    disposed: str = ""
    count: int = 3
    ends: bool = False


def life(*declared: str, on: int, **more: Any) -> Life:
    return Life(on, dict.fromkeys(declared, LATENESS_S), **more)


def times(count: int) -> list[float]:
    """Return the times of *count* events, of which each second one comes behind the one that follows it in time."""
    return [float(n + 1 if n % 2 else n - 1) for n in range(1, count + 1)]


def query(name: str, number: int) -> Any:
    """Return a query that emits each event, some behind windows and delays; its code is another one for each number."""
    n: Any = rx.source("n").map(lambda event: event + 0 * number)
    if name == "windows":
        return n.buffer_with_time(2.0).flat_map(lambda events: rx.from_iterable(events))
    return n.delay(1.5) if name == "delayed" else n


@dataclass
class Lives:
    """The lives of one store, and what each query must have seen."""

    interpreters: Pythons
    store: MemoryStore = field(default_factory=lambda: MemoryStore(retain=1))
    count: int = 0
    ended: bool = False
    code: dict[str, int] = field(default_factory=dict)
    """By query that is there, whose code is stored."""
    expected: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    """The ids behind those that a query of the name had before it was disposed of."""

    def play(self, lives: Sequence[Life]) -> Lives:
        for number, each in enumerate(lives):
            self.interpreters.number = each.interpreter
            if each.killed:
                self.run(each, number, killed=True)
            self.run(each, number, ends=each.ends)
        return self

    def run(self, each: Life, number: int, *, ends: bool = False, killed: bool = False) -> None:
        before, self.count = self.count, self.count + (0 if self.ended else each.count)
        self.ended = self.ended or ends
        events = times(self.count)
        evaluator = QueryEvaluator(self.store, background=False, clock=lambda: 1000.0, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(events, follow=not self.ended))
        for name, lateness_s in each.declared.items():
            clock = None
            if lateness_s is not None:
                clock = event_time(lambda event: event + 0 * number, lateness_s=lateness_s, idle_s=3600.0)
            evaluator.create(name, query(name, number), clock=clock)
            self.code[name] = each.interpreter
        evaluator.start()
        evaluator.run(
            until=None if self.ended else lambda: sum(evaluator.statistics().positions.values()) >= self.count
        )
        for name, code in self.code.items():
            if code == each.interpreter:
                self.expected.setdefault(name, []).extend(events[before:])
        self.check(evaluator, each)
        if killed:
            self.store.crash()
        else:
            self.dispose(evaluator, each.disposed)
            evaluator.checkpoint()
        with suppress(*[ReliableRxError] * killed):
            evaluator.close()
        self.store = self.store.reopen()

    def dispose(self, evaluator: QueryEvaluator, name: str) -> None:
        if self.code.pop(name, None) is not None:
            evaluator.dispose(name)
            self.expected.pop(name, None)
            self.first[name] = evaluator.engine.emitted(name)

    def check(self, evaluator: QueryEvaluator, each: Life) -> None:
        assert not evaluator.statistics().late
        for name, code in self.code.items():
            values = emitted(evaluator, name, self.first.get(name, 0))
            wanted = self.expected.get(name, [])
            wanted = wanted if name == "plain" else sorted(wanted)
            if code != each.interpreter or not self.ended:
                assert values == wanted[: len(values)], name
            else:
                assert values == wanted, name
                assert evaluator.query(name).status == "completed"


def emitted(evaluator: QueryEvaluator, name: str, first: int) -> list[Any]:
    try:
        return [value for part in evaluator.stream(name).read(first, 1000) for value in part.values]
    except KeyError:  # it is suspended, and has never emitted anything
        return []


DECLARED = [("a", "b"), ("a",), ("b",), ()]
MIDDLES = list(product(product((0, 1, 2), DECLARED), repeat=2))


@pytest.mark.parametrize("last", [0, 1, 2])
@pytest.mark.parametrize("middle", every(18, MIDDLES), ids=str)
def test_every_short_history_of_two_queries(middle: Any, last: int, interpreters: Pythons) -> None:
    """Two queries of one clock, each of them declared or not in each of two lives under three interpreters."""
    lives = [life(*BOTH, on=0), *(life(*declared, on=on) for on, declared in middle), life(*BOTH, on=last, ends=True)]
    Lives(interpreters).play(lives)


NAMES = (*BOTH, "windows", "delayed", "plain")


def drawn(seed: int) -> list[Life]:
    """Return some lives of five queries, with kills, edits of clocks and of functions, and disposals."""
    random = Random(seed)
    lateness_s: dict[str, float | None] = {name: random.choice((2.0, 2.0, 6.0)) for name in NAMES}
    lateness_s["plain"] = None
    lives = []
    length = random.randint(3, 7)
    for number in range(length):
        declared = [name for name in NAMES if random.random() < 0.6 or number in (0, length - 1)]
        if number and random.random() < 0.3:
            lateness_s[random.choice(NAMES[:-1])] = random.choice((2.0, 4.0, 6.0))
        lives.append(
            Life(
                random.randrange(3),
                {name: lateness_s[name] for name in declared},
                killed=random.random() < 0.4,
                disposed=random.choice(NAMES) if random.random() < 0.15 else "",
                count=random.randrange(6),
                ends=number == length - 1 or random.random() < 0.08,
            )
        )
    return lives


@pytest.mark.parametrize("seed", every(40, range(320)))
def test_drawn_histories(seed: int, interpreters: Pythons) -> None:
    """Longer ones of more queries: with kills on the way, edits of clocks and functions, and disposals meanwhile."""
    Lives(interpreters).play(drawn(seed))


def test_a_query_that_has_ended_keeps_its_clock(interpreters: Pythons) -> None:
    """It is suspended, taken up and declared again: it stays ended, what was late is counted still, nothing is new."""
    store, clock = MemoryStore(), event_time(lambda n: n, lateness_s=1.0)
    for interpreter, declares in ((0, True), (1, False), (0, True), (0, True)):
        interpreters.number = interpreter
        with QueryEvaluator(store, background=False, clock=lambda: 1000.0) as evaluator:
            evaluator.source("n", ListSource([1, 9, 2]))
            if declares:
                evaluator.create("q", rx.source("n").map(lambda n: n + 0.0), clock=clock)
            evaluator.run()
            evaluator.checkpoint()
            assert emitted(evaluator, "q", 0) == [1.0, 9.0]
            if declares:
                assert (evaluator.query("q").status, evaluator.statistics().late) == ("completed", 1)
                assert evaluator.stream("q").next_id == 3  # two values and the end
        store = store.reopen()
