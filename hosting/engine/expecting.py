"""The turn by which a source that has ended counts as one that has not, for the query that is created behind it.

Only its creation tells whether a query reads a source: what subscribes to it may be a selector, a part that waits for
another one to end, or nothing, as where it fails at once. And a source that has ended would be over for it then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hosting.engine.side_outputs import begin_anew
from hosting.engine.turns import Expect
from reliable_rx.names import DEAD_LETTERS

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine


def take_expect(engine: QueryEngine, turn: Expect) -> None:
    """Have queries that begin from now on find that *turn.source* goes on; or end it, for whoever reads it since.

    So does the stream of its dead letters, which is beside it.
    """
    if turn.more:
        begin_anew(engine, turn.source)
        engine.awaited.add(turn.source)
        for mark in engine.watermarks.by_source.get(turn.source, ()):
            mark.over.pop(turn.source, None)
    else:
        engine.awaited.discard(turn.source)
        for name in (turn.source, turn.source + DEAD_LETTERS):
            engine.end_route(name, None)


def is_read(engine: QueryEngine, source: str) -> bool:
    """Whether somebody reads *source* itself, and has not been told that it has ended."""
    route = engine.routes.get(source)
    if route is not None and route.is_read:
        return True
    marks = engine.watermarks.by_source.get(source, ())
    return any(source not in clock.ended for mark in marks for clock in mark.clocks())


EXPECTS: dict[type, Callable[[QueryEngine, Any], None]] = {Expect: take_expect}
