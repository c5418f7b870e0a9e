"""What a checkpoint stores of streams, when sinks are flushed, and how far turns run ahead of it."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.store import Checkpoint, GenerationInfo
from hosting import ListSource, QueryEvaluator, SqliteTableSink
from hosting.edges.stored_outputs import stored_segments
from reliable_rx.errors import StoreUnavailable
from reliable_rx.testing.faults import arm


def test_single_outputs_are_stored_in_large_segments() -> None:
    """A thousand turns with one output each are a few stored segments, in order and whole, with the end behind them."""
    store = MemoryStore()
    evaluator = QueryEvaluator(store, batch_events_max=1, background=False, checkpoint_interval_s=1e9)
    with evaluator:
        evaluator.source("n", ListSource(list(range(2500))))
        evaluator.create("same", rx.source("n").map(lambda n: n))
        evaluator.run()
    segments = list(stored_segments(store, "same", 0))
    assert len(segments) <= 3
    assert [value for each in segments for value in each.values] == list(range(2500))
    assert [each.ended for each in segments] == [False] * (len(segments) - 1) + [True]


def test_the_last_outputs_are_flushed_though_nothing_follows(tmp_path: Path) -> None:
    """What becomes visible while a checkpoint is under way goes out with another one, also where no event comes."""
    begun = threading.Event()
    with SqliteStore(tmp_path / "store") as store, QueryEvaluator(store, checkpoint_interval_s=1e-6) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("same", rx.source("n").map(lambda n: {"n": n}))
        evaluator.sink("same", SqliteTableSink(tmp_path / "out.db", "same"))
        evaluator.start()
        evaluator.checkpoint()
        pushed.on_next(1)
        deadline = time.monotonic() + 60
        # The turn is journalled, and its output visible, only when its checkpoint has flushed the sinks.
        with (
            arm("journal.before_commit", lambda: begun.wait(60) and None),
            arm("checkpoint.before_snapshot", begun.set),
        ):
            evaluator.run(until=lambda: evaluator.outlets.all[0].flushed == 1 or time.monotonic() > deadline)
        assert begun.is_set()
        assert evaluator.outlets.all[0].flushed == 1


class SlowStore(SqliteStore):
    """A store whose checkpoints take until it is too late."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.over = threading.Event()

    def commit(self, checkpoint: Checkpoint, **streams: Any) -> GenerationInfo:
        assert self.over.wait(60)
        raise StoreUnavailable("this took too long")


def test_turns_wait_for_a_late_checkpoint(tmp_path: Path) -> None:
    """However slow a checkpoint is and however often the process dies meanwhile, few events are to be replayed."""
    for _ in range(3):
        with SlowStore(tmp_path / "store") as store, evaluator_over(store) as evaluator:
            evaluator.run(until=lambda: evaluator.events_in >= evaluator.checkpointer.events_to)
            assert evaluator.recovery.replayed_events + evaluator.events_in < 2 * EVENTS + BATCH
            for _ in range(9):
                evaluator.step()
            assert evaluator.recovery.replayed_events + evaluator.events_in < 2 * EVENTS + BATCH
            store.over.set()
            evaluator.abandon()
    with SqliteStore(tmp_path / "store") as store, evaluator_over(store) as evaluator:
        evaluator.run()
        assert evaluator.recovery.replayed_events >= 2 * EVENTS
        assert [value for part in evaluator.stream("same").read(0, 500) for value in part.values] == list(range(500))


EVENTS, BATCH = 20, 7


def evaluator_over(store: SqliteStore) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, checkpoint_events=EVENTS, batch_events_max=BATCH)
    evaluator.source("n", ListSource(list(range(500))))
    evaluator.create("same", rx.source("n").map(lambda n: n))
    return evaluator


def refuse(*args: Any, **options: Any) -> None:
    raise StoreUnavailable("no disk")


@pytest.mark.parametrize("ends", ["written", "closed", "failed"])
def test_the_collector_is_on_again_after_a_full_checkpoint(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held off while very many rows are read, and comes back however the checkpoint ends."""
    assert gc.isenabled()
    evaluator = QueryEvaluator(MemoryStore(), background=False, checkpoint_interval_s=1e9)
    evaluator.create_many({f"q{number}": rx.never() for number in range(300)})
    evaluator.start()
    assert evaluator.checkpointer._begin(full=True)
    assert not gc.isenabled()
    if ends == "written":
        evaluator.checkpoint()
    elif ends == "failed":
        monkeypatch.setattr(evaluator.store, "commit", refuse)
        with pytest.raises(StoreUnavailable):
            evaluator.checkpoint()
    evaluator.close()
    assert gc.isenabled()
