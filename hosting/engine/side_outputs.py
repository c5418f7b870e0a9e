"""Letters: what becomes of an event that a query could not digest (``dead_letter``) or that came too late (``side``).

They are a stream like any other, with ids, replay and sinks; it belongs to a query that never does anything. A source
has such a stream too, for records that could not be read. It completes when that which it is beside has ended, behind
the list of events or the timer that has ended it, since what these are yet to put into it comes before. A query that
could have had letters has an end of them even if there were none. Rejected: ending it with the error of the query
(nothing of the letters has failed), and at the query's end itself (the rest of a list of events is still on its way).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint.format.stored_errors import plain_trace
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.turns import Rejects, is_end
from reliable_rx.errors import described, invariant
from reliable_rx.names import DEAD_LETTERS, ENDINGS, query_of
from reliable_rx.query.query import Node
from reliable_rx.reliable import DeadLetter, LateEvent
from reliable_rx.runtime.plan import NO_LIMITS

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine


def bury(engine: QueryEngine, standing: Standing, error: Exception) -> None:
    """Send the event at work to the query's stream of dead letters."""
    invariant(engine.event is not None, "an event is buried while it is at work")
    source, partition, position, value = engine.event  # type: ignore[misc]
    partition = "" if is_end(engine.event) else partition
    letter = DeadLetter(source, partition, position, value, described(error), plain_trace(error))
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
    engine.emit(letters_of(engine, name), [letter])


def letters_of(engine: QueryEngine, name: str) -> Standing:
    """Return what writes the stream *name*; one that has ended goes on behind its end."""
    letters = engine.standing.get(name)
    if letters is not None and letters.status != RUNNING:
        retire(engine, letters)
        letters = None
    if letters is None:
        letters = Standing(engine.plans.compile(NEVER, NO_LIMITS)[0], engine, name, policy="fail", keys=())
        letters.born, letters.emitted = engine.order(), engine.retired.pop(name)
        engine.standing[name] = letters
    return letters


def retire(engine: QueryEngine, letters: Standing) -> None:
    """Forget what has ended; its ids go on."""
    del engine.standing[letters.name]
    engine.forget(letters)
    engine.retired.put(letters.name, letters.emitted)


def begin_anew(engine: QueryEngine, query: str) -> None:
    """Retire the streams beside *query*, which is created again after its end."""
    for letters in [engine.standing.get(query + ending) for ending in ENDINGS]:
        if letters is not None and letters.status != RUNNING:
            retire(engine, letters)


def complete(engine: QueryEngine) -> None:
    """End the streams beside what has ended in this turn, and what follows from that."""
    while engine.over:
        ended, engine.over = engine.over, []
        for name in ended:
            standing = engine.standing.get(name)
            for ending in ENDINGS:
                beside = name + ending
                letters = engine.standing.get(beside)
                if letters is None and standing is not None and could_have(standing, ending):
                    letters = letters_of(engine, beside)
                if letters is not None and letters.status == RUNNING:
                    engine.finish(letters, None)
        engine.settle()


def could_have(standing: Standing, ending: str) -> bool:
    """Whether a query may put something into the stream beside it with this *ending*."""
    if ending == DEAD_LETTERS:
        return standing.policy == "dead_letter"
    return getattr(getattr(standing.clock, "spec", None), "late", None) == "side"


def has_ended(engine: QueryEngine, stream: str) -> bool:
    """Whether nothing will come of *stream*, which is beside a query or source, and has never had anything."""
    query = query_of(stream)
    if query == stream or stream in engine.standing:
        return False
    standing = engine.standing.get(query)
    if standing is not None:
        return standing.status != RUNNING
    return query in engine.live and not engine.live[query] and query not in engine.awaited


def _never() -> Node:
    from reliable_rx.creation import never

    return never().node


NEVER = _never()
