"""Cases of the operators that filter by place, pick one element, decide a question or keep what is best."""

from __future__ import annotations

import math
from typing import Any

from operator_cases import TWO, cases, over, stops


def with_counts(name: str, *counts: int) -> dict[str, Any]:
    """Cases of an operator that takes a count."""
    return {f"{n}": (lambda n: lambda ops, rx, s: s.pipe(getattr(ops, name)(n)))(n) for n in counts}


PREDICATES = {
    "truth": lambda x: x,
    "none": lambda x: False,
    "every": lambda x: True,
    "fails on a letter": over(1, lambda x: x == 2),
    "StopIteration": stops,
}
INDEXED = {
    "by index": lambda x, i: i < 1,
    "by both": lambda x, i: x <= i,
    "every": lambda x, i: True,
    "fails on a letter": lambda x, i: over(1, lambda y: y == 2)(x),
    "fails at an index": over(2, lambda x, i: x == 2),
    "fails late": over(3, lambda x, i: True),
}


def with_predicates(name: str, predicates: dict[str, Any], **arguments: Any) -> None:
    """Cases of an operator whose first argument is a predicate."""
    builds = {
        key: (lambda p: lambda ops, rx, s: s.pipe(getattr(ops, name)(p, **arguments)))(predicate)
        for key, predicate in predicates.items()
    }
    suffix = "".join(f" {key}" for key in arguments)
    cases(name, {f"{key}{suffix}": build for key, build in builds.items()})


# -- from the front

for name in ("filter_indexed", "take_while_indexed"):
    with_predicates(name, INDEXED)
with_predicates("take_while_indexed", INDEXED, inclusive=True)
# RxPY's index belongs to the operator: as a query is subscribed to once in each run, that is not seen here.
with_predicates("skip_while_indexed", INDEXED)
cases(
    "filter_indexed",
    {
        "default": lambda ops, rx, s: s.pipe(ops.filter_indexed()),
        "twice": lambda ops, rx, s: s.pipe(ops.filter_indexed(lambda x, i: i != 1), ops.filter_indexed(lambda x, i: i)),
    },
)
cases(
    "ignore_elements",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.ignore_elements()),
        "then default": lambda ops, rx, s: s.pipe(ops.ignore_elements(), ops.default_if_empty(7)),
    },
)

# -- from the end

for name in ("skip_last", "take_last", "take_last_buffer"):
    cases(name, with_counts(name, -1, 0, 1, 2, 4))
cases(
    "skip_last",
    {
        "twice": lambda ops, rx, s: s.pipe(ops.skip_last(1), ops.skip_last(1), ops.map(lambda x: x + 1)),
        "of last": lambda ops, rx, s: s.pipe(ops.take_last(3), ops.skip_last(1)),
        "then take": lambda ops, rx, s: s.pipe(ops.skip_last(1), ops.take(1)),
    },
)
cases(
    "take_last",
    {
        "then take": lambda ops, rx, s: s.pipe(ops.take_last(3), ops.take(1)),
        "then fails": lambda ops, rx, s: s.pipe(ops.take_last(2), ops.map(over(1, lambda x: x))),
        "of groups": lambda ops, rx, s: s.pipe(ops.group_by(lambda x: x), ops.take_last(2), ops.map(lambda g: g.key)),
        "per group": lambda ops, rx, s: s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(lambda g: g.pipe(ops.take_last(1), ops.map(lambda x: (g.key, x)))),
        ),
        "after take": lambda ops, rx, s: s.pipe(ops.take(3), ops.take_last(2)),
    },
)
BOUNDS = (
    (None, None, None), (1, None, None), (None, 2, None), (1, 3, None), (3, 2, None), (0, 0, None), (1, 0, None),
    (-1, 0, None), (-2, None, None), (None, -1, None), (1, -1, None), (2, -2, None), (-3, -1, None), (-1, -2, None),
    (-2, 1, None), (-2, 2, None), (-2, 3, None), (None, None, 2), (None, None, 0), (1, None, 2), (1, 4, 2),
    (None, -1, 2), (1, -1, 2), (-3, None, 2), (-3, -1, 2), (-3, 2, 2), (-4, 3, 3),
)  # fmt: skip
cases(
    "slice",
    {f"{bounds}": (lambda bounds: lambda ops, rx, s: s.pipe(ops.slice(*bounds)))(bounds) for bounds in BOUNDS},
    alphabet=(0, 1),
)
cases(
    "slice in brackets",
    {
        "stop": lambda ops, rx, s: s[:2],
        "both ends": lambda ops, rx, s: s[1:-1],
        "stepped": lambda ops, rx, s: s[1:4:2],
        "index": lambda ops, rx, s: s[1],
        "index 0": lambda ops, rx, s: s[0],
        "index from the end": lambda ops, rx, s: s[-2],
        "the last index is empty": lambda ops, rx, s: s[-1],
    },
    alphabet=(0, 1),
)

# -- one element

for name in ("element_at", "element_at_or_default"):
    cases(name, with_counts(name, 0, 1, 3))
cases("element_at_or_default", {"value": lambda ops, rx, s: s.pipe(ops.element_at_or_default(1, 9))})
SEARCHES = {
    "by value": lambda x, i, source: x == 2,
    "by index": lambda x, i, source: i == 1,
    "none": lambda x, i, source: None,
    "a false value": lambda x, i, source: x == 0,
    "fails on a letter": lambda x, i, source: over(1, lambda y: y == 2)(x),
    "is given a sequence": lambda x, i, source: hasattr(source, "subscribe"),
}
for name in ("find", "find_index"):
    with_predicates(name, SEARCHES)
    cases(
        name,
        {
            "per group": lambda ops, rx, s, n=name: s.pipe(
                ops.group_by(lambda x: x % 2),
                ops.flat_map(lambda g: g.pipe(getattr(ops, n)(lambda x, i, group: x == group.key + i))),
            ),
        },
    )
for name in ("first_or_default", "single", "single_or_default"):
    with_predicates(name, PREDICATES)
    cases(name, {"plain": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)())})
for name in ("first_or_default", "single_or_default"):
    with_predicates(name, PREDICATES, default_value=7)
    cases(name, {"value": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(None, 9))})
    cases(name, {"of None": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(None, 9))}, alphabet=(None, 0))
cases(
    "last_or_default",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.last_or_default()),
        "value": lambda ops, rx, s: s.pipe(ops.last_or_default(9)),
        "predicate": lambda ops, rx, s: s.pipe(ops.last_or_default(9, lambda x: x == 2)),
        "predicate only": lambda ops, rx, s: s.pipe(ops.last_or_default(predicate=lambda x: x == 2)),
        "predicate fails": lambda ops, rx, s: s.pipe(ops.last_or_default(9, over(1, lambda x: x == 2))),
    },
)
cases("last_or_default", {"of None": lambda ops, rx, s: s.pipe(ops.last_or_default(9))}, alphabet=(None, 0))
cases("single", {"of None": lambda ops, rx, s: s.pipe(ops.single())}, alphabet=(None, 0))
cases(
    "single_or_default_async",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.single_or_default_async()),
        "default": lambda ops, rx, s: s.pipe(ops.single_or_default_async(True)),
        "value": lambda ops, rx, s: s.pipe(ops.single_or_default_async(True, 9)),
        "no default": lambda ops, rx, s: s.pipe(ops.single_or_default_async(False, 9)),
    },
)

# -- yes or no

with_predicates("all", PREDICATES)
with_predicates("some", PREDICATES)
cases(
    "some",
    {
        "plain": lambda ops, rx, s: s.pipe(ops.some()),
        "then more": lambda ops, rx, s: s.pipe(ops.some(lambda x: x == 2), ops.map(str), ops.default_if_empty()),
    },
)
cases("is_empty", {"plain": lambda ops, rx, s: s.pipe(ops.is_empty())})
cases(
    "contains",
    {
        "value": lambda ops, rx, s: s.pipe(ops.contains(2)),
        "equal but not the same": lambda ops, rx, s: s.pipe(ops.contains(2.0)),
        "absent": lambda ops, rx, s: s.pipe(ops.contains(7)),
        "comparer": lambda ops, rx, s: s.pipe(ops.contains(0, lambda x, value: x == value + 2)),
        "comparer fails": lambda ops, rx, s: s.pipe(ops.contains(1, lambda x, value: over(value, lambda y: y == 2)(x))),
    },
)
cases("contains", {"None": lambda ops, rx, s: s.pipe(ops.contains(None))}, alphabet=(None, 0))
cases(
    "sequence_equal",
    {
        "both hot": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(b)),
        "the other way round": lambda ops, rx, a, b: b.pipe(ops.sequence_equal(a)),
        "itself": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(a)),
        "comparer": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(b, lambda x, y: x <= y)),
        "comparer fails": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(b, over(1, lambda x, y: x == y))),
        "branch fails": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(b.pipe(ops.map(over(1, lambda x: x))))),
        "ended branch": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(b.pipe(ops.take(1)))),
        "empty branch": lambda ops, rx, a, b: a.pipe(ops.sequence_equal(b.pipe(ops.take(0)))),
        "shifted": lambda ops, rx, a, b: a.pipe(ops.skip(1), ops.sequence_equal(a), ops.merge(b)),
    },
    **TWO,
)
cases(
    "sequence_equal",
    {
        "a list": lambda ops, rx, s: s.pipe(ops.sequence_equal([0, 1])),
        "an empty list": lambda ops, rx, s: s.pipe(ops.sequence_equal([])),
        "a cold sequence": lambda ops, rx, s: s.pipe(ops.sequence_equal(rx.of(0, 1))),
        "of cold": lambda ops, rx, s: rx.of(0, 1).pipe(ops.sequence_equal(s)),
        "both cold": lambda ops, rx, s: rx.of(0, 1).pipe(ops.sequence_equal(rx.of(0, 1))),
        "never": lambda ops, rx, s: s.pipe(ops.sequence_equal(rx.never())),
        "failed": lambda ops, rx, s: s.pipe(ops.sequence_equal(rx.throw(ValueError("cold")))),
    },
)

# -- what is best

for name in ("min_by", "max_by"):
    cases(
        name,
        {
            "key": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: x % 2)),
            "comparer": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: x, lambda a, b: b - a)),
            "a comparer that is true or false": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(lambda x: x, lambda a, b: a > b)
            ),
            "key fails": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(over(1, lambda x: x))),
            "comparer fails": lambda ops, rx, s, n=name: s.pipe(
                getattr(ops, n)(lambda x: x, over(1, lambda a, b: a - b))
            ),
            "not a number": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: x or math.nan)),
        },
    )
    cases(
        name,
        {"of text": lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: x))},
        alphabet=("b", "a"),
        reference=lambda ops, rx, s, n=name: s.pipe(getattr(ops, n)(lambda x: x, lambda a, b: int(a > b) - int(a < b))),
    )
for name in ("min", "max"):
    cases(
        name,
        {
            "not a number": lambda ops, rx, s, n=name: s.pipe(
                ops.map(lambda x: x or math.nan), getattr(ops, n)(), ops.map(repr)
            )
        },
    )

# -- keys that are not hashable, or not equal to themselves

MIXED = {0: frozenset((1,)), 1: {1}, 2: [1]}
cases(
    "distinct",
    {
        "equal keys of which one is unhashable": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: MIXED[x])),
        "not a number": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: x or math.nan)),
        "comparer of keys": lambda ops, rx, s: s.pipe(ops.distinct(lambda x: x * 2, lambda a, b: a > b)),
        "comparer with StopIteration": lambda ops, rx, s: s.pipe(ops.distinct(comparer=lambda a, b: stops(b))),
    },
)
cases(
    "distinct_until_changed",
    {
        "not a number": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(lambda x: x or math.nan)),
        "unhashable keys": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(lambda x: [x % 2])),
        "key and comparer": lambda ops, rx, s: s.pipe(ops.distinct_until_changed(lambda x: x * 2, lambda a, b: a > b)),
    },
)
cases(
    "sum",
    {
        "of text by key fails": lambda ops, rx, s: s.pipe(ops.sum(lambda x: x if x != 1 else "1")),
        "of decimals": lambda ops, rx, s: s.pipe(ops.sum(lambda x: x / 10)),
    },
)
cases("reduce", {"without a seed fails": lambda ops, rx, s: s.pipe(ops.reduce(over(1, lambda a, x: a + x)))})
