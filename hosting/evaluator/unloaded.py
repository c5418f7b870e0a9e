"""What an evaluator does about queries that a store cannot give back (`hosting.engine.unloadable`).

It refuses what a strict start may not give up, has their ids go on behind those of the first run, and ends them behind
the replay.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from checkpoint.format.salvage import Unreadable
from checkpoint.store import StoreReader
from hosting.edges.streams import Streams
from hosting.engine import unloadable
from hosting.engine.engine import QueryEngine
from hosting.engine.failing import forget_state
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Fail, Output
from hosting.engine.unloadable import needed
from hosting.evaluator.group_commit import Digests
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.incidents import Incidents
from hosting.reports.store_commands import or_repair_it
from reliable_rx.errors import CheckpointRefused, described


class Unloaded:
    """What is done about the queries of one evaluator that its store cannot give back; *strict* gives up no state."""

    def __init__(
        self, engine: QueryEngine, store: StoreReader, turns: TurnExecutor, *, incidents: Incidents, strict: bool
    ) -> None:
        self._engine, self._store, self._turns = engine, store, turns
        self._incidents, self._strict = incidents, strict

    def lose_answers(self) -> None:
        """Let queries whose recorded answers a replay cannot read take no further part. *Raises* as `check_names`."""
        unloadable.lose_answers(self._engine)
        self.check_names()
        unloadable.spread(self._engine)

    def check_names(self) -> None:
        """*Raises* `CheckpointRefused` if a state that does not fit today's code would be given up and may not be."""
        for name, error in self._engine.suspended.spoilt.items():
            self.check_name(name, error)

    def check_name(self, name: str, error: Exception | None) -> None:
        """*Raises* the same if the state of the query *name* is given up for such an *error*."""
        what = getattr(error, "fields", {}).get("gone") if self._strict else None
        if error is None or not what:
            return
        if error.__dict__.get("fields", {}).get("where") != "state":
            raise error
        raise CheckpointRefused(
            f"the state of {name!r} {needed(what)}, or give up the state of this query with strict=False "
            f"(App(strict=False)){or_repair_it(self._store)}",
            what=what,
            where=name,
        ) from error

    def settle(self) -> bool:
        """Behind the replay: end what could not be had again; return whether there was any, whose rows are stored."""
        engine = self._engine
        differing = engine.suspended.differing if self._strict else {}
        spoilt, engine.suspended.spoilt = {**engine.suspended.spoilt, **differing}, {}
        engine.suspended.ended = spoilt
        for name, error in spoilt.items():
            standing = engine.standing.get(name)
            if standing is None:
                continue
            if standing.status == RUNNING:
                self._turns.take(Fail(name, error, self._turns.now()))
            else:
                forget_state(engine, standing)
                is_lost = name in differing
                what = "stays so, and what it was is dropped: nothing is lost"
                what = "it had ended already, and stays as it ended" if is_lost else f"it has ended, {what}"
                level = logging.ERROR if is_lost else logging.WARNING
                self._incidents.report("replay", name, f"{described(error)}; {what}", level=level)
        return bool(spoilt)


def fill(
    engine: QueryEngine, streams: Streams, written: Digests, names: Iterable[str], *, ended: Container[str] = ()
) -> None:
    """Let the ids of *names* go on where the first run had them, with what stands for their values.

    The next id of those that have *ended* is for their end.
    """
    for name in names:
        next_id, at = written[name][1], engine.emitted(name)
        if next_id > at + (name in ended):
            lost = Unreadable(f"value of {name!r}", "it was emitted before a crash, and cannot be made again")
            streams.append([Output(name, at, [lost] * (next_id - at))])
            engine.continue_ids(name, next_id)
            first, _ = engine.suspended.unmade.get(name, (at, at))
            engine.suspended.unmade[name] = first, next_id
