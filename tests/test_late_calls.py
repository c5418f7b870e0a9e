"""Calls that are not answered: they, and what waits for them, are told of while it lasts."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.evaluator import call_executor as calls
from hosting.reports import reporter as reporting

LONG_S = 3600.0
ANSWERED = threading.Event()


async def hangs(n: int) -> int:
    """Answer when the test says so."""
    await asyncio.to_thread(ANSWERED.wait)
    return n


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have elapsed, which only the test moves."""
    seconds = [100.0]
    monkeypatch.setattr(reporting, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(calls, "wall", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def told(evaluator: QueryEvaluator, now: list[float]) -> dict[tuple[str, str], str]:
    """Return what is open after some steps, half a second further."""
    for _ in range(100):
        evaluator.step()
    now[0] += 0.5
    evaluator.step()
    return {(each.kind, each.subject): each.message for each in evaluator.incidents.open()}


@pytest.mark.parametrize("timeout_s", [None, LONG_S])
@pytest.mark.parametrize("count", [3, 100], ids=["all are taken", "more than can wait"])
def test_a_call_without_an_answer_is_told_of_and_so_is_what_waits(
    now: list[float], timeout_s: float | None, count: int
) -> None:
    """By query, operator, time and remedy, beyond a limit of its own, for as long as it lasts."""
    ANSWERED.clear()
    with QueryEvaluator(MemoryStore(), background=False, clock=lambda: 1.0) as evaluator:
        evaluator.source("n", ListSource(list(range(count))))
        evaluator.create("q", rx.source("n").map_async(hangs, concurrency=1, timeout_s=timeout_s))
        assert not told(evaluator, now)
        now[0] += calls.LATE_S - 2
        assert not told(evaluator, now)
        now[0] += 2
        if timeout_s is not None:
            assert not told(evaluator, now)
            now[0] += timeout_s
        found = told(evaluator, now)
        full = {("stall", "calls")} if count == 100 else set()
        assert found.keys() == {("call waits", "q"), *full}
        assert "a call of /map_async has had no answer for" in found["call waits", "q"]
        assert ("asyncio.to_thread" if timeout_s else "give it a timeout_s") in found["call waits", "q"]
        assert not full or "no event is taken from any source, since 'q'" in found["stall", "calls"]
        ANSWERED.set()
        until(lambda: not told(evaluator, now) and evaluator.finished, "all answers")
        assert evaluator.query("q").emitted == count + 1


def test_a_late_call_is_told_of_behind_one_that_may_take_longer(now: list[float]) -> None:
    """Each call has a limit of its own, and the oldest need not be the one that is late."""
    ANSWERED.clear()
    with QueryEvaluator(MemoryStore(), background=False, clock=lambda: 1.0) as evaluator:
        evaluator.source("n", ListSource(list(range(100))))
        evaluator.create("patient", rx.source("n").take(1).map_async(hangs, timeout_s=LONG_S))
        evaluator.create("q", rx.source("n").map_async(hangs, concurrency=1))
        assert not told(evaluator, now)
        now[0] += calls.LATE_S
        assert told(evaluator, now).keys() == {("call waits", "q"), ("stall", "calls")}
        ANSWERED.set()
        until(lambda: not told(evaluator, now) and evaluator.finished, "all answers")


def test_a_query_that_is_disposed_of_waits_no_longer(now: list[float]) -> None:
    """Its call is cancelled, and with it goes what was told."""

    async def waits(n: int) -> int:
        await asyncio.Event().wait()
        return n

    with QueryEvaluator(MemoryStore(), background=False, clock=lambda: 1.0) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("q", rx.source("n").map_async(waits))
        assert not told(evaluator, now)
        now[0] += calls.LATE_S
        assert told(evaluator, now).keys() == {("call waits", "q")}
        evaluator.dispose("q")
        assert not told(evaluator, now)


async def hangs_once(n: int) -> int:
    """Answer the second time it is called with a number."""
    if n not in CALLED:
        CALLED.add(n)
        await asyncio.Event().wait()
    return n


CALLED: set[int] = set()


@pytest.mark.parametrize("limits", [(None, 3600.0), (3600.0, None), (None, None)])
def test_an_edit_that_gives_another_limit_has_the_calls_that_are_out_made_again(
    now: list[float], limits: tuple[float | None, float | None]
) -> None:
    """The remedy that is told helps in the running program; an edit that leaves the limit leaves the calls."""
    CALLED.clear()
    with QueryEvaluator(MemoryStore(), background=False, clock=lambda: 1.0) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.create("q", rx.source("n").map_async(hangs_once, concurrency=3, timeout_s=limits[0]))
        until(lambda: evaluator.step() is None or len(CALLED) == 3, "all calls")
        evaluator.create("q", rx.source("n").map_async(hangs_once, concurrency=3, timeout_s=limits[1]).map(abs))
        if limits[0] == limits[1]:
            told(evaluator, now)
            assert evaluator.query("q").emitted == 0 and set(evaluator.calls.made) == set(evaluator.calls.asked.askers)
        else:
            until(lambda: evaluator.step() is None or evaluator.query("q").emitted == 3, "all answers")
