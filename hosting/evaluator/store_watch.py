"""Whether the store of an evaluator that has nothing to write is still there, and still its own.

Whoever writes finds out by writing. One that waits for its next event would say nothing for as long as none comes, of a
folder that was moved, a disk that is away, a server that has gone, or an owner that has let itself in. So it asks, once
in each interval between checkpoints, in the thread of the checkpoints: a server that does not answer holds up nothing.
Rejected: an empty checkpoint in each interval (a write for nothing, and a generation that replaces one worth keeping).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hosting.evaluator.serial_executor import Worker
from reliable_rx.errors import StoreUnavailable

INTERVAL_S_MIN = 0.5


class StoreWatch:
    """Asks by *check* in *worker*, at most once in *interval_s*, which may be 0: then twice in a second.

    *check* raises `StoreUnavailable` for what waiting may mend; anything else that it raises ends the evaluator.
    """

    def __init__(self, check: Callable[[], None], worker: Worker, *, interval_s: float) -> None:
        self._check, self._worker, self._interval_s = check, worker, max(interval_s, INTERVAL_S_MIN)
        self._found: StoreUnavailable | None = None
        self._asked_at = time.monotonic()

    def look(self, *, seen_at: float) -> StoreUnavailable | None:
        """Return what is wrong, once each time it is found out; the store was seen well last at *seen_at*."""
        found, self._found = self._found, None
        now = time.monotonic()
        if found is None and now - max(seen_at, self._asked_at) >= self._interval_s and not self._worker.busy:
            self._asked_at = now
            self._worker.submit(self._ask)
        return found

    def _ask(self) -> None:
        try:
            self._check()
        except StoreUnavailable as error:
            self._found = error
