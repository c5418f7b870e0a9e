"""Where each record of CSV text begins and ends, and which lines are none.

`csv.reader` alone knows whether a newline ends a record, but not what to do when a quote is never rightly closed: it
would swallow all that follows. So a record that it refuses is its first line, and the next one begins behind that. What
comes out depends on the bytes of a record alone, not on where reading began.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from hosting.sources import lines
from hosting.sources.bad_records import reason_of

UNCLOSED = "unexpected end of data"
"""What `csv.reader(strict=True)` says when the input ends within quotes."""


def let_fields_be_long() -> None:
    """Have the parser take fields as long as records: its own limit of 128 kB is the process's, and set for nobody."""
    if csv.field_size_limit() < lines.RECORD_BYTES_MAX:
        csv.field_size_limit(lines.RECORD_BYTES_MAX)


def cut_rows(data: bytes) -> Iterator[tuple[int, int, list[str] | str]]:
    """Yield begin, end and fields of each record of *data*, or why it is none; `UNCLOSED` is the last.

    A record is bad as a whole if its bytes are no UTF-8, and else its first line is: what follows that may be good.
    """
    let_fields_be_long()
    stream = io.BytesIO(data)
    start = 0
    while start < len(data):
        stream.seek(start)
        for row in _until_bad(csv.reader((line.decode(errors="surrogateescape") for line in stream), strict=True)):
            end = stream.tell()
            if isinstance(row, str):
                if row == UNCLOSED:
                    yield start, end, row
                    return
                reason = lines.too_long() if end - start > lines.RECORD_BYTES_MAX else row
                end = data.find(b"\n", start) + 1 or len(data)
                yield start, end, reason
            elif end - start > lines.RECORD_BYTES_MAX:
                end = data.find(b"\n", start) + 1 or len(data)
                yield start, end, lines.too_long()
                start = end
                break
            elif row:
                yield start, end, _as_text(data[start:end], row)
            start = end


def _until_bad(reader: Iterator[list[str]]) -> Iterator[list[str] | str]:
    try:
        yield from reader
    except csv.Error as error:
        yield str(error)


def _as_text(data: bytes, row: list[str]) -> list[str] | str:
    if "".join(row).isascii():
        return row
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return reason_of(error).removeprefix("UnicodeDecodeError: ")
    return row
