"""Turns: everything that could differ from run to run, as data.

An engine is a function of its rows and a turn, so a turn holds what the world decided: which events of which partition, what time it
was, which query was created. The journal stores turns without the events (their source has these), and a replay takes them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reliable_rx import Limits


@dataclass(frozen=True, slots=True)
class Events:
    """Consecutive events of one source partition; *ended* if none will follow, *error* if it ended with one."""

    source: str
    partition: str
    first: int
    values: Sequence[Any]
    time: float
    ended: bool = False
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The clock moved to *time* and something was due."""

    time: float


@dataclass(frozen=True, slots=True)
class Create:
    """A query begins, or is edited if its name is taken. *plan* is its content hash, *code* what to compile."""

    name: str
    plan: str
    code: Any
    keys: tuple[Any, ...]
    policy: str
    limits: Limits
    time: float


@dataclass(frozen=True, slots=True)
class Dispose:
    """A query ends, and its state is forgotten."""

    name: str
    time: float


Turn = Events | Tick | Create | Dispose


@dataclass(frozen=True, slots=True)
class Output:
    """What one query emitted in one turn: ids from *first* on, the terminal notification last if it *ended*."""

    name: str
    first: int
    values: Sequence[Any]
    ended: bool = False
    error: Exception | None = None

    @property
    def next(self) -> int:
        return self.first + len(self.values) + self.ended
