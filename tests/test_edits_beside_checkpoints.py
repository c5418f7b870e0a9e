"""Queries that are edited while a checkpoint is written, step by step: what lies in it is of its own turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

EVENTS = [*range(30)]
CLOCK = rx.event_time(float, lateness_s=1.5)
SAME = ops.map(lambda value: value)
QUERIES: dict[str, Callable[[Any], Any]] = {
    "a state": lambda n: n.pipe(ops.buffer_with_count(5)),
    "windows": lambda n: n.pipe(ops.window_with_count(5), ops.flat_map(lambda window: window.pipe(ops.to_list()))),
    "groups": lambda n: n.pipe(
        ops.group_by(lambda value: value // 5), ops.flat_map(lambda group: group.pipe(ops.buffer_with_count(5)))
    ),
    "windows of time": lambda n: n.pipe(
        ops.tumbling_window(5.0), ops.flat_map(lambda window: window.pipe(ops.to_list()))
    ),
    "inner sequences": lambda n: n.pipe(ops.flat_map(lambda value: rx.of(value).pipe(ops.to_list()))),
    "shared": lambda n: n.pipe(ops.publish(lambda each: each.pipe(ops.buffer_with_count(5)))),
}
SLICES = (1, 100)
"""How many rows are written between two turns."""


def outputs(query: str, clocked: bool, batch: int, ends: tuple[tuple[int, str], ...]) -> list[int]:
    """Return what comes of the events if behind so many steps each it is edited, or its process is killed."""
    store, versions = MemoryStore(), 0

    def opened() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, batch_events_max=batch, checkpoint_interval_s=0.0)
        evaluator.source("n", ListSource(EVENTS))
        create(evaluator)
        return evaluator

    def create(evaluator: QueryEvaluator) -> None:
        n = rx.source("n").pipe(*[SAME] * (versions % 2))
        evaluator.create("q", QUERIES[query](n), clock=CLOCK if clocked else None)

    evaluator = opened()
    for steps, end in ends:
        for _ in range(steps):
            evaluator.step()
        if evaluator.started and evaluator.query("q").status != "running":
            break
        if end == "edited":
            versions += 1
            create(evaluator)
        else:
            evaluator.abandon()
            store = store.reopen()
            evaluator = opened()
    evaluator.run()
    found = [value for part in evaluator.stream("q").read(0, 10**6) for values in part.values for value in values]
    assert evaluator.query("q").status == "completed", evaluator.query("q").error
    evaluator.close()
    return found


@pytest.mark.parametrize(
    "query, clocked, batch, rows",
    crossed((*QUERIES,), (False, True), (1, 3, 7), SLICES),
)
def test_a_kill_behind_an_edit_finds_a_state_of_one_turn(
    query: str, clocked: bool, batch: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the edit falls in the checkpoint, and the kill behind it, every event is in one result, once."""
    monkeypatch.setattr("hosting.evaluator.checkpointer.SLICE_ROWS", rows)
    if query == "windows of time":
        clocked = True
    for first in range(4):
        for second in range(5):
            for ends in (
                ((first, "edited"), (second, "killed")),
                ((first, "killed"), (1, "edited"), (second, "killed")),
            ):
                assert outputs(query, clocked, batch, ends) == EVENTS, ends
