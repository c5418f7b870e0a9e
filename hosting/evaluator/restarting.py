"""Running queries again that have ended: without their state, under the ids that follow.

One is ended and created within one group of turns, so that a crash leaves both or neither; so are several that are
named together. What it read before is not read again: it goes on with the next events, as a query does that an edit has
revived. Rejected: putting the state back to before the failure (the turn is journalled with what came of it; the same
event would end it again).
"""

from __future__ import annotations

from collections.abc import Sequence

from hosting.engine.cycles import there_are
from hosting.engine.ended_readers import in_reading_order
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Dispose
from hosting.evaluator.creating import Creation
from hosting.evaluator.following import Following
from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.lifecycle import Lifecycle
from hosting.evaluator.reentrancy import Inside
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.log import LOG
from reliable_rx.names import check_query


class Restarts:
    """Runs the queries of one evaluator again that have ended."""

    def __init__(
        self,
        engine: QueryEngine,
        turns: TurnExecutor,
        *,
        lifecycle: Lifecycle,
        inside: Inside,
        late: LateReaders,
        creation: Creation,
        following: Following,
    ) -> None:
        self._engine, self._turns, self._lifecycle, self._inside = engine, turns, lifecycle, inside
        self._late, self._creation, self._following = late, creation, following

    def restart(self, names: Sequence[str]) -> None:
        """End the queries *names* and create them again, as they are declared or else stored. *Raises* `KeyError`."""
        with self._inside.change("restart"), self._inside:
            standing = self._engine.standing
            for name in names:
                if isinstance(name, str):
                    check_query(name)
                if name not in standing:
                    raise KeyError(f"no query is called {name!r}; {there_are(standing, name)}")
            turns = [self._following.creation_of(name) for name in in_reading_order(self._engine, names)]
            ending = () if self._lifecycle.mends else tuple(turn.name for turn in turns)
            for turn in reversed(turns):
                self._turns.take(Dispose(turn.name, turn.time, ending=ending))
                ending = ()
            for turn in turns:
                self._following.run_first(turn)
                self._late.take_create(turn)
            self._following.follow()

    def begin_declared(self) -> None:
        """Create what was declared before the start, and run those again that had failed with what begins anew."""
        with self._late.shut_for_some():
            held = self._late.held_back()
            for name, source in held.items():
                LOG.warning("query %r was edited and waits for a restart, as what is new in %r does", name, source)
            self._creation.create_declared(but=held)
            if not self._lifecycle.mends:  # else that is for the app, behind what came due
                self._following.follow(starting=True)
