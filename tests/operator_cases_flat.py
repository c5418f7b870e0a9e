"""The table, continued: what selectors return, merged, queued, switched, expanded, or taken as a duration."""

from __future__ import annotations

from operator_cases import GAPS, TWO, cases, over


def later(rx, ops, seconds, value):
    """A sequence that emits *value* after some seconds."""
    return rx.timer(seconds).pipe(ops.map(lambda _: value))


def two(rx, ops, x):
    """A sequence that emits twice, later."""
    return rx.timer(0.75, 1.5).pipe(ops.take(2), ops.map(lambda n: (x, n)))


cases(
    "flat_map_indexed",
    {
        "list": lambda ops, rx, s: s.pipe(ops.flat_map_indexed(lambda x, i: [x, i])),
        "of": lambda ops, rx, s: s.pipe(ops.flat_map_indexed(lambda x, i: rx.of(x, i))),
        "later": lambda ops, rx, s: s.pipe(ops.flat_map_indexed(lambda x, i: later(rx, ops, 1.25 * x + 0.5, (x, i)))),
        "fails": lambda ops, rx, s: s.pipe(ops.flat_map_indexed(over(1, lambda x, i: [x]))),
        "constant": lambda ops, rx, s: s.pipe(ops.flat_map_indexed(rx.of(7, 8))),
        "the source": lambda ops, rx, s: s.pipe(ops.flat_map_indexed(lambda x, i: s.pipe(ops.map(lambda y: (y, i))))),
    },
)
cases(
    "flat_map",
    {
        "tuple": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: (x, x + 10))),
        "set": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: {x})),
        "dict": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: {x: 1, 10: 2})),
        "empty list": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: [])),
        "list or later": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: [x, 5] if x == 1 else later(rx, ops, 1.25, x)),
        ),
        "list, then list": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: [x, 5]), ops.flat_map(lambda x: rx.of(x, 6))
        ),
        "list of sequences": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: [rx.of(x), later(rx, ops, 1.25, x)]), ops.merge_all()
        ),
        "list, take": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: [x, 5, 6]), ops.take(2)),
        "list, over": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: [0, x, 5]), ops.map(over(1, lambda x: x))),
        "list behind of": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.of(x, 5).pipe(ops.flat_map(lambda y: [y, 6])))
        ),
        "list in groups": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.flat_map(lambda x: [x, g.key]), ops.count()))
        ),
        "list and repeat": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: [x, 5]), ops.take(3), ops.repeat(2)),
        "one for all": lambda ops, rx, s: (lambda one: s.pipe(ops.flat_map(lambda x: one)))(rx.timer(1.25)),
    },
)
cases(
    "merge_all",
    {
        "of": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.of(x, 5)), ops.merge_all()),
        "mixed": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.of(x, 5) if x == 1 else later(rx, ops, 1.5, x)), ops.merge_all()
        ),
        "two at a time": lambda ops, rx, s: s.pipe(ops.map(lambda x: two(rx, ops, x)), ops.merge(max_concurrent=2)),
    },
)
for name in ("concat_all", "exclusive", "merge_all", "switch_latest"):
    cases(
        name,
        {
            "of, mapped": lambda ops, rx, s, n=name: s.pipe(ops.map(lambda x: rx.of(x, 5)), getattr(ops, n)()),
            "later, mapped": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: later(rx, ops, x * 0.75 + 0.5, x)), getattr(ops, n)()
            ),
            "twice": lambda ops, rx, s, n=name: s.pipe(ops.map(lambda x: two(rx, ops, x)), getattr(ops, n)()),
            "some at once": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: rx.of(x, 5) if x == 1 else two(rx, ops, x)), getattr(ops, n)()
            ),
            "some fail": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: rx.timer(0.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x)))), getattr(ops, n)()
            ),
            "empty or never": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: rx.empty() if x else rx.never()), getattr(ops, n)()
            ),
            "throw": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: rx.throw(ValueError("in")) if x == 1 else later(rx, ops, 1.25, x)), getattr(ops, n)()
            ),
            "the source": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: s.pipe(ops.take(2), ops.map(lambda y: (x, y)))), getattr(ops, n)()
            ),
            "groups": lambda ops, rx, s, n=name: s.pipe(ops.group_by(lambda x: x), getattr(ops, n)()),
            "windows": lambda ops, rx, s, n=name: s.pipe(ops.window_with_count(2, 1), getattr(ops, n)()),
            "take": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: rx.of(x, 5, 6)), getattr(ops, n)(), ops.take(2)
            ),
            "all at the start": lambda ops, rx, s, n=name: rx.of(1, 2, 3).pipe(
                ops.map(lambda x: later(rx, ops, x * 1.25, x)), getattr(ops, n)(), ops.merge(s)
            ),
            "values at the start": lambda ops, rx, s, n=name: rx.of(1, 2, 3).pipe(
                ops.map(lambda x: rx.of(x, 5)), getattr(ops, n)(), ops.merge(s)
            ),
        },
    )
for name in ("concat_map", "switch_map", "flat_map_latest"):
    cases(
        name,
        {
            "of": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: rx.of(x, 5))),
            "later": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: later(rx, ops, x * 0.75 + 0.5, x))),
            "twice": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: two(rx, ops, x))),
            "some at once": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(lambda x: rx.of(x, 5) if x == 1 else two(rx, ops, x))
            ),
            "fails": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(over(1, lambda x: two(rx, ops, x)))),
            "inner fails": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(lambda x: rx.timer(0.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x))))
            ),
            "groups": lambda ops, rx, s, n=name: s.pipe(
                ops.group_by(lambda x: x), getattr(ops, n)(lambda g: g.pipe(ops.scan(lambda a, x: a + x + g.key, 0)))
            ),
            "the source": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(lambda x: s.pipe(ops.take(2), ops.map(lambda y: (x, y))))
            ),
            "retried": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(over(1, lambda x: two(rx, ops, x))), ops.retry(2)
            ),
            "nested": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(lambda x: rx.of(x, 5).pipe(getattr(ops, n)(lambda y: later(rx, ops, 0.75, y))))
            ),
        },
    )
cases(
    "switch_map",
    {
        "default": lambda ops, rx, s: s.pipe(ops.map(lambda x: two(rx, ops, x)), ops.switch_map()),
        "interval": lambda ops, rx, s: s.pipe(ops.switch_map(lambda x: rx.interval(0.75).pipe(ops.take(3)))),
    },
)
cases(
    "switch_map_indexed",
    {
        "of": lambda ops, rx, s: s.pipe(ops.switch_map_indexed(lambda x, i: rx.of(x, i))),
        "later": lambda ops, rx, s: s.pipe(ops.switch_map_indexed(lambda x, i: later(rx, ops, 0.75 * x + 0.5, (x, i)))),
        "fails": lambda ops, rx, s: s.pipe(ops.switch_map_indexed(over(1, lambda x, i: two(rx, ops, x)))),
        "default": lambda ops, rx, s: s.pipe(ops.map(lambda x: two(rx, ops, x)), ops.switch_map_indexed()),
    },
)
cases(
    "expand",
    {
        "at once": lambda ops, rx, s: s.pipe(ops.expand(lambda x: rx.of(x + 1) if x < 4 else rx.empty())),
        "pairs": lambda ops, rx, s: s.pipe(ops.expand(lambda x: rx.of(x + 1, x + 2) if x < 3 else rx.empty())),
        "later": lambda ops, rx, s: s.pipe(
            ops.expand(lambda x: later(rx, ops, 0.75, x + 1) if x < 4 else rx.empty()), ops.take(9)
        ),
        "two later": lambda ops, rx, s: s.pipe(
            ops.expand(
                lambda x: rx.timer(0.75, 1.5).pipe(ops.take(2), ops.map(lambda n: x + n + 1)) if x < 3 else rx.empty()
            )
        ),
        "take": lambda ops, rx, s: s.pipe(ops.expand(lambda x: rx.of(x + 1)), ops.take(4)),
        "fails": lambda ops, rx, s: s.pipe(ops.expand(over(2, lambda x: rx.of(x + 1)))),
        "inner fails": lambda ops, rx, s: s.pipe(
            ops.expand(lambda x: later(rx, ops, 0.75, x + 1) if x < 2 else rx.throw(ValueError("in")))
        ),
        "from of": lambda ops, rx, s: rx.of(0, 1).pipe(
            ops.expand(lambda x: rx.of(x + 1) if x < 3 else rx.empty()), ops.merge(s)
        ),
        "the source": lambda ops, rx, s: s.pipe(
            ops.expand(lambda x: s.pipe(ops.take(1), ops.map(lambda y: x + y + 1)) if x < 4 else rx.empty())
        ),
    },
)
cases(
    "delay_with_mapper",
    {
        "later": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(lambda x: rx.timer(x * 0.75 + 0.5))),
        "at once": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(lambda x: rx.of(x, x))),
        "empty": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(lambda x: rx.empty())),
        "never": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(lambda x: rx.never() if x == 1 else rx.timer(0.5))),
        "many": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(lambda x: rx.interval(0.75))),
        "fails": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(over(1, lambda x: rx.timer(1.5)))),
        "inner fails": lambda ops, rx, s: s.pipe(
            ops.delay_with_mapper(lambda x: rx.timer(1.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x))))
        ),
        "begins later": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(rx.timer(1.5), lambda x: rx.timer(0.75))),
        "begins at the end": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(rx.empty(), lambda x: rx.timer(0.75))),
        "never begins": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(rx.never(), lambda x: rx.timer(0.75))),
        "fails to begin": lambda ops, rx, s: s.pipe(
            ops.delay_with_mapper(rx.throw(ValueError("no")), lambda x: rx.timer(0.75))
        ),
        "the source": lambda ops, rx, s: s.pipe(ops.delay_with_mapper(lambda x: s)),
    },
    **GAPS,
)
cases(
    "delay_with_mapper",
    {
        "the other begins": lambda ops, rx, a, b: a.pipe(ops.delay_with_mapper(b, lambda x: rx.timer(0.75))),
        "the other lets go": lambda ops, rx, a, b: a.pipe(ops.delay_with_mapper(lambda x: b)),
    },
    **TWO,
)
cases(
    "throttle_with_mapper",
    {
        "later": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(lambda x: rx.timer(x * 0.75 + 0.5))),
        "at once": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(lambda x: rx.of(x, x))),
        "empty": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(lambda x: rx.empty())),
        "never": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(lambda x: rx.never())),
        "many": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(lambda x: rx.interval(0.75))),
        "fails": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(over(1, lambda x: rx.timer(1.5)))),
        "inner fails": lambda ops, rx, s: s.pipe(
            ops.throttle_with_mapper(lambda x: rx.timer(1.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x))))
        ),
        "the source": lambda ops, rx, s: s.pipe(ops.throttle_with_mapper(lambda x: s)),
    },
    **GAPS,
)
cases(
    "throttle_with_mapper",
    {"the other": lambda ops, rx, a, b: a.pipe(ops.throttle_with_mapper(lambda x: b))},
    **TWO,
)
cases(
    "timeout_with_mapper",
    {
        "default": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper()),
        "first only": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper(rx.timer(1.5))),
        "first goes on": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper(rx.timer(1.5, 9.0), None, rx.of(9))),
        "later": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper(rx.timer(2.5), lambda x: rx.timer(x * 0.75 + 0.5))),
        "other": lambda ops, rx, s: s.pipe(
            ops.timeout_with_mapper(rx.timer(1.5), lambda x: rx.timer(1.75), rx.of(8, 9))
        ),
        "other is later": lambda ops, rx, s: s.pipe(
            ops.timeout_with_mapper(rx.timer(1.5), lambda x: rx.timer(1.75), two(rx, ops, 8))
        ),
        "other is the source": lambda ops, rx, s: s.pipe(
            ops.timeout_with_mapper(rx.timer(1.5), lambda x: rx.timer(0.5), s)
        ),
        "empty": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper(rx.never(), lambda x: rx.empty(), rx.of(9))),
        "at once": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper(rx.never(), lambda x: rx.of(x), rx.of(9))),
        "fails": lambda ops, rx, s: s.pipe(ops.timeout_with_mapper(rx.timer(2.5), over(1, lambda x: rx.timer(1.5)))),
        "first fails": lambda ops, rx, s: s.pipe(
            ops.timeout_with_mapper(rx.timer(1.5).pipe(ops.map(lambda _: over(0, lambda y: y)(0))), None, rx.of(9))
        ),
        "inner fails": lambda ops, rx, s: s.pipe(
            ops.timeout_with_mapper(
                rx.timer(9.0), lambda x: rx.timer(1.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x))), rx.of(9)
            )
        ),
    },
    **GAPS,
)
cases(
    "timeout_with_mapper",
    {"the other": lambda ops, rx, a, b: a.pipe(ops.timeout_with_mapper(b, lambda x: b, rx.of(9)))},
    **TWO,
)
