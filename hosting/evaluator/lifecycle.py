"""Lifecycle of an evaluator: started, looping, broken, closed; which failure has ended it; how its loop is woken.

A worker that has failed with anything but an unavailable store has left durable work undone, so the evaluator has
failed with it. What has failed takes no turns any more and writes nothing: what is durable is all that counts, and
another evaluator on the same store goes on from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from reliable_rx.class_of import is_a
from reliable_rx.errors import ReliableRxError, TooLate, described

AFRESH = "close it, and make another one on the same store, which takes the turn at work anew"


class Executor(Protocol):
    """What runs durable work behind the loop."""

    @property
    def failure(self) -> BaseException | None: ...
    @property
    def at_work(self) -> int:
        """The thread that runs a task, or 0."""


class Lifecycle:
    """State of one evaluator between its making and its end.

    >>> life = Lifecycle()
    >>> life.check()
    >>> life.broken = ValueError("half a turn")
    >>> life.failure
    ValueError('half a turn')
    """

    started = closed = stopping = looping = False
    mends = False
    """Whether it only mends the store of an app that is stopped: what is due stays for that, with its functions."""

    def __init__(self) -> None:
        self.broken: BaseException | None = None
        """What has interrupted a turn."""
        self.workers: list[Executor] = []
        self.on_wake: Callable[[], None] | None = None
        """Is called too, for a host that calls `step` itself."""
        self._changed, self._is_awake = threading.Condition(), False

    @property
    def failure(self) -> BaseException | None:
        """What has failed half way; None while the evaluator can go on."""
        if self.broken is not None:
            return self.broken
        for each in self.workers:  # no generator: it is asked at each step
            if each.failure is not None:
                return each.failure
        return None

    def check(self) -> None:
        """*Raises* what has failed half way: the engine must neither go on nor be saved."""
        failure = self.failure
        if failure is None:
            return
        if is_a(failure, ReliableRxError):
            raise failure
        raise TooLate(f"this evaluator has failed with {described(failure)}: {AFRESH}") from failure

    def check_read(self, name: str) -> None:
        """*Raises* `TooLate` for what is pushed into *name* while the evaluator that would read it has failed."""
        failure = self.failure
        if failure is not None:
            raise TooLate(
                f"what is pushed into {name!r} would be read by nobody, since this evaluator has failed with "
                f"{described(failure)}: {AFRESH}, and push there"
            ) from failure

    def is_closing(self, error: BaseException) -> bool:
        """Whether *error* only says that another thread has closed the evaluator, which ends a loop as a stop does."""
        return self.closed and is_a(error, TooLate)

    def begin_loop(self) -> None:
        """*Raises* `TooLate` if another thread runs the loop: `stop` would end one of the two. Called with the lock."""
        if self.looping:
            raise TooLate(
                "run was called while another thread runs this evaluator: let that one go on, or have it end with "
                "stop() and join it first"
            )
        self.looping = True

    def stop(self) -> None:
        """Ask the loop to end; takes no lock, as a signal handler may call it."""
        self.stopping = self._is_awake = True

    def wake(self) -> None:
        """Have the loop look again: something has arrived or become durable."""
        with self._changed:
            self._is_awake = True
            self._changed.notify_all()
        if self.on_wake is not None:
            self.on_wake()

    def wait(self, pause_s: Callable[[], float]) -> None:
        """Return when it is woken, or after *pause_s*, which is asked unless it is awake already."""
        with self._changed:
            if not self._is_awake:
                self._changed.wait(pause_s())
            self._is_awake = False
