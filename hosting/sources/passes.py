"""A pass: one walk over files in order, shared by the readers of all the partitions found in them.

Finding the records of one key means parsing all records. So that N readers do not parse N times, they ride on one
pass: whoever needs records moves it on by a chunk, and what belongs to the others waits in their lanes. The
waiting is bounded: when one reader is so far ahead that the lanes overflow, the fullest lane leaves the pass and its
reader continues on a pass of its own, from the nearest mark. A file that is a partition of its own is a pass with one
lane.

What raises leaves a file, an unpacker or a parser at a place that nobody knows: asked again, some of them say that they
are at their end. So a pass in which something was raised is not gone on with. A followed file is the exception, but for
a bad record, which may have been mended: it is plain text, which is read at its offset, and must stay the file that was
opened.

Rejected: one filtered pass per reader (N parses) and an unbounded shared buffer (a partition that nobody reads
would fill the memory).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hosting.sources.bad_records import BadRecord
from hosting.sources.decoding import Decoder, Reading, shown
from hosting.sources.lanes import BUFFERED_MAX, Lane, Marks
from hosting.sources.parquet_files import ParquetFile
from hosting.sources.text_files import CsvFile, JsonLinesFile, RecordFile
from reliable_rx.class_of import is_a
from reliable_rx.errors import ReliableRxError, SourceFailed

PARTITIONS_MAX = 10_000
NO_KEY = "\0"
"""Under which records without a key are counted before the partitions are known."""


class Pass:
    """One walk over *paths*. Used under its source's lock."""

    def __init__(
        self,
        paths: Sequence[Path],
        reading: Reading,
        marks: Marks,
        *,
        keys: Sequence[str] | None,
        buffered_max: int | None = BUFFERED_MAX,
        extents: dict[Path, int] | None = None,
    ) -> None:
        self.ended = False
        self.paused = False
        """Whether the last chunk was none, as a long stretch had no record."""
        self.is_broken = False
        """Whether something was raised in the midst of a chunk: who rides on it begins anew where he is."""
        self.passed = 0
        """How much of the files it has gone through."""
        self.counts: dict[str, int] = {}
        self._paths = paths
        self._reading = reading
        self._marks, self._extents = marks, extents
        self._keys = None if keys is None else frozenset(keys)
        self._first_key = keys[0] if keys else NO_KEY
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
        unfit = self.is_broken or self._failure is not None
        if key in self._lanes or unfit or (self._begun and passed > position):
            return None
        lane = self._lanes[key] = Lane(key, position, skip=position - passed)
        return lane

    def detach(self, lane: Lane) -> bool:
        """Drop *lane*; return whether this was the last one, and the pass is closed."""
        if self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]
        lane.dropped = True
        lane.values, lane.rejected = [], deque()
        if not self._lanes:
            self.close()
        return not self._lanes

    def advance(self, asking: Lane | None = None) -> bool:
        """Take one chunk into the lanes; return False where there is no more, for now or (`ended`) ever."""
        if self.ended:
            return False
        try:
            if self._failure is not None:
                raise SourceFailed(self._failure)
            return self._advanced(asking)
        except BaseException as raised:
            if self._failure is not None or not (self._reading.follow and is_a(raised, ReliableRxError)):
                self.is_broken = True
                self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _advanced(self, asking: Lane | None) -> bool:
        self._begin()
        file = self._open()
        self._marks.add(self._file_index, file.offset, self.counts)
        before = file.offset
        found = file.chunk(self._skippable())
        self.paused = found is None
        self.passed += file.offset - before
        if found is None:
            return True
        count, rows = found
        if not count:
            if file.names:  # a header may name other columns than those asked for, whether or not a record follows
                self._decoder_of(file)
            return self._next_file()
        if isinstance(rows, BadRecord):
            self._take_bad(file, rows)
        else:
            skipped = count - len(rows)
            if skipped:
                self._leave_behind(skipped)
            if rows:
                self._distribute(file, rows, skipped)
        self._make_room(asking)
        return True

    def _begin(self) -> None:
        if self._begun:
            return
        mark = self._marks.before({lane.key: lane.position for lane in self._lanes.values()})
        if mark is not None and self._lanes:
            self._file = self._records(mark.file, mark.offset)
            self._file_index = mark.file
            self.counts = dict(mark.counts)
            for lane in self._lanes.values():
                lane.skip = lane.position - self.counts.get(lane.key, 0)
        self._begun = True

    def _records(self, index: int, offset: int = 0) -> RecordFile:
        """Open a file; one before the last is to grow no more, so its last line is whole."""
        follow = self._reading.follow and index == len(self._paths) - 1
        return open_records(self._paths[index], self._reading, follow=follow, offset=offset)

    def _open(self) -> RecordFile:
        if self._file is None:
            self._file = self._records(self._file_index)
            self._decoder = None
        return self._file

    def _next_file(self) -> bool:
        last = self._file_index == len(self._paths) - 1
        if last and self._reading.follow:
            return False
        if self._file is not None and self._extents is not None:
            self._extents[self._paths[self._file_index]] = self._file.extent
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

    def _distribute(self, file: RecordFile, rows: Sequence[Any], skipped: int) -> None:
        decoder = self._decoder_of(file)
        split = decoder.split(rows)
        values: dict[str, Sequence[Any]] = {}
        whole = split is not None and not self._odd(split)
        for key, part in split.items() if split is not None and whole else ():
            lane = self._lanes.get(key)
            if lane is not None and lane.failure is None:
                found = decoder.decode(part[lane.skip :] if lane.skip else part)
                if found is None:
                    whole = False
                    break
                values[key] = found
        if split is None or not whole:
            self._distribute_singly(file, file.again(rows, skipped), skipped, decoder)
            return
        for key, part in split.items():
            self._count(key, len(part))
            if key in values:
                lane = self._lanes[key]
                lane.skip -= min(lane.skip, len(part))
                lane.values += values[key]
        self._check_count()

    def _decoder_of(self, file: RecordFile) -> Decoder:
        if self._decoder is None:
            self._decoder = Decoder(self._reading, self._paths[self._file_index], file.names)
        return self._decoder

    # -- records that cannot be read

    def _distribute_singly(self, file: RecordFile, rows: Sequence[Any], skipped: int, decoder: Decoder) -> None:
        """Take rows one by one, in their order: some are none, or nobody's.

        They come fresh from the file: the functions that read them may have changed the ones they were given.
        """
        raws: Sequence[Any] = ()
        for index, row in enumerate(rows):
            key, item, reason = decoder.keyed(row)
            if not reason and self._keys is not None and key not in self._keys:
                reason = f"{shown(key)} is no declared partition, add it to `partitions`"
            if reason and self._reading.fails:
                self._failure = self._failed(file.where(skipped + index), reason)
                return
            key = self._odd_key if reason else key
            self._count(key, 1)
            lane = self._lanes.get(key)
            if lane is None or lane.failure is not None:
                continue
            if lane.skip:
                lane.skip -= 1
                continue
            if not reason:
                item, reason = decoder.value(item)
            if not reason:
                lane.values.append(item)
            elif self._reading.fails:
                lane.failure = self._failed(file.where(skipped + index), reason)
            else:
                raws = raws or file.again(rows, skipped)
                lane.reject(decoder.raw(raws[index]), f"{file.place(skipped + index)}: {reason}")
        self._check_count()

    def _take_bad(self, file: RecordFile, record: BadRecord) -> None:
        """Take a record that is none: with keys it is the first partition's, as it has no key."""
        if self._reading.fails:
            self._failure = self._failed(file.where(0), record.reason)
            return
        self._count(self._odd_key, 1)
        lane = self._lanes.get(self._odd_key)
        if lane is not None and lane.skip:
            lane.skip -= 1
        elif lane is not None:
            lane.reject(record.raw, f"{record.place}: {record.reason}")

    @property
    def _odd_key(self) -> str:
        return "" if self._reading.partition_by is None else self._first_key

    def _odd(self, split: Mapping[str, Sequence[Any]]) -> bool:
        return self._keys is not None and not split.keys() <= self._keys

    def _failed(self, where: str, reason: str) -> str:
        return f"{where}: {reason}; mend this record, or read past it with on_bad_record='skip' or 'dead_letter'"

    def _count(self, key: str, count: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + count

    def _check_count(self) -> None:
        if len(self.counts) > PARTITIONS_MAX:
            path = self._paths[self._file_index]
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


def open_records(path: Path, reading: Reading, *, follow: bool, offset: int = 0) -> RecordFile:
    """Open one file in its format."""
    if reading.format == "parquet":
        return ParquetFile(path, reading, offset=offset)
    kind = CsvFile if reading.format == "csv" else JsonLinesFile
    return kind(path, follow=follow, fails=reading.fails, offset=offset)
