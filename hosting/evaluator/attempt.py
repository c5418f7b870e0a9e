"""A checkpoint on its way: what was taken between two turns, and what became of writing it.

The evaluator's loop makes it and the checkpointer's thread fills in *info* or *error* before *settled*; nothing else is
shared between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoint.store import GenerationInfo
from hosting.engine.snapshot import Snapshot
from hosting.engine.turns import Output
from reliable_rx.errors import QueryRefused, StoreUnavailable


@dataclass(slots=True)
class Attempt:
    """A checkpoint on its way."""

    snapshot: Snapshot
    generation: int
    turn: int
    meta: dict[str, Any]
    outputs: dict[str, list[Output]]
    next_ids: dict[str, int]
    kept_from: dict[str, int]
    began: float
    events: int
    pause_s: float = 0.0
    submitted: bool = False
    info: GenerationInfo | None = None
    error: StoreUnavailable | None = None
    settled: bool = False
    seconds: float = 0.0
    release: Callable[[], None] | None = None
    changed: dict[str, None] = field(default_factory=dict)
    retired: dict[str, None] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    spoilt: dict[str, QueryRefused] = field(default_factory=dict)
    """The queries that emitted what cannot be stored, and what is wrong with it."""
