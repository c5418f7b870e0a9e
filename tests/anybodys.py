"""A sink that knows which ids it has, and not where they come from."""

from __future__ import annotations

from hosting import JsonLinesSink
from reliable_rx.reliable import Origin


class Anybodys(JsonLinesSink):
    """Takes the ids of any stream and store for the same."""

    def claim(self, origin: Origin, /) -> None:
        super().claim(Origin("anybody's"))
