"""The display of `run` shows what is so when the line is written."""

from __future__ import annotations

import threading
from typing import Any

from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.display import Monitor, Sample


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
