"""What a log holds, as anyone may see it who does not write: the manifests, by number.

Manifests that are kept have consecutive numbers, the newest always among them, alone or many in one file
(`compaction`). A listing taken while others are added may show a later one without an earlier one, and a power loss may
have kept one that was to be forgotten without its successor; so the log begins where, counted down from the newest, a
manifest is really not there: in none of the files that it can be in, asked in the order in which it moves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from reliable_rx.errors import CheckpointRefused, PositionUnavailable
from spark_bridge.micro_batch_log.disk import LogDisk
from spark_bridge.micro_batch_log.identity import Identity, read_identity
from spark_bridge.micro_batch_log.manifest import Manifest, Part, Unit, decoded, inlined
from spark_bridge.micro_batch_log.names import homes, manifest_name, span_name, span_numbers
from spark_bridge.micro_batch_log.spans import Span, decoded_span

CACHED_MAX, SPANS_OPEN_MAX = 256, 4
LOOKS_MAX = 100


class LogView:
    """The manifests of the log on *disk*. Safe to use from many threads."""

    def __init__(self, disk: LogDisk, *, where: str) -> None:
        self.disk, self.where = disk, where
        self._cached: OrderedDict[int, Manifest] = OrderedDict()
        self._spans: OrderedDict[range, Span] = OrderedDict()
        self._latest: tuple[Manifest, memoryview] | None = None
        self._lock = threading.Lock()
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity | None:
        """What the log is; None while nobody has made it."""
        if self._identity is None:
            self._identity = read_identity(self.disk, where=self.where)
        return self._identity

    def kept(self) -> list[range]:
        """Return the numbers of the manifests that are kept, file by file."""
        listed = filter(None, map(span_numbers, self.disk.names()))
        by_end: dict[int, range] = {}
        for numbers in sorted(listed, key=len):
            by_end[numbers.stop] = numbers
        end, found = max(by_end, default=0), list[range]()
        while end and (home := by_end.get(end) or self._home(end - 1)) is not None:
            found.append(range(home.start, end))
            end = home.start
        return found[::-1]

    def numbers(self) -> range:
        """Return the numbers of the manifests that are kept."""
        kept = self.kept()
        return range(kept[0].start, kept[-1].stop) if kept else range(0)

    def _home(self, number: int) -> range | None:
        """Return the numbers in the file that has manifest *number* now."""
        return next((home for home in homes(number) if self.disk.size(span_name(home)) is not None), None)

    def exists(self, number: int) -> bool:
        """Whether manifest *number* is there now."""
        return self._home(number) is not None

    def manifest(self, number: int) -> Manifest | None:
        """Return manifest *number*, None if it is not there. *Raises* `CheckpointRefused` for a damaged one."""
        with self._lock:
            if number in self._cached:
                self._cached.move_to_end(number)
                return self._cached[number]
        data = self.encoded(number)
        if data is None:
            return None
        found, blob = decoded(data, where=f"{self.where}, {manifest_name(number)}")
        if found.number != number:
            what = f"manifest {number} says that it is {found.number}"
            raise CheckpointRefused(f"{self.where}: {what}", what=what, where=self.where)
        with self._lock:
            self._latest = found, blob
            self._cached[number] = found
            while len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)
        return found

    def encoded(self, number: int) -> bytes | None:
        """Return manifest *number* as it was written, None if it is not there."""
        return next(self._encoded(number), None)

    def _encoded(self, number: int) -> Iterator[bytes]:
        """Yield what each file says of it, the upper ones first, which may have taken rows in.

        Looked for in the order in which it moves; but one that is alone though it has moved is of a driver that slept.
        """
        alone, *spans = homes(number)
        with self._lock:
            opened = [self._spans[home] for home in spans if home in self._spans]
        for span in opened:
            yield span.manifest(number)
        data = self.disk.read(span_name(alone))
        for home in spans:
            if (found := self.span(home)) is not None:
                yield found.manifest(number)
        if data is not None:
            yield data

    def inline_rows(self, number: int, part: Part) -> bytes | None:
        """Return the rows of *part*, a part of manifest *number*, that lie in a file of manifests; None if none do."""
        for manifest, blob in self._decoded(number):
            for each in manifest.parts:
                if each.is_inline and (each.task, each.attempt) == (part.task, part.attempt):
                    return inlined(each, blob).inline
        return None

    def _decoded(self, number: int) -> Iterator[tuple[Manifest, memoryview]]:
        """Yield manifest *number* with its rows, as it was read just now if it was, then as it is in each file."""
        latest = self._latest
        if latest is not None and latest[0].number == number:
            yield latest
        for data in self._encoded(number):
            yield decoded(data, where=f"{self.where}, {manifest_name(number)}")

    def files_of(self, numbers: range) -> list[str]:
        """Return the files of rows that the manifests with these *numbers*, all in one file, name."""
        if len(numbers) > 1 and (span := self.span(numbers)) is not None:
            return list(span.files)
        return [file for number in numbers if (found := self.manifest(number)) is not None for file in found.files]

    def span(self, numbers: range) -> Span | None:
        """Return the file that has just the manifests with these *numbers*, None if it is not there."""
        with self._lock:
            if numbers in self._spans:
                self._spans.move_to_end(numbers)
                return self._spans[numbers]
        data = self.disk.view(name := span_name(numbers))
        if data is None:
            return None
        found = decoded_span(data, numbers, where=f"{self.where}, {name}")
        with self._lock:
            self._spans[numbers] = found
            while len(self._spans) > SPANS_OPEN_MAX:
                self._spans.popitem(last=False)
        return found

    def newest(self) -> Manifest | None:
        """Return the newest manifest."""
        for kept in self._looks():
            found = self.manifest(kept[-1][-1])
            if found is not None:
                return found
        return None

    def _looks(self) -> Iterator[list[range]]:
        """Yield what is kept, again where some of it had been forgotten before it was read.

        *Raises* `CheckpointRefused` if it goes on to be listed and cannot be read.
        """
        before, times = list[range](), 0
        while kept := self.kept():
            before, times = kept, times + 1 if kept == before else 0
            if times == LOOKS_MAX:
                what = f"manifest {kept[0].start} or {kept[-1][-1]} is listed and is not there"
                raise CheckpointRefused(f"{self.where}: {what}; bring the log back", what=what, where=self.where)
            yield kept

    def bounds(self, partition: int, unit: Unit) -> tuple[int, int]:
        """Return the first id of *partition* that is kept, and the one behind the last."""
        for kept in self._looks():
            first, newest = self._first(kept), self.manifest(kept[-1][-1])
            if first is not None and newest is not None:  # else it has been forgotten since it was listed
                return first.before[unit][partition], newest.after(unit, partition)
        return 0, 0

    def _first(self, kept: list[range]) -> Manifest | None:
        """Return the first manifest from which on all rows are there.

        What was forgotten while it was put together stays with the others in their file, perhaps without its rows.
        """
        span = self.span(kept[0]) if len(kept[0]) > 1 else None
        if span is None or not span.files:
            return self.manifest(kept[0].start)
        listed = set(self.disk.names())
        for number in reversed(kept[0]):
            found, _ = decoded(span.manifest(number), where=f"{self.where}, {manifest_name(number)}")
            if not listed.issuperset(found.files):
                return self.manifest(number + 1)
        return self.manifest(kept[0].start)

    def bytes_held(self) -> int:
        """Return how much the rows of all batches take that are kept, but for the newest, which always is."""
        for kept in self._looks():
            first, newest = self.manifest(kept[0].start), self.manifest(kept[-1][-1])
            if first is not None and newest is not None:
                return newest.bytes_before - first.bytes_before
        return 0

    def locate(self, partition: int, unit: Unit, at: int) -> int:
        """Return the number of the manifest that holds id *at*, or will. *Raises* `PositionUnavailable`."""
        first, end = self.bounds(partition, unit)
        if not first <= at <= end:
            raise unavailable(self.where, partition, at, first, end)
        numbers = self.numbers()
        low, high = numbers.start, numbers.stop
        while low < high:
            middle = (low + high) // 2
            found = self.manifest(middle)
            if found is None or found.after(unit, partition) <= at:  # none: forgotten meanwhile, so it lies before
                low = middle + 1
            else:
                high = middle
        return low


def unavailable(where: str, partition: int, at: int, first: int, end: int) -> PositionUnavailable:
    gone = f"what was before {first:,} has been forgotten, as every reader had acknowledged it"
    beyond = f"it ends at {end:,}, so it is another log or an older copy"
    what = gone if at < first else beyond if at > end else "its rows are not there any more"
    message = f"{where}, partition {partition}: id {at:,} is wanted, and {what}; start at {first:,} to {end:,}"
    return PositionUnavailable(message, wanted=at, first=first, end=end)
