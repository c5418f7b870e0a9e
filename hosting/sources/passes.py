"""A pass: one walk over files in order, shared by the readers of all the partitions found in them.

Finding the records of one key means parsing all records. So that N readers do not parse N times, they ride on one
pass: whoever needs records moves it on by a chunk, and what belongs to the others waits in their lanes. The
waiting is bounded: when one reader is so far ahead that the lanes overflow, the fullest lane leaves the pass and its
reader continues on a pass of its own, from the nearest mark. A file that is a partition of its own is a pass with one
lane.

Rejected: one filtered pass per reader (N parses) and an unbounded shared buffer (a partition that nobody reads
would fill the memory).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosting.sources.decoding import Bad, Decoder, Reading
from hosting.sources.parquet_files import ParquetFile
from hosting.sources.text_files import CsvFile, JsonLinesFile, RecordFile
from reliable_rx.errors import SourceFailed

BUFFERED_MAX = 65_536
PARTITIONS_MAX = 10_000
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

    @property
    def waiting(self) -> int:
        return len(self.values) - self.taken

    def take(self, count_max: int) -> list[Any]:
        """Remove and return the first values."""
        end = min(self.taken + count_max, len(self.values))
        values = self.values[self.taken : end]
        self.taken = end
        self.position += len(values)
        if end == len(self.values) or end > BUFFERED_MAX:
            del self.values[:end]
            self.taken = 0
        return values


class Pass:
    """One walk over *paths*. Used under its source's lock."""

    def __init__(
        self,
        paths: Sequence[Path],
        reading: Reading,
        marks: Marks,
        *,
        keys: frozenset[str] | None,
        buffered_max: int | None = BUFFERED_MAX,
    ) -> None:
        self.ended = False
        self.counts: dict[str, int] = {}
        self._paths = paths
        self._reading = reading
        self._marks = marks
        self._keys = keys
        self._buffered_max = buffered_max
        self._lanes: dict[str, Lane] = {}
        self._file: RecordFile | None = None
        self._file_index = 0
        self._decoder: Decoder | None = None
        self._begun = False
        self._failure: str | None = None

    def attach(self, key: str, position: int) -> Lane | None:
        """Give the reader of *key* a lane from *position* on, or None if this pass cannot serve it any more."""
        passed = self.counts.get(key, 0)
        if key in self._lanes or self._failure is not None or (self._begun and passed > position):
            return None
        lane = self._lanes[key] = Lane(key, position, skip=position - passed)
        return lane

    def detach(self, lane: Lane) -> bool:
        """Drop *lane*; return whether this was the last one, and the pass is closed."""
        if self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]
        lane.dropped = True
        lane.values = []
        if not self._lanes:
            self.close()
        return not self._lanes

    def advance(self, asking: Lane | None = None) -> bool:
        """Take one chunk into the lanes; return False where there is no more, for now or (`ended`) ever."""
        if self.ended:
            return False
        if self._failure is not None:
            raise SourceFailed(self._failure)
        self._begin()
        file = self._open()
        offset = file.offset
        self._marks.add(self._file_index, offset, self.counts)
        count, rows = file.chunk(self._skippable())
        if not count:
            return self._next_file()
        skipped = count - len(rows)
        if skipped:
            self._leave_behind(skipped)
        if rows:
            self._distribute(rows, lambda index: file.where(offset, skipped + index))
            self._make_room(asking)
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        if self._begun:
            return
        mark = self._marks.before({lane.key: lane.position for lane in self._lanes.values()})
        if mark is not None and self._lanes:
            self._file = open_records(self._paths[mark.file], self._reading, offset=mark.offset)
            self._file_index = mark.file
            self.counts = dict(mark.counts)
            for lane in self._lanes.values():
                lane.skip = lane.position - self.counts.get(lane.key, 0)
        self._begun = True

    def _open(self) -> RecordFile:
        if self._file is None:
            self._file = open_records(self._paths[self._file_index], self._reading)
            self._decoder = None
        return self._file

    def _next_file(self) -> bool:
        last = self._file_index == len(self._paths) - 1
        if last and self._reading.follow:
            return False
        self.close()
        if last:
            self.ended = True
            return False
        self._file_index += 1
        return True

    def _skippable(self) -> int:
        """How many records nobody wants: known without parsing where there are no keys, and so one lane."""
        if self._reading.partition_by is not None:
            return 0
        return min((lane.skip for lane in self._lanes.values()), default=0)

    def _leave_behind(self, count: int) -> None:
        for lane in self._lanes.values():
            lane.skip -= count
        self._count("", count)

    def _distribute(self, rows: Sequence[Any], where: Callable[[int], str]) -> None:
        decoder = self._decoder
        if decoder is None:
            path = self._paths[self._file_index]
            decoder = self._decoder = Decoder(self._reading, path, self._open().names)
        split, bad = decoder.split(rows)
        for key, part in split.items():
            lane = self._lanes.get(key)
            if lane is not None and lane.failure is None:
                failed = self._fill(lane, part, decoder)
                if failed is not None:
                    index = next(i for i, row in enumerate(rows) if row is part[failed[0]])
                    lane.failure = f"{where(index)}: {_reason(failed[1])}"
            self._count(key, len(part))
        if bad is not None:
            self._failure = f"{where(bad[0])}: {_reason(bad[1])}"
        self._check_keys(split)

    def _fill(self, lane: Lane, part: Sequence[Any], decoder: Decoder) -> Bad | None:
        start = lane.skip
        if start >= len(part):
            lane.skip -= len(part)
            return None
        lane.skip = 0
        values, bad = decoder.decode(part[start:] if start else part)
        lane.values += values
        return bad and (start + bad[0], bad[1])

    def _count(self, key: str, count: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + count

    def _check_keys(self, split: Mapping[str, Sequence[Any]]) -> None:
        path = self._paths[self._file_index]
        if self._keys is not None and not split.keys() <= self._keys:
            key = min(split.keys() - self._keys)
            self._failure = f"{path} holds a record of {key!r}, which is no declared partition; add it to `partitions`"
        if len(self.counts) > PARTITIONS_MAX:
            self._failure = f"{path} has over {PARTITIONS_MAX} keys; partition by something coarser"

    def _make_room(self, asking: Lane | None) -> None:
        """Let the fullest lanes go while too much waits."""
        if self._buffered_max is None or len(self._lanes) < 2:
            return
        while sum(lane.waiting for lane in self._lanes.values()) > self._buffered_max:
            others = [lane for lane in self._lanes.values() if lane is not asking]
            if not others:
                return
            self.detach(max(others, key=lambda lane: lane.waiting))


def open_records(path: Path, reading: Reading, *, offset: int = 0) -> RecordFile:
    """Open one file in its format."""
    if reading.format == "parquet":
        return ParquetFile(path, columns=reading.columns_read(), offset=offset)
    kind = CsvFile if reading.format == "csv" else JsonLinesFile
    return kind(path, follow=reading.follow, offset=offset)


def _reason(error: Exception) -> str:
    what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
    return f"{what}; mend this record, or the function that reads it"
