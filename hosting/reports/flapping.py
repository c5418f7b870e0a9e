"""Incidents that come and go: told when they begin, then counted, and told once a minute while they go on doing so.

An incident that ends is forgotten, so one that flaps (a service that fails every second call) would begin and end in
the log each time. What the log was not told of stays owed: if it is still open after a minute, or at the end of a run,
it is told then. An error is told a few times a minute: who mends a query and starts it again waits for that line.
Rejected: delayed ends (the register would call open what is well), and telling nothing of what is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

REPEAT_S = 60.0
WARNINGS_TOLD, ERRORS_TOLD = 1, 5
"""How often a minute the log has the beginning of one that comes and goes."""
KEPT_MAX = 2000

Key = tuple[str, str]


@dataclass(slots=True)
class Flap:
    """One incident: when it was told first in this minute and how often, and how often it began and was not told."""

    at: float
    told: int = 1
    untold: int = 0


class Flapping:
    """What has begun lately, and which of it the log owes.

    >>> flapping = Flapping()
    >>> [flapping.begins(("call", "q"), now, most=1) for now in (0.0, 1.0, 2.0, 60.0)]
    [True, False, False, True]
    """

    def __init__(self) -> None:
        self._kept: dict[Key, Flap] = {}
        self.owed: set[Key] = set()
        """What is open, and not in the log."""

    def begins(self, key: Key, now: float, *, most: int) -> bool:
        """Count a beginning, and say whether it is to be told: *most* times a minute."""
        flap = self._kept.get(key)
        if flap is None:
            self._kept[key] = Flap(now)
            if len(self._kept) > KEPT_MAX:
                self._forget()
            return True
        if is_over(flap, now):
            flap.at, flap.told = now, 0
        if flap.told < most:
            flap.told += 1
            return True
        flap.untold += 1
        self.owed.add(key)
        return False

    def ends(self, key: Key) -> bool:
        """Whether the log has the beginning of what has ended, so that it is to have the end."""
        was_told = key not in self.owed
        self.owed.discard(key)
        return was_told

    def since(self, key: Key, now: float) -> float:
        """Return when the log had *key* last."""
        flap = self._kept.get(key)
        return now if flap is None else flap.at

    def tell(self, key: Key, now: float) -> int:
        """Return how often *key*, which is told now, has begun since it was told last."""
        self.owed.discard(key)
        flap = self._kept.get(key)
        if flap is None:
            return 0
        if is_over(flap, now):
            flap.at, flap.told = now, 1
        untold, flap.untold = flap.untold, 0
        return untold

    def due(self, now: float, *, at_end: bool) -> Iterator[Key]:
        """Yield what is open and owed for a minute, or at all."""
        for key in list(self.owed):
            flap = self._kept.get(key)
            if at_end or flap is None or is_over(flap, now):
                yield key

    def _forget(self) -> None:
        """Let go of the one that began first."""
        self._kept.pop(next(iter(self._kept)))


def is_over(flap: Flap, now: float) -> bool:
    return not 0 <= now - flap.at < REPEAT_S
