"""What a run has to tell it has told when it returns: a checkpoint behind it, or the next step, tells nothing new."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit, crossed

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.reports.status_file import read_status
from hosting.sources.faults import Error, FaultySource
from reliable_rx import operators as ops

n: Any = rx.source("n")


def divided(value: int) -> float:
    return 1 / (value - 3)


def failing_end() -> None:
    raise ValueError("at the end")


def mutated(acc: list[int], value: int) -> list[int]:
    acc.append(value)
    return acc


Declare = Callable[[QueryEvaluator], object]
WRONG: dict[str, tuple[tuple[str, str], Declare]] = {
    "a value that changes": (("emitted", "q"), lambda e: e.create("q", n.scan(mutated, []))),
    "what can be used once": (("emitted", "q"), lambda e: e.create("q", n.map(lambda x: iter([x])))),
    "times of a source in milliseconds": (
        ("clock", "events"),
        lambda e: (
            e.source("t", ListSource([1, 2], timestamp=lambda x: 1e12 + x)),
            e.create("q", rx.source("t").delay(0.0)),
        ),
    ),
    "times in milliseconds": (
        ("clock", "events of n/0"),
        lambda e: e.create("q", n, clock=rx.event_time(lambda x: 1e12 + x)),
    ),
    "late events": (("late", "q"), lambda e: e.create("q", n, clock=rx.event_time(lambda x: -100.0 * x))),
    "skipped events": (("skipped", "q"), lambda e: e.create("q", n.map(divided), policy="skip")),
    "a failed query": (("query", "q"), lambda e: e.create("q", n.map(divided))),
    "an effect": (("effect", "q/finally_action"), lambda e: e.create("q", n.pipe(ops.finally_action(failing_end)))),
    "a source's end": (
        ("source", "s"),
        lambda e: e.source("s", FaultySource(ListSource([1, 2, 3]), [Error(at=1)])),
    ),
    "an unknown source": (
        ("unknown source", "q"),
        lambda e: e.create("q", n.flat_map(lambda x: rx.source(f"gone {x}"))),
    ),
}


def whole(evaluator: QueryEvaluator) -> None:
    evaluator.run()


def by_one(evaluator: QueryEvaluator) -> None:
    while not evaluator.finished:
        count = evaluator.engine.number
        evaluator.run(until=lambda count=count: evaluator.engine.number > count)  # type: ignore[misc]


def by_steps(evaluator: QueryEvaluator) -> None:
    while not evaluator.finished:
        evaluator.step()


def raising(evaluator: QueryEvaluator) -> None:
    def until() -> bool:
        if evaluator.finished:
            raise ValueError("made by a test")
        return False

    with suppress(ValueError):
        evaluator.run(until=until)


RUNS = {"a run": whole, "a run for each turn": by_one, "a run that raises": raising, "steps and a close": by_steps}


def have_run(store: Any, declare: Declare, run: Callable[[QueryEvaluator], None], **options: Any) -> QueryEvaluator:
    """Return an evaluator that has run, and takes no checkpoint by itself; after steps it is closed."""
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, checkpoint_events=10**9, batch_events_max=1, **options)
    evaluator.source("n", ListSource(range(1, 6)))
    declare(evaluator)
    evaluator.start()
    run(evaluator)
    if run is by_steps:
        evaluator.close()
    return evaluator


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("what, declare", WRONG.values(), ids=WRONG)
def test_a_run_that_has_ended_has_told_everything(
    what: tuple[str, str],
    declare: Declare,
    run: Callable[[QueryEvaluator], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also one that is bounded, one that raises, and the close of an evaluator that never took a checkpoint."""
    evaluator = have_run(MemoryStore(), declare, run, background=False)
    told = seen(evaluator)
    assert what in told, told
    if run is not by_steps:
        caplog.clear()
        evaluator.checkpoint()
        for _ in range(3):
            evaluator.step()
        assert seen(evaluator) - told == set()
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
        evaluator.close()


@pytest.mark.parametrize("wrong, way", crossed(WRONG, RUNS, nightly=1))
@pytest.mark.parametrize("lends", [False, at_each_commit(True)], ids=["threads of its own", "threads of a pool"])
def test_another_process_is_told_by_then(tmp_path: Path, wrong: str, way: str, lends: bool) -> None:
    """No step follows a run that has returned: what `status` reads is written by then, however soon."""
    what, declare = WRONG[wrong]
    with SqliteStore(tmp_path) as store, ThreadPoolExecutor(1) as pool:
        evaluator = have_run(store, declare, RUNS[way], lend=pool.submit if lends else None)
        status = read_status(tmp_path)
        assert status is not None
        told = {(each["kind"], each["subject"]) for each in status["incidents"]}
        assert told >= seen(evaluator) - {("loop", "run")} and what in told | {
            ("query", each["name"]) for each in status["failed"]
        }
        evaluator.close()


def seen(evaluator: QueryEvaluator) -> set[tuple[str, str]]:
    return {(each.kind, each.subject) for each in evaluator.incidents.open() if each.kind != "loop"}


def test_a_followed_source_that_only_failed_queries_read_is_told_of() -> None:
    """A run that waits for its events would wait for ever; a query that reads it again takes the warning back."""
    rows = [1, 0]

    def told() -> list[str]:
        return [each.subject for each in evaluator.statistics().incidents if each.kind == "unread"]

    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource(rows, follow=True))
        evaluator.source("m", ListSource(rows, follow=True))
        evaluator.create("bad", rx.source("n").map(lambda n: 1 // n))
        evaluator.create("reads both", rx.source("n").merge(rx.source("m")).map(lambda n: 1 // n))
        evaluator.create("other", rx.source("m"))
        evaluator.run(until=told)
        assert told() == ["n"]
        evaluator.create("good", rx.source("n"))
        evaluator.run(until=lambda: not told())
