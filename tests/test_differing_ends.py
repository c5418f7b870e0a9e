"""Streams of queries that do not repeat themselves in a replay, and end there or had ended: their ends come last."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator

WORLD = "RELIABLE_RX_TEST_WORLD"
"""How many values an event makes, and at which one they fail, if that is not behind them: in no store."""


def many(_: int) -> Any:
    return rx.from_iterable(range(int(os.environ[WORLD].split()[0])))


def failing(value: int) -> int:
    if value == int(os.environ[WORLD].split()[1]):
        raise ValueError(value)
    return value


def opened(store: MemoryStore, values: list[int], strict: bool) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, strict=strict)
    evaluator.source("n", ListSource(values, follow=True))
    evaluator.create("q", rx.source("n").flat_map(many).map(failing))
    evaluator.create("reader", rx.source("q").map(abs))
    evaluator.start()
    return evaluator


def take(evaluator: QueryEvaluator, values: list[int], more: int) -> None:
    for value in range(more):  # each in a group of its own
        values.append(value)
        while evaluator.step():
            pass
        evaluator.flush()


def replay_told(evaluator: QueryEvaluator) -> list[str]:
    """Return what is told of queries that differ and end otherwise: they have two ends in no message."""
    return [each.message for each in evaluator.incidents.open() if each.kind == "replay"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "first, again, groups, restarts",
    crossed(["4 3", "4 9", "2 1", "1 9"], ["4 3", "2 1", "4 0", "3 9"], [1, 2, 3], [False, True]),
)
def test_an_end_is_behind_all_ids_of_either_run(
    first: str, again: str, groups: int, restarts: bool, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has read the first run and reads on gets the end, and what is there is contiguous and ends once."""
    monkeypatch.setenv(WORLD, first)
    store, values = MemoryStore(), list[int]()
    evaluator = opened(store, values, strict)
    take(evaluator, values, groups)
    if restarts:
        evaluator.restart("q")
        take(evaluator, values, groups)
    had = {name: evaluator.stream(name).next_id for name in ("q", "reader")}
    evaluator.abandon()
    monkeypatch.setenv(WORLD, again)
    evaluator = opened(store.reopen(), values, strict)
    for name, next_id in had.items():
        parts = list(evaluator.stream(name).read(0, 999))
        expected = 0
        for part in parts:
            assert part.first == expected
            assert part.next == part.first + len(part.values) + part.ended
            expected = part.next
        status = evaluator.query(name).status
        ends = [part for part in parts if part.ended]
        assert (status == "failed") == parts[-1].ended == evaluator.stream(name).ended
        assert len(ends) <= 1 + restarts
        assert expected == evaluator.stream(name).next_id >= next_id
    assert not any("so it has ended" in each.message for each in evaluator.incidents.open())
    told = replay_told(evaluator)
    assert all(each.endswith("so it ends; it had ended already, and stays as it ended") for each in told)
    if evaluator.query("q").status == "failed":
        assert any("evaluator.restart('q')" in each.message for each in evaluator.incidents.open())
        evaluator.restart("q")
    assert {evaluator.query(name).status for name in had} == {"running"}
    evaluator.close()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("first, again, then, goes_on", crossed(*[["1 9", "4 9", "4 1", "2 1"]] * 3, [0, 2]))
def test_what_a_replay_gave_otherwise_is_not_given_otherwise_again(
    first: str, again: str, then: str, goes_on: int, strict: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the evaluator is killed, its store opens with the sinks that it has; the other query has all."""
    store, values = MemoryStore(), list[int]()
    for world, more in ((first, 2), (again, goes_on), (then, 0)):
        monkeypatch.setenv(WORLD, world)
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, strict=strict)
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create("q", rx.source("n").flat_map(many).map(failing))
        evaluator.create("other", rx.source("n").map(abs))
        for name in ("q", "other"):
            evaluator.sink(name, JsonLinesSink(tmp_path / name))
        evaluator.start()
        take(evaluator, values, more)
        while evaluator.step():
            pass
        evaluator.outlets.flush()
        evaluator.abandon()
        store = store.reopen()
    lines = [json.loads(line) for line in (tmp_path / "other").read_text().splitlines()]
    assert lines == [{"id": n, "value": value} for n, value in enumerate(values)]
    assert [json.loads(line)["id"] for line in (tmp_path / "q").read_text().splitlines()]
