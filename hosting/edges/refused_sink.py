"""What stands in the place of a sink that says nothing of itself, or cannot be made: it fails as one that cannot open.

So its stream keeps what it lacks, its incident says why, and the other sinks go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hosting.edges.sink_positions import UNMADE
from hosting.engine.blame import blamed
from reliable_rx.reliable import DeadLetter


def answering(sink: Any) -> Any:
    """Return *sink*, or what stands in its place if it raises when it is asked what it is called and writes."""
    try:
        for name in ("label", "target", "stored_position"):
            getattr(sink, name, None)
    except BaseException as raised:  # a sink is somebody else's code
        return RefusedSink(blamed(raised))
    return sink


class RefusedSink:
    """In place of a sink that could not be made or fenced: it says why when it is opened."""

    label = UNMADE

    def __init__(self, error: Exception) -> None:
        self._error = error

    def open(self, stream: str, /) -> int | None:
        raise self._error

    def write(self, first: int, values: Sequence[Any], /) -> None: ...

    def end(self, n: int, error: Exception | None, /) -> None: ...

    def skip(self, n: int, until: int, why: str, letter: DeadLetter | None, /) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...
