"""The status of a running evaluator, kept where other processes find it: when something is new, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from checkpoint.store import Store
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.evaluator.attempt import Attempt
from hosting.reports.failure_summary import INCIDENTS_MAX, count_of, shortened
from hosting.reports.incidents import Incidents
from hosting.reports.statistics import CheckpointFigures
from hosting.reports.status_file import StatusFile
from reliable_rx.errors import StoreUnavailable, described

STATUS_S, STATUS_IDLE_S = 1.0, 10.0


class Checkpoints(Protocol):
    """The checkpoints of an evaluator: the one at work, and the last."""

    @property
    def attempt(self) -> Attempt | None: ...
    def figures(self) -> CheckpointFigures | None: ...


class Counted(Protocol):
    """The turns: how many events they held."""

    @property
    def events_in(self) -> int: ...


class Told(Protocol):
    """What is told of failures: *hands_on* says that an earlier run has, whose sinks and records are not here."""

    hands_on: bool

    @property
    def error(self) -> BaseException | None: ...
    @property
    def waits(self) -> Mapping[str, str]: ...
    def summary(self) -> dict[str, Any]: ...


class LiveStatus:
    """Writes the status of one evaluator beside its store, if that is in a folder and is *hosted*.

    *trouble* returns why no turns are taken, and *checkpoints* what takes these.
    """

    def __init__(
        self,
        engine: QueryEngine,
        store: Store,
        *,
        hosted: bool,
        incidents: Incidents,
        turns: Counted,
        streams: Streams,
        told: Told,
        checkpoints: Callable[[], Checkpoints],
        trouble: Callable[[], StoreUnavailable | str | None],
    ) -> None:
        self._engine, self._incidents, self._turns, self._streams = engine, incidents, turns, streams
        self._told, self._checkpoints, self._trouble = told, checkpoints, trouble
        directory = getattr(store, "directory", None)
        self.file = StatusFile(directory) if hosted and isinstance(directory, Path) else None
        self._has_last_words = False
        self._written: tuple[Any, ...] = ()
        self._write_at = monotonic() + STATUS_S

    @property
    def is_kept(self) -> bool:
        """Whether anything is written."""
        return self.file is not None and not self._has_last_words

    def starting(self) -> None:
        """A start begins, which may take long."""
        if self.file is not None and not self._told.hands_on:
            self.file.begin()

    def write_now(self) -> None:
        """Have other processes see it at once."""
        if self.file is not None and not self._told.hands_on:
            self.file.write(self._content())

    def forget(self) -> None:
        """Write with the next look, whatever was written last."""
        self._written, self._write_at = (), 0.0

    def look(self, now: float) -> None:
        """Write what is new since the last time, once a second."""
        if self.file is None or self._told.hands_on or self._has_last_words or now < self._write_at:
            return
        state = (self._engine.number, self._incidents.open(), self._trouble(), dict(self._told.waits))
        if state == self._written and now < self._write_at + STATUS_IDLE_S:
            return
        self._written, self._write_at = state, now + STATUS_S
        self.file.write(self._content())

    def stopped(self) -> None:
        """The evaluator ends in order: leave what is open where it is found until the next start."""
        if self.file is not None and self.is_kept:
            self.file.write({**self._content(), "stopped": True})

    def broken(self, error: BaseException) -> None:
        """The evaluator ends because of *error*."""
        if self.file is not None and not self._has_last_words and not self._told.hands_on:
            self.file.write({**self._content(), "ended": described(error)})

    def last_words(self, error: BaseException) -> None:
        """The process ends because of *error*: nothing else is written until the next start."""
        self._has_last_words = True
        if self.file is not None:
            self.file.write({**self._content(), "ended": described(error)})

    def _content(self) -> dict[str, Any]:
        checkpoint, told = self._checkpoints().figures(), self._told
        summary = told.summary()
        figures = {
            "turns": self._engine.number,
            "events_in": self._turns.events_in,
            "events_out": self._streams.events_out,
            "queries": count_of(self._engine.standing),
        }
        return {
            **({} if told.hands_on else figures),
            "checkpoint": 0 if checkpoint is None else checkpoint.generation,
            "trouble": str(self._trouble()),
            "waits": dict(islice(told.waits.items(), INCIDENTS_MAX)),
            **summary,
            "failed": [shortened(each) for each in summary["failed"]],
            **({} if told.error is None else {"ended": described(told.error)}),
        }
