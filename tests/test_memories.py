"""Functions that remember something outside of the state of their query are told of, and no others."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.memories import memories
from reliable_rx.plan import Plan

n = rx.source("n")
seen: set[Any] = set()
count = [0]
table: dict[Any, Any] = {}
counter: Counter[Any] = Counter()
last: deque[Any] = deque()
total = 0
lazy: Any = None
RATES = {"EUR": 1.2}


class Detector:
    """Remembers in an attribute."""

    last: Any = None

    def __call__(self, value: Any) -> bool:
        found, self.last = value != self.last, value
        return bool(found)

    def method(self, value: Any) -> bool:
        found, self.last = value != self.last, value
        return bool(found)

    def pure(self, value: Any) -> bool:
        return bool(value == self.last)


state = Detector()


def is_new(value: Any) -> bool:
    if value in seen:
        return False
    seen.add(value)
    return True


def numbered(value: Any) -> Any:
    count[0] += 1
    return count[0], value


def tallied(value: Any) -> Any:
    table[value] = table.get(value, 0) + 1
    return table[value]


def counted(value: Any) -> Any:
    counter.update([value])
    return counter[value]


def latest(value: Any) -> Any:
    last.append(value)
    return last[0]


def added(value: Any) -> Any:
    global total
    total += value
    return total


def by_default(value: Any, known: Any = {}) -> Any:
    known[value] = 1
    return len(known)


def by_name(value: Any, *, known: Any = []) -> Any:
    known.append(value)
    return len(known)


def attribute(value: Any) -> Any:
    state.last = value
    return value


def nonlocal_counter() -> Callable[[Any], Any]:
    k = 0

    def step(value: Any) -> Any:
        nonlocal k
        k += 1
        return k

    return step


def closed_over() -> Callable[[Any], Any]:
    known: list[Any] = []

    def step(value: Any) -> Any:
        known.append(value)
        return len(known)

    return step


def reads(value: Any) -> Any:
    return value * RATES["EUR"], value in seen, len(table)


def builds(value: Any) -> Any:
    known: list[Any] = []
    found = {}
    for each in range(value):
        known.append(each)
        found[each] = 1

    def inner() -> None:
        nonlocal found
        found = {}
        known.append(1)

    inner()
    return known, found


def given(known: list[Any], value: Any = 3) -> Any:
    return [*known, value]


@lru_cache
def cached(value: Any) -> Any:
    return value * 2


def through_cache(value: Any) -> Any:
    return cached(value)


def loads(value: Any) -> Any:
    global lazy
    if lazy is None:
        lazy = [1, 2]
    return lazy[0] + value


REMEMBER: dict[str, Any] = {
    "set": is_new, "list": numbered, "dict": tallied, "counter": counted, "deque": latest, "global": added,
    "default": by_default, "default by name": by_name, "attribute of an object": attribute, "object": Detector(),
    "method": Detector().method, "nonlocal": nonlocal_counter(), "closed over": closed_over(),
    "by a helper": lambda value: is_new(value), "partial": partial(is_new),
    "in an expression": lambda value: not (value in seen or seen.add(value)),  # type: ignore[func-returns-value]
}  # fmt: skip
KEEP: dict[str, Any] = {
    "reads": reads, "builds": builds, "given": given, "lru_cache": cached, "through lru_cache": through_cache,
    "loaded once": loads, "pure method": Detector().pure, "of the language": len, "class": Detector,
    "a new dict": lambda row: {**RATES, "a": row}, "sorted": lambda row: sorted(seen),
}  # fmt: skip
PLACES: dict[str, Callable[[Any], Any]] = {
    "map": n.map, "filter": n.filter, "distinct": n.distinct, "group_by": lambda f: n.group_by(f).flat_map(lambda g: g),
    "within": lambda f: n.group_by(len).flat_map(lambda g: g.map(f)), "flat_map": n.flat_map,
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_what_remembers_is_told_and_what_does_not_is_not(place: str) -> None:
    """Each of many functions in operators that take one; none of them in a place for effects."""
    for table_, expected in ((REMEMBER, True), (KEEP, False)):
        found = {name: bool(memories(Plan(PLACES[place](f).node, symbolic=True))) for name, f in table_.items()}
        assert found == dict.fromkeys(table_, expected)
    for f in REMEMBER.values():
        assert memories(Plan(n.do_action(f).node, symbolic=True)) == []


def test_the_incident_names_query_operator_line_and_remedy_and_ends_with_an_edit() -> None:
    """One warning at the creation; an edit resolves it."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", n.filter(is_new))
        evaluator.run()
        (found,) = [each for each in evaluator.statistics().incidents if each.kind == "memory"]
        assert (found.subject, found.level, found.count) == ("q", "warning", 1)
        line = is_new.__code__.co_firstlineno + 3
        assert all(each in found.message for each in ("/filter", "seen.add(...)", f"line {line})", "scan"))
        evaluator.create("q", n.distinct())
        assert not [each for each in evaluator.statistics().incidents if each.kind == "memory"]
