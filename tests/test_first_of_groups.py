"""What opens a group or a window reaches whoever begins to read it in that very event, with every operator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
import reactivex
from lanes import every_of, left_to_commits
from reactivex import operators as plain
from reactivex.scheduler import TimeoutScheduler, VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events
from reliable_rx import operators as ops
from reliable_rx.testing import HOSTED, RUNNERS, hot_sources, parse_marbles, run_plain
from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed
from reliable_rx.testing.oracle import compare
from reliable_rx.testing.recipes import NESTED, STEPS, Recipe
from reliable_rx.testing.steps import TIME, Tools, third
from reliable_rx.testing.steps_inner import sliding, tumbling

WHO = RUNNERS | HOSTED
INPUTS = ["-0-1-2-3-4-5-|", "-4-7-1-", "-4-1-#"]
UNTIL_S = 60.0
Groups = Callable[[Tools, Any], Any]
ON: dict[str, Groups] = {
    "group_by": lambda t, q: q.pipe(t.ops.group_by(third)),
    "group_by_until": lambda t, q: q.pipe(t.ops.group_by_until(third, None, lambda g: t.rx.timer(2.484375))),
    "group_by_until itself": lambda t, q: q.pipe(t.ops.group_by_until(third, None, lambda g: g.pipe(t.ops.skip(1)))),
    "of one": lambda t, q: q.pipe(t.ops.group_by_until(third, None, lambda g: g)),
    "tumbling_window": lambda t, q: tumbling(t, q),
    "sliding_window": lambda t, q: sliding(t, q),
    "window_with_inactivity": lambda t, q: (
        q.pipe(t.ops.group_by_until(lambda x: 0, None, lambda g: g.pipe(t.ops.debounce(1.859375))))
        if t.plain
        else q.pipe(t.ops.window_with_inactivity(1.859375))
    ),
    "window": lambda t, q: q.pipe(t.ops.window(q.pipe(t.ops.filter(lambda x: x == 1)))),
    "window_with_count": lambda t, q: q.pipe(t.ops.window_with_count(2)),
    "several of one event": lambda t, q: q.pipe(
        t.ops.flat_map(lambda x: [x, x + 1, x + 2]), t.ops.window_with_count(2)
    ),
    "groups of one event": lambda t, q: q.pipe(t.ops.flat_map(lambda x: [x, x + 1, x + 3]), t.ops.group_by(third)),
    "window_toggle": lambda t, q: q.pipe(t.ops.window_toggle(q, lambda x: t.rx.timer(2.359375))),
    "window_when": lambda t, q: q.pipe(t.ops.window_when(lambda: q.pipe(t.ops.merge(t.rx.never()), t.ops.skip(1)))),
    "window_with_time": lambda t, q: q.pipe(t.ops.window_with_time(2.328125)),
    "window_with_time_or_count": lambda t, q: q.pipe(t.ops.window_with_time_or_count(2.265625, 2)),
    "group_join": lambda t, q: q.pipe(
        t.ops.group_join(q, lambda x: t.rx.timer(1.078125), lambda x: t.rx.timer(1.140625)),
        t.ops.map(lambda pair: pair[1]),
    ),
    "shared": lambda t, q: q.pipe(t.ops.group_by(third), t.ops.share()),
    "shared twice": lambda t, q: q.pipe(
        t.ops.group_by(third), t.ops.share(), t.ops.filter(lambda g: g.key != 1), t.ops.publish(), t.ops.ref_count()
    ),
    "shared windows": lambda t, q: q.pipe(t.ops.window_with_count(2), t.ops.share()),
    "replayed": lambda t, q: q.pipe(t.ops.group_by(third), t.ops.replay(buffer_size=2), t.ops.ref_count()),
    "shared groups until": lambda t, q: q.pipe(
        t.ops.group_by_until(third, None, lambda g: t.rx.timer(2.484375)), t.ops.share()
    ),
    "by a mapper": lambda t, q: q.pipe(t.ops.group_by(third), t.ops.publish(lambda s: s.pipe(t.ops.skip(1)))),
    "passed on": lambda t, q: q.pipe(
        t.ops.group_by(third), t.ops.skip(1), t.ops.do_action(lambda g: None), t.ops.take(2)
    ),
    "delayed": lambda t, q: q.pipe(t.ops.group_by(third), t.ops.delay(1.234375)),
    "merged": lambda t, q: q.pipe(t.ops.group_by(third), t.ops.merge(q.pipe(t.ops.window_with_count(3)))),
}
"""What owns inner sequences, and by which way they come."""
BESIDE_RXPY = ("tumbling_window", "sliding_window", "window_with_inactivity")
"""Those that RxPY does not have."""
INNER = Recipe(1, ())


def cooked(step: str, on: str, how: str = "flat_map") -> Callable[..., Any]:
    """Return a query with the operator of *step* in each group, which are read by the operator *how*."""

    def build(ops: Any, rx: Any, *sources: Any) -> Any:
        t = Tools(ops, rx, sources)
        inside = [INNER] if step in NESTED else []
        return ON[on](t, t.other(0)).pipe(getattr(ops, how)(lambda g: STEPS[step](t, g, *inside)))

    return build


EACH_A_MOMENT = {(step, "several of one event") for step in ("retry", "switch_map_to")}
"""What tells whether elements that one event brings to a window are one moment, or each is one, as in the reference."""
COMPARED = [(step, on) for step in STEPS for on in ON if (step, on) not in EACH_A_MOMENT]


@pytest.mark.parametrize("step, on", every_of(211, COMPARED, commits=29))
def test_every_operator_in_a_group(step: str, on: str) -> None:
    """Each operator that reads a group gives what it does where it has missed nothing, on every runner."""
    build = cooked(step, on)
    for text in INPUTS:
        streams = [parse_marbles(text), parse_marbles("--5---6-|")]
        expected = run_plain(build, streams, UNTIL_S)
        for name, runner in WHO.items():
            actual = runner(build, streams, UNTIL_S)
            compare(f"{name}: {step} in {on}", streams, in_order(on, expected), in_order(on, actual))


def in_order(on: str, timed: list[Timed]) -> list[Timed]:
    """Sort what comes at one time where the reference opens and fills windows in turn, and we open all first."""
    return sorted(timed, key=lambda each: (each.time_s, str(each))) if on == "sliding_window" else timed


IN_RXPY = [(step, on) for step in STEPS for on in ON if on not in BESIDE_RXPY and step != "buffer_with_inactivity"]


def in_plain_time(build: Callable[..., Any], rx: Any, ops: Any, streams: Any) -> list[tuple[float, Any]]:
    """Play *streams* on a virtual clock of RxPY's own."""
    clock, found = VirtualTimeScheduler(0.0), []

    def note(value: Any = COMPLETED) -> None:
        found.append((clock.to_seconds(clock.now), str(value)))

    build(ops, rx, *hot_sources(clock, streams)).subscribe(note, note, note, scheduler=clock)
    clock.advance_to(UNTIL_S)
    return found


@pytest.mark.parametrize("step, on", every_of(101, IN_RXPY, commits=17))
def test_un_hosted_loses_what_rxpy_loses(step: str, on: str) -> None:
    """On a clock of RxPY's own, un-hosted queries give in groups what RxPY gives, what it loses included."""
    streams, build = [parse_marbles(INPUTS[0]), parse_marbles("--5---6-|")], cooked(step, on)
    assert in_plain_time(build, rx, ops, streams) == in_plain_time(build, reactivex, plain, streams)


def pushed(build: Callable[..., Any], text: str) -> list[Any]:
    """Return what plain RxPY gives where each element is pushed from outside."""
    subjects: list[Subject[Any]] = [Subject(), Subject()]
    found: list[Any] = []
    build(plain, reactivex, *subjects).subscribe(found.append, found.append)
    for each in parse_marbles(text):
        if each.kind == NEXT:
            subjects[0].on_next(each.value)
        elif each.kind == COMPLETED:
            subjects[0].on_completed()
        else:
            subjects[0].on_error(each.value)
    return [str(each) for each in found]


def alone(step: str) -> Callable[..., Any]:
    """Return a query with the operator of *step* on a source."""

    def build(ops: Any, rx: Any, *sources: Any) -> Any:
        t = Tools(ops, rx, sources)
        return STEPS[step](t, t.other(0), *([INNER] if step in NESTED else []))

    return build


def values(timed: list[Timed]) -> list[Any]:
    return [str(each.value) for each in timed if each.kind != COMPLETED]


LIVE = [parse_marbles(INPUTS[0]), parse_marbles("")]


def timeless() -> list[str]:
    """Return the steps that ask no clock on a source: what the computer's says is another thing at each collection."""
    steps, asked, found = [step for step in STEPS if step not in TIME], mock.MagicMock(), list[str]()
    timers = dict.fromkeys(("schedule", "schedule_relative", "schedule_absolute"), asked)
    for step in steps:
        asked.reset_mock()
        with mock.patch.multiple(TimeoutScheduler, **timers):
            came = pushed(alone(step), INPUTS[0])
        if not asked.called and came == values(run_plain(alone(step), LIVE, UNTIL_S)):
            found.append(step)
    return found


TIMELESS = timeless()
PUSHED = [
    (step, on, how)
    for on in ("group_by", "window_with_count")
    for how in ("flat_map", "switch_map")
    for step in TIMELESS
    if on == "group_by" or step != "on_error_resume_next"  # RxPY goes on to the next within the end of the first
]


@pytest.mark.parametrize("step, on, how", every_of(5, PUSHED, commits=2))
def test_as_pushed_from_outside(step: str, on: str, how: str) -> None:
    """Each such operator gives in groups what it gives in RxPY's on a live subject, also behind kills.

    What reads only the newest window lets go of the one before in the very event that ends it.
    """
    build = cooked(step, on, how)
    for text in INPUTS[0], INPUTS[2]:
        streams = [parse_marbles(text), parse_marbles("")]
        assert values(WHO["hosted and recovered"](build, streams, UNTIL_S)) == pushed(build, text)


@left_to_commits
@pytest.mark.parametrize("runner", WHO)
def test_what_one_event_brings_to_a_window_is_one_moment(runner: str) -> None:
    """What reads the newest sequence only begins with the last one, as in RxPY; what begins anew misses the others."""
    newest, anew = (cooked(step, "several of one event") for step in ("switch_map_to", "retry"))
    for text in INPUTS:
        assert values(WHO[runner](newest, [parse_marbles(text), parse_marbles("")], UNTIL_S)) == pushed(newest, text)
    assert values(WHO[runner](anew, [parse_marbles("-4|"), parse_marbles("")], UNTIL_S)) == ["6"]


PASSING: dict[str, Callable[[Tools, Any], Any]] = {
    "start_with": lambda t, g: g.pipe(t.ops.start_with(7)),
    "two of them": lambda t, g: g.pipe(t.ops.start_with(7), t.ops.start_with(8)),
    "groups of groups": lambda t, g: g.pipe(
        t.ops.start_with(7), t.ops.group_by(lambda x: x % 2), t.ops.flat_map(lambda h: h.pipe(t.ops.start_with(9)))
    ),
    "catch": lambda t, g: g.pipe(t.ops.catch(t.rx.of(7))),
    "retry": lambda t, g: g.pipe(t.ops.retry(2)),
    "retry without end": lambda t, g: g.pipe(t.ops.retry()),
    "repeat": lambda t, g: g.pipe(t.ops.repeat(1)),
    "take and repeat": lambda t, g: g.pipe(t.ops.take(1), t.ops.repeat(30)),
    "first and the others": lambda t, g: t.rx.concat(g.pipe(t.ops.take(1)), g),
    "merge": lambda t, g: g.pipe(t.ops.merge(t.rx.never())),
    "merge of both halves": lambda t, g: t.rx.merge(
        g.pipe(t.ops.filter(lambda x: x % 2)), g.pipe(t.ops.filter(lambda x: not x % 2))
    ),
    "halves of a shared part": lambda t, g: (
        lambda s: t.rx.merge(s.pipe(t.ops.filter(lambda x: x % 2)), s.pipe(t.ops.filter(lambda x: not x % 2)))
    )(g.pipe(t.ops.share())),
    "publish": lambda t, g: g.pipe(
        t.ops.publish(
            lambda s: t.rx.merge(s.pipe(t.ops.filter(lambda x: x % 2)), s.pipe(t.ops.filter(lambda x: not x % 2)))
        )
    ),
    "with_latest_from": lambda t, g: g.pipe(t.ops.with_latest_from(t.rx.of(7)), t.ops.map(lambda pair: pair[0])),
    "skip_until": lambda t, g: g.pipe(t.ops.skip_until(t.rx.of(7))),
    "concat": lambda t, g: g.pipe(t.ops.concat(t.rx.of(7))),
    "behind another": lambda t, g: t.rx.concat(t.rx.of(7), g),
    "on_error_resume_next": lambda t, g: g.pipe(t.ops.on_error_resume_next(t.rx.of(7))),
    "at once delayed": lambda t, g: g.pipe(t.ops.delay_subscription(0.0)),
    "combine_latest": lambda t, g: g.pipe(t.ops.combine_latest(t.rx.of(7)), t.ops.map(lambda pair: pair[0])),
}
"""What lets each element of a group through, once."""
SEVERAL = ["several of one event", "groups of one event"]
LEAVES_OUT = {
    (operator, on)
    for operator in ("take and repeat", "first and the others")
    for on in ("group_by_until itself", "several of one event", "groups of one event")
}
"""Where an element is left out that does not open a group: the duration hears it first and ends the group, or one event
brings several to a group that is there, and what begins anew misses the second.
"""
KEPT = [(operator, on) for operator in PASSING for on in ON if (operator, on) not in LEAVES_OUT]


@pytest.mark.parametrize("operator, on", every_of(23, KEPT, commits=7))
def test_nothing_is_lost_and_nothing_comes_twice(operator: str, on: str) -> None:
    """Whatever lets elements through has those of each group, also the first one's, once."""

    def build(ops: Any, rx: Any, *sources: Any, inside: Any = PASSING[operator]) -> Any:
        t = Tools(ops, rx, sources)
        groups = ON[on](t, t.other(0))
        return groups.pipe(ops.flat_map(lambda g: inside(t, g.pipe(ops.map(lambda x: x + 100)))))

    def whole(ops: Any, rx: Any, *sources: Any) -> Any:
        return build(ops, rx, *sources, inside=lambda t, g: g)

    for runner in WHO.values():
        given = [each.value for each in runner(whole, LIVE, UNTIL_S) if each.kind == NEXT]
        found = [each.value for each in runner(build, LIVE, UNTIL_S) if each.kind == NEXT and each.value > 99]
        assert sorted(found) == sorted(given)


TAKING: dict[str, Callable[[Any], Any]] = {
    "take": lambda groups: groups.pipe(ops.take(1)),
    "first": lambda groups: groups.pipe(ops.first()),
    "take_while": lambda groups: groups.pipe(ops.take_while(lambda group: False, inclusive=True)),
    "element_at": lambda groups: groups.pipe(ops.element_at(0)),
    "take_until": lambda groups: groups.pipe(ops.take_until(groups.pipe(ops.skip(1)))),
}


READ_ALL_ALONG = [operator for operator in PASSING if operator not in ("take and repeat", "first and the others")]
"""What reads a group from its first element on; where nobody does, an owner that nobody hears any more is let go of."""


@pytest.mark.parametrize("operator", READ_ALL_ALONG)
@pytest.mark.parametrize("taken", TAKING)
def test_the_last_group_that_is_taken_has_its_elements(taken: str, operator: str) -> None:
    """What takes so many groups, and lets go of their owner, leaves the last to who reads it an action later."""
    tools, source = Tools(ops, rx, ()), rx.source("a")

    def read(inside: Callable[[Tools, Any], Any]) -> list[Any]:
        groups = source.pipe(ops.map(lambda x: x + 100), ops.group_by(lambda x: 0 if x < 104 else x))
        engine = QueryEngine()
        engine.declare("a", ["0"])
        engine.take(
            engine.creation("q", TAKING[taken](groups).pipe(ops.flat_map(lambda g: inside(tools, g))), time=0.0)
        )
        outputs = [each for at in range(4) for each in engine.take(Events("a", "0", at, [at], time=1.0 + at))]
        return [value for each in outputs for value in each.values if value > 99]

    assert read(PASSING[operator]) == read(lambda t, g: g) == [100, 101, 102, 103]


LASTING: dict[str, tuple[Callable[[Any], Any], list[list[int]]]] = {
    "three or a time": (lambda g: rx.merge(g.pipe(ops.skip(2)), rx.timer(60)), [[0, 3, 6], [9]]),
    "three, begun late": (lambda g: g.pipe(ops.start_with(0), ops.skip(3)), [[0, 3, 6], [9]]),
    "over at once": (lambda g: rx.of(1), [[0], [3], [6], [9]]),
    "over in no time": (lambda g: rx.timer(0), [[0], [3], [6], [9]]),
    "over by what opens it": (lambda g: g, [[0], [3], [6], [9]]),
}
"""Durations, and the groups of 0, 3, 6 and 9 with them."""


@pytest.mark.parametrize("name", LASTING)
def test_a_duration_counts_from_the_first_element(name: str) -> None:
    """A duration hears what opens its group, and a group that is over at once has it."""
    duration, expected = LASTING[name]
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("numbers", ListSource([0, 3, 6, 9]))
        groups = rx.source("numbers").pipe(ops.group_by_until(lambda x: 0, None, duration))
        evaluator.create("listed", groups.pipe(ops.flat_map(lambda g: g.pipe(ops.to_list()))))
        evaluator.run()
        assert [value for part in evaluator.stream("listed").read(0, 9) for value in part.values] == expected


def test_what_a_group_sets_going_ends_who_opens_it() -> None:
    """What is taken as a group opens may end all, again and again, and what waits beside it is done in its turn."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("numbers", ListSource([1, 2]))
        again = rx.of(1).pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.start_with(0))), ops.take(1), ops.repeat(500)
        )
        evaluator.create("again", rx.source("numbers").pipe(ops.flat_map(lambda x: again), ops.count()))
        evaluator.run()
        assert [value for part in evaluator.stream("again").read(0, 9) for value in part.values] == [1000]


def in_turns(build: Callable[..., Any], lengths: list[int]) -> list[Any]:
    """Return what comes of six numbers that are handed over in turns of such *lengths*."""
    engine, given, found = QueryEngine(), [0, 4, 1, 3, 2, 7], list[Any]()
    for source in "ab":
        engine.declare(source, ["0"])
    outputs = list(engine.take(engine.creation("found", build(ops, rx, rx.source("a"), rx.source("b")), time=0.0)))
    first = 0
    for length in lengths:
        outputs += engine.take(Events("a", "0", first, given[first : first + length], time=1.0))
        first += length
    outputs += engine.take(Events("a", "0", first, [], time=1.0, ended=True))
    for each in outputs:
        found += [*map(str, each.values), *([str(each.error)] if each.ended else [])]
    return found


@pytest.mark.parametrize("step, on", every_of(211, [(step, on) for step in STEPS for on in ON], commits=17))
def test_the_length_of_a_turn_is_not_seen(step: str, on: str) -> None:
    """Events that come as a list give what they give one by one, whatever reads groups and by which way these come."""
    build = cooked(step, on)
    singly = in_turns(build, [1] * 6)
    for lengths in ([6], [2, 4], [3, 1, 2]):
        assert in_turns(build, lengths) == singly


AT_ONCE: dict[str, Callable[[Tools, Any], Any]] = {
    "delay": lambda t, q: q.pipe(t.ops.delay(0.0)),
    "delay to a date": lambda t, q: q.pipe(t.ops.delay(datetime(1970, 1, 1, tzinfo=UTC))),
    "debounce": lambda t, q: q.pipe(t.ops.debounce(0.0)),
    "debounced totals": lambda t, q: q.pipe(t.ops.scan(lambda a, b: a + b), t.ops.debounce(timedelta(0))),
    "delay_subscription": lambda t, q: q.pipe(t.ops.delay_subscription(0.0)),
    "delay_with_mapper": lambda t, q: q.pipe(t.ops.delay_with_mapper(lambda x: t.rx.timer(0.0))),
    "throttle_with_mapper": lambda t, q: q.pipe(t.ops.throttle_with_mapper(lambda x: t.rx.timer(0.0))),
    "timeout": lambda t, q: q.pipe(t.ops.timeout(0.0, t.rx.of(9))),
    "timers": lambda t, q: q.pipe(t.ops.flat_map(lambda x: t.rx.timer(0.0).pipe(t.ops.map(lambda _: x)))),
}
"""What waits, for no time at all."""
AROUND: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "alone": lambda q, step: step(q),
    "in branches": lambda q, step: q.pipe(ops.publish(lambda p: step(p).pipe(ops.merge(p)))),
    "in groups": lambda q, step: q.pipe(ops.group_by(third), ops.flat_map(step)),
    "in windows": lambda q, step: q.pipe(ops.window_with_count(2), ops.flat_map(step)),
    "in the newest window": lambda q, step: q.pipe(ops.window_with_count(2), ops.switch_map(step)),
    "in a group of groups": lambda q, step: q.pipe(
        ops.group_by(lambda x: 0), ops.flat_map(lambda g: g.pipe(ops.group_by(third), ops.switch_map(step)))
    ),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("step", AT_ONCE)
def test_who_waits_for_no_time_sees_no_list(step: str, around: str) -> None:
    """What waits for no time gives of events that come as a list what it gives of them one by one."""

    def build(ops: Any, rx: Any, *sources: Any) -> Any:
        t = Tools(ops, rx, sources)
        return AROUND[around](t.other(0), lambda sequence: AT_ONCE[step](t, sequence))

    singly = in_turns(build, [1] * 6)
    for lengths in ([6], [2, 4], [3, 1, 2]):
        assert in_turns(build, lengths) == singly
