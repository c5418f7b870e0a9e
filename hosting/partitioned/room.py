"""How many partitions of a node are awake at once: memory and open files for so many, not for all it holds.

Whoever wants to wake up while there is no room waits in line; who has nothing to do falls asleep and lets the next one
in. If nobody does, because all that are awake are busy, the first in line is let in all the same after `PATIENCE_S`.

Waking costs some milliseconds, so partitions that have something to do all the time must not take turns. Who was sent
to sleep for others' sake and stirs again soon, twice in a row, is one of those, and each time there is room for one
more; whoever sleeps because nothing came for long takes that room away again. So a thousand that stir once share the
room of a few, and a hundred that always stir have their own. It is what a cache does that remembers whom it has
evicted (Megiddo and Modha, ARC, FAST 2003).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

PATIENCE_S = 1.0
LOOK_S = 0.02
SOON_S = 10.0
FEW = 32


class Sleeping(Protocol):
    """Somebody who wants to be awake for a while."""

    def wake(self) -> None: ...


class Room:
    """Room for *few*, and for up to *most* that stir again and again; more if it must be.

    >>> class One:
    ...     def wake(self): ...
    >>> room, a, b = Room(1), One(), One()
    >>> room.enter(a), room.enter(b) > 0
    (0.0, True)
    >>> room.leave(a)
    >>> room.enter(b)
    0.0
    """

    def __init__(self, most: int, *, few: int = FEW, clock: Callable[[], float] = time.monotonic) -> None:
        if most < 1:
            raise ValueError(f"one must be awake at least, got {most}")
        self.few, self.most = min(few, most), most
        self.size = self.few
        self.awake: set[Sleeping] = set()
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[Sleeping, None] = {}
        self._first_since = 0.0
        self._early: dict[Sleeping, tuple[int, float]] = {}

    @property
    def crowded(self) -> bool:
        """Whether who has nothing to do should fall asleep at once."""
        return bool(self._waiting) or len(self.awake) > self.size

    def enter(self, one: Sleeping, /) -> float:
        """Let *one* in and return 0; or return after how many seconds it is to ask again, if it is not woken before."""
        with self._lock:
            if not self._waiting:
                self._first_since = self._clock()
            if one not in self._waiting:
                self._waiting[one] = None
                self._stirs(one)
            if next(iter(self._waiting)) is not one:
                return PATIENCE_S
            if len(self.awake) >= self.size and self._clock() - self._first_since < PATIENCE_S:
                return LOOK_S
            del self._waiting[one]
            self.awake.add(one)
            self._first_since = self._clock()
            following = next(iter(self._waiting), None)
        if following is not None:
            following.wake()
        return 0.0

    def leave(self, one: Sleeping, /, *, early: bool = False) -> None:
        """*one* is not awake any more, or does not want to be; *early*: it has made room for others."""
        with self._lock:
            was_awake = one in self.awake
            self.awake.discard(one)
            self._waiting.pop(one, None)
            if early:
                self._early[one] = (self._early.get(one, (0, 0.0))[0], self._clock())
            else:
                self._early.pop(one, None)
                self.size = max(self.few, self.size - was_awake)
            following = next(iter(self._waiting), None)
        if following is not None:
            following.wake()

    def _stirs(self, one: Sleeping) -> None:
        """Make room for one more if *one* has stirred soon after it had made room, and not for the first time."""
        times, since = self._early.pop(one, (0, -SOON_S))
        if self._clock() - since >= SOON_S:
            return
        self._early[one] = (times + 1, since)
        if times:
            self.size = min(self.most, self.size + 1)
