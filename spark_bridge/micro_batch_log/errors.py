"""The errors of its own that a log has."""

from __future__ import annotations

from reliable_rx.errors import ReliableRxError, StoreUnavailable


class LogRefused(ReliableRxError, ValueError):
    """This log, reader or checkpoint belongs to another query, schema or key: use the right one, or a new directory.

    Fields: *where* (the log), *found* (what it belongs to), *wanted* (what was asked for), *names_way* if the message
    names what to do instead.
    """


class LogFull(StoreUnavailable):
    """Readers are too far behind: let them read, release one that is gone, or raise *bytes_max*; nothing is lost.

    Fields: *where*, *bytes* (what is kept), *bytes_max*, *readers*.
    """
