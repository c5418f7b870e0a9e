"""What each delivery promises when the process dies between showing an output and journalling it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.salvage import Unreadable
from hosting import CallbackSink, JsonLinesSink, ListSource, QueryEvaluator
from hosting.repair.lost_outputs import StoredOutputs
from reliable_rx import PositionUnavailable, StoreUnavailable
from reliable_rx import operators as ops
from reliable_rx.testing.faults import arm, raise_

COUNT = 40


def evaluator(store: MemoryStore, out: Path, delivery: str, *others: Any, before: bool = False) -> QueryEvaluator:
    """Return one with a sink that is a file, and with *others* behind it or *before*."""
    hosted = QueryEvaluator(store, delivery=delivery, batch_events_max=3, background=False)
    hosted.source("n", ListSource(list(range(COUNT))))
    hosted.create("sums", rx.source("n").pipe(ops.scan(lambda a, n: a + n, 0)))
    file = JsonLinesSink(out)
    for sink in [*others, file] if before else [file, *others]:
        hosted.sink("sums", sink)
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


class Slow:
    """A callback that has got some ids, and takes more from its second life on."""

    def __init__(self) -> None:
        self.got: list[tuple[int, Any]] = []

    def __call__(self, n: int, value: Any) -> None:
        self.got.append((n, value))


@pytest.mark.parametrize("checkpoints", [True, False], ids=["checkpoints", "crashes"])
@pytest.mark.parametrize("steps", [0, 1, 3, 6])
@pytest.mark.parametrize("before", [False, True])
def test_ids_that_one_sink_had_are_no_hole_for_others(
    tmp_path: Path, steps: int, checkpoints: bool, before: bool
) -> None:
    """Where one sink is ahead of what was journalled, others, readers and the next starts lose nothing by it.

    What the ids in between had comes again under later ones. A stand-in is under each of them, which sinks step over.
    """
    store, slow = MemoryStore(), Slow()
    first = evaluator(store, tmp_path / "out.jsonl", "at_least_once")
    first.start()
    first.stream("sums").hold("reader", 0)
    for _ in range(steps):
        first.step()
    first.checkpoint()
    first.step()
    with arm("journal.before_commit", raise_(StoreUnavailable("no disk"))):
        for _ in range(5):
            first.step()
    first.outlets.close()
    for _ in range(3):
        store = store.reopen()
        others = JsonLinesSink(tmp_path / "behind.jsonl"), CallbackSink(slow)
        following = evaluator(store, tmp_path / "out.jsonl", "at_least_once", *others, before=before)
        following.start()
        following.step()
        if checkpoints:
            following.checkpoint()
        assert not StoredOutputs(following.store, following.streams, following.engine).lost(everywhere=True)
        following.close()
    others = JsonLinesSink(tmp_path / "behind.jsonl"), CallbackSink(slow)
    last = evaluator(store.reopen(), tmp_path / "out.jsonl", "at_least_once", *others, before=before)
    last.run()
    assert not [each for each in last.incidents.open() if each.level == "error"]
    read = [value for part in last.stream("sums").read(0, 1000) for value in part.values]
    last.close()
    sums = [sum(range(n + 1)) for n in range(COUNT)]
    of_the_sink = [line["value"] for line in lines(tmp_path / "out.jsonl")[:-1]]
    assert len(read) == len(of_the_sink) and set(sums) == set(of_the_sink)
    stand_ins = [n for n, value in enumerate(read) if isinstance(value, Unreadable)]
    assert [value for value in read if not isinstance(value, Unreadable)] == sums and stand_ins
    behind = {line["id"]: line["value"] for line in lines(tmp_path / "behind.jsonl")[:-1] if "value" in line}
    assert behind == {n: value for n, value in enumerate(read) if n not in stand_ins}
    assert {n: value for n, value in slow.got if value is not None} == behind


def test_a_sink_that_is_too_far_ahead_is_another_stores(tmp_path: Path) -> None:
    """A million ids that the store has never given were not shown behind its last turn: nothing is begun."""
    other = JsonLinesSink(tmp_path / "out.jsonl")
    other.open("sums")
    other.write(0, [1, 2])
    other.skip(2, 3_000_000, "", None)
    other.write(3_000_000, [3])
    other.flush()
    other.close()
    hosted = evaluator(MemoryStore(), tmp_path / "out.jsonl", "at_least_once")
    with pytest.raises(PositionUnavailable, match="another store"):
        hosted.start()
    hosted.close()
