"""What is over is over once: sinks that have failed are closed at that, and warnings go with what they were about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator


class Counting:
    """A sink that takes so many values, and counts how often it is closed."""

    def __init__(self, takes: int) -> None:
        self.takes, self.closed, self.label = takes, 0, str(takes)

    def open(self, stream: str) -> int | None:
        return None

    def write(self, first: int, values: Sequence[Any]) -> None:
        if first + len(values) > self.takes:
            raise RuntimeError("as the test wants")

    def end(self, id: int, error: Exception | None) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed += 1


def test_each_sink_is_closed_once() -> None:
    """One that has failed when it fails, and any other with the evaluator, which may be closed again."""
    failing, well = Counting(2), Counting(100)
    evaluator = QueryEvaluator(MemoryStore(), background=False, batch_events_max=1)
    evaluator.source("n", ListSource(range(5), follow=True))
    evaluator.create("q", rx.source("n").map(abs))
    for sink in (failing, well):
        evaluator.sink("q", sink)
    while evaluator.step():
        pass
    assert {each.status for each in evaluator.statistics().sinks} == {"failed", "open"}
    assert (failing.closed, well.closed) == (1, 0)
    evaluator.close()
    evaluator.close()
    assert (failing.closed, well.closed) == (1, 1)


def test_late_events_of_a_query_that_begins_anew_are_forgotten() -> None:
    """The warning was about the run before, and a restarted query has dropped nothing."""
    values = [10.0, 20.0, 1.0]
    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=lambda: 100.0)
    evaluator.source("n", ListSource(values, follow=True))
    evaluator.create("q", rx.source("n"), clock=rx.event_time(float))

    def told() -> list[str]:
        while evaluator.step():
            pass
        return [each.subject for each in evaluator.statistics().incidents if each.kind == "late"]

    with evaluator:
        assert told() == ["q"]
        evaluator.restart("q")
        assert told() == []
