"""A clock that was wrong once: timers go on by what elapses, in this run and the next ones, and it is said."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import examples

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine import time_moves
from hosting.engine.event_time import runtime as event_clock
from hosting.engine.turns import Resume
from hosting.evaluator.host_clock import TOLERANCE_S, HostClock
from hosting.reports.incidents import Incidents
from reliable_rx.event_time import event_time

HOUR, CENTURY = 3600.0, 100 * 365.25 * 86_400
PERIOD = 10.0


class Run:
    """An evaluator with one query that ticks, on a clock that a test sets, and its restarts."""

    def __init__(self, *, source: bool = True) -> None:
        self.now = 1.8e9
        self.store = MemoryStore()
        self.source = source
        self.evaluator = self.fresh()
        self.settle()

    def fresh(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, checkpoint_interval_s=1e9, clock=lambda: self.now, strict=True
        )
        evaluator.source("n", ListSource([], follow=True))
        evaluator.create("ticks", rx.interval(PERIOD, catch_up="once"))
        return evaluator

    def restart(self, *, cleanly: bool) -> None:
        if cleanly:
            self.evaluator.checkpoint()
        self.evaluator.close()
        self.store = self.store.reopen()
        self.evaluator = self.fresh()
        self.settle()

    def settle(self) -> None:
        for _ in range(1000):
            if not self.evaluator.step():
                return
        raise AssertionError("it never rests")

    def elapse(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds)):
            self.now += 1.0
            self.settle()

    @property
    def ticks(self) -> int:
        return self.evaluator.query("ticks").emitted

    def incidents(self) -> list[str]:
        return [each.subject for each in self.evaluator.statistics().incidents if each.kind == "clock"]


JUMPS = st.sampled_from([-CENTURY, -HOUR, -60.0, -2.0, -0.5, 0.0, 0.5, 2.0, 60.0, HOUR, CENTURY])
STEPS = st.lists(st.tuples(JUMPS, st.sampled_from(["run", "restart", "crash"])), max_size=6)


@given(steps=STEPS)
@examples(60)
def test_timers_keep_their_distances_whatever_the_clock_did(steps: list[tuple[float, str]]) -> None:
    """After any steps of the clock, in a run or between runs, timers see what elapses, and time never goes back."""
    run = Run()
    reached = run.evaluator.engine.clock
    for jump, then in steps:
        run.now += jump
        if then == "run":
            run.settle()
        else:
            run.restart(cleanly=then == "restart")
        before, clock = run.ticks, run.evaluator.engine.clock
        assert clock >= reached
        run.elapse(5 * PERIOD)
        reached = run.evaluator.engine.clock
        assert before + 4 <= run.ticks <= before + 6 and 0 <= reached - clock <= 6 * PERIOD, (jump, then)


def test_a_clock_that_was_ahead_is_told_until_it_has_caught_up() -> None:
    """An incident says by how much, over a restart too; it ends, and time with it becomes the clock's again."""
    run = Run()
    run.now += HOUR
    run.settle()
    assert not run.incidents()
    run.now -= HOUR
    run.elapse(PERIOD)
    assert run.incidents() == ["behind"]
    (incident,) = run.evaluator.statistics().incidents
    assert "0:59:59 behind" in incident.message
    run.restart(cleanly=True)
    assert run.incidents() == ["behind"]
    run.now += 2 * HOUR
    run.elapse(PERIOD)
    assert not run.incidents() and abs(run.evaluator.engine.clock - run.now) <= PERIOD


def test_what_elapses_while_nothing_runs_counts_too() -> None:
    """The offset is in the checkpoint: after a stop of ten periods a tick is due at once, and the next in its time."""
    run = Run()
    run.now += HOUR
    run.settle()
    run.now -= HOUR
    run.elapse(PERIOD)
    clock = run.evaluator.time.read()
    run.evaluator.checkpoint()
    run.now += 10 * PERIOD
    run.restart(cleanly=False)
    assert run.evaluator.time.read() == pytest.approx(clock + 10 * PERIOD)


def test_a_small_step_back_is_not_told() -> None:
    """What synchronisation does (a step back within a second) makes time stand still for so long, and no incident."""
    run = Run()
    run.elapse(PERIOD)
    time = run.evaluator.time.read()
    run.now -= TOLERANCE_S / 2
    assert run.evaluator.time.read() == time and not run.incidents()
    run.now += TOLERANCE_S
    assert run.evaluator.time.read() == run.now


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_clock_that_reads_no_time_stands_still(wrong: float) -> None:
    """No timer and no state ever sees it; it is told, and work goes on when the clock does."""
    run = Run()
    right, run.now = run.now, wrong
    before = run.ticks
    run.settle()
    assert run.incidents() == ["unreadable"] and run.evaluator.engine.clock <= right
    run.now = right
    run.elapse(5 * PERIOD)
    assert run.ticks == before + 5 and not run.incidents()


def test_a_clock_that_reads_no_time_at_first() -> None:
    """Where nothing is known yet, time begins at 0, which is a time that may be stored."""
    assert HostClock(lambda: math.nan, Incidents()).read() == 0.0


def test_partitions_that_were_not_listened_to_have_not_been_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stall of many steps, each short, what was not read counts as heard at its end; a short one is nothing."""
    run, taken = Run(), []
    stamped = rx.source("n").map(lambda n: n)
    run.evaluator.create("stamped", stamped, clock=event_time(lambda n: float(n), lateness_s=0.0, idle_s=60.0))
    take, may_take = run.evaluator.turns.take, run.evaluator._may_take
    monkeypatch.setattr(run.evaluator.turns, "take", lambda turn: (taken.append(turn), take(turn)))
    for stalled_s, resumes in ((10.0, 0), (100.0, 1)):
        monkeypatch.setattr(run.evaluator, "_may_take", lambda: False)
        run.elapse(stalled_s)
        monkeypatch.setattr(run.evaluator, "_may_take", may_take)
        run.settle()
        assert len([turn for turn in taken if isinstance(turn, Resume)]) == resumes


@pytest.mark.parametrize("looks", [lambda evaluator: None, lambda evaluator: evaluator.statistics()])
def test_who_only_looks_leaves_no_turn(looks: Callable[[QueryEvaluator], object]) -> None:
    """A store that was stopped cleanly still is when somebody has started it and taken no step, whatever its clocks."""
    store = MemoryStore()
    for query in ("stamped", "plain", None):
        store = store.reopen()
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.push("n").push([1.0, 2.0])
            if query is not None:
                clock = event_time(float, lateness_s=0.0, idle_s=60.0) if query == "stamped" else None
                evaluator.create(query, rx.source("n").map(lambda n: n), clock=clock)
            while evaluator.step():
                pass
        store = store.reopen()
        before = store.journal.last_turn
        evaluator = QueryEvaluator(store, background=False)
        evaluator.push("n")
        evaluator.start()
        looks(evaluator)
        evaluator.close()
        assert store.journal.last_turn == before


def test_a_leap_is_told() -> None:
    """A clock that goes forward by more than a week at once is worth a warning."""
    run = Run()
    run.now += CENTURY
    run.settle()
    assert run.incidents() == ["ahead"]


def following(n: Any) -> Any:
    return n + 1


TICKING: dict[str, Any] = {
    "interval": rx.interval(1.0),
    "interval once": rx.interval(1.0, catch_up="once"),
    "interval skip": rx.interval(1.0, catch_up="skip"),
    "sample": rx.source("n").sample(1.0).merge(rx.interval(1.0)),
    "buffer": rx.source("n").buffer_with_time(1.0),
    "sliding": rx.source("n").buffer_with_time(3.0, 1.0),
    "buffer or count": rx.source("n").buffer_with_time_or_count(1.0, 5),
    "window": rx.source("n").window_with_time(1.0).flat_map(lambda w: w.count()),
    "repeat": rx.timer(1.0).repeat(),
    "generate": rx.generate_with_relative_time(0, lambda n: True, following, lambda n: 1.0),
}


@pytest.mark.parametrize("name", TICKING)
def test_a_leap_of_a_century_freezes_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ticks every second has missed three billion ticks: it leaps over them and goes on every second."""
    monkeypatch.setattr(time_moves, "REARMED_MAX", 1000)
    run = Run()
    run.evaluator.create("q", TICKING[name])
    run.elapse(3)
    run.now += CENTURY
    run.settle()
    figures = run.evaluator.query("q")
    assert figures.status == "running" and run.evaluator.engine.clock == run.now
    run.elapse(5)
    after = run.evaluator.query("q")
    assert after.status == "running" and 4 <= after.emitted - figures.emitted <= 6
    assert after.emitted < 10_000
    run.restart(cleanly=False)
    assert run.evaluator.query("q").emitted == after.emitted


def test_a_leap_of_events_freezes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of another century moves the clock of a query on event time; what ticks on it leaps."""
    monkeypatch.setattr(event_clock, "REARMED_MAX", 1000)
    monkeypatch.setattr(time_moves, "REARMED_MAX", 1000)
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", ListSource([1.0, 5.0, CENTURY, CENTURY + 10.0], follow=True))
    ticks = rx.source("n").map(lambda n: -n).merge(rx.interval(1.0))
    evaluator.create("q", ticks, clock=event_time(lambda n: n, lateness_s=0.0))
    while evaluator.step():
        pass
    figures = evaluator.query("q")
    assert figures.status == "running" and 1000 < figures.emitted < 3000 and figures.clock == CENTURY + 10.0


def test_a_long_outage_is_made_up_for_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tick of a day is emitted at its own time, in turns of a bounded size; a crash between them is no matter."""
    monkeypatch.setattr(time_moves, "REARMED_MAX", 1000)
    run = Run()
    run.evaluator.create("q", rx.interval(10.0))
    run.elapse(10)
    before, turns = run.evaluator.query("q").emitted, run.evaluator.engine.number
    run.now += 86_400.0
    for _ in range(4):
        run.evaluator.step()
    assert run.evaluator.engine.is_behind and run.evaluator.query("q").emitted < before + 8640
    run.restart(cleanly=False)
    assert run.evaluator.query("q").emitted == before + 8640 and run.evaluator.engine.number - turns >= 8


def played(values: list[float], now: float, policy: str = "fail", **options: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=lambda: now)
    evaluator.source("n", ListSource(values, follow=True))
    clock = event_time(lambda n: n, lateness_s=0.0, **options)
    evaluator.create("q", rx.source("n"), clock=clock, policy=policy)
    while evaluator.step():
        pass
    evaluator.time.tell(evaluator.engine)
    return evaluator


def test_an_event_far_ahead_is_told_with_its_position() -> None:
    """It moves the clock of the query, as any event does; the incident names source, partition, position and time."""
    evaluator = played([100.0, 101.0, 100.0 + CENTURY, 102.0, 103.0], 100.0)
    (incident,) = [each for each in evaluator.statistics().incidents if each.kind == "clock"]
    assert incident.subject == "events of n/0"
    assert "position 2 " in incident.message and "the clock of q " in incident.message
    assert evaluator.query("q").late == 2


@pytest.mark.parametrize("stamped", [False, True], ids=["the query's clock", "the source's timestamp"])
def test_an_event_far_ahead_is_told_by_a_run_that_is_over_at_once(stamped: bool) -> None:
    """Also where the query has ended before anybody looked, and where the source says the times."""
    with QueryEvaluator(MemoryStore(), clock=lambda: 100.0) as evaluator:
        timestamp = float if stamped else None
        evaluator.source("n", ListSource([100.0, 100.0 + CENTURY, 102.0], timestamp=timestamp))
        evaluator.create("q", rx.source("n"), clock=event_time(float, ahead_max_s=math.inf))
        evaluator.run()
        evaluator.checkpoint()
        (incident,) = [each for each in evaluator.statistics().incidents if each.kind == "clock"]
        assert evaluator.query("q").status == "completed"
    assert "ahead of the computer's clock" in incident.message and "ahead_max_s" in incident.message


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_events_too_far_ahead_are_refused(policy: str) -> None:
    """With `ahead_max_s` such an event goes to the query's policy and moves no clock; those around it are taken."""
    evaluator = played([100.0, 101.0, 100.0 + CENTURY, 102.0, 103.0], 100.0, policy, ahead_max_s=60.0)
    figures = evaluator.query("q")
    assert (figures.late, figures.clock, figures.held) == (0, 103.0, 1)
    assert [v for part in evaluator.stream("q").read(0, 9) for v in part.values] == [100.0, 101.0, 102.0]
    assert not [each for each in evaluator.statistics().incidents if each.kind == "clock"]
    if policy == "dead_letter":
        (letter,) = [v for part in evaluator.stream("q.dead_letters").read(0, 9) for v in part.values]
        assert letter.position == 2 and "ahead" in letter.error


def test_a_query_fails_at_an_event_too_far_ahead() -> None:
    """Without a policy that is the end of the query, as for an event without a time."""
    assert played([100.0, 100.0 + CENTURY], 100.0, ahead_max_s=60.0).query("q").status == "failed"
