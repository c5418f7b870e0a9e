"""Reading one partition of a log onwards from a position: chunk by chunk, over the edges of batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from reliable_rx.errors import PositionUnavailable
from spark_bridge.micro_batch_log.manifest import Manifest, Part, Place, Unit
from spark_bridge.micro_batch_log.parts import open_part
from spark_bridge.micro_batch_log.view import LogView, unavailable


@dataclass(frozen=True, slots=True)
class Chunk:
    """An Arrow record batch and the id of its first row, or its own id where ids count chunks."""

    first: int
    rows: Any

    def after(self, unit: Unit) -> int:
        return self.first + (self.rows.num_rows if unit == "rows" else 1)


class Cursor:
    """Give the chunks of *partition* from id *at* on; the first may begin before it.

    *Raises* `PositionUnavailable` if *at* is not there, or what follows has been forgotten.
    """

    def __init__(self, view: LogView, partition: int, unit: Unit, at: int) -> None:
        self._view, self._partition, self._unit = view, partition, unit
        self._number = view.locate(partition, unit, at)
        self._at = at
        self._waiting: deque[tuple[Manifest, Place]] = deque()
        self._open: tuple[tuple[int, Part], Any] | None = None
        newest = view.newest()
        self.ended = None if newest is None else newest.ended
        """Behind what is there now: whether the log has ended (`Manifest.ended`)."""

    def next(self) -> Chunk | None:
        """Return the next chunk, None where the log ends now; if that fails, nothing has been taken."""
        chunk = self.peek()
        if chunk is not None:
            self.advance()
        return chunk

    def peek(self) -> Chunk | None:
        """Return the next chunk without taking it."""
        while not self._waiting:
            if not self._read_manifest():
                return None
        manifest, place = self._waiting[0]
        return Chunk(place.first, self._file(manifest, place).get_batch(place.index))

    def advance(self) -> None:
        """Take the chunk that `peek` has shown."""
        _, place = self._waiting.popleft()
        self._at = place.first + place.count

    def has_more(self) -> bool:
        """Whether something is there behind what has been given, as far as a look at the disk can say."""
        return bool(self._waiting) or self._view.exists(self._number)

    def _read_manifest(self) -> bool:
        manifest = self._view.manifest(self._number)
        if manifest is None:
            if self._number and self._view.exists(self._number - 1):  # the newest, which is always kept
                return False
            self._number = self._view.locate(self._partition, self._unit, self._at)
            return self._view.exists(self._number)
        if manifest.before[self._unit][self._partition] > self._at:  # forgotten since it was looked for
            raise self._unavailable(self._at)
        places = manifest.places(self._partition, self._unit)
        self._waiting.extend((manifest, place) for place in places if place.first + place.count > self._at)
        self._number += 1
        self.ended = manifest.ended if self.ended is None else self.ended
        return True

    def _file(self, manifest: Manifest, place: Place) -> Any:
        key = (manifest.number, place.part)
        if self._open is None or self._open[0] != key:
            file = open_part(self._view, manifest, place.part)
            if file is None:
                raise self._unavailable(place.first)
            self._open = (key, file)
        return self._open[1]

    def _unavailable(self, at: int) -> PositionUnavailable:
        first, end = self._view.bounds(self._partition, self._unit)
        return unavailable(self._view.where, self._partition, at, first, end)
