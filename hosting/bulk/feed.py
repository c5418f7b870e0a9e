"""The events of one partition from a position up to another, some thousand at a time, waited for where they are due."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hosting.reports.log import LOG
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Batch, Reader

IDLE_PAUSE_S = 0.02


class Stopped(Exception):
    """The export was told to stop; what is whole stays."""


@dataclass(slots=True)
class Chunk:
    """Some events with their ids, which grow but may leave some out."""

    ids: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class Feed:
    """Reads *partition* from id *position* up to *until*, or to its end if that is None.

    *Raises* `SourceFailed` if events are missing, or none comes for *stall_s*; `Stopped` once *stopped* says so.
    """

    def __init__(
        self,
        reader: Reader,
        partition: str,
        position: int,
        *,
        until: int | None,
        stall_s: float,
        stopped: Callable[[], bool],
    ) -> None:
        self._reader, self._partition = reader, partition
        self.position = position
        self.ended = False
        self.error: Exception | None = None
        self.rejected = 0
        self._until, self._stall_s, self._stopped = until, stall_s, stopped

    @property
    def done(self) -> bool:
        """Whether everything has been given."""
        return self.ended or (self._until is not None and self.position >= self._until)

    def chunk(self, count_max: int) -> Chunk:
        """Give *count_max* events, fewer only at the end."""
        chunk = Chunk()
        while len(chunk.values) < count_max and not self.done:
            values = self._fetch(count_max - len(chunk.values))
            chunk.ids += range(self.position, self.position + len(values))
            chunk.values += values
            self.position += len(values)
        if self.done and self.rejected:
            LOG.warning(
                "partition %s: %s records could not be read and are left out", self._partition, f"{self.rejected:,}"
            )
            self.rejected = 0
        return chunk

    def _fetch(self, count_max: int) -> Sequence[Any]:
        """Return the events from the position on; the position has moved over ids that hold nothing."""
        give_up = time.monotonic() + self._stall_s
        while not self._stopped():
            batch = self._reader.fetch(count_max)
            self.rejected += len(batch.rejected)
            values = self._beyond_doubt(batch)
            if self.position + len(values) >= batch.next:
                self.ended, self.error = batch.ended or batch.error is not None, batch.error
            if values or self.done:
                return values
            if time.monotonic() >= give_up:
                raise failed(self._partition, self.position, f"no event for {self._stall_s:g} s; say until where")
            time.sleep(IDLE_PAUSE_S)
        raise Stopped

    def _beyond_doubt(self, batch: Batch) -> Sequence[Any]:
        """Return what of *batch* is new and wanted."""
        if batch.first - batch.skipped > self.position:
            raise failed(self._partition, self.position, f"the source goes on at {batch.first:,}; events were lost")
        values = batch.values[self.position - batch.first :] if batch.first < self.position else batch.values
        self.position = max(self.position, batch.first)
        return values if self._until is None else values[: max(0, self._until - self.position)]


def failed(partition: str, position: int, why: str) -> SourceFailed:
    """Return the error that names where it happened."""
    message = f"partition {partition!r}, position {position:,}: {why}"
    return SourceFailed(message, partition=partition, position=position)
