"""What a bucket emits in one batch: columns, since a row object for each value would cost more than most queries do."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

NEXT, COMPLETED, ERROR = "next", "completed", "error"


class Emitted:
    """Notifications with their keys and ids; where a query ended, *ends* has the position and its error, if any."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.ids: list[int] = []
        self.values: list[Any] = []
        self.ends: dict[int, Exception | None] = {}

    def add(self, key: Hashable, first: int, values: Sequence[Any]) -> None:
        """Add consecutive values of *key*, from id *first* on."""
        count = len(values)
        if count == 1:
            self.keys.append(key)
            self.ids.append(first)
        else:
            self.keys.extend([key] * count)
            self.ids.extend(range(first, first + count))
        self.values.extend(values)

    def end(self, key: Hashable, number: int, error: Exception | None) -> None:
        """Add the terminal notification of *key*."""
        self.ends[len(self.keys)] = error
        self.keys.append(key)
        self.ids.append(number)
        self.values.append(None)

    def rows(self) -> Iterator[tuple[Hashable, int, str, Any]]:
        """Yield (key, id, kind, value), an error as the value of its row."""
        for place, (key, number, value) in enumerate(zip(self.keys, self.ids, self.values, strict=True)):
            if place not in self.ends:
                yield key, number, NEXT, value
            else:
                error = self.ends[place]
                yield key, number, COMPLETED if error is None else ERROR, error
