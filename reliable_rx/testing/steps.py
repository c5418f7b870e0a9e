"""The steps that `recipes` are made of, where no other recipe runs inside: every operator, whole numbers in and out.

A step is a function of `Tools` and a query. What RxPY does not have is told it in its own operators, and what it keeps
once for all subscriptions (its defect) is made anew for each. Durations are whole 64ths of a second, odd ones: see
`reliable_rx.testing.recipes`. Steps with recipes inside are in `steps_inner`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import reactivex
from reactivex.internal.constants import UTC_ZERO
from reactivex.observer import Observer
from reactivex.subject import ReplaySubject


@dataclass(frozen=True)
class Tools:
    """What a recipe is cooked with."""

    ops: Any
    rx: Any
    sources: tuple[Any, ...]

    @property
    def plain(self) -> bool:
        """Whether this is RxPY's own."""
        return self.rx is reactivex

    def other(self, number: int) -> Any:
        """Return a source; the same one may be asked for again and again."""
        return self.sources[number % len(self.sources)]


Apply = Callable[..., Any]


def bounded(value: Any) -> int:
    """Keep numbers small, whatever an operator made of them."""
    if isinstance(value, (list, tuple)):
        return sum(bounded(each) * (place + 2) for place, each in enumerate(value)) % 11
    if isinstance(value, (set, dict)):
        return bounded(sorted(value.items() if isinstance(value, dict) else value))
    return int(value) % 11 if isinstance(value, (int, float)) else len(str(value)) % 11


def add(total: int, value: int) -> int:
    return (total + value) % 11


def odd(value: int) -> bool:
    return value % 2 == 1


def third(value: int) -> int:
    return value % 3


def order(one: int, other: int) -> int:
    return int(one > other) - int(one < other)


def near(one: int, other: int) -> bool:
    return abs(one - other) < 2


def fails_on_four(value: int) -> int:
    if value == 4:
        raise ValueError("four")
    return value


def message(error: Exception) -> int:
    return len(str(error)) % 11


def ignore(*_: Any) -> None:
    """An effect that nobody sees."""


def op(name: str, *args: Any, **named: Any) -> Apply:
    """A step that is just one operator with these parameters."""
    return lambda t, q: q.pipe(getattr(t.ops, name)(*args, **named))


def number(name: str, *args: Any, **named: Any) -> Apply:
    """The same, and a number made of what it emits."""
    return lambda t, q: q.pipe(getattr(t.ops, name)(*args, **named), t.ops.map(bounded))


def anew(apply: Apply) -> Apply:
    """The same step, made anew for each subscription on RxPY, which keeps an index or an iterator for all of them."""
    return lambda t, q: reactivex.defer(lambda _: apply(t, q)) if t.plain else apply(t, q)


def after(t: Tools, seconds: float, value: int) -> Any:
    """A sequence that emits *value* after some time."""
    return t.rx.timer(seconds).pipe(t.ops.map(lambda _: value))


def again(t: Tools, shared: Any) -> Any:
    """Read a shared sequence, and anew with every element of it."""
    return shared.pipe(t.ops.flat_map(lambda x: shared.pipe(t.ops.take(2), t.ops.map(lambda y: add(x, y)))))


def with_itself(t: Tools, shared: Any) -> Any:
    return shared.pipe(t.ops.filter(odd), t.ops.merge(shared))


def with_backoff(t: Tools, query: Any) -> Any:
    failing = query.pipe(t.ops.map(fails_on_four))
    if not t.plain:
        return failing.pipe(t.ops.retry_with_backoff(2, first_s=0.765625, max_s=9.0))
    return failing.pipe(t.ops.catch(lambda error, source: t.rx.timer(0.765625).pipe(t.ops.flat_map(lambda _: failing))))


def inactive(t: Tools, query: Any) -> Any:
    if not t.plain:
        return query.pipe(t.ops.buffer_with_inactivity(1.828125), t.ops.map(bounded))
    lists = t.ops.publish(lambda p: p.pipe(t.ops.buffer(p.pipe(t.ops.debounce(1.828125))), t.ops.filter(len)))
    return query.pipe(lists, t.ops.map(bounded))


def stamped(at: Any) -> int:
    return (int(at.value) + int((at.timestamp - UTC_ZERO).total_seconds() * 64)) % 11


VALUES: dict[str, Apply] = {
    "map": lambda t, q: q.pipe(t.ops.map(lambda x: (x * 3 + 1) % 11)),
    "map_indexed": anew(lambda t, q: q.pipe(t.ops.map_indexed(add))),
    "starmap": lambda t, q: q.pipe(t.ops.map(lambda x: (x, 3)), t.ops.starmap(add)),
    "starmap_indexed": anew(
        lambda t, q: q.pipe(t.ops.map(lambda x: (x, 3)), t.ops.starmap_indexed(lambda x, y, i: (x + y + i) % 11))
    ),
    "pluck": lambda t, q: q.pipe(t.ops.map(lambda x: {"x": x}), t.ops.pluck("x")),
    "pluck_attr": lambda t, q: q.pipe(t.ops.pluck_attr("real")),
    "filter": lambda t, q: q.pipe(t.ops.filter(odd)),
    "filter_indexed": anew(lambda t, q: q.pipe(t.ops.filter_indexed(lambda x, i: (x + i) % 3 != 1))),
    "where_key": lambda t, q: q.pipe(t.ops.filter(lambda x: third(x) == 1) if t.plain else t.ops.where_key(third, 1)),
    "as_observable": op("as_observable"),
    "do": lambda t, q: q.pipe(t.ops.do(Observer(ignore, ignore, ignore))),
    "do_action": lambda t, q: q.pipe(t.ops.do_action(ignore, ignore, ignore)),
    "tap": lambda t, q: q.pipe(t.ops.tap(fails_on_four)),
    "finally_action": lambda t, q: q.pipe(t.ops.finally_action(ignore)),
    "scan": lambda t, q: q.pipe(t.ops.scan(add, 0)),
    "scan_unseeded": lambda t, q: q.pipe(t.ops.scan(add)),
    "distinct": op("distinct"),
    "distinct_by": op("distinct", third),
    "distinct_near": op("distinct", None, near),
    "distinct_until_changed": op("distinct_until_changed", odd),
    "pairwise": number("pairwise"),
    "start_with": op("start_with", 5, 6),
    "default_if_empty": op("default_if_empty", 7),
    "ignore_elements": op("ignore_elements"),
    "materialized": lambda t, q: q.pipe(t.ops.materialize(), t.ops.skip(1), t.ops.dematerialize()),
    "mended": lambda t, q: q.pipe(
        t.ops.map(fails_on_four), t.ops.materialize(), t.ops.filter(lambda n: n.kind != "E"), t.ops.dematerialize()
    ),
    "zip_with_iterable": lambda t, q: q.pipe(t.ops.zip_with_iterable((1, 3, 5, 7)), t.ops.map(bounded)),
    "zip_with_list": lambda t, q: q.pipe(t.ops.zip_with_list([2, 4, 6]), t.ops.map(bounded)),
}
"""One for one, or fewer."""

ENDS: dict[str, Apply] = {
    "take": op("take", 3),
    "take_while": op("take_while", lambda x: x < 9),
    "take_while_inclusive": op("take_while", lambda x: x < 4, inclusive=True),
    "take_while_indexed": anew(op("take_while_indexed", lambda x, i: x + i < 12)),
    "take_last": op("take_last", 2),
    "take_last_buffer": number("take_last_buffer", 3),
    "skip": op("skip", 1),
    "skip_while": op("skip_while", lambda x: x < 2),
    "skip_while_indexed": anew(op("skip_while_indexed", lambda x, i: x > i)),
    "skip_last": op("skip_last", 2),
    "slice": op("slice", 1, 7, 2),
    "slice_last": op("slice", -4, -1),
    "element_at": op("element_at", 2),
    "element_at_or_default": op("element_at_or_default", 3, 8),
    "first": op("first"),
    "first_or_default": op("first_or_default", lambda x: x > 2, 9),
    "last": op("last"),
    "last_or_default": op("last_or_default", 4, odd),
    "single": op("single"),
    "single_or_default": op("single_or_default", lambda x: x == 3, 6),
    "single_or_default_async": op("single_or_default_async", True, 2),
    "find": lambda t, q: q.pipe(t.ops.find(lambda x, i, s: x > 3), t.ops.map(lambda x: 10 if x is None else x)),
    "find_index": op("find_index", lambda x, i, s: x > 3),
}
"""Some of them, counted from the beginning or the end."""

SUMS: dict[str, Apply] = {
    "reduce": op("reduce", add, 1),
    "count": op("count"),
    "count_of": op("count", odd),
    "sum": op("sum"),
    "average": number("average"),
    "min": op("min"),
    "max": op("max", order),
    "min_by": number("min_by", third),
    "max_by": number("max_by", third, order),
    "all": number("all", lambda x: x < 8),
    "some": number("some", lambda x: x > 6),
    "contains": number("contains", 5),
    "is_empty": number("is_empty"),
    "to_list": number("to_list"),
    "to_iterable": number("to_iterable"),
    "to_set": number("to_set"),
    "to_dict": number("to_dict", third, lambda x: x + 1),
    "sequence_equal": number("sequence_equal", [1, 2]),
    "buffer_with_count": number("buffer_with_count", 3, 2),
}
"""One of many."""

AGAIN: dict[str, Apply] = {
    "catch": lambda t, q: q.pipe(
        t.ops.map(fails_on_four), t.ops.catch(lambda error, source: t.rx.of(message(error)))
    ),
    "on_error_resume_next": lambda t, q: q.pipe(
        t.ops.map(fails_on_four), t.ops.on_error_resume_next(after(t, 1.109375, 2))
    ),
    "retry": lambda t, q: q.pipe(t.ops.map(fails_on_four), t.ops.retry(2)),
    "retry_with_backoff": with_backoff,
    "repeat": lambda t, q: q.pipe(t.ops.start_with(2), t.ops.repeat(3)),
    "repeat_taken": lambda t, q: q.pipe(t.ops.take(2), t.ops.repeat(2)),
    "while_do": anew(lambda t, q: q.pipe(t.ops.start_with(3), t.ops.while_do(lambda _: True), t.ops.take(6))),
    "do_while": anew(lambda t, q: q.pipe(t.ops.start_with(4), t.ops.do_while(lambda _: True), t.ops.take(5))),
    "do_once": anew(lambda t, q: q.pipe(t.ops.do_while(lambda _: False))),
}  # fmt: skip
"""Mending and resubscribing. What is endless is taken from: a source that is over ends each time at once."""

TIME: dict[str, Apply] = {
    "debounce": op("debounce", 1.375),
    "throttle_with_timeout": op("throttle_with_timeout", 1.265625),
    "throttle_with_mapper": lambda t, q: q.pipe(t.ops.throttle_with_mapper(lambda x: t.rx.timer(0.796875 + x / 8))),
    "throttle_first": op("throttle_first", 1.546875),
    "delay": op("delay", 2.609375),
    "delay_subscription": op("delay_subscription", 1.390625),
    "delay_with_mapper": lambda t, q: q.pipe(t.ops.delay_with_mapper(lambda x: t.rx.timer(0.578125 + x * 0.375))),
    "sample": op("sample", 1.71875),
    "time_interval": lambda t, q: q.pipe(
        t.ops.time_interval(), t.ops.map(lambda x: (x.value + x.interval.microseconds) % 11)
    ),
    "timestamp": lambda t, q: q.pipe(t.ops.timestamp(), t.ops.map(stamped)),
    "timeout": lambda t, q: q.pipe(t.ops.timeout(2.921875, t.rx.of(8, 9))),
    "timeout_with_mapper": lambda t, q: q.pipe(
        t.ops.timeout_with_mapper(t.rx.timer(6.671875), lambda x: t.rx.timer(2.140625 + x / 4), t.rx.of(7))
    ),
    "buffer_with_time": number("buffer_with_time", 2.171875),
    "buffer_with_time_shifted": number("buffer_with_time", 2.296875, 1.421875),
    "buffer_with_time_or_count": number("buffer_with_time_or_count", 2.046875, 2),
    "buffer_with_inactivity": inactive,
    "take_with_time": op("take_with_time", 6.484375),
    "take_until_with_time": op("take_until_with_time", UTC_ZERO + timedelta(seconds=13.515625)),
    "take_last_with_time": op("take_last_with_time", 3.203125),
    "skip_with_time": op("skip_with_time", 1.328125),
    "skip_until_with_time": op("skip_until_with_time", UTC_ZERO + timedelta(seconds=4.640625)),
    "skip_last_with_time": op("skip_last_with_time", 1.203125),
}
"""What a clock decides."""

SHARED: dict[str, Apply] = {
    "share": lambda t, q: with_itself(t, q.pipe(t.ops.share())),
    "share_again": lambda t, q: again(t, q.pipe(t.ops.publish(), t.ops.ref_count())),
    "publish_value": lambda t, q: with_itself(t, q.pipe(t.ops.publish_value(5), t.ops.ref_count())),
    "replay": lambda t, q: again(t, q.pipe(t.ops.replay(2), t.ops.ref_count())),
    "multicast": lambda t, q: q.pipe(
        t.ops.multicast(subject_factory=lambda _: ReplaySubject(1), mapper=lambda p: with_itself(t, p))
    ),
    "partition": lambda t, q: (lambda yes, no: yes.pipe(t.ops.scan(add, 0), t.ops.merge(no)))(
        *q.pipe(t.ops.partition(odd))
    ),
    "partition_indexed": anew(
        lambda t, q: (lambda yes, no: no.pipe(t.ops.pairwise(), t.ops.map(bounded), t.ops.merge(yes)))(
            *q.pipe(t.ops.partition_indexed(lambda x, i: i % 3 == 1))
        )
    ),
}  # fmt: skip
"""Several readers of one sequence. `replay` by time is not among them: RxPY's then reads the wall clock."""
