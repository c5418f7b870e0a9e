"""What each delivery promises when the process dies between showing an output and journalling it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator
from reliable_rx import StoreUnavailable
from reliable_rx import operators as ops
from reliable_rx.testing.faults import arm, raise_

COUNT = 40


def evaluator(store: MemoryStore, out: Path, delivery: str) -> QueryEvaluator:
    hosted = QueryEvaluator(store, delivery=delivery, batch_events_max=3, background=False)
    hosted.source("n", ListSource(list(range(COUNT))))
    hosted.create("sums", rx.source("n").pipe(ops.scan(lambda a, n: a + n, 0)))
    hosted.sink("sums", JsonLinesSink(out))
    return hosted


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def run_with_a_crash(out: Path, delivery: str, steps: int) -> None:
    """Lose the journal after *steps* steps, go on a little as far as the delivery lets us, die, and start again."""
    store = MemoryStore()
    first = evaluator(store, out, delivery)
    for _ in range(steps):
        first.step()
    with arm("journal.before_commit", raise_(StoreUnavailable("no disk"))):
        for _ in range(5):
            first.step()
    first.outlets.close()
    second = evaluator(store.reopen(), out, delivery)
    second.run()
    second.close()


@pytest.mark.parametrize("steps", range(0, 14, 2))
def test_exactly_once_shows_nothing_before_the_journal(tmp_path: Path, steps: int) -> None:
    """Whenever it dies, every output is in the file once, in order, under consecutive ids."""
    run_with_a_crash(tmp_path / "out.jsonl", "exactly_once", steps)
    sums = [sum(range(n + 1)) for n in range(COUNT)]
    got = lines(tmp_path / "out.jsonl")
    assert [line["value"] for line in got[:-1]] == sums
    assert [line["id"] for line in got] == list(range(COUNT + 1))
    assert got[-1]["completed"]


@pytest.mark.parametrize("steps", range(0, 14, 2))
def test_at_least_once_repeats_but_never_loses(tmp_path: Path, steps: int) -> None:
    """What was shown and not journalled may come again, under new ids; nothing is missing, and no id is used twice."""
    run_with_a_crash(tmp_path / "out.jsonl", "at_least_once", steps)
    sums = [sum(range(n + 1)) for n in range(COUNT)]
    got = lines(tmp_path / "out.jsonl")
    assert set(sums) == {line["value"] for line in got[:-1]}
    ids = [line["id"] for line in got]
    assert ids == sorted(set(ids))
    assert got[-1]["completed"]
