"""The lock between an evaluator's loop and everybody else, which the loop holds nearly all the time.

Python's locks are not fair: a loop that releases one and takes it again at once gets it again, for seconds, while
others wait. So whoever finds it taken counts himself, and between two steps the loop lets one of them in. Taking a free
lock costs what it did. Rejected: a queue of waiters for every taking, which made each step slower for the sake of a
caller who is hardly ever there.

A forked child has a copy of the evaluator, without its threads: whatever takes the lock there is refused.
"""

from __future__ import annotations

import threading

from checkpoint.ownership import OwnProcess

GIVE_WAY_S = 0.1


class Turnstile:
    """A re-entrant lock whose keenest user gives way.

    >>> lock = Turnstile()
    >>> with lock, lock:
    ...     lock.waiting
    0
    """

    def __init__(self) -> None:
        self.process = OwnProcess("this evaluator")
        self.lock = threading.RLock()
        self.changed = threading.Condition()
        self.waiting = 0
        self.let_in = 0

    def __enter__(self) -> None:
        self.process.check()
        if not self.lock.acquire(blocking=False):
            self._wait(-1.0)

    def __exit__(self, *raised: object) -> None:
        self.lock.release()

    def acquire(self, timeout_s: float) -> bool:
        """Take the lock if it is free within *timeout_s*; return whether it was taken, then to be released."""
        return self.lock.acquire(blocking=False) or self._wait(timeout_s)

    def release(self) -> None:
        self.lock.release()

    def _wait(self, timeout_s: float) -> bool:
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
        taken = self.lock.acquire(timeout=timeout_s)
        with self.changed:
            self.waiting -= 1
            self.let_in += taken
            self.changed.notify_all()
        return taken

    def give_way(self) -> None:
        """Let in one of those who wait, if there are any; called by who does not hold the lock."""
        if self.waiting:
            with self.changed:
                before = self.let_in
                self.changed.wait_for(lambda: self.let_in != before or not self.waiting, GIVE_WAY_S)
