"""Scripted faults at exact positions, around any source: what a test or a demonstration makes go wrong, reproducibly.

What a fault has still to do is remembered by the source, not by the reader, so that a reader opened again after a
failure gets past it: ``Fail(times=2)`` fails twice in all. What the source within can do besides, the faulty one can
too; but its readers wake nobody, since a stall is looked at again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from hosting.admission.constructor_types import checks_kinds
from hosting.sources.definition import hand_on
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Batch, Bounded, Findable, Reader, SequencedEnd, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Give nothing for so many *fetches* before record *at*."""

    partition: str = "0"
    at: int
    fetches: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """Raise `SourceFailed` so many *times* before record *at*, then recover."""

    partition: str = "0"
    at: int
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """End the partition with an error in place of record *at*."""

    partition: str = "0"
    at: int
    message: str = "scripted error"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """End the partition in place of record *at*."""

    partition: str = "0"
    at: int


Fault = Stall | Fail | Error | End


class FaultySource:
    """Let *source* go wrong as the script of *faults* says.

    >>> from hosting.sources import ListSource
    >>> reader = FaultySource(ListSource([*"abc"]), [Stall(at=1, fetches=1)]).open("0", 0)
    >>> [list(reader.fetch(10).values) for _ in range(3)]
    [['a'], [], ['b', 'c']]
    """

    @checks_kinds()
    def __init__(self, source: Source, faults: Iterable[Fault]) -> None:
        self._source = source
        self._faults = sorted(faults, key=lambda fault: fault.at)
        self._left = {id(fault): _repeats(fault) for fault in self._faults}
        hand_on(source, self)
        if isinstance(source, Bounded):
            self.bounds = self._bounds
        if isinstance(source, Findable):
            self.find = self._find
        for fault in self._faults:
            if fault.partition not in source.partitions():
                raise ValueError(f"{fault} names no partition of the source; it has {', '.join(source.partitions())}")

    def partitions(self) -> Sequence[str]:
        """Name the partitions of the source within."""
        return self._source.partitions()

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from id *at* on."""
        faults = [fault for fault in self._faults if fault.partition == partition]
        return _FaultyReader(self._source.open(partition, at), faults, at, self._use_up)

    def _bounds(self, partition: str, /) -> tuple[int, int]:
        first, end = cast(Bounded, self._source).bounds(partition)
        return first, self._within(partition, end)

    def _find(self, partition: str, time: float, /) -> int:
        return self._within(partition, cast(Findable, self._source).find(partition, time))

    def _within(self, partition: str, position: int) -> int:
        """Return *position*, or the end that a fault has made before it."""
        ends = [each.at for each in self._faults if each.partition == partition and isinstance(each, (End, Error))]
        return min([position, *ends])

    def _use_up(self, fault: Fault) -> bool:
        """Take one of the times that *fault* still has; return whether it had one."""
        left = self._left[id(fault)]
        if left is not None:
            self._left[id(fault)] = max(0, left - 1)
        return left is None or left > 0


class _FaultyReader:
    def __init__(self, reader: Reader, faults: Sequence[Fault], at: int, use_up: Callable[[Fault], bool]) -> None:
        self._reader = reader
        self._faults = faults
        self._position = at
        self._use_up = use_up
        self.acknowledge = reader.acknowledge
        self.close = reader.close
        if isinstance(reader, SequencedEnd):
            self.sequenced_end = reader.sequenced_end

    def fetch(self, count_max: int, /) -> Batch:
        here = self._position
        for fault in self._faults:
            if fault.at > here:
                count_max = min(count_max, fault.at - here)
                break
            if (fault.at == here or not _passes(fault)) and self._use_up(fault):
                return self._strike(fault)
        batch = self._reader.fetch(count_max)
        self._position = batch.next
        return batch

    def _strike(self, fault: Fault) -> Batch:
        here = self._position
        fields = {"source": "scripted", "partition": fault.partition, "position": here}
        if isinstance(fault, Fail):
            raise SourceFailed(f"scripted failure before record {here} of partition {fault.partition!r}", **fields)
        if isinstance(fault, Error):
            return Batch(here, (), error=SourceFailed(fault.message, **fields))
        return Batch(here, (), ended=isinstance(fault, End))


def _passes(fault: Fault) -> bool:
    return isinstance(fault, (Stall, Fail))


def _repeats(fault: Fault) -> int | None:
    """How often a fault strikes; None: each time."""
    if isinstance(fault, Stall):
        return fault.fetches
    return fault.times if isinstance(fault, Fail) else None
