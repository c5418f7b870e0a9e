"""Whatever is done to a query between two checkpoints, the store has what the running evaluator has."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from lanes import Lane, every

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from reliable_rx.query.query import Query

N: Any = rx.source("n")
QUERIES: dict[str, Query[Any]] = {
    "sum": N.scan(lambda total, n: total + n, 0),
    "edited": N.map(lambda n: n * 10).scan(lambda total, n: total + n, 0),
    "groups": N.group_by(lambda n: n % 2).flat_map(lambda group: group.scan(lambda total, n: total + n, 0)),
}
CHANGES = (*QUERIES, "restart", "dispose", "checkpoint")
LENGTH = 5
SEQUENCES = [each for each in product(CHANGES, repeat=LENGTH) if each[0] in QUERIES]
NTH = 7 if Lane.fast_alone else 1
"""Of the sequences with one beginning, which are played: in the fast lane every change comes at every place."""


class Run:
    """One evaluator over a store, whose query "q" is changed at will."""

    def __init__(self, store: MemoryStore, *declared: str) -> None:
        self.store = store
        self.evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        self.pushed = self.evaluator.push("n")
        for each in declared:
            self.evaluator.create("q", QUERIES[each])
        self.evaluator.start()

    def change(self, change: str) -> None:
        has = "q" in self.evaluator.queries()
        if change in QUERIES:
            self.evaluator.create("q", QUERIES[change])
        elif change == "checkpoint":
            self.evaluator.checkpoint()
        elif has:
            getattr(self.evaluator, change)("q")

    def push(self, *values: int) -> None:
        self.pushed.push(values)
        while self.evaluator.step():
            pass
        self.evaluator.flush()

    def seen(self) -> tuple[list[str], list[Any]]:
        """Return the queries, and what the stream of "q" holds, ids and ends included."""
        try:
            stream = self.evaluator.stream("q")
        except KeyError:
            return self.evaluator.queries(), []
        found: list[Any] = []
        for part in stream.read(stream.first, 1000):
            found += [(part.first + number, value) for number, value in enumerate(part.values)]
            found += [str(part.error)] if part.error is not None else []
        return self.evaluator.queries(), found


def played(store: MemoryStore, sequence: tuple[str, ...]) -> Run:
    run = Run(store)
    for number, change in enumerate(sequence):
        run.change(change)
        run.push(2 * number + 1, 2 * number + 2)
    return run


@pytest.mark.parametrize("first", every(20, sorted({each[:2] for each in SEQUENCES})), ids="-".join)
def test_a_restart_finds_what_was_there(first: tuple[str, str]) -> None:
    """After any sequence of changes, a clean restart has the same queries, ids and outputs, and goes on alike."""
    wrong = []
    for sequence in [each for each in SEQUENCES if each[:2] == first][::NTH]:
        run, expected = played(MemoryStore(), sequence), played(MemoryStore(), sequence)
        run.evaluator.checkpoint()
        run.evaluator.close()
        again = Run(run.store)
        for each in (again, expected):
            each.push(50, 51)
        if again.seen() != expected.seen():
            wrong.append((sequence, expected.seen(), again.seen()))
        again.evaluator.close()
        expected.evaluator.close()
    assert wrong == []


@pytest.mark.parametrize("first", every(3, QUERIES))
def test_it_makes_no_difference_when_a_query_was_created(first: str) -> None:
    """What is declared before the start, and then changed, goes on as what was created after it, and changed."""
    for sequence in list(product(CHANGES, repeat=LENGTH - 2))[::NTH]:
        before, after = Run(MemoryStore(), first), Run(MemoryStore())
        after.change(first)
        for number, change in enumerate(sequence):
            for run in (before, after):
                run.change(change)
                run.push(number, number + 1)
        assert before.seen() == after.seen(), sequence
