"""What the files of a micro-batch log are called, all of them in one directory.

    log                        what the log is: its id, columns, partitions and key
    manifest-NUMBER            one batch: which rows it has, in which order, from which ids on; small rows are inside
    manifests-COUNT-NUMBER     so many of them from that number on, put together when they had become old
    rows-QUERY-BATCH-TASK-…    what one task of one batch has written, in Arrow's file format
    reader-NAME-PARTITION      how far a reader has acknowledged a partition
    bells/                     a named pipe for each process that waits

One directory, because then one sync of it makes the names of a batch's files durable, before that of its manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LOG = "log"
BELLS = "bells"
UNFINISHED = ".new"
NUMBER_DIGITS = 12
SPANS = (64, 4096)
"""How many manifests are put together, and how many of those sums again. A sum begins at a multiple of its count."""
_MANIFEST = re.compile(r"manifest-(\d{12})")
_SPAN = re.compile(r"manifests-(\d+)-(\d{12})")
_ROWS = re.compile(r"rows-([0-9a-f]+)-(\d+)-(\d+)-([0-9a-f]+)\.arrow")
_READER = re.compile(r"reader-([A-Za-z0-9_.-]{1,100})-(\d{1,6})")
_READER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class RowsName:
    """Who has written a file of rows."""

    query: str
    batch: int
    task: int
    attempt: str

    def __str__(self) -> str:
        return f"rows-{self.query}-{self.batch:012d}-{self.task:06d}-{self.attempt}.arrow"


def manifest_name(number: int) -> str:
    """Return the name of manifest *number*.

    >>> manifest_name(12), manifest_number("manifest-000000000012"), manifest_number("manifest-000000000012.1.new")
    ('manifest-000000000012', 12, None)
    """
    return f"manifest-{number:0{NUMBER_DIGITS}d}"


def manifest_number(name: str) -> int | None:
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def newest_alone(names: Iterable[str]) -> int | None:
    """Return the number of the newest manifest among *names*, which is in a file of its own; None if in doubt.

    >>> newest_alone(["log", "manifest-000000000007", "manifest-000000000012", "manifests-64-000000000064"])
    12
    """
    return manifest_number(max((name for name in names if name.startswith("manifest-")), default=""))


def span_name(numbers: range) -> str:
    """Return the name of the file that has the manifests with these *numbers*, one or many.

    >>> span_name(range(64, 128)), span_name(range(7, 8))
    ('manifests-64-000000000064', 'manifest-000000000007')
    """
    if len(numbers) == 1:
        return manifest_name(numbers.start)
    return f"manifests-{len(numbers)}-{numbers.start:0{NUMBER_DIGITS}d}"


def span_numbers(name: str) -> range | None:
    """Return the numbers of the manifests in the file *name*; None if it has none.

    >>> span_numbers("manifests-64-000000000064"), span_numbers("manifest-000000000007"), span_numbers("log")
    (range(64, 128), range(7, 8), None)
    """
    number = manifest_number(name)
    if number is not None:
        return range(number, number + 1)
    found = _SPAN.fullmatch(name)
    if found is None:
        return None
    numbers = range(int(found[2]), int(found[2]) + int(found[1]))
    return numbers if numbers in homes(numbers.start) else None


def homes(number: int) -> list[range]:
    """Return the numbers of the files that manifest *number* can be in, in the order in which it moves.

    >>> homes(70)
    [range(70, 71), range(64, 128), range(0, 4096)]
    """
    spans = (range(number // count * count, number // count * count + count) for count in SPANS)
    return [range(number, number + 1), *spans]


def parts_of(numbers: range) -> int:
    """Return how many files a file of these *numbers* is made of."""
    level = SPANS.index(len(numbers))
    return SPANS[level] // (SPANS[level - 1] if level else 1)


def rows_name(name: str) -> RowsName | None:
    """Say who has written the file *name*; None if it is no file of rows.

    >>> rows_name(str(RowsName("ab12", 7, 0, "ff")))
    RowsName(query='ab12', batch=7, task=0, attempt='ff')
    """
    found = _ROWS.fullmatch(name)
    return RowsName(found[1], int(found[2]), int(found[3]), found[4]) if found else None


def query_name(query: str) -> str:
    """Return the id of a query (a UUID) as it stands in the names of files."""
    return query.replace("-", "").lower()


def reader_name(reader: str, partition: int) -> str:
    return f"reader-{reader}-{partition}"


def reader_of(name: str) -> tuple[str, int] | None:
    """Return the reader and the partition that the file *name* speaks of.

    >>> reader_of("reader-my-app-3"), reader_of("reader-my-app-3.new")
    (('my-app', 3), None)
    """
    found = _READER.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def check_reader(reader: str) -> str:
    """Return *reader* if it can be the name of one. *Raises* `ValueError`."""
    if not _READER_NAME.fullmatch(reader):
        raise ValueError(f"reader is {reader!r}; a reader's name has 1 to 100 letters, digits, '_', '-' or '.'")
    return reader
