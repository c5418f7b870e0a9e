"""Text files as chunks of raw records: CSV and JSON lines, plain, gzipped or alone in a zip.

A chunk is some hundred records parsed in one go by C code; its offset in the (uncompressed) bytes is always the
start of a record, so that a sparse index of offsets is sound. The trap is CSV: a newline inside quotes ends no record,
and whether a quote opens a field only `csv.reader` knows. So a block without any quote is cut at
its last newline, and in any other the parser itself says how far it came.

Rejected: `csv.DictReader` (four times slower), guessing by the parity of quotes (wrong for ``5" pipe,1``), and
``str.splitlines`` (it also splits at U+2028 and form feeds). Line numbers are not counted while reading; a failure
is rare, and `where` then counts them afresh.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

from reliable_rx.errors import PositionUnavailable, SourceFailed

BLOCK_BYTES = 1 << 16
RECORD_BYTES_MAX = 1 << 26
READ_ERRORS = (OSError, EOFError, zlib.error, zipfile.BadZipFile)

Parsed = tuple[list[Any], int, str | None]
"""Good records, the bytes they took, and what is wrong with the record behind them."""


class RecordFile(Protocol):
    """One open file, read in chunks of raw records."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names of rows; None where each record is a JSON value of its own."""

    @property
    def offset(self) -> int:
        """Where the next chunk starts: a place that the file can be opened at again."""

    def chunk(self, skip: int, /) -> tuple[int, Sequence[Any]]:
        """Return the number of records in the next chunk (0: no more, for now) and those after the first *skip*."""

    def where(self, offset: int, index: int, /) -> str:
        """Name the place of record *index* of the chunk at *offset*, for people."""

    def close(self) -> None: ...


def open_bytes(path: Path) -> Any:
    """Open *path* for reading, decompressed."""
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rb")
        if path.suffix == ".zip":
            return _open_zip(path)
        return open(path, "rb", buffering=0)
    except READ_ERRORS as error:
        raise SourceFailed(f"{path} cannot be opened: {error}", source=str(path)) from error


def _open_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX")]
        if len(members) == 1:
            return archive.open(members[0])
    found = f"{path} holds {len(members)} files; a zip must hold exactly one, unpack it and name the files"
    raise SourceFailed(found, source=str(path))


class Lines:
    """Blocks of whole lines of one file, kept until they are consumed."""

    def __init__(self, path: Path, *, follow: bool) -> None:
        self.offset = 0
        self._path = path
        self._follow = follow
        self._file = open_bytes(path)
        self._held = b""

    def seek(self, offset: int) -> None:
        """Go forward to *offset*, which must be the start of a record."""
        reached = self._read_safely(lambda: self._file.seek(offset))
        if reached < offset or (self.plain and self._size() < offset):
            raise self._shrunk(offset)
        self._held, self.offset = b"", offset

    @property
    def plain(self) -> bool:
        return isinstance(self._file, io.FileIO)

    def block(self, *, longer_than: int = 0) -> bytes:
        """Return whole lines from `offset` on, more than *longer_than* bytes of them unless the file has no more."""
        while True:
            cut = self._held.rfind(b"\n") + 1
            if cut > longer_than:
                return self._held[:cut]
            size = max(BLOCK_BYTES, len(self._held))
            piece: bytes = self._read_safely(lambda size=size: self._file.read(size))
            if not piece:
                return self._last(cut)
            self._held += piece
            self._check_length()

    def consume(self, count: int) -> None:
        self._held = self._held[count:]
        self.offset += count

    def close(self) -> None:
        self._file.close()

    def _last(self, cut: int) -> bytes:
        if not self._follow:
            return self._held
        if self._size() < self.offset:
            raise self._shrunk(self.offset)
        return self._held[:cut]

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _read_safely(self, action: Any) -> Any:
        try:
            return action()
        except READ_ERRORS as error:
            message = f"{self._path} cannot be read behind byte {self.offset}: {error}; is it damaged or cut short?"
            raise SourceFailed(message, source=str(self._path)) from error

    def _shrunk(self, offset: int) -> PositionUnavailable:
        message = f"{self._path} is shorter than it was (it had {offset} bytes); put the whole file back"
        return PositionUnavailable(message, wanted=None, first=0, end=None)

    def _check_length(self) -> None:
        if len(self._held) > RECORD_BYTES_MAX + BLOCK_BYTES:
            message = f"{self._path} has a record of over {RECORD_BYTES_MAX} bytes behind byte {self.offset}"
            raise SourceFailed(f"{message}; is it text, or is a quote never closed?", source=str(self._path))


class TextFile:
    """What CSV and JSON lines share; a subclass parses a block."""

    names: tuple[str, ...] | None = None
    quotes: bytes | None = None
    what = "record"

    def __init__(self, path: Path, *, follow: bool, offset: int = 0) -> None:
        self.path = path
        self._follow = follow
        self._lines = Lines(path, follow=follow)
        self._failure: SourceFailed | None = None
        try:
            self._begin()
            if offset > self.offset:
                self._lines.seek(offset)
        except BaseException:
            self.close()
            raise

    @property
    def offset(self) -> int:
        return self._lines.offset

    def chunk(self, skip: int, /) -> tuple[int, Sequence[Any]]:
        if self._failure is not None:
            raise self._failure
        while data := self._block():
            count = self._count(data) if skip else None
            if count is not None and count <= skip:
                self._lines.consume(len(data))
                return count, ()
            before = self.offset
            rows = self._take(data)
            if rows:
                return len(rows), rows[skip:] if skip else rows
            if self.offset == before:
                break
        return 0, ()

    def close(self) -> None:
        self._lines.close()

    def where(self, offset: int, index: int, /) -> str:
        with open_bytes(self.path) as file:
            line = 1
            while file.tell() < offset and file.readline():
                line += 1
            start = next(islice(self._starts(file), index, None), 0)
        return f"{self.path}, line {line + start}"

    def _begin(self) -> None: ...

    def _block(self) -> bytes:
        return self._lines.block()

    def _parse(self, data: bytes) -> Parsed:
        raise NotImplementedError

    def _starts(self, file: IO[bytes]) -> Iterator[int]:
        raise NotImplementedError

    def _count(self, data: bytes) -> int | None:
        """Count the records of a block without parsing it, or return None where that is not sound."""
        if (self.quotes and self.quotes in data) or data.startswith((b"\n", b"\r\n")):
            return None
        if b"\n\n" in data or b"\n\r\n" in data:
            return None
        return data.count(b"\n") + (not data.endswith(b"\n"))

    def _take(self, data: bytes) -> list[Any]:
        rows, used, problem = self._parse(data)
        offset = self.offset
        self._lines.consume(used)
        if problem is not None:
            message = f"{self.where(offset, len(rows))}: {problem}; mend or remove this {self.what}"
            self._failure = SourceFailed(message, source=str(self.path))
            if not rows:
                raise self._failure
        return rows


class JsonLinesFile(TextFile):
    """One JSON value per line; blank lines are no records."""

    what = "line"
    _decode = json.JSONDecoder().decode

    def _parse(self, data: bytes) -> Parsed:
        decode = type(self)._decode
        try:
            lines = data.decode().split("\n")
            return [decode(line) for line in lines if line and line != "\r"], len(data), None
        except ValueError:
            return self._parse_until_bad(data)

    def _parse_until_bad(self, data: bytes) -> Parsed:
        records: list[Any] = []
        for line in filter(_not_blank, data.split(b"\n")):
            try:
                records.append(type(self)._decode(line.decode()))
            except ValueError as error:
                return records, len(data), f"not a line of JSON ({error})"
        return records, len(data), None

    def _starts(self, file: IO[bytes]) -> Iterator[int]:
        return (i for i, line in enumerate(file) if _not_blank(line.rstrip(b"\n")))


def _not_blank(line: bytes) -> bool:
    return line not in (b"", b"\r")


class CsvFile(TextFile):
    """Comma-separated values under a header line; blank lines are no records."""

    quotes = b'"'

    def _begin(self) -> None:
        self.names = ()
        self._header()

    def _header(self) -> bool:
        """Read the header; False when there is none yet."""
        longer_than = 0
        while len(data := self._lines.block(longer_than=longer_than)) > longer_than:
            rows, used, problem = parse_csv(data, rows_max=1)
            if rows:
                self._set_names(rows[0])
                self._lines.consume(used)
                return True
            if problem not in (None, UNCLOSED):
                break
            longer_than = len(data)
        if data.strip() and not self._follow:
            raise SourceFailed(f"{self.path}, line 1: no header line of column names", source=str(self.path))
        return False

    def _set_names(self, row: list[str]) -> None:
        names = (row[0].removeprefix("\ufeff"), *row[1:])
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            message = f"{self.path}, line 1: column {min(twice)!r} appears twice; give each column its own name"
            raise SourceFailed(message, source=str(self.path))
        self.names = names

    def _block(self) -> bytes:
        return self._lines.block() if self.names or self._header() else b""

    def _parse(self, data: bytes) -> Parsed:
        rows, used, problem = parse_csv(data)
        while problem == UNCLOSED:
            if rows:
                problem = None
                break
            longer = self._lines.block(longer_than=len(data))
            if len(longer) == len(data):
                return ([], 0, None) if self._follow else ([], 0, "a quoted field is never closed")
            data = longer
            rows, used, problem = parse_csv(data)
        return self._check_width(rows, used, problem)

    def _check_width(self, rows: list[Any], used: int, problem: str | None) -> Parsed:
        width = len(self.names or ())
        if set(map(len, rows)) <= {width}:
            return rows, used, problem
        rows = [row for row in rows if row]
        for index, row in enumerate(rows):
            if len(row) != width:
                return rows[:index], used, f"{width} fields expected, {len(row)} found"
        return rows, used, problem

    def _starts(self, file: IO[bytes]) -> Iterator[int]:
        reader = csv.reader((line.decode(errors="replace") for line in file), strict=True)
        while True:
            start = reader.line_num
            try:
                row = next(reader)
            except (StopIteration, csv.Error):
                yield start
                return
            if row:
                yield start


UNCLOSED = "unexpected end of data"
"""What `csv.reader(strict=True)` says when the input ends within quotes."""


def parse_csv(data: bytes, *, rows_max: int | None = None) -> Parsed:
    """Parse whole lines; where the last record is not whole, or one is malformed, stop before it."""
    if rows_max is None:
        try:
            return list(csv.reader(io.StringIO(data.decode(), newline="\n"), strict=True)), len(data), None
        except (UnicodeDecodeError, csv.Error):
            pass
    return _parse_csv_by_row(data, len(data) if rows_max is None else rows_max)


def _parse_csv_by_row(data: bytes, rows_max: int) -> Parsed:
    rows: list[Any] = []
    used = 0
    lines = io.BytesIO(data)
    reader = csv.reader((line.decode() for line in lines), strict=True)
    while used < len(data) and len(rows) < rows_max:
        try:
            row = next(reader)
        except (UnicodeDecodeError, csv.Error) as error:
            return rows, used, str(error)
        used = lines.tell()
        if row:
            rows.append(row)
    return rows, used, None
