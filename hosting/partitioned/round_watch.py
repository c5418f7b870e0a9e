"""Watch over the rounds of a node, and its agents: what does not return is told, with where it is.

A node that waits in a server which says nothing raises nothing, and its partitions stop without a word. Rejected: a
limit to each question (a driver waits inside the system, which sees a connection that is well).
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hosting.partitioned.agent import Agent
from hosting.partitioned.words import Failure
from hosting.reports import hang_watch
from hosting.reports.incidents import Incidents
from hosting.reports.loop_reports import LASTING_S

STALL, NODE = "stall", "node"


class RoundWatch:
    """Looks once a second at how long the `round` of a node has been at work.

    >>> watch = RoundWatch(Incidents())
    >>> with watch.round():
    ...     pass
    >>> watch.close()
    """

    def __init__(self, incidents: Incidents, agents: Callable[[], Iterable[Agent]] = tuple) -> None:
        self._incidents, self._agents = incidents, agents
        self._told = set[str]()
        """The partitions of which a step is told that does not return."""
        self._round: tuple[float, int] | None = None
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="round watch", daemon=True)
        self._thread.start()

    @contextmanager
    def round(self) -> Iterator[None]:
        """Watch what this thread does inside."""
        self._round = time.monotonic(), threading.get_ident()
        try:
            yield
        finally:
            with self._lock:
                self._round = None
                self._incidents.resolve(STALL, NODE)

    def close(self) -> None:
        """Watch no more."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(min(hang_watch.LOOK_S, hang_watch.HANG_S / 4)):
            with self._lock:
                self._look()
            self._look_at_agents()

    def _look(self) -> None:
        found = self._round
        seconds = 0.0 if found is None else time.monotonic() - found[0]
        if found is None or seconds < hang_watch.HANG_S:
            return
        message = (
            f"a round has been at work for {seconds:.0f} s: what the group shares does not answer; after "
            f"two thirds of a session this node's partitions stop until it does"
        )
        self._incidents.report(STALL, NODE, message, level=level_of(seconds), trace=trace_of(found[1]))

    def _look_at_agents(self) -> None:
        """Tell of partitions whose opening, or closing, does not return: what runs is told by its evaluator."""
        hang = {}
        for agent in self._agents():
            task, name = agent.task, str(agent.lease.partition)
            at_work = None if task is None else task.at_work()
            seconds = 0.0 if at_work is None else time.monotonic() - at_work[0]
            if at_work is None or seconds < hang_watch.HANG_S:
                continue
            message = f"it has been opened or closed for {seconds:.0f} s: a source, a sink or its store does not return"
            level = level_of(seconds)
            if agent.tell_hang(Failure(0, f"stall: {message}", warning=level < logging.ERROR)):
                hang[name] = message
                self._incidents.report(STALL, name, message, level=level, trace=trace_of(at_work[1]))
        for name in self._told - hang.keys():
            self._incidents.resolve(STALL, name)
        self._told = set(hang)


def level_of(seconds: float) -> int:
    """Return how bad it is that something does not return for so long."""
    return logging.ERROR if seconds >= LASTING_S else logging.WARNING


def trace_of(thread: int) -> str:
    """Return where *thread* is now."""
    frame = sys._current_frames().get(thread)
    return "" if frame is None else "".join(traceback.format_stack(frame))
