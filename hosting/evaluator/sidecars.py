"""What runs beside an evaluator in its process, and is neither a source nor a query: such as a driver of Spark's.

An app may name companions: functions that start something and return what can be looked at and stopped. Whoever hosts
the app starts each in a thread of its own, for a start may take long and replays need not wait for it; shows its
figures with the evaluator's; and stops it in order before the evaluator's last checkpoint. What a companion is, nobody
here knows. Rejected: a feed that never returns (it cannot be stopped, and has no figures), and starting it when the
app's module is imported (an inspector imports that too).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hosting.engine.blame import blamed

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class CompanionFigures:
    """One thing that a companion does, batch by batch: *batch* is the number of the last one, None before the first.

    *rows* counts what came in since it was started; *rows_per_s* and *latency_s* are those of the last batch;
    *state_rows* is how many rows of state it holds.
    """

    name: str
    status: str
    batch: int | None = None
    rows: int = 0
    rows_per_s: float = 0.0
    latency_s: float = 0.0
    state_rows: int = 0


class Companion(Protocol):
    """Something at work beside an evaluator. Its methods are called from threads of the host's."""

    @property
    def ended(self) -> bool:
        """Whether it has come to its end by itself. *Raises* what it failed with."""

    def figures(self) -> Sequence[CompanionFigures]:
        """Return its figures of this moment, soon: a display waits for them."""

    def stop(self) -> None:
        """Finish what is under way, and end; also after it has ended or failed. Returns when it has."""


StartCompanion = Callable[[], Companion]
"""Starts one and returns it."""


class Companions:
    """The companions of one hosted app, at work until they end, fail or are stopped.

    >>> class Counting:
    ...     ended = False
    ...     def figures(self): return [CompanionFigures("counting", "ended", batch=3)]
    ...     def stop(self): print("stopped in order")
    >>> companions = Companions()
    >>> companions.start([Counting], started=lambda: None)
    >>> companions.close()
    stopped in order
    >>> companions.ended, [each.batch for each in companions.figures()]
    (True, [3])
    """

    def __init__(self) -> None:
        self._all: tuple[_AtWork, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._all)

    def start(self, starts: Sequence[StartCompanion], *, started: Callable[[], object]) -> None:
        """Start each, in a thread of its own; *started* is called there when one has. To be called once."""
        self._all = tuple(_AtWork(start, started) for start in starts)
        for each in self._all:
            each.start()

    def figures(self) -> tuple[CompanionFigures, ...]:
        """Return the figures of all that have started."""
        return tuple(figures for each in self._all for figures in each.figures())

    @property
    def ended(self) -> bool:
        """Whether none of them is at work any more: all have ended, failed, or been stopped."""
        return not any(each.is_alive() for each in self._all)

    @property
    def error(self) -> Exception | None:
        """What the first one failed with that has failed."""
        return next((each.error for each in self._all if each.error is not None), None)

    def stop(self) -> None:
        """Ask all of them to end; returns at once, and `ended` says when they have."""
        for each in self._all:
            each.asked.set()

    def close(self) -> None:
        """Ask all of them to end, and return when they have."""
        self.stop()
        for each in self._all:
            each.join()


class _AtWork(threading.Thread):
    """One companion from its start to its end."""

    def __init__(self, start: StartCompanion, started: Callable[[], object]) -> None:
        super().__init__(name="companion", daemon=True)
        self.asked = threading.Event()
        self.error: Exception | None = None
        self._begin, self._begun = start, started
        self._companion: Companion | None = None

    def run(self) -> None:
        self._note(self._attend)
        if self._companion is not None:
            self._note(self._companion.stop)

    def _attend(self) -> None:
        self._companion = companion = self._begin()
        self._begun()
        while not companion.ended and not self.asked.wait(LOOK_S):
            pass

    def _note(self, work: Callable[[], object]) -> None:
        """Do *work*; keep the first error, from which later ones may have come."""
        try:
            work()
        except BaseException as raised:  # in a thread of its own nobody else would hear of it
            self.error = self.error or blamed(raised)

    def figures(self) -> Sequence[CompanionFigures]:
        companion = self._companion
        return () if companion is None else companion.figures()
