"""The exception that a program handles while it calls a host: the context of nothing that the host's functions raise.

Python makes an exception that is being handled, in whatever frame, the `__context__` of each that is raised meanwhile.
Of a program that runs its evaluator within an ``except`` (a retry after a failed start, a ``finally``, the exit of a
``with``) that is an error of its own, which a replay, started elsewhere, does not have: what an error was raised while
handling would be another thing in each run. So a host notes it when it is called, and the chain of what its functions
raise ends there. Rejected: a loop in a thread of its own, where nothing is handled (sinks and signals belong to the
caller's), and to clear what the interpreter handles (Python cannot, and generators hide it).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

from reliable_rx.class_of import is_a, is_odd

_HANDLED: ContextVar[BaseException | None] = ContextVar("handled by who called a host", default=None)
LINKS_MAX = 10_000
Noted = Token[BaseException | None] | None


def note() -> Noted:
    """Note what the caller of a host handles; to be undone by `forget`."""
    handled = sys.exception()
    return None if handled is None else _HANDLED.set(handled)


def forget(noted: Noted) -> None:
    if noted is not None:
        _HANDLED.reset(noted)


@contextmanager
def noted() -> Iterator[None]:
    """Note it for the time of a ``with``, or of a call that is decorated with it."""
    token = note()
    try:
        yield
    finally:
        forget(token)


def cut(error: BaseException) -> list[BaseException]:
    """End the chain of *error* where the program around begins; return those that were linked to it.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError:
    ...     with noted():
    ...         try:
    ...             raise KeyError("ours")
    ...         except KeyError as error:
    ...             cut(error), error.__context__
    ([KeyError('ours')], None)
    """
    handled = _HANDLED.get()
    return [] if handled is None else _cut(error, handled)


def _cut(error: BaseException, handled: BaseException) -> list[BaseException]:
    found = list[BaseException]()
    for at in linked(error, but=handled):
        if at.__context__ is handled:
            at.__context__ = None
            found.append(at)
    return found


def linked(error: BaseException, *, but: BaseException | None = None) -> Iterator[BaseException]:
    """Yield *error*, its members, what led to these, and so on; not what led there by way of *but*."""
    waiting, seen = [error], {id(error), id(but)}
    while waiting and len(seen) < LINKS_MAX:
        at = waiting.pop()
        if is_odd(at):  # what led to it is its own affair
            continue
        yield at
        members = at.exceptions if is_a(at, BaseExceptionGroup) else ()
        for led in (at.__context__, at.__cause__, *members):
            if led is not None and id(led) not in seen:
                seen.add(id(led))
                waiting.append(led)


@contextmanager
def apart(error: BaseException) -> Iterator[None]:
    """Cut the chain of *error* while it is told, and join it again: it may be on its way to who handles the other."""
    handled = _HANDLED.get()
    found = [] if handled is None else _cut(error, handled)
    try:
        yield
    finally:
        for each in found:
            each.__context__ = handled
