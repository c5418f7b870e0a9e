"""Files as a partitioned, replayable source: CSV, JSON lines, Parquet.

A position is the number of a record within its partition, so it means the same however the file is compressed and
wherever it was first opened. A file read again must still be what it was; nothing else is needed for replay, and so
`acknowledge` has nothing to forget.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from hosting.admission.constructor_types import checks_kinds
from hosting.edges.start_positions import ENDLESS
from hosting.sources import lines
from hosting.sources.decoding import Reading
from hosting.sources.definition import Extending, by_place
from hosting.sources.finding import first_at
from hosting.sources.lanes import BUFFERED_MAX, Lane, Marks
from hosting.sources.passes import NO_KEY, Pass
from hosting.sources.paths import COMPRESSED, Found, Paths, Presence, sizes_of
from hosting.sources.sorted_reader import Sorted, SortedReader, Sorting
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.operators.contract.arguments import cut, plural
from reliable_rx.operators.contract.choices import OnBadRecord, check_choice, names_keywords
from reliable_rx.reliable import Batch, Reader

Format = Literal["csv", "jsonl", "parquet"]
SUFFIXES: Mapping[str, Format] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
SPLIT_BY_KEY = (
    "files that are split by key are read as one, and of keys that were read to their end nothing is read any more: "
    "declare them, or the new ones alone, as a source of another name, and let the queries read that: they begin afresh"
)


class FileSource:
    """Read records from files, one partition per file or one per key.

    *paths* is a path, a pattern such as ``"logs/*.jsonl.gz"`` (its matches in the order of their names), or a sequence
    of them. The format comes from the suffix (``.gz``, and ``.zip`` around one file, are seen through) unless
    *format* names it.

    A record is a dictionary of columns (any JSON value for JSON lines). On its way to a value it is cut to *columns*,
    converted by *types* (a function per column; CSV fields are `str` without one) and given to *parse*.

    Without *partition_by* each file is a partition, named by its file name. With it, all files together, in
    order, are split by a column or a function of the value; *partitions* declares the keys, which saves a pass over the
    files to find them. A record of an undeclared key is a bad record, never dropped in silence.

    A pattern leaves out what it matches and is no file, and the evaluator says so.

    A record that cannot be read (malformed, or refused by *types*, *parse* or *partition_by*) fails the source, which
    names file, line and byte. With *on_bad_record* ``"skip"`` it is left out, and the evaluator says how many were;
    with ``"dead_letter"`` it also goes, with place and reason, to the stream ``NAME.dead_letters`` of the source. It
    keeps its number either way; one without a key has its number in the first partition. What lies behind damage in a
    compressed file is one such record, the last of its file; in a row group of a Parquet file each row behind it is.

    *sort_by* is a function of the value; it puts each partition in order, stable, holding **all of its values in
    memory**. *timestamp* is a function of the value too, kept for the evaluator's event time. With *follow*, lines
    may be appended while we read (when split by key only to the last file; a start finds others); a last line without
    its newline is then not yet a record, and the source never ends.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "flights.csv")
    >>> _ = path.write_text("carrier,delay\\nUA,2\\nAA,33\\n")
    >>> reader = FileSource(path, types={"delay": int}).open("flights.csv", 1)
    >>> reader.fetch(10).values
    [{'carrier': 'AA', 'delay': 33}]

    *Raises* `SourceFailed` for a missing or malformed file (by file and line), `ValueError` for options that do not
    fit together, and `PositionUnavailable` for a position behind the end.
    """

    @names_keywords
    @checks_kinds("types", "timestamp")
    def __init__(
        self,
        paths: Paths,
        *,
        format: Format | None = None,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[Any], Any]] | None = None,
        parse: Callable[[Any], Any] | None = None,
        partition_by: str | Callable[[Any], Any] | None = None,
        partitions: Sequence[str] | None = None,
        sort_by: Callable[[Any], Any] | None = None,
        timestamp: Callable[[Any], float] | None = None,
        follow: bool = False,
        on_bad_record: OnBadRecord = "fail",
    ) -> None:
        _check_types(types)
        check_choice("on_bad_record", on_bad_record, OnBadRecord)
        found = Found(paths, fails=on_bad_record == "fail", names_matter=partition_by is None)
        self.paths, self.left_out, self.finds = found.paths, tuple(found.left_out), found.finds
        if follow:
            self.trouble = Presence(self.paths).trouble
        self.timestamp = timestamp
        self.on_bad_record = on_bad_record
        self._reading = Reading(
            format=format or _format_of(self.paths),
            columns=None if columns is None else tuple(columns),
            types=dict(types or {}),
            parse=parse,
            partition_by=partition_by,
            follow=follow,
            fails=on_bad_record == "fail",
        )
        self._sort_by = sort_by
        self._declared = self._keys = None if partitions is None else tuple(partitions)
        self._check_options()
        self._lock = threading.RLock()
        self._marks: dict[str, Marks] = {}
        self._passes: list[Pass] = []
        self._extents: dict[Path, int] = {}
        self._counts: dict[str, int] = {}
        self._sorted: weakref.WeakValueDictionary[str, Sorted] = weakref.WeakValueDictionary()

    def __repr__(self) -> str:
        return f"FileSource({', '.join(str(path) for path in self.paths)})"

    def partitions(self) -> Sequence[str]:
        """Name the partitions: the files in order, the declared keys, or the keys found, sorted."""
        with self._lock:
            if self._declared is None:
                by_file = self._reading.partition_by is None
                self._declared = tuple(p.name for p in self.paths) if by_file else self._discover()
            return self._declared

    def definition(self) -> Mapping[str, Any]:
        """Return what its events, their partitions and their times come from."""
        reading = self._reading
        said = {name: getattr(reading, name) for name in ("format", "columns", "parse", "partition_by")}
        said |= {"sort_by": self._sort_by, "timestamp": self.timestamp}
        return said | by_place("types", reading.types)

    def numbering(self) -> Mapping[str, Any]:
        """Return what the number of a record within its partition comes from.

        With keys all files are counted, so of followed ones only the last may grow; what a key or an order is made of
        decides too. A record without a declared key is counted in the first partition, where it is left out.
        """
        reading, by_key = self._reading, self._reading.partition_by
        found: dict[str, Any] = {"format": reading.format, "partition_by": by_key, "sort_by": self._sort_by}
        if callable(by_key) or self._sort_by is not None:
            found |= {"columns": reading.columns, "parse": reading.parse, **by_place("types", reading.types)}
        if by_key is not None:
            names = tuple(path.name.removesuffix(".gz").removesuffix(".zip") for path in self.paths)
            found["files"] = names if self._sort_by is not None else Extending(names)
        if by_key is not None and reading.follow:
            found["size of a file before the last one"] = Extending(map(str, sizes_of(self.paths[:-1])))
        if by_key is not None and not reading.fails:
            there = tuple(self.partitions())  # of keys that are found, the first has what had none, or a later one
            found["partitions"] = there if self._keys is not None or reading.follow else there[:1]
        return found

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from record number *at* on."""
        if partition not in self.partitions():
            raise SourceFailed(f"{self} has no partition {partition!r}", source=repr(self), partition=partition)
        if at < 0:
            raise PositionUnavailable(f"records of {self} start at 0, not at {at}", wanted=at, first=0, end=None)
        if self._sort_by is None:
            return FileReader(self, partition, at)
        sorting = Sorting(
            name=repr(self),
            partition=partition,
            unsorted=lambda: FileReader(self, partition, 0),
            key=self._sort_by,
            loaded=self._sorted,
            lock=self._lock,
            fails=self._reading.fails,
        )
        return SortedReader(sorting, at)

    def bounds(self, partition: str, /) -> tuple[int, int]:
        """Return 0 and the number of records there now; what is counted once, of a file that does not grow, is kept.

        Text is passed over without parsing, unless it must be split by key.
        """
        if partition not in self.partitions():
            raise SourceFailed(f"{self} has no partition {partition!r}", source=repr(self), partition=partition)
        with self._lock:
            if partition not in self._counts:
                self._count(partition)
            count = self._counts.get(partition, 0)
            if self._reading.follow:
                self._counts.clear()
            return 0, count

    def extent(self, partition: str, /) -> dict[str, int] | None:
        """Return how many bytes each file of *partition* had where it was read to its end, None if it was not."""
        paths = self._paths_of(None if self._reading.partition_by is not None else partition)
        with self._lock:
            found = {str(path): self._extents.get(path) for path in paths}
        return None if None in found.values() else {path: size for path, size in found.items() if size is not None}

    def growth(self, partition: str, extent: dict[str, int], /) -> str | None:
        """Say which file has another size than in *extent*, if one is still there and has."""
        if self._reading.partition_by is not None:
            more = {path.name for path in self.paths} - {os.path.basename(path) for path in extent}
            if more:
                return f"{min(more)} is there since it was read to its end; {SPLIT_BY_KEY}"
        for path, before in extent.items():
            with suppress(OSError):
                now = os.stat(path).st_size
                if now != before:
                    what = f"from {before:,} to {now:,} bytes since it was read to its end"
                    if now > before:
                        by_key = f"; {SPLIT_BY_KEY}" if self._reading.partition_by is not None else ""
                        return f"{path} has grown {what}{by_key}"
                    return f"{path} has shrunk {what}; put the whole file back, as a replay wants all that was in it"
        return None

    def find(self, partition: str, time: float, /) -> int:
        """Return the number of the first record at or after *time*, by *timestamp*; reads all before it."""
        return first_at(self, partition, time)

    def _count(self, partition: str) -> None:
        keyed = self._reading.partition_by is not None
        walk = self._new_pass(None if keyed else partition, keys=self.partitions() if keyed else None)
        walk.attach(partition if keyed else "", ENDLESS)
        try:
            while walk.advance():
                pass
        finally:
            walk.close()
        counts = walk.counts if keyed else {partition: walk.counts.get("", 0)}
        self._counts.update(dict.fromkeys(self.partitions(), 0) | counts if keyed else counts)

    def _check_options(self) -> None:
        reading = self._reading
        if reading.columns == ():
            raise ValueError("columns names no column, and so nothing would be read; leave it out to read them all")
        if reading.follow and self._sort_by is not None:
            raise ValueError("sort_by needs all records, follow never has them all; use one of them")
        if reading.follow and (reading.format == "parquet" or any(p.suffix in COMPRESSED for p in self.paths)):
            raise ValueError(
                "follow works on plain text files only; a Parquet or compressed file cannot be appended to"
            )
        if reading.partition_by is not None:
            return
        if self._declared is not None:
            raise ValueError("partitions names keys, and so needs partition_by; without it each file is a partition")
        names = [path.name for path in self.paths]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"two files are named {min(twice)!r}, and a file's name is its partition's; rename one")

    def _discover(self) -> tuple[str, ...]:
        walk = self._new_pass(None, keys=None, marks=None if self._reading.fails else Marks())
        try:
            while walk.advance():
                pass
        finally:
            walk.close()
        odd = walk.counts.pop(NO_KEY, 0)
        found = tuple(sorted(walk.counts))
        if odd and not found:
            message = f"none of the {odd:,} records of {self} can be read, so it has no partitions"
            raise SourceFailed(f"{message}; read it with on_bad_record='fail' to see why", source=repr(self))
        if not self._reading.follow:
            self._counts.update(walk.counts)
            if odd:
                self._counts[found[0]] += odd
        return found

    def _paths_of(self, partition: str | None) -> Sequence[Path]:
        return self.paths if partition is None else [path for path in self.paths if path.name == partition]

    def _new_pass(self, partition: str | None, *, keys: Sequence[str] | None, marks: Marks | None = None) -> Pass:
        paths = self._paths_of(partition)
        given = marks is not None
        if marks is None:
            marks = self._marks.setdefault(partition or "", Marks())
        most = BUFFERED_MAX if self._sort_by is None else None
        extents = None if self._reading.follow or given else self._extents
        return Pass(paths, self._reading, marks, keys=keys, buffered_max=most, extents=extents)

    def _ride(self, partition: str, position: int) -> tuple[Pass, Lane]:
        """Find a pass that can still serve *partition* from *position* on, or begin one."""
        keyed = self._reading.partition_by is not None
        for walk in self._passes if keyed else ():
            lane = walk.attach(partition, position)
            if lane is not None:
                return walk, lane
        walk = self._new_pass(None, keys=self.partitions()) if keyed else self._new_pass(partition, keys=None)
        lane = walk.attach(partition if keyed else "", position)
        if lane is None:
            raise SourceFailed(f"{self} cannot be opened at {position}", source=repr(self), partition=partition)
        self._passes.append(walk)
        return walk, lane

    def _leave(self, walk: Pass, lane: Lane) -> None:
        if walk.detach(lane) and walk in self._passes:
            self._passes.remove(walk)


class FileReader:
    """One partition of a `FileSource`, from a record on."""

    def __init__(self, source: FileSource, partition: str, at: int) -> None:
        self._source = source
        self._partition = partition
        self._at = at
        self._lock = source._lock
        with self._lock:
            self._pass, self._lane = source._ride(partition, at)

    def fetch(self, count_max: int, /) -> Batch:
        with self._lock:
            if self._pass.is_broken and not self._lane.waiting:
                self._source._leave(self._pass, self._lane)
            if self._lane.dropped:
                self._pass, self._lane = self._source._ride(self._partition, self._lane.position)
            self._fill(count_max)
            lane = self._lane
            if lane.failure and not lane.waiting and count_max > 0:
                self._source._leave(self._pass, lane)  # begin anew here when asked again: it may be mended by then
                raise self._failed(lane.failure)
            batch = lane.take(count_max)
            ended = self._pass.ended and not lane.waiting and not lane.failure
            coming = self._pass.paused and not (batch.values or batch.rejected)
            return replace(batch, ended=ended, coming=coming) if ended or coming else batch

    def acknowledge(self, n: int, /) -> None:
        """Do nothing: a file keeps its records anyway."""

    def close(self) -> None:
        with self._lock:
            self._source._leave(self._pass, self._lane)

    def _fill(self, count_max: int) -> None:
        """Move the pass on until enough waits here, there is no more, or that has been enough for one call."""
        lane, end = self._lane, self._pass.passed + lines.STRETCH_BYTES
        try:
            while lane.waiting < count_max and lane.failure is None and not self._pass.is_broken:
                if not self._pass.advance(lane):
                    if lane.skip:
                        raise self._shorter()
                    return
                if (self._pass.paused and not lane.skip) or (lane.waiting and self._pass.passed > end):
                    return
        except SourceFailed as error:
            if not lane.waiting:
                raise self._failed(error.message) from error

    def _failed(self, message: str) -> SourceFailed:
        fields = {"source": repr(self._source), "partition": self._partition, "position": self._lane.position}
        return SourceFailed(message, **fields)

    def _shorter(self) -> PositionUnavailable:
        wanted = self._lane.position
        end = wanted - self._lane.skip
        there = f"partition {self._partition!r} of {self._source} has {plural(end, 'record')}"
        message = f"{there}, and record {wanted} is wanted"
        return PositionUnavailable(
            f"{message}; put the whole file back, or declare another one under another name",
            wanted=wanted,
            first=0,
            end=end,
        )


def _format_of(paths: Sequence[Path]) -> Format:
    formats = {_suffix_format(path) for path in paths}
    if len(formats) > 1:
        raise ValueError("the files are of different formats; use one source per format")
    return formats.pop()


def _suffix_format(path: Path) -> Format:
    name = path.with_suffix("") if path.suffix in COMPRESSED else path
    if name.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise ValueError(f"the suffix of {path} tells no format ({known}); give format='csv', 'jsonl' or 'parquet'")
    return SUFFIXES[name.suffix]


def _check_types(types: Mapping[str, Any] | None) -> None:
    """*Raises* `TypeError` for what is no function per column."""
    if types is not None and not isinstance(types, Mapping):
        raise TypeError(f"types must be a function per column, such as {{'price': float}}, got {cut(types)}")
    for column, convert in (types or {}).items():
        if not callable(convert):
            raise TypeError(
                f"the type of column {column!r} must be a function of its text, such as int (not its name), got "
                f"{cut(convert)}"
            )
