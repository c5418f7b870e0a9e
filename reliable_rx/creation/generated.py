"""Sequences that a rule makes, one element per scheduler action as in RxPY."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex.abc import SchedulerBase

from reliable_rx.creation.pacing import PORTION, goes_on_later
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.filtering import fresh
from reliable_rx.query.query import Query, apply

S = TypeVar("S")
range_of = range


@frozen
class Range(Stage, name="range"):
    free = ("numbers",)
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
        if index >= len(self.numbers):
            cx.complete()
            return
        cx.state.index += 1
        cx.emit(self.numbers[index])
        if (index + 1) % PORTION or not goes_on_later(cx, "next"):
            cx.soon("next")


def range(
    start: int, stop: int | None = None, step: int | None = None, scheduler: SchedulerBase | None = None
) -> Query[int]:
    """Emit whole numbers, one action each.

    >>> range(3).to_list().run()
    [0, 1, 2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: range(1, 6, 2))
    (1 3 5 |)

    Hosted, the next turn goes on after every 10,000.

    *State*: how many were emitted.
    """
    if stop is None and step is None:
        numbers = range_of(start)
    else:
        numbers = range_of(start, 2**63 - 1 if stop is None else stop, 1 if step is None else step)
    return apply(Range(numbers, scheduler))


@frozen
class Generate(Stage, name="generate"):
    free = ("initial_state",)
    scheduler_default = "current_thread"
    initial_state: Any
    condition: Callable[[Any], Any]
    iterate: Callable[[Any], Any]

    @dataclass(slots=True)
    class State:
        value: Any
        count: int = 0

    def initial(self) -> State:
        return self.State(fresh(self.initial_state))

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        value = self.iterate(state.value) if state.count else state.value
        if not self.condition(value):
            cx.complete()
            return
        state.value = value
        state.count = count = state.count + 1
        cx.emit(value)
        if count % PORTION or not goes_on_later(cx, "next"):
            cx.soon("next")


def generate(initial_state: S, condition: Callable[[S], bool], iterate: Callable[[S], S]) -> Query[S]:
    """Emit *initial_state*, ``iterate(initial_state)`` and so on for as long as *condition* holds.

    >>> generate(1, lambda x: x < 10, lambda x: x * 2).to_list().run()
    [1, 2, 4, 8]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: generate(1, lambda x: x < 5, lambda x: x * 2))
    (1 2 4 |)

    Hosted, the next turn goes on after every 10,000, so that it may have no end.

    *State*: the present value, and how many were emitted. A mutable *initial_state* is copied for each subscription.
    """
    return apply(Generate(initial_state, condition, iterate))
