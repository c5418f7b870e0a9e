"""Watch over the rounds of a node: one that does not return is told, with where it is.

A node that waits in a server which says nothing raises nothing, and its partitions stop without a word. Rejected: a
limit to each question (a driver waits inside the system, which sees a connection that is well).
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from hosting import hang_watch
from hosting.incidents import Incidents
from hosting.loop_reports import LASTING_S

STALL, NODE = "stall", "node"


class RoundWatch:
    """Looks once a second at how long the `round` of a node has been at work.

    >>> watch = RoundWatch(Incidents())
    >>> with watch.round():
    ...     pass
    >>> watch.close()
    """

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
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

    def _look(self) -> None:
        found = self._round
        seconds = 0.0 if found is None else time.monotonic() - found[0]
        if found is None or seconds < hang_watch.HANG_S:
            return
        frame = sys._current_frames().get(found[1])
        trace = "" if frame is None else "".join(traceback.format_stack(frame))
        message = (
            f"a round has been at work for {seconds:.0f} s: what the group shares, or a source, does not answer; after "
            f"two thirds of a session this node's partitions stop until it does"
        )
        level = logging.ERROR if seconds >= LASTING_S else logging.WARNING
        self._incidents.report(STALL, NODE, message, level=level, trace=trace)
