"""Micro-batch logs without Spark: small batches, tasks that wrote them, a directory that loses what was not synced."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from reliable_rx.errors import StoreUnavailable
from reliable_rx.testing.faults import SimulatedDisk
from spark_bridge.micro_batch_log import names
from spark_bridge.micro_batch_log.columns import PARTITION, canonical
from spark_bridge.micro_batch_log.cursor import Cursor
from spark_bridge.micro_batch_log.disk import LinkedFiles, RealLogDisk, new_log_disk
from spark_bridge.micro_batch_log.identity import Identity, claim
from spark_bridge.micro_batch_log.manifest import Part, digest_of
from spark_bridge.micro_batch_log.names import RowsName
from spark_bridge.micro_batch_log.parts import write_part
from spark_bridge.micro_batch_log.view import LogView
from spark_bridge.micro_batch_log.writer import Committed, LogWriter

QUERY, OTHER = "a" * 32, "b" * 32
SCHEMA = pa.schema([("n", pa.int64())])
WHERE = "the log"
State = Mapping[str, bytes]


class SimulatedLogDisk(LinkedFiles, SimulatedDisk):
    """A `LogDisk` whose crash states can be walked through."""

    where, directory = WHERE, None

    def names(self) -> Sequence[str]:
        return list(self._names)

    def size(self, name: str) -> int | None:
        data = self.read(name)
        return None if data is None else len(data)

    def view(self, name: str) -> bytes | None:
        return self.read(name)

    def link(self, old: str, new: str) -> None:
        if new in self._names:
            raise FileExistsError(new)
        self._check(old)
        self._change({new: self._names[old]})
        self._did(f"link {old} {new}")

    def sync(self, name: str) -> None:
        self._check(name)
        super().sync(name)

    def _check(self, name: str) -> None:
        if name not in self._names:
            raise FileNotFoundError(name)  # another writer has swept it

    def remove(self, name: str) -> None:
        if name in self._names:
            super().remove(name)


def table(*numbers: int) -> Any:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def keyed(*rows: tuple[int, int]) -> Any:
    """Return rows with the partition that each belongs into."""
    return pa.record_batch({"n": [n for _, n in rows], PARTITION: [partition for partition, _ in rows]})


def task_file(disk: SimulatedLogDisk, batch: int, task: int, *numbers: int, attempt: str = "1") -> Part:
    """Write a file of rows as an executor does, synced, and return what it tells the driver."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(table(*numbers))
    data = sink.getvalue().to_pybytes()
    name = str(RowsName(QUERY, batch, task, attempt))
    disk.write(name, data)
    disk.sync(name)
    return Part(task, attempt, digest_of(data), len(data), ((0, len(numbers)),))


def task_inline(task: int, *numbers: int) -> Part:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(table(*numbers))
    data = sink.getvalue().to_pybytes()
    return Part(task, "2", digest_of(data), len(data), ((0, len(numbers)),), inline=data)


def numbers_in(view: LogView, partition: int = 0) -> list[int]:
    """Read the whole of a partition, from the first id that is kept."""
    cursor = Cursor(view, partition, "rows", view.bounds(partition, "rows")[0])
    found: list[int] = []
    while (chunk := cursor.next()) is not None:
        found += chunk.rows.column(0).to_pylist()
    return found


class FailingDisk(RealLogDisk):
    """A directory of which one operation fails, once, counted down; then there is room again."""

    left = 0

    def __getattribute__(self, name: str) -> Any:
        if name in OPERATIONS:
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.ENOSPC, "No space left on device", name)
        return super().__getattribute__(name)


OPERATIONS = ("names", "size", "read", "view", "write", "sync", "rename", "sync_directory", "link", "remove", "writing")


# -- on the simulated disk: batches of two rows, one of them in a file


def commit(disk: SimulatedLogDisk, batch: int, *, attempt: str = "1") -> None:
    part = task_file(disk, batch, 0, 10 * batch, attempt=attempt)
    LogWriter(disk, where=WHERE).commit(QUERY, batch, [part, task_inline(1, 10 * batch + 1)])


def ten(*batches: int) -> list[int]:
    """Return the rows of these *batches*."""
    return [10 * batch + n for batch in batches for n in (0, 1)]


def settled(disk: SimulatedLogDisk) -> State:
    disk.sync_directory()
    return disk.crash_states()[0]


def seven_batches() -> State:
    """Return a log with batches 0 to 6 and files of rows, of which 0 to 3 are to be put together with batch 7."""
    disk = SimulatedLogDisk({})
    for batch in range(7):
        commit(disk, batch)
    return settled(disk)


class Spark:
    """What Spark does to a log: tasks that write, a driver that commits; nothing is kept between two calls."""

    def __init__(self, directory: Path | str, *, query: str = QUERY, key: Sequence[str] = (), **settings: Any) -> None:
        self.directory, self.query, self.key, self.settings = directory, query, key, settings
        self.where = f"the log {directory}"  # a directory, or a URL

    def identity(self, schema: Any = SCHEMA) -> Identity:
        partitions = self.settings.get("partitions")
        return claim(new_log_disk(self.directory), canonical(schema), partitions=partitions, key=self.key or None,
                     where=self.where)  # fmt: skip

    def wrote(self, batch: int, *tasks: Any) -> list[Part]:
        disk, identity = new_log_disk(self.directory), self.identity()
        parts = [
            write_part(disk, identity, [each], query=self.query, batch=batch, task=number)
            for number, each in enumerate(tasks)
        ]
        return [part for part in parts if part is not None]

    def commit(self, batch: int, parts: Sequence[Part]) -> Committed:
        writer = LogWriter(new_log_disk(self.directory), where=self.where, **self.settings)
        return writer.commit(self.query, batch, parts)

    def run(self, batch: int, *tasks: Any) -> Committed:
        return self.commit(batch, self.wrote(batch, *tasks))

    def view(self) -> LogView:
        return LogView(new_log_disk(self.directory), where=self.where)

    def numbers(self, partition: int = 0) -> list[int]:
        return numbers_in(self.view(), partition)

    def files(self, prefix: str = "rows-") -> list[str]:
        return sorted(name for name in new_log_disk(self.directory).names() if name.startswith(prefix))


def contested(batch: int, who: int) -> Any:
    """Return the rows that process *who* has for *batch*: one, or now and then as many as take a file."""
    return table(*range(who, 40_000 * (batch % 4 == 1) + 8, 8))


def compete(place: str, who: int, batches: int, together: Any, told: Any) -> None:
    """Write batches while other processes write other rows under the same ids, and tell which were ours."""
    names.SPANS = (4, 16)
    logging.disable()
    spark, won = Spark(place, on_change="keep"), list[int]()
    for batch in range(batches):
        rows = contested(batch, who)
        together.wait()
        while not (done := committed(spark, batch, rows)):
            pass
        won += [] if done.again else [batch]
    told.put((who, won))


def committed(spark: Spark, batch: int, rows: Any) -> Committed | None:
    try:
        return spark.run(batch, rows)
    except StoreUnavailable:  # somebody has just been faster, or swept what he took for ours from an earlier life
        return None
