"""Cases of what owns inner sequences or reads durations: groups, windows, buffers and joins."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Any

from operator_cases import cases, over
from reactivex.internal.constants import UTC_ZERO as ZERO
from reactivex.subject import Subject

TWO_SOURCES: dict[str, Any] = {"sources": 2, "alphabet": (0, 1), "length_full": 2}


def lists(ops: Any) -> Any:
    return ops.flat_map(lambda w: w.pipe(ops.to_list()))


def both(ops: Any, pair: Any) -> Any:
    first, second = pair
    return first.pipe(ops.map(lambda x: ("yes", x)), ops.merge(second.pipe(ops.map(lambda x: ("no", x)))))


def endless(ops: Any, rx: Any, s: Any) -> Any:
    """Keep *s* from completing: closings that complete at once make windows without end."""
    return s.pipe(ops.merge(rx.never()))


def seconds(at: Any) -> float:
    return float((at.timestamp - ZERO).total_seconds())


def keyed_lists(ops: Any) -> Any:
    return ops.flat_map(lambda g: g.pipe(ops.to_list(), ops.map(lambda xs: (g.key, xs))))


cases(
    "group_by_until",
    {
        "timer": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x % 2, None, lambda g: rx.timer(1.5)), keyed_lists(ops)
        ),
        "timer, every event": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x % 2, lambda x: x * 10, lambda g: rx.timer(2.5)),
            ops.flat_map(lambda g: g.pipe(ops.scan(lambda a, x: a + x), ops.map(lambda x: (g.key, x)))),
        ),
        "reads the group": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: g.pipe(ops.skip(1))), keyed_lists(ops)
        ),
        "quiet group": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x % 2, None, lambda g: g.pipe(ops.debounce(1.5))), keyed_lists(ops)
        ),
        "by key": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: rx.timer(0.5 + g.key)), keyed_lists(ops)
        ),
        "never": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: rx.never()), keyed_lists(ops), ops.take(2)
        ),
        "duration completes": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: g.pipe(ops.filter(lambda x: False), ops.take(1))),
            keyed_lists(ops),
        ),
        "duration fails": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: g.pipe(ops.skip(1), ops.map(over(1, lambda x: x)))),
            keyed_lists(ops),
        ),
        "key fails": lambda ops, rx, s: s.pipe(
            ops.group_by_until(over(1, lambda x: x), None, lambda g: rx.timer(1.5)), keyed_lists(ops)
        ),
        "element fails": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x % 2, over(2, lambda x: x), lambda g: rx.timer(1.5)), keyed_lists(ops)
        ),
        "duration mapper fails": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: over(1, lambda k: rx.timer(0.5 + k))(g.key)),
            keyed_lists(ops),
        ),
        "no readers": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: rx.timer(1.5)), ops.map(lambda g: g.key)
        ),
        "take of groups": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: g.pipe(ops.skip(1))), ops.take(1), keyed_lists(ops)
        ),
        "early readers": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: g.pipe(ops.skip(2))),
            ops.flat_map(lambda g: g.pipe(ops.take(1))),
        ),
        "nested": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(
                lambda g: g.pipe(ops.group_by_until(lambda x: x, None, lambda h: rx.timer(1.5)), keyed_lists(ops))
            ),
        ),
    },
)
cases(
    "group_by_until",
    {
        "another source": lambda ops, rx, a, b: a.pipe(
            ops.group_by_until(lambda x: x % 2, None, lambda g: b), keyed_lists(ops)
        ),
    },
    **TWO_SOURCES,
)
cases(
    "group_by: subject_mapper",
    {
        "plain subjects": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2, None, Subject), ops.flat_map(lambda g: g.pipe(ops.to_list()))
        ),
        "until": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x % 2, None, lambda g: g.pipe(ops.skip(1)), Subject),
            ops.flat_map(lambda g: g.pipe(ops.to_list())),
        ),
    },
    hostable=False,
)
cases(
    "group_by: ttl_s",
    {"counts": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x % 2, ttl_s=1.5), keyed_lists(ops))},
    reference=lambda ops, rx, s: s.pipe(
        ops.group_by_until(lambda x: x % 2, None, lambda g: g.pipe(ops.debounce(1.5))), keyed_lists(ops)
    ),
)
cases(
    "group_by: ttl_s as long as a gap",
    {"counts": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x % 2, ttl_s=2.0), keyed_lists(ops))},
    reference=lambda ops, rx, s: s.pipe(
        ops.group_by_until(lambda x: x % 2, None, lambda g: g.pipe(ops.debounce(2.0))), keyed_lists(ops)
    ),
)
cases(
    "group_by: one group",
    {
        "oldest": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x, groups_max=1, evict="oldest"), keyed_lists(ops)),
        "least recent": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x, groups_max=1, evict="least_recent"), keyed_lists(ops)
        ),
        "until": lambda ops, rx, s: s.pipe(
            ops.group_by_until(lambda x: x, None, lambda g: rx.never(), groups_max=1, evict="oldest"), keyed_lists(ops)
        ),
    },
    reference=lambda ops, rx, s: s.pipe(
        ops.publish(
            lambda p: p.pipe(
                ops.group_by_until(lambda x: x, None, lambda g: p.pipe(ops.filter(lambda x: x != g.key), ops.take(1))),
                keyed_lists(ops),
            )
        )
    ),
)


def evicting(most: int, policy: str) -> Any:
    """Return a model in plain Python: the lists of groups as these are given up."""

    def build(ops: Any, rx: Any, s: Any) -> Any:
        groups: OrderedDict[Any, list[Any]] = OrderedDict()

        def subscribe(observer: Any, scheduler: Any = None) -> Any:
            def on_next(x: Any) -> None:
                if x not in groups:
                    while len(groups) >= most:
                        observer.on_next(groups.popitem(last=False))
                    groups[x] = []
                elif policy == "least_recent":
                    groups.move_to_end(x)
                groups[x].append(x)

            def on_completed() -> None:
                for each in groups.items():
                    observer.on_next(each)
                observer.on_completed()

            return s.subscribe(on_next, observer.on_error, on_completed, scheduler=scheduler)

        return rx.create(subscribe)

    return build


for _policy in ("oldest", "least_recent"):
    cases(
        f"group_by: two groups, {_policy}",
        {
            "lists": lambda ops, rx, s, policy=_policy: s.pipe(
                ops.group_by(lambda x: x, groups_max=2, evict=policy), keyed_lists(ops)
            ),
            "until": lambda ops, rx, s, policy=_policy: s.pipe(
                ops.group_by_until(lambda x: x, None, lambda g: g.pipe(ops.skip(9)), groups_max=2, evict=policy),
                keyed_lists(ops),
            ),
        },
        reference=evicting(2, _policy),
    )


def keys_begun(most: int, policy: str) -> Any:
    """Return a model of the keys of groups that nobody reads: each time one begins, as others are given up."""

    def step(before: tuple[tuple[Any, ...], bool], x: Any) -> tuple[tuple[Any, ...], bool]:
        keys = OrderedDict.fromkeys(before[0])
        begins = x not in keys  # which raises for what cannot be hashed, as group_by does
        if begins:
            while len(keys) >= most:
                keys.popitem(last=False)
            keys[x] = None
        elif policy == "least_recent":
            keys.move_to_end(x)
        return tuple(keys), begins

    def build(ops: Any, rx: Any, s: Any) -> Any:
        return s.pipe(ops.scan(step, ((), False)), ops.filter(lambda each: each[1]), ops.map(lambda each: each[0][-1]))

    return build


for _policy in ("oldest", "least_recent"):
    cases(
        f"group_by: two groups that nobody reads, {_policy}",
        {
            "keys": lambda ops, rx, s, policy=_policy: s.pipe(
                ops.group_by(lambda x: x, groups_max=2, evict=policy), ops.map(lambda group: group.key)
            )
        },
        reference=keys_begun(2, _policy),
    )


def remembering(most: int, policy: str, ttl_s: float) -> Any:
    """Return a model in plain Python: the keys that are known, each with when it passed."""

    def build(ops: Any, rx: Any, s: Any) -> Any:
        known: OrderedDict[Any, float] = OrderedDict()

        def passes(at: Any) -> bool:
            if at.value in known and seconds(at) - known[at.value] <= ttl_s:
                if policy == "least_recent":
                    known.move_to_end(at.value)
                return False
            for key in [key for key, passed in known.items() if seconds(at) - passed > ttl_s]:
                del known[key]
            while len(known) >= most:
                known.popitem(last=False)
            known[at.value] = seconds(at)
            return True

        return s.pipe(ops.timestamp(), ops.filter(passes), ops.map(lambda at: at.value))

    return build


for _policy in ("oldest", "least_recent"):
    cases(
        f"distinct: two keys, {_policy}",
        {
            "keys": lambda ops, rx, s, policy=_policy: s.pipe(ops.distinct(keys_max=2, evict=policy)),
        },
        reference=remembering(2, _policy, 99.0),
    )
cases(
    "distinct: ttl_s",
    {"keys": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: x, ttl_s=2.0))},
    reference=remembering(9, "oldest", 2.0),
    gaps_s=(1.0, 1.5),
    length_full=3,
)
cases(
    "distinct: ttl_s and two keys",
    {"keys": lambda ops, rx, s: s.pipe(ops.distinct(ttl_s=1.5, keys_max=2, evict="oldest"))},
    reference=remembering(2, "oldest", 1.5),
)
cases(
    "distinct: ttl_s fails",
    {"on a letter": lambda ops, rx, s: s.pipe(ops.distinct(over(1, lambda x: x), ttl_s=9.0))},
    reference=lambda ops, rx, s: s.pipe(ops.distinct(over(1, lambda x: x))),
)
cases(
    "window",
    {
        "lists": lambda ops, rx, a, b: a.pipe(ops.window(b), lists(ops)),
        "merged": lambda ops, rx, a, b: a.pipe(ops.window(b), ops.merge_all()),
        "skip and take": lambda ops, rx, a, b: a.pipe(ops.window(b), ops.skip(1), ops.take(1), lists(ops)),
        "early readers": lambda ops, rx, a, b: a.pipe(ops.window(b), ops.flat_map(lambda w: w.pipe(ops.take(1)))),
        "switch": lambda ops, rx, a, b: a.pipe(ops.window(b), ops.switch_latest()),
        "take of lists": lambda ops, rx, a, b: a.pipe(ops.window(b), lists(ops), ops.take(2)),
        "own source": lambda ops, rx, a, b: a.pipe(ops.window(a), lists(ops)),
    },
    **TWO_SOURCES,
)
cases(
    "window_when",
    {
        "timer": lambda ops, rx, a, b: a.pipe(ops.window_when(lambda: rx.timer(1.5)), ops.take(6), lists(ops)),
        "other": lambda ops, rx, a, b: a.pipe(ops.window_when(lambda: endless(ops, rx, b)), ops.take(5), lists(ops)),
        "skips": lambda ops, rx, a, b: a.pipe(
            ops.window_when(lambda: endless(ops, rx, b).pipe(ops.skip(1))), ops.take(5), lists(ops)
        ),
        "mapper fails": lambda ops, rx, a, b: a.pipe(ops.window_when(lambda: 1 // 0), lists(ops)),
        "closing fails": lambda ops, rx, a, b: a.pipe(
            ops.window_when(lambda: endless(ops, rx, b).pipe(ops.map(over(1, lambda x: x)))), ops.take(5), lists(ops)
        ),
        "one reader": lambda ops, rx, a, b: a.pipe(
            ops.window_when(lambda: rx.timer(1.5)), ops.take(1), ops.flat_map(lambda w: w.pipe(ops.count()))
        ),
    },
    **TWO_SOURCES,
)
cases(
    "window_toggle",
    {
        "timer": lambda ops, rx, a, b: a.pipe(ops.window_toggle(b, lambda x: rx.timer(1.5)), lists(ops)),
        "by value": lambda ops, rx, a, b: a.pipe(ops.window_toggle(b, lambda x: rx.timer(0.5 + x)), lists(ops)),
        "merged": lambda ops, rx, a, b: a.pipe(ops.window_toggle(b, lambda x: rx.timer(2.5)), ops.merge_all()),
        "closing by the source": lambda ops, rx, a, b: a.pipe(ops.window_toggle(b, lambda x: a), lists(ops)),
        "mapper fails": lambda ops, rx, a, b: a.pipe(
            ops.window_toggle(b, over(1, lambda x: rx.timer(1.5))), lists(ops)
        ),
        "closing fails": lambda ops, rx, a, b: a.pipe(
            ops.window_toggle(b, lambda x: rx.timer(1.5).pipe(ops.map(over(0, lambda y: y)))), lists(ops)
        ),
        "take": lambda ops, rx, a, b: a.pipe(
            ops.window_toggle(b, lambda x: rx.timer(1.5)), ops.take(1), ops.flat_map(lambda w: w)
        ),
        "early readers": lambda ops, rx, a, b: a.pipe(
            ops.window_toggle(b, lambda x: rx.never()), ops.flat_map(lambda w: w.pipe(ops.take(1)))
        ),
    },
    **TWO_SOURCES,
)
cases(
    "buffer",
    {
        "lists": lambda ops, rx, a, b: a.pipe(ops.buffer(b)),
        "take": lambda ops, rx, a, b: a.pipe(ops.buffer(b), ops.take(1)),
        "own source": lambda ops, rx, a, b: a.pipe(ops.buffer(a)),
    },
    **TWO_SOURCES,
)
cases(
    "buffer_when",
    {
        "timer": lambda ops, rx, a, b: a.pipe(ops.buffer_when(lambda: rx.timer(1.5)), ops.take(6)),
        "other": lambda ops, rx, a, b: a.pipe(ops.buffer_when(lambda: endless(ops, rx, b)), ops.take(5)),
        "mapper fails": lambda ops, rx, a, b: a.pipe(ops.buffer_when(lambda: 1 // 0)),
        "closing fails": lambda ops, rx, a, b: a.pipe(
            ops.buffer_when(lambda: endless(ops, rx, b).pipe(ops.map(over(1, lambda x: x)))), ops.take(5)
        ),
    },
    **TWO_SOURCES,
)
cases(
    "buffer_toggle",
    {
        "timer": lambda ops, rx, a, b: a.pipe(ops.buffer_toggle(b, lambda x: rx.timer(1.5))),
        "by value": lambda ops, rx, a, b: a.pipe(ops.buffer_toggle(b, lambda x: rx.timer(0.5 + x))),
        "closing by the source": lambda ops, rx, a, b: a.pipe(ops.buffer_toggle(b, lambda x: a)),
        "mapper fails": lambda ops, rx, a, b: a.pipe(ops.buffer_toggle(b, over(1, lambda x: rx.timer(1.5)))),
        "closing fails": lambda ops, rx, a, b: a.pipe(
            ops.buffer_toggle(b, lambda x: rx.timer(1.5).pipe(ops.map(over(0, lambda y: y))))
        ),
        "take": lambda ops, rx, a, b: a.pipe(ops.buffer_toggle(b, lambda x: rx.timer(1.5)), ops.take(1)),
    },
    **TWO_SOURCES,
)
for _gap_s in (1.5, 2.0):
    cases(
        f"inactivity of {_gap_s}",
        {
            "lists": lambda ops, rx, s, gap=_gap_s: s.pipe(ops.buffer_with_inactivity(gap)),
            "windows": lambda ops, rx, s, gap=_gap_s: s.pipe(ops.window_with_inactivity(gap), lists(ops)),
        },
        reference=lambda ops, rx, s, gap=_gap_s: s.pipe(
            ops.publish(lambda p: p.pipe(ops.buffer(p.pipe(ops.debounce(gap))), ops.filter(len)))
        ),
        gaps_s=(1.0, 2.0),
        length_full=3,
    )
cases(
    "window_with_inactivity",
    {
        "per key": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(
                lambda g: g.pipe(
                    ops.window_with_inactivity(1.5),
                    ops.flat_map(lambda w: w.pipe(ops.to_list(), ops.map(lambda xs: (g.key, xs)))),
                )
            ),
        )
    },
    reference=lambda ops, rx, s: s.pipe(
        ops.group_by(lambda x: x % 2),
        ops.flat_map(
            lambda g: g.pipe(
                ops.publish(lambda p: p.pipe(ops.buffer(p.pipe(ops.debounce(1.5))), ops.filter(len))),
                ops.map(lambda xs: (g.key, xs)),
            )
        ),
    ),
)


def spans_of(time_s: float, size: float, slide: float, offset: float) -> list[tuple[float, float]]:
    """Name the windows that have *time_s* in them, from the definition."""
    starts = [offset + n * slide for n in range(-20, 40)]
    return [(start, start + size) for start in starts if start <= time_s < start + size]


def aligned(size: float, slide: float, offset: float = 0.0) -> Any:
    """Return aligned windows in plain Rx: groups by span, until that is over."""
    return lambda ops, rx, s: s.pipe(
        ops.timestamp(),
        ops.flat_map(lambda at: [(span, at.value) for span in spans_of(seconds(at), size, slide, offset)]),
        ops.group_by_until(
            lambda each: each[0], lambda each: each[1], lambda g: rx.timer(ZERO + timedelta(seconds=g.key[1]))
        ),
        keyed_lists(ops),
    )


for _size_s, _slide_s, _offset_s in (
    (2.0, 2.0, 0.0),
    (3.0, 3.0, 1.0),
    (3.0, 1.0, 0.0),
    (2.5, 1.5, 0.25),
    (1.0, 2.0, 0.0),
):
    cases(
        f"aligned window {_size_s} {_slide_s} {_offset_s}",
        {
            "sliding": lambda ops, rx, s, size=_size_s, slide=_slide_s, offset=_offset_s: s.pipe(
                ops.sliding_window(size, slide, offset_s=offset), keyed_lists(ops)
            )
        },
        reference=aligned(_size_s, _slide_s, _offset_s),
        gaps_s=(1.0, 2.5),
        length_full=3,
    )
cases(
    "tumbling_window",
    {"keyed": lambda ops, rx, s: s.pipe(ops.tumbling_window(2.0, offset_s=0.5), keyed_lists(ops))},
    reference=aligned(2.0, 2.0, 0.5),
)
DURATIONS = {
    "timers": lambda rx: (lambda x: rx.timer(1.5), lambda x: rx.timer(1.5)),
    "by value": lambda rx: (lambda x: rx.timer(0.5 + x), lambda x: rx.timer(2.5 - x)),
    "never": lambda rx: (lambda x: rx.never(), lambda x: rx.never()),
    "left short": lambda rx: (lambda x: rx.timer(0.5), lambda x: rx.never()),
    "right short": lambda rx: (lambda x: rx.never(), lambda x: rx.timer(0.5)),
    "left mapper fails": lambda rx: (over(1, lambda x: rx.timer(1.5)), lambda x: rx.timer(1.5)),
    "right mapper fails": lambda rx: (lambda x: rx.timer(1.5), over(1, lambda x: rx.timer(1.5))),
    "fails": lambda rx: (lambda x: rx.throw(ValueError("late")) if x == 1 else rx.timer(1), lambda x: rx.timer(1.5)),
}
cases(
    "join",
    {
        name: lambda ops, rx, a, b, durations=durations: a.pipe(ops.join(b, *durations(rx)))
        for name, durations in DURATIONS.items()
    },
    **TWO_SOURCES,
)
cases(
    "join",
    {
        "take": lambda ops, rx, a, b: a.pipe(ops.join(b, lambda x: rx.timer(2.5), lambda x: rx.never()), ops.take(2)),
        "durations of the sources": lambda ops, rx, a, b: a.pipe(ops.join(b, lambda x: b, lambda x: a)),
        "with itself": lambda ops, rx, a, b: a.pipe(ops.join(a, lambda x: rx.timer(1.5), lambda x: rx.timer(1.5))),
    },
    **TWO_SOURCES,
)
cases(
    "group_join",
    {
        name: lambda ops, rx, a, b, durations=durations: a.pipe(
            ops.group_join(b, *durations(rx)),
            ops.flat_map(lambda pair: pair[1].pipe(ops.map(lambda y: (pair[0], y)))),
        )
        for name, durations in DURATIONS.items()
    },
    **TWO_SOURCES,
)
cases(
    "group_join",
    {
        "counts": lambda ops, rx, a, b: a.pipe(
            ops.group_join(b, lambda x: rx.timer(1.5), lambda x: rx.timer(1.5)),
            ops.flat_map(lambda pair: pair[1].pipe(ops.count(), ops.map(lambda n: (pair[0], n)))),
        ),
        "no readers": lambda ops, rx, a, b: a.pipe(
            ops.group_join(b, lambda x: rx.timer(1.5), lambda x: rx.timer(1.5)), ops.map(lambda pair: pair[0])
        ),
        "take": lambda ops, rx, a, b: a.pipe(
            ops.group_join(b, lambda x: rx.timer(2.5), lambda x: rx.never()),
            ops.take(1),
            ops.flat_map(lambda pair: pair[1]),
        ),
    },
    **TWO_SOURCES,
)
cases(
    "join_within",
    {"equal": lambda ops, rx, a, b: a.pipe(ops.join_within(b, lambda x: x, within_s=1.5))},
    reference=lambda ops, rx, a, b: a.pipe(
        ops.join(b, lambda x: rx.timer(1.5), lambda x: rx.timer(1.5)),
        ops.filter(lambda pair: pair[0] == pair[1]),
    ),
    **TWO_SOURCES,
)
cases(
    "join_within the edge",
    {
        "other key": lambda ops, rx, a, b: a.pipe(
            ops.join_within(b, lambda x: x, within_s=2.0, other_key=lambda y: 1 - y)
        )
    },
    reference=lambda ops, rx, a, b: a.pipe(
        ops.join(b, lambda x: rx.timer(2.0), lambda x: rx.timer(2.0)), ops.filter(lambda pair: pair[0] == 1 - pair[1])
    ),
    **TWO_SOURCES,
)
cases(
    "join_within fails",
    {"on a letter": lambda ops, rx, a, b: a.pipe(ops.join_within(b, over(1, lambda x: 0), within_s=1.5))},
    reference=lambda ops, rx, a, b: a.pipe(
        ops.map(over(1, lambda x: x)),
        ops.join(b.pipe(ops.map(over(1, lambda x: x))), lambda x: rx.timer(1.5), lambda x: rx.timer(1.5)),
    ),
    **TWO_SOURCES,
)
cases(
    "partition",
    {
        "both": lambda ops, rx, s: both(ops, s.pipe(ops.partition(lambda x: x % 2))),
        "one": lambda ops, rx, s: s.pipe(ops.partition(lambda x: x % 2))[1],
        "fails": lambda ops, rx, s: both(ops, s.pipe(ops.partition(over(1, lambda x: x == 2)))),
        "indexed": lambda ops, rx, s: both(ops, s.pipe(ops.partition_indexed(lambda x, i: i % 2))),
        "indexed, one": lambda ops, rx, s: s.pipe(ops.partition_indexed(lambda x, i: x == i))[1].pipe(ops.take(2)),
    },
)
