"""`reliable-rx tail`: the values of a stream, one a line, as of the last checkpoint.

An end is a line like the others: where a query was edited, restarted or created anew its ids go on behind it. Following
ends when the newest notification is an end and no query runs that would go on behind it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from checkpoint.format.salvage import Unreadable
from checkpoint.store import StoreReader
from hosting.cli.inspect_store import tops
from hosting.cli.loading import load_for_store, reach
from hosting.cli.stores import StoreAddress
from hosting.cli.terminal import say_all
from hosting.cli.wording import BadUsage, in_json
from hosting.edges.stored_outputs import stored_segments
from hosting.engine.hosted_query import RUNNING
from hosting.engine.records import read_records
from hosting.engine.turns import Output
from reliable_rx.errors import PositionUnavailable, described, one_line
from reliable_rx.names import query_of
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.runtime.rows import Loader

POLL_S = 0.25
SELDOM = 9.0


def tail(address: StoreAddress, stream: str, *, start: int | None, follow: bool, app: str | None) -> int:
    """Print *stream* from id *start* on. *Raises* `BadUsage`, `PositionUnavailable`, `StoreUnavailable`."""
    reach(str(Path.cwd()))
    if app is not None:
        load_for_store(app)
    with address.look() as store:
        position = first_id(store, stream, start, follow=follow)
        last = next(stored_segments(store, stream, max(0, position - 1)), None)  # what lies before, if anything
        has_ended, writer = last is not None and last.ended, Writer(store, stream)
        while True:
            before = position
            for segment in stored_segments(store, stream, position):
                if segment.next > position:
                    show(segment, position)
                    position = segment.next
                    has_ended = segment.ended
            if not follow:
                return 0
            if position == before:
                if has_ended and not writer.goes_on():
                    return 0
                time.sleep(POLL_S)


class Writer:
    """Whether the query runs, as of the last checkpoint, that a *stream* (or side stream) belongs to.

    To know that takes reading a whole checkpoint: so only a new one is read, and for a tenth of the time at most.
    """

    def __init__(self, store: StoreReader, stream: str) -> None:
        self._store, self._stream = store, stream
        self._generation: int | None = None
        self._goes_on, self._again_at = False, 0.0

    def goes_on(self) -> bool:
        """Read the newest checkpoint, if that has not been done and it is time."""
        began = time.monotonic()
        if began < self._again_at:
            return self._goes_on
        newest = next((each.generation for each in reversed(self._store.generations())), None)
        if newest != self._generation:
            self._generation, self._goes_on = newest, self._reads_running()
            self._again_at = time.monotonic() + SELDOM * (time.monotonic() - began)
        return self._goes_on

    def _reads_running(self) -> bool:
        recovered = self._store.recover()
        if recovered is None:
            return False
        queries = tops(read_records(recovered.chunks, Loader({}), bears=Exception))
        running = {each.name for each in queries if each.status == RUNNING}
        return self._stream in running or query_of(self._stream) in running


def turns_behind(store: StoreReader) -> int:
    """Return how many turns the journal has behind the newest checkpoint."""
    recovered = store.recover()
    return store.journal.last_turn - (0 if recovered is None else recovered.turn)


def first_id(store: StoreReader, stream: str, start: int | None, *, follow: bool) -> int:
    """Return the id to begin with."""
    bounds = store.bounds(stream) if one_line(stream) == stream else None
    if bounds is None:
        names = store.streams()
        if follow and not names:
            return start or 0
        known = ", ".join(names) or "none yet"
        if turns := 0 if names else turns_behind(store):
            known += f", and {plural(turns, 'turn')} in the journal, which the next start takes again"
        raise BadUsage(f"the store has no stream {stream!r}; it has {known}")
    first, end = bounds
    if start is not None and not first <= start <= end:
        why = (
            "older ones have been acknowledged or were not retained" if start < first else "there are no newer ones yet"
        )
        raise PositionUnavailable(
            f"the store holds ids {first:,} to {end - 1:,} of {stream!r}, not {start:,}; {why}",
            wanted=start,
            first=first,
            end=end,
        )
    return first if start is None else start


def show(segment: Output, start: int) -> None:
    lines = [f"{n}\t{shown(v)}" for n, v in enumerate(segment.values, segment.first) if n >= start]
    if segment.ended:
        error = segment.error
        what = "completed" if error is None else f"failed\t{described(error)}"
        lines.append(f"{segment.next - 1}\t{what}")
    say_all(lines)


def shown(value: Any) -> str:
    """Return *value* as JSON, or why it cannot be read any more."""
    return f"unreadable\t{value.kind}: {value.reason}" if isinstance(value, Unreadable) else in_json(value)
