"""An evaluator that is closed while another thread runs it: `run` returns, and nothing is told as a failure."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import QueryEvaluator
from hosting.cli.command import main
from reliable_rx.errors import TooLate


def waiting(evaluator: QueryEvaluator) -> None:
    """Close it while its loop has nothing to do."""
    until(lambda: evaluator.finished or evaluator.lifecycle.looping, "it runs")
    evaluator.close()


def at_the_lock(evaluator: QueryEvaluator) -> None:
    """Close it while its loop waits for the lock, behind its look whether to go on."""
    with evaluator.lock:
        evaluator.wake()
        until(lambda: bool(evaluator.lock.waiting), "its loop waits for the lock")
        evaluator.close()


def with_events(evaluator: QueryEvaluator) -> None:
    """Close it while events come."""
    pushed = evaluator.intake.sources["n"]
    pushed.push(list(range(10_000)))  # type: ignore[attr-defined]
    until(lambda: evaluator.events_in > 0, "it takes events")
    evaluator.close()


@pytest.mark.parametrize("close", [waiting, at_the_lock, with_events])
def test_closing_ends_the_run_of_another_thread_in_order(
    close: Callable[[QueryEvaluator], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`run` returns as after `stop`; log, `status` and exit code know of no failure; a later call is refused."""
    raised: list[BaseException] = []

    def running() -> None:
        try:
            evaluator.run()
        except BaseException as error:
            raised.append(error)

    with SqliteStore(tmp_path / "store") as store:
        evaluator = QueryEvaluator(store)
        evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda n: n))
        evaluator.start()
        thread = threading.Thread(target=running)
        thread.start()
        close(evaluator)
        thread.join(60)
        assert not thread.is_alive() and not raised
        with pytest.raises(TooLate, match="is closed"):
            evaluator.run()
    assert not [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert main(["status", "--store", str(tmp_path / "store")]) == 0, capsys.readouterr().out
