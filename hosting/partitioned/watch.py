"""Whether something has stood still for too long, seen by one observer with a clock of its own.

The shared document holds no time: two machines do not agree on one, and a clock that is set is not a reason to take a
partition from anybody. It holds counters instead, and each node measures for how long it has seen a counter stand
still (as DynamoDB's lock client and Kubernetes' leader election do). Between two looks at most *step_s* is counted: an
observer that was stopped, or whose clock has jumped, then sees news before it judges. Rejected: deadlines in the
document, in the time of whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that ought to change (*token*) or go away within *limit_s*."""

    token: Hashable
    limit_s: float


class Watch:
    """The ages of marks.

    >>> watch = Watch(step_s=5.0)
    >>> watch.look({("a",): Mark(1, 8.0)}, 100.0), watch.look({("a",): Mark(1, 8.0)}, 104.0)
    ([], [])
    >>> watch.look({("a",): Mark(1, 8.0)}, 108.0), watch.look({("a",): Mark(2, 8.0)}, 110.0)
    ([('a',)], [])
    """

    def __init__(self, *, step_s: float) -> None:
        self.step_s = step_s
        self._last: float | None = None
        self._ages: dict[Key, tuple[Hashable, float]] = {}

    def look(self, marks: Mapping[Key, Mark], now: float) -> list[Key]:
        """Return the keys of the marks that are overdue at *now* on the observer's clock."""
        passed_s = 0.0 if self._last is None else min(max(now - self._last, 0.0), self.step_s)
        self._last = now
        self._ages = {key: (mark.token, self._age(key, mark, passed_s)) for key, mark in marks.items()}
        return [key for key, mark in marks.items() if self._ages[key][1] >= mark.limit_s]

    def _age(self, key: Key, mark: Mark, passed_s: float) -> float:
        token, age = self._ages.get(key, (None, 0.0))
        return age + passed_s if key in self._ages and token == mark.token else 0.0

    def remaining(self, marks: Mapping[Key, Mark]) -> float | None:
        """Return how long it takes until the first of *marks* is overdue, as of the last look."""
        return min((max(mark.limit_s - self._age(key, mark, 0.0), 0.0) for key, mark in marks.items()), default=None)
