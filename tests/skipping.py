"""Plays a query over ten events on a host that goes on without those at which a function raises."""

from __future__ import annotations

from itertools import count
from typing import Any

from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

VALUES = list(range(10))


def played(query: Any, *, restarts: bool, policy: Any = "skip") -> tuple[str, list[Any], int]:
    """Return how the query has fared at the end, what it has emitted, and how many events it has skipped."""
    store = MemoryStore()
    moments = count()
    while True:
        evaluator = QueryEvaluator(
            store, background=False, batch_events_max=1, clock=lambda: next(moments) * 0.01, checkpoint_interval_s=1e9
        )
        evaluator.source("n", ListSource(VALUES))
        evaluator.source("m", ListSource([1, 2, 3]))
        evaluator.create("q", query, policy=policy)
        moved = False
        for _ in range(2 if restarts else 2000):
            if not evaluator.step():
                break
            moved = True
        if not moved or evaluator.query("q").status != "running":
            break
        evaluator.checkpoint()
        evaluator.close()
        store = store.reopen()
    for _ in range(50):
        evaluator.step()
    evaluator.flush()
    found, emitted = evaluator.query("q"), evaluator.stream("q").read(0, 1000)
    values = [repr(value) for part in emitted for value in part.values]
    evaluator.close()
    return found.status, values, found.skipped
