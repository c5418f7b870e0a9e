"""Sequences that the clock makes: their due times are absolute, on the host's logical clock, and part of the state."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime

from reactivex.abc import SchedulerBase

from reliable_rx.operator import Context, Stage, relative_seconds
from reliable_rx.operators.time import Relative, Time, due_from
from reliable_rx.query import Query, apply


@dataclass(frozen=True, eq=False)
class Timer(Stage, name="timer"):
    duetime: Time
    period: Relative | None = None
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        count: int = 0
        due: float = 0.0

    def on_start(self, cx: Context) -> None:
        if self.period is None and not isinstance(self.duetime, datetime) and relative_seconds(self.duetime) <= 0:
            cx.soon("tick")
            return
        cx.state.due = due_from(cx.now, self.duetime)
        cx.schedule(cx.state.due, "tick")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        count = state.count
        state.count += 1
        cx.emit(count)
        if self.period is None:
            cx.complete()
        elif cx.active and cx.state is state:  # nobody has stopped us meanwhile, or started us afresh
            self._wind(cx)

    def _wind(self, cx: Context) -> None:
        period = max(0.0, relative_seconds(self.period))
        due = cx.state.due + period
        cx.state.due = due if due > cx.now else cx.now + period
        cx.schedule(cx.state.due, "tick")


def timer(duetime: Time, period: Relative | None = None, scheduler: SchedulerBase | None = None) -> Query[int]:
    """Emit 0 after *duetime* seconds (or at a date), then 1, 2, … every *period* seconds if one is given.

    *State*: the count and the next due time.
    """
    return apply(Timer(duetime, period, scheduler))


def interval(period: Relative, scheduler: SchedulerBase | None = None) -> Query[int]:
    """Emit 0, 1, 2, … every *period* seconds.

    *State*: the count and the next due time.
    """
    return timer(period, period, scheduler)
