"""The lock between an evaluator's loop and everybody else: the loop gives way, and nobody else pays for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hosting.evaluator.fair_lock
import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import GeneratorSource, QueryEvaluator
from hosting.evaluator.fair_lock import Turnstile

WAIT_S = 60.0


def visitor(lock: Turnstile, log: list[str]) -> threading.Thread:
    """Start a thread that wants the lock, and return when it waits for it."""

    def visit() -> None:
        with lock:
            log.append("visitor")

    thread = threading.Thread(target=visit, daemon=True)
    thread.start()
    with lock.changed:
        assert lock.changed.wait_for(lambda: lock.waiting > 0, WAIT_S)
    return thread


def test_who_waits_is_let_in_before_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two steps, somebody who waited for the first to end has the lock before the second begins."""
    monkeypatch.setattr(hosting.evaluator.fair_lock, "GIVE_WAY_S", WAIT_S)
    lock, log = Turnstile(), list[str]()
    for _ in range(20):
        with lock:
            log.append("step")
            thread = visitor(lock, log)
        lock.give_way()
        with lock:
            log.append("step")
        thread.join(WAIT_S)
    assert log == ["step", "visitor", "step"] * 20
    assert lock.waiting == 0


def test_it_is_reentrant_and_free_again_after_an_error() -> None:
    """As the lock that it is made of."""
    lock = Turnstile()
    try:
        with lock, lock:
            raise ValueError
    except ValueError:
        pass
    thread = threading.Thread(target=lock.__enter__)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_statistics_are_answered_while_the_loop_has_work_without_end() -> None:
    """A source that never runs dry does not keep other threads out."""
    evaluator = QueryEvaluator(MemoryStore(), retain_events=100)
    evaluator.source("n", GeneratorSource(lambda i, random: i))
    evaluator.create("q", rx.source("n").map(lambda n: n * 2))
    evaluator.start()
    loop = threading.Thread(target=evaluator.run, daemon=True)
    loop.start()
    seen: list[Any] = [evaluator.statistics() for _ in range(50)]
    evaluator.stop()
    loop.join(WAIT_S)
    evaluator.close()
    assert [each.turns for each in seen] == sorted(each.turns for each in seen)
    assert all(each.queries_running == 1 for each in seen)
