"""What a query on event time waits for is named: in its figures at once, in the log when it lasts."""

from __future__ import annotations

from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.reports.held_back import HELD_S, HeldBackWatch
from hosting.reports.incidents import Incidents
from hosting.sources.faults import FaultySource, Stall


def hosted(fetches: int, clock: Any) -> QueryEvaluator:
    """Two inputs, of which the second gives nothing for some fetches."""
    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=clock)
    evaluator.source("quick", ListSource([1.0, 2.0, 3.0]))
    evaluator.source("slow", FaultySource(ListSource([2.5]), [Stall(at=0, fetches=fetches)]))
    query = rx.source("quick").merge(rx.source("slow"))
    evaluator.create("q", query, clock=rx.event_time(float, idle_s=1000))
    return evaluator


def test_the_partition_that_is_waited_for_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Figures name it at once; one warning after a while; it is well again when the clock moves."""
    watched, moments = Incidents(), [0.0]
    evaluator = hosted(20, lambda: 100.0)
    watch = HeldBackWatch(watched)

    def look() -> None:
        watch.look(moments[0], evaluator.engine.watermarks.by_name, evaluator.intake)

    for _ in range(6):
        evaluator.step()
    held = evaluator.query("q").held_back
    assert held is not None and held[:2] == ("slow", "0") and held.waiting >= 3
    assert str(held) == "slow/0, which has given no event yet"
    look()
    moments[0] = HELD_S - 1
    look()
    assert watched.open() == ()
    for moments[0] in (HELD_S + 1, HELD_S + 2):
        look()
    (incident,) = watched.open()
    assert (incident.kind, incident.subject, incident.level) == ("watermark", "q", "warning")
    assert "wait for slow/0, which has given no event yet" in incident.message
    assert len(caplog.records) == 1
    evaluator.run()
    look()
    assert watched.open() == () and evaluator.query("q").held_back is None
    evaluator.close()


def test_a_source_that_holds_back_the_order_of_event_time_is_named() -> None:
    """Where sources carry the time, a silent one keeps all turns waiting, and is named as well."""
    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=lambda: 100.0, idle_s=1000)
    quick = ListSource([1.0, 2.0], timestamp=float)
    slow = FaultySource(ListSource([2.5], timestamp=float), [Stall(at=0, fetches=10_000)])
    evaluator.source("quick", quick)
    evaluator.source("slow", slow)
    evaluator.create("q", rx.source("quick").merge(rx.source("slow")))
    incidents = Incidents()
    watch = HeldBackWatch(incidents)
    for moment in (0.0, HELD_S + 1):
        evaluator.step()
        watch.look(moment, evaluator.engine.watermarks.by_name, evaluator.intake)
    assert ["slow/0" in each.message for each in incidents.open()] == [True]
    evaluator.close()


def test_quiet_inputs_are_no_trouble() -> None:
    """Inputs that have come as far as each other, and then say nothing, leave no warning, however long it lasts."""
    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=lambda: 100.0)
    for name, values in (("one", [1.0, 2.0]), ("two", [1.5, 2.5])):
        evaluator.source(name, ListSource(values, follow=True))
    evaluator.create("q", rx.source("one").merge(rx.source("two")), clock=rx.event_time(float, idle_s=1000))
    for _ in range(6):
        evaluator.step()
    incidents = Incidents()
    watch = HeldBackWatch(incidents)
    for moment in (0.0, HELD_S + 1, 10 * HELD_S):
        watch.look(moment, evaluator.engine.watermarks.by_name, evaluator.intake)
    assert incidents.open() == () and list(watch.still) == ["q"]
    evaluator.close()
