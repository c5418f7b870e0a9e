"""The steps of `recipes` that read sequences of sequences, or other recipes: behind a source, or inside each window.

Those of `INNER` and `MADE` make their inner sequences themselves, those of `NESTED` take recipes. See `steps` for the
rules.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import reactivex
from reactivex.internal.constants import UTC_ZERO

from reliable_rx.testing.steps import Apply, Tools, after, anew, bounded, odd, third, with_itself


def few(t: Tools, x: int) -> Any:
    """A sequence that goes on for a while."""
    return t.rx.interval(0.9375).pipe(t.ops.take(3), t.ops.map(lambda n: (n + x) % 11))


def grown(t: Tools, x: int) -> Any:
    return after(t, 0.84375, x + 4) if x < 7 else t.rx.empty()


def spans(time_s: float, size_s: float, slide_s: float) -> list[float]:
    """Name the aligned windows that have *time_s* in them by where they end."""
    last = int(time_s // slide_s)
    return [n * slide_s + size_s for n in range(last - 9, last + 1) if n * slide_s <= time_s < n * slide_s + size_s]


def aligned(t: Tools, query: Any, size_s: float, slide_s: float) -> Any:
    """Return aligned windows in plain Rx: groups by their end, until then."""

    def placed(at: Any) -> list[tuple[float, int]]:
        time_s = (at.timestamp - UTC_ZERO).total_seconds()
        return [(end_s, at.value) for end_s in spans(time_s, size_s, slide_s)]

    return spread(query.pipe(t.ops.timestamp(), t.ops.map(placed))).pipe(
        t.ops.group_by_until(
            lambda each: each[0], lambda each: each[1], lambda g: t.rx.timer(UTC_ZERO + timedelta(seconds=g.key))
        )
    )


def spread(query: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
    """Emit the elements of lists at once; what RxPY has for it schedules that."""

    def subscribe(observer: Any, scheduler: Any = None) -> Any:
        def on_next(values: list[Any]) -> None:
            for value in values:
                observer.on_next(value)

        return query.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)

    return reactivex.Observable(subscribe)


def tumbling(t: Tools, query: Any) -> Any:
    return aligned(t, query, 2.953125, 2.953125) if t.plain else query.pipe(t.ops.tumbling_window(2.953125))


def sliding(t: Tools, query: Any) -> Any:
    return aligned(t, query, 3.171875, 1.890625) if t.plain else query.pipe(t.ops.sliding_window(3.171875, 1.890625))


def quiet(t: Tools, query: Any, inside: Any) -> Any:
    """Read windows that end with a pause; RxPY has them as groups of one key."""
    if not t.plain:
        return query.pipe(t.ops.window_with_inactivity(1.859375), t.ops.flat_map(inside))
    return query.pipe(
        t.ops.group_by_until(lambda x: 0, None, lambda g: g.pipe(t.ops.debounce(1.859375))), t.ops.flat_map(inside)
    )


def joined_within(t: Tools, left: Any, right: Any) -> Any:
    if not t.plain:
        return left.pipe(t.ops.join_within(right, third, within_s=2.453125), t.ops.map(bounded))
    keyed = t.ops.map(lambda x: (third(x), x))  # asked of each element, as an operator with keys does
    return left.pipe(
        keyed,
        t.ops.join(right.pipe(keyed), lambda x: t.rx.timer(2.453125), lambda x: t.rx.timer(2.453125)),
        t.ops.filter(lambda pair: pair[0][0] == pair[1][0]),
        t.ops.map(lambda pair: bounded((pair[0][1], pair[1][1]))),
    )


def openings(t: Tools, a: Any) -> Any:
    """Open at no time at which the source emits: on RxPY it is up to the scheduler whether that is in the window."""
    return a.of_source(t).pipe(t.ops.delay(0.234375))


def lasting(t: Tools, seconds: float) -> Apply:
    """A duration that is longer for larger numbers."""
    return lambda x: t.rx.timer(seconds + x * 0.25)


INNER: dict[str, Apply] = {
    "flat_map_timer": lambda t, q: q.pipe(t.ops.flat_map(lambda x: after(t, x * 0.4375 + 0.109375, x))),
    "flat_map_of": lambda t, q: q.pipe(t.ops.flat_map(lambda x: t.rx.of(x, (x + 1) % 11))),
    "flat_map_list": lambda t, q: q.pipe(t.ops.flat_map(lambda x: [x] * third(x))),
    "flat_map_indexed": anew(
        lambda t, q: q.pipe(t.ops.flat_map_indexed(lambda x, i: after(t, 0.515625, (x + i) % 11)))
    ),
    "flat_map_latest": lambda t, q: q.pipe(t.ops.flat_map_latest(lambda x: few(t, x))),
    "concat_map": lambda t, q: q.pipe(t.ops.concat_map(lambda x: after(t, 1.765625, x))),
    "concat_all": lambda t, q: q.pipe(t.ops.map(lambda x: after(t, 1.640625, x)), t.ops.concat_all()),
    "merge_all": lambda t, q: q.pipe(t.ops.map(lambda x: after(t, 1.234375, x)), t.ops.merge_all()),
    "merge_two": lambda t, q: q.pipe(t.ops.map(lambda x: few(t, x)), t.ops.merge(max_concurrent=2)),
    "exclusive": lambda t, q: q.pipe(t.ops.map(lambda x: few(t, x)), t.ops.exclusive()),
    "switch_latest": lambda t, q: q.pipe(t.ops.map(lambda x: few(t, x)), t.ops.switch_latest()),
    "switch_map": lambda t, q: q.pipe(t.ops.switch_map(lambda x: after(t, 1.015625, x))),
    "switch_map_indexed": anew(
        lambda t, q: q.pipe(t.ops.switch_map_indexed(lambda x, i: after(t, 1.734375, (x + i) % 11)))
    ),
    "expand": lambda t, q: q.pipe(t.ops.expand(lambda x: grown(t, x))),
    "buffer_when": lambda t, q: q.pipe(t.ops.buffer_when(lambda: t.rx.timer(2.390625)), t.ops.map(bounded)),
    "group_until": lambda t, q: q.pipe(
        t.ops.group_by_until(third, None, lambda g: t.rx.timer(2.703125)), t.ops.flat_map(lambda g: g.pipe(t.ops.sum()))
    ),
    "group_until_quiet": lambda t, q: q.pipe(
        t.ops.group_by_until(odd, None, lambda g: g.pipe(t.ops.debounce(1.984375))),
        t.ops.flat_map(lambda g: g.pipe(t.ops.to_list(), t.ops.map(bounded))),
    ),
}
"""Sequences for each element."""


def made(make: Callable[[Any, int], Any]) -> Apply:
    """A step that makes a sequence of its own for each element."""
    return lambda t, q: q.pipe(t.ops.flat_map(lambda x: make(t.rx, x)))


MADE: dict[str, Apply] = {
    "range": made(lambda rx, x: rx.range(third(x))),
    "generate": made(lambda rx, x: rx.generate(x, lambda y: y < x + 2, lambda y: y + 1)),
    "generate_timed": made(
        lambda rx, x: rx.generate_with_relative_time(x, lambda y: y < x + 2, lambda y: y + 1, lambda y: 0.734375)
    ),
    "repeat_value": made(lambda rx, x: rx.repeat_value(x, third(x))),
    "for_in": made(lambda rx, x: rx.for_in([x, 3], lambda y: rx.timer(0.984375))),
    "case": made(lambda rx, x: rx.case(lambda: third(x), {0: rx.just(x), 1: rx.never()}, rx.timer(0.890625))),
    "if_then": made(lambda rx, x: rx.if_then(lambda: odd(x), rx.from_([x, 2]), rx.empty())),
    "defer": made(lambda rx, x: rx.defer(lambda scheduler: rx.return_value(x))),
    "throw": made(lambda rx, x: rx.throw(ValueError("seven")) if x == 7 else rx.from_iterable((x,))),
    "concat_made": made(lambda rx, x: rx.concat(rx.of(x), rx.timer(0.703125), rx.just(5))),
    "merge_made": made(lambda rx, x: rx.merge(rx.timer(0.671875), rx.of(x), rx.timer(0.328125))),
    "zip_made": lambda t, q: q.pipe(
        t.ops.flat_map(lambda x: t.rx.zip(t.rx.interval(0.921875), t.rx.of(x, 1))), t.ops.map(bounded)
    ),
    "amb_made": made(lambda rx, x: rx.amb(rx.timer(0.546875 + x / 4), rx.timer(1.015625))),
    "on_error_resume_next_made": made(lambda rx, x: rx.on_error_resume_next(rx.throw(ValueError("in")), rx.of(x))),
    "catch_made": made(lambda rx, x: rx.catch(rx.throw(ValueError("in")), rx.timer(0.859375))),
}  # fmt: skip
"""What creation functions make."""

NESTED: dict[str, Apply] = {
    "merge": lambda t, q, a: q.pipe(t.ops.merge(a.of_source(t))),
    "concat": lambda t, q, a: q.pipe(t.ops.concat(a.of_source(t))),
    "amb": lambda t, q, a: q.pipe(t.ops.amb(a.of_source(t))),
    "zip": lambda t, q, a: q.pipe(t.ops.zip(a.of_source(t)), t.ops.map(bounded)),
    "zip_latest": lambda t, q, a: q.pipe(t.ops.zip_latest(a.of_source(t)), t.ops.map(bounded)),
    "combine_latest": lambda t, q, a: q.pipe(t.ops.combine_latest(a.of_source(t)), t.ops.map(bounded)),
    "fork_join": lambda t, q, a: q.pipe(t.ops.fork_join(a.of_source(t)), t.ops.map(bounded)),
    "with_latest_from": lambda t, q, a: q.pipe(t.ops.with_latest_from(a.of_source(t)), t.ops.map(bounded)),
    "sequence_equal_to": lambda t, q, a: q.pipe(t.ops.sequence_equal(a.of_source(t)), t.ops.map(bounded)),
    "take_until": lambda t, q, a: q.pipe(t.ops.take_until(a.of_source(t))),
    "skip_until": lambda t, q, a: q.pipe(t.ops.skip_until(a.of_source(t))),
    "sample_by": lambda t, q, a: q.pipe(t.ops.sample(a.of_source(t))),
    "catch_by": lambda t, q, a: q.pipe(t.ops.catch(a.of_source(t))),
    "flat_map": lambda t, q, a: q.pipe(t.ops.take(3), t.ops.flat_map(lambda x: a.of_source(t))),
    "switch_map_to": lambda t, q, a: q.pipe(t.ops.switch_map(lambda x: a.of_source(t).pipe(t.ops.start_with(x)))),
    "join": lambda t, q, a: q.pipe(
        t.ops.join(a.of_source(t), lasting(t, 1.046875), lasting(t, 1.171875)), t.ops.map(bounded)
    ),
    "join_within": lambda t, q, a: joined_within(t, q, a.of_source(t)),
    "group_join": lambda t, q, a: q.pipe(
        t.ops.group_join(t.other(a.source), lasting(t, 1.078125), lasting(t, 1.140625)),
        t.ops.flat_map(lambda pair: a.cook(t, pair[1])),
    ),
    "buffer": lambda t, q, a: q.pipe(t.ops.buffer(a.of_source(t)), t.ops.map(bounded)),
    "buffer_toggle": lambda t, q, a: q.pipe(
        t.ops.buffer_toggle(openings(t, a), lasting(t, 1.296875)), t.ops.map(bounded)
    ),
    "window": lambda t, q, a: q.pipe(t.ops.window(t.other(a.source)), t.ops.flat_map(lambda w: a.cook(t, w))),
    "window_toggle": lambda t, q, a: q.pipe(
        t.ops.window_toggle(t.other(a.source).pipe(t.ops.delay(0.203125)), lasting(t, 1.359375)),
        t.ops.flat_map(lambda w: a.cook(t, w)),
    ),
    "window_when": lambda t, q, a: q.pipe(
        t.ops.window_when(lambda: t.rx.timer(2.359375)), t.ops.flat_map(lambda w: a.cook(t, w))
    ),
    "window_with_count": lambda t, q, a: q.pipe(t.ops.window_with_count(3, 2), t.ops.flat_map(lambda w: a.cook(t, w))),
    "window_with_time": lambda t, q, a: q.pipe(
        t.ops.window_with_time(2.328125), t.ops.flat_map(lambda w: a.cook(t, w))
    ),
    "window_with_time_or_count": lambda t, q, a: q.pipe(
        t.ops.window_with_time_or_count(2.265625, 2), t.ops.flat_map(lambda w: a.cook(t, w))
    ),
    "window_with_inactivity": lambda t, q, a: quiet(t, q, lambda w: a.cook(t, w)),
    "tumbling_window": lambda t, q, a: tumbling(t, q).pipe(t.ops.flat_map(lambda w: a.cook(t, w))),
    "sliding_window": lambda t, q, a: sliding(t, q).pipe(t.ops.flat_map(lambda w: a.cook(t, w))),
    "switch_windows": lambda t, q, a: q.pipe(
        t.ops.window_with_count(2), t.ops.map(lambda w: a.cook(t, w)), t.ops.switch_latest()
    ),
    "group_by": lambda t, q, a: q.pipe(t.ops.group_by(third), t.ops.flat_map(lambda g: a.cook(t, g))),
    "group_by_until": lambda t, q, a: q.pipe(
        t.ops.group_by_until(third, None, lambda g: t.rx.timer(2.484375)), t.ops.flat_map(lambda g: a.cook(t, g))
    ),
    "shared": lambda t, q, a: (lambda s: s.pipe(t.ops.merge(a.cook(t, s))))(q.pipe(t.ops.share())),
    "replayed": lambda t, q, a: (lambda s: s.pipe(t.ops.take(2), t.ops.concat(a.cook(t, s))))(
        q.pipe(t.ops.replay(1), t.ops.ref_count())
    ),
    "publish": lambda t, q, a: q.pipe(t.ops.publish(lambda p: p.pipe(t.ops.merge(a.cook(t, p))))),
    "publish_latest": lambda t, q, a: q.pipe(t.ops.publish_value(3, lambda p: a.cook(t, with_itself(t, p)))),
}
"""Steps with a recipe inside: behind another source, or behind each group or window."""
