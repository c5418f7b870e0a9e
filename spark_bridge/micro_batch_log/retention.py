"""Who has read how far, and forgetting what all have acknowledged.

Every reader has a name and, per partition, a small file with its position. The first is written durably before anything
is read: if a power loss took it, others would decide without it. Later ones only replace it, unsynced: an older
position, or a file that cannot be read, keeps too much and never too little. Batches are forgotten whole, the oldest
first; the manifest goes before the rows, so that nobody can see a batch without rows, and what a crash leaves of these
is swept by the driver. The newest batch always stays, for it says where the next one begins.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from reliable_rx.failpoints import probe
from spark_bridge.micro_batch_log.disk import LogDisk
from spark_bridge.micro_batch_log.errors import LogRefused
from spark_bridge.micro_batch_log.manifest import UNITS, Manifest, Unit
from spark_bridge.micro_batch_log.names import homes, reader_name, reader_of, span_numbers
from spark_bridge.micro_batch_log.view import LogView


@dataclass(frozen=True, slots=True)
class Held:
    """How far one reader has come in one partition: *next* is the first id that it still needs."""

    unit: Unit
    next: int

    def encoded(self) -> bytes:
        return json.dumps({"unit": self.unit, "next": self.next}).encode()


def held(disk: LogDisk, reader: str, partition: int) -> Held | None:
    """Return how far *reader* has come, None if it has not been here; a file that is torn says nothing is done."""
    data = disk.read(reader_name(reader, partition))
    if data is None:
        return None
    try:
        body = json.loads(data)
        if body["unit"] in UNITS:
            return Held(body["unit"], int(body["next"]))
    except (ValueError, KeyError, TypeError):
        pass
    return Held("rows", 0)


def register(disk: LogDisk, reader: str, partition: int, at: int, unit: Unit, *, where: str) -> None:
    """Keep what *reader* has not read of *partition*, from id *at* on. *Raises* `LogRefused` for another unit."""
    found = held(disk, reader, partition)
    if found is not None and found.unit != unit and found.next:
        message = f"{where}: reader {reader!r} counts {found.unit}; to count {unit}, choose another name"
        raise LogRefused(message, where=where, found=found.unit, wanted=unit)
    if found is None or found.next != at or found.unit != unit:
        disk.replace(reader_name(reader, partition), Held(unit, at).encoded(), durably=True)


def acknowledge(disk: LogDisk, reader: str, partition: int, upto: Held) -> None:
    """Say that *reader* no longer needs what is before *upto* of *partition*."""
    disk.replace(reader_name(reader, partition), upto.encoded(), durably=False)


def readers_on(disk: LogDisk) -> list[str]:
    """Name the readers that batches are kept for."""
    return sorted({found[0] for found in map(reader_of, disk.names()) if found})


def release_on(disk: LogDisk, reader: str) -> None:
    """Forget *reader*: nothing is kept for it any more."""
    for name in disk.names():
        found = reader_of(name)
        if found is not None and found[0] == reader:
            disk.remove(name)
    disk.settle()


def retain(view: LogView) -> int:
    """Forget the oldest batches that every reader has acknowledged; return how many. Without readers all is kept."""
    done = _positions(view.disk)
    going = list(_acknowledged(view, done)) if done else []
    if not going:
        return 0
    probe("spark.before_forget")
    _forget(view, range(going[0].start, going[-1].stop), [file for numbers in going for file in view.files_of(numbers)])
    return sum(map(len, going))


def _acknowledged(view: LogView, done: dict[str, dict[int, Held]]) -> Iterator[range]:
    """Yield what is in one file each and can go, the oldest first."""
    for numbers in view.kept()[:-1]:
        first, last = view.manifest(numbers[0]), view.manifest(numbers[-1])
        if first is None or last is None:
            continue  # somebody else forgets
        whole = numbers in homes(numbers.start)  # else the file has been made since the listing
        if not whole or not all(_covers(each, first, last) for each in done.values()):
            return
        yield numbers


def is_wanted(view: LogView, numbers: range) -> bool:
    """Whether the manifests with these *numbers* are still of the log, and some reader may need the last of them."""
    if numbers[-1] not in view.numbers():
        return False
    first, last = view.manifest(numbers[0]), view.manifest(numbers[-1])
    done = _positions(view.disk)
    return not done or first is None or last is None or not all(_covers(each, first, last) for each in done.values())


def _positions(disk: LogDisk) -> dict[str, dict[int, Held]]:
    found: dict[str, dict[int, Held]] = defaultdict(dict)
    for who in filter(None, map(reader_of, disk.names())):
        position = held(disk, *who)
        if position is not None:
            found[who[0]][who[1]] = position
    return found


def _covers(done: dict[int, Held], first: Manifest, last: Manifest) -> bool:
    """Whether a reader that stands at *done* has all rows from *first* to *last*."""
    for partition, (before, after) in enumerate(zip(first.before["rows"], last.all_after()["rows"], strict=True)):
        position = done.get(partition)
        if before < after and (position is None or position.next < last.after(position.unit, partition)):
            return False
    return True


def _forget(view: LogView, going: range, files: list[str]) -> None:
    for name in sorted(view.disk.names()):
        numbers = span_numbers(name)
        if numbers is not None and numbers.start >= going.start and numbers.stop <= going.stop:
            view.disk.remove(name)
    view.disk.settle()
    probe("spark.forgetting")
    if not any(view.exists(number) for number in (going[0], going[-1])):  # else they have just been put together
        for name in files:
            view.disk.remove(name)
