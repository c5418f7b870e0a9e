"""Queries made at random: compositions of operators that one text can run on plain `reactivex` and on a host.

A recipe is a readable list of steps; every step takes whole numbers and gives whole numbers, so that any may follow
any. Durations are whole 64ths of a second, which floats and microseconds both hold exactly, and odd ones: an event,
a timer and an action without delay at one and the same time have no order that Rx promises, so few such ties are
made. Rejected: drawing operators with random parameters of any type, which mostly makes queries that fail at their
first event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import reactivex

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


@dataclass(frozen=True)
class Tools:
    """What a recipe is cooked with."""

    ops: Any
    rx: Any
    sources: tuple[Any, ...]

    def other(self, number: int) -> Any:
        """Return a source; the same one may be asked for again and again."""
        return self.sources[number % len(self.sources)]


@dataclass(frozen=True)
class Step:
    """One operator (with what brings its result back to whole numbers); *inner* recipes are run inside."""

    name: str
    inner: tuple[Recipe, ...] = ()

    def __repr__(self) -> str:
        return self.name + (f"({', '.join(map(repr, self.inner))})" if self.inner else "")

    def apply(self, tools: Tools, query: Any) -> Any:
        return {**PLAIN, **NESTED}[self.name](tools, query, *self.inner)


@dataclass(frozen=True)
class Recipe:
    """A query over source number *source*: its steps, one behind the other."""

    source: int
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return " ".join([f"s{self.source}", *map(repr, self.steps)])

    def __call__(self, ops: Any, rx: Any, *sources: Any) -> Any:
        """Build the query: this is what `check_query` wants."""
        tools = Tools(ops, rx, sources)
        return self.cook(tools, tools.other(self.source))

    def cook(self, tools: Tools, query: Any) -> Any:
        """Put the steps behind *query*."""
        for step in self.steps:
            query = step.apply(tools, query)
        return query.pipe(tools.ops.map(bounded)) if self.steps else query

    def of_source(self, tools: Tools) -> Any:
        return self.cook(tools, tools.other(self.source))


def bounded(value: Any) -> int:
    """Keep numbers small, whatever an operator made of them."""
    if isinstance(value, (list, tuple)):
        return sum(bounded(each) * (place + 2) for place, each in enumerate(value)) % 11
    return int(value) % 11 if isinstance(value, (int, float)) else len(str(value)) % 11


def add(total: int, value: int) -> int:
    return (total + value) % 11


def odd(value: int) -> bool:
    return value % 2 == 1


def third(value: int) -> int:
    return value % 3


def indexed(tools: Any, query: Any) -> Any:
    """Add its index to each element; RxPY shares the index between subscriptions unless each makes its own."""

    def added(_: Any) -> Any:
        return query.pipe(tools.ops.map_indexed(lambda x, i: (x + i) % 11))

    return reactivex.defer(added) if tools.rx is reactivex else added(None)


def again(tools: Any, shared: Any) -> Any:
    """Read a shared sequence, and anew with every element of it."""
    return shared.pipe(tools.ops.flat_map(lambda x: shared.pipe(tools.ops.take(2), tools.ops.map(lambda y: add(x, y)))))


def with_itself(tools: Any, shared: Any) -> Any:
    return shared.pipe(tools.ops.filter(odd), tools.ops.merge(shared))


def fails_on_four(value: int) -> int:
    if value == 4:
        raise ValueError("four")
    return value


def message(error: Exception) -> int:
    return len(str(error)) % 11


Apply = Callable[..., Any]

PLAIN: dict[str, Apply] = {
    "map": lambda t, q: q.pipe(t.ops.map(lambda x: (x * 3 + 1) % 11)),
    "filter": lambda t, q: q.pipe(t.ops.filter(odd)),
    "scan": lambda t, q: q.pipe(t.ops.scan(add, 0)),
    "scan_unseeded": lambda t, q: q.pipe(t.ops.scan(add)),
    "reduce": lambda t, q: q.pipe(t.ops.reduce(add, 1)),
    "map_indexed": lambda t, q: indexed(t, q),
    "take": lambda t, q: q.pipe(t.ops.take(3)),
    "skip": lambda t, q: q.pipe(t.ops.skip(1)),
    "take_while": lambda t, q: q.pipe(t.ops.take_while(lambda x: x < 9)),
    "skip_while": lambda t, q: q.pipe(t.ops.skip_while(lambda x: x < 2)),
    "distinct": lambda t, q: q.pipe(t.ops.distinct()),
    "distinct_until_changed": lambda t, q: q.pipe(t.ops.distinct_until_changed(odd)),
    "pairwise": lambda t, q: q.pipe(t.ops.pairwise(), t.ops.map(bounded)),
    "start_with": lambda t, q: q.pipe(t.ops.start_with(5, 6)),
    "default_if_empty": lambda t, q: q.pipe(t.ops.default_if_empty(7)),
    "first": lambda t, q: q.pipe(t.ops.first()),
    "last": lambda t, q: q.pipe(t.ops.last()),
    "count": lambda t, q: q.pipe(t.ops.count()),
    "average": lambda t, q: q.pipe(t.ops.average(), t.ops.map(bounded)),
    "min": lambda t, q: q.pipe(t.ops.min()),
    "to_list": lambda t, q: q.pipe(t.ops.to_list(), t.ops.map(bounded)),
    "buffer_with_count": lambda t, q: q.pipe(t.ops.buffer_with_count(3, 2), t.ops.map(bounded)),
    "debounce": lambda t, q: q.pipe(t.ops.debounce(1.375)),
    "delay": lambda t, q: q.pipe(t.ops.delay(2.609375)),
    "sample": lambda t, q: q.pipe(t.ops.sample(1.71875)),
    "buffer_with_time": lambda t, q: q.pipe(t.ops.buffer_with_time(2.171875), t.ops.map(bounded)),
    "buffer_with_time_or_count": lambda t, q: q.pipe(
        t.ops.buffer_with_time_or_count(2.046875, 2), t.ops.map(bounded)
    ),
    "delay_subscription": lambda t, q: q.pipe(t.ops.delay_subscription(1.390625)),
    "take_with_time": lambda t, q: q.pipe(t.ops.take_with_time(6.484375)),
    "skip_with_time": lambda t, q: q.pipe(t.ops.skip_with_time(1.328125)),
    "take_last_with_time": lambda t, q: q.pipe(t.ops.take_last_with_time(3.203125)),
    "skip_last_with_time": lambda t, q: q.pipe(t.ops.skip_last_with_time(1.203125)),
    "throttle_first": lambda t, q: q.pipe(t.ops.throttle_first(1.546875)),
    "time_interval": lambda t, q: q.pipe(
        t.ops.time_interval(), t.ops.map(lambda x: (x.value + x.interval.microseconds) % 11)
    ),
    "timeout": lambda t, q: q.pipe(t.ops.timeout(2.921875, t.rx.of(8, 9))),
    "catch": lambda t, q: q.pipe(
        t.ops.map(fails_on_four), t.ops.catch(lambda error, source: t.rx.of(message(error)))
    ),
    "retry": lambda t, q: q.pipe(t.ops.map(fails_on_four), t.ops.retry(2)),
    "flat_map_timer": lambda t, q: q.pipe(
        t.ops.flat_map(lambda x: t.rx.timer(x * 0.4375 + 0.109375).pipe(t.ops.map(lambda _: x)))
    ),
    "flat_map_of": lambda t, q: q.pipe(t.ops.flat_map(lambda x: t.rx.of(x, (x + 1) % 11))),
    "share": lambda t, q: with_itself(t, q.pipe(t.ops.share())),
    "share_again": lambda t, q: again(t, q.pipe(t.ops.publish(), t.ops.ref_count())),
    "publish_value": lambda t, q: with_itself(t, q.pipe(t.ops.publish_value(5), t.ops.ref_count())),
    "replay": lambda t, q: again(t, q.pipe(t.ops.replay(2), t.ops.ref_count())),
    "switch_latest": lambda t, q: q.pipe(
        t.ops.map(lambda x: t.rx.interval(0.9375).pipe(t.ops.take(3), t.ops.map(lambda n: (n + x) % 11))),
        t.ops.switch_latest(),
    ),
    "merge_all": lambda t, q: q.pipe(
        t.ops.map(lambda x: t.rx.timer(1.234375).pipe(t.ops.map(lambda _: x))), t.ops.merge_all()
    ),
}  # fmt: skip
"""Steps by name: each takes the tools and a query."""

NESTED: dict[str, Apply] = {
    "merge": lambda t, q, a: q.pipe(t.ops.merge(a.of_source(t))),
    "combine_latest": lambda t, q, a: q.pipe(t.ops.combine_latest(a.of_source(t)), t.ops.map(bounded)),
    "zip": lambda t, q, a: q.pipe(t.ops.zip(a.of_source(t)), t.ops.map(bounded)),
    "with_latest_from": lambda t, q, a: q.pipe(t.ops.with_latest_from(a.of_source(t)), t.ops.map(bounded)),
    "concat": lambda t, q, a: q.pipe(t.ops.concat(a.of_source(t))),
    "take_until": lambda t, q, a: q.pipe(t.ops.take_until(a.of_source(t))),
    "group_by": lambda t, q, a: q.pipe(t.ops.group_by(third), t.ops.flat_map(lambda g: a.cook(t, g))),
    "window_with_count": lambda t, q, a: q.pipe(
        t.ops.window_with_count(3, 2), t.ops.flat_map(lambda w: a.cook(t, w))
    ),
    "window_with_time": lambda t, q, a: q.pipe(
        t.ops.window_with_time(2.328125), t.ops.flat_map(lambda w: a.cook(t, w))
    ),
    "window_with_time_or_count": lambda t, q, a: q.pipe(
        t.ops.window_with_time_or_count(2.265625, 2), t.ops.flat_map(lambda w: a.cook(t, w))
    ),
    "shared": lambda t, q, a: (lambda s: s.pipe(t.ops.merge(a.cook(t, s))))(q.pipe(t.ops.share())),
    "replayed": lambda t, q, a: (lambda s: s.pipe(t.ops.take(2), t.ops.concat(a.cook(t, s))))(
        q.pipe(t.ops.replay(1), t.ops.ref_count())
    ),
    "publish": lambda t, q, a: q.pipe(t.ops.publish(lambda p: p.pipe(t.ops.merge(a.cook(t, p))))),
    "publish_latest": lambda t, q, a: q.pipe(t.ops.publish_value(3, lambda p: a.cook(t, with_itself(t, p)))),
    "switch_windows": lambda t, q, a: q.pipe(
        t.ops.window_with_count(2), t.ops.map(lambda w: a.cook(t, w)), t.ops.switch_latest()
    ),
}  # fmt: skip
"""Steps with a recipe inside: behind another source, or behind each group or window."""


def recipes(*, sources: int = 2, steps_max: int = 6, nested_steps_max: int = 2) -> SearchStrategy[Recipe]:
    """Return a Hypothesis strategy for queries of up to *steps_max* operators over several sources."""
    from hypothesis import strategies as st

    source = st.integers(0, sources - 1)
    plain = st.builds(Step, st.sampled_from(sorted(PLAIN)))

    def nested(inner: SearchStrategy[Recipe]) -> SearchStrategy[Step]:
        return st.builds(Step, st.sampled_from(sorted(NESTED)), st.tuples(inner))

    @st.composite
    def made(draw: DrawFn, depth: int, most: int) -> Recipe:
        choice = plain if depth == 0 else st.one_of(plain, plain, nested(made(depth - 1, nested_steps_max)))
        return Recipe(draw(source), tuple(draw(st.lists(choice, min_size=1 if depth == 2 else 0, max_size=most))))

    return made(2, steps_max)
