"""One query ends because something of it cannot be stored or be had again; the others go on.

It is a turn of its own, so that a replay ends the query at the same place. What the query emitted stays, its terminal
notification has the next id, and its state is dropped: it is what could not be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hosting.engine.code_text import text_of
from hosting.engine.failure import Failure, failure_of
from hosting.engine.hosted_query import FAILED, RUNNING, Standing
from hosting.engine.turns import Fail
from reliable_rx.class_of import is_a
from reliable_rx.errors import QueryRefused, described

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from reliable_rx.runtime.instance import Instance


def take_fail(engine: QueryEngine, turn: Fail) -> None:
    """Take the turn that ends a query with an error."""
    standing = engine.standing.get(turn.name)
    if standing is not None:
        with engine.ahead(turn.time):
            _fail(engine, standing, turn)


def _fail(engine: QueryEngine, standing: Standing, turn: Fail) -> None:
    if standing.status == RUNNING:
        engine.finish(standing, turn.error)
    else:  # it had ended before, with or behind what cannot be stored; its stream keeps that end
        standing.status = FAILED
        standing.faults = standing.faults._replace(error=turn.error, failure=failure_of(engine, standing, turn.error))
        engine.tell(turn.name)
    forget_state(engine, standing)


class Strike:
    """In the place of a timer that is due at once: ends a query of which a row was left half done."""

    def __init__(self, engine: QueryEngine, standing: Standing, error: Exception) -> None:
        self.engine, self.standing, self.error, self.plan = engine, standing, error, standing.plan

    def fire(self, node: None, tag: None) -> None:
        if self.standing.status == RUNNING:
            self.engine.finish(self.standing, self.error)
            forget_state(self.engine, self.standing)


def strike(engine: QueryEngine, instance: Instance, error: Exception) -> None:
    """End the query of *instance* as soon as there is room for it: *error* has struck where no operator was at work."""
    while instance.parent is not None:
        instance = instance.parent
    strike: Any = Strike(engine, instance, error)  # type: ignore[arg-type]
    engine.immediate.append([0.0, 0, strike, None, None])


def forget_state(engine: QueryEngine, standing: Standing) -> None:
    """Drop all that a query that has ended still holds."""
    engine.touch(standing)
    standing.dispose()
    standing.states = standing.plan.blank.copy()
    standing.gathered = None


def unstorable_state(error: BaseException) -> QueryRefused:
    """Say that the state of a query does not go into bytes."""
    if is_a(error, QueryRefused):
        return error
    return QueryRefused(
        f"its state cannot be stored ({described(error)}): keep what pickles in it, or the data to make it from",
        path="/",
    )


def unstorable_value(n: int, error: BaseException) -> QueryRefused:
    """Say that what a query emitted does not go into bytes."""
    return QueryRefused(
        f"what it emitted under id {n:,} cannot be stored ({described(error)}): emit what pickles, or the data to make "
        f"it from",
        path="/",
    )


def with_text(engine: QueryEngine, standing: Standing) -> Failure | None:
    """Have what is known of the text of a query that has just failed stored with its failure, and return that."""
    failure = standing.failure
    if failure is not None and failure.text is None:
        text = None if failure.origin else text_of(standing.plan.query)
        failure = failure._replace(text=tuple(text or ()))
        standing.faults = standing.faults._replace(failure=failure)
        engine.touch(standing)
    return failure
