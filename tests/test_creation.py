"""Beginnings: what a host refuses, what is chosen once, what is acquired again, and long sequences in portions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from lanes import at_each_commit
from reactivex.disposable import Disposable
from reactivex.scheduler import ImmediateScheduler
from reactivex.subject import Subject

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import copy_of
from hosting.engine.turns import Events, Output, Tick
from reliable_rx import operators as ops
from reliable_rx.creation.pacing import PORTION
from reliable_rx.errors import LimitExceeded, QueryRefused
from reliable_rx.limits import Limits
from reliable_rx.operators.flatten import at_once

NOW = ImmediateScheduler.singleton()


def engine_with(query: Any, **how: Any) -> tuple[QueryEngine, list[Any]]:
    """Return an engine with two sources that has created *query*, and what the creation emitted."""
    engine = QueryEngine()
    for source in ("a", "b"):
        engine.declare(source, ["0"])
    return engine, values(engine.take(engine.creation("q", query, time=0.0, **how)))


def test_only_a_list_without_a_scheduler_comes_at_once() -> None:
    """What is known to be there with the subscription is taken as one list; where a scheduler says when, it is not."""
    assert at_once(rx.from_iterable([1, 2])) == [1, 2]
    assert at_once(rx.from_iterable([1, 2], NOW)) is None
    assert at_once(rx.from_iterable(iter([1, 2]))) is None


def values(outputs: list[Output]) -> list[Any]:
    return [value for out in outputs for value in out.values]


def push(engine: QueryEngine, source: str, value: Any, time: float) -> list[Any]:
    return values(engine.take(Events(source, "0", int(time), [value], time)))


OUTSIDE: dict[str, Callable[[], Any]] = {
    "create": lambda: rx.create(lambda observer, scheduler: Disposable()),
    "from_callable": lambda: rx.from_callable(int),
    "from_callback": lambda: rx.from_callback(lambda back: back())(),
    "from_future": lambda: rx.from_future(Future()),
    "start": lambda: rx.start(int, NOW),
    "start_async": lambda: rx.start_async(Future),
    "to_async": lambda: rx.to_async(int, NOW)(),
    "from_marbles": lambda: rx.from_marbles("-1-|"),
    "cold": lambda: rx.cold("-1-|"),
    "hot": lambda: rx.hot("|", 0.0, scheduler=NOW),
    "for_in": lambda: rx.for_in(iter([1]), rx.of),
    "concat_with_iterable": lambda: rx.concat_with_iterable(iter([rx.of(1)])),
    "catch_with_iterable": lambda: rx.catch_with_iterable(iter([rx.of(1)])),
    "from_iterable": lambda: rx.from_iterable(iter([1])),
    "set": lambda: rx.from_({1, 2}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_nobody_can_replay_is_refused_with_the_way_to_do_it(name: str) -> None:
    """A host refuses what begins outside of Rx or in an iterator, and its error says what to write instead."""
    query = rx.source("a").pipe(ops.merge(OUTSIDE[name]()))
    with pytest.raises(QueryRefused, match=r"source|list|return_value|testing") as refused:
        engine_with(query)
    spoken = {"cold": "from_marbles", "set": "iterator", "from_iterable": "iterator"}.get(name, name)
    assert spoken in str(refused.value)


SAID: list[Any] = []
"""What the functions below note; they are of this module, so that a recovered engine calls these and no copies."""


def chosen() -> str:
    SAID.append("chosen")
    return "b" if len(SAID) > 2 else "a"


def is_chosen() -> bool:
    return chosen() == "a"


def test_a_choice_is_not_made_again_on_recovery() -> None:
    """`case` and `if_then` go on with the sequence they chose, whatever they would choose now."""
    SAID.clear()
    query = rx.case(chosen, {"a": rx.source("a"), "b": rx.source("b")}).pipe(
        ops.merge(rx.if_then(is_chosen, rx.source("a"), rx.source("b")).map(str))
    )
    engine, _ = engine_with(query)
    engine = copy_of(engine)
    assert push(engine, "b", 1, 1.0) == []
    assert push(engine, "a", 2, 2.0) == [2, "2"]
    assert SAID == ["chosen"] * 2


def made(scheduler: Any) -> Any:
    SAID.append(scheduler)
    return rx.source("a").scan(lambda total, x: total + x)


def test_a_factory_is_called_again_on_recovery() -> None:
    """`defer` makes its sequence anew and gives it the state it had."""
    SAID.clear()
    engine, _ = engine_with(rx.defer(made))
    assert push(engine, "a", 2, 1.0) == [2]
    engine = copy_of(engine)
    assert push(engine, "a", 3, 2.0) == [5]
    assert SAID == [None, None]


def acquire() -> Disposable:
    SAID.append("acquired")
    return Disposable(lambda: SAID.append("disposed"))


def test_a_resource_is_acquired_again_on_recovery_and_disposed_of_at_the_end() -> None:
    """Each process has a resource of its own for as long as the sequence goes on."""
    SAID.clear()
    engine, _ = engine_with(rx.using(acquire, lambda resource: rx.source("a").take(2)))
    assert push(engine, "a", 1, 1.0) == [1]
    engine = copy_of(engine)
    assert SAID == ["acquired", "acquired"]
    assert push(engine, "a", 2, 2.0) == [2]
    assert SAID == ["acquired", "acquired", "disposed"]


LONG: dict[str, Callable[[], Any]] = {
    "range": lambda: rx.range(PORTION * 3 + 5),
    "from_ a list": lambda: rx.from_(list(range(PORTION * 3 + 5))),
    "from_ a range": lambda: rx.from_(range(PORTION * 3 + 5)),
    "generate": lambda: rx.generate(0, lambda x: x < PORTION * 3 + 5, lambda x: x + 1),
}


@pytest.mark.parametrize("ticks_s", [0.0, 1.0])
@pytest.mark.parametrize("name", LONG)
def test_a_long_sequence_comes_in_portions(name: str, ticks_s: float) -> None:
    """One turn emits no more than a portion, a recovery in between goes on, and nothing is missing or twice."""
    engine, got = engine_with(LONG[name]().merge(rx.source("a")))
    turns = 1
    while (due := engine.timers.next_due()) is not None:
        engine = copy_of(engine)
        more = values(engine.take(Tick(due + ticks_s)))
        assert len(more) <= PORTION
        got, turns = got + more, turns + 1
    assert got == list(range(PORTION * 3 + 5))
    assert turns == 4


@pytest.mark.parametrize("name", ["from_ a range", *(at_each_commit(name) for name in LONG if name != "from_ a range")])
def test_a_long_sequence_is_all_there_un_hosted(name: str) -> None:
    """Un-hosted there are no portions; RxPY's one loop goes through the whole, or stops with its reader."""
    seen: list[int] = []
    LONG[name]().subscribe(seen.append)
    assert seen == list(range(PORTION * 3 + 5))
    assert LONG[name]().pipe(ops.take(PORTION + 1), ops.count()).run() == PORTION + 1


def test_a_generation_without_end_stays_bounded() -> None:
    """Hosted, `generate` without end emits a portion a turn, and events come in between."""
    engine, got = engine_with(rx.generate(0, lambda x: True, lambda x: x + 1).merge(rx.source("a")))
    assert len(got) == PORTION
    got = push(engine, "a", "event", 1.0)
    assert got[-1] == "event"
    assert len(got) == PORTION + 1


def test_a_repetition_without_end_is_stopped() -> None:
    """What goes on for ever while no time passes fails its query at `Limits.actions_max`."""
    engine, got = engine_with(rx.repeat_value(1).merge(rx.source("a")), limits=Limits(actions_max=100))
    assert len(got) < 101
    standing = engine.standing["q"]
    assert isinstance(standing.error, LimitExceeded)


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.pipe(ops.take(1), ops.while_do(lambda _: True), ops.take(2)),
        lambda s: s.pipe(ops.take(1), ops.do_while(lambda _: True), ops.take(2)),
        lambda s: rx.for_in([1, 2], lambda n: s.pipe(ops.take(1))),
        lambda s: s.pipe(ops.take(1), ops.repeat(2)),
    ],
)
def test_every_subscription_begins_anew(build: Callable[[Any], Any]) -> None:
    """A second subscription of a query sees what the first saw; RxPY's `while_do` and `for_in` are used up by then."""
    subject: Subject[int] = Subject()
    query = build(subject)
    for _ in range(2):
        seen: list[Any] = []
        query.subscribe(seen.append, on_completed=lambda seen=seen: seen.append("end"))
        for letter in (1, 2, 3):
            subject.on_next(letter)
        assert seen == [1, 2, "end"]


def test_jitter_takes_away_and_repeats() -> None:
    """A pause with jitter lies between the fraction that is left and the whole, and is the same in every run."""
    op: Any = ops.retry_with_backoff(first_s=1.0, factor=1.0, max_s=9.0, jitter=0.25, seed=7)
    pauses_s = [op.pause_s(n) for n in range(1, 50)]
    assert all(0.75 <= each <= 1.0 for each in pauses_s)
    assert len(set(pauses_s)) > 40
    again: Any = ops.retry_with_backoff(first_s=1.0, factor=1.0, max_s=9.0, jitter=0.25, seed=7)
    assert [again.pause_s(n) for n in range(1, 50)] == pauses_s


def test_a_pause_is_bounded_after_any_number_of_failures() -> None:
    """The power of a great number does not overflow."""
    op: Any = ops.retry_with_backoff(first_s=1.0, max_s=60.0)
    assert op.pause_s(100_000) == 60.0


@pytest.mark.parametrize("how", [{"first_s": -1}, {"factor": 0.5}, {"max_s": -1}, {"jitter": 2.0}, {"jitter": -0.1}])
def test_a_backoff_that_makes_no_sense_is_refused(how: dict[str, float]) -> None:
    """Pauses grow from nothing or more, and jitter is a fraction."""
    with pytest.raises(ValueError, match=r"pauses grow|jitter|0 or more"):
        ops.retry_with_backoff(**{"first_s": 1.0, "max_s": 60.0, **how})
