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
from dataclasses import dataclass

from checkpoint.files import create_durably
from reliable_rx.probes import probe
from spark_bridge.log.disk import LogDisk
from spark_bridge.log.manifest import UNITS, Manifest, Unit
from spark_bridge.log.names import UNFINISHED, manifest_name, reader_name, reader_of
from spark_bridge.log.refusal import LogRefused
from spark_bridge.log.view import LogView


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
        create_durably(disk, reader_name(reader, partition), Held(unit, at).encoded())


def acknowledge(disk: LogDisk, reader: str, partition: int, upto: Held) -> None:
    """Say that *reader* no longer needs what is before *upto* of *partition*."""
    name = reader_name(reader, partition)
    disk.write(name + UNFINISHED, upto.encoded())
    disk.rename(name + UNFINISHED, name)


def readers_on(disk: LogDisk) -> list[str]:
    """Name the readers that batches are kept for."""
    return sorted({found[0] for found in map(reader_of, disk.names()) if found})


def release_on(disk: LogDisk, reader: str) -> None:
    """Forget *reader*: nothing is kept for it any more."""
    for name in disk.names():
        found = reader_of(name)
        if found is not None and found[0] == reader:
            disk.remove(name)
    disk.sync_directory()


def retain(view: LogView) -> int:
    """Forget the oldest batches that every reader has acknowledged; return how many. Without readers all is kept."""
    done = _positions(view.disk)
    forgotten = 0
    for number in view.numbers()[:-1] if done else ():
        manifest = view.manifest(number)
        if manifest is not None and not all(_covers(each, manifest) for each in done.values()):
            break
        if manifest is not None:
            probe("spark.before_forget")
            _forget(view.disk, manifest)
            forgotten += 1
    return forgotten


def _positions(disk: LogDisk) -> dict[str, dict[int, Held]]:
    found: dict[str, dict[int, Held]] = defaultdict(dict)
    for who in filter(None, map(reader_of, disk.names())):
        position = held(disk, *who)
        if position is not None:
            found[who[0]][who[1]] = position
    return found


def _covers(done: dict[int, Held], manifest: Manifest) -> bool:
    for partition in {partition for part in manifest.parts for partition, _ in part.chunks}:
        position = done.get(partition)
        if position is None or position.next < manifest.after(position.unit, partition):
            return False
    return True


def _forget(disk: LogDisk, manifest: Manifest) -> None:
    disk.remove(manifest_name(manifest.number))
    disk.sync_directory()
    probe("spark.forgetting")
    for name in manifest.files:
        disk.remove(name)
