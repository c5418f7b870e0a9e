"""Beginning to read partitions that have come behind the end of their source, for the queries that begin.

Which partitions those are `hosting.edges.late_partitions` says, and why they wait; here are the turns that let them in,
the queries that wait with them, and what is told of both.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from checkpoint.store import StoreReader
from hosting.edges.ingress import Intake
from hosting.edges.late_partitions import AFTER_THE_END, RESTARTED_MAX, shown_some
from hosting.engine.ended_readers import begins, missing, went_on
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time.validation import selects, sources_of
from hosting.engine.expecting import is_read
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Create, Expect
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.incidents import Incidents
from hosting.reports.store_commands import command_on
from reliable_rx.names import query_of
from reliable_rx.runtime.plan import Plan


class Reported(Protocol):
    """What has been told, in this run and in earlier ones."""

    @property
    def has_begun(self) -> bool: ...
    def is_over(self, kind: str, subject: str) -> None: ...


class LateReaders:
    """Lets late partitions of an evaluator in when a query begins that reads their source."""

    def __init__(
        self,
        engine: QueryEngine,
        intake: Intake,
        turns: TurnExecutor,
        *,
        store: StoreReader,
        incidents: Incidents,
        reports: Reported,
    ) -> None:
        self._engine, self._intake, self._turns = engine, intake, turns
        self._store, self._incidents, self._reports = store, incidents, reports

    def take_create(self, turn: Create) -> None:
        """Take *turn*, and let what has come behind the end of a source in for the query that reads it from then on."""
        late = self._intake.late
        if not late.kept:  # nearly always
            self._turns.take(turn)
            return
        sources = [each for each in sorted(late.sources - late.shut) if self._may_be_read(turn, each)]
        for source in sources:
            self._turns.take(Expect(source, True))
        self._turns.take(turn)
        self.decide(sources)
        if self._reports.has_begun:
            self.tell()

    def decide(self, sources: Iterable[str]) -> None:
        """Let in what has come behind the end of *sources*, for which it was waited, or have them ended again."""
        intake = self._intake
        for source in sources:
            is_there = any(each == source for each, _ in (*intake.late.kept, *intake.unknown))
            is_wanted = is_there and is_read(self._engine, source)
            self._turns.take(intake.let_in(source) if is_wanted else Expect(source, False))

    def _may_be_read(self, turn: Create, source: str) -> bool:
        """Whether the query of *turn* may read *source*; behind an error of it nothing is read any more."""
        if self._intake.late.end_of(source) != (None,):
            return False
        plan: Plan = turn.code
        streams = {query_of(each) for each in plan.sources}
        return source in streams or any(selects(node) for node in plan.walk())

    @contextmanager
    def shut_for_some(self) -> Iterator[None]:
        """Let nothing in that queries would miss which have ended, and do not begin anew with the start."""
        late, engine = self._intake.late, self._engine
        late.shut = {each for each in late.sources if any(not begins(engine, name) for name in missing(engine, each))}
        try:
            yield
        finally:
            late.shut = set()

    def held_back(self) -> dict[str, str]:
        """Return which edited queries wait for a restart, each with the source of which nothing is let in till then."""
        engine, late = self._engine, self._intake.late
        held = {name: each for each in sorted(late.shut) for name in missing(engine, each) if begins(engine, name)}
        while True:
            left = {name: each for name, each in held.items() if self._has_nothing_else(name, held)}
            if left == held:
                return held
            held = left

    def _has_nothing_else(self, name: str, held: Collection[str]) -> bool:
        """Whether all that the query *name* reads, as it is declared, has ended, and more of it is to come."""
        engine, late = self._engine, self._intake.late
        plan: Plan = engine.suspended.declared[name].code
        read = {query_of(each) for each in plan.sources}
        over = {each for each in read if each in held or (each in self._intake.sources and late.end_of(each))}
        stays = {each for each in read - over if each in engine.standing and not begins(engine, each)}
        over |= {each for each in stays if engine.standing[each].status != RUNNING}
        is_known = not any(selects(node) for node in plan.walk())
        return is_known and read == over and not read.isdisjoint({*late.shut, *held})

    def tell(self) -> None:
        """Warn of the sources that have such partitions, and say by what they are read; close what is over."""
        late = self._intake.late
        untold, late.untold = late.untold, set()
        for source in sorted(untold):
            if late.names_of(source):
                self._incidents.report(AFTER_THE_END, source, self._told(source), level=logging.WARNING)
            else:
                left = missing(self._engine, source)
                but = f", but not for {shown_some(left)}, for which it has ended" if left else ""
                self._incidents.resolve(AFTER_THE_END, source, now=f"is read{but}")
                self._reports.is_over(AFTER_THE_END, source)

    def _told(self, source: str) -> str:
        """Say which partitions of *source* are not read, and what to do."""
        late, absent = self._intake.late, self._intake.absent
        names = late.names_of(source)
        have, they = ("have", "they are") if len(names) > 1 else ("has", "it is")
        which = f"partition{'s' * (len(names) > 1)} {shown_some(names)}"
        what = f"{which} {have} come since all that it had was read to its end"
        if late.end_of(source) != (None,):
            return (
                f"{what}, and {they} not read, since it has ended with an error: declare it under another name, and "
                f"let the queries read that"
            )
        gone = sorted(name for each, name in absent if each == source)
        renamed = (
            f"; {shown_some(gone)} is not there any more: if it was renamed, its records come again" if gone else ""
        )
        return f"{what}, and {they} not read before a query begins that reads it{self._way_to_read(source)}{renamed}"

    def _way_to_read(self, source: str) -> str:
        """Say how queries over *source* that have ended are run again, as the end of a sentence."""
        tied = self._sources_with(source)
        names = [*dict.fromkeys(name for each in tied for name in missing(self._engine, each))]
        running = sorted({name for each in tied for name in went_on(self._engine, each)})
        if not names:
            return ": create one"
        shown, left = names[:RESTARTED_MAX], len(names) - RESTARTED_MAX
        command = command_on(self._store, "restart", *shown, "--app", "MODULE:APP")
        call = f"evaluator.restart({', '.join(map(repr, shown))})"
        way = call if command is None else f"`{command}` before the next start ({call} in a program)"
        more = f"; there are {left:,} more, to be named in the same call" if left > 0 else ""
        more += f"; {shown_some(running)} would lose the state with which it runs on without" if running else ""
        them = "" if len(names) == 1 else " all that are to have it, together,"
        return f": run {shown_some(names)} again,{them} without state and under the ids that follow, with {way}{more}"

    def _sources_with(self, source: str) -> list[str]:
        """Name *source* and those with such partitions that queries read beside it: all of it begins at once.

        A query that reads two of them begins with both; then nothing of the other is left for those that read that one.
        """
        engine, late = self._engine, self._intake.late.sources
        found, waiting = [source], [source]
        while waiting:
            plans = [engine.standing[name].plan for name in missing(engine, waiting.pop())]
            new = sorted({each for plan in plans for each in sources_of(plan) if each in late and each not in found})
            found += new
            waiting += new
        return found
