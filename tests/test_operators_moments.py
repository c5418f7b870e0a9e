"""Inner sequences begin behind all that one event has brought: hosted as under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import reactivex
from lanes import every_of
from reactivex import operators as plain
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler, VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import event_time, operators
from reliable_rx.testing import HOSTED, RUNNERS, parse_marbles, run_plain
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.oracle import compare

Pipes = Callable[[Any, Any], list[Any]]
"""Given operators and creation functions, of RxPY or ours, it returns operators."""

BRINGS: dict[str, Pipes] = {
    "each alone": lambda ops, rx: [],
    "take_last": lambda ops, rx: [ops.take_last(2)],
    "skip_last": lambda ops, rx: [ops.skip_last(1)],
    "start_with": lambda ops, rx: [ops.start_with(0, 5)],
    "flat_map": lambda ops, rx: [ops.flat_map(lambda x: [x, x + 5])],
    "concat_map": lambda ops, rx: [ops.concat_map(lambda x: rx.of(x, x + 5))],
    "buffer": lambda ops, rx: [ops.buffer_with_count(2), ops.flat_map(lambda xs: xs)],
    "group": lambda ops, rx: [ops.group_by(lambda x: 0), ops.flat_map(lambda g: g.pipe(ops.take_last(2)))],
    "window": lambda ops, rx: [ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.take_last(2)))],
    "publish": lambda ops, rx: [ops.publish(lambda shared: shared.pipe(ops.take_last(2)))],
    "merge": lambda ops, rx: [ops.merge(rx.of(7, 8))],
    "concat": lambda ops, rx: [ops.take(1), ops.concat(rx.of(7, 8))],
    "combine_latest": lambda ops, rx: [ops.combine_latest(rx.of(7, 8)), ops.map(sum)],
    "delay": lambda ops, rx: [ops.take_last(2), ops.delay(1.0)],
}
"""What makes one event, or the end, bring several elements."""
BEGINS: dict[str, Pipes] = {
    "switch_map": lambda ops, rx: [ops.switch_map(lambda x: rx.of(x, "b"))],
    "switch_map, of one": lambda ops, rx: [ops.switch_map(rx.just)],
    "switch_map, of several": lambda ops, rx: [ops.switch_map(lambda x: rx.concat(rx.of(x), rx.of("b")))],
    "switch_map, of none": lambda ops, rx: [ops.switch_map(lambda x: rx.empty())],
    "switch_map, of a timer": lambda ops, rx: [ops.switch_map(lambda x: rx.timer(1.0).pipe(ops.map(lambda _: x)))],
    "switch_map_indexed": lambda ops, rx: [ops.switch_map_indexed(lambda x, i: rx.of(x, i))],
    "switch_latest": lambda ops, rx: [ops.map(lambda x: rx.from_iterable([x, "b"])), ops.switch_latest()],
    "flat_map_latest": lambda ops, rx: [ops.flat_map_latest(lambda x: rx.of(x, "b"))],
    "exclusive": lambda ops, rx: [ops.map(lambda x: rx.of(x, "b")), ops.exclusive()],
    "concat_map": lambda ops, rx: [ops.concat_map(lambda x: rx.of(x, "b"))],
    "flat_map": lambda ops, rx: [ops.flat_map(lambda x: rx.of(x, "b"))],
    "merge of one": lambda ops, rx: [ops.map(lambda x: rx.of(x, "b")), ops.merge(max_concurrent=1)],
    "expand": lambda ops, rx: [ops.expand(lambda x: rx.of("x") if x != "x" else rx.empty())],
    "throttle_with_mapper": lambda ops, rx: [ops.throttle_with_mapper(lambda x: rx.empty())],
    "delay_with_mapper": lambda ops, rx: [ops.delay_with_mapper(lambda x: rx.of(1))],
    "timeout_with_mapper": lambda ops, rx: [ops.timeout_with_mapper(None, lambda x: rx.of(1), rx.of("over"))],
    "group_by_until": lambda ops, rx: [
        ops.group_by_until(lambda x: 0, None, lambda g: rx.of(1)),
        ops.flat_map(lambda g: g.pipe(ops.to_list())),
    ],
    "take_until": lambda ops, rx: [ops.take_until(rx.of(1))],
    "catch": lambda ops, rx: [ops.map(lambda x: 1 // (x - 2)), ops.catch(rx.of("b"))],
    "catch of a function": lambda ops, rx: [ops.map(lambda x: 1 // (x - 2)), ops.catch(lambda e, s: rx.of("b"))],
    "on_error_resume_next": lambda ops, rx: [
        ops.map(lambda x: 1 // (x - 2)),
        ops.on_error_resume_next(rx.of("b")),
    ],
    "repeat": lambda ops, rx: [ops.take(2), ops.repeat(2)],
    "retry": lambda ops, rx: [ops.take(2), ops.map(lambda x: 1 // (x - 1)), ops.retry(2)],
}
"""What begins a sequence for an element, or anew."""
INPUTS = ["-1-2-3-|", "-2-1-|", "-1-2-#", "-1-2-"]


def build(ops: Any, rx: Any, *pipes: Pipes) -> list[Any]:
    return [each for pipe in pipes for each in pipe(ops, rx)]


@pytest.mark.parametrize("brings, begins", every_of(31, product(BRINGS, BEGINS), commits=39))
def test_what_one_event_brings_is_one_moment(brings: str, begins: str) -> None:
    """Elements of one event begin what they begin in the order of RxPY under a virtual clock, on every runner."""
    pipes = BRINGS[brings], BEGINS[begins]
    for text in INPUTS:
        streams = [parse_marbles(text)]
        expected = run_plain(lambda ops, rx, s: s.pipe(*build(ops, rx, *pipes)), streams, 20.0)
        for name, runner in (RUNNERS | HOSTED).items():
            compare(name, streams, expected, runner(lambda ops, rx, s: s.pipe(*build(ops, rx, *pipes)), streams, 20.0))


@pytest.mark.parametrize("brings, begins", every_of(11, product(BRINGS, BEGINS)))
def test_a_list_from_a_source_is_its_events(brings: str, begins: str) -> None:
    """Events of a source that come in one turn are as many moments: they give what they give in a turn each."""
    pipes = BRINGS[brings], BEGINS[begins]
    streams = [parse_marbles("-(123|)")]
    made = lambda ops, rx, s: s.pipe(*build(ops, rx, *pipes))  # noqa: E731
    singly = HostedRun(made, streams, 20.0, crash=False).play()
    compare("one turn", streams, singly, HostedRun(made, streams, 20.0, crash=False, batches=True).play())


def emitted(query: Any, scheduler: Any = None) -> list[Any]:
    found: list[Any] = []
    query.subscribe(found.append, scheduler=scheduler)
    return found


def pushed(operator: Any, *values: Any) -> list[Any]:
    subject: Subject[Any] = Subject()
    found: list[Any] = []
    subject.pipe(*operator).subscribe(found.append)
    for value in values:
        subject.on_next(value)
    subject.on_completed()
    return found


INNER = ["switch_map", "switch_map, of one", "switch_map, of several", "switch_latest", "flat_map_latest"]


@pytest.mark.parametrize("begins", INNER)
def test_the_rule_is_that_of_rx(begins: str) -> None:
    """Un-hosted as in RxPY: what a scheduler emits is one moment, and what is pushed from outside are several."""
    for ops, rx in ((plain, reactivex), (operators, reliable_rx)):
        pipes = build(ops, rx, BEGINS[begins])
        last_only = emitted(rx.of(2).pipe(*pipes))
        assert emitted(rx.of(1, 2).pipe(*pipes)) == last_only
        for scheduler in (CurrentThreadScheduler.singleton(), ImmediateScheduler.singleton()):
            assert emitted(rx.from_iterable([1, 2], scheduler=scheduler).pipe(*pipes)) == last_only
        clock = VirtualTimeScheduler(0.0)
        found = emitted(rx.from_iterable([1, 2]).pipe(*pipes), clock)
        clock.advance_to(1.0)
        assert found == last_only
        assert pushed(pipes, 1, 2) == emitted(rx.of(1).pipe(*pipes)) + last_only
        behind = [ops.take_last(2), *pipes]  # of a push from outside, when nothing is at work on this thread
        assert pushed(behind, 1, 2) == emitted(rx.of(1).pipe(*pipes)) + last_only


def test_events_of_a_source_and_of_a_stream_are_moments() -> None:
    """Hosted, each event of a source, of a pushed list or of another query's stream is a moment of its own."""
    ops, rx = operators, reliable_rx
    switched = ops.switch_map(lambda x: rx.of(x, "b"))
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("source", rx.source("n").pipe(switched))
        evaluator.create("on event time", rx.source("n").pipe(switched), clock=event_time(lambda x: 5.0))
        evaluator.create("within", rx.source("n").pipe(ops.take_last(2), switched))
        evaluator.create("half", rx.source("n").pipe(ops.take_last(2)))
        evaluator.create("behind", rx.source("half").pipe(switched))
        evaluator.create("another source", rx.source("n").pipe(ops.switch_map(lambda x: rx.source("half"))))
        pushed_into = evaluator.push("p")
        evaluator.create("pushed", rx.source("p").pipe(switched))
        pushed_into.push([1, 2])
        pushed_into.on_completed()
        evaluator.run()
        every_event, last_only = [1, "b", 2, "b"], [2, "b"]
        given = {
            name: [value for out in evaluator.stream(name).read(0, 10) for value in out.values]
            for name in ("source", "on event time", "behind", "pushed", "within", "another source")
        }
    assert given == {
        "source": every_event,
        "on event time": every_event,
        "behind": every_event,
        "pushed": every_event,
        "within": last_only,
        "another source": [1, 2],
    }


BUFFERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "buffer": lambda ops, rx, n, m: m.pipe(ops.buffer(n)),
    "buffer_when": lambda ops, rx, n, m: m.pipe(ops.buffer_when(lambda: n)),
    "buffer_toggle": lambda ops, rx, n, m: m.pipe(ops.buffer_toggle(n, lambda _: n.pipe(ops.skip(1)))),
    "buffer_with_count": lambda ops, rx, n, m: n.pipe(ops.buffer_with_count(2)),
    "buffers that overlap": lambda ops, rx, n, m: n.pipe(ops.buffer_with_count(2, 1)),
}


@pytest.mark.parametrize("buffer", BUFFERS)
def test_a_buffer_is_no_moment(buffer: str) -> None:
    """What its boundary brings elsewhere comes before it or behind it as on a live subject of plain `reactivex`."""

    def build(ops: Any, rx: Any, n: Any, m: Any) -> Any:
        sizes = BUFFERS[buffer](ops, rx, n, m).pipe(ops.map(lambda values: -len(values)))
        return n.pipe(ops.merge(sizes), ops.flat_map(lambda x: rx.of(x)))

    n, m, live = Subject[int](), Subject[int](), list[int]()
    build(plain, reactivex, n, m).subscribe(live.append)
    for number in (1, 2, 3):
        n.on_next(number)
    streams = [parse_marbles("-1-2-3-"), parse_marbles("--------")]
    for name, run in {"plain": run_plain, **RUNNERS}.items():
        assert [each.value for each in run(build, streams, 9.0)] == live, name
