"""Closing what raises: an error in one leaves nothing of another open, and replaces none that is on its way out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from hosting.engine.blame import blamed
from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace


def close_all(*closers: Callable[[], object]) -> None:
    """Call each of *closers* in order; then *raise* what one of them has raised.

    >>> close_all(lambda: print("one"), lambda: print("two"))
    one
    two
    """
    with ExitStack() as closing:
        for each in reversed(closers):
            closing.callback(each)


def let_go(what: str, close: Callable[[], object]) -> None:
    """Call *close* of *what* is over; log what it raises, as another error may be on its way out.

    >>> let_go("nothing", lambda: None)
    """
    try:
        close()
    except BaseException as raised:  # a sink and a source are somebody else's code
        LOG.warning("%s", with_trace(f"{what} did not close in order", blamed(raised)))
