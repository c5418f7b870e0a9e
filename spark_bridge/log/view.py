"""What a log holds, as anyone may see it who does not write: the manifests, by number.

Manifests that are kept have consecutive numbers, the newest always among them. A listing taken while others are added
may show a later one without an earlier one, and a power loss may have kept one that was to be forgotten without its
successor; so the log begins where, counted down from the newest, a manifest is really not there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from reliable_rx.errors import CheckpointRefused, PositionUnavailable
from spark_bridge.log.disk import LogDisk
from spark_bridge.log.identity import Identity, read_identity
from spark_bridge.log.manifest import Manifest, Unit, decoded
from spark_bridge.log.names import manifest_name, manifest_number

CACHED_MAX = 256


class LogView:
    """The manifests of the log on *disk*. Safe to use from many threads."""

    def __init__(self, disk: LogDisk, *, where: str) -> None:
        self.disk, self.where = disk, where
        self._cached: OrderedDict[int, Manifest] = OrderedDict()
        self._lock = threading.Lock()
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity | None:
        """What the log is; None while nobody has made it."""
        if self._identity is None:
            self._identity = read_identity(self.disk, where=self.where)
        return self._identity

    def numbers(self) -> range:
        """Return the numbers of the manifests that are kept."""
        listed = {number for name in self.disk.names() if (number := manifest_number(name)) is not None}
        if not listed:
            return range(0)
        first = newest = max(listed)
        while first and (first - 1 in listed or self.exists(first - 1)):
            first -= 1
        return range(first, newest + 1)

    def exists(self, number: int) -> bool:
        """Whether manifest *number* is there now."""
        return self.disk.size(manifest_name(number)) is not None

    def manifest(self, number: int) -> Manifest | None:
        """Return manifest *number*, None if it is not there. *Raises* `CheckpointRefused` for a damaged one."""
        with self._lock:
            if number in self._cached:
                self._cached.move_to_end(number)
                return self._cached[number]
        data = self.disk.read(manifest_name(number))
        if data is None:
            return None
        found, _ = decoded(data, where=f"{self.where}, {manifest_name(number)}")
        if found.number != number:
            what = f"manifest {number} says that it is {found.number}"
            raise CheckpointRefused(f"{self.where}: {what}", what=what, where=self.where)
        with self._lock:
            self._cached[number] = found
            while len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)
        return found

    def newest(self) -> Manifest | None:
        """Return the newest manifest."""
        while numbers := self.numbers():
            found = self.manifest(numbers[-1])
            if found is not None:
                return found
        return None

    def bounds(self, partition: int, unit: Unit) -> tuple[int, int]:
        """Return the first id of *partition* that is kept, and the one behind the last."""
        while numbers := self.numbers():
            first, newest = self.manifest(numbers[0]), self.manifest(numbers[-1])
            if first is not None and newest is not None:  # else it has been forgotten since it was listed
                return first.before[unit][partition], newest.after(unit, partition)
        return 0, 0

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
    what = gone if at < first else f"it ends at {end:,}"
    message = f"{where}, partition {partition}: id {at:,} is wanted, and {what}; start at {first:,} to {end:,}"
    return PositionUnavailable(message, wanted=at, first=first, end=end)
