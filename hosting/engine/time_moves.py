"""How an engine's clock moves: everything that is due on the way fires, each at its own time, within limits.

A turn may move the clock far: after an outage, or when the host's clock was wrong. What ticks on the way sets its timer
again and again, so a move is bounded twice, by what the turn itself determines. A tick stops after `REARMED_MAX` timers
that were set on its way, and the next turn goes on from there, so that nothing else waits for long. A move on which
more than `REARMED_IN_ALL_MAX` would be set (a second's timer over a century) is a *leap*: the clock goes to its end at
once, and what is due before it fires there, once. Rejected: a bound on the seconds of a move (events of the past may
lie decades apart, with nothing in between).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

from hosting.engine.dispatch import Cascade
from hosting.engine.endless import Rest
from hosting.engine.errors_at_work import ErrorsAtWork
from hosting.engine.routes import top_of
from hosting.engine.side_outputs import complete
from hosting.engine.timers import Clock
from hosting.engine.turns import Answer, Events, Rejects, Tick
from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.stage_context import finish_node

if TYPE_CHECKING:
    from hosting.engine.cycles import Readers
    from hosting.engine.engine import QueryEngine
    from hosting.engine.event_time.watermarks import Watermarks

REARMED_MAX = 100_000
REARMED_IN_ALL_MAX = 300_000_000
MOVING = frozenset((Events, Rejects, Tick, Answer))
"""Turns that move the clock; others let nothing come that is due, or only what is due of their own."""


class Stop(NamedTuple):
    """The *time* until which the process before is known to have run, and which subscription was the *newest* then."""

    time: float
    newest: int


class TimeMoves(Clock):
    """The part of an engine that moves its clock."""

    is_behind = False
    """Whether the last tick has stopped on its way."""
    drained = False
    """Whether a tick has been taken since the last event."""
    leap: tuple[float, float] | None = None
    """From when to when the clock went at once, if it did."""
    reached = -math.inf
    """The latest time of what was done ahead of what was due, at which the engine's clock is not yet."""
    stop: Stop | None = None
    """The end of the process before, until the clock moves behind it: edited times count from there."""
    heard_until: float | None = None
    """While something is done so, where the clock stands: silence counts to there, as what is due comes behind."""

    if TYPE_CHECKING:
        cascade: deque[Cascade]
        event: tuple[str, str, int, object] | None
        errors: ErrorsAtWork
        over: list[str]
        readers: Readers
        watermarks: Watermarks

        def settle(self) -> None: ...
        def settle_immediate(self) -> None: ...

    @cached_property
    def rest(self) -> Rest:
        """How time goes on when events have ended."""
        return Rest(cast("QueryEngine", self))

    def advance(self, time: float) -> None:
        """Move the clock to *time*, firing what was due before it."""
        if time > self.clock:
            if self.timers.heap:
                self.fire_due(time, inclusive=False)
            self.clock = time

    def has_due(self, time: float) -> bool:
        """Whether anything is due on the way to *time*."""
        due = self.timers.next_due()
        return due is not None and due < time and time > self.clock

    @contextmanager
    def ahead(self, time: float, *, of: Collection[str] = ()) -> Iterator[None]:
        """Have what is done within happen at *time*, ahead of what is due before it: that fires behind, at its own.

        So what came due while nothing ran meets the query as it was edited, and what an edit brings begins now. What is
        due in the queries *of* which one ends, and that read one another, is fired before.
        """
        if self.stop is None and not self.has_due(time):
            self.advance(time)
            yield
            return
        if of:
            self._fire_of(of, time)
            self.stop = None if self.stop is None else Stop(time, self.ordering.newest)  # they have run until then
        stood = self.heard_until = self.clock
        self.clock, self.reached = time, max(self.reached, time)
        try:
            yield
            self._follow_up()
        finally:
            self.clock, self.heard_until = stood, None

    @contextmanager
    def at(self, time: float) -> Iterator[None]:
        """Have what is done within happen at *time*."""
        now, self.clock = self.clock, time
        try:
            yield
        finally:
            self.clock = now

    @contextmanager
    def settled_at(self, time: float) -> Iterator[None]:
        """Have what an edit has set going, and what is done within, happen at *time*, and what follows from it.

        What is to be done now comes later.
        """
        if time >= self.clock:
            yield
            return
        immediate, whole = self.immediate, [*self.immediate]
        immediate.clear()
        immediate.extend(each for each in whole if each[0] <= time)
        with self.at(time):
            yield
            self._follow_up()
        immediate.extend(each for each in whole if each[0] > time)

    def put_off(self, timer: Timer, moment: float) -> None:
        """Have done when the clock moves, one after the other, what was to be done at once, at *moment* or later."""
        timer[0], timer[1] = max(timer[0], moment), self.order()
        self.timers.push(timer)

    def note_stop(self, time: float | None) -> None:
        """Note that the process before, or this one, has run until *time*."""
        if time is not None and (self.stop is None or time > self.stop.time):
            self.stop = Stop(time, self.ordering.newest)

    def edited_at(self, born: int) -> float:
        """Return from when it counts what an edit does to a query that was *born* then: from the stop, or else now."""
        stop = self.stop
        return self.clock if stop is None or born > stop.newest else min(stop.time, self.clock)

    def _fire_of(self, names: Collection[str], time: float) -> None:
        """Fire what is due before *time* in the queries *names* alone, each at its own time; the clock stays.

        Partitions fall silent for these alone, too: the alarms of their clocks stay for the others.
        """
        timers, stood, whole = self.timers, self.clock, list(self.timers.heap)
        own = [each for each in whole if isinstance(each[2], Instance) and top_of(each[2]).key in names]
        due = {id(each): each for each in own if each[0] < time}
        marks = [each for each in self.watermarks.by_name.values() if each.is_of(names)]
        alarms = [each.alarm for each in marks]
        for mark in marks:  # an alarm of its own, due when that of all is
            mark.only, mark.alarm = names, None if mark.alarm is None else [*mark.alarm]
        timers.restore([*due.values(), *(each.alarm for each in marks if each.alarm is not None)])
        self.fire_due(time, inclusive=False)
        self.clock = stood
        for mark, alarm in zip(marks, alarms, strict=True):
            mark.silence()
            mark.only, mark.alarm = None, alarm
        timers.restore([*(each for each in whole if id(each) not in due), *timers.heap])
        for mark in marks:  # what has come may be what others are behind of now
            mark.set_alarm()

    def _follow_up(self) -> None:
        """Do what follows from what was done, ahead of what comes next."""
        self.settle()
        if self.over:
            complete(cast("QueryEngine", self))

    def fire_due(self, time: float, *, inclusive: bool, stops: bool = False) -> bool:
        """Fire what is due before *time*, or at it if *inclusive*; return False if it *stops* on the way."""
        self.in_timers, self.reach = True, math.nextafter(time, math.inf) if inclusive else time
        self.event = None  # the event before, in one turn with the next, is not what a timer's error is of
        mark, actions, begun = self.ordering.newest, 0, self.clock
        enough = mark + REARMED_MAX
        while (timer := self.timers.pop(time, inclusive=inclusive)) is not None:
            if timer[0] > self.clock:
                mark, actions = self.ordering.newest, 0
                if mark <= enough:
                    self.clock = timer[0]
                elif is_hopeless(begun, timer[0], time):
                    self.leap, self.clock = (timer[0], time), time
                elif stops:
                    heapq.heappush(self.timers.heap, timer)
                    self.in_timers = False
                    return False
                else:
                    self.clock, begun, enough = timer[0], timer[0], mark + REARMED_MAX
            actions += timer[1] > mark  # set since the clock has come here, and part of what set it
            if actions:
                self.fire_bounded(timer, actions)
            else:
                self.errors.clear()
                instance, timer[2] = timer[2], None
                instance.fire(timer[3], timer[4])
            if self.cascade or self.over:
                self._follow_up()
                self.event = None  # an end that was told is not what the next timer's error is of
        self.in_timers = False
        return True

    def fire_bounded(self, timer: Timer, actions: int) -> None:
        """Fire *timer*, or fail its query if that goes on for ever without time moving."""
        instance = timer[2]
        if isinstance(instance, Instance) and actions > instance.plan.limits.actions_max:
            self.stop_runaway(instance)
        elif instance is not None:
            timer[2] = None
            instance.fire(timer[3], timer[4])

    def stop_runaway(self, instance: Instance) -> None:
        """Fail the query that goes on for ever without time moving."""
        while instance.parent is not None:
            instance = instance.parent
        most = instance.plan.limits.actions_max
        error = LimitExceeded(
            f"{cut(instance.key)} does more than {most:,} actions while no time passes: a retry or repeat without end, "
            f"or a period that is not positive?",
            path=instance.plan.root.path,
            limit="actions_max",
            most=most,
        )
        finish_node(instance, instance.plan.root, error)


def is_hopeless(begun: float, reached: float, end: float) -> bool:
    """Whether a move that has set `REARMED_MAX` timers from *begun* to *reached* would set too many up to its *end*."""
    return REARMED_MAX * (end - reached) > REARMED_IN_ALL_MAX * max(reached - begun, 0.0)
