"""A loop that can be woken: no wake-up is lost, any number of them before a round make one round.

The textbook mistake is to clear the mark after the work, or between looking at it and waiting: what is said in between
is swallowed. Here a round begins by taking the mark, and everything said from then on belongs to the next one.
`Waking` is the rule, without a clock; `Waker` waits by it on a condition variable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PERIOD_S = 20.0
GAP_S = 1.0
REST = 4.0


class Waking:
    """When the next round is due: after *period_s*, or when woken, but *gap_s* after the last one began.

    A round that says at its end what it cost is followed by a *rest*, whoever wakes: so rounds never take more than a
    fifth of a processor, however large a group is.

    >>> waking = Waking()
    >>> waking.begin(100.0)
    >>> waking.due()
    120.0
    >>> waking.wake()
    >>> waking.wake()
    >>> waking.due()
    101.0
    >>> waking.begin(101.0)
    >>> waking.due()
    121.0
    """

    __slots__ = ("_began", "_due", "_rested", "_woken", "gap_s", "period_s")

    def __init__(self, *, period_s: float = PERIOD_S, gap_s: float = GAP_S) -> None:
        self.period_s, self.gap_s = period_s, gap_s
        self._began: float | None = None
        self._woken = True
        self._due = self._rested = 0.0

    def wake(self) -> None:
        """Have a round begin as soon as may be, even if one is under way now."""
        self._woken = True

    def at(self, when: float) -> None:
        """Have a round begin at *when* at the latest."""
        self._due = min(self._due, when)

    def rest(self, now: float, cost_s: float) -> None:
        """A round has ended that cost so much processor time."""
        self._rested = now + REST * cost_s

    def due(self, *, at_once: bool = False) -> float:
        """Return when the next round is due; it may be past. *at_once* does not keep the gap, but the rest."""
        if self._began is None:
            return 0.0
        gone = 0.0 if at_once else self._began + self.gap_s
        return max(gone, self._rested, 0.0 if self._woken else self._due)

    def begin(self, now: float) -> None:
        """A round begins. Whatever is said from now on is for the next one."""
        self._woken = False
        self._began, self._due = now, now + self.period_s


class Waker:
    """`Waking` for threads: one calls `wait` in a loop, any number of others `wake`, `later` and `stop`.

    A round that is to come at once (a partition has just been given back) is asked for by ``wake(at_once=True)``, which
    does not keep the gap, but the rest.
    """

    def __init__(
        self, *, period_s: float = PERIOD_S, gap_s: float = GAP_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._waking = Waking(period_s=period_s, gap_s=gap_s)
        self._changed = threading.Condition()
        self._clock = clock
        self._at_once = self._stopped = False

    def wake(self, *, at_once: bool = False) -> None:
        """Have a round begin."""
        with self._changed:
            self._waking.wake()
            self._at_once |= at_once
            self._changed.notify_all()

    def rest(self, cost_s: float) -> None:
        """Say what the round cost that ends now, in seconds of processor time."""
        with self._changed:
            self._waking.rest(self._clock(), cost_s)

    def later(self, delay_s: float) -> None:
        """Have a round begin in *delay_s* at the latest."""
        with self._changed:
            self._waking.at(self._clock() + delay_s)
            self._changed.notify_all()

    def stop(self) -> None:
        """End the loop; a round that is under way is finished."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def wait(self) -> bool:
        """Return True when a round is due, which then has begun; False when it is all over."""
        with self._changed:
            while not self._stopped:
                left_s = self._waking.due(at_once=self._at_once) - self._clock()
                if left_s <= 0:
                    self._at_once = False
                    self._waking.begin(self._clock())
                    return True
                self._changed.wait(left_s)
            return False
