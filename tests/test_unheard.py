"""Partitions that have events while nobody listens to them: a long turn, a call that hangs, many partitions."""

from __future__ import annotations

import os

import pytest
from lanes import crossed

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
