"""The table of cases: every operator and creation function with several parameterisations, for whoever runs operators.

A case is a function ``build(ops, rx, *sources)`` and how to feed it. `CASES` is read by the un-hosted oracle tests and
may be read by any host. Values are small whole numbers; 0 and None are among them because both are false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from lanes import at_each_commit, at_night, of_lane

Build = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """One parameterisation and its inputs; not *hostable* means that a host refuses it, with a reason."""

    build: Build
    alphabet: Sequence[Any] = (0, 1, 2)
    sources: int = 1
    gaps_s: Sequence[float] = (1.0,)
    length_full: int = 3
    reference: Build | None = None
    hostable: bool = True


CASES: dict[str, Case] = {}


def lanes(names: Iterable[str], *, fast: int, every: int = 1, longer: bool = False) -> list[Any]:
    """Return parameters for tests: of each operator the *fast* lane has that many cases, the slow lane has the rest.

    Of those for the fast lane it has each *every*-th, and each commit one of `NIGHTLY` of the others; *longer*: it has
    them too.
    """
    seen: Counter[str] = Counter()
    quick, params = 0, []
    for name in names:
        operator = name.partition(":")[0]
        seen[operator] += 1
        quick += seen[operator] <= fast
        if seen[operator] > fast:
            params.append(at_night(name))
        elif quick % every:
            params.append(at_each_commit(name))
        else:
            params.append(pytest.param(name, marks=pytest.mark.commit) if longer else name)
    return of_lane(params)


def cases(prefix: str, builds: dict[str, Build], **feeding: Any) -> None:
    for name, build in builds.items():
        CASES[f"{prefix}: {name}"] = Case(build, **feeding)


def over(letter: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, failing whenever its last argument is *letter*."""

    def called(*args: Any) -> Any:
        if args[-1] == letter:
            raise ValueError(f"over {letter}")
        return function(*args)

    return called


def stops(value: Any) -> Any:
    """A user function with the nastiest exception: it must be an error, not the end of a loop."""
    if value == 1:
        raise StopIteration("stop")
    return value


def mend(error: Exception) -> Any:
    return str(error)


cases(
    "map",
    {
        "doubles": lambda ops, rx, s: s.pipe(ops.map(lambda x: x * 2)),
        "default": lambda ops, rx, s: s.pipe(ops.map()),
        "fails on a letter": lambda ops, rx, s: s.pipe(ops.map(over(1, lambda x: x))),
        "StopIteration": lambda ops, rx, s: s.pipe(ops.map(stops)),
    },
)
cases(
    "filter",
    {
        "truth": lambda ops, rx, s: s.pipe(ops.filter(lambda x: x)),
        "none pass": lambda ops, rx, s: s.pipe(ops.filter(lambda x: False)),
        "fails on a letter": lambda ops, rx, s: s.pipe(ops.filter(over(1, lambda x: x == 2))),
        "StopIteration": lambda ops, rx, s: s.pipe(ops.filter(stops)),
    },
)
cases(
    "where_key",
    {
        "one key": lambda ops, rx, s: s.pipe(ops.where_key(lambda x: x % 2, 0)),
    },
    reference=lambda ops, rx, s: s.pipe(ops.filter(lambda x: x % 2 == 0)),
)
cases(
    "where_key fails",
    {"on a letter": lambda ops, rx, s: s.pipe(ops.where_key(over(1, lambda x: x), 2))},
    reference=lambda ops, rx, s: s.pipe(ops.filter(over(1, lambda x: x == 2))),
)
cases(
    "scan",
    {
        "no seed": lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: a + x)),
        "seed": lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: a * 3 + x, 7)),
        "seed None": lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: (a, x), None)),
        "tuple seed": lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: (*a, x), ())),
        "fails on a letter": lambda ops, rx, s: s.pipe(ops.scan(over(1, lambda a, x: a + x), 5)),
        "fails without seed": lambda ops, rx, s: s.pipe(ops.scan(over(1, lambda a, x: a + x))),
        "StopIteration": lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: stops(x), 0)),
        "fails then catch": lambda ops, rx, s: s.pipe(
            ops.scan(over(1, lambda a, x: a + x), 5), ops.catch(lambda e, src: rx.of(mend(e)))
        ),
    },
)
cases(
    "reduce",
    {
        "no seed": lambda ops, rx, s: s.pipe(ops.reduce(lambda a, x: a * 3 + x)),
        "seed": lambda ops, rx, s: s.pipe(ops.reduce(lambda a, x: a * 3 + x, 1)),
        "seed None": lambda ops, rx, s: s.pipe(ops.reduce(lambda a, x: (a, x), None)),
        "fails on a letter": lambda ops, rx, s: s.pipe(ops.reduce(over(1, lambda a, x: a + x), 0)),
    },
)
cases(
    "map_indexed",
    {
        "pairs": lambda ops, rx, s: s.pipe(ops.map_indexed(lambda x, i: (x, i))),
        "default": lambda ops, rx, s: s.pipe(ops.map_indexed()),
        "fails at an index": lambda ops, rx, s: s.pipe(ops.map_indexed(over(2, lambda x, i: (x, i)))),
    },
)
cases(
    "take",
    {
        **{f"{n}": (lambda n: lambda ops, rx, s: s.pipe(ops.take(n)))(n) for n in (0, 1, 2, 3)},
        "twice": lambda ops, rx, s: s.pipe(ops.take(3), ops.take(2)),
        "after skip": lambda ops, rx, s: s.pipe(ops.skip(1), ops.take(2), ops.skip(1)),
    },
)
cases("skip", {f"{n}": (lambda n: lambda ops, rx, s: s.pipe(ops.skip(n)))(n) for n in (0, 1, 2, 4)})
cases(
    "take_while",
    {
        "truth": lambda ops, rx, s: s.pipe(ops.take_while(lambda x: x)),
        "inclusive": lambda ops, rx, s: s.pipe(ops.take_while(lambda x: x < 2, inclusive=True)),
        "fails on a letter": lambda ops, rx, s: s.pipe(ops.take_while(over(1, lambda x: x != 2))),
        "inclusive fails": lambda ops, rx, s: s.pipe(ops.take_while(over(1, lambda x: x != 2), inclusive=True)),
        "StopIteration": lambda ops, rx, s: s.pipe(ops.take_while(stops)),
    },
)
cases(
    "skip_while",
    {
        "truth": lambda ops, rx, s: s.pipe(ops.skip_while(lambda x: x)),
        "fails on a letter": lambda ops, rx, s: s.pipe(ops.skip_while(over(1, lambda x: x != 2))),
    },
)
cases(
    "distinct",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.distinct()),
        "by key": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: x % 2)),
        "unhashable keys": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: [x % 2])),
        "some unhashable": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: [x] if x else x)),
        "comparer": lambda ops, rx, s: s.pipe(ops.distinct(None, lambda a, b: abs(a - b) < 2)),
        "key fails": lambda ops, rx, s: s.pipe(ops.distinct(over(1, lambda x: x))),
        "comparer fails": lambda ops, rx, s: s.pipe(ops.distinct(comparer=over(1, lambda a, b: a == b))),
        "to_list": lambda ops, rx, s: s.pipe(ops.distinct(), ops.to_list()),
    },
)
cases("distinct", {"of None": lambda ops, rx, s: s.pipe(ops.distinct())}, alphabet=(None, 0, False))
cases(
    "distinct_until_changed",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.distinct_until_changed()),
        "by key": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(lambda x: x % 2)),
        "comparer": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(comparer=lambda a, b: abs(a - b) < 2)),
        "key fails": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(over(1, lambda x: x))),
        "comparer fails": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(comparer=over(1, lambda a, b: a == b))),
        "StopIteration": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(stops)),
    },
)
cases(
    "distinct_until_changed",
    {"of None": lambda ops, rx, s: s.pipe(ops.distinct_until_changed())},
    alphabet=(None, 0, False),
)
cases(
    "pairwise",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.pairwise()),
        "twice": lambda ops, rx, s: s.pipe(ops.pairwise(), ops.pairwise()),
    },
    alphabet=(None, 0, 1),
)
cases(
    "start_with",
    {
        "one": lambda ops, rx, s: s.pipe(ops.start_with(9)),
        "three": lambda ops, rx, s: s.pipe(ops.start_with(7, 8, 9), ops.scan(lambda a, x: a + x)),
        "none": lambda ops, rx, s: s.pipe(ops.start_with()),
        "twice": lambda ops, rx, s: s.pipe(ops.start_with(1), ops.start_with(2), ops.take(2)),
        "cold": lambda ops, rx, s: rx.of(5).pipe(ops.start_with(4), ops.merge(s)),
        "downstream fails": lambda ops, rx, s: s.pipe(ops.start_with(1), ops.map(over(1, lambda x: x))),
    },
)
cases(
    "default_if_empty",
    {
        "None": lambda ops, rx, s: s.pipe(ops.default_if_empty()),
        "value": lambda ops, rx, s: s.pipe(ops.filter(lambda x: x == 2), ops.default_if_empty(9)),
    },
)
cases(
    "first",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.first()),
        "predicate": lambda ops, rx, s: s.pipe(ops.first(lambda x: x == 2)),
        "predicate fails": lambda ops, rx, s: s.pipe(ops.first(over(1, lambda x: x == 2))),
    },
)
cases(
    "last",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.last()),
        "predicate": lambda ops, rx, s: s.pipe(ops.last(lambda x: x != 2)),
        "predicate fails": lambda ops, rx, s: s.pipe(ops.last(over(1, lambda x: x == 2))),
    },
)
cases("last", {"of None": lambda ops, rx, s: s.pipe(ops.last())}, alphabet=(None, 0))
cases(
    "count",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.count()),
        "predicate": lambda ops, rx, s: s.pipe(ops.count(lambda x: x)),
        "predicate fails": lambda ops, rx, s: s.pipe(ops.count(over(1, lambda x: x == 2))),
    },
)
cases(
    "sum",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.sum()),
        "by key": lambda ops, rx, s: s.pipe(ops.sum(lambda x: x * 1.5)),
        "key fails": lambda ops, rx, s: s.pipe(ops.sum(over(1, lambda x: x))),
    },
)
cases("sum", {"of text fails": lambda ops, rx, s: s.pipe(ops.sum())}, alphabet=(0, "a"))
cases(
    "average",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.average()),
        "by key": lambda ops, rx, s: s.pipe(ops.average(lambda x: x * 10)),
        "key fails": lambda ops, rx, s: s.pipe(ops.average(over(1, lambda x: x))),
    },
)
cases("average", {"of text": lambda ops, rx, s: s.pipe(ops.average())}, alphabet=(1, "2", "b"))
for extreme in ("min", "max"):
    cases(
        extreme,
        {
            "plain": lambda ops, rx, s, e=extreme: s.pipe(getattr(ops, e)()),
            "comparer": lambda ops, rx, s, e=extreme: s.pipe(getattr(ops, e)(lambda a, b: (b > a) - (b < a))),
            "ties": lambda ops, rx, s, e=extreme: s.pipe(
                ops.map_indexed(lambda x, i: (x % 2, i)), getattr(ops, e)(lambda a, b: a[0] - b[0])
            ),
            "comparer fails": lambda ops, rx, s, e=extreme: s.pipe(getattr(ops, e)(over(1, lambda a, b: a - b))),
        },
    )
    cases(
        extreme,
        {"of text and numbers": lambda ops, rx, s, e=extreme: s.pipe(getattr(ops, e)())},
        alphabet=("b", 0, "a"),
        reference=lambda ops, rx, s, e=extreme: s.pipe(getattr(ops, e)(lambda a, b: int(a > b) - int(a < b))),
    )
cases("to_list", {"plain": lambda ops, rx, s: s.pipe(ops.to_list())})
cases(
    "buffer_with_count",
    {
        f"{count} {skip}": (lambda c, k: lambda ops, rx, s: s.pipe(ops.buffer_with_count(c, k)))(count, skip)
        for count, skip in ((1, None), (2, None), (3, None), (2, 1), (3, 1), (1, 2), (2, 3), (3, 2))
    },
)

# -- several inputs

TWO = {"sources": 2, "alphabet": (0, 1), "length_full": 2}
THREE = {"sources": 3, "alphabet": (0,), "length_full": 1}

cases(
    "merge",
    {
        "operator": lambda ops, rx, a, b: a.pipe(ops.merge(b)),
        "creation": lambda ops, rx, a, b: rx.merge(a, b),
        "same twice": lambda ops, rx, a, b: a.pipe(ops.merge(a, b)),
        "branches fail": lambda ops, rx, a, b: rx.merge(a.pipe(ops.map(over(1, lambda x: x))), b.pipe(ops.take(1))),
        "ended branch": lambda ops, rx, a, b: rx.merge(a.pipe(ops.take(1)), b.pipe(ops.count()), a),
        "take": lambda ops, rx, a, b: a.pipe(ops.merge(b), ops.take(2)),
    },
    **TWO,
)
cases(
    "merge",
    {
        "of nothing": lambda ops, rx, s: rx.merge(),
        "of one": lambda ops, rx, s: rx.merge(s),
        "cold": lambda ops, rx, s: rx.merge(rx.range(0, 3), s, rx.of(7, 8), rx.range(4, 6)),
        "max_concurrent": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.timer(x + 0.5).pipe(ops.map(lambda _: x))), ops.merge(max_concurrent=2)
        ),
        "max_concurrent 1": lambda ops, rx, s: s.pipe(
            ops.map(lambda x: rx.range(x, x + 2)), ops.merge(max_concurrent=1)
        ),
    },
)
cases("merge", {"three": lambda ops, rx, a, b, c: rx.merge(a, b, c)}, **THREE)
for name in ("combine_latest", "zip", "with_latest_from"):
    cases(
        name,
        {
            "operator": lambda ops, rx, a, b, n=name: a.pipe(getattr(ops, n)(b)),
            "creation": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b),
            "same twice": lambda ops, rx, a, b, n=name: a.pipe(getattr(ops, n)(a, b)),
            "branch fails": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b.pipe(ops.map(over(1, lambda x: x)))),
            "ended branch": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b.pipe(ops.take(1))),
            "ended first": lambda ops, rx, a, b, n=name: getattr(rx, n)(a.pipe(ops.take(1)), b),
            "empty branch": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, b.pipe(ops.take(0))),
            "never": lambda ops, rx, a, b, n=name: getattr(rx, n)(a, rx.never(), b),
            "take": lambda ops, rx, a, b, n=name: a.pipe(getattr(ops, n)(b), ops.take(1)),
            "scan before": lambda ops, rx, a, b, n=name: a.pipe(
                ops.scan(lambda t, x: t + x), getattr(ops, n)(b.pipe(ops.pairwise())), ops.pairwise()
            ),
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
        },
    )
    cases(name, {"three": lambda ops, rx, a, b, c, n=name: getattr(rx, n)(a, b, c)}, **THREE)
cases(
    "concat",
    {
        "operator": lambda ops, rx, a, b: a.pipe(ops.concat(b)),
        "creation": lambda ops, rx, a, b: rx.concat(a, b),
        "same twice": lambda ops, rx, a, b: rx.concat(a, b, a),
        "branch fails": lambda ops, rx, a, b: rx.concat(a.pipe(ops.take(1)), b.pipe(ops.map(over(1, lambda x: x)))),
        "plus": lambda ops, rx, a, b: a.pipe(ops.take(2)) + b.pipe(ops.take(1)),
        "first again": lambda ops, rx, a, b: rx.concat(a.pipe(ops.take(1)), a.pipe(ops.take(1)), b),
    },
    **TWO,
)
cases(
    "concat",
    {
        "cold": lambda ops, rx, s: rx.concat(rx.of(1, 2), rx.empty(), s, rx.range(2)),
        "cold fails": lambda ops, rx, s: rx.concat(rx.of(1), rx.throw(ValueError("cold")), s),
        "of timers": lambda ops, rx, s: rx.concat(rx.timer(1.5), rx.timer(1.0), s.pipe(ops.take(1))),
        "of nothing": lambda ops, rx, s: rx.concat(),
    },
)
cases(
    "take_until",
    {
        "other": lambda ops, rx, a, b: a.pipe(ops.take_until(b)),
        "filtered": lambda ops, rx, a, b: a.pipe(ops.take_until(b.pipe(ops.filter(lambda x: x)))),
        "same": lambda ops, rx, a, b: a.pipe(ops.take_until(a), ops.merge(b)),
        "stateful": lambda ops, rx, a, b: a.pipe(ops.take_until(b), ops.to_list()),
    },
    **TWO,
)
cases(
    "take_until",
    {
        "timer": lambda ops, rx, s: s.pipe(ops.take_until(rx.timer(2.5))),
        "never": lambda ops, rx, s: s.pipe(ops.take_until(rx.never())),
        "of": lambda ops, rx, s: s.pipe(ops.take_until(rx.of(1))),
        "empty": lambda ops, rx, s: s.pipe(ops.take_until(rx.empty())),
        "throw": lambda ops, rx, s: s.pipe(ops.take_until(rx.throw(ValueError("over")))),
    },
)

# -- errors

cases(
    "catch",
    {
        "second": lambda ops, rx, a, b: a.pipe(ops.catch(b)),
        "creation": lambda ops, rx, a, b: rx.catch(a, b, rx.of(9)),
        "handler": lambda ops, rx, a, b: a.pipe(ops.catch(lambda e, src: b)),
        "handler's source": lambda ops, rx, a, b: a.pipe(
            ops.scan(over(1, lambda t, x: t + x), 5), ops.catch(lambda e, src: src.pipe(ops.merge(b), ops.take(2)))
        ),
        "both fail": lambda ops, rx, a, b: rx.catch(a.pipe(ops.map(over(1, lambda x: x))), b),
    },
    **TWO,
)
cases(
    "catch",
    {
        "of": lambda ops, rx, s: s.pipe(ops.catch(rx.of(8, 9))),
        "throw": lambda ops, rx, s: s.pipe(ops.catch(rx.throw(KeyError("second")))),
        "error's text": lambda ops, rx, s: s.pipe(
            ops.map(over(1, lambda x: x)), ops.catch(lambda e, src: rx.of(str(e), 2))
        ),
        "handler fails": lambda ops, rx, s: s.pipe(ops.catch(lambda e, src: {}["missing"])),
        "nested": lambda ops, rx, s: s.pipe(
            ops.map(over(1, lambda x: x)),
            ops.catch(lambda e, src: rx.throw(KeyError("inner"))),
            ops.catch(lambda e, src: rx.return_value(repr(e))),
        ),
        "timer": lambda ops, rx, s: s.pipe(ops.catch(rx.timer(1.5))),
        "cold": lambda ops, rx, s: rx.catch(rx.throw(ValueError("a")), rx.throw(KeyError("b")), s),
        "of nothing": lambda ops, rx, s: rx.catch(),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(lambda g: g.pipe(ops.map(over(2, lambda x: x)), ops.catch(rx.of("mended")))),
        ),
        "on subscribing again": lambda ops, rx, s: s.pipe(
            ops.map(over(1, lambda x: x)), ops.catch(lambda e, src: src), ops.map_indexed(lambda x, i: (x, i))
        ),
    },
)
cases(
    "retry",
    {
        "hot": lambda ops, rx, s: s.pipe(ops.map(over(1, lambda x: x)), ops.retry(2)),
        "hot stateful": lambda ops, rx, s: s.pipe(
            ops.pairwise(), ops.scan(over((1, 1), lambda t, p: t + p[0]), 0), ops.retry(3)
        ),
        "cold": lambda ops, rx, s: rx.range(3).pipe(ops.map(over(1, lambda x: x)), ops.retry(2), ops.merge(s)),
        "of": lambda ops, rx, s: rx.of(2, 0, 1).pipe(
            ops.scan(over(1, lambda a, x: a + x), 0), ops.retry(3), ops.merge(s)
        ),
        "no end": lambda ops, rx, s: s.pipe(ops.catch(rx.never()), ops.map(over(1, lambda x: x)), ops.retry()),
        "zero": lambda ops, rx, s: s.pipe(ops.retry(0)),
        "one": lambda ops, rx, s: s.pipe(ops.retry(1)),
        "timers": lambda ops, rx, s: rx.timer(0.5).pipe(
            ops.map(over(0, lambda x: x)), ops.retry(3), ops.start_with(7), ops.merge(s)
        ),
        "take in front": lambda ops, rx, s: s.pipe(ops.take(2), ops.map(over(1, lambda x: x)), ops.retry(2)),
        "group_by in front": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.flat_map(lambda g: g.pipe(ops.count())),
            ops.map(over(2, lambda x: x)),
            ops.retry(2),
        ),
    },
)

# -- time

GAPS = {"gaps_s": (1.0, 2.5), "alphabet": (0, 1), "length_full": 3}

cases(
    "debounce",
    {f"{t}": (lambda t: lambda ops, rx, s: s.pipe(ops.debounce(t)))(t) for t in (0.5, 1.0, 1.5, 3.0, 0)},
    **GAPS,
)
cases(
    "debounce",
    {
        "timedelta": lambda ops, rx, s: s.pipe(ops.debounce(timedelta(seconds=1.5))),
        "then take": lambda ops, rx, s: s.pipe(ops.debounce(1.5), ops.take(1)),
        "scan around": lambda ops, rx, s: s.pipe(
            ops.scan(lambda a, x: a + x), ops.debounce(1.5), ops.map(over(1, lambda x: x))
        ),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.debounce(1.5), ops.map(lambda x: (g.key, x))))
        ),
    },
    **GAPS,
)
cases("debounce", {"of None": lambda ops, rx, s: s.pipe(ops.debounce(1.5))}, **{**GAPS, "alphabet": (None, 0)})
cases(
    "delay",
    {f"{t}": (lambda t: lambda ops, rx, s: s.pipe(ops.delay(t)))(t) for t in (0, 0.5, 1.0, 1.5, 4.0)},
    **GAPS,
)
cases(
    "delay",
    {
        "timedelta": lambda ops, rx, s: s.pipe(ops.delay(timedelta(seconds=1.5))),
        "twice": lambda ops, rx, s: s.pipe(ops.delay(1.0), ops.delay(0.5)),
        "then fails": lambda ops, rx, s: s.pipe(ops.delay(1.5), ops.map(over(1, lambda x: x))),
        "then take": lambda ops, rx, s: s.pipe(ops.delay(3.0), ops.take(1)),
        "of cold": lambda ops, rx, s: rx.of(1, 2, 3).pipe(ops.delay(1.5), ops.merge(s)),
        "and merge": lambda ops, rx, s: s.pipe(ops.merge(s.pipe(ops.delay(1.0)))),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x), ops.flat_map(lambda g: g.pipe(ops.delay(1.5), ops.map(lambda x: (g.key, x))))
        ),
    },
    **GAPS,
)
cases(
    "timeout",
    {
        **{f"{t}": (lambda t: lambda ops, rx, s: s.pipe(ops.timeout(t)))(t) for t in (0.5, 1.0, 1.5, 3.0)},
        "other": lambda ops, rx, s: s.pipe(ops.timeout(1.5, rx.of(8, 9))),
        "other is late": lambda ops, rx, s: s.pipe(ops.timeout(1.5, rx.timer(1.0))),
        "other is itself": lambda ops, rx, s: s.pipe(ops.timeout(1.5, s.pipe(ops.map(lambda x: x + 10)))),
        "timedelta": lambda ops, rx, s: s.pipe(ops.timeout(timedelta(seconds=1.5))),
        "then retry": lambda ops, rx, s: s.pipe(ops.timeout(1.5), ops.retry(2)),
        "then take": lambda ops, rx, s: s.pipe(ops.timeout(1.5), ops.take(1)),
    },
    **GAPS,
)
cases(
    "sample",
    {
        **{f"{t}": (lambda t: lambda ops, rx, s: s.pipe(ops.sample(t)))(t) for t in (0.5, 1.0, 1.5)},
        "timer": lambda ops, rx, s: s.pipe(ops.sample(rx.timer(2.0))),
        "then take": lambda ops, rx, s: s.pipe(ops.sample(1.5), ops.take(1)),
    },
    **GAPS,
)
cases("sample", {"other": lambda ops, rx, a, b: a.pipe(ops.sample(b))}, **TWO)
SPANS = ((1.0, None), (1.5, None), (2.0, 1.0), (1.0, 2.0), (1.5, 1.0), (1.0, 1.5), (3.0, 1.0))
cases(
    "buffer_with_time",
    {
        f"{span} {shift}": (lambda a, b: lambda ops, rx, s: s.pipe(ops.buffer_with_time(a, b)))(span, shift)
        for span, shift in SPANS
    },
    **GAPS,
)
cases(
    "buffer_with_time",
    {
        "timedelta": lambda ops, rx, s: s.pipe(ops.buffer_with_time(timedelta(seconds=1.5))),
        "then take": lambda ops, rx, s: s.pipe(ops.buffer_with_time(1.5), ops.take(2)),
    },
    **GAPS,
)
cases(
    "window_with_time",
    {
        **{
            f"{span} {shift}": (
                lambda a, b: (
                    lambda ops, rx, s: s.pipe(ops.window_with_time(a, b), ops.flat_map(lambda w: w.pipe(ops.to_list())))
                )
            )(span, shift)
            for span, shift in SPANS
        },
        "switch": lambda ops, rx, s: s.pipe(ops.window_with_time(1.5, 1.0), ops.switch_latest()),
        "then take": lambda ops, rx, s: s.pipe(
            ops.window_with_time(1.5), ops.take(2), ops.flat_map(lambda w: w.pipe(ops.count()))
        ),
        "merge": lambda ops, rx, s: s.pipe(ops.window_with_time(2.0, 1.0), ops.merge_all()),
        "fails inside": lambda ops, rx, s: s.pipe(
            ops.window_with_time(1.5), ops.flat_map(lambda w: w.pipe(ops.map(over(1, lambda x: x)), ops.to_list()))
        ),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x),
            ops.flat_map(
                lambda g: g.pipe(
                    ops.window_with_time(1.5),
                    ops.flat_map(lambda w: w.pipe(ops.count(), ops.map(lambda n: (g.key, n)))),
                )
            ),
        ),
    },
    **GAPS,
)
