"""What an evaluator knows about itself, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from hosting.admission.no_query import not_a_query
from hosting.engine.event_time.held_back import HeldBack
from hosting.engine.failure import FailedAt
from hosting.evaluator.sidecars import CompanionFigures
from hosting.reports.incidents import Incident
from reliable_rx import operators


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
