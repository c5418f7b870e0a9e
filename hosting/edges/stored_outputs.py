"""Outputs of a stream as a store has them. What cannot be read any more has a stand-in under its id, and is told.

A class that is gone, or a constructor that raises, takes one value of many: a stream that could not be read at all for
it would hold up all its readers. Rejected: to look at all outputs at each start (a store may hold years of them, which
nobody reads again), so that it is told when the stream is read first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from checkpoint.format.codec import decode_data
from checkpoint.format.salvage import Unreadable, unreadable_in
from checkpoint.store import StoreReader
from hosting.edges.replay_buffer import part
from hosting.engine.turns import Output
from hosting.reports.incidents import Incidents
from reliable_rx.interrupts import let_through

Tell = Callable[[Output, tuple[Unreadable, ...]], None]


def stored_segments(store: StoreReader, name: str, start: int, *, tell: Tell | None = None) -> Iterator[Output]:
    """Read the segments of a stream from a store; what cannot be read any more are `Unreadable` values.

    *tell* is called with each segment that has some, and with what is lost of it.
    """
    for first, count, payload in store.outputs(name, start):
        (values, ended, error), lost = decode_data(payload)
        segment = Output(name, first, values, ended, error)
        segment = segment if segment.next == first + count else cut(segment, first + count)
        if lost and tell is not None:
            tell(segment, lost)
        yield segment


def cut(segment: Output, end: int) -> Output:
    """Return *segment* without what lies at or behind id *end*."""
    return part(segment, segment.first, end) or segment


class LostValues:
    """Counts what cannot be read any more of one stream, and tells of it."""

    def __init__(self, stream: str) -> None:
        self.stream, self.count, self.why = stream, 0, ""

    def note(self, segment: Output, lost: tuple[Unreadable, ...]) -> None:
        ids = [segment.first + place for place, value in enumerate(segment.values) if _is_lost(value)]
        if not self.count:
            first = ids[0] if ids else segment.first
            self.why = f"the first is id {first:,}: {lost[0].kind}: {lost[0].reason}"
        self.count += max(1, len(ids))

    def tell(self, incidents: Incidents) -> None:
        if self.count:
            what = "1 value that was" if self.count == 1 else f"{self.count:,} values that were"
            message = f"{what} emitted and stored cannot be read again, as a whole or in part ({self.why})"
            remedy = "readers get what stands for each; bring back its class, or have the query emit plain data"
            incidents.report("stream", self.stream, f"{message}; {remedy}", level=logging.WARNING)


def _is_lost(value: object) -> bool:
    try:
        return next(unreadable_in(value), None) is not None
    except BaseException as raised:  # a value that was read may still refuse to be looked into
        let_through(raised)
        return False
