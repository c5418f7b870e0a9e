"""Turns, groups and the lifecycle of an evaluator, without an evaluator: a fake journal's worker, a real engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode, encode
from hosting.edges.holders import StreamHolders
from hosting.edges.ingress import Intake
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Appear, Create, Events, Rejects, Turn
from hosting.evaluator.call_executor import Calls
from hosting.evaluator.fair_lock import Turnstile
from hosting.evaluator.group_commit import SIMPLE, Told, entry_of, simple_turn
from hosting.evaluator.lifecycle import Lifecycle
from hosting.evaluator.reentrancy import Inside
from hosting.evaluator.serial_executor import Worker
from hosting.evaluator.turn_executor import PENDING_GROUPS_MAX, TurnExecutor
from hosting.reports.incidents import Incidents
from hosting.reports.unheard import Standstill
from reliable_rx.errors import StoreOwned, TooLate


class LaterWorker(Worker):
    """A worker whose tasks run when the test says so."""

    def retry(self) -> None: ...

    def write(self) -> None:
        super().retry()


class Parts:
    """What a turn executor needs, and nothing else."""

    def __init__(self, delivery: Any = "exactly_once") -> None:
        self.life, self.store, self.engine, lock = Lifecycle(), MemoryStore(), QueryEngine(), Turnstile()
        incidents, wake = Incidents(), self.life.wake
        inside = Inside(lock, self.engine, self.life)
        self.store.recover()
        self.worker = LaterWorker(wake=wake, lend=None)
        intake = Intake(batch_events_max=10, idle_s=1.0, clock=lambda: 0.0, incidents=incidents)
        holders = StreamHolders(lock, store=self.store, incidents=incidents, events_max=100, check=inside.check)
        self.streams = Streams(self.store, holders, retain_events=100, retention=None)
        self.turns = TurnExecutor(
            self.engine,
            now=lambda: 7.0,
            lifecycle=self.life,
            inside=inside,
            standstill=Standstill(self.engine, intake, lambda: 7.0),
            calls=Calls(self.engine.calls, incidents, wake=wake, durable_first=True),
            streams=self.streams,
            journal=self.store.journal,
            worker=self.worker,
            delivery=delivery,
            told=Told,
        )
        self.engine.declare("n", ("p",))
        self.turns.take(self.engine.creation("q", rx.source("n").map(lambda n: 1 / n), time=7.0))

    def events(self, at: int, *values: object) -> Turn:
        return Events("n", "p", at, list(values), 7.0)

    def visible(self) -> list[Any]:
        stream = self.streams.get("q")
        return [] if stream is None else [each for part in stream.read(0, 100) for each in part.values]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_outputs_are_visible_when_their_group_is_durable(delivery: Any) -> None:
    """With `exactly_once` not before; with `at_least_once` as soon as they are published."""
    parts = Parts(delivery)
    parts.turns.take(parts.events(0, 1, 2))
    assert parts.visible() == [] and not parts.turns.is_settled
    parts.turns.close_group()
    assert parts.visible() == ([] if delivery == "exactly_once" else [1.0, 0.5])
    assert not parts.turns.show_durable(), "the journal does not have it"
    parts.worker.write()
    assert parts.turns.show_durable() and parts.visible() == [1.0, 0.5] and parts.turns.is_settled
    assert parts.turns.events_in == 2


def test_turns_wait_for_a_journal_that_is_far_behind() -> None:
    """Groups that are not written are bounded; one that is being written has the next turns wait for the next group."""
    parts = Parts()
    for at in range(PENDING_GROUPS_MAX):
        assert not parts.turns.is_late
        parts.turns.take(parts.events(at, 1))
        parts.turns.close_group()
    assert parts.turns.is_late
    parts.turns.take(parts.events(PENDING_GROUPS_MAX, 1))
    parts.turns.offer_group()
    parts.worker.write()
    assert parts.turns.show_durable() and not parts.turns.is_settled, "the last turn was not offered while it wrote"
    parts.turns.offer_group()
    parts.worker.write()
    assert parts.turns.show_durable() and parts.turns.is_settled


def test_the_group_of_a_broken_turn_is_never_written() -> None:
    """An interrupt in the middle of a turn breaks the evaluator: what it has half done is not durable."""
    parts = Parts()
    parts.turns.close_group()
    parts.worker.write()

    def interrupt(turn: Turn) -> Any:
        raise KeyboardInterrupt

    parts.turns.take(parts.events(0, 1))
    parts.engine.take = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        parts.turns.take(parts.events(1, 2))
    parts.turns.close()
    parts.worker.write()
    assert parts.store.journal.last_turn == 1
    with pytest.raises(TooLate, match="KeyboardInterrupt"):
        parts.life.check()


def test_the_code_of_a_plan_is_journalled_once() -> None:
    """The second query of the same plan says which it is; what a full checkpoint has dropped is written again."""
    parts = Parts()
    query, codes = rx.source("n").map(lambda n: n + 1), list[Any]()
    for name in ("a", "b", "c"):
        turn = parts.engine.creation(name, query, time=7.0)
        assert isinstance(turn, Create)
        codes.append(parts.turns._code(turn))
        if name == "b":
            parts.turns.durable_plans.clear()
    assert [type(each) for each in codes] == [bytes, type(None), bytes]


def test_a_failed_query_takes_a_turn_and_one_that_is_gone_none() -> None:
    """Whatever cannot be kept ends by a turn, which a replay takes again."""
    parts = Parts()
    before = parts.engine.number
    parts.turns.fail("q", ValueError("as the test wants"))
    assert parts.engine.standing["q"].status == "failed" and parts.engine.number == before + 1
    parts.turns.fail("gone", ValueError("as the test wants"))
    assert parts.engine.number == before + 1


@pytest.mark.parametrize(
    ("failure", "raised"), [(ValueError("made by a test"), TooLate), (StoreOwned("made by a test"), StoreOwned)]
)
@pytest.mark.parametrize("fail", ["broken", "worker"])
def test_what_has_failed_is_raised_for_good(fail: str, failure: Exception, raised: type[Exception]) -> None:
    """Our own errors as they are, others by `TooLate` with the remedy; whatever is pushed is refused likewise."""
    life, worker = Lifecycle(), Worker(wake=lambda: None, lend=None)
    life.workers.append(worker)
    life.check()
    life.check_read("n")
    if fail == "broken":
        life.broken = failure
    else:
        worker.submit(raising(failure))
    for _ in range(2):
        with pytest.raises(raised, match="made by a test"):
            life.check()
        with pytest.raises(TooLate, match=r"pushed into 'n' would be read by nobody.*make another one"):
            life.check_read("n")


def raising(error: Exception) -> Callable[[], None]:
    def task() -> None:
        raise error

    return task


def test_a_wait_that_was_woken_before_does_not_pause() -> None:
    """Whatever comes between the last look and the wait is not slept over; the host's own hook is called too."""
    life, woken = Lifecycle(), list[int]()
    life.on_wake = lambda: woken.append(1)
    life.wake()
    life.wait(lambda: pytest.fail("it was awake"))
    asked = iter([0.0])
    life.wait(lambda: next(asked))
    assert woken == [1] and next(asked, None) is None
    life.stop()
    life.wait(lambda: pytest.fail("it was stopped"))


@pytest.mark.parametrize("kind", SIMPLE.values(), ids=SIMPLE)
def test_a_turn_that_needs_nothing_from_outside_is_read_back_whole(kind: Any) -> None:
    """A replay takes what was taken, with every field that a turn has."""
    turn = kind(*range(1, len(kind._fields) + 1))
    again = simple_turn(decode(encode(entry_of(turn, None))))
    assert (type(again), tuple(again)) == (kind, tuple(turn))


def test_each_turn_is_written_with_all_its_fields_or_by_a_rule_of_its_own() -> None:
    """A new kind of turn has to say which."""
    assert {*SIMPLE.values(), Events, Rejects, Create, Appear} == {*get_args(Turn)}
