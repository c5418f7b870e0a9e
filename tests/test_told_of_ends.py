"""Whose error a query ends with is the same however it comes to hear of an end: at once, late, by a timer, in one turn.

`test_handed_on.py` has who runs again, and with whom; here are the moments at which an end is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

CONSTANT = ConnectionError("no route")
SOON_S = 5.0


def picky(value: float) -> float:
    if value == 3.0:
        raise ConnectionError("no route")
    return value


def raise_it(error: Exception, *_: Any) -> Any:
    raise error


def raise_constant(*_: Any) -> Any:
    raise CONSTANT


def throw_it(error: Exception, *_: Any) -> Any:
    return rx.throw(error)


def throw_soon(error: Exception, *_: Any) -> Any:
    return rx.timer(SOON_S).flat_map(lambda _: rx.throw(error))


def oops(*_: Any) -> Any:
    raise RuntimeError("cannot clean up")


BASES: dict[str, Any] = {
    "by an event": rx.source("n").map(picky),
    "by a timer": rx.source("n").delay(SOON_S).map(picky),
    "by a time or a count": rx.source("n").buffer_with_time_or_count(SOON_S, 20).map(lambda few: [*map(picky, few)]),
    "by a second query": rx.source("first").map(abs),
}
"""Queries that fail with one text, by what ends them."""
base = rx.source("base")
named = rx.source("m").map(lambda _: base)
READERS: dict[str, Any] = {
    "plain": base.map(repr),
    "raised again": base.catch(raise_it),
    "raised by a look": base.do_action(on_error=raise_it),
    "the constant": base.catch(raise_constant),
    "thrown": base.catch(throw_it),
    "thrown, raised by a look": base.catch(throw_it).do_action(on_error=raise_it),
    "tried twice": base.catch(raise_it).retry(2),
    "published": base.publish(lambda s: s.catch(raise_it).merge(s.catch(rx.empty()))),
    "soon": base.catch(throw_soon),
    "raised, soon": base.do_action(on_error=raise_it).catch(throw_soon),
    "named": named.switch_latest(),
    "named, flat": named.flat_map(lambda each: each),
    "named, tried twice": named.flat_map(lambda each: each).retry(2),
    "named, thrown": named.flat_map(lambda each: each.catch(throw_it)),
    "named, raised again": named.flat_map(lambda each: each.catch(raise_it)),
}
"""Readers that hand the end on, one way or another."""
LATE = ("there", "created behind it", "restarted behind it")
LEFT = ("here", "stopped", "killed")


class Hosted:
    """Queries over lists, with a clock that is set."""

    def __init__(self, queries: Mapping[str, Any], *, clocked: Mapping[str, bool] | None = None) -> None:
        self.queries, self.clocked = dict(queries), clocked or {}
        self.store, self.now = MemoryStore(), 1000.0
        self.lists: dict[str, list[float]] = {"n": [1.0], "m": [1.0], "k": [1.0]}
        self.open()

    def open(self) -> None:
        self.evaluator = QueryEvaluator(self.store, background=False, clock=lambda: self.now)
        for name, values in self.lists.items():
            self.evaluator.source(name, ListSource(values, follow=True))
        for name in self.queries:
            self.create(name)
        self.evaluator.start()
        self.settle()

    def create(self, name: str) -> None:
        clock = rx.event_time(float) if self.clocked.get(name) else None
        self.evaluator.create(name, self.queries[name], clock=clock)

    def take(self, **values: float) -> None:
        for name, value in values.items():
            self.lists[name].append(value)
        self.settle()

    def settle(self) -> None:
        while self.evaluator.step():
            pass

    def pause(self, how: str, seconds: float) -> None:
        """Let time go by: second by second, or in one turn behind a stop or a kill."""
        if how == "here":
            for _ in range(int(seconds)):
                self.now += 1.0
                self.settle()
            return
        self.evaluator.flush()
        self.evaluator.abandon() if how == "killed" else self.evaluator.close()
        self.now += seconds
        self.store = self.store.reopen()
        self.open()

    def with_whom(self, name: str) -> str:
        """Return whose error *name* has failed with, if it has."""
        failure = self.evaluator.engine.standing[name].failure
        return "running" if failure is None else failure.origin or "itself"


@pytest.mark.parametrize("fault, late, left, clocked", crossed(BASES, LATE, LEFT, [False, True], nightly=4))
def test_whoever_hands_an_end_on_has_failed_with_its_query(fault: str, late: str, left: str, clocked: bool) -> None:
    """And runs again with it, whenever and however it was told; a clock of its own makes no difference."""
    queries = {"first": BASES["by an event"], "base": BASES[fault]}
    hosted = Hosted(
        queries if late == "created behind it" else queries | READERS, clocked=dict.fromkeys(READERS, clocked)
    )
    hosted.take(n=3.0)
    hosted.pause(left, 20.0)
    if late == "created behind it":
        hosted.queries |= READERS
        for name in READERS:
            hosted.create(name)
    for value in (20.0, 40.0, 60.0):
        hosted.take(m=value)
    if late == "restarted behind it":
        for name in READERS:
            hosted.evaluator.restart(name)
        for value in (80.0, 100.0, 120.0, 140.0):
            hosted.take(m=value)
    hosted.pause("here", 20.0)
    assert {name: hosted.with_whom(name) for name in READERS} == dict.fromkeys(READERS, "base")
    hosted.pause(left, 1.0)
    hosted.evaluator.restart("first" if fault == "by a second query" else "base")
    hosted.settle()
    assert {name for name in READERS if hosted.evaluator.query(name).status != "running"} == set()
    hosted.evaluator.close()


def in_one_turn(hosted: Hosted) -> None:
    hosted.lists["n"] += [3.0, 4.0]
    hosted.settle()


def turn_by_turn(hosted: Hosted) -> None:
    hosted.take(n=3.0)
    hosted.take(n=4.0)


def four(value: float) -> float:
    return picky(value - 1.0 if value == 4.0 else 1.0)


APART = {"other": base.map(abs), "q": rx.source("n").map(abs), "r": rx.source("q").map(four)}
OWN: dict[str, tuple[Mapping[str, Any], Callable[[Hosted], None]]] = {
    "of who reads another": (APART, turn_by_turn),
    "of who reads another, in one turn": (APART, in_one_turn),
    **{
        f"beside {count} that clean up": (
            {
                "r": rx.merge(
                    base.catch(rx.empty()),
                    rx.range(count).concat(rx.never()).group_by(lambda v: v).flat_map(lambda g: g.finally_action(oops)),
                    rx.source("k").map(picky),
                )
            },
            lambda hosted: (hosted.take(n=3.0), hosted.take(k=3.0))[0],
        )
        for count in (3, 20)
    },
    "of a timer, in the turn of the end": (
        {"r": rx.merge(base.catch(rx.empty()), rx.source("m").delay(2 * SOON_S).map(lambda _: raise_constant()))},
        lambda hosted: (hosted.take(n=3.0), hosted.pause("stopped", 20.0))[0],
    ),
}  # fmt: skip
"""Queries with a fault of their own that says what the end of `base` says, and what is done with them."""


@pytest.mark.parametrize("fault", ["by an event", "by a timer"])
@pytest.mark.parametrize("case", OWN)
def test_who_has_a_fault_of_its_own_has_failed_by_itself(case: str, fault: str) -> None:
    """Whatever else was at work in that turn, and however many errors were raised on its way."""
    queries, act = OWN[case]
    hosted = Hosted({"base": BASES[fault], **queries})
    act(hosted)
    hosted.pause("here", 20.0)
    assert hosted.with_whom("r") == "itself"
    hosted.evaluator.restart("base")
    hosted.settle()
    assert hosted.evaluator.query("r").status == "failed"
    hosted.evaluator.close()
