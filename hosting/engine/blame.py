"""Whose fault an exception is that came out of a query's function: the query's, or that of who stops the process.

Whatever a function raises is its query's error, also `SystemExit` and what else is no `Exception`: as such it would
take the evaluator down in the middle of a turn, at every start again. Only a real interrupt goes through: a
`KeyboardInterrupt` that a signal's handler has raised between two byte codes of the function, or inside something that
waits. Then the turn is neither taken nor journalled, and the next start takes it anew.
"""

from __future__ import annotations

from checkpoint.format.stored_errors import plain_trace, traceback_of
from reliable_rx import handled
from reliable_rx.class_of import is_a, is_odd
from reliable_rx.errors import StoredError, text_of, type_of
from reliable_rx.interrupts import let_through


def blamed(raised: BaseException) -> Exception:
    """Return *raised* as the error of a query, without what the program around handles; raise it if an interrupt.

    One whose class does not do what all errors do, as to tell its class, is told by its data from here on.

    >>> blamed(ValueError("no"))
    ValueError('no')
    >>> blamed(SystemExit(3))
    StoredError('3')
    """
    if is_a(raised, Exception) and not is_odd(raised):
        handled.cut(raised)
        return raised
    let_through(raised)
    handled.cut(raised)
    error = StoredError(text_of(raised), type=type_of(raised), trace=plain_trace(raised))
    return error.with_traceback(traceback_of(raised))  # which says at which event it was
