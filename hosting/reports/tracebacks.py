"""Log lines with a traceback, which may hold anything: the text of an error is the user's.

`logging` prints a traceback as it is, and half a surrogate pair in it stops the handler, or the process behind a pipe.
"""

from __future__ import annotations

from textwrap import indent

from checkpoint.format.stored_errors import trace_of
from reliable_rx.errors import printable


def with_trace(what: str, error: BaseException) -> str:
    """Return *what* with the traceback of *error* behind it, so that any handler can write it.

    >>> print(with_trace("it has failed", ValueError("\\ud800")))
    it has failed
      ValueError: \\ud800
    """
    return f"{what}\n{indent(printable(trace_of(error)), '  ')}".rstrip()
