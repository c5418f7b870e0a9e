"""Calls into an evaluator from within a turn of its own, which are refused before they have changed anything.

The lock of an evaluator is re-entrant, so a function of a query or of a source, and the code with which a value pickles
itself, could take a turn in the middle of a turn, or a checkpoint of a state that is half way: the journal and the
engine would count differently from then on. `Inside.check` raises `TooLate` there, which is the error of who called, at
the same event in each replay. Sinks and observers are called between turns, and other threads wait for the lock: they
may call what they like. Rejected: a lock that is not re-entrant (its owner would wait for itself for ever), and to put
the call off until the turn has ended (its caller is promised a durable result when it returns).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Protocol

from hosting.admission.arguments import check_open
from hosting.evaluator.fair_lock import Turnstile
from hosting.evaluator.lifecycle import Lifecycle
from reliable_rx.errors import TooLate


class TakesTurns(Protocol):
    """An engine: *turn* is the one that it takes now, or None."""

    @property
    def turn(self) -> object: ...


class Inside:
    """Tells whether the calling thread is within a turn, a fetch, a snapshot or a write of an evaluator.

    Used with ``with`` around what calls foreign code outside of a turn; `Outside` undoes that for observers.
    """

    def __init__(self, lock: Turnstile, engine: TakesTurns, lifecycle: Lifecycle) -> None:
        self._lock, self._engine, self._lifecycle = lock, engine, lifecycle
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *raised: object) -> None:
        self.depth -= 1

    def is_mine(self) -> bool:
        """Whether this thread is inside. It never waits."""
        me = get_ident()
        for each in self._lifecycle.workers:  # no generator: it is asked for each push and at each step
            if each.at_work == me:
                return True
        if not self.depth and self._engine.turn is None:  # as a rule
            return False
        if not self._is_any() or not self._lock.lock.acquire(blocking=False):
            return False
        try:
            return self._is_any()
        finally:
            self._lock.release()

    def _is_any(self) -> bool:
        """Whether some thread is inside; a turn that has broken the evaluator is over."""
        return self._lifecycle.broken is None and (self.depth > 0 or self._engine.turn is not None)

    def check(self, what: str) -> None:
        """*Raises* `TooLate` for *what* is called by the thread that is inside."""
        if self.is_mine():
            raise TooLate(
                f"{what} was called within a turn of the same evaluator, by a function of a query or a source or by a "
                f"value that is being stored: call it from a sink, an observer or another thread, which come between "
                f"turns"
            )

    @contextmanager
    def change(self, what: str) -> Iterator[None]:
        """Hold the lock for *what* changes the evaluator, which may have been closed or broken while it was waited for.

        *Raises* `TooLate`, before anything is written into a store that may be another evaluator's by now.
        """
        self.check(what)
        with self._lock:
            check_open(closed=self._lifecycle.closed)
            self._lifecycle.check()
            yield


class Outside:
    """Marks for the time of a ``with`` that what is called is between two turns, as observers are."""

    def __init__(self, inside: Inside) -> None:
        self.inside = inside
        self.depths: list[int] = []

    def __enter__(self) -> None:
        self.depths.append(self.inside.depth)
        self.inside.depth = 0

    def __exit__(self, *raised: object) -> None:
        self.inside.depth = self.depths.pop()
