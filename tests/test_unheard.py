"""Partitions that have events while nobody listens to them: a long turn, a call that hangs, many partitions."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest
from lanes import crossed, every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

IDLE_S, HANG_S = 3.0, 20.0
DAYS = {f"day {n}": [n * 86_400.0 + each * 20 for each in range(40)] for n in (1, 2, 3)}
EVENTS = sum(map(len, DAYS.values()))
NOW = "RELIABLE_RX_TEST_NOW"
"""What time it is, and how long an event takes: in no store, so that a stored function has the same."""


def now() -> float:
    return float(os.environ[NOW].split()[0])


def slow(value: float) -> float:
    at, each = map(float, os.environ[NOW].split())
    os.environ[NOW] = f"{at + each} {each}"
    return value


def step(evaluator: QueryEvaluator, count: int) -> None:
    for _ in range(count):
        if not evaluator.step():
            at, each = map(float, os.environ[NOW].split())
            os.environ[NOW] = f"{at + 0.5} {each}"


def opened(store: MemoryStore, days: dict[str, list[float]], batch: int) -> QueryEvaluator:
    evaluator = QueryEvaluator(
        store, background=False, checkpoint_interval_s=1e9, batch_events_max=batch, clock=now, strict=True
    )
    evaluator.source("n", ListSource(days, follow=True))
    evaluator.create("slow", rx.source("n").map(slow))
    for day, values in days.items():
        evaluator.source(f"of {day}", ListSource(values, follow=True))
        evaluator.create(day, rx.source(f"of {day}").map(float))
    for name, query in {"timed": rx.source("n"), "of streams": rx.merge(*map(rx.source, days))}.items():
        evaluator.create(name, query, clock=rx.event_time(float, lateness_s=30.0, idle_s=IDLE_S))
    return evaluator


def check(evaluator: QueryEvaluator) -> None:
    """Nothing came late, and all has come but for what waits for the clock."""
    assert {evaluator.query(name).status for name in evaluator.queries()} == {"running"}
    for name in ("timed", "of streams"):
        assert evaluator.query(name).late == 0, name
        found = [value for part in evaluator.stream(name).read(0, 1000) for value in part.values]
        assert len(found) >= EVENTS - 3 and found == sorted(found), name


@pytest.mark.parametrize(
    "per_event_s, batch, silent, killed", crossed([0.0, 0.05, 0.2, 1.0], [1, 3, 40], [False, True], [False, True])
)
def test_what_is_there_to_be_read_does_not_come_late(
    per_event_s: float, batch: int, silent: bool, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the turns of others take; a partition that is silent does not hold the others back for ever."""
    monkeypatch.setenv(NOW, f"0.0 {per_event_s}")
    days = {**DAYS, **({"silent": []} if silent else {})}
    store = MemoryStore()
    evaluator = opened(store, days, batch)
    step(evaluator, 7 if killed else 400)
    if killed:
        evaluator.flush()
        evaluator.abandon()
        monkeypatch.setenv(NOW, os.environ[NOW].split()[0] + " 0.0")
        evaluator = opened(store.reopen(), days, batch)
        step(evaluator, 400)
    check(evaluator)
    evaluator.close()


def test_a_call_that_hangs_makes_no_other_query_lose_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is taken meanwhile, for longer than what counts as silence."""
    monkeypatch.setenv(NOW, "0.0 0.0")
    evaluator = opened(MemoryStore(), DAYS, 3)
    step(evaluator, 3)
    evaluator.engine.calls.full[None] = None  # type: ignore[index]
    while now() < HANG_S:
        step(evaluator, 1)
        os.environ[NOW] = f"{now() + 0.25} 0.0"
    evaluator.engine.calls.full.clear()
    step(evaluator, 400)
    check(evaluator)
    evaluator.close()


def move(seconds: float) -> None:
    os.environ[NOW] = f"{now() + seconds} {os.environ[NOW].split()[1]}"


async def itself(value: Any) -> Any:
    return value


class Bursts:
    """Partitions that bring what is new at the same moments, whatever they brought before and whenever that is read."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.days: dict[str, list[float]] = {f"p{number}": [] for number in range(self.draw.randint(2, 4))}
        self.others: list[int] = []
        self.store = MemoryStore()
        self.batch = self.draw.choice([1, 3, 40])
        self.evaluator = self.opened()

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, checkpoint_interval_s=1e9, batch_events_max=self.batch, clock=now
        )
        evaluator.source("z", ListSource(self.others, follow=True))
        evaluator.source("n", ListSource(self.days, follow=True))
        evaluator.create("slow", rx.source("z").map(slow))
        evaluator.create("asks", rx.source("z").map_async(itself))
        for lateness_s in (0.0, 15.0):
            clock = rx.event_time(float, lateness_s=lateness_s, idle_s=IDLE_S, late="side")
            evaluator.create(f"timed {lateness_s}", rx.source("n"), clock=clock)
        evaluator.start()
        return evaluator

    def settle(self) -> None:
        """Let everything be taken; time passes between a call and its answer."""
        evaluator = self.evaluator
        while evaluator.step() or evaluator.engine.calls.askers:
            if evaluator.calls.made and not evaluator.calls.answers:
                move(self.draw.choice([0.0, 4 * IDLE_S]))
                evaluator._wait()
            evaluator.flush()

    def bring(self, number: int) -> None:
        base = number * 20.0
        for values in self.days.values():
            count = self.draw.choice([1, 1, 2, 5])
            values += sorted(self.draw.choice([base, base + self.draw.randrange(20)]) for _ in range(count))
        self.others += range(self.draw.choice([0, 0, 1, 2]))

    def play(self) -> None:
        for number in range(12):
            move(self.draw.choice([0.1, 1.0, IDLE_S - 0.1, IDLE_S, 2 * IDLE_S, 50.0]))
            if self.draw.random() < 0.5:
                self.settle()
            if self.draw.random() < 0.2:
                self.evaluator.create(f"other {number}", rx.source("z"))
            self.bring(number)
            for _ in range(self.draw.choice([0, 1, 2, 100])):
                self.evaluator.step()
            if self.draw.random() < 0.2:
                self.evaluator.flush()
                self.evaluator.abandon() if self.draw.random() < 0.5 else self.evaluator.close()
                self.store = self.store.reopen()
                self.evaluator = self.opened()
        for _ in range(2):
            self.settle()
            move(2 * IDLE_S)
        self.settle()


@pytest.mark.parametrize("seed, per_event_s", every_of(5, [(seed, each) for seed in range(60) for each in (0.0, 9.0)]))
def test_what_is_brought_at_once_is_in_the_order_of_its_times(
    seed: int, per_event_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the partitions stood level or one was behind, long silent or not, and whatever turn comes first."""
    monkeypatch.setenv(NOW, f"1000.0 {per_event_s}")
    bursts = Bursts(seed)
    bursts.play()
    for name in ("timed 0.0", "timed 15.0"):
        found = [value for part in bursts.evaluator.stream(name).read(0, 1000) for value in part.values]
        assert bursts.evaluator.query(name).late == 0, name
        assert found == sorted(found)
        assert len(found) >= sum(map(len, bursts.days.values())) - 5 * len(bursts.days)
    bursts.evaluator.close()


@pytest.mark.parametrize("on_nodes", [False, True])
def test_time_in_which_the_process_stood_still_is_not_silence(on_nodes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a step of the computer's clock; what a partition brings behind it is in time."""
    monkeypatch.setenv(NOW, "1000.0 0.0")
    days = {"ahead": [100.0], "behind": [10.0]}
    evaluator = QueryEvaluator(MemoryStore(), background=False, checkpoint_interval_s=1e9, clock=now)
    evaluator.source("n", ListSource(days, follow=True))
    evaluator.create("timed", rx.source("n"), clock=rx.event_time(float, idle_s=IDLE_S, late="side"))
    waits, wait = iter(range(100)), evaluator._wait

    def pause() -> None:
        count = next(waits)
        move(50.0 if count == 3 else 0.01)
        if count == 6:
            days["behind"].append(20.0)
        wait()

    evaluator._wait = pause  # type: ignore[method-assign]
    with evaluator:
        if not on_nodes:
            evaluator.run(until=lambda: next(waits) > 20)
        else:
            settled = [evaluator.step() for _ in range(5)]
            until = now() + (evaluator.wakeups.next_look_s() or 0.0)
            move(50.0)
            evaluator.standstill.overslept(until)
            settled += [evaluator.step() for _ in range(3)]
            days["behind"].append(20.0)
            settled += [evaluator.step() for _ in range(3)]
            assert any(settled)
        assert evaluator.query("timed").late == 0
        assert [value for part in evaluator.stream("timed").read(0, 9) for value in part.values] == [10.0]


def test_an_event_of_another_century_is_got_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the incidents say: with `ahead_max_s`, and a restart behind it; both queries of the clock."""
    monkeypatch.setenv(NOW, "1000.0 0.0")
    values, store = {"a": [900.0, 4e9], "b": [900.0]}, MemoryStore()

    def opened(ahead_max_s: float) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=now)
        evaluator.source("n", ListSource(values, follow=True))
        for name in ("one", "two"):
            clock = rx.event_time(float, idle_s=IDLE_S, late="side", ahead_max_s=ahead_max_s)
            evaluator.create(name, rx.source("n"), clock=clock, policy="dead_letter")
        evaluator.start()
        return evaluator

    with opened(math.inf) as evaluator:
        for _ in range(3):
            step(evaluator, 9)
            move(IDLE_S)
        [said] = [each.message for each in evaluator.statistics().incidents if each.kind == "clock"]
        assert "refuse such events with ahead_max_s; restart them behind that" in said
        values["b"].append(910.0)
        step(evaluator, 9)
        evaluator.flush()
        step(evaluator, 3)
        assert evaluator.query("one").late == 1
        told = [each.message for each in evaluator.statistics().incidents if each.kind == "late"]
        assert len(told) == 2 and all("ahead of the computer's clock: refuse such events" in each for each in told)
    store = store.reopen()
    with opened(3600.0) as evaluator:
        for name in ("one", "two"):
            evaluator.restart(name)
        late = evaluator.query("one").late
        for at in (1000.0, 1010.0, 1020.0):
            for each in values.values():
                each.append(at)
            step(evaluator, 9)
        assert evaluator.query("one").late == evaluator.query("two").late <= late
        for name in ("one", "two"):
            *_, last = evaluator.stream(name).read(0, 99)
            assert list(last.values)[-1] == 1010.0
