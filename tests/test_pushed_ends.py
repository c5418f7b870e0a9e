"""The end of a pushed input and the threads that push: what was accepted is read, nothing is accepted behind."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_threads import Crowd, switching

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.format.codec import encode
from checkpoint.store import Store
from hosting import App, QueryEvaluator
from hosting.sources.pushed import COMPLETED, VALUE, PushedStream
from reliable_rx.errors import StoreUnavailable, TooLate
from reliable_rx.failpoints import ARMED

STORES: dict[str, Callable[[Path], Store]] = {"memory": lambda at: MemoryStore(), "sqlite": SqliteStore}
ENDS: dict[str, Callable[[PushedStream], None]] = {
    "completed": PushedStream.on_completed,
    "error": lambda pushed: pushed.on_error(ValueError("the end")),
}


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    ARMED.pop("log.before_commit", None)


def hosted(store: Store) -> tuple[QueryEvaluator, PushedStream]:
    evaluator = QueryEvaluator(store, retain_events=1_000_000)
    pushed = evaluator.push("p")
    evaluator.create("q", rx.source("p"))
    return evaluator, pushed


def seen(evaluator: QueryEvaluator) -> list[Any]:
    return [value for part in evaluator.stream("q").read(0, 1_000_000) for value in part.values]


def told(evaluator: QueryEvaluator) -> list[str]:
    return [each.message for each in evaluator.statistics().incidents if each.kind == "growth"]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("end", ENDS)
def test_every_push_is_delivered_or_too_late(tmp_path: Path, store: str, end: str) -> None:
    """Threads push while others end the input: who has an id finds his value under it, also in the next process."""
    opened = STORES[store](tmp_path / "p.store")
    evaluator, pushed = hosted(opened)
    accepted: dict[int, int] = {}
    some, endings = threading.Event(), list[str]()

    def push(pusher: int) -> None:
        with pytest.raises(TooLate):
            for number in range(1_000_000):
                accepted[pushed.on_next(pusher * 1_000_000 + number)] = pusher * 1_000_000 + number
                if len(accepted) >= 20:
                    some.set()

    def finish() -> None:
        some.wait(60)
        try:
            ENDS[end](pushed)
        except TooLate:
            return
        endings.append(end)

    with switching():
        crowd = Crowd()
        for pusher in range(3):
            crowd.start(lambda pusher=pusher: push(pusher))  # type: ignore[misc]
        for _ in range(3):
            crowd.start(finish)
        crowd.wait()
    assert len(endings) == (1 if end == "error" else 3)
    with evaluator:
        evaluator.run()
        assert seen(evaluator) == [accepted[n] for n in range(len(accepted))]
    if store == "memory":
        return
    opened.close()
    with SqliteStore(tmp_path / "p.store") as again:
        evaluator, pushed = hosted(again)
        with evaluator, pytest.raises(TooLate):
            pushed.on_next(1)


@pytest.mark.parametrize("fails", [False, True])
def test_what_comes_while_the_end_is_written(fails: bool) -> None:
    """A push during the commit of the end waits for it: too late if the end is in, and accepted if it is not."""
    evaluator, pushed = hosted(MemoryStore())
    late: list[Any] = []

    def push() -> None:
        try:
            late.append(pushed.on_next(2))
        except TooLate as error:
            late.append(error)

    thread = threading.Thread(target=push)

    def during() -> None:
        ARMED.pop("log.before_commit")
        thread.start()
        while not pushed._log._book._committing._pending:  # type: ignore[attr-defined]
            pass
        if fails:
            raise StoreUnavailable("made by a test")

    pushed.on_next(1)
    ARMED["log.before_commit"] = during
    if fails:
        with pytest.raises(StoreUnavailable):
            pushed.on_completed()
    else:
        pushed.on_completed()
    thread.join()
    with evaluator:
        if fails:
            assert late == [1]
            pushed.on_completed()
        else:
            assert [type(each) for each in late] == [TooLate]
        evaluator.run()
        assert seen(evaluator) == ([1, 2] if fails else [1])


def test_one_end_for_two_inputs_on_one_log() -> None:
    """Two evaluators on one store object push into one log, and the end of the one is the end of the other."""
    store = MemoryStore()
    (_, one), (_, other) = hosted(store), hosted(store)
    other.on_next(1)
    one.on_completed()
    with pytest.raises(TooLate):
        other.on_next(2)
    with pytest.raises(TooLate):
        other.on_error(ValueError())


@pytest.mark.parametrize("before", [False, True], ids=["read since", "read before"])
def test_values_behind_an_end_are_told_of(before: bool) -> None:
    """A store that has values behind an end, as former releases could leave it, says how many when it is started."""
    store = MemoryStore()
    entries = [encode((VALUE, 1)), encode((COMPLETED, None)), encode((VALUE, 2)), encode((VALUE, 3))]
    log = store.log("p")
    log.append(entries[:2] if before else entries)
    evaluator, pushed = hosted(store)
    with evaluator:
        evaluator.run()
        assert seen(evaluator) == [1]
    if before:
        log.ended = False
        log.append(entries[2:])
    for _ in range(2):
        evaluator, pushed = hosted(store)
        with evaluator:
            evaluator.start()
            (message,) = told(evaluator)
            assert "2 values" in message and "id 2" in message
            with pytest.raises(TooLate):
                pushed.on_next(4)


def test_an_input_that_has_ended_has_nothing_to_tell(tmp_path: Path) -> None:
    """An end with nothing behind it is no incident, at no later start."""
    for _ in range(3):
        with SqliteStore(tmp_path / "p.store") as store:
            evaluator, pushed = hosted(store)
            pushed.on_completed()
            with evaluator:
                evaluator.run()
                assert told(evaluator) == []


@pytest.mark.parametrize("at", ["journal", "checkpoint"])
def test_nothing_is_accepted_that_nobody_would_read(at: str) -> None:
    """Where the journal or a checkpoint has failed a push is refused at once, before the loop has told of it."""
    evaluator, pushed = hosted(MemoryStore())
    evaluator.start()
    worker = evaluator.journal_worker if at == "journal" else evaluator.checkpointer.worker
    assert pushed.on_next(1) == 0
    worker.submit(lambda: 1 // 0)
    until = time.monotonic() + 60.0
    while worker.failure is None and time.monotonic() < until:
        time.sleep(0.001)
    with pytest.raises(TooLate, match=r"would be read by nobody, since this evaluator has failed with ZeroDivision"):
        pushed.on_next(2)
    evaluator.abandon()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("catches", [True, False])
def test_a_feed_that_pushes_while_the_run_stops_is_no_failure(
    kind: str, catches: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind an orderly end a push is refused, and neither the store nor the feed is blamed."""
    app, ended, refused, failed = App(), threading.Event(), list[Exception](), list[Exception]()
    pushed = app.push("p")
    app.query("q", rx.source("p"))

    @app.feed
    def feed(evaluator: QueryEvaluator) -> None:
        pushed.on_next(1)
        assert ended.wait(60)
        try:
            pushed.on_next(2)
        except StoreUnavailable as error:
            refused.append(error)
            if not catches:
                raise

    with MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "p.store") as store, app.evaluator(store) as run:
        (thread,) = app.start_feeds(run, failed.append)
        run.run(until=lambda: run.events_in == 1)
    ended.set()
    thread.join()
    assert len(refused) == 1 and not failed and not run.incidents.open()
    assert not [each.message for each in caplog.records if each.levelno >= logging.WARNING]
