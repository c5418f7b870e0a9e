"""Watch over the loops of a process: one that is in the same step for long is told, by whichever host it runs in.

A loop that hangs cannot say so itself, nor one that has ended while values are pushed. One daemon thread looks at
all evaluators of the process that work in real time; it begins with the first that starts, ends with the last that is
closed or gone, and keeps none alive. Rejected: a thread per evaluator (a node has thousands), the displays (a program
has none), and a callback when an evaluator is gone: it would wait for a lock that a daemon thread holds for ever once
the interpreter ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import Protocol

from hosting.edges.ingress import Intake
from hosting.engine.engine import QueryEngine
from hosting.evaluator.looking import Working
from hosting.evaluator.serial_executor import OwnThread, Worker, begins
from hosting.reports.log import LOG
from hosting.reports.reporter import Reporter
from hosting.reports.tracebacks import with_trace
from hosting.sources.pushed import PushedReader

HANG_S = 10.0
"""How long one step of a loop is at work before that is told."""
LOOK_S = 1.0
Stage = tuple[float, int]
"""Since when a loop is at work, and at which turn it is."""


class Watched(Protocol):
    """An evaluator whose loop is watched; *threads* are its own."""

    working: Working
    engine: QueryEngine
    intake: Intake
    journal_worker: Worker
    threads: list[OwnThread]

    @property
    def reporter(self) -> Reporter: ...


class HangWatch:
    """Looks at the evaluators that it was given, once a second."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[int, weakref.ref[Watched]] = {}
        self._stages: dict[int, tuple[Stage, float]] = {}
        self._resting: dict[int, tuple[int, float]] = {}
        """How many times a loop had been at work when it was first seen to rest since, and when that was."""
        self._hanging = set[int]()
        self._thread: threading.Thread | None = None

    def add(self, evaluator: Watched) -> None:
        """Watch *evaluator*, if it works beside other threads."""
        if not evaluator.journal_worker.threaded or sys.is_finalizing():
            return
        key = id(evaluator)
        with self._changed:
            self._forget(key)
            self._watched[key] = weakref.ref(evaluator)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="hang watch", daemon=True)
                self._thread = thread if begins(thread) else None

    def remove(self, evaluator: Watched) -> None:
        """Watch *evaluator* no more."""
        if sys.is_finalizing():  # the thread stands still, and may hold the lock
            return
        with self._changed:
            self._forget(id(evaluator))
            if not self._watched:
                self._changed.notify_all()

    def _forget(self, key: int) -> None:
        self._watched.pop(key, None)
        self._stages.pop(key, None)
        self._resting.pop(key, None)
        self._hanging.discard(key)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._watched:
                    self._changed.wait(min(LOOK_S, HANG_S / 4))
                for gone in [key for key, each in self._watched.items() if each() is None]:
                    self._forget(gone)
                if not self._watched:
                    self._thread = None
                    return
                found = list(self._watched.items())
            for key, each in found:
                try:
                    self._look(key, each())
                except Exception as error:
                    LOG.warning("%s", with_trace("a loop could not be looked at", error))

    def _look(self, key: int, evaluator: Watched | None) -> None:
        if evaluator is None:
            return
        since, now = evaluator.working.since, time.monotonic()
        stage = None if since is None else (since, evaluator.engine.number)
        known = self._stages.get(key)
        if stage is None or known is None or known[0] != stage:
            if key in self._hanging:
                self._hanging.discard(key)
                evaluator.reporter.loop.tell_hang_over()
            if stage is not None:
                self._stages[key] = stage, now
            else:
                self._look_at_rest(key, evaluator, now)
            return
        if now - known[1] < HANG_S:
            return
        self._hanging.add(key)
        evaluator.reporter.loop.tell_hang(now - known[1], evaluator.working.thread)

    def _look_at_rest(self, key: int, evaluator: Watched, now: float) -> None:
        """Tell of what was pushed, if nobody has taken a step for long. Who lends threads has a loop for many."""
        times = evaluator.working.times
        known = self._resting.get(key)
        if known is None or known[0] != times:
            self._resting[key] = times, now
            return
        loop = evaluator.reporter.loop
        if now - known[1] >= HANG_S and evaluator.threads and not loop.halt and (unread := unread_of(evaluator)):
            loop.tell_unread(unread, now - known[1])


def unread_of(evaluator: Watched) -> int:
    """Return how many pushed values wait to be taken."""
    readers = [each.reader for each in tuple(evaluator.intake.order)]
    return sum(each.unread for each in readers if isinstance(each, PushedReader))


WATCH = HangWatch()


def _after_fork() -> None:
    global WATCH
    WATCH = HangWatch()  # its thread is the parent's


os.register_at_fork(after_in_child=_after_fork)
