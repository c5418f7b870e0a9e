"""A source whose events come by the clock, the same for every process that reads it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from reliable_rx.reliable import Batch, Reader, Source


class Paced:
    """Event *n* may be read *n* / *per_s* seconds after *start* (Unix time); the first *at_once* then already."""

    def __init__(self, source: Source, *, start: float, per_s: float, at_once: int = 0) -> None:
        self._source, self.start, self.per_s, self.at_once = source, start, per_s, at_once

    def partitions(self) -> Sequence[str]:
        return self._source.partitions()

    def open(self, partition: str, at: int, /) -> Reader:
        return PacedReader(self, self._source.open(partition, at), at)

    def come(self) -> int:
        """How many events of a partition may be read by now."""
        passed_s = time.time() - self.start
        return self.at_once + int(passed_s * self.per_s) if passed_s >= 0 else 0


class PacedReader:
    def __init__(self, pace: Paced, reader: Reader, at: int) -> None:
        self._pace, self._reader, self._position = pace, reader, at

    def fetch(self, count_max: int, /) -> Batch:
        come = self._pace.come()
        if come <= self._position:
            return Batch(self._position, ())
        batch = self._reader.fetch(min(count_max, come - self._position))
        self._position = batch.next
        return batch

    def acknowledge(self, n: int, /) -> None:
        self._reader.acknowledge(n)

    def close(self) -> None:
        self._reader.close()
