"""Closing several things, each whatever the others raise: an error in one leaves nothing of another open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack


def close_all(*closers: Callable[[], object]) -> None:
    """Call each of *closers* in order; then *raise* what one of them has raised.

    >>> close_all(lambda: print("one"), lambda: print("two"))
    one
    two
    """
    with ExitStack() as closing:
        for each in reversed(closers):
            closing.callback(each)
