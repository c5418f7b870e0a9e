"""Where and why a query failed, as data that is stored with it: the event at work, the clock, the traceback as text.

A list of events is handed over at once, so the event at which a function raised is not known from a position that was
counted. It is read off the stack: the engine's frame has what is handed over and from where, and on the traceback the
step of an operator has the value in its hand. Where that value was made by an operator before it, the failure lies
somewhere in the list, and is given as its bounds. Rejected: counting every event, which would cost each of them what
only a failure needs; taking the list again one by one, since states have moved on.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from itertools import groupby
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpoint.format.stored_errors import trace_of, traceback_of
from hosting.engine.turns import Answer, Create, Dispose, Fail, Tick
from reliable_rx.class_of import ids_of, is_a
from reliable_rx.errors import CheckpointRefused, QueryDisposed, described, type_of
from reliable_rx.functions.imports import OURS
from reliable_rx.handled import linked
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
GOES_ON = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
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
    others: tuple[str, ...] = ()
    """Who ends with what says the same as the end of *origin*."""


def failure_of(engine: QueryEngine, standing: Standing, error: Exception) -> Failure:
    """Describe what has just ended *standing*."""
    found = _place(engine, standing, error)
    source, partition, position, last = ("", "", -1, -1) if isinstance(found, str) else found
    origin, *others = _origins(engine, standing, error) or [""]
    if origin and _runs_again(engine, origin):
        engine.begun[query_of(origin)] = None
    at = FailedAt(source, partition, position, last, engine.clock, found if isinstance(found, str) else "")
    return Failure(at, "" if origin else trace_of(error), origin, others=tuple(others))


def _origins(engine: QueryEngine, standing: Standing, error: Exception) -> list[str]:
    """Return whose end *standing* hands on with *error*, of several that cannot be told apart all of them.

    There are none if the error is its own. What says the same as an end that *standing* is told of at this moment is
    handed on, whoever has raised it (``catch`` with a handler that raises what it is given); any other error that one
    of its functions has raised at this moment is its own. What is handed on later is known by what it says, too: behind
    a start what was one object may be two.
    """
    why = _said(error)
    told = engine.errors.told_of(standing.name)
    if now := [each for each, end in told.items() if end is error or _said(end) == why]:
        return now
    if is_a(error, CheckpointRefused) and error.fields.get("where") == standing.name:
        refused = error.fields.get("what")  # it took no part in a replay, with one that it reads
        return [refused] if refused in standing.plan.sources else []
    is_kept_out = isinstance(engine.turn, Fail) and engine.turn.name == standing.name
    if is_kept_out or engine.errors.has_raised(standing.name, error):
        return []
    ends = {each: _end(engine, each, error) for each in sorted(standing.plan.sources)}
    return [each for each, end in ends.items() if end is not None and (end is error or _said(end) == why)]


def _end(engine: QueryEngine, name: str, error: Exception) -> Exception | None:
    """Return the error with which *name* ends; of one that was disposed of, *error* if it says that."""
    end = engine.end_of(name)
    if end is not None and end[0] is not None:
        return end[0]
    is_gone = name not in engine.standing and is_a(error, QueryDisposed) and error.query == name
    return error if is_gone else None


def _said(error: Exception) -> str:
    """Return what an error says in every process."""
    text = described(error)
    return type_of(error) if " at 0x" in text else text


def _runs_again(engine: QueryEngine, origin: str) -> bool:
    """Whether there is something under the name of *origin* again, whose end a clock has told late."""
    there = engine.standing.get(query_of(origin))
    return origin in engine.live if there is None else there.error is None


def clear_frames(error: BaseException, seen: set[FrameType]) -> None:
    """Empty our own frames that *error* has come through, and those that have called them, but for those *seen*.

    They hold the events of a whole list, and what a query was. Those of others are theirs: they hold an event, may go
    on, and show their names as what they like. Where it was raised is still known.
    """
    for each in linked(error):
        at = traceback_of(each)
        while at is not None:
            _clear_calls(at.tb_frame, seen)
            at = at.tb_next


def _clear_calls(frame: FrameType | None, seen: set[FrameType]) -> None:
    """Empty *frame* and those that have called it, up to what is still at work. A generator stays: it may go on."""
    while frame is not None and frame not in seen:
        seen.add(frame)
        if is_ours(frame) and not frame.f_code.co_flags & GOES_ON:
            try:
                frame.clear()
            except RuntimeError:  # it is at work, and so are those above
                return
            len(frame.f_locals)  # before Python 3.13 a frame keeps what somebody saw of it, until somebody looks again
        frame = frame.f_back


def is_ours(frame: FrameType) -> bool:
    """Whether a function of this library runs in *frame*."""
    name = dict.get(frame.f_globals, "__name__")  # of a class of the program's, with a method of its own
    return type(name) is str and name.partition(".")[0] in OURS and frame.f_code.co_flags & inspect.CO_OPTIMIZED > 0


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
