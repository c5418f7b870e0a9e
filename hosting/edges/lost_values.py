"""Values of an earlier run that cannot be read any more, in runs: a sink leaves out together what is lost alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from checkpoint.format.salvage import Unreadable, unreadable_in
from hosting.edges.sinks_ahead import COMES_AGAIN
from reliable_rx.class_of import is_a
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import DeadLetter, LateEvent


def runs_lost(values: Sequence[Any], *, each: bool) -> Iterator[tuple[int, int, Unreadable]]:
    """Give where those of *values* are that cannot be read: the first, the one behind, and what is lost.

    Those that lack the same, one behind the other, are given together, unless *each* has a letter of its own.

    >>> gone = Unreadable("thing", "it is gone")
    >>> [found[:2] for found in runs_lost([1, gone, gone, 2], each=False)]
    [(1, 3)]
    >>> [found[:2] for found in runs_lost([1, gone, gone, 2], each=True)]
    [(1, 2), (2, 3)]
    """
    begun: tuple[int, Unreadable] | None = None
    last: Any = None
    for place, value in enumerate(values):
        lost = begun[1] if begun is not None and value is last else lost_in(value)
        last = value
        if begun is not None and (lost is None or not goes_on(begun[1], lost, each=each)):
            yield begun[0], place, begun[1]
            begun = None
        if begun is None and lost is not None:
            begun = place, lost
    if begun is not None:
        yield begun[0], len(values), begun[1]


def goes_on(before: Unreadable, lost: Unreadable, *, each: bool) -> bool:
    """Whether *lost* is left out together with what is lost *before* it."""
    return (not each or lost.reason == COMES_AGAIN) and (before.kind, before.reason) == (lost.kind, lost.reason)


def lost_in(value: Any) -> Unreadable | None:
    """Return what of *value* cannot be read any more; a dead letter or late event is told as it is.

    >>> lost_in([1, Unreadable("thing", "it is gone")]), lost_in([1])
    (<unreadable thing: it is gone>, None)
    """
    if is_a(value, (DeadLetter, LateEvent)):
        return None
    try:
        return next(unreadable_in(value), None)
    except BaseException as raised:  # values are the user's, and so is what they raise when they are looked into
        let_through(raised)
        return None
