"""What may read the key of a group, when it may be called, and what it may be within: tables for tests to draw from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex.disposable import Disposable

Key = Callable[[], int]
Called = Callable[[Any, Any, Any, Key], Any]
"""Applies what is called: modules of operators and creation, the sequence, what reads the key."""
When = Callable[[Any, Any, Any, Any, Callable[[Any], Any]], Any]
"""Decides when: operators, creation, the sequence, a second source, what applies the function to a sequence."""
Within = Callable[[Any, Any, Any, Callable[[Any, Key], Any]], Any]


def soon(o: Any, r: Any, k: Key) -> Any:
    """Wait for as long as the key says, which was read now, and emit the key, which is read then."""
    return r.timer(0.3137 + 0.1971 * k()).pipe(o.map(lambda _: k()))


def raised(number: int) -> Any:
    raise ValueError(number)


class Held(Disposable):
    """A resource that knows the key under which it was made."""

    def __init__(self, key: int) -> None:
        super().__init__()
        self.key = key


CALLED: dict[str, Called] = {
    "all.predicate": lambda o, r, s, k: s.pipe(o.all(lambda v: v > k())),
    "average.key_mapper": lambda o, r, s, k: s.pipe(o.average(lambda v: v + k())),
    "buffer_toggle.closing_mapper": lambda o, r, s, k: s.pipe(o.buffer_toggle(r.of(1, 2), lambda v: soon(o, r, k))),
    "buffer_when.closing_mapper": lambda o, r, s, k: s.pipe(o.buffer_when(lambda: soon(o, r, k)), o.take(3)),
    "case.mapper": lambda o, r, s, k: r.case(lambda: k() % 2, {0: s, 1: r.of("odd")}),
    "catch.handler": lambda o, r, s, k: s.pipe(o.map(lambda v: 1 // (v - 2)), o.catch(lambda e, x: r.of(k()))),
    "concat_map.project": lambda o, r, s, k: s.pipe(o.concat_map(lambda v: soon(o, r, k))),
    "contains.comparer": lambda o, r, s, k: s.pipe(o.contains(2, lambda a, b: a == b + k())),
    "count.predicate": lambda o, r, s, k: s.pipe(o.count(lambda v: v > k())),
    "defer.factory": lambda o, r, s, k: r.defer(lambda *_: s.pipe(o.start_with(k()))),
    "delay_with_mapper.subscription_delay": lambda o, r, s, k: s.pipe(
        o.delay_with_mapper(r.defer(lambda *_: soon(o, r, k)), lambda v: r.timer(0.1))
    ),
    "delay_with_mapper.delay_duration_mapper": lambda o, r, s, k: s.pipe(
        o.delay_with_mapper(r.timer(0.1), lambda v: soon(o, r, k))
    ),
    "distinct.comparer": lambda o, r, s, k: s.pipe(o.distinct(lambda v: v, lambda a, b: a == b + k())),
    "distinct.key_mapper": lambda o, r, s, k: s.pipe(o.distinct(lambda v: v % (k() + 1))),
    "distinct_until_changed.comparer": lambda o, r, s, k: s.pipe(
        o.distinct_until_changed(lambda v: v, lambda a, b: a == b + k())
    ),
    "distinct_until_changed.key_mapper": lambda o, r, s, k: s.pipe(o.distinct_until_changed(lambda v: v % (k() + 1))),
    "do_action.on_next": lambda o, r, s, k: s.pipe(o.do_action(lambda v: raised(k()) if v == 2 else None)),
    "do_action.on_error": lambda o, r, s, k: s.pipe(o.do_action(on_error=lambda e: raised(k()))),
    "do_action.on_completed": lambda o, r, s, k: s.pipe(o.do_action(on_completed=lambda: raised(k()))),
    "do_while.condition": lambda o, r, s, k: s.pipe(o.do_while(lambda _: k() < 0)),
    "expand.mapper": lambda o, r, s, k: s.pipe(o.expand(lambda v: soon(o, r, k) if 0 < v < 3 else r.empty())),
    "filter.predicate": lambda o, r, s, k: s.pipe(o.filter(lambda v: v > k())),
    "filter_indexed.predicate_indexed": lambda o, r, s, k: s.pipe(o.filter_indexed(lambda v, i: v + i > k())),
    "find.predicate": lambda o, r, s, k: s.pipe(o.find(lambda v, i, x: v > k())),
    "find_index.predicate": lambda o, r, s, k: s.pipe(o.find_index(lambda v, i, x: v > k())),
    "first.predicate": lambda o, r, s, k: s.pipe(o.first(lambda v: v > k())),
    "first_or_default.predicate": lambda o, r, s, k: s.pipe(o.first_or_default(lambda v: v > k(), 9)),
    "flat_map.mapper": lambda o, r, s, k: s.pipe(o.flat_map(lambda v: soon(o, r, k))),
    "flat_map_indexed.mapper_indexed": lambda o, r, s, k: s.pipe(o.flat_map_indexed(lambda v, i: soon(o, r, k))),
    "flat_map_latest.mapper": lambda o, r, s, k: s.pipe(o.flat_map_latest(lambda v: soon(o, r, k))),
    "for_in.mapper": lambda o, r, s, k: r.for_in([1, 2], lambda v: soon(o, r, k)).pipe(o.merge(s)),
    "generate.condition": lambda o, r, s, k: s.pipe(o.merge(r.generate(0, lambda n: n < k() + 2, lambda n: n + 1))),
    "generate.iterate": lambda o, r, s, k: s.pipe(o.merge(r.generate(0, lambda n: n < 3, lambda n: n + k() + 1))),
    "generate_with_relative_time.condition": lambda o, r, s, k: s.pipe(
        o.merge(r.generate_with_relative_time(0, lambda n: n < k() + 2, lambda n: n + 1, lambda n: 0.4171))
    ),
    "generate_with_relative_time.iterate": lambda o, r, s, k: s.pipe(
        o.merge(r.generate_with_relative_time(0, lambda n: n < 3, lambda n: n + k() + 1, lambda n: 0.4171))
    ),
    "generate_with_relative_time.time_mapper": lambda o, r, s, k: s.pipe(
        o.merge(r.generate_with_relative_time(0, lambda n: n < 3, lambda n: n + 1, lambda n: 0.3137 + 0.1971 * k()))
    ),
    "group_by.key_mapper": lambda o, r, s, k: s.pipe(
        o.group_by(lambda v: v + k()), o.flat_map(lambda g: g.pipe(o.map(lambda v: (g.key, v))))
    ),
    "group_by.element_mapper": lambda o, r, s, k: s.pipe(o.group_by(lambda v: 0, lambda v: (v, k())), o.merge_all()),
    "group_by_until.key_mapper": lambda o, r, s, k: s.pipe(
        o.group_by_until(lambda v: v + k(), None, lambda g: r.timer(1.2)), o.flat_map(lambda g: g.pipe(o.count()))
    ),
    "group_by_until.element_mapper": lambda o, r, s, k: s.pipe(
        o.group_by_until(lambda v: 0, lambda v: (v, k()), lambda g: r.timer(1.2)), o.merge_all()
    ),
    "group_by_until.duration_mapper": lambda o, r, s, k: s.pipe(
        o.group_by_until(lambda v: 0, None, lambda g: soon(o, r, k)), o.flat_map(lambda g: g.pipe(o.to_list()))
    ),
    "group_by_until.duration_mapper of both": lambda o, r, s, k: s.pipe(
        o.group_by_until(lambda v: v, None, lambda g: soon(o, r, lambda: g.key % 2 + k())),
        o.flat_map(lambda g: g.pipe(o.to_list())),
    ),
    "group_join.left_duration_mapper": lambda o, r, s, k: s.pipe(
        o.group_join(r.timer(0.4), lambda v: soon(o, r, k), lambda v: r.timer(1.0)),
        o.flat_map(lambda pair: pair[1].pipe(o.count())),
    ),
    "group_join.right_duration_mapper": lambda o, r, s, k: s.pipe(
        o.group_join(r.timer(0.4), lambda v: r.timer(1.0), lambda v: soon(o, r, k)),
        o.flat_map(lambda pair: pair[1].pipe(o.count())),
    ),
    "if_then.condition": lambda o, r, s, k: s.pipe(o.merge(r.if_then(lambda: k() == 1, r.of("1"), r.of("0")))),
    "join.left_duration_mapper": lambda o, r, s, k: s.pipe(
        o.join(r.timer(0.4), lambda v: soon(o, r, k), lambda v: r.timer(1.0))
    ),
    "join.right_duration_mapper": lambda o, r, s, k: s.pipe(
        o.join(r.timer(0.4), lambda v: r.timer(1.0), lambda v: soon(o, r, k))
    ),
    "last.predicate": lambda o, r, s, k: s.pipe(o.last(lambda v: v > k())),
    "last_or_default.predicate": lambda o, r, s, k: s.pipe(o.last_or_default(9, lambda v: v > k())),
    "map.mapper": lambda o, r, s, k: s.pipe(o.map(lambda v: (v, k()))),
    "map_indexed.mapper_indexed": lambda o, r, s, k: s.pipe(o.map_indexed(lambda v, i: (v, i, k()))),
    "max.comparer": lambda o, r, s, k: s.pipe(o.max(lambda a, b: a - b + k())),
    "max_by.key_mapper": lambda o, r, s, k: s.pipe(o.max_by(lambda v: v % (k() + 1))),
    "max_by.comparer": lambda o, r, s, k: s.pipe(o.max_by(lambda v: v, lambda a, b: a - b + k())),
    "min.comparer": lambda o, r, s, k: s.pipe(o.min(lambda a, b: a - b + k())),
    "min_by.key_mapper": lambda o, r, s, k: s.pipe(o.min_by(lambda v: v % (k() + 1))),
    "min_by.comparer": lambda o, r, s, k: s.pipe(o.min_by(lambda v: v, lambda a, b: a - b + k())),
    "partition.predicate": lambda o, r, s, k: r.merge(*s.pipe(o.partition(lambda v: v > k()))),
    "partition_indexed.predicate_indexed": lambda o, r, s, k: r.merge(
        *s.pipe(o.partition_indexed(lambda v, i: v > k() + i))
    ),
    "publish.mapper": lambda o, r, s, k: s.pipe(o.publish(lambda p: p.pipe(o.map(lambda v: (v, k()))))),
    "publish.mapper, while it builds": lambda o, r, s, k: s.pipe(o.publish(lambda p: p.pipe(o.start_with(k())))),
    "publish_value.mapper": lambda o, r, s, k: s.pipe(o.publish_value(7, lambda p: p.pipe(o.map(lambda v: (v, k()))))),
    "reduce.accumulator": lambda o, r, s, k: s.pipe(o.reduce(lambda a, v: a + v + k())),
    "replay.mapper": lambda o, r, s, k: s.pipe(o.replay(2, mapper=lambda p: p.pipe(o.map(lambda v: (v, k()))))),
    "scan.accumulator": lambda o, r, s, k: s.pipe(o.scan(lambda a, v: a + v + k(), 0)),
    "sequence_equal.comparer": lambda o, r, s, k: s.pipe(o.sequence_equal(r.of(1, 3), lambda a, b: a + k() == b)),
    "single.predicate": lambda o, r, s, k: s.pipe(o.single(lambda v: v == k())),
    "single_or_default.predicate": lambda o, r, s, k: s.pipe(o.single_or_default(lambda v: v == k(), 9)),
    "skip_while.predicate": lambda o, r, s, k: s.pipe(o.skip_while(lambda v: v < k() + 2)),
    "skip_while_indexed.predicate": lambda o, r, s, k: s.pipe(o.skip_while_indexed(lambda v, i: i < k())),
    "some.predicate": lambda o, r, s, k: s.pipe(o.some(lambda v: v > k())),
    "starmap.mapper": lambda o, r, s, k: s.pipe(o.pairwise(), o.starmap(lambda a, b: a + b + k())),
    "starmap_indexed.mapper": lambda o, r, s, k: s.pipe(
        o.pairwise(), o.starmap_indexed(lambda a, b, i: a + b + i + k())
    ),
    "sum.key_mapper": lambda o, r, s, k: s.pipe(o.sum(lambda v: v + k())),
    "switch_map.project": lambda o, r, s, k: s.pipe(o.switch_map(lambda v: soon(o, r, k))),
    "switch_map_indexed.project": lambda o, r, s, k: s.pipe(o.switch_map_indexed(lambda v, i: soon(o, r, k))),
    "take_while.predicate": lambda o, r, s, k: s.pipe(o.take_while(lambda v: v > k())),
    "take_while_indexed.predicate": lambda o, r, s, k: s.pipe(o.take_while_indexed(lambda v, i: i <= k())),
    "throttle_with_mapper.throttle_duration_mapper": lambda o, r, s, k: s.pipe(
        o.throttle_with_mapper(lambda v: soon(o, r, k))
    ),
    "timeout_with_mapper.timeout_duration_mapper": lambda o, r, s, k: s.pipe(
        o.timeout_with_mapper(r.timer(5.0), lambda v: soon(o, r, k), r.of("late"))
    ),
    "to_dict.key_mapper": lambda o, r, s, k: s.pipe(o.to_dict(lambda v: v + k())),
    "to_dict.element_mapper": lambda o, r, s, k: s.pipe(o.to_dict(lambda v: v, lambda v: v + k())),
    "using.resource_factory": lambda o, r, s, k: s.pipe(
        o.merge(r.using(lambda: Held(k()), lambda held: r.of(held.key)))
    ),
    "using.observable_factory": lambda o, r, s, k: s.pipe(o.merge(r.using(lambda: None, lambda x: soon(o, r, k)))),
    "while_do.condition": lambda o, r, s, k: s.pipe(o.while_do(lambda _: k() < 0)),
    "window_toggle.closing_mapper": lambda o, r, s, k: s.pipe(
        o.window_toggle(r.of(1, 2), lambda v: soon(o, r, k)), o.flat_map(lambda w: w.pipe(o.to_list()))
    ),
    "window_when.closing_mapper": lambda o, r, s, k: s.pipe(
        o.window_when(lambda: soon(o, r, k)), o.take(3), o.flat_map(lambda w: w.pipe(o.to_list()))
    ),
}  # fmt: skip
WHEN: dict[str, When] = {
    "at its values": lambda o, r, s, t, x: x(s),
    "beside it": lambda o, r, s, t, x: s.pipe(o.merge(x(r.of(1, 2)))),
    "paired with it": lambda o, r, s, t, x: s.pipe(o.zip(x(r.of(1, 2, 3)))),
    "compared with it": lambda o, r, s, t, x: s.pipe(o.sequence_equal(x(r.of(1, 2)))),
    "latest beside it": lambda o, r, s, t, x: s.pipe(o.with_latest_from(x(r.of(1, 2)))),
    "when it completes": lambda o, r, s, t, x: s.pipe(o.take(1), o.concat(x(r.of(1, 2)))),
    "when it fails": lambda o, r, s, t, x: s.pipe(o.map(lambda v: 1 // (v - 2)), o.catch(x(r.of(1, 2)))),
    "of a failure": lambda o, r, s, t, x: x(s.pipe(o.map(lambda v: 1 // (v - 2)))),
    "again": lambda o, r, s, t, x: x(r.of(1, 2)).pipe(o.repeat(2)),
    "again at an event": lambda o, r, s, t, x: x(s.pipe(o.take(1))).pipe(o.repeat(2)),
    "again when it failed": lambda o, r, s, t, x: x(s.pipe(o.map(lambda v: 1 // (v - 2)))).pipe(o.retry(2)),
    "at a timer": lambda o, r, s, t, x: r.timer(0.7013).pipe(o.flat_map(lambda _: x(r.of(1, 2)))),
    "of a timer": lambda o, r, s, t, x: x(r.timer(0.1117, 0.7013).pipe(o.take(3))),
    "at a value": lambda o, r, s, t, x: s.pipe(o.flat_map(lambda v: x(r.of(1, v)))),
    "of another source": lambda o, r, s, t, x: s.pipe(o.merge(x(t))),
    "at an event of another source": lambda o, r, s, t, x: s.pipe(o.merge(t.pipe(o.flat_map(lambda v: x(r.of(v)))))),
    "of a value's other source": lambda o, r, s, t, x: s.pipe(o.switch_map(lambda v: x(t))),
    "of what is published": lambda o, r, s, t, x: s.pipe(o.publish(lambda p: p.pipe(o.merge(x(p))))),
    "before what is published": lambda o, r, s, t, x: x(s).pipe(o.publish(lambda p: p.pipe(o.zip(p)))),
    "of what is replayed": lambda o, r, s, t, x: s.pipe(o.replay(2, mapper=lambda p: p.pipe(o.merge(x(p))))),
    "later": lambda o, r, s, t, x: x(s.pipe(o.delay_subscription(0.4))),
    "delayed": lambda o, r, s, t, x: x(s.pipe(o.delay(0.4))),
    "in a window": lambda o, r, s, t, x: s.pipe(o.window_with_count(2), o.flat_map(lambda w: x(w))),
    "behind a deferred one": lambda o, r, s, t, x: r.defer(lambda *_: x(s)),
    "at an end elsewhere": lambda o, r, s, t, x: r.concat(t.pipe(o.take(1)), x(r.of(1, 2))),
}
WITHIN: dict[str, Within] = {
    "group": lambda o, r, s, f: s.pipe(o.group_by(lambda v: v % 2), o.flat_map(lambda g: f(g, lambda: g.key))),
    "group of a group": lambda o, r, s, f: s.pipe(
        o.group_by(lambda v: v % 2),
        o.flat_map(
            lambda g: g.pipe(o.group_by(lambda v: v % 3), o.flat_map(lambda h: f(h, lambda: 2 * g.key + h.key)))
        ),
    ),
    "window of a group": lambda o, r, s, f: s.pipe(
        o.group_by(lambda v: v % 2),
        o.flat_map(lambda g: g.pipe(o.window_with_count(2), o.flat_map(lambda w: f(w, lambda: g.key)))),
    ),
    "value of a group": lambda o, r, s, f: s.pipe(
        o.group_by(lambda v: v % 2), o.flat_map(lambda g: g.pipe(o.switch_map(lambda v: f(r.of(v), lambda: g.key))))
    ),
    "group beside a window of it": lambda o, r, s, f: s.pipe(
        o.group_by(lambda v: v % 2),
        o.flat_map(
            lambda g: g.pipe(o.window_with_count(2), o.flat_map(lambda w: f(w.pipe(o.merge(g)), lambda: g.key)))
        ),
    ),
}  # fmt: skip
