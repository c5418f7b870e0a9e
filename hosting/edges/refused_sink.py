"""What stands in the place of a sink that says nothing of itself, or cannot be made: it fails as one that cannot open.

So its stream keeps what it lacks, its incident says why, and the other sinks go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hosting.edges.sink_positions import UNMADE, StandIn
from hosting.engine.blame import blamed
from reliable_rx.class_of import name_of
from reliable_rx.errors import QueryRefused, described
from reliable_rx.reliable import DeadLetter


def answering(sink: Any) -> Any:
    """Return *sink*, or what stands in its place if it raises when it is asked what it is called and writes."""
    for name in ("label", "target", "stored_position"):
        try:
            getattr(sink, name, None)
        except BaseException as raised:  # a sink is somebody else's code
            error = blamed(raised)
            what = f"the {name} of {name_of(type(sink))} cannot be had: {described(error)}"
            refused = QueryRefused(what, path="/")  # not waited for: nothing is known of where it writes
            return RefusedSink(refused, stands_for=name_of(type(sink)))
    return sink


class RefusedSink(StandIn):
    """In place of a sink that could not be made or fenced: it says why when it is opened."""

    label = UNMADE

    def __init__(self, error: Exception, *, stands_for: str = "sink") -> None:
        self._error, self.stands_for = error, stands_for

    def open(self, stream: str, /) -> int | None:
        raise self._error

    def write(self, first: int, values: Sequence[Any], /) -> None: ...

    def end(self, n: int, error: Exception | None, /) -> None: ...

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...
