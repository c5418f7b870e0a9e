"""Cases of what combines, chooses, repeats and mends sequences, and of every way of beginning one; fills `CASES`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from operator_cases import GAPS, THREE, TWO, cases, over
from reactivex.disposable import Disposable
from reactivex.scheduler import ImmediateScheduler


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def same(value: Any) -> Any:
    return value


def answers(*said: bool) -> Callable[[Any], bool]:
    """A condition that says *said* one after the other: impure, so un-hosted only."""
    left = deque(said)
    return lambda source: left.popleft()


def endless(ops: Any, rx: Any) -> Any:
    """Keep a sequence from completing: to read an ended one again without end is a loop in which no time passes."""
    return ops.merge(rx.never())


# -- tuples and gates

for name in ("fork_join", "zip_latest"):
    cases(
        name,
        {
            "operator": lambda ops, rx, a, b, n=name: a.pipe(getattr(ops, n)(b)),
            "creation": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b),
            "same twice": lambda ops, rx, a, b, n=name: a.pipe(getattr(ops, n)(a, b)),
            "branch fails": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b.pipe(ops.map(over(1, same)))),
            "ended branch": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b.pipe(ops.take(1))),
            "ended first": lambda ops, rx, a, b, n=name: getattr(rx, n)(a.pipe(ops.take(1)), b),
            "empty branch": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b.pipe(ops.take(0))),
            "stateful": lambda ops, rx, a, b, n=name: getattr(rx, n)(a.pipe(ops.pairwise()), b).pipe(ops.pairwise()),
            "take": lambda ops, rx, a, b, n=name: a.pipe(getattr(ops, n)(b), ops.take(1)),
            "then repeat": lambda ops, rx, a, b, n=name: a.pipe(
                ops.take(1), getattr(ops, n)(b.pipe(ops.take(2))), ops.repeat(2)
            ),
            "never": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, rx.never(), b),
        },
        **TWO,
    )
    cases(
        name,
        {
            "cold": lambda ops, rx, s, n=name: getattr(rx, n)(rx.of(7, 8), s, rx.range(3)),
            "of cold": lambda ops, rx, s, n=name: getattr(rx, n)(rx.of(1, 2, 3), rx.of(4, 5)),
            "of ranges": lambda ops, rx, s, n=name: getattr(rx, n)(rx.range(3), rx.range(2)),
            "of one": lambda ops, rx, s, n=name: getattr(rx, n)(s),
            "per group": lambda ops, rx, s, n=name: s.pipe(
                ops.group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(getattr(ops, n)(rx.of(8, 9))))
            ),
        },
    )
    cases(name, {"three": lambda ops, rx, a, b, c, n=name: getattr(rx, n)(a, b, c)}, **THREE)
cases("zip_latest", {"of None": lambda ops, rx, a, b: rx.zip_latest(a, b)}, **{**TWO, "alphabet": (None, 0)})
cases("fork_join", {"of None": lambda ops, rx, a, b: rx.fork_join(a, b)}, **{**TWO, "alphabet": (None, 0)})
cases(
    "amb",
    {
        "operator": lambda ops, rx, a, b: a.pipe(ops.amb(b)),
        "creation": lambda ops, rx, a, b: rx.amb(a, b),
        "same": lambda ops, rx, a, b: a.pipe(ops.amb(a), ops.merge(b)),
        "filtered": lambda ops, rx, a, b: rx.amb(a.pipe(ops.filter(bool)), b.pipe(ops.skip(1))),
        "branch fails": lambda ops, rx, a, b: rx.amb(a.pipe(ops.map(over(1, same))), b),
        "stateful": lambda ops, rx, a, b: a.pipe(ops.pairwise(), ops.amb(b.pipe(ops.count())), ops.pairwise()),
        "take": lambda ops, rx, a, b: a.pipe(ops.amb(b), ops.take(1)),
        "then repeat": lambda ops, rx, a, b: a.pipe(ops.amb(b), ops.take(1), ops.repeat(3)),
        "timer": lambda ops, rx, a, b: rx.amb(a, rx.timer(2.5), b),
    },
    **TWO,
)
cases(
    "amb",
    {
        "cold first": lambda ops, rx, s: rx.of(1, 2).pipe(ops.amb(s)),
        "cold second": lambda ops, rx, s: s.pipe(ops.amb(rx.of(1, 2))),
        "of cold": lambda ops, rx, s: rx.amb(rx.of(1, 2), rx.range(3), s),
        "empty": lambda ops, rx, s: s.pipe(ops.amb(rx.empty())),
        "throw": lambda ops, rx, s: rx.throw(ValueError("over")).pipe(ops.amb(s)),
        "never": lambda ops, rx, s: rx.amb(rx.never(), s),
        "of one": lambda ops, rx, s: rx.amb(s),
        "of nothing": lambda ops, rx, s: s.pipe(ops.merge(rx.amb())),
    },
)
cases("amb", {"three": lambda ops, rx, a, b, c: rx.amb(a, b, c)}, **THREE)
cases(
    "skip_until",
    {
        "other": lambda ops, rx, a, b: a.pipe(ops.skip_until(b)),
        "filtered": lambda ops, rx, a, b: a.pipe(ops.skip_until(b.pipe(ops.filter(bool)))),
        "same": lambda ops, rx, a, b: a.pipe(ops.skip_until(a), ops.merge(b)),
        "stateful": lambda ops, rx, a, b: a.pipe(ops.scan(lambda t, x: t + x), ops.skip_until(b), ops.to_list()),
        "and take_until": lambda ops, rx, a, b: a.pipe(ops.skip_until(b), ops.take_until(b.pipe(ops.skip(1)))),
        "then repeat": lambda ops, rx, a, b: a.pipe(ops.skip_until(b), ops.take(1), ops.repeat(2)),
    },
    **TWO,
)
cases(
    "skip_until",
    {
        "timer": lambda ops, rx, s: s.pipe(ops.skip_until(rx.timer(1.5))),
        "never": lambda ops, rx, s: s.pipe(ops.skip_until(rx.never())),
        "of": lambda ops, rx, s: s.pipe(ops.skip_until(rx.of(1))),
        "empty": lambda ops, rx, s: s.pipe(ops.skip_until(rx.empty())),
        "throw": lambda ops, rx, s: s.pipe(ops.skip_until(rx.throw(ValueError("over")))),
        "of cold": lambda ops, rx, s: rx.range(4).pipe(ops.skip_until(rx.of(1))),
    },
)
cases(
    "start_with",
    {
        "one": lambda ops, rx, s: s.pipe(ops.start_with(7)),
        "nothing": lambda ops, rx, s: s.pipe(ops.start_with()),
        "then take": lambda ops, rx, s: s.pipe(ops.start_with(7, 8), ops.take(1)),
        "then retry": lambda ops, rx, s: s.pipe(ops.start_with(7), ops.map(over(1, same)), ops.retry(2)),
        "before merge": lambda ops, rx, s: rx.range(3).pipe(ops.start_with(7, 8), ops.merge(rx.range(4, 6), s)),
    },
)
cases(
    "futures",
    {
        "amb": lambda ops, rx, s: s.pipe(ops.amb(done(5))),
        "take_until": lambda ops, rx, s: s.pipe(ops.take_until(done(5))),
        "skip_until": lambda ops, rx, s: s.pipe(ops.skip_until(done(5))),
        "zip": lambda ops, rx, s: rx.zip(s, done(5)),
        "zip_latest": lambda ops, rx, s: rx.zip_latest(s, done(5)),
        "merge": lambda ops, rx, s: rx.merge(s, done(5)),
        "on_error_resume_next": lambda ops, rx, s: rx.on_error_resume_next(s, done(5), rx.of(6)),
        "if_then": lambda ops, rx, s: rx.if_then(lambda: True, done(5), s),
        "case": lambda ops, rx, s: rx.case(lambda: 1, {0: s}, done(5)),
        "defer": lambda ops, rx, s: rx.defer(lambda _: done(5)),
        "catch": lambda ops, rx, s: s.pipe(ops.catch(lambda e, source: done(5))),
    },
    hostable=False,
    length_full=3,
)

# -- again

cases(
    "repeat",
    {
        "hot": lambda ops, rx, s: s.pipe(ops.take(2), ops.repeat(2)),
        "hot stateful": lambda ops, rx, s: s.pipe(ops.scan(lambda t, x: t + x), ops.take(2), ops.repeat(3)),
        "no end": lambda ops, rx, s: s.pipe(endless(ops, rx), ops.take(1), ops.repeat(), ops.take(3)),
        "of an ending one": lambda ops, rx, s: s.pipe(ops.repeat(2)),
        "zero": lambda ops, rx, s: s.pipe(ops.repeat(0)),
        "one": lambda ops, rx, s: s.pipe(ops.repeat(1)),
        "negative": lambda ops, rx, s: s.pipe(ops.repeat(-1)),
        "cold": lambda ops, rx, s: rx.range(2).pipe(ops.repeat(2), ops.merge(s)),
        "cold no end": lambda ops, rx, s: rx.of(1, 2).pipe(ops.repeat(), ops.take(5), ops.merge(s)),
        "fails": lambda ops, rx, s: s.pipe(ops.take(1), ops.map(over(1, same)), ops.repeat(2)),
        "timers": lambda ops, rx, s: rx.timer(0.5).pipe(ops.repeat(3), ops.merge(s)),
        "nested": lambda ops, rx, s: s.pipe(ops.take(1), ops.repeat(2), ops.count(), ops.repeat(2)),
        "then retry": lambda ops, rx, s: s.pipe(ops.take(1), ops.repeat(3), ops.map(over(1, same)), ops.retry(2)),
        "empty": lambda ops, rx, s: rx.empty().pipe(ops.repeat(3), ops.merge(s)),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.take(1), ops.repeat(2), ops.count()))
        ),
        "value": lambda ops, rx, s: rx.repeat_value(7, 3).pipe(ops.merge(s)),
        "value no end": lambda ops, rx, s: rx.repeat_value(7).pipe(ops.take(3), ops.merge(s)),
        "value -1": lambda ops, rx, s: rx.repeat_value(7, -1).pipe(ops.take_until(s), ops.take(2)),
    },
)
for name in ("while_do", "do_while"):
    cases(
        name,
        {
            "true": lambda ops, rx, s, n=name: s.pipe(
                endless(ops, rx), ops.take(1), getattr(ops, n)(lambda _: True), ops.take(3)
            ),
            "false": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda _: False)),
            "fails": lambda ops, rx, s, n=name: s.pipe(ops.take(1), getattr(ops, n)(lambda _: {}["missing"])),
            "source fails": lambda ops, rx, s, n=name: s.pipe(
                endless(ops, rx), ops.take(1), ops.map(over(1, same)), getattr(ops, n)(lambda _: True), ops.take(2)
            ),
            "stateful": lambda ops, rx, s, n=name: s.pipe(
                endless(ops, rx),
                ops.scan(lambda t, x: t + x),
                ops.take(2),
                getattr(ops, n)(lambda _: True),
                ops.take(5),
            ),
            "cold": lambda ops, rx, s, n=name: rx.range(2).pipe(
                getattr(ops, n)(lambda _: True), ops.take(3), ops.merge(rx.range(5, 8), s)
            ),
            "once": lambda ops, rx, s, n=name: rx.range(2).pipe(
                getattr(ops, n)(lambda _: False), ops.merge(rx.range(5, 8), s)
            ),
        },
    )
    cases(
        name,
        {
            "counted": lambda ops, rx, s, n=name: s.pipe(ops.take(1), getattr(ops, n)(answers(True, True, False))),
            "counted cold": lambda ops, rx, s, n=name: rx.range(2).pipe(
                getattr(ops, n)(answers(True, False)), ops.merge(rx.range(5, 9), s)
            ),
            "of the source": lambda ops, rx, s, n=name: s.pipe(
                ops.take(1), getattr(ops, n)(lambda source: not hasattr(source, "pipe"))
            ),
        },
        hostable=False,
    )
cases(
    "for_in",
    {
        "list": lambda ops, rx, s: rx.for_in([1, 2], lambda n: s.pipe(ops.map(lambda x: (n, x)), ops.take(n))),
        "cold": lambda ops, rx, s: rx.for_in((1, 2), lambda n: rx.range(n)).pipe(ops.merge(rx.range(7, 9), s)),
        "nothing": lambda ops, rx, s: rx.for_in([], lambda n: s),
        "fails": lambda ops, rx, s: rx.for_in([2, 1, 0], over(1, lambda n: rx.of(n))).pipe(ops.merge(s)),
        "source fails": lambda ops, rx, s: rx.for_in([1, 2], lambda n: s.pipe(ops.map(over(n, same)), ops.take(1))),
        "text": lambda ops, rx, s: rx.for_in("ab", lambda c: s.pipe(ops.take(1), ops.map(lambda x: f"{c}{x}"))),
        "stateful": lambda ops, rx, s: rx.for_in([1, 2], lambda n: s.pipe(ops.scan(lambda a, x: a + x), ops.take(2))),
        "timers": lambda ops, rx, s: rx.for_in([0.5, 1.0], lambda t: rx.timer(t)).pipe(ops.merge(s)),
    },
)
cases(
    "for_in",
    {
        "iterator": lambda ops, rx, s: rx.for_in(iter([1, 2]), lambda n: s.pipe(ops.take(n))),
        "without end": lambda ops, rx, s: rx.for_in(iter(int, 1), lambda n: rx.of(n)).pipe(ops.take(3)),
    },
    hostable=False,
)
cases(
    "concat_with_iterable",
    {
        "list": lambda ops, rx, a, b: rx.concat_with_iterable([a, b]),
        "nothing": lambda ops, rx, a, b: rx.concat_with_iterable([]),
    },
    **TWO,
)
cases(
    "concat_with_iterable",
    {"iterator": lambda ops, rx, a, b: rx.concat_with_iterable(each for each in (a.pipe(ops.take(1)), b))},
    hostable=False,
    **TWO,
)

# -- errors

cases(
    "catch_with_iterable",
    {
        "list": lambda ops, rx, a, b: rx.catch_with_iterable([a, b]),
        "nothing": lambda ops, rx, a, b: rx.catch_with_iterable(()),
    },
    **TWO,
)
cases(
    "catch_with_iterable",
    {"iterator": lambda ops, rx, a, b: rx.catch_with_iterable(each for each in (a, b))},
    hostable=False,
    **TWO,
)
cases(
    "on_error_resume_next",
    {
        "operator": lambda ops, rx, a, b: a.pipe(ops.on_error_resume_next(b)),
        "creation": lambda ops, rx, a, b: rx.on_error_resume_next(a, b, rx.of(9)),
        "same twice": lambda ops, rx, a, b: rx.on_error_resume_next(a.pipe(ops.take(1)), a.pipe(ops.take(1)), b),
        "function": lambda ops, rx, a, b: rx.on_error_resume_next(a, lambda error: rx.of(str(error)), b),
        "function first": lambda ops, rx, a, b: rx.on_error_resume_next(lambda error: a, b, lambda error: rx.of(7)),
        "stateful": lambda ops, rx, a, b: rx.on_error_resume_next(
            a.pipe(ops.scan(over(1, lambda t, x: t + x), 5)), lambda error: b.pipe(ops.pairwise())
        ),
    },
    **TWO,
)
cases(
    "on_error_resume_next",
    {
        "cold": lambda ops, rx, s: rx.on_error_resume_next(rx.of(1), rx.throw(ValueError("a")), rx.range(2), s),
        "of nothing": lambda ops, rx, s: rx.on_error_resume_next(),
        "one": lambda ops, rx, s: rx.on_error_resume_next(s),
        "then take": lambda ops, rx, s: s.pipe(ops.take(1), ops.on_error_resume_next(s), ops.take(2)),
        "timers": lambda ops, rx, s: rx.on_error_resume_next(rx.timer(0.5), s.pipe(ops.take(1)), rx.timer(1.0)),
    },
)
BROKEN = (ValueError, KeyError)


def only(ops: Any, rx: Any, kinds: Any, handler: Any) -> Any:
    """What `catch` by type is in plain RxPY."""
    return ops.catch(
        lambda error, source: (
            (handler(error, source) if callable(handler) else handler) if isinstance(error, kinds) else rx.throw(error)
        )
    )


for name, kinds in (("type", ValueError), ("others", KeyError), ("tuple", BROKEN)):
    cases(
        "catch",
        {f"on {name}": lambda ops, rx, s, k=kinds: s.pipe(ops.map(over(1, same)), ops.catch(rx.of(8, 9), on=k))},
        reference=lambda ops, rx, s, k=kinds: s.pipe(ops.map(over(1, same)), only(ops, rx, k, rx.of(8, 9))),
    )
    cases(
        "catch",
        {
            f"on {name}, handler": lambda ops, rx, s, k=kinds: s.pipe(
                ops.map(over(1, same)), ops.catch(lambda e, source: source.pipe(ops.take(2)), on=k), ops.catch(rx.of(7))
            )
        },
        reference=lambda ops, rx, s, k=kinds: s.pipe(
            ops.map(over(1, same)), only(ops, rx, k, lambda e, source: source.pipe(ops.take(2))), ops.catch(rx.of(7))
        ),
    )


def pausing(ops: Any, rx: Any, source: Any, pauses_s: list[float | None]) -> Any:
    """What `retry_with_backoff` is in plain RxPY: one catch in the other; None is the end of patience."""
    pause_s, *rest = pauses_s
    if pause_s is None:
        return source
    return source.pipe(
        ops.catch(lambda e, _: rx.timer(pause_s).pipe(ops.flat_map(lambda _: pausing(ops, rx, source, rest))))
    )


def backoff(name: str, pauses_s: list[float | None], **how: Any) -> None:
    def source(ops: Any, s: Any) -> Any:
        return s.pipe(ops.scan(over(1, lambda t, x: t + x), 5))

    cases(
        "retry_with_backoff",
        {name: lambda ops, rx, s: source(ops, s).pipe(ops.retry_with_backoff(**how))},
        reference=lambda ops, rx, s: pausing(ops, rx, source(ops, s), pauses_s),
        **{**GAPS, "alphabet": (1, 0)},
    )


backoff("doubling", [1.5, 3.0, 6.0, 12.0, 24.0], first_s=1.5, max_s=60)
backoff("counted", [0.5, 1.0, None], retry_count=3, first_s=0.5, max_s=60)
backoff("once", [None], retry_count=1, first_s=0.5, max_s=60)
backoff("at most", [0.5, 1.5, *[2.0] * 8], first_s=0.5, factor=3.0, max_s=2.0)
backoff("at once", [0.0, 0.0, None], retry_count=3, first_s=0, max_s=0)
backoff("reset", [1.5] * 12, first_s=1.5, max_s=60, reset_after_s=0.0)
backoff("no reset", [1.5, 3.0, 6.0, 12.0, 24.0], first_s=1.5, max_s=60, reset_after_s=1000.0)

# -- choices

cases(
    "choice",
    {
        "case": lambda ops, rx, a, b: rx.case(lambda: "y", {"x": a, "y": b}),
        "case default": lambda ops, rx, a, b: rx.case(lambda: "z", {"x": a}, b),
        "case nothing": lambda ops, rx, a, b: rx.case(lambda: "z", {"x": a}),
        "case fails": lambda ops, rx, a, b: rx.case(lambda: 1 // 0, {"x": a}, b),
        "case key error": lambda ops, rx, a, b: rx.case(lambda: {}["no"], {"x": a}, b),
        "case unhashable": lambda ops, rx, a, b: rx.case(list, {"x": a}, b),
        "if_then": lambda ops, rx, a, b: rx.if_then(lambda: True, a, b),
        "if_then else": lambda ops, rx, a, b: rx.if_then(lambda: 0, a, b),
        "if_then nothing": lambda ops, rx, a, b: rx.if_then(lambda: False, a),
        "if_then fails": lambda ops, rx, a, b: rx.if_then(lambda: 1 // 0, a, b),
        "if_then stateful": lambda ops, rx, a, b: rx.if_then(lambda: True, a.pipe(ops.pairwise()), b).pipe(ops.count()),
        "if_then again": lambda ops, rx, a, b: rx.if_then(lambda: True, a.pipe(ops.take(1)), b).pipe(ops.repeat(2)),
        "defer": lambda ops, rx, a, b: rx.defer(lambda _: a.pipe(ops.merge(b))),
        "defer stateful": lambda ops, rx, a, b: rx.defer(lambda _: a.pipe(ops.scan(lambda t, x: t + x))),
        "defer cold": lambda ops, rx, a, b: rx.defer(lambda _: rx.range(2)).pipe(ops.merge(rx.range(5, 7), a)),
        "defer fails": lambda ops, rx, a, b: rx.defer(lambda _: {}["missing"]).pipe(ops.catch(a)),
        "defer again": lambda ops, rx, a, b: rx.defer(lambda _: a.pipe(ops.take(1))).pipe(ops.repeat(2)),
        "using": lambda ops, rx, a, b: rx.using(lambda: None, lambda resource: a.pipe(ops.pairwise(), ops.merge(b))),
        "using cold": lambda ops, rx, a, b: rx.using(Disposable, lambda _: rx.range(2)).pipe(ops.merge(rx.range(5, 7))),
        "using nothing": lambda ops, rx, a, b: rx.using(lambda: 1 // 0, lambda resource: a).pipe(ops.catch(b)),
        "using fails": lambda ops, rx, a, b: rx.using(Disposable, lambda resource: {}["missing"]).pipe(ops.merge(a)),
        "using again": lambda ops, rx, a, b: rx.using(Disposable, lambda _: a.pipe(ops.take(1))).pipe(ops.repeat(2)),
        "defer timer": lambda ops, rx, a, b: rx.defer(lambda _: rx.timer(1.5)).pipe(ops.merge(a)),
    },
    **TWO,
)

# -- beginnings

cases(
    "beginnings",
    {
        "from_": lambda ops, rx, s: rx.from_([1, 2]).pipe(ops.merge(s)),
        "from_iterable": lambda ops, rx, s: rx.from_iterable(range(3)).pipe(ops.merge(s)),
        "from_iterable text": lambda ops, rx, s: rx.from_iterable("ab").pipe(ops.merge(s)),
        "from_list": lambda ops, rx, s: rx.from_list((1, None)).pipe(ops.take(1), ops.merge(s)),
        "from_ nothing": lambda ops, rx, s: rx.from_([]).pipe(ops.merge(s)),
        "just": lambda ops, rx, s: rx.just(None).pipe(ops.merge(s)),
        "return_value": lambda ops, rx, s: rx.return_value(1).pipe(ops.merge(rx.range(2), s)),
        "empty": lambda ops, rx, s: rx.empty().pipe(ops.merge(s)),
        "throw": lambda ops, rx, s: rx.throw(ValueError("over")).pipe(ops.merge(s)),
        "throw text": lambda ops, rx, s: rx.throw("over").pipe(ops.catch(s)),
        "throw among ranges": lambda ops, rx, s: rx.merge(rx.range(3), rx.throw("over"), s),
        "range down": lambda ops, rx, s: rx.range(5, 0, -2).pipe(ops.merge(s)),
        "range nothing": lambda ops, rx, s: rx.range(3, 3).pipe(ops.merge(s)),
        "range step": lambda ops, rx, s: rx.merge(rx.range(0, 6, 2), rx.range(1), s),
        "range without end": lambda ops, rx, s: rx.range(2, None, 3).pipe(ops.take(4), ops.merge(s)),
        "generate": lambda ops, rx, s: rx.generate(1, lambda x: x < 9, lambda x: x * 2).pipe(ops.merge(rx.range(3), s)),
        "generate nothing": lambda ops, rx, s: rx.generate(1, lambda x: False, lambda x: x).pipe(ops.merge(s)),
        "generate without end": lambda ops, rx, s: rx.generate(1, lambda x: True, lambda x: x + 1).pipe(ops.take(3)),
        "generate fails": lambda ops, rx, s: rx.generate(1, lambda x: True, lambda x: 6 // (3 - x)).pipe(ops.merge(s)),
        "generate condition fails": lambda ops, rx, s: rx.generate(0, lambda x: 1 // x, lambda x: x).pipe(ops.merge(s)),
        "generate a list": lambda ops, rx, s: rx.generate([], lambda x: len(x) < 3, lambda x: [*x, len(x)]),
        "plus": lambda ops, rx, s: rx.of(1) + s,
    },
    length_full=3,
)


def added(ops: Any, rx: Any, s: Any) -> Any:
    query = rx.range(2)
    query += s
    return query


def pushes(observer: Any, scheduler: Any = None) -> Any:
    for value in (1, 2):
        observer.on_next(value)
    observer.on_completed()
    return Disposable()


NOW = ImmediateScheduler.singleton()
cases("beginnings", {"plus is": added}, length_full=3)
cases(
    "outside",
    {
        "create": lambda ops, rx, s: rx.create(pushes).pipe(ops.map(lambda x: x + 1), ops.merge(s)),
        "from_callable": lambda ops, rx, s: rx.from_callable(lambda: 5).pipe(ops.merge(s)),
        "from_callable fails": lambda ops, rx, s: rx.from_callable(lambda: 1 // 0).pipe(ops.merge(s)),
        "from_callback": lambda ops, rx, s: rx.from_callback(lambda x, back: back(x, 2))(1).pipe(ops.merge(s)),
        "from_callback mapper": lambda ops, rx, s: rx.from_callback(lambda back: back(1, 2), sum)().pipe(ops.merge(s)),
        "from_future": lambda ops, rx, s: rx.from_future(done(5)).pipe(ops.merge(s)),
        "start": lambda ops, rx, s: rx.start(lambda: 5, NOW).pipe(ops.merge(s)),
        "start fails": lambda ops, rx, s: rx.start(lambda: 1 // 0, NOW).pipe(ops.catch(s)),
        "start_async": lambda ops, rx, s: rx.start_async(lambda: done(5)).pipe(ops.merge(s)),
        "start_async fails": lambda ops, rx, s: rx.start_async(lambda: 1 // 0).pipe(ops.merge(s)),
        "to_async": lambda ops, rx, s: rx.to_async(lambda x, y: x + y, NOW)(1, 2).pipe(ops.merge(s)),
        "from_marbles": lambda ops, rx, s: rx.from_marbles("-1-(2,3)-|", timespan=0.3).pipe(ops.merge(s)),
        "cold": lambda ops, rx, s: rx.cold("-a-#", 0.3, None, {"a": 7}, ValueError("over")).pipe(ops.merge(s)),
        "hot": lambda ops, rx, s: rx.hot("|", 0.0, scheduler=NOW).pipe(ops.merge(s)),
        "iterator": lambda ops, rx, s: rx.from_iterable(iter([1, 2, 3])).pipe(ops.take(2), ops.merge(s)),
        "iterator fails": lambda ops, rx, s: rx.from_(1 // x for x in (1, 0)).pipe(ops.merge(s)),
    },
    hostable=False,
    length_full=2,
)
