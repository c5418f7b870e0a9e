"""Values nested hundreds deep, and small ones whose parts are shared, are one query's problem wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lanes import every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from reliable_rx.errors import QueryRefused

pytestmark = pytest.mark.timeout(60)


@dataclass(frozen=True)
class Linked:
    rest: Any


class Pair(NamedTuple):
    first: Any
    second: Any


WRAPS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda value: (value,),
    "pair": lambda value: (value, 1),
    "named": lambda value: Pair(value, 1),
    "list": lambda value: [value],
    "dict": lambda value: {"a": value},
    "set": lambda value: frozenset([value]),
    "instance": Linked,
    "both": lambda value: [(value,)],
    "shared tuple": lambda value: (value, value),
    "shared names": lambda value: Pair(value, value),
    "shared list": lambda value: [value, value],
    "shared dict": lambda value: {"a": value, "b": value},
    "shared in both": lambda value: ([value], value),
}
DEPTHS = (60, 300, 600, 5000)
VALUES = [
    (wrap, depth) for wrap, depth in product(WRAPS, DEPTHS) if depth == DEPTHS[0] or not wrap.startswith("shared")
]
"""Sixty levels of what stands in the next one twice are 2 to the 60 paths."""
NUMBERS = rx.source("numbers")


def made(wrap: str, depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = WRAPS[wrap](value)
    return value


def now_and_then(value: Any) -> Callable[[int], Any]:
    def of(number: int) -> Any:
        return value() if number in (3, 30) else number

    return of


def raising(value: Any) -> Callable[[int], Any]:
    def of(number: int) -> Any:
        if number == 3:
            raise ValueError(value())
        return number

    return of


PLACES: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "emitted": lambda make: NUMBERS.map(now_and_then(make)),
    "state": lambda make: NUMBERS.scan(lambda total, n: make(), None).map(lambda total: 1),
    "state of what came": lambda make: NUMBERS.map(now_and_then(make)).scan(lambda a, b: b).map(lambda a: 1),
    "state of a group": lambda make: (
        NUMBERS.map(now_and_then(make)).group_by(lambda v: 0).flat_map(lambda group: group.scan(lambda a, b: b))
    ),
    "seed": lambda make: NUMBERS.scan(lambda total, n: total, make()).map(lambda total: 1),
    "first": lambda make: NUMBERS.start_with(make()).map(lambda v: 1),
    "default": lambda make: NUMBERS.map(lambda n, held=make(): n),
    "variable": lambda make: (lambda held: NUMBERS.map(lambda n: (held, n)[1]))(make()),
    "key": lambda make: NUMBERS.group_by(now_and_then(make)).flat_map(lambda group: group.count()),
    "distinct": lambda make: NUMBERS.map(now_and_then(make)).distinct().map(lambda v: 1),
    "compared": lambda make: NUMBERS.map(now_and_then(make)).distinct_until_changed().map(lambda v: 1),
    "buffer": lambda make: NUMBERS.map(now_and_then(make)).buffer_with_count(3),
    "error": lambda make: NUMBERS.map(raising(make)),
    "inner": lambda make: NUMBERS.flat_map(lambda n: rx.of(now_and_then(make)(n))),
    "variable of an inner selector": lambda make: NUMBERS.flat_map(
        lambda n: (lambda held: NUMBERS.take(1).map(lambda m: (held, m)[1]))(make())
    ),
}
SINKS: dict[str, Callable[[Path], Any]] = {
    "callback": lambda folder: CallbackSink(lambda at, value: None),
    "lines": lambda folder: JsonLinesSink(folder / "lines"),
    "table": lambda folder: SqliteTableSink(folder / "table.db", "q"),
}
COMPARED = ("key", "distinct", "compared")
"""Places where Python hashes or compares the values, which it does along all paths."""
CASES = [
    (*value, place, policy)
    for value, place, policy in product(VALUES, PLACES, ("fail", "dead_letter"))
    if not (value[0].startswith("shared") and place in COMPARED)
]


def host(store: Any, query: Any, policy: Any, sink: Any) -> QueryEvaluator:
    """Return an evaluator of *query* beside one that counts."""
    evaluator = QueryEvaluator(store, batch_events_max=7, background=False, checkpoint_interval_s=3600.0)
    evaluator.source("numbers", ListSource(range(40)))
    evaluator.create("good", NUMBERS.count())
    evaluator.create("query", query, policy=policy)
    evaluator.sink("query", sink, on_error="skip")
    return evaluator


@pytest.mark.parametrize(("wrap", "depth", "place", "policy"), every_of(61, CASES, nightly=6))
def test_a_deep_value_is_one_querys_problem(wrap: str, depth: int, place: str, policy: str, tmp_path: Path) -> None:
    """What cannot be held is refused or ends its query by one of our errors; the other query counts all, and the store
    opens again."""
    sink = "callback" if wrap.startswith("shared") else list(SINKS)[len(wrap + place) % len(SINKS)]

    def built() -> Any:
        return PLACES[place](lambda: made(wrap, depth))

    store = MemoryStore()
    try:
        evaluator = host(store, built(), policy, SINKS[sink](tmp_path))
    except QueryRefused:
        assert depth > DEPTHS[0] or wrap == "set"
        return
    with evaluator:
        evaluator.run(until=lambda: evaluator.statistics().events_in >= 20)
        evaluator.checkpoint()
        evaluator.run()
        evaluator.statistics()
        assert evaluator.query("good").status == "completed"
        status = evaluator.query("query").status
        assert status == "completed" or place in ("error", *COMPARED) or depth > DEPTHS[0]
    with host(store.reopen(), built(), policy, SINKS[sink](tmp_path)) as evaluator:
        evaluator.run()
        assert [value for part in evaluator.stream("good").read(0, 9) for value in part.values] == [40]
        assert evaluator.query("query").status == status
