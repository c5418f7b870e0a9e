"""What raises at the end of a source under ``skip`` and ``dead_letter``, however that end comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from lanes import every_of
from skipping import played

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx.reliable import Batch, Reader

N: Any = rx.source("n")
VALUES = [1, 0, 2, 3, 0, 5]


def inverse(n: Any) -> float:
    return 1 / (n if isinstance(n, (int, float)) else sum(n))


AT_THE_END: dict[str, Callable[[], Any]] = {
    "count": lambda: N.filter(lambda n: n > 9).count().map(inverse),
    "to_list": lambda: N.filter(lambda n: n > 9).to_list().map(inverse),
    "sum": lambda: N.filter(lambda n: n == 0).sum().map(inverse),
    "last": lambda: N.skip_last(1).last().map(inverse),
    "take_last": lambda: N.take_last(2).map(inverse),
    "reduce": lambda: N.reduce(lambda total, _: total, 0).map(inverse),
    "default_if_empty": lambda: N.filter(lambda n: n > 9).default_if_empty(0).map(inverse),
    "buffers": lambda: N.skip(4).buffer_with_count(4).map(lambda each: inverse(each[0])),
    "groups": lambda: N.group_by(lambda n: n % 3).flat_map(lambda g: g.to_list().map(lambda each: inverse(each[0]))),
    "groups that count": lambda: N.group_by(lambda n: n % 3).flat_map(lambda g: g.count().map(lambda n: 1 / (n - 1))),
    "windows": lambda: N.window_with_count(4).flat_map(lambda w: w.count().map(lambda n: 1 / (n - 2))),
    "what follows": lambda: N.concat(rx.of(1, 0, 2).map(inverse)),
    "inner sequences": lambda: N.take(2).flat_map(lambda n: N.count().map(lambda m: 1 / n)),
    "shared": lambda: N.filter(lambda n: n > 9).count().map(inverse).share(),
    "scan": lambda: N.count().scan(lambda total, n: total / (n - 6), 1.0),
    "flat_map": lambda: N.count().flat_map(lambda n: rx.of(n, n - 6).map(inverse)),
    "a refused sequence": lambda: N.count().flat_map(lambda n: rx.defer(lambda _: 1 / (n - 6))),
}


class Apart(ListSource):
    """A list whose end comes in a turn of its own."""

    def open(self, partition: str, at: int, /) -> Reader:
        reader = super().open(partition, at)
        fetch = reader.fetch

        def apart(count_max: int, /) -> Batch:
            batch = fetch(count_max)
            return replace(batch, ended=batch.ended and not batch.values)

        reader.fetch = apart  # type: ignore[method-assign]
        return reader


def at(value: int) -> float:
    return 1.0


def ended(query: Any, kind: Callable[..., Any], batch: int, policy: Any, timed: bool) -> Any:
    """Return how the query fared, its outputs, and where its letters are of."""
    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch) as evaluator:
        evaluator.source("n", kind(VALUES))
        evaluator.create("q", query, policy=policy, clock=event_time(at, lateness_s=0.0) if timed else None)
        evaluator.run()
        found = evaluator.query("q")
        values = [value for part in evaluator.stream("q").read(0, 100) for value in part.values]
        letters = [(each.source, each.partition, each.position, each.value) for each in letters_of(evaluator, policy)]
        return found.status, values, found.skipped, letters


def letters_of(evaluator: QueryEvaluator, policy: str) -> list[Any]:
    if policy != "dead_letter":
        return []
    return [value for part in evaluator.stream("q.dead_letters").read(0, 100) for value in part.values]


@pytest.mark.parametrize(
    "shape, policy, timed",
    every_of(3, product(AT_THE_END, ["skip", "dead_letter"], [False, True])),
)
def test_an_error_at_the_end_is_skipped_however_it_comes(shape: str, policy: str, timed: bool) -> None:
    """With the last event, behind it, or in a turn of its own: the query goes on, and the letter names the end."""
    how = [(kind, batch) for kind in (ListSource, Apart) for batch in (1, 2, 6, 100)]
    found = [ended(AT_THE_END[shape](), kind, batch, policy, timed) for kind, batch in how]
    assert all(each == found[0] for each in found)
    status, _, skipped, letters = found[0]
    assert status == "completed" and skipped
    assert letters == ([("n", "", -1, None)] * skipped if policy == "dead_letter" else [])


@pytest.mark.parametrize("shape", AT_THE_END)
def test_the_same_behind_restarts(shape: str) -> None:
    """A restart behind each event makes no difference."""
    assert played(AT_THE_END[shape](), restarts=True) == played(AT_THE_END[shape](), restarts=False)
