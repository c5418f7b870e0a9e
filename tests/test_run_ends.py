"""What `reliable-rx run` waits for before it ends, and what it says of a stop: within this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from hosting.cli import run
from hosting.cli.run import Stop, are_done, hint_of


def test_a_run_is_done_when_all_that_was_pushed_is_taken() -> None:
    """Without a feed at work it ends behind the last pushed value, neither before that nor never."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n"))
        evaluator.start()
        for n in range(2):
            assert are_done([], evaluator)
            pushed.on_next(n)
            assert not are_done([], evaluator)
            while evaluator.step():
                pass
        assert are_done([], evaluator)


def asked(stop: Stop) -> None:
    stop.asked = True
    stop.wake()


def told(capsys: pytest.CaptureFixture[str]) -> Callable[[], bool]:
    return lambda: "Ctrl-C again to stop at once" in capsys.readouterr().out


def test_a_stop_that_takes_long_is_told_how_to_end_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a second signal does is said while the first one has not ended the run."""
    monkeypatch.setattr(run, "TOGETHER_S", 0.0)
    stop = Stop()
    with hint_of(stop):
        asked(stop)
        until(told(capsys))


def test_a_stop_that_ends_soon_says_no_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a second signal nothing is said where none is needed."""
    monkeypatch.setattr(run, "TOGETHER_S", 60.0)
    stop = Stop()
    with hint_of(stop):
        asked(stop)
    assert not told(capsys)()
