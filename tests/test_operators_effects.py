"""Effects: when they happen, when they are repeated, and what counts as an end."""

from __future__ import annotations

from typing import Any

import pytest
import reactivex
from reactivex.subject import Subject

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Dispose, Events
from reliable_rx import operators as ops
from reliable_rx.query.query import Query

seen: list[Any] = []
"""Where the effects of this module go: a plan that is saved and loaded again still finds it, by the module's name."""


@pytest.fixture(autouse=True)
def forgotten() -> None:
    seen.clear()


def note(value: Any = "over") -> None:
    seen.append(value)


def evaluator(store: MemoryStore, query: Query[Any], values: list[Any]) -> QueryEvaluator:
    hosted = QueryEvaluator(store, checkpoint_interval_s=1000.0, background=False)
    hosted.source("n", ListSource(values, follow=True))
    hosted.create("q", query)
    return hosted


def run(hosted: QueryEvaluator) -> None:
    while hosted.step():
        pass


def engine(query: Query[Any]) -> QueryEngine:
    made = QueryEngine()
    made.declare("n", ["0"])
    made.take(made.creation("q", query, time=0.0))
    return made


def test_an_effect_happens_once_per_event_that_the_query_saw() -> None:
    """Behind `take`, nothing is done for the rest of a batch; order is that of the events, not of the operators."""
    query = rx.source("n").do_action(note).map(lambda n: -n).do_action(note).take(2)
    engine(query).take(Events("n", "0", 0, [1, 2, 3, 4], 1.0))
    assert seen == [1, -1, 2, -2]


@pytest.mark.parametrize(("effects", "again"), [("always", [1, 2]), ("live", [])])
def test_a_replay_repeats_effects_unless_they_are_live(effects: Any, again: list[int]) -> None:
    """After a crash the journalled turns are taken again: ``live`` leaves their effects out, and then goes on."""
    store, values = MemoryStore(), [1, 2]
    query = rx.source("n").do_action(note, effects=effects)
    run(evaluator(store, query, values))
    assert seen == [1, 2]
    seen.clear()
    recovered = evaluator(store.reopen(), query, [1, 2, 3])
    run(recovered)
    assert seen == [*again, 3]


@pytest.mark.parametrize(("effects", "again"), [("always", 1), ("live", 0)])
def test_a_replay_repeats_the_effect_of_an_end_unless_it_is_live(effects: Any, again: int) -> None:
    """The same is true of what is done at the end, be it an error or none."""
    for query in (
        rx.source("n").take(1).do_action(None, None, note, effects=effects),
        rx.source("n").map(lambda n: 1 // 0).do_action(None, note, effects=effects),
    ):
        store = MemoryStore()
        run(evaluator(store, query, [1]))
        assert len(seen) == 1
        run(evaluator(store.reopen(), query, [1, 2]))
        assert len(seen) == 1 + again
        seen.clear()


def test_a_host_that_unloads_recovers_or_edits_is_not_the_end() -> None:
    """`finally_action` runs when a query ends, not when its evaluator closes, comes back or has it edited."""
    store = MemoryStore()
    query = rx.source("n").finally_action(note).map(lambda n: n)
    with evaluator(store, query, [1]) as first:
        run(first)
    assert seen == []
    with evaluator(store.reopen(), query.filter(lambda n: n), [1, 2]) as second:
        run(second)
        assert second.statistics().reports
        assert seen == []
        second.dispose("q")
    assert seen == ["over"]


@pytest.mark.parametrize("ended", [None, ValueError("no")])
def test_the_end_of_the_sequence_is_the_end(ended: Exception | None) -> None:
    """Hosted, `finally_action` runs once when the sequence completes or fails, also behind groups."""
    query = rx.source("n").group_by(lambda n: n).flat_map(lambda g: g.finally_action(note))
    made = engine(query)
    made.take(Events("n", "0", 0, [1, 2, 1], 1.0))
    assert seen == []
    made.take(Events("n", "0", 3, [], 2.0, ended=True, error=ended))
    assert seen == ["over", "over"]
    made.take(Dispose("q", 3.0))
    assert seen == ["over", "over"]


def test_an_effect_that_fails_at_the_end_is_a_warning_when_hosted() -> None:
    """The query has ended and cannot fail any more; its engine goes on."""
    made = engine(rx.source("n").finally_action(lambda: [][0]).take(1))
    with pytest.warns(RuntimeWarning, match=r"/finally_action.*IndexError"):
        made.take(Events("n", "0", 0, [1, 2], 1.0))
    assert made.standing["q"].status == "completed"


def test_unhosted_the_end_is_told_first() -> None:
    """As in RxPY, the observer hears of the end before `finally_action` runs, and an error of it comes out."""
    source: Subject[int] = Subject()
    told: list[str] = []
    source.pipe(ops.finally_action(lambda: told.append("over"))).subscribe(on_completed=lambda: told.append("end"))
    source.on_completed()
    assert told == ["end", "over"]
    with pytest.raises(IndexError):
        reactivex.of(1).pipe(ops.finally_action(lambda: [][0])).subscribe()


def test_unhosted_an_unsubscription_is_an_end() -> None:
    """`finally_action` runs once, however often the subscription is disposed of."""
    subscription = reactivex.never().pipe(ops.finally_action(note)).subscribe()
    subscription.dispose()
    subscription.dispose()
    assert seen == ["over"]


def test_effects_are_always_or_live() -> None:
    """Another word is refused where it is written."""
    with pytest.raises(ValueError, match="effects must be"):
        ops.do_action(note, effects="never")  # type: ignore[arg-type]


def test_notifications_survive_a_stream_and_a_crash() -> None:
    """The end as an element has its place and id in a stream; whoever reads it gets an equal notification."""
    store = MemoryStore()
    query = rx.source("n").map(lambda n: 6 // n).materialize().pairwise()
    with evaluator(store, query, [1, 2, 0]) as first:
        run(first)
    with evaluator(store.reopen(), query, [1, 2, 0]) as second:
        run(second)
        values = [value for part in second.stream("q").read(0, 10) for value in part.values]
    kinds = [[each.kind for each in pair] for pair in values]
    assert kinds == [["N", "N"], ["N", "E"]]
    assert values[0][1] == values[1][0]
    assert str(values[1][1].exception) == "integer division or modulo by zero"


RELEASING: dict[str, Any] = {
    "finally_action": lambda inner: inner.pipe(ops.finally_action(note)),
    "using": lambda inner: rx.using(Noting, lambda resource: inner),
}


class Noting:
    """A resource of `using` that says when it is let go."""

    def dispose(self) -> None:
        note()


@pytest.mark.parametrize("wrap", RELEASING)
def test_what_a_switch_leaves_behind_is_let_go(wrap: str) -> None:
    """An inner sequence that has nothing but a timer is released when another takes its place, and at a disposal."""
    made = engine(rx.source("n").pipe(ops.switch_map(lambda n: RELEASING[wrap](rx.timer(10.0)))))
    for number in range(3):
        made.take(Events("n", "0", number, [number], 1.0 + number))
        assert seen == ["over"] * number
    made.take(Dispose("q", 5.0))
    assert seen == ["over"] * 3
