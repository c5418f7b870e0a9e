"""What a checkpoint stores of the streams."""

from __future__ import annotations

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.stream import stored_segments


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
