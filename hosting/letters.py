"""Letters: what becomes of an event that a query could not digest (``dead_letter``) or that came too late (``side``).

They are a stream like any other, with ids, replay and sinks; it belongs to a query that never does anything. A source
has such a stream too, for records that could not be read.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from hosting.standing import Standing
from hosting.turn import Rejects
from reliable_rx.errors import described, invariant
from reliable_rx.plan import NO_LIMITS
from reliable_rx.query import Node
from reliable_rx.reliable import DeadLetter, LateEvent

if TYPE_CHECKING:
    from hosting.engine import QueryEngine


def bury(engine: QueryEngine, standing: Standing, error: Exception) -> None:
    """Send the event at work to the query's stream of dead letters."""
    invariant(engine.event is not None, "an event is buried while it is at work")
    source, partition, position, value = engine.event  # type: ignore[misc]
    trace = "".join(traceback.format_exception(error))
    letter = DeadLetter(source, partition, position, value, described(error), trace)
    post(engine, f"{standing.name}.dead_letters", letter)


def take_rejects(engine: QueryEngine, turn: Rejects) -> None:
    """Send records that could not be read to their source's stream of dead letters."""
    if turn.source not in engine.timestamps:
        engine.advance(turn.time)
    for each in turn.records:
        letter = DeadLetter(turn.source, turn.partition, each.position, each.value, each.error)
        post(engine, f"{turn.source}.dead_letters", letter)


def post(engine: QueryEngine, name: str, letter: DeadLetter | LateEvent) -> None:
    """Append *letter* to the stream *name*, which begins with its first letter."""
    letters = engine.standing.get(name)
    if letters is None:
        letters = Standing(engine.plans.compile(NEVER, NO_LIMITS)[0], engine, name, policy="fail", keys=())
        letters.born, letters.emitted = engine.order(), engine.retired.pop(name)
        engine.standing[name] = letters
    engine.emit(letters, [letter])


def _never() -> Node:
    from reliable_rx.creation import never

    return never().node


NEVER = _never()
