"""Where and why a query failed, as data that is stored with it: the event at work, the clock, the traceback as text.

A list of events is handed over at once, so the event at which a function raised is not known from a position that was
counted. It is read off the stack: the engine's frame has what is handed over and from where, and on the traceback the
step of an operator has the value in its hand. Where that value was made by an operator before it, the failure lies
somewhere in the list, and is given as its bounds. Rejected: counting every event, which would cost each of them what
only a failure needs; taking the list again one by one, since states have moved on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpoint.format.stored_errors import trace_of
from hosting.engine.turns import Answer, Create, Dispose, Fail, Tick, is_end
from reliable_rx.class_of import ids_of
from reliable_rx.errors import QueryDisposed, described
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.hosted_query import Standing

LISTS = ("Delivery.deliver", "Delivery.deliver_keyed")
SINGLY = ("Delivery.deliver_singly", "EventClock.deliver", "EventClock.refuse", "QueryEngine.take_answer")
ENDS = ("QueryEngine.end_route", "EventClock.finish_source")
"""Where an engine hands events over, and where it tells of their end, by the qualified names of its functions."""
TURNS: dict[type, str] = {
    Answer: "the answer of a call",
    Create: "the creation or an edit of a query",
    Dispose: "the disposal of a query",
    Fail: "what is stored of it",
    Tick: "a timer",
}
"""What is at work in a turn that hands no event over.

A query ends by a turn of its own (`Fail`) if a checkpoint or a start cannot keep it.
"""
STEPS = ("on_next", "on_batch", "deliver")
ORIGINS_MAX = 100
"""How many errors that others may get are known by who had them first."""
SHARED = ids_of((int, float, str, bytes, bool, type(None)))
"""Values of these types may be one object without being one event."""


class FailedAt(NamedTuple):
    """The event at which a query failed: exactly *position*, or one from *position* to *last*.

    *time* is the engine's clock then. A timer, a call's answer or a creation is no event: then *source* is empty, and
    *what* says which it was.
    """

    source: str
    partition: str
    position: int
    last: int
    time: float
    what: str = ""

    def __str__(self) -> str:
        if not self.source:
            return self.what or "no event"
        where = f"{self.source}/{self.partition} event {self.position:,}"
        return where if self.last == self.position else f"{where} to {self.last:,}"


class Failure(NamedTuple):
    """What is stored with a failed query besides its error: the traceback where that was raised, and nowhere else.

    *origin* names what it reads (a query, a source) whose error it is, if it is no error of its own. *text* is what is
    known of the text of its code (`hosting.engine.code_text`), None as long as nobody has looked.
    """

    at: FailedAt
    trace: str
    origin: str = ""
    text: tuple[Any, ...] | None = None


class Origins:
    """Who has ended with an error, in that order: it goes on to all that read a stream. The newest errors are known.

    With each is where the error had been raised by then: one that is raised again since, as a constant is, may be the
    error of who raised it.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Exception, dict[str, TracebackType | None]]] = {}

    def note(self, error: Exception, name: str) -> None:
        """*name* ends with *error*, which others get from it."""
        if len(self._found) >= ORIGINS_MAX and id(error) not in self._found:
            del self._found[next(iter(self._found))]
        _, names = self._found.setdefault(id(error), (error, {}))
        names[name] = error.__traceback__

    def of(self, error: Exception) -> dict[str, TracebackType | None]:
        """Return who has ended with *error*."""
        return self._found.get(id(error), (error, {}))[1]


def failure_of(engine: QueryEngine, standing: Standing, error: Exception) -> Failure:
    """Describe what has just ended *standing*."""
    found = _place(engine, standing, error)
    source, partition, position, last = ("", "", -1, -1) if isinstance(found, str) else found
    origin = _origin(engine, standing, error)
    if standing.error is not None:
        engine.origins.note(standing.error, standing.name)
    if origin and _runs_again(engine, origin):
        engine.begun[query_of(origin)] = None
    at = FailedAt(source, partition, position, last, engine.clock, found if isinstance(found, str) else "")
    return Failure(at, "" if origin else trace_of(error), origin)


def _origin(engine: QueryEngine, standing: Standing, error: Exception) -> str:
    """Return whose end *standing* hands on with *error*; nothing if the error is its own.

    What is raised again while that end is at work (``catch`` with a handler that raises what it is given) is handed on;
    what has been raised since, or by who is at work again, is its own.
    """
    traces = _had_before(engine, standing, error) | engine.origins.of(error)
    had = [name for name in traces if _has_ended(engine, standing, name, error)]
    if (ending := _ending(engine, standing)) in had:
        return ending
    begins = isinstance(engine.turn, Create) and engine.turn.name == standing.name
    handed_on = (name for name in had if begins or traces[name] is error.__traceback__)
    return next((name for name in handed_on if name in standing.plan.sources), "")


def _ending(engine: QueryEngine, standing: Standing) -> str:
    """Return whose end is at work; nothing if it is something else."""
    if engine.ending or (engine if standing.clock is None else standing.clock).in_timers:
        return engine.ending
    return engine.event[0] if engine.event is not None and is_end(engine.event) else ""


def _has_ended(engine: QueryEngine, standing: Standing, name: str, error: Exception) -> bool:
    """Whether *error*, that *name* had ended with, is its end still, or that which the clock of *standing* tells."""
    there = engine.standing.get(query_of(name))
    if there is None:
        return True
    ends = (there.error, _told(standing).get(name))
    return any(end is error or (end is not None and described(end) == described(error)) for end in ends)


def _runs_again(engine: QueryEngine, origin: str) -> bool:
    """Whether there is something under the name of *origin* again, whose end a clock has told late."""
    there = engine.standing.get(query_of(origin))
    return origin in engine.live if there is None else there.error is None


def _told(standing: Standing) -> Mapping[str, Exception | None]:
    """Return the ends that the clock of *standing* has told it of, which may be long after they came."""
    return {} if standing.clock is None else standing.clock.over


def _had_before(engine: QueryEngine, standing: Standing, error: Exception) -> dict[str, TracebackType | None]:
    """Return who, of those that *standing* reads, had ended with *error* in an earlier run.

    It may be another object by now, of the same text, where it is the end of that one that is at work, and nothing was
    raised.
    """
    why, ending = described(error), _ending(engine, standing) if error.__traceback__ is None else ""
    others = {name: engine.standing.get(name) for name in sorted({*standing.plan.sources, ending} - {""})}
    disposed = {error.query: error} if isinstance(error, QueryDisposed) else {}
    over, told = {**engine.failures, **disposed}, _told(standing)
    found = {name: told.get(name) or (over.get(name) if each is None else each.error) for name, each in others.items()}
    return {
        name: None
        for name, theirs in found.items()
        if theirs is not None and (theirs is error or (name == ending and described(theirs) == why))
    }


def stored_mishaps(standing: Standing) -> tuple[Any, ...]:
    """Return what is stored of a query's failure and of the events that it has skipped; nothing if there is nothing."""
    _, failure, skipped, mended = standing.faults
    if failure is None and not skipped:
        return ()
    stored = None if failure is None else (tuple(failure.at), *failure[1:])
    return (stored, skipped, mended) if mended else (stored, skipped)


def read_failure(stored: Any) -> Failure | None:
    """Read back what `hosting.engine.snapshot` has stored of a failure."""
    if stored is None:
        return None
    found = Failure(FailedAt(*stored[0]), *stored[1:])
    return found._replace(text=found.text or ())  # what runs under its name by now may be other code


def _place(engine: QueryEngine, standing: Standing, error: Exception) -> tuple[str, str, int, int] | str:
    """Return the event at work, or what it is if it is none."""
    if (engine if standing.clock is None else standing.clock).in_timers:
        return "a timer"
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        where, found = frame.f_code.co_qualname, frame.f_locals
        if where in ENDS:
            return "the end of what it reads"
        if where in SINGLY and engine.event is not None:
            source, partition, position, _ = engine.event
            return source, partition, position, position
        if where == "EventClock.play_lists":
            source, entries = found["self"].playing
            return _among([each for each in entries if each[1][0] == source], error)
        if where == "Delivery.deliver_run":
            turn, offset = found["turn"], found["offset"]
            return turn.source, turn.partition, turn.first + offset, turn.first + offset
        if where in LISTS:
            source, partition, start = found["origin"]
            first, last = _found(found["values"], error)
            return source, partition, start + first, start + last
        frame = frame.f_back
    if isinstance(engine.turn, Create) and engine.turn.name == standing.name:
        return "its creation or an edit of it"
    return TURNS.get(type(engine.turn), "no event")


def _among(entries: Sequence[Any], error: Exception) -> tuple[str, str, int, int] | str:
    """Return which of *entries*, in the order of their times, it was: the one, or the first run of one partition."""
    if not entries:
        return "no event"
    first, last = _found([each[3] for each in entries], error)
    channel, run = next(groupby(entries[first : last + 1], key=lambda each: each[1]))
    positions = [each[2] for each in run]
    return (*channel, min(positions), max(positions))


def _found(events: Sequence[Any], error: Exception) -> tuple[int, int]:
    """Return between which places of *events* the one is that the step which raised had in its hand.

    That is known if what it had is an event, and not what others have made of one: if all that the step was given are
    events, or if it is of a type whose values are not shared.
    """
    values, value = _in_hand(error)
    if id(type(value)) not in SHARED or _are_among(values, events):
        places = [place for place, each in enumerate(events) if each is value]
        if places:
            return places[0], places[-1]
    return 0, len(events) - 1


def _in_hand(error: Exception) -> tuple[Sequence[Any], Any]:
    """Return what the outermost step on the way of *error* was given, as far as that is known, and the value it had."""
    at = error.__traceback__
    while at is not None:
        found = at.tb_frame.f_locals if at.tb_frame.f_code.co_name in STEPS else {}
        if "value" in found:
            return found.get("values", ()), found["value"]
        at = at.tb_next
    return (), None


def _are_among(values: Sequence[Any], events: Sequence[Any]) -> bool:
    """Whether *values* are some of *events*, in their order."""
    left = iter(events)
    return bool(values) and all(any(each is value for each in left) for value in values)
