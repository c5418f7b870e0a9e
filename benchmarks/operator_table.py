"""The operators that `benchmarks/operators.py` measures, each in a form that goes on for ever.

An operator that would end after one event (`first`, `take`, `contains`) is given parameters that keep it going, since
what is measured is the cost of an event. Whole numbers from 0 on are the events, one per second on the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Build = Callable[[Any, Any, Any], Any]
LINEAR, HIGHER, OTHER, TIMED = "linear", "higher-order", "several inputs", "time"


@dataclass(frozen=True)
class Row:
    """One operator: what is built, of which kind it is, and which part of the events is enough to measure it."""

    build: Build
    kind: str
    share: float = 1.0


def add(total: int, n: int) -> int:
    return total + n


def same(n: Any) -> Any:
    return n


def never(*_: Any) -> bool:
    return False


def always(*_: Any) -> bool:
    return True


def tens(n: int) -> int:
    return n % 10


LINEAR_ROWS: dict[str, Build] = {
    "all": lambda o, r, s: s.pipe(o.all(always)),
    "as_observable": lambda o, r, s: s.pipe(o.as_observable()),
    "average": lambda o, r, s: s.pipe(o.average()),
    "contains": lambda o, r, s: s.pipe(o.contains(-1)),
    "count": lambda o, r, s: s.pipe(o.count()),
    "default_if_empty": lambda o, r, s: s.pipe(o.default_if_empty(0)),
    "dematerialize": lambda o, r, s: s.pipe(o.map(same), o.materialize(), o.dematerialize()),
    "distinct_until_changed": lambda o, r, s: s.pipe(o.distinct_until_changed()),
    "do_action": lambda o, r, s: s.pipe(o.do_action(same)),
    "element_at": lambda o, r, s: s.pipe(o.element_at(10**9)),
    "element_at_or_default": lambda o, r, s: s.pipe(o.element_at_or_default(10**9)),
    "filter": lambda o, r, s: s.pipe(o.filter(always)),
    "filter_indexed": lambda o, r, s: s.pipe(o.filter_indexed(always)),
    "finally_action": lambda o, r, s: s.pipe(o.finally_action(never)),
    "find": lambda o, r, s: s.pipe(o.find(never)),
    "find_index": lambda o, r, s: s.pipe(o.find_index(never)),
    "first": lambda o, r, s: s.pipe(o.first(never)),
    "first_or_default": lambda o, r, s: s.pipe(o.first_or_default(never)),
    "ignore_elements": lambda o, r, s: s.pipe(o.ignore_elements()),
    "is_empty": lambda o, r, s: s.pipe(o.filter(never), o.is_empty()),
    "last": lambda o, r, s: s.pipe(o.last()),
    "last_or_default": lambda o, r, s: s.pipe(o.last_or_default()),
    "map": lambda o, r, s: s.pipe(o.map(same)),
    "map_indexed": lambda o, r, s: s.pipe(o.map_indexed(add)),
    "materialize": lambda o, r, s: s.pipe(o.materialize()),
    "max": lambda o, r, s: s.pipe(o.max()),
    "max_by": lambda o, r, s: s.pipe(o.max_by(same)),
    "min": lambda o, r, s: s.pipe(o.min()),
    "min_by": lambda o, r, s: s.pipe(o.min_by(same)),
    "pairwise": lambda o, r, s: s.pipe(o.pairwise()),
    "pluck": lambda o, r, s: s.pipe(o.map(lambda n: {"n": n}), o.pluck("n")),
    "pluck_attr": lambda o, r, s: s.pipe(o.pluck_attr("real")),
    "reduce": lambda o, r, s: s.pipe(o.reduce(add, 0)),
    "scan": lambda o, r, s: s.pipe(o.scan(add, 0)),
    "single": lambda o, r, s: s.pipe(o.single(never)),
    "single_or_default": lambda o, r, s: s.pipe(o.single_or_default(never)),
    "single_or_default_async": lambda o, r, s: s.pipe(o.filter(never), o.single_or_default_async(True)),
    "skip": lambda o, r, s: s.pipe(o.skip(5)),
    "skip_last": lambda o, r, s: s.pipe(o.skip_last(5)),
    "skip_while": lambda o, r, s: s.pipe(o.skip_while(lambda n: n < 5)),
    "skip_while_indexed": lambda o, r, s: s.pipe(o.skip_while_indexed(lambda n, i: i < 5)),
    "slice": lambda o, r, s: s.pipe(o.slice(1, None, 2)),
    "some": lambda o, r, s: s.pipe(o.some(never)),
    "starmap": lambda o, r, s: s.pipe(o.map(lambda n: (n, n)), o.starmap(add)),
    "starmap_indexed": lambda o, r, s: s.pipe(o.map_indexed(lambda n, i: (n, i)), o.starmap_indexed(add)),
    "sum": lambda o, r, s: s.pipe(o.sum()),
    "take": lambda o, r, s: s.pipe(o.take(10**9)),
    "take_last": lambda o, r, s: s.pipe(o.take_last(5)),
    "take_last_buffer": lambda o, r, s: s.pipe(o.take_last_buffer(5)),
    "take_while": lambda o, r, s: s.pipe(o.take_while(always)),
    "take_while_indexed": lambda o, r, s: s.pipe(o.take_while_indexed(always)),
    "to_dict": lambda o, r, s: s.pipe(o.to_dict(tens)),
    "to_iterable": lambda o, r, s: s.pipe(o.to_iterable()),
    "to_list": lambda o, r, s: s.pipe(o.to_list()),
    "to_set": lambda o, r, s: s.pipe(o.to_set()),
    "zip_with_iterable": lambda o, r, s: s.pipe(o.zip_with_iterable(range(10**9))),
}

HIGHER_ROWS: dict[str, Row] = {
    "buffer_with_count": Row(lambda o, r, s: s.pipe(o.buffer_with_count(10)), HIGHER, 0.3),
    "buffer_with_count, overlapping": Row(lambda o, r, s: s.pipe(o.buffer_with_count(10, 1)), HIGHER, 0.05),
    "concat_map": Row(lambda o, r, s: s.pipe(o.concat_map(lambda n: r.of(n))), HIGHER, 0.05),
    "delay_with_mapper": Row(lambda o, r, s: s.pipe(o.delay_with_mapper(lambda n: r.empty())), HIGHER, 0.05),
    "distinct, 10 keys": Row(lambda o, r, s: s.pipe(o.distinct(tens)), LINEAR),
    "distinct, all new": Row(lambda o, r, s: s.pipe(o.distinct()), HIGHER, 0.05),
    "exclusive": Row(lambda o, r, s: s.pipe(o.map(lambda n: r.of(n)), o.exclusive()), HIGHER, 0.05),
    "expand": Row(lambda o, r, s: s.pipe(o.expand(lambda n: r.empty())), HIGHER, 0.05),
    "flat_map, lists": Row(lambda o, r, s: s.pipe(o.flat_map(lambda n: [n])), HIGHER, 0.05),
    "flat_map, of": Row(lambda o, r, s: s.pipe(o.flat_map(lambda n: r.of(n))), HIGHER, 0.05),
    "flat_map_indexed": Row(lambda o, r, s: s.pipe(o.flat_map_indexed(lambda n, i: r.of(n))), HIGHER, 0.05),
    "flat_map_latest": Row(lambda o, r, s: s.pipe(o.flat_map_latest(lambda n: r.of(n))), HIGHER, 0.05),
    "group_by, 10 groups": Row(
        lambda o, r, s: s.pipe(o.group_by(tens), o.flat_map(lambda g: g.pipe(o.scan(add, 0)))), HIGHER
    ),
    "group_by, all new": Row(
        lambda o, r, s: s.pipe(o.group_by(same), o.flat_map(lambda g: g.pipe(o.scan(add, 0)))), HIGHER, 0.05
    ),
    "merge_all": Row(lambda o, r, s: s.pipe(o.map(lambda n: r.of(n)), o.merge_all()), HIGHER, 0.05),
    "switch_latest": Row(lambda o, r, s: s.pipe(o.map(lambda n: r.of(n)), o.switch_latest()), HIGHER, 0.05),
    "switch_map": Row(lambda o, r, s: s.pipe(o.switch_map(lambda n: r.of(n))), HIGHER, 0.05),
    "switch_map_indexed": Row(lambda o, r, s: s.pipe(o.switch_map_indexed(lambda n, i: r.of(n))), HIGHER, 0.05),
    "throttle_with_mapper": Row(lambda o, r, s: s.pipe(o.throttle_with_mapper(lambda n: r.empty())), HIGHER, 0.05),
    "timeout_with_mapper": Row(
        lambda o, r, s: s.pipe(o.timeout_with_mapper(r.never(), lambda n: r.never(), r.empty())), HIGHER, 0.05
    ),
    "window_with_count": Row(
        lambda o, r, s: s.pipe(o.window_with_count(10), o.flat_map(lambda w: w.pipe(o.sum()))), HIGHER, 0.2
    ),
    "buffer": Row(lambda o, r, s: s.pipe(o.buffer(s.pipe(o.filter(lambda n: n % 10 == 9)))), HIGHER, 0.2),
    "buffer_when": Row(lambda o, r, s: s.pipe(o.buffer_when(lambda: s.pipe(o.skip(9)))), HIGHER, 0.1),
    "buffer_toggle": Row(
        lambda o, r, s: s.pipe(
            o.buffer_toggle(s.pipe(o.filter(lambda n: n % 10 == 0)), lambda n: s.pipe(o.skip(5)))
        ),
        HIGHER, 0.1,
    ),
    "window": Row(
        lambda o, r, s: s.pipe(
            o.window(s.pipe(o.filter(lambda n: n % 10 == 9))), o.flat_map(lambda w: w.pipe(o.sum()))
        ),
        HIGHER, 0.2,
    ),
    "window_when": Row(
        lambda o, r, s: s.pipe(o.window_when(lambda: s.pipe(o.skip(9))), o.flat_map(lambda w: w.pipe(o.sum()))),
        HIGHER, 0.1,
    ),
    "window_toggle": Row(
        lambda o, r, s: s.pipe(
            o.window_toggle(s.pipe(o.filter(lambda n: n % 10 == 0)), lambda n: s.pipe(o.skip(5))),
            o.flat_map(lambda w: w.pipe(o.sum())),
        ),
        HIGHER, 0.1,
    ),
    "group_by_until": Row(
        lambda o, r, s: s.pipe(
            o.group_by_until(tens, None, lambda g: g.pipe(o.skip(9))),
            o.flat_map(lambda g: g.pipe(o.sum())),
        ),
        HIGHER, 0.1,
    ),
    "join": Row(lambda o, r, s: s.pipe(o.join(s, lambda n: r.empty(), lambda n: r.empty())), HIGHER, 0.05),
    "group_join": Row(lambda o, r, s: s.pipe(o.group_join(s, lambda n: r.empty(), lambda n: r.empty())), HIGHER, 0.05),
}  # fmt: skip

OTHER_ROWS: dict[str, Build] = {
    "amb": lambda o, r, s: s.pipe(o.amb(r.never())),
    "catch": lambda o, r, s: s.pipe(o.catch(r.never())),
    "combine_latest": lambda o, r, s: s.pipe(o.combine_latest(s)),
    "concat": lambda o, r, s: s.pipe(o.concat(r.never())),
    "do_while": lambda o, r, s: s.pipe(o.do_while(never)),
    "fork_join": lambda o, r, s: s.pipe(o.fork_join(s)),
    "merge": lambda o, r, s: s.pipe(o.merge(r.never())),
    "on_error_resume_next": lambda o, r, s: s.pipe(o.on_error_resume_next(r.never())),
    "publish, mapper": lambda o, r, s: s.pipe(o.publish(lambda xs: xs.pipe(o.map(same)))),
    "repeat": lambda o, r, s: s.pipe(o.repeat(2)),
    "replay, mapper": lambda o, r, s: s.pipe(o.replay(2, mapper=lambda xs: xs.pipe(o.map(same)))),
    "retry": lambda o, r, s: s.pipe(o.retry(2)),
    "sample, another": lambda o, r, s: s.pipe(o.sample(s.pipe(o.filter(lambda n: n % 2)))),
    "sequence_equal": lambda o, r, s: s.pipe(o.sequence_equal(s)),
    "share": lambda o, r, s: s.pipe(o.share()),
    "skip_until": lambda o, r, s: s.pipe(o.skip_until(r.of(1))),
    "start_with": lambda o, r, s: s.pipe(o.start_with(1)),
    "take_until": lambda o, r, s: s.pipe(o.take_until(r.never())),
    "take_until, another": lambda o, r, s: s.pipe(o.take_until(s.pipe(o.filter(lambda n: n < 0)))),
    "while_do": lambda o, r, s: s.pipe(o.while_do(always)),
    "with_latest_from": lambda o, r, s: s.pipe(o.with_latest_from(s)),
    "zip": lambda o, r, s: s.pipe(o.zip(s)),
    "zip_latest": lambda o, r, s: s.pipe(o.zip_latest(s)),
}

TIMED_ROWS: dict[str, Build] = {
    "buffer_with_time": lambda o, r, s: s.pipe(o.buffer_with_time(10.0)),
    "buffer_with_time_or_count": lambda o, r, s: s.pipe(o.buffer_with_time_or_count(10.0, 20)),
    "debounce": lambda o, r, s: s.pipe(o.debounce(1.5)),
    "delay": lambda o, r, s: s.pipe(o.delay(5.0)),
    "delay_subscription": lambda o, r, s: s.pipe(o.delay_subscription(0.5)),
    "sample": lambda o, r, s: s.pipe(o.sample(2.5)),
    "skip_last_with_time": lambda o, r, s: s.pipe(o.skip_last_with_time(5.0)),
    "skip_until_with_time": lambda o, r, s: s.pipe(o.skip_until_with_time(5.0)),
    "skip_with_time": lambda o, r, s: s.pipe(o.skip_with_time(5.0)),
    "take_last_with_time": lambda o, r, s: s.pipe(o.take_last_with_time(5.0)),
    "take_until_with_time": lambda o, r, s: s.pipe(o.take_until_with_time(1e9)),
    "take_with_time": lambda o, r, s: s.pipe(o.take_with_time(1e9)),
    "throttle_first": lambda o, r, s: s.pipe(o.throttle_first(2.5)),
    "throttle_with_timeout": lambda o, r, s: s.pipe(o.throttle_with_timeout(1.5)),
    "time_interval": lambda o, r, s: s.pipe(o.time_interval()),
    "timeout": lambda o, r, s: s.pipe(o.timeout(5.0)),
    "timestamp": lambda o, r, s: s.pipe(o.timestamp()),
    "window_with_time": lambda o, r, s: s.pipe(o.window_with_time(10.0), o.flat_map(lambda w: w.pipe(o.sum()))),
    "window_with_time_or_count": lambda o, r, s: s.pipe(
        o.window_with_time_or_count(10.0, 20), o.flat_map(lambda w: w.pipe(o.sum()))
    ),
}

ROWS: dict[str, Row] = {
    **{name: Row(build, LINEAR) for name, build in LINEAR_ROWS.items()},
    **HIGHER_ROWS,
    **{name: Row(build, OTHER, 0.5) for name, build in OTHER_ROWS.items()},
    **{name: Row(build, TIMED, 0.2) for name, build in TIMED_ROWS.items()},
}
