"""Sequences that the clock makes: their due times are absolute, on the host's logical clock, and part of the state.

A host moves its clock by turns, from A to B in one go, after an outage of days as well; what was due in between then
fires one after the other, each at its own due time. How far that move goes is `Context.horizon`. A tick is *missed*
when the next one is due in the same move, too: a whole period lies between its due time and the horizon. So the latest
tick is never a missed one, a timer whose period is shorter than a turn still ticks once a turn, and a replay, which
takes the same turns, misses the same ticks. Rejected: asking the wall clock (a replay would miss others), and dropping
the latest tick with the missed ones (a short period would never tick at all).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

from reactivex.abc import SchedulerBase
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import TICK, Context, Stage
from reliable_rx.operators.contract.parameters import frozen, relative_seconds
from reliable_rx.operators.filtering import fresh
from reliable_rx.operators.timing import (
    NEAR_S,
    TO_WHOLE,
    Relative,
    Time,
    Waits,
    due_from,
    in_microseconds,
    microseconds,
)
from reliable_rx.query.query import Query, apply

S = TypeVar("S")
CatchUp = Literal["all", "once", "skip"]
CATCH_UPS = get_args(CatchUp)


@frozen
class Timer(Waits, name="timer"):
    free = ("duetime", "period", "catch_up")
    duetime: Time
    period: Relative | None = None
    scheduler: SchedulerBase | None = None
    catch_up: CatchUp = "all"

    @dataclass(slots=True)
    class State:
        count: int = 0
        due: float = 0.0

    def on_start(self, cx: Context) -> None:
        time = self.duetime
        if type(time) is float and time > 0.0:  # what most selectors return, so nothing is looked at twice
            due = cx.now + time
        elif self.period is None and not isinstance(time, datetime) and relative_seconds(time) <= 0:
            cx.soon(TICK)
            return
        else:
            due = due_from(cx.now, time)
        cx.state.due = due = in_microseconds(due)
        cx.schedule(due, TICK)

    def is_endless(self) -> bool:
        return self.period is not None

    def once(self, now: float) -> float | None:
        time = self.duetime
        if type(time) is not float or not time > 0.0 or self.period is not None:
            return None
        due = now + time
        return (due * 1e6 + TO_WHOLE - TO_WHOLE) / 1e6 if -NEAR_S < due < NEAR_S else in_microseconds(due)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if self.period is None:
            cx.emit(0)
            cx.complete()
        else:
            self._tick(cx, whole(self.period))

    def _tick(self, cx: Context, period: float) -> None:
        state, due = cx.state, cx.state.due
        missed = self.catch_up != "all" and due + period < cx.horizon < math.inf and period > 0.0
        state.due = latest(due, period, cx.horizon) if missed else following(due, period, cx.now)
        if not missed or self.catch_up == "once":
            count = state.count
            state.count += 1
            cx.emit(count)
        if cx.goes_on(state):
            cx.schedule(state.due, TICK)


@lru_cache
def whole(period: Relative) -> float:
    """Return a period in seconds, in RxPY's resolution."""
    return max(0, microseconds(period)) / 1_000_000


def following(due: float, period: float, now: float) -> float:
    """Return when the tick after *due* is due; who is late already starts a new row of ticks, as in RxPY."""
    after = in_microseconds(due + period)
    return after if after > now else now + period


def latest(due: float, period: float, horizon: float) -> float:
    """Return the last of the ticks *due*, *due* + *period*, … before *horizon*.

    >>> latest(1.0, 0.5, 3.2), latest(1.0, 0.5, 3.0)
    (3.0, 2.5)
    """
    steps = int((horizon - due) / period) + 1
    while steps and in_microseconds(due + steps * period) >= horizon:
        steps -= 1
    return in_microseconds(due + steps * period)


def timer(
    duetime: Time,
    period: Relative | None = None,
    scheduler: SchedulerBase | None = None,
    *,
    catch_up: CatchUp = "all",
) -> Query[int]:
    """Emit 0 after *duetime* seconds (or at a date), then 1, 2, … every *period* seconds if one is given.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda stop: timer(1.0, 3.0).pipe(rx.operators.take_until(stop)), "---------x")
    ---------x
    -0--1--2-|

    *catch_up* says what becomes of ticks that were missed because the host was away or had much to do: ``"all"``
    emits each at its own due time, ``"once"`` one for all the missed ones, ``"skip"`` none of them; the latest tick,
    less than a period late, is not a missed one, and all go on at the multiples of *period*. RxPY has no such argument:
    there, as here un-hosted with ``"all"``, a late tick begins a new row of ticks.

    *State*: the count and the next due time.
    """
    if type(duetime) is float and duetime > 0.0 and period is None and scheduler is None and catch_up == "all":
        return after(duetime)
    if catch_up not in CATCH_UPS:
        raise ValueError(f"catch_up must be one of {', '.join(CATCH_UPS)}, got {catch_up!r}")
    return apply(Timer(duetime, period, scheduler, catch_up))


@lru_cache
def after(duetime_s: float) -> Query[int]:
    """Return a timer that fires once; selectors ask for the same ones again and again."""
    return apply(Timer(duetime_s))


def interval(period: Relative, scheduler: SchedulerBase | None = None, *, catch_up: CatchUp = "all") -> Query[int]:
    """Emit 0, 1, 2, … every *period* seconds.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda stop: interval(2.0).pipe(rx.operators.take_until(stop)), "-------x")
    -------x
    --0-1-2|

    *catch_up* is explained at `timer`.

    *State*: the count and the next due time.
    """
    return timer(period, period, scheduler, catch_up=catch_up)


@frozen
class GenerateWithRelativeTime(Stage, name="generate_with_relative_time"):
    free = ("initial_state",)
    initial_state: Any
    condition: Callable[[Any], bool]
    iterate: Callable[[Any], Any]
    time_mapper: Callable[[Any], Relative]

    def is_endless(self) -> bool:
        return True

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_start(self, cx: Context) -> None:
        cx.schedule(cx.now, "next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if state.value is not NotSet:
            cx.emit(state.value)
        if not cx.goes_on(state):
            return
        value = fresh(self.initial_state) if state.value is NotSet else self.iterate(state.value)
        if self.condition(value):
            due = due_from(cx.now, self.time_mapper(value))
            state.value = value
            cx.schedule(due, "next")
        else:
            cx.complete()


def generate_with_relative_time(
    initial_state: S,
    condition: Callable[[S], bool],
    iterate: Callable[[S], S],
    time_mapper: Callable[[S], Relative],
) -> Query[S]:
    """Emit *initial_state* and what *iterate* makes of it while *condition* holds, each after its own time.

    *time_mapper* says in how many seconds, counted from the element before it.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: generate_with_relative_time(1, lambda n: n < 4, lambda n: n + 1, float))
    -1-2--(3 |)

    *State*: the element that is on its way, and one timer. An *initial_state* that *iterate* changes in place is
    copied for each subscription; a time of 0, on which RxPY fails, is no time.
    """
    return apply(GenerateWithRelativeTime(initial_state, condition, iterate, time_mapper))
