"""What can be asked of an evaluator while it works: without waiting for a turn, from any thread."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.evaluator.looking import Looking
from hosting.reports.status_file import read_status

HANGS_S = 60.0


class Hanging:
    """An evaluator whose third event hangs until it is let go."""

    hangs, go_on = threading.Event(), threading.Event()

    def __init__(self) -> None:
        self.hangs.clear()
        self.go_on.clear()
        self.evaluator = QueryEvaluator(MemoryStore(), batch_events_max=1)
        self.evaluator.source("n", ListSource([0, 1, 2, 3]))
        self.evaluator.create("q", rx.source("n").map(slow))
        self.thread = threading.Thread(target=self.evaluator.run)

    def __enter__(self) -> QueryEvaluator:
        self.thread.start()
        assert self.hangs.wait(60)
        return self.evaluator

    def __exit__(self, *error: object) -> None:
        self.go_on.set()
        self.thread.join()
        self.evaluator.close()


def slow(n: int) -> int:
    """Hang at 2; found by the module's name, so that it is stored by reference."""
    if n == 2:
        Hanging.hangs.set()
        Hanging.go_on.wait(HANGS_S)
    return n


def test_statistics_answer_while_a_turn_hangs() -> None:
    """Statistics, figures of queries, names and streams come while a function hangs, with since when the step runs."""
    before = time.time()
    with Hanging() as evaluator:
        figures = evaluator.statistics()
        assert figures.busy_since is not None and before <= figures.busy_since <= time.time()
        assert figures.queries_running == 1
        assert evaluator.query("q").status == "running"
        assert evaluator.queries() == ["q"]
        with pytest.raises(KeyError):
            evaluator.query("nobody")
    assert evaluator.statistics().busy_since is None
    assert evaluator.statistics().queries_completed == 1


def test_between_steps_the_figures_are_of_one_moment() -> None:
    """An evaluator that rests, or gives way between its steps, is read under its lock."""
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    taken: list[bool] = []
    acquire = evaluator.lock.acquire

    def noted(timeout_s: float) -> bool:
        taken.append(acquire(timeout_s))
        return taken[-1]

    evaluator.lock.acquire = noted  # type: ignore[method-assign]
    evaluator.statistics()
    assert taken == [True]


def test_what_changes_while_it_is_read_is_read_again() -> None:
    """A dictionary that grows under the reader is no error: he looks again."""
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    tries = list[int]()

    def read(busy_since: float | None) -> int:
        tries.append(len(tries))
        if len(tries) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return 7

    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with evaluator.lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    assert Looking._look(evaluator, read) == 7
    done.set()
    thread.join()


def test_a_reader_says_when_to_look_again() -> None:
    """One that knows when it may have more is not asked sooner, and not only when somebody wakes the host."""

    class Patient(ListSource):
        def open(self, partition: str, at: int, /) -> Any:
            reader: Any = super().open(partition, at)
            reader.next_look_s = lambda: 7.0
            return reader

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", Patient([1], follow=True))
        evaluator.create("q", rx.source("n").map(str))
        evaluator.start()
        look = evaluator.intake.partitions["n", "0"].look
        assert look is not None and look() == 7.0


def test_streams_beside_queries_are_no_queries(tmp_path: Path) -> None:
    """Dead letters, late events: who has one query is told of one, by the evaluator, its figures and `status`."""
    counts = []
    for _ in range(2):
        with SqliteStore(tmp_path) as store, QueryEvaluator(store) as evaluator:
            evaluator.source("n", ListSource([0.0, 100.0, 1.0]))
            evaluator.create("q", rx.source("n").map(lambda n: 1 / n), policy="dead_letter")
            clock = rx.event_time(float, late="side")
            evaluator.create("timed", rx.source("n"), clock=clock)
            evaluator.run()
            assert evaluator.stream("q.dead_letters").next_id
            figures = evaluator.statistics()
            all_of = figures.queries_running + figures.queries_completed + figures.queries_failed
            counts.append((all_of, repr(evaluator).count("2 queries")))
        status = read_status(tmp_path)
        assert status is not None
        counts.append((status["queries"], 1))
    assert counts == [(2, 1)] * 4


def test_a_stream_that_is_not_there_is_told_from_a_source() -> None:
    """Who asks for a stream by the name of a source is told so; who mistypes a name is told which there are."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([0]))
        evaluator.create("query", rx.source("n"))
        with pytest.raises(KeyError, match="'n'; that is a source, and streams are of queries"):
            evaluator.stream("n")
        with pytest.raises(KeyError, match="'qeury'; did you mean 'query'"):
            evaluator.stream("qeury")
