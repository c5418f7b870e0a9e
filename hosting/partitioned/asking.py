"""A thread that asks a source something, so that who waits for the answer need not wait for ever.

A source is somebody else's code, and may not return: a mount that is gone, a broker that says nothing. One thread asks,
again and again the same one, as some clients may be used by one thread only. It is a daemon: nobody can end it while it
is inside the source. Rejected: a pool (its threads are waited for when the interpreter ends).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Asker(Generic[T]):
    """Asks *question* whenever it is wanted, one at a time.

    >>> asker = Asker("sum", lambda: 1 + 1)
    >>> asker.answer(10.0)()
    2
    >>> asker.close()
    """

    def __init__(self, name: str, question: Callable[[], T]) -> None:
        self._name, self._question = name, question
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._answer: Callable[[], T] | None = None
        self._is_over = False
        self.since: float | None = None
        """When what is not answered yet was asked."""

    def answer(self, patience_s: float) -> Callable[[], T] | None:
        """Ask, unless that is under way, and wait; return what gives the answer, or raises. None: there is none yet."""
        with self._changed:
            if self.since is None:
                self.since, self._answer = time.monotonic(), None
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    self._thread.start()
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None, patience_s)
            if self._answer is not None:
                self.since = None
            return self._answer

    def close(self) -> None:
        """Ask no more. One that does not return is left to itself."""
        with self._changed:
            self._is_over, thread = True, self._thread
            is_inside = self.since is not None and self._answer is None
            self._changed.notify_all()
        if thread is not None and not is_inside:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or (self.since is not None and self._answer is None))
                if self._is_over:
                    return
            answer = _answer(self._question)
            with self._changed:
                self._answer = answer
                self._changed.notify_all()


def _answer(question: Callable[[], T]) -> Callable[[], T]:
    """Return what gives, or raises, again what *question* does now."""
    try:
        found = question()
    except BaseException as error:
        raised = error

        def fail() -> T:
            raise raised

        return fail
    return lambda: found
