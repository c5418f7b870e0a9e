"""What happens to positions when an app comes back with other sources than it had."""

from __future__ import annotations

from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import SourceFailed


def evaluator(store: MemoryStore, **sources: Any) -> QueryEvaluator:
    hosted = QueryEvaluator(store, checkpoint_interval_s=1000.0, background=False)
    for name, values in sources.items():
        hosted.source(name, ListSource(values, follow=True))
    return hosted


def run(hosted: QueryEvaluator) -> None:
    while hosted.step():
        pass


def test_a_source_that_is_left_out_for_a_while_goes_on_where_it_was() -> None:
    """Its position outlives checkpoints of starts that did not declare it: nothing comes twice when it is back."""
    store = MemoryStore()
    with evaluator(store, n=[1, 2, 3]) as first:
        first.create("sums", rx.source("n").scan(lambda a, n: a + n))
        run(first)
    store = store.reopen()
    with evaluator(store, m=[7]) as without:
        run(without)
    store = store.reopen()
    with evaluator(store, n=[1, 2, 3, 4], m=[7]) as again:
        run(again)
        values = [value for part in again.stream("sums").read(0, 10) for value in part.values]
    assert values == [1, 3, 6, 10]


def test_a_source_that_has_turns_to_replay_is_needed() -> None:
    """After a crash, an app without a source of the journal is refused by its name."""
    store = MemoryStore()
    first = evaluator(store, n=[1, 2, 3])
    first.create("sums", rx.source("n").scan(lambda a, n: a + n))
    run(first)
    with pytest.raises(SourceFailed, match=r"source 'n'.*declare it") as caught:
        evaluator(store.reopen(), m=[7]).start()
    assert (caught.value.source, caught.value.partition) == ("n", "0")


def test_a_source_that_is_left_out_keeps_none_from_forgetting() -> None:
    """What is acknowledged to the sources that are there does not depend on one whose position is only remembered."""
    store = MemoryStore()
    with evaluator(store, absent=[1, 2]) as first:
        log = first.push("pushed")
        first.create("sums", rx.source("pushed").scan(lambda a, n: a + n))
        log.push([1, 2])
        run(first)
    store = store.reopen()
    with evaluator(store) as without:
        log = without.push("pushed")
        log.push([3, 4])
        run(without)
        without.checkpoint()
        log.push([5])
        run(without)
        without.checkpoint()
        assert log.bounds("0")[0] > 1
