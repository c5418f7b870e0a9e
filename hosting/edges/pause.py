"""Pauses between the tries of a sink that is not available: each is twice as long as the one before, up to a second.

The loop looks more often than that (`hosting.evaluator.wakeups`), whenever something is pushed or becomes durable.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hosting.sources.polling import Pace

PAUSE_S, PAUSE_S_MAX = 0.01, 1.0


class Pause:
    """The pause behind a try that failed; *clock* gives seconds, and without one there are no pauses.

    >>> now = 0.0
    >>> pause = Pause(lambda: now)
    >>> pause.begin(at=7)
    >>> pause.is_on
    True
    >>> now = 0.011
    >>> pause.is_on
    False
    """

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self._clock = clock
        self._pace = Pace(first_s=PAUSE_S, most_s=PAUSE_S_MAX)
        self._at, self._until = -1, -math.inf

    @property
    def is_on(self) -> bool:
        """Whether it is too soon for another try."""
        return self._clock is not None and self._clock() < self._until

    def begin(self, *, at: int) -> None:
        """Wait behind a try that failed at id *at*: longer than the last time, if it has come no further."""
        if self._clock is not None:
            pause_s = self._pace.nothing() if at == self._at else self._pace.begin()
            self._at, self._until = at, self._clock() + pause_s

    def end(self) -> None:
        """Let the next try be made at once, and the pause behind it be short."""
        self._at, self._until = -1, -math.inf
