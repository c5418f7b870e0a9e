"""What an evaluator knows about itself, as frozen records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from hosting.admission.cycles import there_are
from hosting.admission.no_query import not_a_query
from hosting.engine.failure import FailedAt
from hosting.evaluator.sidecars import CompanionFigures
from hosting.reports.causes import upstream_of
from hosting.reports.held_back import HeldBack, held_back
from hosting.reports.incidents import Incident
from reliable_rx import operators
from reliable_rx.errors import described
from reliable_rx.names import ENDINGS

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
    """The last committed checkpoint."""

    generation: int
    kind: str
    age_s: float
    rows: int
    bytes: int
    pause_s: float
    commit_s: float


@dataclass(frozen=True, slots=True)
class RecoveryFigures:
    """What the last start had to do."""

    generation: int
    replayed_turns: int
    replayed_events: int
    seconds: float
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One standing query: *emitted* counts notifications, *waiting* those its slowest holder has not acknowledged.

    *holders* gives the next id of each holder of its stream.
    A failed one has its *error*, the event at which it *failed_at* and the traceback as text in *trace*, or the query
    or source that it reads and has failed with in *upstream*; *skipped*
    counts the events that its policy has skipped. On event time *clock* is the query's own, *held* counts the events
    that wait for it, *late* those that came behind; *held_back* says for which partition they wait.
    """

    name: str
    status: str
    policy: str
    plan: str
    emitted: int
    waiting: int
    error: str = ""
    clock: float | None = None
    held: int = 0
    late: int = 0
    failed_at: FailedAt | None = None
    trace: str = ""
    skipped: int = 0
    held_back: HeldBack | None = None
    holders: dict[str, int] = field(default_factory=dict)
    upstream: str = ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise not_a_query(self, "what is known of query", name, operators.__all__)


@dataclass(frozen=True, slots=True)
class SinkFigures:
    """One sink: below id *durable* it has everything, but for what was *skipped* in this run.

    *status* is ``open``, ``waiting`` (tried again), ``failed`` (written no more in this run), or ``closed``.
    """

    stream: str
    holder: str
    status: str
    on_error: str
    durable: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Everything at one moment. *positions* are the high-water marks: the next id by (source, partition).

    *trouble* says why no turns are taken, if so: the store is unavailable, or somebody holds a full stream.
    *busy_since* is None, or says since when (in seconds since 1970) the loop has been in one step, beside which the
    figures were read: then they may be of different moments.
    *waits* names what the clocks of queries wait for that stand still.
    """

    turns: int
    events_in: int
    events_out: int
    clock: float
    positions: dict[tuple[str, str], int]
    ended: frozenset[tuple[str, str]]
    journal_turn: int
    queries_running: int
    queries_completed: int
    queries_failed: int
    checkpoint: CheckpointFigures | None
    recovery: RecoveryFigures | None
    trouble: str = ""
    late: int = 0
    calls_in_flight: int = 0
    reports: dict[str, str] = field(default_factory=dict)
    companions: tuple[CompanionFigures, ...] = ()
    incidents: tuple[Incident, ...] = ()
    sinks: tuple[SinkFigures, ...] = ()
    busy_since: float | None = None
    waits: dict[str, str] = field(default_factory=dict)


def query_figures(evaluator: QueryEvaluator, name: str) -> QueryFigures:
    """Return the figures of one query."""
    engine = evaluator.engine
    standing = engine.standing.get(name)
    if standing is None:
        when = "" if evaluator.started else " (it is not there before the evaluator has started)"
        raise KeyError(f"no query is called {name!r}{when}; {there_are(engine.standing, name)}")
    stream, clock, failure = evaluator.streams.get(name), standing.clock, standing.failure
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


def figures(evaluator: QueryEvaluator, busy_since: float | None = None) -> Statistics:
    """Return the figures of an evaluator at this moment; *busy_since* if they are read beside a step at work."""
    engine, intake = evaluator.engine, evaluator.intake
    standings = list(engine.standing.values())
    counts = Counter(standing.status for standing in standings if not standing.name.endswith(ENDINGS))
    return Statistics(
        turns=engine.number,
        events_in=evaluator.events_in,
        events_out=evaluator.streams.events_out,
        clock=engine.clock,
        positions=intake.positions(),
        ended=frozenset(intake.ended()),
        journal_turn=evaluator.store.journal.last_turn,
        queries_running=counts["running"],
        queries_completed=counts["completed"],
        queries_failed=counts["failed"],
        checkpoint=evaluator.checkpointer.figures(),
        recovery=evaluator.recovery,
        trouble=evaluator.reporter.loop.halt or str(evaluator.trouble or evaluator.holders.trouble),
        late=sum(each.clock.late for each in standings if each.clock is not None),
        calls_in_flight=len(engine.calls.askers),
        reports={name: str(report) for name, report in list(engine.reports.items())},
        companions=evaluator.companions.figures(),
        incidents=evaluator.incidents.open(),
        sinks=evaluator.outlets.figures(),
        busy_since=busy_since,
        waits=dict(evaluator.reporter.waits),
    )
