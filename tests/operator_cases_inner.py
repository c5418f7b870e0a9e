"""The rest of the table: sequences of sequences, and where sequences begin."""

from __future__ import annotations

from datetime import timedelta

from operator_cases import GAPS, TWO, cases, over

cases(
    "group_by",
    {
        "count": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.count(), ops.map(lambda n: (g.key, n))))
        ),
        "key in lambda": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.map(lambda x: (g.key, x))))
        ),
        "scan per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.flat_map(lambda g: g.pipe(ops.scan(lambda a, x: a + x + g.key, 0), ops.pairwise())),
        ),
        "elements": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2, lambda x: x * 10), ops.flat_map(lambda g: g.pipe(ops.to_list()))
        ),
        "key fails": lambda ops, rx, s: s.pipe(
            ops.group_by(over(1, lambda x: x)), ops.flat_map(lambda g: g.pipe(ops.scan(lambda a, x: a + x)))
        ),
        "key fails, to_list": lambda ops, rx, s: s.pipe(
            ops.group_by(over(1, lambda x: x)),
            ops.flat_map(lambda g: g.pipe(ops.to_list(), ops.catch(rx.of("mended")))),
        ),
        "elements fail": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2, over(1, lambda x: x)), ops.flat_map(lambda g: g.pipe(ops.count()))
        ),
        "inside fails": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.map(over(1, lambda x: x))))
        ),
        "selector fails": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: over(1, lambda k: g)(g.key))
        ),
        "by key": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.flat_map(lambda g: g.pipe(ops.count()) if g.key == 1 else g.pipe(ops.take(1))),
        ),
        "constant": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x), ops.flat_map(lambda g: rx.of(g.key, 9))),
        "take per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.take(1)))
        ),
        "take of groups": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.take(2), ops.flat_map(lambda g: g.pipe(ops.map(lambda x: (g.key, x))))
        ),
        "one group, count": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.first(), ops.flat_map(lambda g: g.pipe(ops.count()))
        ),
        "filter of groups": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.filter(lambda g: g.key != 1),
            ops.flat_map(lambda g: g.pipe(ops.map(lambda x: (g.key, x)))),
        ),
        "take behind": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.scan(lambda a, x: a + 1, 0))), ops.take(2)
        ),
        "read twice": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(lambda g: rx.merge(g.pipe(ops.map(lambda x: ("m", x))), g.pipe(ops.count()))),
        ),
        "zip with itself": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: rx.zip(g, g.pipe(ops.skip(1))))
        ),
        "concat with itself": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: rx.concat(g.pipe(ops.take(1)), g))
        ),
        "start_with": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.start_with("begin")))
        ),
        "merge_all": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x), ops.merge_all()),
        "switch_latest": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x), ops.switch_latest()),
        "map then merge_all": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.map(lambda g: g.pipe(ops.count())), ops.merge_all()
        ),
        "window inside": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(
                lambda g: g.pipe(
                    ops.window_with_count(2),
                    ops.flat_map(lambda w: w.pipe(ops.to_list(), ops.map(lambda v: (g.key, v)))),
                )
            ),
        ),
        "window inside, key below": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.flat_map(
                lambda g: g.pipe(
                    ops.window_with_count(2, 1), ops.flat_map(lambda w: w.pipe(ops.map(lambda x: (g.key, x))))
                )
            ),
        ),
        "group inside group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(
                lambda g: g.pipe(
                    ops.group_by(lambda x: x),
                    ops.flat_map(lambda h: h.pipe(ops.count(), ops.map(lambda n: (g.key, h.key, n)))),
                )
            ),
        ),
        "timer per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: rx.timer(1.5).pipe(ops.map(lambda _: g.key)))
        ),
        "take_until per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.take_until(rx.timer(1.5)), ops.to_list()))
        ),
        "two of the same": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.flat_map(lambda g: g.pipe(ops.count())),
            ops.group_by(lambda n: n % 2),
            ops.flat_map(lambda g: g.pipe(ops.to_list())),
        ),
        "and the source": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.merge(s.pipe(ops.map(lambda x: (g.key, x))))))
        ),
        "distinct of groups": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.distinct(lambda g: g.key % 2), ops.flat_map(lambda g: g)
        ),
        "list of groups": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.to_list(), ops.map(lambda groups: [g.key for g in groups])
        ),
        "buffer of groups": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.buffer_with_count(2), ops.flat_map(lambda pair: rx.merge(*pair))
        ),
        "late reader": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.delay(1.5), ops.flat_map(lambda g: g.pipe(ops.map(lambda x: (g.key, x))))
        ),
    },
)
cases(
    "group_by",
    {
        "until the other": lambda ops, rx, a, b: a.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.take_until(b), ops.count()))
        ),
        "with the other": lambda ops, rx, a, b: a.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.with_latest_from(b)))
        ),
        "debounce": lambda ops, rx, a, b: a.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.debounce(1.5), ops.merge(b)))
        ),
    },
    **TWO,
)
WINDOWS = ((1, None), (2, None), (3, None), (2, 1), (3, 1), (1, 2), (2, 3), (3, 2))
cases(
    "window_with_count",
    {
        **{
            f"{count} {skip}": (
                lambda c, k: (
                    lambda ops, rx, s: s.pipe(
                        ops.window_with_count(c, k), ops.flat_map(lambda w: w.pipe(ops.to_list()))
                    )
                )
            )(count, skip)
            for count, skip in WINDOWS
        },
        "numbered": lambda ops, rx, s: s.pipe(
            ops.window_with_count(2, 1),
            ops.map_indexed(lambda w, i: w.pipe(ops.map(lambda x: (i, x)))),
            ops.merge_all(),
        ),
        "scan": lambda ops, rx, s: s.pipe(
            ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.scan(lambda a, x: a + x)))
        ),
        "switch_latest": lambda ops, rx, s: s.pipe(ops.window_with_count(3, 1), ops.switch_latest()),
        "inside fails": lambda ops, rx, s: s.pipe(
            ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.map(over(1, lambda x: x)), ops.count()))
        ),
        "take of windows": lambda ops, rx, s: s.pipe(
            ops.window_with_count(2, 1), ops.take(2), ops.flat_map(lambda w: w.pipe(ops.to_list()))
        ),
        "take behind": lambda ops, rx, s: s.pipe(
            ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.sum())), ops.take(1)
        ),
        "skip of windows": lambda ops, rx, s: s.pipe(
            ops.window_with_count(2), ops.skip(1), ops.flat_map(lambda w: w.pipe(ops.sum()))
        ),
        "group inside": lambda ops, rx, s: s.pipe(
            ops.window_with_count(3),
            ops.flat_map(
                lambda w: w.pipe(
                    ops.group_by(lambda x: x % 2),
                    ops.flat_map(lambda g: g.pipe(ops.count(), ops.map(lambda n: (g.key, n)))),
                )
            ),
        ),
        "window of windows": lambda ops, rx, s: s.pipe(
            ops.window_with_count(3),
            ops.flat_map(lambda w: w.pipe(ops.window_with_count(2), ops.flat_map(lambda v: v.pipe(ops.to_list())))),
        ),
    },
)
cases(
    "flat_map",
    {
        "of": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.of(x, x + 10))),
        "empty": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.empty())),
        "never": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.never())),
        "throw": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.throw(ValueError("in")) if x == 1 else rx.of(x))),
        "range": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.range(x))),
        "list": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: [x, x + 10])),
        "text": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: "ab")),
        "timer": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.timer(x * 1.25).pipe(ops.map(lambda _: x)))),
        "interval": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.interval(0.75).pipe(ops.take(x)))),
        "periodic timer": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.timer(x, 1.5).pipe(ops.take(2)))),
        "return_value": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.return_value(x))),
        "fails": lambda ops, rx, s: s.pipe(ops.flat_map(over(1, lambda x: rx.of(x)))),
        "inner fails": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.timer(1.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x))))
        ),
        "the source": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: s.pipe(ops.take(1), ops.map(lambda y: (x, y))))),
        "some are lists": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: [x] if x else rx.timer(0.5))),
        "constant": lambda ops, rx, s: s.pipe(ops.flat_map(rx.of(7, 8))),
        "take": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.of(x, x + 10)), ops.take(3)),
        "nested": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.of(x, 5).pipe(ops.flat_map(lambda y: rx.timer(1.25).pipe(ops.map(lambda _: y)))))
        ),
        "scan inside": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.range(x + 1).pipe(ops.scan(lambda a, y: a + y, x)))
        ),
        "stateful inner": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: s.pipe(ops.scan(lambda a, y: a + y, x), ops.buffer_with_count(2)))
        ),
        "retry inside": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.timer(0.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x)), ops.retry(2)))
        ),
        "catch behind": lambda ops, rx, s: s.pipe(
            ops.flat_map(over(1, lambda x: rx.timer(0.5))), ops.catch(lambda e, src: rx.of(str(e)))
        ),
        "delay inside": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: rx.of(x, x + 10).pipe(ops.delay(x * 0.75)))),
    },
)
cases(
    "flat_map",
    {"the other": lambda ops, rx, a, b: a.pipe(ops.flat_map(lambda x: b.pipe(ops.map(lambda y: (x, y)))))},
    **TWO,
)
cases(
    "flat_map",
    {"generator": lambda ops, rx, s: s.pipe(ops.flat_map(lambda x: (y for y in range(x))))},
    hostable=False,
)
cases(
    "merge_all",
    {
        "of": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.of(x, 9)), ops.merge_all()),
        "timers": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.timer(x)), ops.merge_all()),
        "cold": lambda ops, rx, s: rx.of(rx.range(3), s, rx.range(5, 7)).pipe(ops.merge_all()),
        "failing inner": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.throw(ValueError("in")) if x == 1 else rx.timer(2.5)), ops.merge_all()
        ),
    },
)
cases(
    "switch_latest",
    {
        "of": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.of(x, 9)), ops.switch_latest()),
        "range": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.range(x, x + 2)), ops.switch_latest()),
        "timers": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.timer(x * 0.75).pipe(ops.map(lambda _: x))), ops.switch_latest()
        ),
        "intervals": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.interval(0.4).pipe(ops.take(x + 2))), ops.switch_latest()
        ),
        "failing inner": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.timer(0.5).pipe(ops.map(lambda _: over(1, lambda y: y)(x)))), ops.switch_latest()
        ),
        "cold": lambda ops, rx, s: rx.of(rx.range(3), s, rx.timer(1.5)).pipe(ops.switch_latest()),
        "the source": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: s.pipe(ops.map(lambda y: (x, y)))), ops.switch_latest()
        ),
        "take": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.timer(0.5)), ops.switch_latest(), ops.take(1)),
        "never": lambda ops, rx, s: s.pipe(ops.map(lambda x: rx.never()), ops.switch_latest()),
    },
)

# -- where sequences begin: merged with the source, so that something goes on around them

cases(
    "cold",
    {
        "of": lambda ops, rx, s: rx.of(5, 6).pipe(ops.merge(s)),
        "of nothing": lambda ops, rx, s: rx.of().pipe(ops.concat(s)),
        "from_iterable": lambda ops, rx, s: rx.from_iterable([5, 6]).pipe(ops.merge(s)),
        "from_iterable of a range": lambda ops, rx, s: rx.from_iterable(range(3)).pipe(ops.take(2), ops.merge(s)),
        "from_": lambda ops, rx, s: rx.from_((5, 6)).pipe(ops.concat(s)),
        "from_list": lambda ops, rx, s: rx.from_list([5, 6]).pipe(ops.concat(s)),
        "just": lambda ops, rx, s: rx.just(5).pipe(ops.concat(s)),
        "return_value": lambda ops, rx, s: rx.return_value(None).pipe(ops.concat(s)),
        "range": lambda ops, rx, s: rx.range(3).pipe(ops.concat(s)),
        "range from": lambda ops, rx, s: rx.range(2, 5).pipe(ops.merge(s)),
        "range by": lambda ops, rx, s: rx.range(6, 0, -2).pipe(ops.merge(s, rx.range(0, 5, 2))),
        "range without end": lambda ops, rx, s: rx.range(3, None).pipe(ops.take(4), ops.concat(s)),
        "range of nothing": lambda ops, rx, s: rx.range(0).pipe(ops.concat(s)),
        "empty": lambda ops, rx, s: rx.empty().pipe(ops.concat(s)),
        "never": lambda ops, rx, s: rx.never().pipe(ops.merge(s)),
        "throw": lambda ops, rx, s: rx.throw(ValueError("cold")).pipe(ops.merge(s)),
        "throw text": lambda ops, rx, s: s.pipe(ops.concat(rx.throw("text"))),
        "merge of merges": lambda ops, rx, s: rx.merge(rx.merge(rx.of(1, 2), rx.range(3)), rx.merge(rx.range(2), s)),
        "concat of concats": lambda ops, rx, s: rx.concat(rx.concat(rx.range(2), rx.of(1)), rx.merge(rx.range(2), s)),
        "combine of ranges": lambda ops, rx, s: rx.combine_latest(rx.range(3), rx.range(2), rx.merge(rx.of(0), s)),
        "switch of ranges": lambda ops, rx, s: rx.range(3).pipe(
            ops.map(lambda x: rx.range(x, x + 2)), ops.switch_latest(), ops.merge(s)
        ),
        "flat_map of ranges": lambda ops, rx, s: rx.range(3).pipe(ops.flat_map(lambda x: rx.range(x)), ops.merge(s)),
        "group_by of a range": lambda ops, rx, s: rx.range(5).pipe(
            ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.to_list())), ops.merge(s)
        ),
        "take_until of": lambda ops, rx, s: rx.range(3).pipe(ops.take_until(rx.of(1)), ops.merge(s)),
        "zip of": lambda ops, rx, s: rx.zip(rx.range(3), rx.of("a", "b"), s.pipe(ops.start_with(0))),
    },
)
cases(
    "timer",
    {
        **{f"{t}": (lambda t: lambda ops, rx, s: rx.timer(t).pipe(ops.merge(s)))(t) for t in (-1, 0, 0.5, 1.0, 3.5)},
        "timedelta": lambda ops, rx, s: rx.timer(timedelta(seconds=1.5)).pipe(ops.merge(s)),
        "periodic": lambda ops, rx, s: rx.timer(0.5, 1.25).pipe(ops.take(4), ops.merge(s)),
        "periodic at once": lambda ops, rx, s: rx.timer(0, 1.0).pipe(ops.take(4), ops.merge(s)),
        "same period": lambda ops, rx, s: rx.timer(1.0, 1.0).pipe(ops.take(4), ops.merge(s)),
        "period timedelta": lambda ops, rx, s: rx.timer(timedelta(seconds=1), timedelta(seconds=0.5)).pipe(
            ops.take(4), ops.merge(s)
        ),
        "without end": lambda ops, rx, s: rx.timer(0.5, 1.5).pipe(ops.merge(s)),
        "fails behind": lambda ops, rx, s: rx.timer(0.5, 1.0).pipe(ops.map(over(2, lambda x: x)), ops.merge(s)),
    },
    alphabet=(0, 1),
)
cases(
    "interval",
    {
        "1": lambda ops, rx, s: rx.interval(1.0).pipe(ops.take(4), ops.merge(s)),
        "0.75": lambda ops, rx, s: rx.interval(0.75).pipe(ops.merge(s)),
        "timedelta": lambda ops, rx, s: rx.interval(timedelta(seconds=0.75)).pipe(ops.take(3), ops.merge(s)),
        "latest": lambda ops, rx, s: rx.interval(0.75).pipe(ops.with_latest_from(s), ops.take(3)),
        "until the source ends": lambda ops, rx, s: rx.interval(0.75).pipe(ops.take_until(s.pipe(ops.last()))),
        "scan": lambda ops, rx, s: s.pipe(
            ops.merge(rx.interval(0.75).pipe(ops.map(lambda n: 100 + n))), ops.scan(lambda a, x: a + x), ops.take(6)
        ),
    },
    **GAPS,
)
