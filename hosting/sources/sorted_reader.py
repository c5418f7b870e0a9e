"""One partition of files in the order of a function of its values: loaded at the first fetch, shared while it is read.

Records that cannot be read, or have no key, have no place in the order: their ids come behind those of all values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from hosting.engine.blame import blamed
from hosting.sources.bad_records import reason_of
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.reliable import Batch, Reader, Rejected

FETCH_MAX = 65_536


class Sorted:
    """All values of one partition in order, and what could not be read behind them."""

    def __init__(self, values: list[Any], rejected: list[Rejected]) -> None:
        self.values, self.rejected = values, rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorting:
    """What is sorted: the partition of a source (*name*), its records in the order of the files, and the *key*."""

    name: str
    partition: str
    unsorted: Callable[[], Reader]
    key: Callable[[Any], Any]
    loaded: MutableMapping[str, Sorted]
    lock: threading.RLock
    fails: bool = True
    """Whether a value without a key fails the source; else it is a record that cannot be read."""

    def load(self) -> Sorted:
        """Return the partition in its order. *Raises* `SourceFailed` if *key* does."""
        with self.lock:
            found = self.loaded.get(self.partition)
            if found is None:
                found = self.loaded[self.partition] = self._sort()
            return found

    def _sort(self) -> Sorted:
        values: list[Any] = []
        rejected: list[Rejected] = []
        with closing(self.unsorted()) as reader:
            ended = False
            while not ended:
                batch = reader.fetch(FETCH_MAX)
                values += batch.values
                rejected += batch.rejected
                ended = batch.ended
        found = values if self.fails else self._with_keys(values, rejected)
        try:
            found.sort(key=self.key)
        except BaseException as raised:
            error = blamed(raised)
            message = f"sort_by failed on partition {self.partition!r} of {self.name}: {reason_of(error)}"
            raise SourceFailed(
                f"{message}; give it a key for every value", source=self.name, partition=self.partition
            ) from error
        behind = enumerate(rejected, len(found))
        return Sorted(found, [replace(each, position=position) for position, each in behind])

    def _with_keys(self, values: list[Any], rejected: list[Rejected]) -> list[Any]:
        """Return what has a key; what has none is put among the *rejected*."""
        found = list[Any]()
        for value in values:
            try:
                self.key(value)
            except BaseException as raised:
                rejected.append(Rejected(0, value, f"its key of order cannot be read: {reason_of(blamed(raised))}"))
            else:
                found.append(value)
        return found


class SortedReader:
    """One sorted partition, from a record on."""

    def __init__(self, sorting: Sorting, at: int) -> None:
        self._sorting = sorting
        self._position = at
        self._sorted: Sorted | None = sorting.loaded.get(sorting.partition)

    def fetch(self, count_max: int, /) -> Batch:
        if self._sorted is None:
            self._sorted = self._sorting.load()
        values, rejected = self._sorted.values, self._sorted.rejected
        first, count = self._position, len(values)
        end = count + len(rejected)
        if first > end:
            message = f"partition {self._sorting.partition!r} of {self._sorting.name} has {plural(end, 'record')}"
            raise PositionUnavailable(
                f"{message}, and record {first} is wanted; put the whole file back", wanted=first, first=0, end=end
            )
        if first < count or not rejected:
            batch = Batch(first, values[first : first + count_max])
        else:
            bad = tuple(rejected[first - count : first - count + max(0, count_max)])
            batch = Batch(first + len(bad), (), skipped=len(bad), rejected=bad)
        self._position = batch.next
        return replace(batch, ended=batch.next == end)

    def acknowledge(self, n: int, /) -> None:
        """Do nothing: a file keeps its records anyway."""

    def close(self) -> None:
        self._sorted = None
