"""What the clock of a query on event time waits for: what that still hears, and partitions until they count as idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from other_pythons import Pythons

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx import operators as ops

IDLE_S = 20.0
n, m = rx.source("n"), rx.source("m")


class Host:
    """An evaluator over two lists, with a clock that is moved by hand."""

    def __init__(self, store: MemoryStore | None = None, **lists: list[int]) -> None:
        self.now, self.lists = 1000.0, {"n": list[int](), "m": list[int](), **lists}
        self.evaluator = QueryEvaluator(store or MemoryStore(), background=False, clock=lambda: self.now)
        for name, values in self.lists.items():
            self.evaluator.source(name, ListSource(values, follow=True))

    def come(self, name: str = "n", *values: int) -> None:
        self.lists[name] += values
        while self.evaluator.step():
            pass

    def until(self, time: float) -> None:
        """Go on to *time* in steps of half a second."""
        while self.now < time:
            self.now = min(time, self.now + 0.5)
            self.come()

    def values(self, name: str) -> list[Any]:
        return [each for part in self.evaluator.stream(name).read(0, 999) for each in part.values]


@pytest.mark.parametrize("speaks", [False, True])
@pytest.mark.parametrize("act", ["an edit", "a restart"])
@pytest.mark.parametrize("aside", ["", ".dead_letters", ".late"])
def test_nobody_waits_for_what_he_has_been_told_the_end_of(aside: str, act: str, speaks: bool) -> None:
    """A query that begins anew is not heard by one that went on without it, whether it is silent or speaks."""
    host = Host()

    def read(value: Any) -> float:
        return float(getattr(value, "value", value))

    def make(k: int) -> Any:
        return n.map(lambda v: v + k).take(2)

    clock = event_time(float, lateness_s=0.0, late="side")
    how: dict[str, Any] = {"policy": "dead_letter", "clock": clock if aside == ".late" else None}
    host.evaluator.create("q", make(0), **how)
    host.evaluator.create("r", m.merge(rx.source(f"q{aside}")), clock=event_time(read, lateness_s=0.0, idle_s=1e6))
    host.come("n", 1, 2, 3, 4)
    host.come("m", 5)
    host.evaluator.create("q", make(1), **how) if act == "an edit" else host.evaluator.restart("q")
    if speaks:
        host.come("n", 6)
    host.come("m", 7, 8)
    assert host.values("r")[-1] == 7
    host.evaluator.close()


@pytest.mark.parametrize("joins", ["is created", "has its clock edited"])
def test_who_begins_behind_an_end_waits_for_what_others_hear_no_more(joins: str) -> None:
    """What begins anew is in time for it, and holds none of the others back, though all have the same clock."""
    host, clock = Host(), event_time(float, lateness_s=0.0, idle_s=1e6)
    q, r = n.take(2), m.merge(rx.source("q"))
    for name, query in {"q": q, "r": r}.items():
        host.evaluator.create(name, query, clock=None if name == "q" else clock)
    host.come("n", 1, 2)
    host.come("m", 3)
    host.evaluator.restart("q")
    if joins == "has its clock edited":
        host.evaluator.create("s", r, clock=event_time(float, lateness_s=1.0, idle_s=1e6))
    host.come("m", 4)
    host.evaluator.create("s", r, clock=clock)
    host.come("m", 9)
    assert host.values("s") == [] and host.values("r")[-1] == 4
    host.come("n", 5, 7)
    host.come("m", 11)
    assert [value for value in host.values("s") if value != 4][:2] == [5, 7]
    host.evaluator.close()


def test_one_reads_again_what_has_begun_anew() -> None:
    """An edit that reads it in another way hears it, as it does without a clock."""
    host, clock = Host(), event_time(float, lateness_s=0.0, idle_s=1e6)
    host.evaluator.create("q", n.take(2))
    host.evaluator.create("r", m.merge(rx.source("q")), clock=clock)
    host.come("n", 1, 2)
    host.come("m", 3, 4)
    host.evaluator.restart("q")
    host.evaluator.create("r", m.combine_latest(rx.source("q")), clock=clock)
    host.come("n", 5, 7)
    host.come("m", 6, 8)
    assert host.values("r")[-3:] == [(4, 5), (6, 5), (6, 7)]
    host.evaluator.close()


def test_what_is_over_for_a_query_is_over_once() -> None:
    """What others with its clock still hear moves it no more."""
    host, clock = Host(), event_time(float, lateness_s=0.0, idle_s=1e6)
    q, ticking = n.take(2), rx.source("p").take(1).merge(rx.source("q")).merge(rx.interval(5.0))
    host.evaluator.create("p", m.take(1))
    host.evaluator.create("q", q)
    host.evaluator.create("r", ticking, clock=clock)
    host.come("n", 1, 2)
    host.come("m", 3)
    found = host.values("r")
    host.evaluator.restart("q")
    host.evaluator.create("s", rx.source("p").merge(rx.source("q")), clock=clock)
    for value in range(20, 90, 10):
        host.come("n", value)
    assert host.values("r") == found != []
    host.evaluator.close()


def test_who_is_taken_up_waits_for_what_others_hear_no_more(interpreters: Pythons) -> None:
    """What ended and began anew while a query was suspended is in time for it, though another has kept the clock."""
    store, lists = MemoryStore(), {"n": [1], "m": [3]}
    for declared, come in ((["r", "s"], []), (["r"], [20]), (["r", "s"], [35, 37])):
        host = Host(store, **lists)
        lists, clock = host.lists, event_time(float, lateness_s=0.0, idle_s=1e6)
        host.evaluator.create("q", n.take(2))
        for name in declared:
            host.evaluator.create(name, m.merge(rx.source("q")).map(lambda value: value), clock=clock)
        host.come("m", *([39] if come == [35, 37] else []))
        host.come("n", *come)
        if come == [20]:
            host.evaluator.restart("q")
        host.come("m", *([41] if come == [35, 37] else []))
        found = host.values("s") if "s" in declared else []
        host.evaluator.__exit__(None, None, None)
        store = store.reopen()
        interpreters.number = 1
    assert found == [1, 3, 35, 37, 39]


@pytest.mark.parametrize("act", [QueryEvaluator.dispose, QueryEvaluator.restart])
@pytest.mark.parametrize("is_due", [False, True])
def test_what_comes_before_an_end_has_others_looked_at_that_are_silent(
    act: Callable[[QueryEvaluator, str], None], is_due: bool
) -> None:
    """A value that is due in what "other" reads puts the clock of "both" ahead of a source, which is idle later."""
    host = Host()
    host.evaluator.create("held", n.delay(10.0))
    host.evaluator.create("both", m.merge(rx.source("held")), clock=event_time(float, lateness_s=0.0, idle_s=IDLE_S))
    host.evaluator.create("other", rx.source("held").map(str))
    host.come("n", 5)
    host.until(1010.2)
    host.come("m", 5)
    host.until(1011.0)
    host.come("n", 9)
    host.until(1020.8)
    if is_due:
        host.now = 1021.2
    host.until(1021.2)
    act(host.evaluator, "other")
    host.until(1100.0)
    assert host.values("both") == [5, 5]
    host.evaluator.close()


AGAIN: dict[str, Callable[[Any], Any]] = {
    "retry": lambda s: s.pipe(ops.retry(3)),
    "retry for ever": lambda s: s.pipe(ops.retry()),
    "retry of two": lambda s: rx.merge(s, rx.source("a").map(lambda v: -v)).pipe(ops.retry(3)),
    "a catch": lambda s: s.pipe(ops.catch(s)),
    "windows": lambda s: s.pipe(ops.window_with_count(2, 1), ops.flat_map(lambda w: w), ops.retry(3)),
}


def read_again(build: Callable[[Any], Any], how: str, lateness_s: float) -> list[Any]:
    """Play a query that reads another one anew, which goes and comes again; *how* a process ends in between."""
    store, values, now = MemoryStore(), [10, 10, 7], [1000.0]

    def opened() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=lambda: now[0])
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create("a", rx.source("n").map(abs))
        evaluator.create("b", build(rx.source("a")), clock=event_time(float, lateness_s=lateness_s, idle_s=1e6))
        return evaluator

    def settle() -> None:
        while evaluator.step():
            pass

    evaluator = opened()
    evaluator.start()
    settle()
    evaluator.dispose("a")
    settle()
    if how:
        if how == "a full checkpoint":
            evaluator.checkpoint(full=True)
        evaluator.flush()
        evaluator.__exit__(None, None, None) if how == "stopped" else evaluator.abandon()
        store = store.reopen()
        evaluator = opened()
        evaluator.start()
    else:
        evaluator.create("a", rx.source("n").map(abs))
    for value in (20, 20, 60):
        values.append(value)
        settle()
    found = [each for out in evaluator.stream("b").read(0, 100) for each in out.values]
    evaluator.abandon()
    return found


@pytest.mark.parametrize("lateness_s", [0.0, 5.0])
@pytest.mark.parametrize("how", ["stopped", "killed", "a full checkpoint"])
@pytest.mark.parametrize("again", AGAIN)
def test_what_an_end_let_come_does_not_come_again(again: str, how: str, lateness_s: float) -> None:
    """Also what is stamped as the newest event: the clock stands there, and does not go to the end of time."""
    found = read_again(AGAIN[again], how, lateness_s)
    assert found == read_again(AGAIN[again], "", lateness_s)
    assert found
