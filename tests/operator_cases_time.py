"""Further cases of the table: operators and creation functions of time. Importing it fills `CASES`.

Ties are among them on purpose: what is due at the moment of an event, or two things at one moment.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from operator_cases import CASES, Case, cases, over
from reactivex.scheduler import ImmediateScheduler

GAPS: dict[str, Any] = {"gaps_s": (0.5, 1.0), "alphabet": (0, 1), "length_full": 3}
TWO: dict[str, Any] = {"sources": 2, "alphabet": (0, 1), "length_full": 2}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def plain(value: Any) -> Any:
    """Turn what `timestamp` and `time_interval` emit into tuples."""
    return (type(value).__name__, *vars(value).values())


def gate(name: str, *, dates: bool) -> None:
    """Add the cases that all gates share."""

    def build(time: Any, *behind: Any) -> Any:
        return lambda ops, rx, s: s.pipe(getattr(ops, name)(time), *[make(ops, rx) for make in behind])

    times: dict[str, Any] = {f"{t}": t for t in (-1, 0, 0.5, 1.0, 1.5, 2.0)} | {"timedelta": timedelta(seconds=1.5)}
    if dates:
        times |= {"date": at(1.5), "date of an event": at(1), "past date": at(-5)}
    cases(
        name,
        {
            **{label: build(time) for label, time in times.items()},
            "then take": build(0.5, lambda ops, rx: ops.take(1)),
            "then fails": build(0.5, lambda ops, rx: ops.map(over(1, lambda x: x))),
            "then fails and retries": build(
                1.0, lambda ops, rx: ops.map(over(1, lambda x: x)), lambda ops, rx: ops.retry(2)
            ),
            "twice": lambda ops, rx, s: s.pipe(getattr(ops, name)(1.5), getattr(ops, name)(1.0)),
            "of cold": lambda ops, rx, s: rx.of(1, 2).pipe(getattr(ops, name)(0.5), ops.merge(s)),
            "of timers": lambda ops, rx, s: rx.timer(0.5, 0.5).pipe(ops.take(3), getattr(ops, name)(1.0), ops.merge(s)),
            "per group": lambda ops, rx, s: s.pipe(
                ops.group_by(lambda x: x),
                ops.flat_map(lambda g: g.pipe(getattr(ops, name)(1.0), ops.map(lambda x: (g.key, x)))),
            ),
            "of groups": lambda ops, rx, s: s.pipe(
                ops.group_by(lambda x: x), getattr(ops, name)(1.5), ops.flat_map(lambda g: g.pipe(ops.count()))
            ),
        },
        **GAPS,
    )
    cases(
        name,
        {
            "and another": lambda ops, rx, a, b: a.pipe(
                getattr(ops, name)(1.0), ops.merge(b.pipe(getattr(ops, name)(1)))
            )
        },
        **TWO,
    )


gate("take_with_time", dates=False)
gate("skip_with_time", dates=False)
gate("take_until_with_time", dates=True)
gate("skip_until_with_time", dates=True)
gate("take_last_with_time", dates=False)
gate("skip_last_with_time", dates=False)
gate("delay_subscription", dates=True)
cases(
    "delay_subscription",
    {
        "keeps an error": lambda ops, rx, s: rx.throw(ValueError("in")).pipe(ops.delay_subscription(0.5), ops.merge(s)),
        "of nothing": lambda ops, rx, s: rx.empty().pipe(ops.delay_subscription(0.5), ops.merge(s)),
        "of a range": lambda ops, rx, s: rx.range(3).pipe(ops.delay_subscription(1.0), ops.merge(s)),
    },
    **GAPS,
)
cases(
    "delay",
    {
        "date": lambda ops, rx, s: s.pipe(ops.delay(at(1.5))),
        "past date": lambda ops, rx, s: s.pipe(ops.delay(at(-1))),
        "then fails and retries": lambda ops, rx, s: s.pipe(
            ops.delay(1.0), ops.map(over(1, lambda x: x)), ops.retry(2)
        ),
        "of cold then fails and retries": lambda ops, rx, s: rx.of(0, 1, 2).pipe(
            ops.delay(1.0), ops.map(over(1, lambda x: x)), ops.retry(2), ops.merge(s)
        ),
    },
    **GAPS,
)
cases(
    "timeout",
    {
        "date": lambda ops, rx, s: s.pipe(ops.timeout(at(1.5), rx.of(9))),
        "past date": lambda ops, rx, s: s.pipe(ops.timeout(at(-1), rx.of(9))),
        "0": lambda ops, rx, s: s.pipe(ops.timeout(0, rx.of(9))),
    },
    **GAPS,
)
cases(
    "throttle_with_timeout",
    {f"{t}": (lambda t: lambda ops, rx, s: s.pipe(ops.throttle_with_timeout(t)))(t) for t in (0, 0.5, 1.0, 1.5)},
    **GAPS,
)
cases(
    "debounce",
    {
        "negative": lambda ops, rx, s: s.pipe(ops.debounce(-1)),
        "then fails and retries": lambda ops, rx, s: s.pipe(
            ops.debounce(0.5), ops.map(over(1, lambda x: x)), ops.retry(2)
        ),
    },
    **GAPS,
)
cases(
    "debounce",
    {"and another": lambda ops, rx, a, b: a.pipe(ops.debounce(1.0), ops.merge(b.pipe(ops.debounce(1.0))))},
    **TWO,
)
cases(
    "throttle_first",
    {
        **{
            f"{t}": (lambda t: lambda ops, rx, s: s.pipe(ops.throttle_first(t)))(t)
            for t in (-1, 0, 1e-6, 0.5, 1.0, 1.5, 2.0)
        },
        "timedelta": lambda ops, rx, s: s.pipe(ops.throttle_first(timedelta(seconds=2))),
        "then take": lambda ops, rx, s: s.pipe(ops.throttle_first(1.5), ops.take(2)),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.throttle_first(1.5)))
        ),
        "of cold": lambda ops, rx, s: rx.of(1, 2).pipe(ops.throttle_first(1.5), ops.merge(s)),
        "of tenths": lambda ops, rx, s: rx.timer(0.1, 0.1).pipe(ops.take(9), ops.throttle_first(0.2), ops.merge(s)),
    },
    **GAPS,
)
for refused in ("-1", "0"):
    CASES[f"throttle_first: {refused}"] = Case(CASES[f"throttle_first: {refused}"].build, hostable=False, **GAPS)
cases(
    "timestamp",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.timestamp(), ops.map(plain)),
        "twice": lambda ops, rx, s: s.pipe(ops.timestamp(), ops.delay(1.5), ops.timestamp(), ops.map(repr)),
        "of cold": lambda ops, rx, s: rx.of(1, 2).pipe(ops.timestamp(), ops.map(plain), ops.merge(s)),
        "of tenths": lambda ops, rx, s: rx.interval(0.1).pipe(
            ops.take(9), ops.timestamp(), ops.map(plain), ops.merge(s)
        ),
        "then take": lambda ops, rx, s: s.pipe(ops.timestamp(), ops.take(1)),
    },
    **GAPS,
)
cases(
    "time_interval",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.time_interval(), ops.map(plain)),
        "twice": lambda ops, rx, s: s.pipe(ops.time_interval(), ops.delay(1.5), ops.time_interval(), ops.map(repr)),
        "of cold": lambda ops, rx, s: rx.of(1, 2).pipe(ops.time_interval(), ops.map(plain), ops.merge(s)),
        "of tenths": lambda ops, rx, s: rx.interval(0.1).pipe(
            ops.take(9), ops.time_interval(), ops.map(plain), ops.merge(s)
        ),
        "then fails and retries": lambda ops, rx, s: s.pipe(
            ops.map(over(1, lambda x: x)), ops.time_interval(), ops.map(plain), ops.retry(2)
        ),
    },
    **GAPS,
)
cases(
    "window_with_time",
    {
        "then fails and retries": lambda ops, rx, s: s.pipe(
            ops.window_with_time(1.0), ops.flat_map(lambda w: w.pipe(ops.map(over(1, lambda x: x)))), ops.retry(2)
        ),
    },
    **GAPS,
)
SPANS = [(0.5, 1), (1.0, 2), (1.5, 2), (1.5, 3), (9.0, 1), (9.0, 2), (1.5, 0)]
cases(
    "buffer_with_time_or_count",
    {
        **{
            f"{span} {count}": (lambda a, n: lambda ops, rx, s: s.pipe(ops.buffer_with_time_or_count(a, n)))(
                span, count
            )
            for span, count in SPANS
        },
        "timedelta": lambda ops, rx, s: s.pipe(ops.buffer_with_time_or_count(timedelta(seconds=1.5), 2)),
        "then take": lambda ops, rx, s: s.pipe(ops.buffer_with_time_or_count(1.5, 1), ops.take(2)),
        "then fails and retries": lambda ops, rx, s: s.pipe(
            ops.buffer_with_time_or_count(1.5, 2), ops.map(over([1], lambda x: x)), ops.retry(2)
        ),
        "of cold": lambda ops, rx, s: rx.of(1, 2, 3).pipe(ops.buffer_with_time_or_count(1.5, 2), ops.merge(s)),
    },
    **GAPS,
)
cases(
    "window_with_time_or_count",
    {
        **{
            f"{span} {count}": (
                lambda a, n: (
                    lambda ops, rx, s: s.pipe(
                        ops.window_with_time_or_count(a, n), ops.flat_map(lambda w: w.pipe(ops.to_list()))
                    )
                )
            )(span, count)
            for span, count in SPANS
        },
        "switch": lambda ops, rx, s: s.pipe(ops.window_with_time_or_count(1.5, 2), ops.switch_latest()),
        "merge": lambda ops, rx, s: s.pipe(ops.window_with_time_or_count(timedelta(seconds=1.5), 2), ops.merge_all()),
        "then take": lambda ops, rx, s: s.pipe(
            ops.window_with_time_or_count(1.5, 2), ops.take(2), ops.flat_map(lambda w: w.pipe(ops.count()))
        ),
        "fails inside": lambda ops, rx, s: s.pipe(
            ops.window_with_time_or_count(1.5, 2),
            ops.flat_map(lambda w: w.pipe(ops.map(over(1, lambda x: x)), ops.to_list())),
        ),
        "fails inside and retries": lambda ops, rx, s: s.pipe(
            ops.window_with_time_or_count(1.5, 2),
            ops.flat_map(lambda w: w.pipe(ops.map(over(1, lambda x: x)))),
            ops.retry(2),
        ),
        "of cold": lambda ops, rx, s: rx.of(1, 2, 3).pipe(
            ops.window_with_time_or_count(1.5, 2), ops.flat_map(lambda w: w.pipe(ops.to_list())), ops.merge(s)
        ),
    },
    **GAPS,
)
cases(
    "timer",
    {
        "date": lambda ops, rx, s: rx.timer(at(1.5)).pipe(ops.merge(s)),
        "past date": lambda ops, rx, s: rx.timer(at(-1)).pipe(ops.merge(s)),
        "date and period": lambda ops, rx, s: rx.timer(at(1.5), 1.0).pipe(ops.take(3), ops.merge(s)),
        "past date and period": lambda ops, rx, s: rx.timer(at(-1.5), 1.0).pipe(ops.take(3), ops.merge(s)),
        "thirds": lambda ops, rx, s: rx.timer(1 / 3, 1 / 3 + 1e-9).pipe(ops.take(9), ops.merge(s)),
        "tenths": lambda ops, rx, s: rx.timer(0.1, timedelta(seconds=0.1)).pipe(ops.take(20), ops.merge(s)),
    },
    **GAPS,
)


def generated(
    ops: Any, rx: Any, s: Any, *, condition: Any = None, iterate: Any = None, time_mapper: Any = None, first: Any = 0
) -> Any:
    made = rx.generate_with_relative_time(
        first, condition or (lambda n: n < 4), iterate or (lambda n: n + 1), time_mapper or (lambda n: n * 0.5 + 0.5)
    )
    return made.pipe(ops.merge(s))


def longer(items: list[int]) -> list[int]:
    return [*items, len(items)]


cases(
    "generate_with_relative_time",
    {
        "numbers": generated,
        "nothing": lambda ops, rx, s: generated(ops, rx, s, condition=lambda n: False),
        "timedelta": lambda ops, rx, s: generated(ops, rx, s, time_mapper=lambda n: timedelta(seconds=1)),
        "condition fails": lambda ops, rx, s: generated(ops, rx, s, condition=over(2, lambda n: True)),
        "iterate fails": lambda ops, rx, s: generated(ops, rx, s, iterate=over(2, lambda n: n + 1)),
        "time fails": lambda ops, rx, s: generated(ops, rx, s, time_mapper=over(2, lambda n: 0.75)),
        "first time fails": lambda ops, rx, s: generated(ops, rx, s, time_mapper=over(0, lambda n: 0.75)),
        "lists": lambda ops, rx, s: generated(
            ops, rx, s, first=[], condition=lambda n: len(n) < 3, iterate=longer, time_mapper=lambda n: 0.75
        ),
        "without end": lambda ops, rx, s: generated(ops, rx, s, condition=lambda n: True).pipe(ops.take(4)),
        "per element": lambda ops, rx, s: s.pipe(
            ops.flat_map(lambda x: rx.generate_with_relative_time(x, lambda n: n < 3, lambda n: n + 1, lambda n: 0.75))
        ),
        "then fails and retries": lambda ops, rx, s: rx.generate_with_relative_time(
            0, lambda n: n < 3, lambda n: n + 1, lambda n: 0.75
        ).pipe(ops.map(over(1, lambda x: x)), ops.retry(2), ops.merge(s)),
    },
    alphabet=(0, 1),
    gaps_s=(0.5, 1.0),
    length_full=2,
)

NOW = ImmediateScheduler.singleton()
for name in ("delay", "debounce"):
    cases(
        name,
        {
            f"{label} now": lambda ops, rx, s, name=name, of=of: of(rx, s).pipe(
                getattr(ops, name)(0, NOW), ops.merge(s)
            )
            for label, of in {
                "elements": lambda rx, s: s,
                "a list": lambda rx, s: rx.of(1, 2, 3),
                "a failing list": lambda rx, s: rx.concat(rx.of(1, 2), rx.throw(ValueError("over"))),
            }.items()
        },
        hostable=False,
        length_full=2,
    )
cases(
    "timeout_with_mapper",
    {
        "now in a list": lambda ops, rx, s: rx.of(1, 2, 3).pipe(
            ops.timeout_with_mapper(rx.never(), lambda x: rx.empty(NOW) if x == 2 else rx.never(), rx.of(9)),
            ops.merge(s),
        )
    },
    hostable=False,
    length_full=2,
)
