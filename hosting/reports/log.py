"""The log of the library: one logger, whose handlers and filters are the program's and stop nothing of ours.

A handler that raises (a message service that is away) would end a turn half way, or the run, at whatever line is logged
next. So what it raises is shown on standard error, as `logging` does with what handlers meet in writing, and that line
may be missing in the handlers behind it. Rejected: a guard around each line, which one of a hundred would lack.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from hosting.reports.tracebacks import with_trace
from reliable_rx.interrupts import let_through

NAME = "reliable_rx"


class GuardedLogger(logging.Logger):
    """Shows what handlers and filters raise, and raises none of it but an interrupt.

    >>> class Away(logging.Handler):
    ...     def emit(self, record):
    ...         raise ConnectionError("away")
    >>> log = GuardedLogger("doc")
    >>> log.addHandler(Away())
    >>> log.error("said")  # shown on standard error
    """

    def handle(self, record: logging.LogRecord) -> None:
        try:
            super().handle(record)
        except BaseException as raised:
            let_through(raised)
            _show(raised)


def _show(raised: BaseException) -> None:
    """Show it as `logging` does, if it would; the text of an error may raise as well."""
    if logging.raiseExceptions:
        with suppress(OSError, ValueError, AttributeError):  # there may be none, or one that is closed
            sys.stderr.write(f"{with_trace('--- Logging error ---', raised)}\n")


def _guarded() -> logging.Logger:
    """Return the logger of that name, which the program may have made before."""
    found = logging.getLogger(NAME)
    if type(found) is logging.Logger:  # not one of a class that the program has chosen
        found.__class__ = GuardedLogger
    return found


LOG = _guarded()
