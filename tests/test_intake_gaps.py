"""Positions with gaps: ids that hold nothing are passed over, ids that are lost are an error, now and in a replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from reliable_rx import Batch, PositionUnavailable

EVERYTHING = 10_000


class GappySource:
    """A log of (id, value) that says which ids hold nothing; what it is told of as *late* arrives at a later fetch."""

    def __init__(self, log: dict[int, Any], end: int, *, tells: bool = True, late: int = 0) -> None:
        self.log, self.end, self.tells, self.late = log, end, tells, late
        self.opened: list[int] = []

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, at: int, /) -> GappyReader:
        self.opened.append(at)
        return GappyReader(self, at)


class GappyReader:
    def __init__(self, source: GappySource, at: int) -> None:
        self.source, self.position, self.late = source, at, source.late

    def fetch(self, count_max: int, /) -> Batch:
        if self.late:
            self.late -= 1
            return Batch(self.position, (), coming=True)
        before, log, end = self.position, self.source.log, self.source.end
        first = next((n for n in range(before, end) if n in log), end)
        values = []
        while len(values) < count_max and first + len(values) in log:
            values.append(log[first + len(values)])
        self.position = first + len(values)
        return Batch(first, values, skipped=first - before if self.source.tells else 0)

    def acknowledge(self, n: int, /) -> None: ...

    def close(self) -> None: ...


def hosted(store: MemoryStore, source: GappySource) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1000.0, batch_events_max=3, background=False)
    evaluator.source("n", source)
    evaluator.create("sums", rx.source("n").scan(lambda a, n: a + n))
    return evaluator


def run(evaluator: QueryEvaluator) -> list[Any]:
    moved = True
    while moved or any(partition.coming for partition in evaluator.intake.order):
        moved = evaluator.step()
    return [value for part in evaluator.stream("sums").read(0, EVERYTHING) for value in part.values]


def sums(values: Sequence[int]) -> list[int]:
    return [sum(values[: i + 1]) for i in range(len(values))]


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 9)), st.integers(0, 31), st.integers(0, 2))
def test_skipped_ids_are_passed_over_and_replays_take_the_same_turns(log: dict[int, int], cut: int, late: int) -> None:
    """Whatever ids are missing, a query sees the others in order, once, killed in the midst and at its end."""
    store = MemoryStore()
    run(hosted(store, GappySource({n: v for n, v in log.items() if n < cut}, cut)))
    store = store.reopen()
    run(hosted(store, GappySource(log, 31, late=late)))
    evaluator = hosted(store.reopen(), GappySource(log, 31, late=late))
    assert run(evaluator) == sums([log[n] for n in sorted(log)])
    assert evaluator.intake.positions() == {("n", "0"): 31}


def test_the_position_behind_skipped_ids_is_checkpointed() -> None:
    """A partition that ends in ids without events is opened behind them, not before them."""
    store = MemoryStore()
    with hosted(store, GappySource({0: 1, 1: 2}, 7)) as evaluator:
        run(evaluator)
    source = GappySource({0: 1, 1: 2, 7: 3}, 8)
    with hosted(store.reopen(), source) as evaluator:
        assert run(evaluator) == [1, 3, 6]
    assert source.opened == [7]


def test_ids_that_are_missing_and_not_skipped_are_lost() -> None:
    """A source that goes on behind the position without a word is refused with both numbers."""
    evaluator = hosted(MemoryStore(), GappySource({0: 1, 5: 2}, 6, tells=False))
    with pytest.raises(PositionUnavailable, match=r"wanted id 1, .* goes on at 5; events were lost") as caught:
        run(evaluator)
    assert (caught.value.wanted, caught.value.first) == (1, 5)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_event_that_is_gone_when_its_turn_is_replayed_is_an_error(gone: int) -> None:
    """A log that has become emptier under a journalled turn does not give the turn fewer or other events."""
    log = {0: 1, 1: 2, 2: 3, 3: 4}
    store = MemoryStore()
    run(hosted(store, GappySource(log, 4)))
    left = {n: v for n, v in log.items() if n != gone}
    with pytest.raises(PositionUnavailable, match="a turn of the journal took ids 0 to 3"):
        hosted(store.reopen(), GappySource(left, 4)).start()
