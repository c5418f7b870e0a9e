"""Watch over partitions that were read to their end, and whose files go on to grow: what is appended is never read.

Such a source was meant to be followed, or its file was read too early. How much there was is noted with each
checkpoint, so that it is found at a later start too; to look costs one `stat` of a file. A pushed input takes nothing
behind its end; what a former release has taken there is told of at every start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from hosting.edges.partition import Partition
from hosting.reports.incidents import Incidents
from hosting.sources.pushed import PushedStream, behind
from reliable_rx.errors import ReliableRxError
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.reliable import Growing, Source

LOOKED_AT_MAX = 64
"""How many partitions are looked at after a checkpoint; at a start it is all."""
Key = tuple[str, str]


class Growth:
    """How much partitions had when they ended, and which sources have been told of."""

    def __init__(self, sources: Mapping[str, Source], incidents: Incidents) -> None:
        self._sources, self._incidents = sources, incidents
        self._extents: dict[Key, Any] = {}
        self._told: set[str] = set()

    def begin(self, extents: Mapping[Key, Any], partitions: Iterable[Partition]) -> None:
        """Look at what a checkpoint knows, and at what has ended in the replay behind it."""
        self._extents = dict(extents)
        self.look_at(extents)
        for each in partitions:
            source = self._sources[each.source]
            if each.ended and isinstance(source, PushedStream):
                self._look_behind(source, each.position)
            elif each.has_grown:
                self._tell(each.source, f"partition {each.name!r} has more records than when it was read to its end")

    def note(self, ended: Iterable[Key]) -> dict[Key, Any]:
        """Return what a checkpoint is to know: how much each of the *ended* partitions had."""
        before, self._extents = self._extents, {}
        for key in ended:
            extent = before.get(key)
            source: Any = self._sources.get(key[0])
            if extent is None and isinstance(source, Growing):
                extent = source.extent(key[1])
            if extent is not None:
                self._extents[key] = extent
        return dict(self._extents)

    def look(self) -> None:
        """Look at some partitions, and the next time at the next ones."""
        some = dict(islice(self._extents.items(), LOOKED_AT_MAX))
        self.look_at(some)
        for key in some:
            self._extents[key] = self._extents.pop(key)

    def look_at(self, extents: Mapping[Key, Any]) -> None:
        """Look at partitions that had *extents* when they ended."""
        for (source, partition), extent in extents.items():
            growing: Any = self._sources.get(source)
            if source in self._told or not isinstance(growing, Growing):
                continue
            found = growing.growth(partition, extent)
            if found is not None:
                self._tell(source, found)

    def _look_behind(self, pushed: PushedStream, end: int) -> None:
        with suppress(ReliableRxError):  # what cannot be read is told of by who reads it
            count = behind(pushed, end)
            if count:
                what = f"of {plural(count, 'value')} accepted behind its end, from id {end + 1:,} on, none is read"
                remedy = "push them again into an input of another name, as they are with who pushed them"
                self._incidents.report("growth", pushed.name, f"{what}: {remedy}")

    def _tell(self, source: str, what: str) -> None:
        if source not in self._told:
            self._told.add(source)
            remedy = (
                "what was appended is not read, since an ended source stays ended: declare the file as a source of "
                "another name (with follow=True if it goes on growing), and let the queries read that: they begin "
                "afresh and read all of it; or write what is new into a file of its own that the pattern of the source "
                "finds, start, and run the queries that have ended again (restart): they read that one"
            )
            message = what if ";" in what else f"{what}; {remedy}"  # a file that shrank has a remedy of its own
            self._incidents.report("growth", source, message, level=logging.WARNING)
