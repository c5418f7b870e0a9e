"""A pushed input whose log cannot be read for a while: waited for, as a journal that cannot be written."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.sealed_log.log import SealedLog
from hosting import QueryEvaluator
from hosting.sources.pushed import LogUnavailable
from reliable_rx import operators as ops
from reliable_rx.errors import StoreOwned, StoreUnavailable
from reliable_rx.testing.steps import add

STORES: dict[str, Callable[[Path], Any]] = {"memory": lambda _: MemoryStore(), "sqlite": SqliteStore}


class Disk:
    """A disk that fails to read so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures = 0
        self.failed = 0
        read = SealedLog.read

        def reads(log: SealedLog, start: int, count_max: int) -> Any:
            if self.failures:
                self.failures -= 1
                self.failed += 1
                raise StoreUnavailable("log: disk I/O error; nothing is lost, go on when the disk is well again")
            return read(log, start, count_max)

        monkeypatch.setattr(SealedLog, "read", reads)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return STORES[request.param](tmp_path / "store")


def hosted(store: Any, **options: Any) -> tuple[QueryEvaluator, Any]:
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, **options)
    pushed = evaluator.push("n")
    evaluator.create("sum", rx.source("n").pipe(ops.scan(add, 0)))
    return evaluator, pushed


def sums(evaluator: QueryEvaluator) -> list[Any]:
    return [value for part in evaluator.stream("sum").read(0, 100) for value in part.values]


@pytest.mark.parametrize("background", [False, True])
def test_a_run_waits_until_it_can_read(store: Any, disk: Disk, background: bool) -> None:
    """It says so, takes no turn meanwhile, and goes on by itself; each value is taken once."""
    evaluator, pushed = hosted(store, background=background)
    pushed.push([1, 2, 3])
    disk.failures = 3
    seen: list[Any] = []

    def done() -> bool:
        trouble, figures = evaluator.trouble, evaluator.statistics()
        if trouble is not None:
            seen.append((isinstance(trouble, StoreUnavailable), figures.trouble, [str(i) for i in figures.incidents]))
        return len(sums(evaluator)) == 3

    evaluator.run(until=done)
    assert disk.failed == 3
    assert all(is_ours and "disk I/O error" in told for is_ours, told, _ in seen) and seen
    assert all("no turn is taken until they can be read" in incidents[0] for _, _, incidents in seen)
    assert (evaluator.trouble, evaluator.statistics().incidents) == (None, ())
    pushed.on_next(4)
    evaluator.run(until=lambda: len(sums(evaluator)) == 4)
    assert sums(evaluator) == [1, 3, 6, 10]
    evaluator.close()
    store.close()


def test_a_replay_waits_too(disk: Disk) -> None:
    """Recovery reads what it has journalled as soon as it can."""
    store: Any = MemoryStore()
    evaluator, pushed = hosted(store, background=False)
    pushed.push([1, 2, 3])
    while evaluator.step():
        pass
    evaluator.close()
    again, _ = hosted(store.reopen(), background=False)
    disk.failures = 5
    again.start()
    assert (disk.failed, sums(again)) == (5, [1, 3, 6])
    again.close()


def test_a_replay_gives_up_in_words(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that cannot read for a minute is told so."""
    store: Any = MemoryStore()
    evaluator, pushed = hosted(store, background=False)
    pushed.push([1])
    while evaluator.step():
        pass
    evaluator.close()
    again, _ = hosted(store.reopen(), background=False)
    disk.failures = 10**9
    monkeypatch.setattr("hosting.edges.partition_replay.COMING_S", 0.01)
    with pytest.raises(LogUnavailable, match="disk I/O error"):
        again.start()
    again.close()


def test_two_evaluators_on_one_store(store: Any) -> None:
    """The second is refused while the first may still write, in words; it may start when that is closed."""
    first, pushed = hosted(store, background=False)
    second, _ = hosted(store, background=False)
    first.start()
    for act in (second.start, second.step, second.run, second.checkpoint):
        with pytest.raises(StoreOwned, match=r"another evaluator of this process .*close it first"):
            act()
    second.close()
    pushed.on_next(1)
    while first.step():
        pass
    assert sums(first) == [1]
    first.close()
    third, _ = hosted(store, background=False)
    third.start()
    assert sums(third) == [1]
    third.close()
    store.close()


def test_an_evaluator_that_nobody_has_any_more_owns_nothing() -> None:
    """One that was dropped without being closed does not hold its store for ever."""
    store = MemoryStore()
    hosted(store, background=False)[0].start()
    until(lambda: not isinstance(outcome(store), StoreOwned))


def outcome(store: Any) -> Exception | None:
    gc.collect()
    evaluator, _ = hosted(store, background=False)
    try:
        evaluator.start()
    except StoreOwned as error:
        return error
    evaluator.close()
    return None
