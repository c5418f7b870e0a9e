"""What an evaluator knows about itself, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    """One standing query: *emitted* counts notifications, *waiting* those its slowest holder has not acknowledged."""

    name: str
    status: str
    policy: str
    plan: str
    emitted: int
    waiting: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Everything at one moment. *positions* are the high-water marks: the next id by (source, partition)."""

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
    reports: dict[str, str] = field(default_factory=dict)
