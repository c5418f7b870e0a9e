"""`map_async` in an evaluator: answers are in the journal or calls are made again, and every element has one result."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from calls_world import CallsWorld, element
from conditions import until
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from lanes import share_of
from test_map_async import WAIT_S, Gate

import hosting.evaluator.call_executor
import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.evaluator.call_executor import Calls
from hosting.reports.incidents import Incidents
from reliable_rx import operators as ops
from reliable_rx.event_time import event_time
from reliable_rx.failpoints import ARMED
from reliable_rx.testing.faults import disk_full

POINTS = ("journal.before_commit", "journal.after_commit", "checkpoint.before_commit", "checkpoint.after_commit")


class Machine(RuleBasedStateMachine):
    """Everything that may happen between a call and the checkpoint that covers its answer."""

    world: CallsWorld

    @initialize(concurrency=st.integers(1, 3), ordered=st.booleans(), batch=st.sampled_from((1, 3, 100)))
    def begin(self, concurrency: int, ordered: bool, batch: int) -> None:
        ARMED.clear()
        self.world = CallsWorld(concurrency=concurrency, ordered=ordered, batch=batch, policy="dead_letter")
        self.world.evaluator.start()

    @rule(events=st.integers(1, 6))
    def append(self, events: int) -> None:
        start = len(self.world.events)
        self.world.events.extend(range(start, start + events))

    @rule(steps=st.integers(1, 5))
    def step(self, steps: int) -> None:
        self.world.run(steps)

    @rule(place=st.integers(0, 2), fails=st.sampled_from((False, False, True)))
    def answer(self, place: int, fails: bool) -> None:
        self.world.answer(place, fails=fails)

    @rule(place=st.integers(0, 2), fails=st.booleans(), point=st.sampled_from(POINTS))
    def answer_and_crash_at(self, place: int, fails: bool, point: str) -> None:
        """Let an answer come while the disk is full at one point, and the process die."""
        self.append(1)
        self.world.run(3)
        self.world.answer(place, fails=fails)
        ARMED[point] = disk_full()
        self.world.run(4)
        self.checkpoint(full=False)
        self.world.crash()

    @rule(full=st.booleans())
    def checkpoint(self, full: bool) -> None:
        self.world.try_to(lambda: self.world.evaluator.checkpoint(full=full))

    @rule()
    def begin_checkpoint(self) -> None:
        checkpointer = self.world.evaluator.checkpointer
        if checkpointer.attempt is None and checkpointer.trouble is None:
            checkpointer._begin(full=checkpointer._wants_full())

    @rule(concurrency=st.integers(1, 3), ordered=st.booleans())
    def edit(self, concurrency: int, ordered: bool) -> None:
        """Answers that were kept for their turn are emitted too when order is no longer asked for."""
        self.world.edit(concurrency=concurrency, ordered=ordered)

    @rule(point=st.sampled_from(POINTS))
    def let_it_fail(self, point: str) -> None:
        ARMED[point] = disk_full()

    @rule()
    def mend(self) -> None:
        ARMED.clear()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.world.finish()
        finally:
            ARMED.clear()


def run_machine(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_every_element_has_one_result_whatever_happens() -> None:
    """Events, answers, errors, edits, checkpoints, full disks and crashes in any order: a journalled answer is never
    asked for again, no call goes out for a turn that may be lost, and what comes out is what was journalled."""
    run_machine(examples=share_of(50), steps=25)


@pytest.mark.slow
def test_every_element_has_one_result_whatever_happens_for_long() -> None:
    """The same, for longer and more often."""
    run_machine(examples=300, steps=50)


# -- a crash at every point, one by one


def world_at(point: str) -> CallsWorld:
    """Return a world whose one event has got as far as *point*."""
    world = CallsWorld(concurrency=2, ordered=True)
    world.evaluator.start()
    world.events.append(0)
    if point == "before the call":
        world.evaluator.step()  # which takes the event; the call goes out with the next step
        return world
    world.run()
    if point != "in flight":
        world.answer(0)
    if point == "answered, not journalled":
        ARMED["journal.before_commit"] = disk_full()
        world.run(5)
    if point in ("journalled", "checkpointed"):
        world.run()
    if point == "checkpointed":
        world.evaluator.checkpoint()
    return world


@pytest.mark.parametrize(
    ("point", "calls_before", "calls"),
    [
        ("before the call", 0, 1),
        ("in flight", 1, 2),
        ("answered, not journalled", 1, 2),
        ("journalled", 1, 1),
        ("checkpointed", 1, 1),
    ],
)
@pytest.mark.parametrize("checkpointed_before", [False, True])
def test_a_crash_at_every_point(point: str, calls_before: int, calls: int, checkpointed_before: bool) -> None:
    """Only what was in flight (an answer that is not in the journal has not arrived) is called again."""
    try:
        world = world_at(point)
        assert len(world.service.calls) == calls_before
        if checkpointed_before and not ARMED:
            world.evaluator.checkpoint()
        world.crash()
        world.finish()
        assert len(world.service.calls) == calls
        assert world.read("q") == [(0, calls - 1)]
    finally:
        ARMED.clear()


def test_an_early_answer_is_in_the_next_checkpoint() -> None:
    """An answer that nothing comes out for yet changes the row all the same."""
    world = CallsWorld(concurrency=2, ordered=True)
    world.evaluator.start()
    world.events += range(2)
    world.run()
    world.evaluator.checkpoint()
    world.answer(1)
    world.run()
    world.evaluator.checkpoint()
    world.crash()
    world.run()
    assert [value for value, _ in world.pending.values()] == [0]
    world.finish()
    assert world.read("q") == [(0, 2), (1, 1)]


def test_a_call_waits_for_its_turn_to_be_durable() -> None:
    """While the journal cannot be written, nobody outside is asked for what may be lost."""
    world = CallsWorld(concurrency=2, ordered=True)
    world.evaluator.start()
    ARMED["journal.before_commit"] = disk_full()
    try:
        world.events.append(0)
        world.run(5)
        assert world.service.calls == []
    finally:
        ARMED.clear()
    world.run()
    assert len(world.service.calls) == 1


def test_an_edit_keeps_the_calls_in_flight() -> None:
    """They are not made again, and fewer may be in flight from then on."""
    world = CallsWorld(concurrency=3, ordered=False)
    world.evaluator.start()
    world.events += range(5)
    world.run()
    world.edit(concurrency=1)
    world.run()
    assert len(world.pending) == len(world.service.calls) == 3
    world.answer(1)
    world.run()
    assert len(world.pending) == 2
    world.finish()
    assert len(world.service.calls) == 5


def test_answers_that_wait_for_their_turn_come_when_order_is_no_longer_asked_for() -> None:
    """With the next answer, whichever that is: none is left behind."""
    world = CallsWorld(concurrency=3, ordered=True)
    world.evaluator.start()
    world.events += range(3)
    world.run()
    world.answer(1)
    world.run()
    assert world.seen == []
    world.edit(ordered=False)
    world.answer(1)
    world.run()
    assert {value for value, _ in world.seen} == {1, 2}
    world.finish()


def test_calls_inside_groups_survive() -> None:
    """Every group has calls of its own, in its own row."""
    world = CallsWorld(concurrency=1, ordered=True)
    world.query = lambda: rx.source("n").pipe(  # type: ignore[method-assign]
        ops.group_by(lambda n: n % 3), ops.flat_map(lambda g: g.pipe(ops.map_async(element, concurrency=1)))
    )
    world.crash()
    world.events += range(6)
    world.run()
    assert sorted(value for value, _ in world.pending.values()) == [0, 1, 2]
    world.evaluator.checkpoint()
    world.answer(1)
    world.run()
    world.crash()
    world.run()
    assert sorted(value for value, _ in world.pending.values()) == [0, 2, 4]
    while world.pending:
        world.answer(0)
        world.run()
    assert sorted(value for value, _ in world.read("q")) == list(range(6))
    assert len(world.service.calls) == 6 + 3


def test_a_fast_source_waits_for_a_slow_service() -> None:
    """No more events are taken while four times *concurrency* wait, so neither a limit nor the memory is reached."""
    world = CallsWorld(concurrency=2, ordered=True, batch=5)
    world.evaluator.start()
    world.events += range(200)
    world.run()
    assert world.evaluator.intake.positions()["n", "0"] == 10
    world.evaluator.checkpoint()
    world.crash()
    world.run()
    assert world.evaluator.intake.positions()["n", "0"] == 10, "recovery forgot that it is full"
    world.finish()
    assert len(world.read("q")) == 200


# -- with real coroutines


class Running:
    """An evaluator whose loop runs in a thread of its own."""

    def __init__(
        self, store: Any, query: Any, events: list[Any], *, policy: str = "fail", clock: Any = None, **options: Any
    ) -> None:
        self.evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, **options)
        self.evaluator.source("n", ListSource(events))
        self.evaluator.create("q", query, policy=policy, clock=clock)
        self.evaluator.start()
        self.thread = threading.Thread(target=self.evaluator.run, daemon=True)
        self.thread.start()

    def join(self) -> None:
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()

    def values(self) -> list[Any]:
        return values_of(self.evaluator, "q")


def values_of(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 1000) for value in part.values]


GATE = Gate()
"""The service of these tests; a function of a query must be found by name in the next process, and so must this."""


@pytest.fixture
def gate() -> Gate:
    GATE.__init__()  # type: ignore[misc]
    return GATE


async def through_gate(value: Any) -> Any:
    return await GATE(value)


def test_a_query_with_calls_in_flight_is_not_over(gate: Gate) -> None:
    """`run` returns when the sources have ended and every call is answered."""
    running = Running(MemoryStore(), rx.source("n").map_async(through_gate), [1, 2])
    gate.wait_for(1, 2)
    gate.answer(2, "b")
    gate.wait_for(1)
    assert running.thread.is_alive()
    gate.answer(1, "a")
    running.join()
    assert running.values() == ["a", "b"]
    assert running.evaluator.query("q").status == "completed"
    running.evaluator.close()


def test_an_orderly_stop_takes_the_answers_that_come_soon(gate: Gate) -> None:
    """What is answered within the grace is recorded; what waits is asked for after the restart, once."""
    store = MemoryStore()
    query = rx.source("n").map_async(through_gate, concurrency=1)
    running = Running(store, query, [1, 2])
    gate.wait_for(1)
    running.evaluator.stop()
    gate.answer(1, "a")
    running.join()
    running.evaluator.close()
    assert gate.asked == [1]
    again = Running(store.reopen(), query, [1, 2])
    gate.wait_for(2)
    gate.answer(2, "b")
    again.join()
    assert again.values() == ["a", "b"]
    assert gate.asked == [1, 2]
    again.evaluator.close()


def test_a_stop_does_not_wait_for_ever(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that hangs is given up, cancelled, and made again after the restart."""
    monkeypatch.setattr(hosting.evaluator.call_executor, "GRACE_S", 0.01)
    store = MemoryStore()
    query = rx.source("n").map_async(through_gate)
    running = Running(store, query, [1])
    gate.wait_for(1)
    running.evaluator.stop()
    running.join()
    running.evaluator.close()
    assert gate.cancelled == [1]
    again = Running(store.reopen(), query, [1])
    gate.wait_for(1)
    gate.answer(1, "a")
    again.join()
    assert (again.values(), gate.asked) == (["a"], [1, 1])
    again.evaluator.close()


def test_disposing_a_query_cancels_its_calls(gate: Gate) -> None:
    """And an answer that comes all the same is nobody's."""
    running = Running(MemoryStore(), rx.source("n").map_async(through_gate), [1])
    gate.wait_for(1)
    running.evaluator.dispose("q")
    gate.wait_for()
    assert gate.cancelled == [1]
    running.join()
    running.evaluator.close()


def test_at_least_once_does_not_wait_for_the_journal(gate: Gate) -> None:
    """The same results; calls go out at once."""
    running = Running(MemoryStore(), rx.source("n").map_async(through_gate), [1, 2], delivery="at_least_once")
    gate.wait_for(1, 2)
    gate.answer(1, "a")
    gate.answer(2, "b")
    running.join()
    assert running.values() == ["a", "b"]
    running.evaluator.close()


class Unsaved(Exception):
    """An error that pickle alone does not bring back from bytes."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


async def hostile(value: int) -> Any:
    if value == 1:
        return threading.Lock()
    if value == 2:
        raise Unsaved("a", "b")
    if value == 3:
        raise ValueError("plain")
    return value


def dead(store: Any, policy: str) -> tuple[list[Any], list[Any], str]:
    with QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource(range(5)))
        evaluator.create("q", rx.source("n").map(lambda n: n * 1).map_async(hostile), policy=policy)
        evaluator.run()
        return values_of(evaluator, "q"), values_of(evaluator, "q.dead_letters"), evaluator.query("q").error


def test_an_answer_that_cannot_be_recorded_is_an_error_of_its_element() -> None:
    """A value that does not pickle stops its element and no other, any error is recorded, and letters say which."""
    values, letters, error = dead(MemoryStore(), "dead_letter")
    assert values == [0, 4]
    assert [(each.source, each.position, each.value) for each in letters] == [("n", 1, 1), ("n", 2, 2), ("n", 3, 3)]
    assert letters[0].error.startswith("AnswerRefused: a call answered with lock, which cannot be recorded")
    assert letters[1].error == "Unsaved: ab"
    assert letters[2].error == "ValueError: plain"
    assert "in hostile" in letters[2].traceback
    assert error == ""


@pytest.mark.parametrize(("policy", "values"), [("skip", [0, 4]), ("fail", [0])])
def test_the_other_policies(policy: str, values: list[int]) -> None:
    """An error leaves its element out, or ends the query in its place."""
    found, letters, error = dead(MemoryStore(), policy)
    assert (found, letters) == (values, [])
    assert error.startswith("AnswerRefused") == (policy == "fail")


def test_an_error_behind_the_call_is_buried_with_its_event() -> None:
    """What a later function raises for an answer belongs to the event that the call was made for."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([5, 0, 2]))
        evaluator.create("q", rx.source("n").map_async(echo).map(lambda n: 10 // n), policy="dead_letter")
        evaluator.run()
        assert [(each.position, each.value) for each in values_of(evaluator, "q.dead_letters")] == [(1, 0)]


async def echo(value: Any) -> Any:
    return value


def test_event_time_waits_for_the_answers() -> None:
    """What timers would do after the last event happens when the last answer is in."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource(range(10), timestamp=float))
        query = rx.source("n").map_async(echo).pipe(ops.buffer_with_time(1000.0))
        evaluator.create("q", query)
        evaluator.create("timers", rx.source("n").pipe(ops.debounce(0.5), ops.map_async(echo), ops.debounce(0.5)))
        evaluator.run()
        assert values_of(evaluator, "q") == [list(range(10))]
        assert values_of(evaluator, "timers")[-1] == 9


def test_trouble_with_the_store_loses_no_answer(gate: Gate) -> None:
    """An answer that comes while the journal cannot be written is taken when it can be."""
    store = MemoryStore()
    running = Running(store, rx.source("n").map_async(through_gate), [1])
    gate.wait_for(1)
    ARMED["journal.before_commit"] = disk_full()
    try:
        gate.answer(1, "a")
        gate.wait_for()
    finally:
        ARMED.clear()
    running.join()
    assert (running.values(), gate.asked) == (["a"], [1])
    running.evaluator.close()


def test_a_query_on_event_time_waits_for_its_answers() -> None:
    """What it would do when its events are over it does once, when the last answer is in."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource(range(10)))
        query = rx.source("n").map_async(echo, concurrency=2).pipe(ops.buffer_with_time(1000.0))
        evaluator.create("q", query, clock=event_time(float))
        evaluator.create("last", rx.source("n").pipe(ops.map_async(echo), ops.debounce(0.5)), clock=event_time(float))
        evaluator.run()
        assert values_of(evaluator, "q") == [list(range(10))]
        assert values_of(evaluator, "last")[-1] == 9


def test_what_is_due_after_the_last_answer_happens_when_it_is_in(gate: Gate) -> None:
    """A query on event time whose events are over has nothing but answers that could move its clock."""
    query = rx.source("n").map_async(through_gate).pipe(ops.delay(5.0))
    running = Running(MemoryStore(), query, [1], clock=event_time(float))
    gate.wait_for(1)
    until(lambda: running.evaluator.engine.live["n"] == set())
    gate.answer(1, "a")
    running.join()
    assert (running.values(), running.evaluator.query("q").status) == (["a"], "completed")
    running.evaluator.close()


def test_an_answer_wakes_the_loop() -> None:
    """It is taken now, and not when somebody happens to look."""
    woken: list[bool] = []
    calls = Calls(QueryEngine().calls, Incidents(), wake=lambda: woken.append(True), durable_first=True)
    calls._answered(1, "answer", None)
    assert woken == [True]
