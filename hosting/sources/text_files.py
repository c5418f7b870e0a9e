"""Text files as chunks of raw records: CSV and JSON lines.

A chunk is some hundred records parsed in one go by C code; its offset in the (uncompressed) bytes is always the
start of a record, so that a sparse index of offsets is sound. The trap is CSV: a newline inside quotes ends no record,
and whether a quote opens a field only `csv.reader` knows. So a block without any quote is cut at
its last newline, and in any other the parser itself says how far it came.

A block in which something is wrong is cut up record by record, and each record that cannot be read is a chunk of its
own: it has a number like any other. A line that is malformed, or begins a quoted field that is never rightly closed,
is one bad record, and the next line begins the next: an odd quote must not swallow what lies behind it.

Rejected: `csv.DictReader` (four times slower), guessing by the parity of quotes (wrong for ``5" pipe,1``), and
``str.splitlines`` (it also splits at U+2028 and form feeds). Line numbers are not counted while reading; a failure
is rare, and `where` then counts them afresh. Behind damage in a compressed file nobody can say what there is: the rest
of such a file is one bad record, and its last.
"""

from __future__ import annotations

import csv
import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from hosting.sources import lines
from hosting.sources.bad_records import BadRecord, raw_text
from hosting.sources.csv_records import UNCLOSED, cut_rows, let_fields_be_long
from hosting.sources.lines import Lines
from hosting.sources.own_stack import on_own_stack
from reliable_rx.errors import SourceFailed

Raw = Sequence[Any] | BadRecord


class RecordFile(Protocol):
    """One open file, read in chunks of raw records."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names of rows; None where each record is a JSON value of its own."""

    @property
    def offset(self) -> int:
        """Where the next chunk starts: a place that the file can be opened at again."""

    @property
    def extent(self) -> int:
        """How many bytes of the file there were to be read."""

    def chunk(self, skip: int, /) -> tuple[int, Raw] | None:
        """Return the number of records in the next chunk (0: no more, for now) and those after the first *skip*.

        A record that cannot be read is a chunk of its own. None says that a long stretch without a record has been
        passed over, and that there is more of the file.
        """

    def again(self, rows: Sequence[Any], skipped: int, /) -> Sequence[Any]:
        """Return *rows*, those of the last chunk after the first *skipped*, as they are in the file."""

    def where(self, index: int, /) -> str:
        """Name the place of record *index* of the last chunk, for people."""

    def place(self, index: int, /) -> str:
        """Name the place of record *index* of the last chunk, the same wherever reading began, at no great cost."""

    def close(self) -> None: ...


class Piece(NamedTuple):
    """What a block was cut into: the bytes of some records, and their rows, or why the one of them is none."""

    data: bytes
    rows: list[Any] | str


class TextFile:
    """What CSV and JSON lines share; a subclass parses a block."""

    names: tuple[str, ...] | None = None
    quotes: bytes | None = None

    def __init__(self, path: Path, *, follow: bool, fails: bool = True, offset: int = 0) -> None:
        self.path = path
        self._follow, self._fails = follow, fails
        self._pauses = False
        self._lines = Lines(path, follow=follow, fails=fails)
        self._pieces: deque[Piece] = deque()
        self._chunk = (0, b"")
        self._starts: list[tuple[int, int]] = []
        try:
            self._begin()
            while self._pauses and offset > self.offset:
                self._begin()
            if offset > self.offset:
                self._lines.seek(offset)
        except BaseException:
            self.close()
            raise

    @property
    def offset(self) -> int:
        return self._lines.offset

    @property
    def extent(self) -> int:
        return self._lines.extent

    def chunk(self, skip: int, /) -> tuple[int, Raw] | None:
        end = self.offset + lines.STRETCH_BYTES
        while self._pieces or (data := self._block()):
            if self.offset >= end:
                return None
            if self._pieces:
                count, rows = self._next_piece(skip)
                if count:
                    return count, rows
                continue
            if self._lines.pass_blank():
                continue
            known = self._count(data) if skip else None
            if known is not None and known <= skip:
                self._lines.consume(len(data))
                return known, ()
            good = self._parse(data)
            if good is None:
                self._pieces.extend(self._cut(data))
                if not self._pieces:
                    break
            else:
                self._consume(data)
                if good:
                    return len(good), good[skip:] if skip else good
        if self._pauses:
            return None
        if self._lines.is_long:
            return self._long_line(skip)
        return self._break_off(skip) if self._lines.damage else (0, ())

    def close(self) -> None:
        self._lines.close()

    def again(self, rows: Sequence[Any], skipped: int, /) -> Sequence[Any]:
        return rows

    def where(self, index: int, /) -> str:
        """Name file, line and byte."""
        first = lines.line_at(self.path, self._chunk[0])
        if first is None:
            return f"{self.path.parent / self.place(index)}"
        line, byte = self._start(index)
        return f"{self.path}, line {first + line} (byte {self._chunk[0] + byte:,})"

    def place(self, index: int, /) -> str:
        return f"{self.path.name}, byte {self._chunk[0] + self._start(index)[1]:,}"

    def _start(self, index: int) -> tuple[int, int]:
        """Return line and byte of record *index* of the last chunk, counted from where that begins."""
        if not self._starts:
            self._starts = list(self._places(io.BytesIO(self._chunk[1])))
        return self._starts[index] if index < len(self._starts) else (0, 0)

    def _begin(self) -> None: ...

    def _block(self) -> bytes:
        return self._lines.block()

    def _parse(self, data: bytes) -> list[Any] | None:
        """Return the rows of whole records, None if there is something in *data* to be cut out."""
        raise NotImplementedError

    def _cut(self, data: bytes) -> Iterator[Piece]:
        """Cut *data* into runs of good records and single bad ones, up to the last that is whole."""
        raise NotImplementedError

    def _places(self, file: IO[bytes]) -> Iterator[tuple[int, int]]:
        """Yield line and byte of each record of *file*, counted from where it stands."""
        raise NotImplementedError

    def _count(self, data: bytes) -> int | None:
        """Count the records of a block without parsing it, or return None where that is not sound."""
        if (self.quotes and self.quotes in data) or data.startswith((b"\n", b"\r")):
            return None
        if b"\n\n" in data or b"\n\r\n" in data or b"\r\r" in data or data.endswith(b"\r"):
            return None
        return data.count(b"\n") + (not data.endswith(b"\n"))

    def _consume(self, data: bytes) -> None:
        self._chunk, self._starts = (self.offset, data), []
        self._lines.consume(len(data))

    def _next_piece(self, skip: int) -> tuple[int, Raw]:
        data, rows = self._pieces.popleft()
        self._consume(data)
        if isinstance(rows, str):
            return 1, () if skip else BadRecord(self.place(0), raw_text(data), rows)
        return len(rows), rows[skip:] if skip else rows

    def _long_line(self, skip: int) -> tuple[int, Raw] | None:
        """Pass over a line that is too long, unless it fails the source anyway."""
        offset, found = self.offset, self._lines.head if self._fails and not skip else self._lines.long_line()
        if not found:
            return (0, ()) if found is None else None
        self._chunk, self._starts = (offset, found), [(0, 0)]
        return 1, () if skip else BadRecord(self.place(0), raw_text(found), lines.too_long())

    def _break_off(self, skip: int) -> tuple[int, Raw]:
        """End at the damage: what is left before it, and all that is behind, is one bad record."""
        offset, reason = self.offset, self._lines.damage
        tail = self._lines.pass_damage()
        self._chunk, self._starts = (offset, tail), [(0, 0)]
        return 1, () if skip else BadRecord(self.place(0), raw_text(tail), reason)


class JsonLinesFile(TextFile):
    """One JSON value per line; blank lines are no records."""

    _decode = json.JSONDecoder(parse_constant=float).decode
    """Makes each NaN an object of its own, as behind a restart: tuples with the same NaN object are equal."""

    def _parse(self, data: bytes) -> list[Any] | None:
        decode = type(self)._decode
        try:
            text = data.decode().split("\n")
            return [decode(line) for line in text if line and line != "\r"]
        except (ValueError, RecursionError):
            return None

    def _cut(self, data: bytes) -> Iterator[Piece]:
        good: list[bytes] = []
        rows: list[Any] = []
        for line in io.BytesIO(data):
            record = line.rstrip(b"\n")
            try:
                if _not_blank(record):
                    rows.append(self._record(record))
                good.append(line)
            except ValueError as error:
                yield Piece(b"".join(good), rows)
                yield Piece(line, f"not a line of JSON ({error})")
                good, rows = [], []
        yield Piece(b"".join(good), rows)

    def again(self, rows: Sequence[Any], skipped: int, /) -> Sequence[Any]:
        """Parse them again: functions are given these values themselves, and may have changed them."""
        data = self._chunk[1]
        found = self._parse(data)
        if found is None:
            found = [row for piece in self._cut(data) if not isinstance(piece.rows, str) for row in piece.rows]
        return found[skipped:]

    def _record(self, line: bytes) -> Any:
        """Return the value of a line. What nests deeply is read on a stack of its own: the same wherever it is read."""
        text = line.decode()
        try:
            return type(self)._decode(text)
        except RecursionError:
            return on_own_stack(lambda: type(self)._decode(text))

    def _places(self, file: IO[bytes]) -> Iterator[tuple[int, int]]:
        byte = 0
        for number, line in enumerate(file):
            if _not_blank(line.rstrip(b"\n")):
                yield number, byte
            byte += len(line)


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
        longer_than, data, end = 0, b"", self.offset + lines.STRETCH_BYTES
        self._pauses = False
        while len(data := self._lines.block(longer_than=longer_than)) > longer_than:
            if self._lines.pass_blank():
                longer_than, self._pauses = 0, self.offset >= end
                if self._pauses:
                    return False
                continue
            _, end, row = next(cut_rows(data), (0, 0, UNCLOSED))
            if isinstance(row, list):
                self._set_names(row)
                self._lines.consume(end)
                return True
            if row != UNCLOSED or len(data) > lines.RECORD_BYTES_MAX:
                raise self._no_header(row)
            longer_than = len(data)
        may_grow = self._follow or self._lines.damage
        if self._lines.is_long or self._lines.is_stuck(len(data)) or (data.strip() and not may_grow):
            raise self._no_header("the line is too long" if self._lines.is_long else UNCLOSED)
        return False

    def _no_header(self, reason: str) -> SourceFailed:
        message = f"{self.path}, line 1: no header line of column names ({reason}); write one, in UTF-8"
        return SourceFailed(message, source=str(self.path))

    def _set_names(self, row: list[str]) -> None:
        twice = {name for name in row if row.count(name) > 1}
        if twice:
            message = f"{self.path}, line 1: column {min(twice)!r} appears twice; give each column its own name"
            raise SourceFailed(message, source=str(self.path))
        self.names = tuple(row)

    def _block(self) -> bytes:
        return self._lines.block() if self.names or self._header() else b""

    def _parse(self, data: bytes) -> list[Any] | None:
        if len(data) > lines.RECORD_BYTES_MAX:
            return None
        let_fields_be_long()
        try:
            rows = list(csv.reader(io.StringIO(data.decode(), newline="\n"), strict=True))
        except (UnicodeDecodeError, csv.Error):
            return None
        width = len(self.names or ())
        if set(map(len, rows)) <= {width}:
            return rows
        rows = [row for row in rows if row]
        return rows if all(len(row) == width for row in rows) else None

    def _cut(self, data: bytes) -> Iterator[Piece]:
        width = len(self.names or ())
        good: list[list[str]] = []
        begin = 0
        for start, end, row in cut_rows(data):
            if isinstance(row, list) and len(row) == width:
                good.append(row)
                continue
            if row == UNCLOSED and start == 0:
                yield from self._cut_unclosed(data)
                return
            if start > begin:
                yield Piece(data[begin:start], good)
            good, begin = [], end
            if row == UNCLOSED:
                return
            yield self._piece(data[start:end], row)
        if begin < len(data):
            yield Piece(data[begin:], good)

    def _piece(self, data: bytes, row: list[str] | str) -> Piece:
        """Return what one record comes to."""
        width = len(self.names or ())
        if isinstance(row, str) or len(row) == width:
            return Piece(data, row if isinstance(row, str) else [row])
        return Piece(data, f"{width} fields expected, {len(row)} found")

    def _cut_unclosed(self, data: bytes) -> Iterator[Piece]:
        """A quoted field goes on behind the end of *data*: have more of it, or call its first line a bad record."""
        reason = lines.too_long()
        while len(data) <= lines.RECORD_BYTES_MAX:
            longer = self._lines.block(longer_than=len(data))
            if len(longer) == len(data):
                if not self._lines.is_stuck(len(data)):
                    if self._follow:
                        return
                    reason = "a quoted field is never closed"
                break
            data, begun = longer, len(data)
            if data.find(b'"', begun, lines.RECORD_BYTES_MAX) < 0:
                continue
            _, end, row = next(cut_rows(data), (0, 0, UNCLOSED))
            if row != UNCLOSED:
                yield self._piece(data[:end], row)
                return
        first_line = data[: data.find(b"\n") + 1 or len(data)]
        yield Piece(first_line, reason)

    def _places(self, file: IO[bytes]) -> Iterator[tuple[int, int]]:
        read = [0, 0]

        def text() -> Iterator[str]:
            for line in file:
                read[0], read[1] = read[0] + 1, read[1] + len(line)
                yield line.decode(errors="replace")

        let_fields_be_long()
        reader = csv.reader(text(), strict=True)
        while True:
            start, byte = read
            try:
                row = next(reader)
            except (StopIteration, csv.Error):
                yield start, byte
                return
            if row:
                yield start, byte
