"""A loop that hangs, or has ended, is seen in whatever hosts it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from lanes import left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import App, JsonLinesSink, QueryEvaluator
from hosting.cli import mend
from hosting.cli.command import main
from hosting.reports import hang_watch, lasting, loop_reports
from hosting.reports.hang_watch import HangWatch
from hosting.reports.status_file import read_status
from hosting.sources import ListSource
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


HELD, WHERE = threading.Event(), set[str]()
"""What the places of these kinds wait for, which hang in a start."""


def held(kind: str) -> None:
    if kind in WHERE:
        HELD.wait(60.0)


class Connected:
    """A state that connects again when it is loaded."""

    def __getstate__(self) -> dict[str, int]:
        return {"port": 1}

    def __setstate__(self, state: dict[str, int]) -> None:
        held("a state")


class Slow(ListSource):
    """A source that lists its partitions when the service is there."""

    def partitions(self):  # type: ignore[no-untyped-def]
        held("a source")
        return super().partitions()


class SlowSink(JsonLinesSink):
    """A sink that is opened when the service is there."""

    def open(self, stream: str) -> int:
        held("a sink")
        return super().open(stream)


def chosen(inner: Any) -> Any:
    held("a selector")
    return inner


def made_slowly() -> Any:
    held("what makes a source")
    return ListSource([1])


def sink_in(folder: Path) -> Any:
    held("what makes a sink")
    return JsonLinesSink(folder / "out")


STARTS: dict[str, tuple[Callable[[Path], App], str]] = {
    "a state": (lambda folder: app_of(ListSource([1])), "Connected.__setstate__"),
    "a source": (lambda folder: app_of(Slow([1])), "Slow.partitions"),
    "a selector": (lambda folder: app_of(ListSource([1]), chooses=chosen), "app_of.<locals>.<lambda>"),
    "what makes a source": (lambda folder: app_of(made_slowly), "made_slowly"),
    "what makes a sink": (lambda folder: app_of(ListSource([1]), sink=lambda: sink_in(folder)), "test_hang_watch.py"),
    "a sink": (lambda folder: app_of(ListSource([1]), sink=SlowSink(folder / "out")), "SlowSink.open"),
}


def app_of(source: Any, *, chooses: Any = None, sink: Any = None) -> App:
    app = App()
    read = app.source("n", source)
    app.query("q", read.scan(lambda state, _: state or Connected(), None).map(lambda _: 1))
    if chooses is not None:
        app.query("chosen", read.group_by(lambda n: n).flat_map(lambda group: chooses(group)))
    if sink is not None:
        app.sink("q", sink)
    return app


def stored(folder: Path, patch: pytest.MonkeyPatch, kind: str) -> None:
    """Store the state of an app, and have the places of this *kind* hang from then on."""
    patch.setattr(hang_watch, "HANG_S", 0.1)
    HELD.set()
    with SqliteStore(folder / "store") as store, app_of(ListSource([1])).evaluator(store) as evaluator:
        evaluator.run()
    HELD.clear()
    patch.setattr(f"{__name__}.WHERE", {kind})


@pytest.mark.parametrize("kind", STARTS)
def test_a_start_that_does_not_return_says_what_it_waits_for(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in `status`, wherever code of the app is called before the first turn."""
    stored(tmp_path, monkeypatch, kind)
    made, place = STARTS[kind]

    def start() -> None:
        with SqliteStore(tmp_path / "store") as store, made(tmp_path).evaluator(store) as evaluator:
            evaluator.start()

    starting = threading.Thread(target=start)
    starting.start()
    try:
        until(lambda: "one start has been at work" in caplog.text, "it is told")
        assert place in caplog.text.partition("one start has been at work")[2].partition("\n")[0]
        until(lambda: b'"stall"' in (tmp_path / "store" / "status.json").read_bytes(), "status knows")
    finally:
        HELD.set()
        starting.join()


def test_a_command_says_what_its_start_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows no log, so it says so itself, once."""
    stored(tmp_path, monkeypatch, "a state")
    said: list[str] = []
    monkeypatch.setattr(mend, "complain", lambda text: (said.append(text), HELD.set()))
    assert main(["dispose", str(tmp_path / "store"), "q", "--yes"]) == 0
    assert len(said) == 1 and "Connected.__setstate__" in said[0] and "Ctrl-C ends it" in said[0]


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
