"""A seeded generator: endless or counted events that can be had again from any position.

Value *i* of a partition depends on (seed, partition, i) and nothing else. Records are made in blocks of 64, each with
its own `random.Random`, so that a function has real random numbers at full speed, and opening anywhere costs
at most 63 records. A script says which partitions there are (`hosting.sources.script`), and another what goes wrong
(`hosting.sources.faults`). Rejected: one generator per record (seeding costs more than most records), and one per
partition (opening at a million means making a million).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hosting.admission.constructor_types import checks_kinds
from hosting.edges.start_positions import ENDLESS
from hosting.engine.blame import blamed
from hosting.sources.bad_records import reason_of
from hosting.sources.definition import by_place, hand_on
from hosting.sources.faults import Fault, FaultySource
from hosting.sources.finding import first_at
from hosting.sources.script import Change, Script, made_by
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.operators.contract.choices import names_keywords
from reliable_rx.reliable import Batch, Listing, Reader

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

    *script* splits and merges partitions and makes some of them base data; *begin* is the Unix time in seconds from
    which it counts, *facts* a directory for what processes must know of each other. With *rate_per_s* record *i* is
    there so many seconds after *begin*, in every partition; *clock* gives Unix time in seconds.

    >>> from hosting.sources import Split
    >>> split = Split(partition="0", at=2, into=("a", "b"))
    >>> [(each.name, each.parents) for each in GeneratorSource(lambda i, _: i, script=[split]).listing()]
    [('0', ()), ('a', ('0',)), ('b', ('0',))]
    """

    @names_keywords
    @checks_kinds("timestamp")
    def __init__(
        self,
        function: Function | Mapping[str, Function],
        *,
        partitions: int | Sequence[str] = 1,
        count: int | None = None,
        seed: int = 0,
        timestamp: Callable[[Any], float] | None = None,
        faults: Iterable[Fault] = (),
        script: Iterable[Change] = (),
        begin: float = 0.0,
        facts: str | os.PathLike[str] | None = None,
        rate_per_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.timestamp = timestamp
        changes = list(script)
        self._script = Script(
            _names(function, partitions, changes), changes, facts=None if facts is None else Path(facts)
        )
        self._function = function
        self._count = count
        self._seed = seed
        self._begin = begin
        self._rate_per_s = rate_per_s
        self._clock = clock
        self._notes = facts is not None
        self._check()
        faults = list(faults)
        self._faulty = FaultySource(_Plain(self), faults) if faults else None

    def definition(self) -> Mapping[str, Any]:
        """Return what its records and their times come from."""
        function = self._function
        made = by_place("function", function) if isinstance(function, Mapping) else {"function": function}
        return {**made, "seed": self._seed, "timestamp": self.timestamp}

    def partitions(self) -> Sequence[str]:
        """Name the partitions that are listed now."""
        return tuple(each.name for each in self.listing())

    def listing(self) -> Sequence[Listing]:
        """List the partitions as the script has them now."""
        return self._script.listed(self._clock() - self._begin)

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from record *at* on; it need not be listed yet here, for it may be elsewhere."""
        reader = self._open(partition, at) if self._faulty is None else self._faulty.open(partition, at)
        return _NotingReader(reader, lambda: self._script.was_read(partition)) if self._notes else reader

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return 0 and the end of what is there now; `ENDLESS` if that is as much as one wants."""
        return self._bounds(partition) if self._faulty is None else self._faulty.bounds(partition)

    def find(self, partition: str, time: float, /) -> int:
        """Return the id of the first record at or after *time*, by *timestamp*. Makes all before it."""
        return self._find(partition, time) if self._faulty is None else self._faulty.find(partition, time)

    def _open(self, partition: str, at: int) -> Reader:
        function, end = self._function_of(partition), self._end(partition)
        if at < 0 or (end is not None and at > end):
            message = f"partition {partition!r} has records 0 to {end} and none at {at}"
            raise PositionUnavailable(message, wanted=at, first=0, end=end)
        there = None if self._rate_per_s is None else self._there
        return _GeneratorReader(function, partition, f"{self._seed}/{partition}/", at, end, there)

    def _function_of(self, partition: str) -> Function:
        if partition not in self._script.listings:
            known = ", ".join(self._script.listings)
            raise SourceFailed(f"there is no partition {partition!r}, only {known}", source="generator")
        return self._function[partition] if isinstance(self._function, Mapping) else self._function

    def _end(self, partition: str) -> int | None:
        return self._script.ends.get(partition, self._count)

    def _there(self) -> int:
        return ENDLESS if self._rate_per_s is None else max(0, int((self._clock() - self._begin) * self._rate_per_s))

    def _bounds(self, partition: str) -> tuple[int, int]:
        self._function_of(partition)
        end = self._end(partition)
        return 0, self._there() if end is None else min(end, self._there())

    def _find(self, partition: str, time: float) -> int:
        return first_at(_Plain(self), partition, time)

    def _check(self) -> None:
        count = self._count
        if count is not None and count < 0:
            raise ValueError(f"count is {count}; give a number of records per partition, or None for no end")
        if self._rate_per_s is not None and self._rate_per_s <= 0:
            raise ValueError(f"rate_per_s is {self._rate_per_s}; give more than nothing, or None for all at once")
        for name, end in self._script.ends.items():
            if count is not None and end > count:
                raise ValueError(f"partition {name!r} has {plural(count, 'record')}, and the script ends it at {end}")


class _Plain:
    """A generator source without its faults, and with all partitions that it ever has."""

    def __init__(self, source: GeneratorSource) -> None:
        self._source = source
        hand_on(source, self)
        self.bounds = source._bounds
        self.find = source._find

    def partitions(self) -> Sequence[str]:
        return tuple(self._source._script.listings)

    def open(self, partition: str, at: int, /) -> Reader:
        return self._source._open(partition, at)


class _NotingReader:
    """Notes for everybody that the end has been read."""

    def __init__(self, reader: Reader, was_read: Callable[[], None]) -> None:
        self._reader = reader
        self._was_read = was_read
        self.acknowledge = reader.acknowledge
        self.close = reader.close

    def fetch(self, count_max: int, /) -> Batch:
        batch = self._reader.fetch(count_max)
        if batch.ended:
            self._was_read()
        return batch


class _GeneratorReader:
    def __init__(
        self, function: Function, partition: str, seed: str, at: int, end: int | None, there: Callable[[], int] | None
    ) -> None:
        self._function, self._partition = function, partition
        self._failure: SourceFailed | None = None
        self._seed = seed
        self._position = at
        self._end = end
        self._there = there
        self._random = random.Random()
        self._held: list[Any] = []
        if at % BLOCK:
            self._held = self._block(at // BLOCK)[at % BLOCK :]

    def fetch(self, count_max: int, /) -> Batch:
        first = self._position
        end = first + max(0, count_max) if self._end is None else min(first + max(0, count_max), self._end)
        if self._there is not None:
            end = min(end, max(first, self._there()))
        wanted = end - first
        values = self._held
        while len(values) < wanted and self._failure is None:
            values += self._block((first + len(values)) // BLOCK)
        if self._failure is not None and len(values) < wanted:
            wanted, end = len(values), first + len(values)
            if not values:
                raise self._failure
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
        try:
            return [function(i, draw) for i in range(start, end)]
        except BaseException as raised:
            blamed(raised)
        draw.seed(f"{self._seed}{index}")
        return list(self._until_it_fails(start, end))

    def _until_it_fails(self, start: int, end: int) -> Iterator[Any]:
        for i in range(start, end):
            try:
                yield self._function(i, self._random)
            except BaseException as raised:
                error = blamed(raised)
                message = f"the function that makes the records failed at record {i:,}: {reason_of(error)}; mend it"
                self._failure = SourceFailed(message, source="generator", partition=self._partition, position=i)
                self._failure.__cause__ = error
                return


def _names(
    function: Function | Mapping[str, Function], partitions: int | Sequence[str], changes: Iterable[Change]
) -> list[str]:
    """Name the partitions that are there at first: with a function for each, those that nothing makes."""
    if isinstance(function, Mapping):
        made = {name for change in changes for name in made_by(change)}
        missing = sorted(made - function.keys())
        if missing:
            raise ValueError(f"the script makes partition {missing[0]!r}, and no function is given for it")
        return [name for name in function if name not in made]
    names = [str(p) for p in range(partitions)] if isinstance(partitions, int) else list(partitions)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"partitions is {partitions!r}; give a number from 1, or names that differ")
    return names
