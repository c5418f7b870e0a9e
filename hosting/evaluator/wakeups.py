"""When an evaluator has something to do again: at once, after a while, when it is woken, or never."""

from __future__ import annotations

import logging
import time as wall
from collections.abc import Callable
from typing import Protocol

from hosting.edges.ingress import Intake
from hosting.engine.endless import MOVES_MAX, endless, goes_on
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Tick
from hosting.evaluator.call_executor import Calls
from hosting.evaluator.checkpointer import Checkpointer
from hosting.evaluator.host_clock import HostClock
from hosting.evaluator.lifecycle import Lifecycle
from hosting.evaluator.serial_executor import RETRY_S
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.incidents import Incidents
from reliable_rx.errors import StoreUnavailable
from reliable_rx.reliable import Waking

POLL_S = 0.02
CALLS_S = 5.0
"""How often it is looked whether a call that is out should have been answered."""
STILL = "stands still"
STANDS_STILL = (
    "all it reads has ended, and its time does not go on, since something in it may tick or repeat for ever: what was "
    "scheduled fired once, and it still runs. If it was to end, its last values are missing: bound what ticks "
    "(take, take_with_time, zip)"
)


class Sinks(Protocol):
    """The sinks, and why one of them cannot be written."""

    @property
    def trouble(self) -> StoreUnavailable | None: ...


class Buffers(Protocol):
    """The buffers of streams."""

    @property
    def is_full(self) -> bool: ...


class Wakeups:
    """Says of one evaluator whether anything can happen, and when. *trouble* returns why no turns are taken."""

    def __init__(
        self,
        engine: QueryEngine,
        intake: Intake,
        *,
        time: HostClock,
        turns: TurnExecutor,
        calls: Calls,
        sinks: Sinks,
        buffers: Buffers,
        checkpointer: Checkpointer,
        incidents: Incidents,
        lifecycle: Lifecycle,
        trouble: Callable[[], StoreUnavailable | None],
    ) -> None:
        self._engine, self._intake, self._time, self._turns, self._calls = engine, intake, time, turns, calls
        self._sinks, self._buffers, self._checkpointer, self._incidents = sinks, buffers, checkpointer, incidents
        self._lifecycle, self._trouble = lifecycle, trouble

    def is_finished(self) -> bool:
        """Whether nothing can happen any more: no source or all ended, nothing pending, no timer to wait for."""
        engine, intake = self._engine, self._intake
        return (
            (self.have_ended() or not intake.sources)  # none can be declared after the start
            and (engine.timers.next_due() is None or (intake.event_time and engine.rest.move() is None))
            and not engine.calls.askers
            and self.is_settled()
        )

    def have_ended(self) -> bool:
        """Whether there are sources, and all have ended; one whose first partition may still appear has not."""
        return bool(self._intake.sources) and self._intake.all_ended and not self._engine.awaited

    def last_tick(self) -> Tick | None:
        """Events have ended, so event time will not move: let all that is still due some day happen."""
        rest = self._engine.rest
        horizon = rest.move()
        if horizon is None:
            return None
        if rest.count >= MOVES_MAX:
            for name in rest.left():
                self._turns.fail(str(name), goes_on(name))
            return None
        rest.count += 1
        return Tick(horizon)

    def tell_still(self) -> None:
        """Warn of queries on event time that may go on for ever: events are over, and time does not go on for them."""
        engine, incidents = self._engine, self._incidents
        found: set[str] = set()
        if self.have_ended() and self._lifecycle.broken is None:
            on_ours = self._intake.event_time and engine.drained
            running = {name: each for name, each in engine.standing.items() if each.status == RUNNING}
            found = {name for name in endless(engine) & running.keys() if on_ours or running[name].clock is not None}
        for each in incidents.open():
            if each.kind == STILL and each.subject not in found:
                incidents.resolve(STILL, each.subject)
        for name in found:
            incidents.report(STILL, name, STANDS_STILL, level=logging.WARNING, once=True)

    def is_settled(self) -> bool:
        """Whether all turns taken so far are durable and visible, and sinks that could not be written have been."""
        return self._turns.is_settled and self._sinks.trouble is None

    def pause_s(self) -> float:
        """How long a loop of its own waits before it looks again, if nobody wakes it."""
        left_s = self.timer_s()
        return max(POLL_S if left_s is None else min(POLL_S, left_s), 0.0005)

    def timer_s(self) -> float | None:
        """How long it is until the first timer is due; None if none will be by the computer's clock."""
        due = None if self._intake.event_time else self._engine.timers.next_due()
        return None if due is None else max(0.0, due - self._time.read(self._engine.clock))

    def next_look_s(self) -> float | None:
        """Return the seconds in which nothing can happen unless it is woken; None: for ever. For a host of many."""
        waits = [self.timer_s(), self._checkpoint_s()]
        if self._trouble() is not None or self._buffers.is_full:
            waits.append(RETRY_S)
        if self._calls.made:
            waits.append(CALLS_S)
        waits.append(POLL_S if self._intake.event_time else self._intake.next_look_s())
        return min((each for each in waits if each is not None), default=None)

    def _checkpoint_s(self) -> float | None:
        """How long it is until a checkpoint is due; None if all is in one or on its way there."""
        checkpointer = self._checkpointer
        if checkpointer.has_all or checkpointer.attempt is not None:
            return None
        return max(0.0, checkpointer.last_at + checkpointer.interval_s - wall.monotonic())

    def wakes_us(self) -> bool:
        """Whether every reader says when something has arrived."""
        return all(isinstance(each.reader, Waking) for each in self._intake.order if not each.ended)
