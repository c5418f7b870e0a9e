"""When to stop filling something, and when to go on: by its limit in events, and in bytes where that is wanted too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

STOP, GO_ON = 0.9, 0.7
"""At which share of its limit something is under pressure, and down to which it stays so."""


class Pressure:
    """Whether to stop filling something: from 90 % of its limit on, until it is down to 70 % again.

    >>> pressure = Pressure(100)
    >>> [pressure.at(held) for held in (89, 90, 71, 70, 80)]
    [False, True, True, False, False]
    """

    __slots__ = ("go_on", "on", "stop")

    def __init__(self, limit: int) -> None:
        self.stop, self.go_on = limit * STOP, limit * GO_ON
        self.on = False

    def at(self, held: int) -> bool:
        """Say whether to stop now that *held* are held."""
        self.on = held > self.go_on if self.on else held >= self.stop
        return self.on


class Weights:
    """How many bytes the segments of a cache have, and how many events more are within *bytes_max*.

    How large events will be nobody knows before they are fetched: as large as the last ones, is supposed. So the limit
    is passed by what was misjudged for what was reserved; and a single event has room where there is none.

    >>> weights = Weights(100, lambda values: sum(map(len, values)))
    >>> weights.add(["a" * 10, "b" * 10])
    >>> weights.room(reserved=2)
    6
    >>> weights.add(["c" * 80])
    >>> weights.room(), weights.pressure.on
    (0, True)
    >>> weights.drop(2)
    >>> weights.room()
    1
    """

    __slots__ = ("_bytes_max", "_bytes_of", "_each", "_segments", "held", "pressure")

    def __init__(self, bytes_max: int, bytes_of: Callable[[Sequence[Any]], int]) -> None:
        if bytes_max < 1:
            raise ValueError(f"bytes_max is {bytes_max}; a cache needs room for at least one byte")
        self._bytes_max, self._bytes_of = bytes_max, bytes_of
        self._segments: list[int] = []
        self._each = 1
        self.held = 0
        self.pressure = Pressure(bytes_max)

    def add(self, values: Sequence[Any]) -> None:
        """A segment of *values* has come."""
        weight = self._bytes_of(values)
        self._segments.append(weight)
        self.held += weight
        self._each = max(1, -(-weight // len(values)))

    def drop(self, count: int) -> None:
        """The oldest *count* segments have gone."""
        self.held -= sum(self._segments[:count])
        del self._segments[:count]

    def room(self, *, reserved: int = 0) -> int:
        """Return for how many events there is room beside those *reserved*. Having none is pressure."""
        held = self.held + reserved * self._each
        if held == 0:
            self.pressure.at(0)
            return max(1, self._bytes_max // self._each)
        count = 0 if self.pressure.at(held) else (self._bytes_max - held) // self._each
        self.pressure.on |= count == 0
        return count

    def portion(self, parts: int) -> int:
        """Return how many events are one of *parts* of all the room, if there is any."""
        return self._bytes_max // parts // self._each
