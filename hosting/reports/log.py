"""The log of the library: one logger, whose handlers and filters are the program's and stop nothing of ours.

A handler that raises (a message service that is away) would end a turn half way, or the run, at whatever line is logged
next. So what it raises is shown on standard error, as `logging` does with what handlers meet in writing, and that line
may be missing in the handlers behind it. Rejected: a guard around each line, which one of a hundred would lack.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any

from hosting.reports.tracebacks import with_trace
from reliable_rx.class_of import is_a


class Guarding:
    """Shows what handlers and filters raise, and raises none of it but what is no `Exception`, as of a signal.

    >>> class Away(logging.Handler):
    ...     def emit(self, record):
    ...         raise ConnectionError("away")
    >>> log = guarded(logging.Logger("doc"))
    >>> log.addHandler(Away())
    >>> log.error("said")  # shown on standard error
    """

    def handle(self, record: logging.LogRecord) -> None:
        try:
            super().handle(record)  # type: ignore[misc]
        except BaseException as raised:
            if not is_a(raised, Exception):
                raise
            _show(raised)


def _show(raised: BaseException) -> None:
    """Show it as `logging` does, if it would; the text of an error may raise as well."""
    if logging.raiseExceptions:
        with suppress(Exception):  # there may be none, one that is closed, or one that goes to the log
            sys.stderr.write(f"{with_trace('--- Logging error ---', raised)}\n")


def guarded(logger: logging.Logger) -> logging.Logger:
    """Return *logger*, which the program may have made before, of a class of its own."""
    kind: Any = type(logger)
    if not issubclass(kind, Guarding):
        with suppress(Exception):  # a class that can have none below it stays
            logger.__class__ = type(f"Guarded{kind.__name__}", (Guarding, kind), {})
    return logger


LOG = guarded(logging.getLogger("reliable_rx"))
