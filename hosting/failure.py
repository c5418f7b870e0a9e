"""Where and why a query failed, as data that is stored with it: the event at work, the clock, the traceback as text.

A list of events is handed over at once, so the event at which a function raised is not known from a position that was
counted. It is read off the traceback: the innermost step of an operator has the value in its hand. Where that value was
made by an operator before it, the failure lies somewhere in the list, and is given as its bounds. Rejected: counting
every event, which would cost each of them what only a failure needs; taking the list again one by one, since states
have moved on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpoint.stored_errors import trace_of
from hosting.turn import Events

if TYPE_CHECKING:
    from hosting.engine import QueryEngine
    from hosting.standing import Standing

STEPS = ("on_next", "on_batch", "deliver")
NOTHING: Any = object()


class FailedAt(NamedTuple):
    """The event at which a query failed: exactly *position*, or one from *position* to *last*.

    *time* is the engine's clock then. A timer, a call's answer or a creation is no event: then *source* is empty.
    """

    source: str
    partition: str
    position: int
    last: int
    time: float

    def __str__(self) -> str:
        if not self.source:
            return "no event: a timer, an answer, its creation or its state"
        where = f"{self.source}/{self.partition} event {self.position:,}"
        return where if self.last == self.position else f"{where} to {self.last:,}"


class Failure(NamedTuple):
    """What is stored with a failed query besides its error."""

    at: FailedAt
    trace: str


def failure_of(engine: QueryEngine, standing: Standing, error: Exception) -> Failure:
    """Describe what has just ended *standing*."""
    source, partition, position, last = _place(engine, standing, error) or ("", "", -1, -1)
    return Failure(FailedAt(source, partition, position, last, engine.clock), trace_of(error))


def stored_mishaps(standing: Standing) -> tuple[Any, ...]:
    """Return what is stored of a query's failure and of the events that it has skipped; nothing if there is nothing."""
    failure, skipped = standing.failure, standing.skipped
    if failure is None and not skipped:
        return ()
    return None if failure is None else (tuple(failure.at), failure.trace), skipped


def read_failure(stored: Any) -> Failure | None:
    """Read back what `hosting.snapshot` has stored of a failure."""
    return None if stored is None else Failure(FailedAt(*stored[0]), stored[1])


def _place(engine: QueryEngine, standing: Standing, error: Exception) -> tuple[str, str, int, int] | None:
    clock, turn = standing.clock, engine.turn
    if (engine if clock is None else clock).in_timers:
        return None
    if engine.event is not None:
        source, partition, position, _ = engine.event
        return source, partition, position, position
    if clock is not None:
        source, entries = clock.playing
        return _among([each for each in entries if each[1][0] == source], error)
    if isinstance(turn, Events) and turn.values:
        first, last = _found(turn.values, error)
        return turn.source, turn.partition, turn.first + first, turn.first + last
    return None


def _among(entries: Sequence[Any], error: Exception) -> tuple[str, str, int, int] | None:
    """Return which of *entries*, in the order of their times, it was: the one, or the first run of one partition."""
    if not entries:
        return None
    first, last = _found([each[3] for each in entries], error)
    channel, run = next(groupby(entries[first : last + 1], key=lambda each: each[1]))
    positions = [each[2] for each in run]
    return (*channel, min(positions), max(positions))


def _found(values: Sequence[Any], error: Exception) -> tuple[int, int]:
    """Return between which places of *values* the one is that the step which raised had in its hand."""
    hand = _in_hand(error)
    places = [place for place, value in enumerate(values) if value is hand]
    return (places[0], places[-1]) if places else (0, len(values) - 1)


def _in_hand(error: Exception) -> Any:
    """Return the value at which the outermost step on the way of *error* was."""
    at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_name in STEPS:
            value = at.tb_frame.f_locals.get("value", NOTHING)
            if value is not NOTHING:
                return value
        at = at.tb_next
    return NOTHING
