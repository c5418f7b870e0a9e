"""Generator of apps: a few queries that read one another, of nearly all operators, drawn from a seed.

The same seed draws the same app in any process: what a function closes over is drawn when the app is, never later, so
that a store takes each query as unchanged. Functions raise, queries fail, end, skip events or put them aside; others
read their streams, dead letters and late events, also by names that come out of values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.reliable import LateEvent

INPUTS = ("n", "m")
NAMES = [f"q{number}" for number in range(5)]
EDITED = 10**6
IDLE_S = 1e6
"""Longer than any run takes: no source is ever taken for idle, which depends on when a process looks."""
LATE: tuple[Literal["drop", "keep", "side"], ...] = ("drop", "keep", "side")
Step: TypeAlias = Callable[[Any], Any]
Steps: TypeAlias = tuple[Step, ...]
Stream: TypeAlias = Callable[[], Any]
Selector: TypeAlias = Callable[[Any], Any]


class Declared(NamedTuple):
    """A query with how it is hosted."""

    query: Any
    policy: Literal["fail", "skip", "dead_letter"]
    clock: rx.EventTime | None


def app(
    seed: int, *, clocked: bool, edited: bool = False, mended: int = 0, idle_s: float = IDLE_S
) -> dict[str, Declared]:
    """Return the app of *seed*, by the names of its queries; *clocked*, half of them are on event time.

    *edited*, with other queries of the same policies and clocks: what they put aside may have readers. How often some
    of their functions were *mended* changes these functions alone. Partitions are idle after *idle_s*.
    """
    hosted = app(seed, clocked=clocked, idle_s=idle_s) if edited else {}
    draw = Drawing(seed + EDITED if edited else seed, clocked=clocked, mended=mended, idle_s=idle_s)
    return {name: draw.declared(name, hosted.get(name)) for name in NAMES}


def num(value: Any) -> int:
    """Return a number for anything that an operator emits."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(num, value)) + len(value)
    if isinstance(value, dict):
        return sum(map(num, value.values()))
    return num(value.value) if isinstance(value, (rx.DeadLetter, LateEvent)) else len(type(value).__name__)


def trip(value: Any, rest: int) -> int:
    """Return the number of *value*. *Raises* `ValueError` where it leaves *rest* when divided by eleven."""
    found = num(value)
    if found % 11 == rest:
        raise ValueError(f"trip {found}")
    return found


def stamp(value: Any) -> float:
    """Return the time of an event: now and then it starts again from zero, which makes events late."""
    return float(num(value) % 97)


class Drawing:
    """Draws of one app: each query reads those that were drawn before."""

    def __init__(self, seed: int, *, clocked: bool, mended: int = 0, idle_s: float = IDLE_S) -> None:
        self.random, self.clocked, self.mended, self.idle_s = random.Random(seed), clocked, mended, idle_s
        self.names = list(INPUTS)
        self.aside: dict[str, list[str]] = {}
        """By query, the streams of what it puts aside."""
        self.pairs = True

    # -- queries

    def declared(self, name: str, hosted: Declared | None) -> Declared:
        """Return the next query, which those behind it may read, *hosted* as another one."""
        policy: Any = hosted.policy if hosted else self.random.choice(["fail"] * 4 + ["skip", "dead_letter"])
        self.pairs = policy == "fail"  # others refuse to pair by position what they may leave out
        query, clock = self.query(), hosted.clock if hosted else self.clock()
        self.names.append(name)
        self.aside[name] = [f"{name}.dead_letters"] if policy == "dead_letter" else []
        self.aside[name] += [f"{name}.late"] if clock is not None and clock.late == "side" else []
        return Declared(query, policy, clock)

    def clock(self) -> rx.EventTime | None:
        if not self.clocked or self.random.random() < 0.5:
            return None
        lateness_s, late = self.random.choice([0.0, 3.0, 10.0]), self.random.choice(LATE)
        return rx.event_time(stamp, lateness_s=lateness_s, idle_s=self.idle_s, late=late)

    def query(self) -> Any:
        forms: list[tuple[float, Callable[[], Any]]] = [
            (0.75, lambda: self.stream()().pipe(*self.chain(2, self.random.randint(1, 3)))),
            (0.08, lambda: rx.merge(self.stream(1)(), self.stream(1)()).pipe(*self.chain(2, 1))),
            (0.05, lambda: rx.concat(self.stream(1)().pipe(ops.take(2)), self.stream(1)())),
            (0.05, lambda: self.deferred(self.inner(1))),
            (0.07 * self.pairs, lambda: rx.zip(self.stream(1)(), self.stream(1)()).pipe(ops.map(num), self.one(1))),
        ]
        if len(self.names) == len(INPUTS) and self.random.random() < 0.5:
            return rx.source("n").pipe(*self.chain(0, 1))
        return self.random.choices([made for _, made in forms], [weight for weight, _ in forms])[0]()

    def deferred(self, made: Selector) -> Any:
        """Return a query of which nothing is known before it begins; on event time, a source must be."""
        query = rx.defer(lambda _: made(1))
        return rx.concat(self.some().pipe(ops.take(1)), query) if self.clocked else query

    # -- their parts

    def name(self) -> str:
        """Return a stream: of a query more often than one that the app is given, now and then what was put aside."""
        found = self.random.choice([*self.names, *self.names[len(INPUTS) :]])
        aside = self.aside.get(found, [])
        return self.random.choice(aside) if aside and self.random.random() < 0.3 else found

    def stream(self, depth: int = 0) -> Stream:
        """Return what makes a sequence to read, with operators behind it only if *depth* is left."""
        name, steps = self.name(), self.few(depth - 1, 1, 2) if depth > 0 and self.random.random() < 0.12 else ()
        return lambda: rx.source(name).pipe(*steps)

    def some(self, depth: int = 0) -> Any:
        return self.stream(depth)()

    def few(self, depth: int, least: int, most: int) -> Steps:
        return self.chain(depth, self.random.randint(least, most))

    def one(self, depth: int) -> Step:
        """Return a chain as one operator."""
        steps = self.chain(depth, 1)
        return lambda source: source.pipe(*steps)

    def chain(self, depth: int, count: int) -> Steps:
        """Return *count* operators, each perhaps with one behind it that makes numbers of what it emits."""
        return tuple(step for _ in range(count) for step in self.random.choice(self.kinds(depth))(self, depth))

    def kinds(self, depth: int) -> list[Kind]:
        if depth <= 0:
            return PLAIN
        return PLAIN + 2 * INNER + OTHERS + TIMED + (PAIRING if self.pairs else [])

    def inner(self, depth: int) -> Selector:
        """Return a selector of inner sequences."""
        read = self.stream(max(depth - 1, 0))
        return self.random.choices([made for _, made in SELECTED], [weight for weight, _ in SELECTED])[0](self, read)

    def rest(self) -> int:
        return self.random.randint(0, 10)

    def little(self) -> int:
        return self.random.randint(2, 4)


Kind: TypeAlias = Callable[[Drawing, int], Steps]
Selected: TypeAlias = Callable[[Drawing, Stream], Selector]


# -- selectors


def taking(draw: Drawing, read: Stream) -> Selector:
    count = draw.random.randint(1, 2)
    return lambda _: read().pipe(ops.take(count))


def of_both(draw: Drawing, read: Stream) -> Selector:
    count = draw.random.randint(1, 3)
    return lambda v: read().pipe(ops.map(lambda w: num(w) * 100 + num(v) % 50), ops.take(count))


def until(draw: Drawing, read: Stream) -> Selector:
    other = draw.stream()
    return lambda _: read().pipe(ops.take_until(other()))


def after(draw: Drawing, read: Stream) -> Selector:
    other = draw.stream()
    return lambda _: rx.concat(read().pipe(ops.take(1)), other().pipe(ops.take(1)))


def of_two(draw: Drawing, read: Stream) -> Selector:
    other, count = draw.stream(), draw.random.randint(1, 3)
    return lambda _: rx.merge(read(), other()).pipe(ops.take(count))


def named_by_value(draw: Drawing, read: Stream) -> Selector:
    names, count = [draw.name(), draw.name()], draw.random.randint(1, 2)
    return lambda v: rx.source(names[num(v) % 2]).pipe(ops.take(count))


def raising(draw: Drawing, read: Stream) -> Selector:
    rest = draw.rest()
    return lambda _: read().pipe(ops.map(lambda w: trip(w, rest)))


SELECTED: list[tuple[float, Selected]] = [
    (0.2, taking),
    (0.15, of_both),
    (0.1, until),
    (0.08, after),
    (0.08, of_two),
    (0.06, lambda _, read: lambda v: rx.return_value(num(v))),
    (0.06, lambda _, read: lambda v: read().pipe(ops.first())),
    (0.05, lambda _, read: lambda v: read().pipe(ops.filter(lambda w: num(w) % 2 == 0))),
    (0.03, raising),
    (0.03, lambda _, read: lambda v: read().pipe(ops.start_with(num(v)), ops.take(2))),
    (0.06, named_by_value),
    (0.1, lambda _, read: lambda v: read()),
]


# -- operators


def adding(draw: Drawing, _: int) -> Steps:
    k = draw.little() + 10 * draw.mended
    return (ops.map(lambda v: num(v) + k),)


def filtering(draw: Drawing, _: int) -> Steps:
    k = draw.little()
    return (ops.filter(lambda v: num(v) % k != 1),)


def tripping(draw: Drawing, _: int = 0) -> Steps:
    rest = draw.rest()
    return (ops.map(lambda v: trip(v, rest)),)


def grouping(draw: Drawing, depth: int) -> Steps:
    k, step = draw.little(), draw.one(depth - 1)
    return ops.group_by(lambda v: num(v) % k), ops.flat_map(lambda group: group.pipe(step))


def grouping_until(draw: Drawing, _: int) -> Steps:
    k, other = draw.little(), draw.stream()
    groups = ops.group_by_until(lambda v: num(v) % k, None, lambda _: other().pipe(ops.skip(1)))
    return groups, ops.flat_map(lambda group: group.pipe(ops.to_list(), ops.map(num)))


def behind_windows(windows: Callable[[Drawing], Step]) -> Kind:
    """Return windows with an operator behind each of them."""

    def made(draw: Drawing, depth: int) -> Steps:
        step = draw.one(depth - 1)
        return windows(draw), ops.flat_map(lambda window: window.pipe(step))

    return made


def counted_windows(draw: Drawing) -> Step:
    k = draw.little()
    return ops.window_with_count(k, draw.random.randint(1, k))


def closing(draw: Drawing) -> Stream:
    """Return what closes one window after the other.

    It never ends: an end closes at once, and so the next one, over and over, until Python's stack is full. How deep
    that is depends on who called.
    """
    read = draw.stream()
    return lambda: rx.concat(read(), rx.never())


def toggled_windows(draw: Drawing, _: int) -> Steps:
    other = draw.stream()
    return ops.window_toggle(draw.some(), lambda _: other()), ops.flat_map(lambda window: window.pipe(ops.count()))


def toggled_buffers(draw: Drawing, _: int) -> Steps:
    other = draw.stream()
    return ops.buffer_toggle(draw.some(), lambda _: other()), ops.map(num)


def caught(draw: Drawing, depth: int) -> Steps:
    other = draw.stream(depth - 1)
    return (ops.catch(lambda error, source: other()),)


def published(draw: Drawing, _: int) -> Steps:
    step = draw.one(0)
    return (ops.publish(lambda shared: rx.merge(shared, shared.pipe(step))),)


def joined(draw: Drawing, _: int) -> Steps:
    left, right = draw.stream(), draw.stream()
    return ops.join(draw.some(), lambda _: left(), lambda _: right()), ops.map(num)


def group_joined(draw: Drawing, _: int) -> Steps:
    left, right = draw.stream(), draw.stream()
    groups = ops.group_join(draw.some(), lambda _: left(), lambda _: right())
    return groups, ops.flat_map(lambda pair: pair[1].pipe(ops.count()))


def selecting(operator: Callable[[Selector], Any]) -> Kind:
    """Return an operator with a selector of streams for each element."""

    def made(draw: Drawing, _: int) -> Steps:
        read = draw.stream()
        return (operator(lambda _: read()),)

    return made


def later(draw: Drawing, depth: int) -> Steps:
    inner = draw.inner(depth - 1)
    return (ops.flat_map(lambda v: rx.timer(1.5).pipe(ops.flat_map(lambda _: inner(v)))),)


PLAIN: list[Kind] = [
    adding,
    filtering,
    tripping,
    lambda draw, _: (ops.scan(lambda a, v: (num(a) * 3 + num(v)) % 1000, 0),),
    lambda draw, _: (ops.distinct_until_changed(),),
    lambda draw, _: (ops.pairwise(), ops.map(num)),
    lambda draw, _: (ops.buffer_with_count(draw.little()), ops.map(num)),
    lambda draw, _: (ops.take(draw.random.randint(2, 6)),),
    lambda draw, _: (ops.skip(1),),
]
INNER: list[Kind] = [
    lambda draw, depth: (ops.flat_map(draw.inner(depth)),),
    lambda draw, depth: (ops.map(draw.inner(depth)), ops.switch_latest()),
    lambda draw, depth: (ops.flat_map_latest(draw.inner(depth)),),
    lambda draw, depth: (ops.concat_map(draw.inner(depth)),),
    lambda draw, depth: (ops.map(draw.inner(depth)), ops.merge(max_concurrent=draw.little() - 1)),
    lambda draw, depth: (ops.map(draw.inner(depth)), ops.exclusive()),
]
OTHERS: list[Kind] = [
    grouping,
    grouping_until,
    behind_windows(counted_windows),
    behind_windows(lambda draw: ops.window(draw.some())),
    behind_windows(lambda draw: ops.window_when(closing(draw))),
    toggled_windows,
    toggled_buffers,
    caught,
    published,
    joined,
    group_joined,
    selecting(ops.delay_with_mapper),
    selecting(ops.throttle_with_mapper),
    lambda draw, depth: (ops.merge(draw.some(depth - 1)),),
    lambda draw, depth: (ops.with_latest_from(draw.some(depth - 1)), ops.map(num)),
    lambda draw, depth: (ops.combine_latest(draw.some(depth - 1)), ops.map(num)),
    lambda draw, depth: (ops.take_until(draw.some(depth - 1).pipe(ops.skip(draw.little()))),),
    lambda draw, depth: (ops.skip_until(draw.some(depth - 1)),),
    lambda draw, depth: (ops.sample(draw.some(depth - 1)),),
    lambda draw, depth: (ops.amb(draw.some(depth - 1)),),
    lambda draw, depth: (ops.concat(draw.some(depth - 1)),),
    lambda draw, depth: (ops.catch(draw.some(depth - 1)),),
    lambda draw, depth: (ops.catch(lambda error, source: source),),
    lambda draw, depth: (ops.on_error_resume_next(draw.some(depth - 1)),),
    lambda draw, _: (ops.take(draw.little()), ops.repeat()),
    lambda draw, _: (ops.take(draw.little()), ops.repeat(3)),
    lambda draw, _: (*tripping(draw), ops.retry(3)),
    lambda draw, _: (*tripping(draw), ops.retry()),
    lambda draw, _: (ops.buffer(draw.some()), ops.map(num)),
    lambda draw, _: (ops.buffer_when(closing(draw)), ops.map(num)),
    lambda draw, _: (ops.publish(lambda shared: shared.pipe(ops.flat_map(lambda _: shared.pipe(ops.take(1))))),),
    lambda draw, _: (ops.share(),),
    lambda draw, _: (ops.expand(lambda v: rx.return_value(num(v) // 2) if num(v) > 3 else rx.empty()),),
    lambda draw, _: (ops.materialize(), ops.map(lambda told: len(told.kind))),
    lambda draw, _: (ops.default_if_empty(7),),
    lambda draw, _: (ops.start_with(3),),
    lambda draw, depth: (ops.switch_map(draw.inner(depth)),),
]
PAIRING: list[Kind] = [lambda draw, depth: (ops.zip(draw.some(depth - 1)), ops.map(num))]
TIMED: list[Kind] = [
    later,
    lambda draw, _: (ops.delay(1.5),),
    lambda draw, _: (ops.debounce(1.5),),
    lambda draw, _: (ops.buffer_with_time(2.5), ops.map(num)),
    lambda draw, _: (ops.throttle_first(1.5),),
    lambda draw, _: (ops.sample(1.5),),
    lambda draw, _: (ops.timeout(2.5, draw.some()),),
    lambda draw, _: (ops.take_with_time(5.5),),
    lambda draw, _: (ops.skip_with_time(2.5),),
    lambda draw, _: (ops.delay_subscription(1.5),),
    lambda draw, _: (ops.skip_last(1),),
]
