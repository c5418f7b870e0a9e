"""A timer of another query, due at the very time of an event, is not seen: every operator gives what it gives alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import every

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import copy_of
from hosting.engine.turns import Events, Tick
from reliable_rx import operators as ops
from reliable_rx.testing.recipes import STEPS, Recipe
from reliable_rx.testing.steps import Tools
from reliable_rx.testing.steps_inner import NESTED

EVENTS = [("a", 0, 1.0), ("a", 4, 1.0), ("b", 3, 2.0), ("a", 1, 2.0), ("a", 2, 3.0), ("b", 5, 3.0), ("a", 7, 3.0)]
"""All of them at the time of a tick, and several at one time."""
BESIDE: dict[str, Callable[[], Any]] = {
    "ticks": lambda: rx.interval(1.0),
    "delays": lambda: rx.source("a").pipe(ops.delay(1.0)),
}
UNTIL_S = 20.0


def played(step: str, beside: str | None, *, is_copied: bool) -> list[Any]:
    """Return what the operator of *step* gives, maybe with its state put through bytes behind each turn."""
    tools = Tools(ops, rx, (rx.source("a"), rx.source("b")))
    query = STEPS[step](tools, tools.other(0), *([Recipe(1, ())] if step in NESTED else []))
    engine, found = QueryEngine(), list[Any]()
    next_ids = {"a": 0, "b": 0}
    for source in next_ids:
        engine.declare(source, ["0"])

    def take(turn: Any) -> None:
        nonlocal engine
        found.extend(
            (each.first, [*map(str, each.values)], each.ended, str(each.error))
            for each in engine.take(turn)
            if each.name == "found"
        )
        if is_copied:
            engine = copy_of(engine)

    if beside is not None:
        take(engine.creation("beside", BESIDE[beside](), time=0.0))
    take(engine.creation("found", query, time=0.0))
    for source, value, time_s in EVENTS:
        move(engine, take, time_s)
        take(Events(source, "0", next_ids[source], [value], time=time_s))
        next_ids[source] += 1
    move(engine, take, UNTIL_S)
    return found


def move(engine: QueryEngine, take: Callable[[Any], None], time_s: float) -> None:
    """Let what is due before *time_s* fire by ticks at every half second, whoever has set it."""
    at_s = engine.clock + 0.5
    while at_s < time_s:
        take(Tick(at_s))
        at_s += 0.5


@pytest.mark.parametrize("step", every(5, STEPS))
def test_the_timers_of_another_query_are_not_seen(step: str) -> None:
    """What comes is the same beside other queries, at the same events, and behind each kill."""
    alone = played(step, None, is_copied=False)
    for beside in BESIDE:
        assert played(step, beside, is_copied=False) == alone
        assert played(step, beside, is_copied=True) == alone
