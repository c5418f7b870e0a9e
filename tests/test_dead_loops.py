"""A loop that is dead, however it died: what it is asked for is refused with a remedy, or kept and told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import QueryEvaluator
from hosting.reports import hang_watch
from hosting.reports.status_file import read_status
from hosting.sources import ListSource
from hosting.sources.pushed import PushedStream
from reliable_rx.errors import InternalError, ReliableRxError, SourceFailed, TooLate

Break = Callable[[QueryEvaluator], None]


async def echoed(n: int) -> int:
    return n


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def in_a_turn(error: BaseException) -> Break:
    def act(evaluator: QueryEvaluator) -> None:
        evaluator.engine.take = raising(error)  # type: ignore[method-assign]

    return act


def in_the_journal(evaluator: QueryEvaluator) -> None:
    evaluator.store.journal.append = raising(ValueError("made by a test"))  # type: ignore[method-assign]


def at_the_start(evaluator: QueryEvaluator) -> None:
    evaluator.store.recover = raising(ValueError("made by a test"))  # type: ignore[method-assign]


FAILED: dict[str, Break] = {
    "an invariant does not hold": in_a_turn(InternalError("made by a test")),
    "another error in a turn": in_a_turn(ValueError("made by a test")),
    "an interrupt in a turn": in_a_turn(KeyboardInterrupt()),
    "the journal's thread": in_the_journal,
    "the start": at_the_start,
}
CALLS: dict[str, Callable[[QueryEvaluator, PushedStream], object]] = {
    "on_next": lambda evaluator, pushed: pushed.on_next(2),
    "push": lambda evaluator, pushed: pushed.push([2, 3]),
    "on_completed": lambda evaluator, pushed: pushed.on_completed(),
    "on_error": lambda evaluator, pushed: pushed.on_error(ValueError("no")),
    "create": lambda evaluator, pushed: evaluator.create("r", rx.source("n")),
    "create_many": lambda evaluator, pushed: evaluator.create_many({"r": rx.source("n")}),
    "dispose": lambda evaluator, pushed: evaluator.dispose("q"),
    "restart": lambda evaluator, pushed: evaluator.restart("q"),
    "step": lambda evaluator, pushed: evaluator.step(),
    "run": lambda evaluator, pushed: evaluator.run(),
    "checkpoint": lambda evaluator, pushed: evaluator.checkpoint(),
}


@contextmanager
def dead(evaluator: QueryEvaluator, break_it: Break) -> Iterator[PushedStream]:
    """Have the loop of *evaluator* die in a thread of its own, for which nobody waits."""
    pushed = evaluator.push("n")
    evaluator.create("q", rx.source("n"))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            evaluator.run()
        except BaseException as error:
            raised.append(error)

    break_it(evaluator)
    thread = threading.Thread(target=run)
    pushed.on_next(1)
    thread.start()
    thread.join()
    assert raised
    try:
        yield pushed
    finally:
        evaluator.close()


@pytest.mark.parametrize("break_it", FAILED.values(), ids=FAILED)
def test_what_has_failed_takes_nothing_and_says_why(break_it: Break) -> None:
    """Each call is refused by one of our errors with the remedy, and statistics say the same."""
    store = MemoryStore()
    evaluator = QueryEvaluator(store)
    with dead(evaluator, break_it) as pushed:
        for name, call in CALLS.items():
            why = refusal(lambda call=call: call(evaluator, pushed))  # type: ignore[misc]
            assert "made by a test" in why or "KeyboardInterrupt" in why, name
        assert pushed.end == 1, "nothing was accepted"
        assert "make another one on the same store" in evaluator.statistics().trouble


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except ReliableRxError as error:
        return str(error)
    return "it was accepted"


class Breaking(ListSource):
    """A source that cannot be read while it is *broken*."""

    broken = True

    def open(self, partition: str, at: int):  # type: ignore[no-untyped-def]
        reader = super().open(partition, at)
        fetch = reader.fetch

        def failing(*arguments, **keywords):  # type: ignore[no-untyped-def]
            if self.broken:
                raise SourceFailed("the disk is gone", source="m", partition=partition, position=at)
            return fetch(*arguments, **keywords)

        reader.fetch = failing  # type: ignore[method-assign]
        return reader


def loops(evaluator: QueryEvaluator) -> dict[str, str]:
    return {each.subject: each.message for each in evaluator.statistics().incidents if each.kind == "loop"}


def test_a_loop_that_raised_is_an_incident_until_it_is_run_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Log, statistics and `status` tell of it at once; pushes are durable, and the next `run` takes them."""
    with SqliteStore(tmp_path) as store, QueryEvaluator(store) as evaluator:
        source = Breaking([1])
        evaluator.source("m", source)
        with dead(evaluator, lambda evaluator: None) as pushed:
            assert "the run has ended since a source cannot be read" in loops(evaluator)["run"]
            assert caplog.text.count("the run has ended since") == 1
            assert caplog.text.count("ERROR") == 2 and caplog.text.splitlines()[0].endswith("the disk is gone")
            assert caplog.text.count("Traceback") == 1, "of one failure one traceback"
            found = read_status(tmp_path)
            assert found is not None and "loop" in [each["kind"] for each in found["incidents"]]
            pushed.on_next(2)
            evaluator.create("r", rx.source("n"))
            source.broken = False
            pushed.on_completed()
            evaluator.run()
            assert not loops(evaluator)
            assert values(evaluator, "q") == [1, 2] and values(evaluator, "r")[-1:] == [2]


def values(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 10) for value in part.values]


def test_what_is_pushed_while_no_loop_runs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a run that ended in order a push is accepted; if nobody takes it that is an incident, until it is taken."""
    monkeypatch.setattr(hang_watch, "HANG_S", 0.1)
    with QueryEvaluator(MemoryStore()) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n"))
        pushed.on_next(1)
        evaluator.run(until=lambda: evaluator.stream("q").visible == 1)
        assert not loops(evaluator)
        pushed.push([2, 3])
        until(lambda: loops(evaluator), "it is told")
        assert "2 pushed values wait" in loops(evaluator)["unread"]
        evaluator.run(until=lambda: evaluator.stream("q").visible == 3)
        assert not loops(evaluator)


def test_a_second_loop_is_refused() -> None:
    """Another thread that runs an evaluator which runs is refused; the first one goes on, and can be run again."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n"))
        loop = threading.Thread(target=evaluator.run)
        loop.start()
        until(lambda: evaluator.lifecycle.looping, "it runs")
        with pytest.raises(TooLate, match="another thread runs this evaluator"):
            evaluator.run()
        pushed.on_next(1)
        until(lambda: evaluator.query("q").emitted == 1, "the first one goes on")
        evaluator.stop()
        loop.join()
        evaluator.run(until=lambda: True)


@pytest.mark.parametrize(
    ("queries", "status", "told"),
    [
        ({}, {}, True),
        ({"q": rx.never()}, {"q": "running"}, True),
        ({"q": rx.of(1, 2)}, {"q": "completed"}, False),
        ({"q": rx.timer(0.001)}, {"q": "completed"}, False),
        ({"q": rx.of(1).map_async(echoed)}, {"q": "completed"}, False),
        ({"q": rx.timer(0.001).concat(rx.never()), "r": rx.never()}, {"q": "running", "r": "running"}, True),
    ],
    ids=["nothing", "never", "of", "timer", "a call", "a timer and never"],
)
def test_a_run_without_a_source_ends_and_says_why(queries: dict[str, Any], status: dict[str, str], told: bool) -> None:
    """It goes on while timers and calls do; what waits for events that cannot come is an incident."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        for name, query in queries.items():
            evaluator.create(name, query)
        evaluator.run()
        assert {name: evaluator.query(name).status for name in queries} == status
        found = [each for each in evaluator.statistics().incidents if each.kind == "loop"]
        assert [(each.subject, "no source is declared" in each.message) for each in found] == [("run", True)] * told
