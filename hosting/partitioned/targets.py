"""What the sinks of a section write to: two partitions with one target would take it from each other for ever.

Each grant of a partition fences its sinks by its own count of epochs, so that the owners of two partitions with one
file each believe the other to be a newer owner of their own. A sink says in `target` what it alone must write; the
partitions of a section that this process makes sinks for are compared. Those of two processes cannot be: what a
sink says that finds another writer hints at it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hosting.edges.sink_positions import check_apart
from reliable_rx.errors import QueryRefused
from reliable_rx.reliable import Source


class Targets:
    """Which partition writes to what, of which no *sources* may read anything.

    >>> class File:
    ...     target = "out.jsonl"
    >>> targets = Targets()
    >>> targets.check("sums", "readings/attic", File())
    >>> targets.check("sums", "readings/attic", File())
    """

    def __init__(self, sources: Mapping[str, Source] = MappingProxyType({})) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self._writers: dict[str, str] = {}

    def check(self, stream: str, partition: str, sink: Any) -> None:
        """Note that *sink* is that of *partition*.

        *Raises* `QueryRefused` if its target is another partition's, `ValueError` if a source would read it.
        """
        for name, source in self._sources.items():
            check_apart(name, source, stream, sink)
        target = getattr(sink, "target", None)
        if target is None:
            return
        with self._lock:
            other = self._writers.setdefault(target, partition)
        if other != partition:
            kind = type(sink).__name__
            raise QueryRefused(
                f"partitions {other!r} and {partition!r} need a target each for {stream!r}, and both write to {target}:"
                f" say lambda place: {kind}(f'out-{{place.partition.name}}')",
                path="/",
            )
