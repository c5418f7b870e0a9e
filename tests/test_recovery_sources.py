"""What happens to positions when an app comes back with other sources than it had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator
from reliable_rx import SourceFailed
from reliable_rx.errors import CheckpointRefused, PositionUnavailable
from reliable_rx.reliable import Reader


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


class Counted(ListSource):
    """Values of which it is known how many readers are *open*, which *fail* when they are closed."""

    def __init__(self, *, fail: bool) -> None:
        super().__init__({"a": [1], "b": [2]})
        self.fail, self.open_now, self.opened = fail, 0, 0

    def open(self, partition: str, at: int, /) -> Reader:
        reader = super().open(partition, at)
        self.open_now, self.opened = self.open_now + 1, self.opened + 1
        reader.close = self.close_one  # type: ignore[method-assign]
        return reader

    def close_one(self) -> None:
        self.open_now -= 1
        if self.fail:
            raise OSError("it does not close")


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("why", ["a sink that is ahead", "a name that is taken"])
def test_a_start_that_is_refused_leaves_no_reader_open(why: str, fail: bool, tmp_path: Path) -> None:
    """Its files and connections are free while the evaluator is kept, and what is told is why it was refused."""
    source, path, store = Counted(fail=fail), tmp_path / "ahead.jsonl", MemoryStore()
    with evaluator(store, n=[1]) as before:
        before.create("taken", rx.source("n"))
        run(before)
    ahead = JsonLinesSink(path)
    ahead.open("q")
    ahead.write(0, [7])
    ahead.flush()
    ahead.close()
    refused = evaluator(store.reopen(), n=[1])
    refused.source("counted", source)
    if why == "a name that is taken":
        refused.source("taken", ListSource([1]))
    refused.create("q", rx.source("counted"))
    refused.sink("q", JsonLinesSink(path))
    with pytest.raises((PositionUnavailable, CheckpointRefused)):
        refused.start()
    assert source.opened == (2 if why == "a sink that is ahead" else 0) and source.open_now == 0
    refused.close()
    assert source.open_now == 0
