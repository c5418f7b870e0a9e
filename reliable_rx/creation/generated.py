"""Sequences that a rule makes, one element per scheduler action as in RxPY."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from reactivex.abc import SchedulerBase

from reliable_rx.operator import Context, Stage
from reliable_rx.query import Query, apply

range_of = range


@dataclass(frozen=True, eq=False)
class Range(Stage, name="range"):
    scheduler_default = "current_thread"
    numbers: range_of
    scheduler: SchedulerBase | None = None

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        index = cx.state.index
        if index == len(self.numbers):
            cx.complete()
            return
        cx.state.index += 1
        cx.emit(self.numbers[index])
        cx.soon("next")


def range(
    start: int, stop: int | None = None, step: int | None = None, scheduler: SchedulerBase | None = None
) -> Query[int]:
    """Emit whole numbers, one action each.

    *State*: how many were emitted.
    """
    if stop is None and step is None:
        numbers = range_of(start)
    else:
        numbers = range_of(start, 2**63 - 1 if stop is None else stop, 1 if step is None else step)
    return apply(Range(numbers, scheduler))
