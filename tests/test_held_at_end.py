"""What operators still hold when all events have been taken arrives, as in RxPY on a clock that goes on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import reactivex as theirs
from lanes import crossed, every_of
from reactivex import compose
from reactivex import operators as their_ops
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx as ours
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from hosting.engine import endless
from reliable_rx import operators as our_ops
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import apply
from reliable_rx.runtime.instance import Instance

Step = Callable[[Any, Any], Any]
EVENTS = (1.0, 2.0, 3.5)
HOLDING: dict[str, Step] = {
    "delay": lambda rx, ops: ops.delay(2.6),
    "delay by a sequence": lambda rx, ops: ops.delay_with_mapper(lambda x: rx.timer(0.7)),
    "flat_map": lambda rx, ops: ops.flat_map(lambda x: rx.timer(2.25).pipe(ops.map(lambda _: x))),
    "concat_map": lambda rx, ops: ops.concat_map(lambda x: rx.timer(1.75).pipe(ops.map(lambda _: x))),
    "switch": lambda rx, ops: ops.switch_map(lambda x: rx.timer(0.8).pipe(ops.map(lambda _: x))),
    "a few ticks": lambda rx, ops: ops.flat_map(lambda x: rx.interval(0.6).pipe(ops.take(3), ops.map(lambda _: x))),
    "debounce": lambda rx, ops: ops.debounce(0.41),
    "buffers": lambda rx, ops: ops.buffer_with_time(1.3),
    "per key": lambda rx, ops: compose(
        ops.group_by(lambda x: str(x)[:2]), ops.flat_map(lambda group: group.pipe(ops.delay(1.1), ops.count()))
    ),
    "boundaries": lambda rx, ops: ops.buffer(rx.interval(0.85)),
    "latest": lambda rx, ops: ops.with_latest_from(rx.interval(0.35)),
    "sample": lambda rx, ops: ops.sample(0.45),
}
CHAINS = [*product(HOLDING, repeat=2), ("delay", "concat_map", "delay"), ("concat_map",) * 3]


def by_rxpy(chain: tuple[str, ...], begins: float) -> tuple[list[Any], bool]:
    """Return what RxPY emits on a clock that goes on until nothing is left, and whether it completes."""
    scheduler, subject, seen, ended = VirtualTimeScheduler(), Subject[Any](), list[Any](), list[bool]()
    query = subject.pipe(*(HOLDING[each](theirs, their_ops) for each in chain))

    def subscribe(*_: Any) -> None:
        query.subscribe(seen.append, on_completed=lambda: ended.append(True), scheduler=scheduler)

    scheduler.schedule_absolute(begins, subscribe)
    for each in EVENTS:
        scheduler.schedule_absolute(each, lambda *_, each=each: subject.on_next(each))
    scheduler.schedule_absolute(EVENTS[-1], lambda *_: subject.on_completed())
    scheduler.start()
    return seen, bool(ended)


def hosted(chain: tuple[str, ...], *, own_clock: bool, kill: bool) -> tuple[list[Any], bool]:
    query: Any = ours.source("n").pipe(*(HOLDING[each](ours, our_ops) for each in chain))
    clock = event_time(lambda x: x) if own_clock else None
    store = MemoryStore()
    for life in range(2 if kill else 1):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(EVENTS, timestamp=None if own_clock else (lambda x: x)))
        evaluator.create("q", query, clock=clock)
        evaluator.start()
        for _ in range(3 if kill and not life else 1_000):
            evaluator.step()
        seen = [value for part in evaluator.stream("q").read(0, 1_000) for value in part.values]
        status = evaluator.query("q").status
        if not kill or life:
            evaluator.close()
        store = store.reopen()
    return seen, status == "completed"


@pytest.mark.parametrize("chain, own_clock", every_of(51, product(CHAINS, [True, False]), commits=17), ids=str)
def test_all_that_is_held_arrives(chain: tuple[str, ...], own_clock: bool) -> None:
    """Two and more operators that hold events back, one behind the other, with and without a kill."""
    expected = by_rxpy(chain, EVENTS[0] if own_clock else 0.0)
    assert expected[1]
    assert hosted(chain, own_clock=own_clock, kill=False) == expected
    assert hosted(chain, own_clock=own_clock, kill=True) == expected


ENDLESS: dict[str, Callable[[Any], Any]] = {
    "ticks": lambda n: n.merge(ours.interval(1.0)),
    "ticks that are delayed": lambda n: n.merge(ours.interval(1.0)).delay(2.5).flat_map(lambda x: ours.timer(1.0)),
    "ticks for each": lambda n: n.flat_map(lambda x: ours.interval(0.5)).delay(0.7),
    "again and again": lambda n: n.flat_map(lambda x: ours.timer(0.5).repeat()).delay(0.7),
    "for a condition": lambda n: n.flat_map(lambda x: ours.timer(0.5).do_while(lambda _: True)),
    "a take that nothing reaches": lambda n: n.merge(ours.never().take(1)).buffer_with_time(0.5),
    "a take that is never reached": lambda n: n.merge(ours.interval(1.0).filter(lambda x: False).take(1)),
    "never": lambda n: n.merge(ours.never()).buffer_with_time(0.5),
    "expands": lambda n: n.expand(lambda x: ours.timer(0.5)),
    "tries again": lambda n: n.flat_map(lambda x: ours.timer(0.5).map(lambda _: 1 // 0).retry()),
    "generated": lambda n: n.merge(ours.generate_with_relative_time(0, lambda x: True, lambda x: x + 1, lambda x: 0.5)),
    "outlived": lambda n: n.skip_until(ours.empty()).buffer_with_time(1.0),
    "outlived within": lambda n: n.group_by(lambda x: 0).flat_map(
        lambda g: g.skip_until(n.filter(lambda x: False)).window_with_time(1.0).flat_map(lambda w: w.count())
    ),
}


@pytest.mark.parametrize("name, own_clock", crossed(ENDLESS, [True, False], nth=2))
def test_what_goes_on_for_ever_ends_the_run(name: str, own_clock: bool) -> None:
    """A query that ticks for ever, and one that reads it, fire what is scheduled once; beside them all arrives."""
    n: Any = ours.source("n")
    clock = event_time(lambda x: x) if own_clock else None
    with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(EVENTS, timestamp=None if own_clock else (lambda x: x)))
        evaluator.create("endless", ENDLESS[name](n), clock=clock)
        seconds = 0.01 if own_clock else 5.0  # on an own clock its reader is on the computer's
        evaluator.create("reads it", ours.source("endless").delay(seconds).delay(1.2 * seconds))
        evaluator.create("beside", n.delay(2.6).delay(1.0), clock=clock)
        evaluator.run()
        assert evaluator.query("beside").status == "completed"
        assert evaluator.query("beside").emitted == len(EVENTS) + 1
        assert evaluator.query("endless").status == "running"
        assert evaluator.query("endless").emitted < 100


Made = Callable[[Any, Any], Any]


def paired(shared: Any, other: Callable[[Any], Any]) -> Any:
    """Pair a sequence with what *other* makes of the same one."""
    return shared.pipe(our_ops.zip(other(shared)) if isinstance(shared, ours.Query) else their_ops.zip(other(shared)))


ENDING: dict[str, Made] = {
    "skip": lambda rx, ops: rx.interval(1.1).pipe(ops.skip(5), ops.take(2)),
    "share": lambda rx, ops: rx.interval(1.1).pipe(ops.share(), ops.take(6)),
    "lists": lambda rx, ops: rx.interval(1.1).pipe(ops.buffer_with_count(2), ops.take(4)),
    "windows": lambda rx, ops: rx.interval(1.1).pipe(
        ops.window_with_count(2), ops.take(4), ops.flat_map(lambda window: window.pipe(ops.to_list()))
    ),
    "pairs": lambda rx, ops: rx.interval(1.1).pipe(ops.pairwise(), ops.delay(2.0), ops.take(4)),
    "zip": lambda rx, ops: rx.interval(1.1).pipe(ops.zip(rx.of(1, 2, 3, 4, 5, 6))),
    "zip of two that tick": lambda rx, ops: rx.zip(rx.interval(1.1), rx.interval(1.3).pipe(ops.take(5))),
    "zip with a part of it": lambda rx, ops: paired(rx.interval(1.1).pipe(ops.share()), lambda s: s.pipe(ops.take(4))),
    "zip with a list": lambda rx, ops: rx.interval(1.1).pipe(ops.zip_with_iterable([1, 2, 3, 4, 5, 6])),
    "sequence_equal": lambda rx, ops: rx.interval(1.1).pipe(ops.sequence_equal(rx.of(0, 1, 2, 3, 4))),
    "within": lambda rx, ops: rx.timer(0.3).pipe(ops.flat_map(lambda _: rx.interval(1.1)), ops.take(5)),
    "merged": lambda rx, ops: rx.interval(1.1).pipe(ops.merge(rx.of(9)), ops.start_with(8), ops.take(7)),
    "noted": lambda rx, ops: rx.interval(1.1).pipe(ops.do_action(lambda _: None), ops.skip_last(2), ops.take(5)),
}
"""What ticks, and ends by what stands behind it."""
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "a condition": lambda n: n.merge(ours.interval(1.1).take_while(lambda x: x < 9)),
    "a filter": lambda n: n.merge(ours.interval(1.1).filter(lambda x: x > 7).take(1)),
    "generated, and ends": lambda n: n.merge(
        ours.generate_with_relative_time(0, lambda x: x < 6, lambda x: x + 1, lambda x: 1.3)
    ),
    "zip with itself": lambda n: n.merge(paired(ours.interval(1.1).share(), lambda s: s.skip(1))),
    "zip of windows": lambda n: n.merge(
        ours.interval(1.1).window_with_count(9**9).flat_map(lambda w: w.zip(w.skip(1)))
    ),
    "zip of groups": lambda n: n.merge(
        ours.interval(1.1).group_by(lambda x: x % 2).flat_map(lambda g: g.zip(g.skip(1)))
    ),
    "expands, and ends": lambda n: n.expand(lambda x: ours.timer(0.5).map(lambda _: x - 1) if x > -5 else ours.empty()),
}
"""What ends, and nobody can know that it does."""


@pytest.mark.parametrize("name, own_clock", crossed(ENDING, [True, False], nth=2))
def test_what_ends_by_what_stands_behind_it_ends(name: str, own_clock: bool) -> None:
    """As in RxPY: its last values come, and the query completes."""
    scheduler, expected, ended = VirtualTimeScheduler(), list[Any](), list[bool]()
    made = ENDING[name](theirs, their_ops)
    made.subscribe(expected.append, on_completed=lambda: ended.append(True), scheduler=scheduler)
    scheduler.start()
    assert ended
    n: Any = ours.source("n")
    query = n.ignore_elements().merge(ENDING[name](ours, our_ops))
    with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(EVENTS, timestamp=None if own_clock else (lambda x: x)))
        evaluator.create("q", query, clock=event_time(lambda x: x) if own_clock else None)
        evaluator.run()
        assert evaluator.query("q").status == "completed"
        assert [value for part in evaluator.stream("q").read(0, 100) for value in part.values] == expected
        assert not evaluator.statistics().incidents


@pytest.mark.parametrize("name, own_clock", crossed([*UNKNOWN, *ENDLESS], [True, False], nth=2))
def test_a_query_whose_time_stands_still_is_told(name: str, own_clock: bool) -> None:
    """It may lack its last values, and a warning says so, and what to do; an edit that bounds it resolves that."""
    n: Any = ours.source("n")
    with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(EVENTS, timestamp=None if own_clock else (lambda x: x)))
        evaluator.create("q", {**ENDLESS, **UNKNOWN}[name](n), clock=event_time(lambda x: x) if own_clock else None)
        evaluator.create("beside", n.delay(2.0), clock=event_time(lambda x: x) if own_clock else None)
        evaluator.run()
        found = [each for each in evaluator.statistics().incidents if each.kind == "stands still"]
        assert [(each.subject, each.level) for each in found] == [("q", "warning")]
        evaluator.create("q", n.take(1), clock=event_time(lambda x: x) if own_clock else None)
        evaluator.run()
        assert not [each for each in evaluator.statistics().incidents if each.kind == "stands still"]


@frozen
class Ticks(Stage, name="ticks of a test's own"):
    """An operator of somebody's own that ticks for ever and does not say so."""

    def on_start(self, cx: Context) -> None:
        cx.schedule(cx.now + 1.0, "tick")

    def on_timer(self, cx: Context, tag: object) -> None:
        cx.schedule(cx.now + 1.0, "tick")


@pytest.mark.parametrize("own_clock", [True, False], ids=["of the query", "of the evaluator"])
def test_who_does_not_say_that_it_goes_on_for_ever_fails(own_clock: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, and seen; so is nothing that ends, however long it takes."""
    for module in ("hosting.engine.endless", "hosting.evaluator.wakeups"):
        monkeypatch.setattr(f"{module}.MOVES_MAX", 5_000)
    n: Any = ours.source("n")
    clock = event_time(lambda x: x) if own_clock else None
    with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(EVENTS, timestamp=None if own_clock else (lambda x: x)))
        evaluator.create("ticks", apply(Ticks(), n), clock=clock)
        evaluator.create("long", n.flat_map(range(500)).concat_map(lambda x: ours.timer(1.0)), clock=clock)
        evaluator.run()
        assert evaluator.query("ticks").status == "failed"
        assert "goes on for ever has to say so" in evaluator.query("ticks").error
        assert evaluator.query("long").status == "completed"


@pytest.mark.parametrize("own_clock", [True, False], ids=["of the query", "of the evaluator"])
def test_what_is_open_beside_is_not_looked_at_each_time(own_clock: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a long queue beside many groups takes a look at all rows now and then only."""
    looks, real = list[Instance](), endless.is_endless

    def looked_at(instance: Instance) -> bool:
        looks.append(instance)
        return real(instance)

    monkeypatch.setattr(endless, "is_endless", looked_at)
    n: Any = ours.source("n")
    query = n.flat_map(range(500)).concat_map(lambda x: ours.timer(1.0)).group_by(id).flat_map(lambda g: g.count())
    clock = event_time(lambda x: x) if own_clock else None
    with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(EVENTS, timestamp=None if own_clock else (lambda x: x)))
        evaluator.create("q", query, clock=clock)
        evaluator.run()
        assert evaluator.query("q").status == "completed"
    assert len(looks) < 5_000
