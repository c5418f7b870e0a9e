"""The driver's side of a log: one manifest per batch, of which the first durable copy wins for ever.

1. The files of all tasks are there, durable by who wrote them. If readers have fallen too far behind, it waits here.
2. The manifest is *created* (`LogDisk.create`): whole, durable with all that was there before, and never in the place
   of another, so of two drivers that both think it is their turn one is told. Now the batch is there.
3. Readers are woken. Files that no manifest names are swept: of attempts that lost, of batches that died. Old manifests
   are put together (`compaction`).

A batch whose id this query has had is not written again, however it comes: Spark runs a batch again if it died before
it wrote down that the batch was done. What came is compared with what is there (`compare`). Batches without rows have
no manifest. Rejected: demanding that ids follow each other (Spark's can skip), and taking the id alone for a key (a
query with a new checkpoint begins at 0 again, and its rows would be taken for old ones).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from checkpoint.failures import unavailable
from hosting.reports.log import LOG
from reliable_rx.errors import NondeterminismDetected, StoreUnavailable
from reliable_rx.failpoints import probe
from spark_bridge.micro_batch_log.compaction import compact, is_due
from spark_bridge.micro_batch_log.compare import Difference, difference
from spark_bridge.micro_batch_log.disk import LogDisk
from spark_bridge.micro_batch_log.errors import LogFull, LogRefused
from spark_bridge.micro_batch_log.manifest import Manifest, Part, following
from spark_bridge.micro_batch_log.names import UNFINISHED, manifest_name, newest_alone, query_name, rows_name
from spark_bridge.micro_batch_log.noted import Noted
from spark_bridge.micro_batch_log.retention import readers_on
from spark_bridge.micro_batch_log.view import LogView

OnChange = Literal["refuse", "keep"]
"""What to do with a batch that comes again with other rows: fail the query, or keep the rows that came first."""
ON_CHANGE: tuple[OnChange, ...] = ("refuse", "keep")
OnFull = Literal["pause", "refuse"]
"""What to do when readers are too far behind: wait for them, which holds Spark's query up, or fail it."""
ON_FULL: tuple[OnFull, ...] = ("pause", "refuse")
BYTES_MAX = 64 << 30
SWEEP_EVERY = 64
"""Manifests between two looks at all files; a batch looks at its own each time."""
LOOK_S, WARN_EVERY_S = 0.5, 60.0


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a batch: *manifest* is where its rows are, None if it had none."""

    manifest: Manifest | None
    again: bool = False
    difference: Difference | None = None


class LogWriter:
    """Write batches of one query into the log on *disk*. *takeover* lets a query go on where another one ended.

    What is kept for readers, but for the newest batch, is at most *bytes_max* and one batch more. By what was *noted*
    a log that was set back is found out.
    """

    def __init__(
        self,
        disk: LogDisk,
        *,
        where: str,
        partitions: int = 1,
        on_change: OnChange = "refuse",
        takeover: bool = False,
        bytes_max: int = BYTES_MAX,
        on_full: OnFull = "pause",
        noted: Noted | None = None,
    ) -> None:
        self._disk, self._where = disk, where
        self._partitions, self._on_change, self._takeover = partitions, on_change, takeover
        self._bytes_max, self._on_full, self._noted = bytes_max, on_full, noted
        self.view = LogView(disk, where=where)

    def check_query(self, query: str) -> Manifest | None:
        """Return the newest batch. *Raises* `LogRefused` if the log is another query's than *query*, or set back."""
        newest = self.view.newest()
        self._check_not_set_back(-1 if newest is None else newest.number)
        if newest is not None and newest.query != query and not self._takeover:
            message = (
                f"{self._where} belongs to query {newest.query}, not to {query}: start that one from its checkpoint, "
                "use a new directory, or say takeover=True to let this query go on behind its rows"
            )
            raise LogRefused(message, where=self._where, found=newest.query, wanted=query)
        return newest

    def _check_not_set_back(self, newest: int) -> None:
        known = -1 if self._noted is None else self._noted.newest
        if self._noted is not None and newest < known:
            message = (
                f"{self._where} has {newest + 1:,} batches, and {self._noted.where} knows of {known + 1:,}: it was set "
                "back to an older copy, and what lay between would be missing; bring the newer one back, or set both "
                "back to copies of the same time"
            )
            raise LogRefused(message, where=self._where, found=str(newest), wanted=str(known))

    def commit(self, query: str, batch: int, parts: Sequence[Part]) -> Committed:
        """Make *parts* the rows of *batch*, unless the query has had that batch.

        *Raises* `NondeterminismDetected` if it had other rows and that is to be refused, `LogRefused` if the log is
        another query's, `StoreUnavailable` if the disk fails, or another driver has written meanwhile, `LogFull` if
        readers are too far behind.
        """
        with unavailable(self._where):
            newest = self.check_query(query)
            if newest is not None and newest.query == query and batch <= newest.batch:
                done = self._again(newest, batch, parts)
            elif newest is not None and newest.ended is not None and parts:
                message = f"{self._where} has ended, and batch {batch} has rows"
                raise LogRefused(f"{message}; write them into a new directory", where=self._where)
            else:
                done = Committed(self._add(newest, query, batch, parts) if parts else None)
            self._sweep(query, batch, done.manifest)
            self._compact(done.manifest)
        if done.difference is not None:
            self._report(query, batch, done.difference)
        return done

    def append(self, query: str, parts: Sequence[Part], *, at: int, ended: str | None = None) -> Manifest:
        """Make *parts*, batch *at*, the rows from id *at* on; *ended* says that nothing will follow.

        *Raises* `StoreUnavailable` if the log does not end at *at*: somebody else has written.
        """
        with unavailable(self._where):
            newest = self.check_query(query)
            end = 0 if newest is None else newest.after("rows", 0)
            if end != at or (newest is not None and newest.ended is not None):
                message = (
                    f"{self._where} ends at {end:,}, not at {at:,}: another writer is at work; stop one of the two"
                )
                raise StoreUnavailable(message, where=self._where)
            manifest = self._write(newest, query, at, parts, ended)
            self._sweep(query, at, manifest)
            self._compact(manifest)
        return manifest

    def end(self) -> Manifest:
        """Say that nothing will follow what is there; to say it again does nothing.

        *Raises* `LogRefused` if nothing is there, `StoreUnavailable` if the disk fails or a driver is at work.
        """
        with unavailable(self._where):
            newest = self.view.newest()
            if newest is None:
                message = f"{self._where} has no rows, so nobody knows whose it is"
                raise LogRefused(f"{message}; end it when its query has written some", where=self._where)
            if newest.ended is not None:
                return newest
            return self._write(newest, newest.query, newest.batch, [], "")

    def _add(self, newest: Manifest | None, query: str, batch: int, parts: Sequence[Part]) -> Manifest:
        try:
            self.make_room()
        except LogFull:
            self._sweep(query, batch, None)  # the batch comes again, with files of other names
            raise
        return self._write(newest, query, batch, parts)

    def make_room(self) -> None:
        """Wait until readers are near enough. *Raises* `LogFull` if it is not to be waited, or nobody reads."""
        warned = -WARN_EVERY_S
        while (held := self.view.bytes_held()) > self._bytes_max:
            behind = readers_on(self._disk)
            whom = f"its readers {', '.join(behind)} have" if behind else "nobody has"
            message = f"{self._where} keeps {held:,} bytes, more than bytes_max={self._bytes_max:,}, which {whom} read"
            if self._on_full == "refuse" or not behind:
                remedy = "let them read, spark_bridge.release() one that is gone, or raise bytes_max"
                fields = {"where": self._where, "bytes": held, "bytes_max": self._bytes_max, "readers": behind}
                raise LogFull(f"{message}; {remedy}", **fields)
            if time.monotonic() - warned >= WARN_EVERY_S:
                warned = time.monotonic()
                LOG.warning("%s; the query waits for them", message)
            time.sleep(LOOK_S)

    def _write(
        self, newest: Manifest | None, query: str, batch: int, parts: Sequence[Part], ended: str | None = None
    ) -> Manifest:
        fresh = following(newest, query=query, batch=batch, parts=parts, partitions=self._partitions)
        manifest = replace(fresh, ended=ended)
        self._check_files(manifest)
        probe("spark.before_manifest")
        try:
            self._disk.create(manifest_name(manifest.number), manifest.encoded())
        except FileExistsError:
            raise self._overtaken(manifest) from None
        self._check_in_time(manifest)
        probe("spark.after_manifest")
        self._note(manifest)
        return manifest

    def _check_in_time(self, manifest: Manifest) -> None:
        """Take *manifest* back if its number was another's, and is free again as that has moved or been forgotten.

        *Raises* `StoreUnavailable` then, and if others follow it: their driver is at work.
        """
        if newest_alone(self._disk.names()) == manifest.number:
            return
        kept = self.view.kept()
        if kept and kept[-1].start == manifest.number:
            return
        if not any(len(numbers) == 1 and manifest.number in numbers for numbers in kept):
            self._disk.settle()  # where it has moved to
            self._disk.remove(manifest_name(manifest.number))
        raise self._overtaken(manifest)

    def _overtaken(self, manifest: Manifest) -> StoreUnavailable:
        message = f"{self._where}: another driver has just written batch {manifest.number}; stop one of the two"
        return StoreUnavailable(message, where=self._where)

    def _note(self, manifest: Manifest) -> None:
        if self._noted is not None:
            self._noted.note(manifest.number)

    def _check_files(self, manifest: Manifest) -> None:
        for part in manifest.parts:
            size = part.size if part.is_inline else self._disk.size(manifest.file_of(part))
            if size != part.size:
                found = "is not there" if size is None else f"has {size:,} bytes instead of {part.size:,}"
                message = f"{self._where}: the file of batch {manifest.batch}, task {part.task} {found}"
                raise StoreUnavailable(f"{message}; do all executors see the same directory?", where=self._where)

    def _again(self, newest: Manifest, batch: int, parts: Sequence[Part]) -> Committed:
        self._disk.settle()  # whoever wrote it may have died before it did
        self._note(newest)
        first = self._find(newest, batch)
        if first is None:
            return Committed(None, again=True)  # it had no rows then, or all have acknowledged it
        return Committed(first, again=True, difference=difference(self.view, first, parts))

    def _find(self, newest: Manifest, batch: int) -> Manifest | None:
        for number in range(newest.number, -1, -1):
            found = self.view.manifest(number)
            if found is None or found.query != newest.query or found.batch < batch:
                return None
            if found.batch == batch and found.ended is None:  # what says the end is no batch
                return found
        return None

    def _report(self, query: str, batch: int, found: Difference) -> None:
        message = (
            f"{self._where}: batch {batch} of query {query} came again with other rows: digest "
            f"{found.first_digest} the first time, {found.digest} now ({found.only_first:,} rows are gone, "
            f"{found.only_now:,} are new); its source or plan is not deterministic (rand(), uuid(), a clock in Python)"
        )
        if self._on_change == "refuse":
            remedy = "mend it, or say on_change='keep' to go on with the rows that came first"
            fields = {"query": query, "turn": batch, "first": found.first_digest, "now": found.digest}
            raise NondeterminismDetected(f"{message}; {remedy}", **fields)
        LOG.warning("%s; the rows that came first are kept", message)

    def _sweep(self, query: str, batch: int, manifest: Manifest | None) -> None:
        """Remove the files of *batch* that its manifest does not name; now and then, those of all batches."""
        named = set(manifest.files) if manifest is not None else set()
        everything = manifest is None or manifest.number % SWEEP_EVERY == 0
        names = self._disk.names()
        strays = [name for name in names if name not in named and _is_stray(name, query_name(query), batch, everything)]
        named = self._named() if everything and strays else named
        for name in strays:
            if name not in named:
                self._disk.remove(name)

    def _named(self) -> set[str]:
        return {name for numbers in self.view.kept() for name in self.view.files_of(numbers)}

    def _compact(self, manifest: Manifest | None) -> None:
        if manifest is not None and is_due(manifest.number):
            compact(self.view, newest=manifest.number)


def _is_stray(name: str, query: str, batch: int, everything: bool) -> bool:
    rows = rows_name(name)
    if rows is None:
        return name.startswith("manifest") and name.endswith(UNFINISHED)
    if rows.query == query and rows.batch == batch:
        return True
    return everything and (rows.query != query or rows.batch < batch)
