"""A loop that hangs, or has ended, is seen in whatever hosts it."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import pytest
from conditions import until
from lanes import left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import QueryEvaluator, hang_watch, lasting, loop_reports
from hosting.hang_watch import HangWatch
from hosting.sources import ListSource
from hosting.status_file import read_status
from reliable_rx.errors import SourceFailed


def watchers() -> int:
    return sum(each.name == "hang watch" for each in threading.enumerate())


def stalls(evaluator: QueryEvaluator) -> list[str]:
    return [each.message for each in evaluator.statistics().incidents if each.kind == "stall"]


def test_a_program_is_told_of_a_turn_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without any display: an incident, the log and `status` say so while it hangs, as an error if it lasts."""
    monkeypatch.setattr(hang_watch, "HANG_S", 0.1)
    monkeypatch.setattr(loop_reports, "LASTING_S", 0.4)
    healed = str(tmp_path / "healed")

    def endless(n: int) -> int:
        while not os.path.exists(healed):
            time.sleep(0.01)
        return n

    with SqliteStore(tmp_path) as store, QueryEvaluator(store) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n").map(endless))
        loop = threading.Thread(target=lambda: evaluator.run(until=lambda: os.path.exists(healed)))
        loop.start()
        try:
            pushed.on_next(1)
            until(lambda: stalls(evaluator), "it is told")
            assert "n/0 from event 0 on): a function of the query 'q' does not return" in stalls(evaluator)[0]
            assert "one turn has been at work" in caplog.text and "in endless" in caplog.text
            until(lambda: evaluator.incidents.has_errors, "it lasts, and is an error")
            until(lambda: b'"stall"' in (tmp_path / "status.json").read_bytes(), "status knows")
            assert watchers() == 1
        finally:
            Path(healed).touch()
            loop.join()
        until(lambda: not stalls(evaluator), "it goes on")
    until(lambda: not watchers(), "with the last evaluator the watch ends")


@left_to_commits
def test_the_watch_keeps_no_evaluator_and_ends_with_the_last() -> None:
    """One thread for all; none where turns are taken in the loop alone, and none after those that were let go."""
    watch = HangWatch()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        watch.add(evaluator)
        assert not watchers()
    several = [QueryEvaluator(MemoryStore()) for _ in range(3)]
    for each in several:
        watch.add(each)
    assert watchers() == 1
    watch.remove(several.pop())
    assert watchers() == 1
    for each in several:
        each.close()
    del each
    several.clear()

    def is_over() -> bool:
        import gc

        gc.collect()
        return not watchers()

    until(is_over, "the watch ends")


def test_a_loop_that_has_ended_is_seen(tmp_path: Path) -> None:
    """`run` in a thread has raised: statistics say so, `status` at once, and also behind a close in order."""
    broken = threading.Event()

    class Breaking(ListSource):
        def open(self, partition: str, at: int):  # type: ignore[no-untyped-def]
            reader = super().open(partition, at)
            fetch = reader.fetch

            def failing(*arguments, **keywords):  # type: ignore[no-untyped-def]
                if broken.is_set():
                    raise SourceFailed("the disk is gone", source="n", partition=partition, position=at)
                return fetch(*arguments, **keywords)

            reader.fetch = failing
            return reader

    with SqliteStore(tmp_path) as store:
        evaluator = QueryEvaluator(store)
        evaluator.source("n", Breaking([1, 2, 3]))
        evaluator.create("q", rx.source("n").map(str))
        evaluator.start()
        broken.set()
        with pytest.raises(SourceFailed):
            evaluator.run()
        assert "the loop has ended with SourceFailed" in evaluator.statistics().trouble
        for _ in range(2):
            found = read_status(tmp_path)
            assert found is not None and found["state"] == "ended" and "the disk is gone" in found["ended"]
            evaluator.close()


def test_a_warning_that_stops_everything_for_long_becomes_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits without any turn being taken is an error after the stated time, and none once it is well again."""
    monkeypatch.setattr(lasting, "LASTING_S", 0.0)
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.start()
        evaluator.incidents.report("sink", "orders", "the disk is full", level=logging.WARNING)
        evaluator.incidents.report("late", "q", "some events", level=logging.WARNING)
        reporter = evaluator.reporter
        reporter._lasting.escalate(1e9)
        reporter._lasting.escalate(1e9 + 1)
        assert {each.kind: each.level for each in evaluator.incidents.open()} == {"sink": "error", "late": "warning"}
        evaluator.incidents.report("sink", "orders", "the disk is full", level=logging.WARNING)
        assert evaluator.incidents.has_errors
        evaluator.incidents.resolve("sink", "orders")
        evaluator.incidents.report("sink", "orders", "the disk is full", level=logging.WARNING)
        assert not evaluator.incidents.has_errors
