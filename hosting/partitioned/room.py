"""How many partitions of a node are awake at once: memory and open files for so many, not for all it holds.

Whoever wants to wake up while there is no room waits in line; who has nothing to do falls asleep and lets the next one
in. If nobody does, because all that are awake are busy, the first in line is let in all the same after `PATIENCE_S`,
and so on: a limit that busy partitions pass slowly, and a thousand that stir at once do not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

PATIENCE_S = 1.0
LOOK_S = 0.02


class Sleeping(Protocol):
    """Somebody who wants to be awake for a while."""

    def wake(self) -> None: ...


class Room:
    """Room for *most*, and more if it must be.

    >>> class One:
    ...     def wake(self): ...
    >>> room, a, b = Room(1), One(), One()
    >>> room.enter(a), room.enter(b) > 0
    (0.0, True)
    >>> room.leave(a)
    >>> room.enter(b)
    0.0
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if most < 1:
            raise ValueError(f"one must be awake at least, got {most}")
        self.most = most
        self.awake: set[Sleeping] = set()
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[Sleeping, None] = {}
        self._first_since = 0.0

    @property
    def crowded(self) -> bool:
        """Whether who has nothing to do should fall asleep at once."""
        return bool(self._waiting) or len(self.awake) > self.most

    def enter(self, one: Sleeping, /) -> float:
        """Let *one* in and return 0; or return after how many seconds it is to ask again, if it is not woken before."""
        with self._lock:
            if not self._waiting:
                self._first_since = self._clock()
            self._waiting.setdefault(one)
            if next(iter(self._waiting)) is not one:
                return PATIENCE_S
            if len(self.awake) >= self.most and self._clock() - self._first_since < PATIENCE_S:
                return LOOK_S
            del self._waiting[one]
            self.awake.add(one)
            self._first_since = self._clock()
            following = next(iter(self._waiting), None)
        if following is not None:
            following.wake()
        return 0.0

    def leave(self, one: Sleeping, /) -> None:
        """*one* is not awake any more, or does not want to be."""
        with self._lock:
            self.awake.discard(one)
            self._waiting.pop(one, None)
            following = next(iter(self._waiting), None)
        if following is not None:
            following.wake()
