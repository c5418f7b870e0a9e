"""Timers that are set again as they were, and such as something has left behind: no store fails to open for them."""

from __future__ import annotations

from collections import deque
from typing import Any

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.timers import Clock, Ordering
from hosting.engine.turns import Events


def test_timers_of_one_number_are_not_compared_further() -> None:
    """A timer that is set again as it was may meet one of its due time and number, emptied or not."""
    clock = Clock(0.0, deque(), Ordering())
    held: list[Any] = [object(), object(), object()]
    first = clock.set_timer(held[0], held[0], "due", 1.0)
    for each in held[1:]:
        clock.resume_timer(each, each, "due", first[0], first[1])
    clock.cancel_timer(first)
    found = [clock.timers.pop(2.0, inclusive=True) for _ in range(3)]
    assert {id(each[2]) for each in found if each} == {id(each) for each in held[1:]}


def test_timers_that_are_set_again_are_due_in_their_order() -> None:
    """Those that are set again and those that are new come as they are due, then as they were set."""
    clock, node = Clock(0.0, deque(), Ordering()), object()
    holder: Any = object()
    for due in (3.0, 1.0, 2.0, 1.0):
        clock.set_timer(holder, node, None, due)  # type: ignore[arg-type]
    for due, order in ((2.0, -3), (1.0, -2), (3.0, -1)):
        clock.resume_timer(holder, node, None, due, order)  # type: ignore[arg-type]
    found = [timer[:2] for timer in iter(lambda: clock.timers.pop(9.0, inclusive=True), None)]
    assert found == [[1.0, -2], [1.0, 2], [1.0, 4], [2.0, -3], [2.0, 3], [3.0, -1], [3.0, 1]]


def test_a_query_lets_go_of_what_runs_behind_a_part_that_does_not() -> None:
    """Whatever an instance is left in, its end takes all its timers along."""
    engine = QueryEngine()
    engine.declare("a", ["0"])
    shared = rx.source("a").debounce(5.0).share()
    engine.take(engine.creation("q", shared.merge(shared), time=0.0))
    engine.take(Events("a", "0", 0, [1], 0.0))
    query = engine.standing["q"]
    query.active, query.detached = query.active & ~query.plan.by_path["/share"].bit, 0
    query.dispose()
    assert not query.active and engine.timers.next_due() is None
