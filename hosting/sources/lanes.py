"""Where the records of a pass wait for their readers, and the places in the files at which a pass may begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reliable_rx.reliable import Batch, Rejected

BUFFERED_MAX = 65_536
MARKS_WEIGHT_MAX = 1 << 18


@dataclass(frozen=True, slots=True)
class Mark:
    """A place to begin at: an offset in a file, and how many records of each key lie before it."""

    file: int
    offset: int
    counts: Mapping[str, int]


class Marks:
    """A sparse index of marks in the order of the files; it thins itself out when it grows heavy."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._stride = 1
        self._since = 0

    def add(self, file: int, offset: int, counts: Mapping[str, int]) -> None:
        """Note a place, unless it lies before the last one noted."""
        if self._marks and (file, offset) <= (self._marks[-1].file, self._marks[-1].offset):
            return
        self._since += 1
        if self._since < self._stride:
            return
        self._since = 0
        self._marks.append(Mark(file, offset, dict(counts)))
        if len(self._marks) * (len(counts) + 1) > MARKS_WEIGHT_MAX:
            del self._marks[::2]
            self._stride *= 2

    def before(self, wanted: Mapping[str, int]) -> Mark | None:
        """Return the last mark with at most *wanted* records of each key before it."""
        for mark in reversed(self._marks):
            if all(mark.counts.get(key, 0) <= position for key, position in wanted.items()):
                return mark
        return None


@dataclass(slots=True, eq=False)
class Lane:
    """What waits for one reader: *values*, the first of them with id *position*."""

    key: str
    position: int
    skip: int = 0
    """Records of this key that the pass must still leave behind before *position*."""
    values: list[Any] = field(default_factory=list)
    taken: int = 0
    failure: str | None = None
    dropped: bool = False
    rejected: deque[Rejected] = field(default_factory=deque)
    """Records that could not be read, between the values and with ids like theirs."""

    @property
    def waiting(self) -> int:
        return len(self.values) - self.taken + len(self.rejected)

    def reject(self, value: Any, error: str) -> None:
        """Let the next id be that of a record that cannot be read."""
        self.rejected.append(Rejected(self.position + self.waiting, value, error))

    def take(self, count_max: int) -> Batch:
        """Remove and return the first values, and the rejected before them."""
        rejected = self._rejected(count_max) if self.rejected else ()
        end = min(self.taken + count_max, len(self.values))
        if self.rejected:
            end = min(end, self.taken + self.rejected[0].position - self.position)
        first, values = self.position, self.values[self.taken : end]
        self.taken = end
        self.position += len(values)
        if end == len(self.values) or end > BUFFERED_MAX:
            del self.values[:end]
            self.taken = 0
        return Batch(first, values, skipped=len(rejected), rejected=rejected)

    def _rejected(self, count_max: int) -> tuple[Rejected, ...]:
        """Remove and return those that come before the next value."""
        found: list[Rejected] = []
        while self.rejected and self.rejected[0].position == self.position and len(found) < count_max:
            found.append(self.rejected.popleft())
            self.position += 1
        return tuple(found)
