"""When an evaluator has something to do again: at once, after a while, when it is woken, or never."""

from __future__ import annotations

import logging
import time as wall
from typing import TYPE_CHECKING

from hosting.engine.endless import MOVES_MAX, endless, goes_on
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Tick
from hosting.evaluator.serial_executor import RETRY_S
from reliable_rx.reliable import Waking

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

POLL_S = 0.02
CALLS_S = 5.0
"""How often it is looked whether a call that is out should have been answered."""
STILL = "stands still"
STANDS_STILL = (
    "all it reads has ended, and its time does not go on, since something in it may tick or repeat for ever: what was "
    "scheduled fired once, and it still runs. If it was to end, its last values are missing: bound what ticks "
    "(take, take_with_time, zip)"
)


def is_finished(evaluator: QueryEvaluator) -> bool:
    """Whether nothing can happen any more: no source or all ended, nothing pending, no timer to wait for."""
    engine, intake = evaluator.engine, evaluator.intake
    return (
        (have_ended(evaluator) or not intake.sources)  # none can be declared after the start
        and (engine.timers.next_due() is None or (intake.event_time and engine.rest.move() is None))
        and not engine.calls.askers
        and is_settled(evaluator)
    )


def have_ended(evaluator: QueryEvaluator) -> bool:
    """Whether there are sources, and all have ended; one whose first partition may still appear has not."""
    return bool(evaluator.intake.sources) and evaluator.intake.all_ended and not evaluator.engine.awaited


def last_tick(evaluator: QueryEvaluator) -> Tick | None:
    """Events have ended, so event time will not move: let all that is still due some day happen."""
    rest = evaluator.engine.rest
    horizon = rest.move()
    if horizon is None:
        return None
    if rest.count >= MOVES_MAX:
        for name in rest.left():
            evaluator.turns.fail(str(name), goes_on(name))
        return None
    rest.count += 1
    return Tick(horizon)


def tell_still(evaluator: QueryEvaluator) -> None:
    """Warn of queries on event time that may go on for ever: all events are over, and time does not go on for them."""
    engine, incidents = evaluator.engine, evaluator.incidents
    found: set[str] = set()
    if have_ended(evaluator) and evaluator.lifecycle.broken is None:
        on_ours = evaluator.intake.event_time and engine.drained
        running = {name: each for name, each in engine.standing.items() if each.status == RUNNING}
        found = {name for name in endless(engine) & running.keys() if on_ours or running[name].clock is not None}
    for each in incidents.open():
        if each.kind == STILL and each.subject not in found:
            incidents.resolve(STILL, each.subject)
    for name in found:
        incidents.report(STILL, name, STANDS_STILL, level=logging.WARNING, once=True)


def is_settled(evaluator: QueryEvaluator) -> bool:
    """Whether all turns taken so far are durable and visible, and sinks that could not be written have been."""
    return evaluator.turns.is_settled and evaluator.outlets.trouble is None


def pause_s(evaluator: QueryEvaluator) -> float:
    """How long a loop of its own waits before it looks again, if nobody wakes it."""
    left_s = timer_s(evaluator)
    return max(POLL_S if left_s is None else min(POLL_S, left_s), 0.0005)


def timer_s(evaluator: QueryEvaluator) -> float | None:
    """How long it is until the first timer is due; None if none will be by the computer's clock."""
    due = None if evaluator.intake.event_time else evaluator.engine.timers.next_due()
    return None if due is None else max(0.0, due - evaluator.time.read(evaluator.engine.clock))


def next_look_s(evaluator: QueryEvaluator) -> float | None:
    """How long nothing can happen unless it is woken; None: for ever. For a host that looks after many evaluators."""
    waits = [timer_s(evaluator), checkpoint_s(evaluator)]
    if evaluator.trouble is not None or evaluator.holders.is_full:
        waits.append(RETRY_S)
    if evaluator.calls.made:
        waits.append(CALLS_S)
    waits.append(POLL_S if evaluator.intake.event_time else evaluator.intake.next_look_s())
    return min((each for each in waits if each is not None), default=None)


def checkpoint_s(evaluator: QueryEvaluator) -> float | None:
    """How long it is until a checkpoint is due; None if all is in one or on its way there."""
    checkpointer = evaluator.checkpointer
    if checkpointer.has_all or checkpointer.attempt is not None:
        return None
    return max(0.0, checkpointer.last_at + checkpointer.interval_s - wall.monotonic())


def wakes_us(evaluator: QueryEvaluator) -> bool:
    """Whether every reader says when something has arrived."""
    return all(isinstance(each.reader, Waking) for each in evaluator.intake.order if not each.ended)
