"""The one error of its own that a log has."""

from __future__ import annotations

from reliable_rx.errors import ReliableRxError


class LogRefused(ReliableRxError, ValueError):
    """This log, reader or checkpoint belongs to another query, schema or key: use the right one, or a new directory.

    Fields: *where* (the log), *found* (what it belongs to), *wanted* (what was asked for).
    """
