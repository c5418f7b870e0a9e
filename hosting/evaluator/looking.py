"""What can be asked of an evaluator while it works: from any thread, also while a turn takes long or hangs.

Figures are read between two steps of the loop if there is a moment between them soon. If not, they are read beside the
step at work and say since when it runs (`Statistics.busy_since`): each is right by itself, and they may be of different
moments. Rejected: figures published by the loop (counting a hundred thousand queries costs more than most steps), and
waiting for the loop (who looks because nothing moves would see nothing).
"""

from __future__ import annotations

import time as wall
from collections import Counter
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from checkpoint.store import Store
from hosting.edges.egress import Stream
from hosting.edges.holders import StreamHolders
from hosting.edges.streams import Streams
from hosting.engine.cycles import there_are
from hosting.engine.event_time.held_back import held_back
from hosting.engine.side_streams import why_never, why_never_of_source, with_side_outputs
from hosting.evaluator.fair_lock import Turnstile
from hosting.evaluator.lifecycle import Lifecycle
from hosting.reports.causes import upstream_of
from hosting.reports.failure_summary import count_of
from hosting.reports.log import LOG
from hosting.reports.statistics import QueryFigures, RecoveryFigures, Statistics
from reliable_rx import handled
from reliable_rx.errors import StoreUnavailable, described
from reliable_rx.names import ENDINGS, check_name, query_of
from reliable_rx.operators.contract.arguments import plural

if TYPE_CHECKING:
    from hosting.edges.ingress import Intake
    from hosting.edges.sink_writers import Outlets
    from hosting.engine.engine import QueryEngine
    from hosting.evaluator.checkpointer import Checkpointer
    from hosting.evaluator.serial_executor import Worker
    from hosting.evaluator.sidecars import Companions
    from hosting.evaluator.turn_executor import TurnExecutor
    from hosting.reports.incidents import Incidents
    from hosting.reports.reporter import Reporter

LOOK_S = 0.1
TRIES_MAX = 50
T = TypeVar("T")


class Working:
    """Since when its user has been at work, by the clock on the wall; None while it rests. And how many times.

    >>> working = Working()
    >>> with working, working:
    ...     working.since is None
    False
    >>> working.since
    """

    def __init__(self) -> None:
        self.since: float | None = None
        self.thread = self.times = 0
        self._depth = 0
        self._noted: handled.Noted = None

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self.thread = get_ident()
            self.times += 1
            self.since = wall.time()
            self._noted = handled.note()

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.since = None
            handled.forget(self._noted)


class Looking:
    """The part of an evaluator that only looks."""

    store: Store
    lock: Turnstile
    engine: QueryEngine
    intake: Intake
    streams: Streams
    holders: StreamHolders
    outlets: Outlets
    journal_worker: Worker
    checkpointer: Checkpointer
    companions: Companions
    incidents: Incidents
    reporter: Reporter
    recovery: RecoveryFigures | None
    lifecycle: Lifecycle
    turns: TurnExecutor
    working: Working
    declared: dict[str, Any]

    @property
    def started(self) -> bool:
        """Whether it has been started."""
        return self.lifecycle.started

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self.lifecycle.closed

    @property
    def events_in(self) -> int:
        """How many events have been taken, those of a replay not among them."""
        return self.turns.events_in

    async def __aenter__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is opened by `with`, in a program of asyncio too, where run() goes into a "
            f"thread: await asyncio.to_thread(evaluator.run)"
        )

    async def __aexit__(self, *raised: object) -> None:
        raise TypeError(f"a {type(self).__name__} is closed by `with`")

    def __repr__(self) -> str:
        state = "closed" if self.closed else "started" if self.started else "not started"
        inputs, queries = len(self.intake.sources), count_of(self.queries())
        return f"<{type(self).__name__}, {state}: {plural(inputs, 'source')}, {plural(queries, 'query', 'queries')}>"

    @property
    def trouble(self) -> StoreUnavailable | None:
        """Why no turns are taken, if the store is unavailable."""
        writing = self.journal_worker.trouble or self.checkpointer.trouble or self.outlets.trouble
        return writing or self.intake.outage.error

    @property
    def had(self) -> frozenset[str]:
        """The queries and sources that the store had before this start; none of one that had no query."""
        return self.outlets.had

    def stream(self, name: str) -> Stream:
        """Return the stream of the query *name* (or of its dead letters)."""
        if isinstance(name, str) and (found := self.streams.get(name)) is not None:
            return found
        with self.lock:
            query = query_of(check_name("stream", name))
            known = (self.declared, self.engine.standing, self.intake.sources if query != name else ())
            why = None if any(query in names for names in known) else self._no_stream(name)
            is_there = name in self.engine.standing or name in self.store.streams()
            if why is not None and not is_there:
                raise KeyError(f"no stream is called {name!r}; {why}")
            if query != name and not is_there and (never := self._never(query, name)) is not None:
                LOG.warning("the stream %r, which is asked for, will never have anything: %s", name, never)
            of_turn = () if self.engine.turn is None else self.engine.outputs.values()
            coming = [*self.turns.fresh, *of_turn]  # what its window is given next
            at = min((out.first for out in coming if out.name == name), default=self.engine.emitted(name))
            return self.streams.open(name, at)

    def _no_stream(self, name: str) -> str:
        if name in self.intake.sources:
            return f"that is a source, and streams are of queries; {there_are(self.queries(), name)}"
        made = [(each, how[1], how[3]) for each, how in self.declared.items()]
        return there_are({*self.engine.readers.names(), *with_side_outputs(made)} - {*self.intake.sources}, name)

    def _never(self, query: str, name: str) -> str | None:
        """Say why nothing will ever be in *name*, a stream beside *query*; None if there may be."""
        if query in self.intake.sources:
            return why_never_of_source(name)
        if query in self.engine.standing:
            return self.engine.readers.missing(name)
        declared = self.declared.get(query)
        return None if declared is None else why_never(name, policy=declared[1], clock=declared[3])

    def queries(self) -> list[str]:
        """Name the standing queries."""
        return list(self.engine.standing) if self.started else list(self.declared)

    def query(self, name: str) -> QueryFigures:
        """Return the figures of one query."""
        return self._look(lambda busy_since: self._query_figures(name))

    def statistics(self) -> Statistics:
        """Return the figures of this moment; also while a turn hangs, and then since when (*busy_since*)."""
        return self._look(self._figures)

    def _look(self, read: Callable[[float | None], T]) -> T:
        if self.lock.acquire(LOOK_S):
            try:
                return read(None)
            finally:
                self.lock.release()
        for _ in range(TRIES_MAX):
            try:
                return read(self.working.since)
            except RuntimeError:  # what was read grew meanwhile
                continue
        with self.lock:
            return read(None)

    def _query_figures(self, name: str) -> QueryFigures:
        """Return the figures of one query."""
        engine = self.engine
        standing = engine.standing.get(name)
        if standing is None:
            when = "" if self.started else " (it is not there before the evaluator has started)"
            if name in engine.suspended:
                when = ": it is suspended, since its code is another Python's; create it again, and it goes on"
            raise KeyError(f"no query is called {name!r}{when}; {there_are(engine.standing, name)}")
        stream, clock, failure = self.streams.get(name), standing.clock, standing.failure
        return QueryFigures(
            name,
            standing.status,
            standing.policy,
            engine.plans.ids[standing.plan],
            standing.emitted,
            0 if stream is None else stream.depth,
            "" if standing.error is None else described(standing.error),
            None if clock is None else clock.clock,
            0 if clock is None else len(clock.waiting),
            0 if clock is None else clock.late,
            None if failure is None else failure.at,
            "" if failure is None else failure.trace,
            standing.skipped,
            None if clock is None else held_back(clock),
            {} if stream is None else dict(stream.holders),
            "" if (upstream := upstream_of(engine, standing)) is None else upstream.name,
        )

    def _figures(self, busy_since: float | None) -> Statistics:
        """Return the figures of this moment; *busy_since* if they are read beside a step at work."""
        engine, intake = self.engine, self.intake
        standings = list(engine.standing.values())
        counts = Counter(standing.status for standing in standings if not standing.name.endswith(ENDINGS))
        return Statistics(
            turns=engine.number,
            events_in=self.events_in,
            events_out=self.streams.events_out,
            clock=engine.clock,
            positions=intake.positions(),
            ended=frozenset(intake.ended()),
            journal_turn=self.store.journal.last_turn,
            queries_running=counts["running"],
            queries_completed=counts["completed"],
            queries_failed=counts["failed"],
            checkpoint=self.checkpointer.figures(),
            recovery=self.recovery,
            trouble=self.reporter.loop.halt or str(self.trouble or self.holders.trouble),
            late=sum(each.clock.late for each in standings if each.clock is not None),
            calls_in_flight=len(engine.calls.askers),
            reports={name: str(report) for name, report in list(engine.reports.items())},
            companions=self.companions.figures(),
            incidents=self.incidents.open(),
            sinks=self.outlets.figures(),
            busy_since=busy_since,
            waits=dict(self.reporter.waits),
        )
