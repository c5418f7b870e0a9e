"""Accumulators that are changed in place, read in lists of events: `reactivex`, event by event, is the oracle."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import reactivex
from lanes import every
from reactivex import operators as plain

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

NUMBERS = list(range(7))
Build = Callable[[Any, Any, Any], Any]
"""What makes a query of a module of operators, one of creation, and a sequence."""


def appended(total: Any, value: int) -> Any:
    total.append(value)
    return total


def set_at(total: dict[int, int], value: int) -> dict[int, int]:
    total[value % 3] = value
    return total


def inside(total: tuple[int, list[int]], value: int) -> tuple[int, list[int]]:
    """A new tuple for each, with one list in all of them."""
    total[1].append(value)
    return total[0] + 1, total[1]


def beginning(total: list[int] | None, value: int) -> list[int]:
    return [value] if total is None else appended(total, value)


def under_a_name(total: Any, value: int) -> Any:
    total.seen = [*total.seen, value]
    return total


def counted(total: Counter[int], value: int) -> Counter[int]:
    total[value % 3] += 1
    return total


def sometimes(total: list[int], value: int) -> list[int]:
    return appended(total, value) if value % 3 else [*total, value]


ACCUMULATORS: dict[str, tuple[Callable[[Any, int], Any], Callable[[], Any]]] = {
    "a list": (appended, list),
    "a deque": (appended, lambda: deque(maxlen=3)),
    "a dict": (set_at, dict),
    "a tuple around a list": (inside, lambda: (0, [])),
    "a list that nothing was before": (beginning, lambda: None),
    "an object's attribute": (under_a_name, lambda: SimpleNamespace(seen=[])),
    "a Counter": (counted, Counter),
    "a list, now and then": (sometimes, list),
}
SHAPES: dict[str, Build] = {
    "map": lambda o, r, s: s.pipe(o.map(repr)),
    "filter": lambda o, r, s: s.pipe(o.filter(lambda total: len(repr(total)) % 2), o.map(repr)),
    "take": lambda o, r, s: s.pipe(o.take(3), o.map(repr)),
    "two": lambda o, r, s: s.pipe(o.scan(lambda all, total: [*all, repr(total)], []), o.map(repr)),
    "two that change": lambda o, r, s: s.pipe(o.map(repr), o.scan(appended, []), o.map(repr)),
    "pairwise": lambda o, r, s: s.pipe(o.pairwise(), o.map(repr)),
    "buffer": lambda o, r, s: s.pipe(o.buffer_with_count(2), o.map(repr)),
    "window": lambda o, r, s: s.pipe(o.window_with_count(2), o.flat_map(lambda w: w.pipe(o.map(repr)))),
    "flat_map": lambda o, r, s: s.pipe(o.flat_map(lambda total: r.of(repr(total)))),
    "distinct": lambda o, r, s: s.pipe(o.distinct(repr), o.map(repr)),
    "start_with": lambda o, r, s: s.pipe(o.start_with("first"), o.map(repr)),
    "share": lambda o, r, s: s.pipe(o.publish(lambda one: r.merge(one.pipe(o.map(repr)), one.pipe(o.map(len_of))))),
    "repeat": lambda o, r, s: s.pipe(o.take(2), o.map(repr), o.repeat(2)),
    "groups behind": lambda o, r, s: s.pipe(
        o.group_by(lambda total: len(repr(total)) % 2), o.flat_map(lambda g: g.pipe(o.map(repr)))
    ),
}  # fmt: skip


def len_of(value: Any) -> int:
    return len(repr(value))


def accumulating(kind: str, shape: str, where: str) -> Build:
    """Return what makes the query: the accumulator *where*, and the shape behind it."""
    accumulate, seed = ACCUMULATORS[kind]

    def build(o: Any, r: Any, s: Any) -> Any:
        def scan() -> Any:
            return o.scan(accumulate, seed())

        if where == "alone":
            return SHAPES[shape](o, r, s.pipe(scan()))
        if where == "behind others":
            return SHAPES[shape](o, r, s.pipe(o.filter(lambda n: n != 4), scan(), o.as_observable()))
        if where == "in sequences read at once":
            return SHAPES[shape](
                o, r, s.pipe(o.flat_map(lambda n: r.of(n, n + 1, n + 2).pipe(o.scan(accumulate, seed()))))
            )
        if where == "and read in sequences read at once":
            return s.pipe(o.concat_map(lambda n: SHAPES[shape](o, r, r.of(n, n + 1).pipe(o.scan(accumulate, seed())))))
        if where == "in groups":
            # a seed for each group, where RxPY's scan would share one
            grouped = s.pipe(o.group_by(lambda n: n % 2), o.flat_map(lambda g: g.pipe(o.scan(accumulate, seed()))))
            return SHAPES[shape](o, r, grouped)

        def deep(group: Any) -> Any:
            return group.pipe(
                o.group_by(lambda n: n % 4), o.flat_map(lambda g: g.pipe(o.scan(accumulate, seed()), o.as_observable()))
            )

        return SHAPES[shape](o, r, s.pipe(o.group_by(lambda n: n % 2), o.flat_map(deep)))

    return build


def oracle(build: Build, numbers: Sequence[int]) -> list[Any]:
    """What RxPY gives, from a source that can be subscribed to again."""
    got: list[Any] = []
    build(plain, reactivex, reactivex.from_iterable(numbers)).subscribe(got.append)
    return got


def hosted(build: Build, numbers: Sequence[int], batch: int) -> list[Any]:
    evaluator = QueryEvaluator(MemoryStore(), batch_events_max=batch)
    evaluator.source("n", ListSource(list(numbers)))
    evaluator.create("q", build(ops, rx, rx.source("n")))
    with evaluator:
        evaluator.run()
        return [value for each in evaluator.stream("q").read(0, 1000) for value in each.values]


def unhosted(build: Build, numbers: Sequence[int]) -> list[Any]:
    got: list[Any] = []
    build(ops, rx, rx.from_iterable(numbers)).subscribe(got.append)
    return got


WHERE = (
    "alone", "behind others", "in groups", "in groups of groups", "in sequences read at once",
    "and read in sequences read at once",
)  # fmt: skip


@pytest.mark.parametrize("where", every(4, WHERE))
@pytest.mark.parametrize("shape", every(7, (each for each in SHAPES if each != "repeat")))
@pytest.mark.parametrize("kind", every(3, ACCUMULATORS))
def test_every_state_is_read_as_it_was(kind: str, shape: str, where: str) -> None:
    """Hosted in lists of any length, and un-hosted, each state is seen as in RxPY before the function runs again."""
    build = accumulating(kind, shape, where)
    expected = oracle(build, NUMBERS)
    assert hosted(build, NUMBERS, 1) == expected
    assert hosted(build, NUMBERS, 3) == expected
    assert hosted(build, NUMBERS, 1000) == expected
    assert unhosted(build, NUMBERS) == expected


@pytest.mark.parametrize("where", ["in groups", "in groups of groups"])
def test_a_list_that_groups_append_to_has_each_length(where: str) -> None:
    """What a group has emitted is read before its next event, whichever of the groups have events in between."""
    numbers = [1, 2, 3, 5, 4, 7, 9, 8, 8, 1]
    build = accumulating("a list", "map", where)
    assert hosted(build, numbers, 1000) == oracle(build, numbers)
