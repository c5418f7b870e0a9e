"""The display of `run` shows what is so when the line is written."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from conditions import until
from other_pythons import Pythons

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.display import HEARTBEAT_S, Monitor, PlainView, Sample, sample


class Held:
    """A view whose first line is due when the test says so."""

    def __init__(self) -> None:
        self.due = threading.Event()
        self.shown: list[Sample] = []

    @property
    def interval_s(self) -> float:
        self.due.wait(60.0)
        return 0.0

    def show(self, now: Sample, before: Sample) -> None:
        self.shown.append(now)

    def close(self, last: Sample, before: Sample) -> None:
        self.due.set()


def test_a_line_has_what_came_until_it_was_due() -> None:
    """Events that were taken within the first interval are in the first line, though the loop was asked before."""
    view: Any = Held()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", rx.source("n"))
        evaluator.start()
        with Monitor(evaluator, view) as monitor:
            monitor.serve()
            evaluator.run()
            view.due.set()

            def serve() -> bool:
                monitor.serve()
                return bool(view.shown)

            until(serve, "a line is shown")
    assert view.shown[0].statistics.events_in == 3


def test_a_line_is_news(capsys: pytest.CaptureFixture[str]) -> None:
    """While nothing changes there is a line a minute; an incident is a line, and not a long one."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("q", rx.source("n"))
        evaluator.start()
        view, first = PlainView(), sample(evaluator)
        for after_s in (0.0, 2.0, 4.0, HEARTBEAT_S - 1.0):
            view.show(replace(first, at=first.at + after_s), first)
        assert len(capsys.readouterr().out.splitlines()) == 1
        view.show(replace(first, at=first.at + HEARTBEAT_S), first)
        assert len(capsys.readouterr().out.splitlines()) == 1
        evaluator.incidents.report("sink", "orders", "x" * 1000)
        view.show(replace(sample(evaluator), at=first.at + HEARTBEAT_S + 2.0), first)
        (line,) = capsys.readouterr().out.splitlines()
        assert "1 incident: sink 'orders': xxx" in line and len(line) < 400


def test_a_line_has_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a query that has failed and those that have failed with it, it shows the one that is to be mended."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 0]))
        evaluator.create("valid", rx.source("n").map(lambda n: 1 / n))
        evaluator.create("total", rx.source("valid").sum())
        evaluator.create("far", rx.source("total").map(abs))
        evaluator.run()
        now = sample(evaluator)
        PlainView().show(now, now)
    assert "3 incidents: query 'valid': has failed" in capsys.readouterr().out


def test_a_suspended_query_is_called_so(interpreters: Pythons) -> None:
    """It is no unknown name: the store has its state."""
    store = MemoryStore()
    for declares in (True, False):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([1, 2], follow=True))
            if declares:
                evaluator.create("adhoc", rx.source("n").map(lambda n: n + 1))
            evaluator.start()
            evaluator.step()
            if not declares:
                with pytest.raises(KeyError, match="'adhoc': it is suspended"):
                    evaluator.query("adhoc")
        interpreters.change()
