"""A seeded generator: endless or counted events that can be had again from any position.

Value *i* of a partition depends on (seed, partition, i) and nothing else. Records are made in blocks of 64, each with
its own `random.Random`, so that a function has real random numbers at full speed, and opening anywhere costs
at most 63 records. Rejected: one generator per record (seeding costs more than most records), and one per partition
(opening at a million means making a million).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hosting.sources.faults import Fault, FaultySource
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Batch, Reader

BLOCK = 64
Function = Callable[[int, random.Random], Any]


class GeneratorSource:
    """Make record *i* of each partition with ``function(i, random)``.

    *function* must be pure but for the numbers it draws from *random*, a `random.Random`. *partitions* is a number of
    partitions (named ``"0"``, ``"1"``, …) or their names; a mapping instead of a function gives each partition a
    function of its own. Each partition has *count* records, or no end. *faults* is a script of what goes wrong where.

    >>> source = GeneratorSource(lambda i, random: (i, random.randrange(6)), count=1_000, seed=7)
    >>> first_run = source.open("0", 0).fetch(1_000).values
    >>> source.open("0", 998).fetch(10).values == first_run[998:]
    True
    """

    def __init__(
        self,
        function: Function | Mapping[str, Function],
        *,
        partitions: int | Sequence[str] = 1,
        count: int | None = None,
        seed: int = 0,
        timestamp: Callable[[Any], float] | None = None,
        faults: Iterable[Fault] = (),
    ) -> None:
        self.timestamp = timestamp
        self._functions = _by_partition(function, partitions)
        self._count = count
        self._seed = seed
        if count is not None and count < 0:
            raise ValueError(f"count is {count}; give a number of records per partition, or None for no end")
        faults = list(faults)
        self._faulty = FaultySource(_Plain(self), faults) if faults else None

    def partitions(self) -> Sequence[str]:
        """Name the partitions."""
        return tuple(self._functions)

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from record *at* on."""
        return self._open(partition, at) if self._faulty is None else self._faulty.open(partition, at)

    def _open(self, partition: str, at: int) -> Reader:
        function = self._functions.get(partition)
        if function is None:
            known = ", ".join(self._functions)
            raise SourceFailed(f"there is no partition {partition!r}, only {known}", source="generator")
        if at < 0 or (self._count is not None and at > self._count):
            message = f"partition {partition!r} has records 0 to {self._count} and none at {at}"
            raise PositionUnavailable(message, wanted=at, first=0, end=self._count)
        return _GeneratorReader(function, f"{self._seed}/{partition}/", at, self._count)


class _Plain:
    """A generator source without its faults."""

    def __init__(self, source: GeneratorSource) -> None:
        self.partitions = source.partitions
        self.open = source._open
        self.timestamp = source.timestamp


class _GeneratorReader:
    def __init__(self, function: Function, seed: str, at: int, count: int | None) -> None:
        self._function = function
        self._seed = seed
        self._position = at
        self._end = count
        self._random = random.Random()
        self._held: list[Any] = []
        if at % BLOCK:
            self._held = self._block(at // BLOCK)[at % BLOCK :]

    def fetch(self, count_max: int, /) -> Batch:
        first = self._position
        end = first + max(0, count_max) if self._end is None else min(first + max(0, count_max), self._end)
        wanted = end - first
        values = self._held
        while len(values) < wanted:
            values += self._block((first + len(values)) // BLOCK)
        self._held = values[wanted:]
        del values[wanted:]
        self._position = end
        return Batch(first, values, ended=end == self._end)

    def acknowledge(self, n: int, /) -> None:
        """Do nothing: every record can be made again."""

    def close(self) -> None: ...

    def _block(self, index: int) -> list[Any]:
        draw = self._random
        draw.seed(f"{self._seed}{index}")
        function = self._function
        start = index * BLOCK
        end = start + BLOCK if self._end is None else min(start + BLOCK, self._end)
        return [function(i, draw) for i in range(start, end)]


def _by_partition(function: Function | Mapping[str, Function], partitions: int | Sequence[str]) -> dict[str, Function]:
    if isinstance(function, Mapping):
        return dict(function)
    names = [str(p) for p in range(partitions)] if isinstance(partitions, int) else list(partitions)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"partitions is {partitions!r}; give a number from 1, or names that differ")
    return dict.fromkeys(names, function)
