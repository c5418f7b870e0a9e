"""Check of stored positions: a source whose numbers would mean other records is refused, behind a clean stop too.

What the numbers depend on (`hosting.sources.numbering`) is stored with the positions and compared at each start. With
``strict=False`` it goes on from the numbers that there are, and a checkpoint has the new meaning before the first turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from hosting.sources.definition import CLASS, definition_of, numbering_of
from hosting.sources.fingerprint import Fingerprint, Versions
from hosting.sources.numbering import Reading, data_differing, renumbered_since
from reliable_rx.class_of import path_of
from reliable_rx.errors import NondeterminismDetected
from reliable_rx.functions.reach import plain_function
from reliable_rx.reliable import Source
from reliable_rx.shown import listed

if TYPE_CHECKING:
    from hosting.reports.start_warnings import StartWarnings

OTHER_RECORDS = "where these are other records now, some are never read, and some come twice"


class SourcePositions:
    """Which sources of an evaluator count otherwise than their stored positions."""

    def __init__(self, sources: Mapping[str, Source], warnings: StartWarnings, *, strict: bool) -> None:
        self._sources, self._warnings, self._strict = sources, warnings, strict
        self.passed_over: dict[str, NondeterminismDetected] = {}
        """Those that are read on all the same."""

    def check(self, found: Mapping[str, Reading], known: Mapping[str, Versions], read: Collection[str]) -> None:
        """*Raises* `NondeterminismDetected` if a source that has been *read* counts otherwise, unless that is taken.

        *found* are the definitions of today, *known* those that are stored.
        """
        for name, reading in found.items():
            stored = known.get(name)
            if stored is None or name not in read:
                continue
            parts = renumbered_since(stored, reading, self._sources[name])
            if parts:
                self._refuse(name, parts)
            else:
                self._warn(name, stored[-1], reading.now)

    def _refuse(self, name: str, parts: Collection[str]) -> None:
        error = refusal(name, self._sources[name], parts, strict=self._strict)
        if self._strict:
            raise error
        self.passed_over[name] = error
        self._warnings.append(error.message)

    def _warn(self, name: str, stored: Fingerprint, now: Fingerprint) -> None:
        """Tell of what may count otherwise: what functions hold, and a class that does not say what counts."""
        source, parts = self._sources[name], data_differing(stored, now)
        if parts:
            before, after = {**stored.data, **stored.code}, {**now.data, **now.code}
            names = sorted(each for each in before.keys() | after.keys() if before.get(each) != after.get(each))
            self._warnings.tell(
                f"source {name!r}: its {shown_parts(source, parts)} holds or names {listed(names)}, which differs from "
                f"when its positions were stored: if that decides of which partition a record is, or its place, some "
                f"records are never read and others come twice, so put the old value back; a time or the id of a run "
                f"decides nothing"
            )
        was, is_now = stored.parts.get(CLASS), now.parts.get(CLASS)
        if stored.made_by == now.made_by and was and is_now and was[0] != is_now[0]:
            self._warnings.tell(
                f"source {name!r}: its {shown_parts(source, [CLASS])} was edited behind its positions: each event must "
                f"have the id that it had; if it has another one, put it back, or declare the source under another name"
            )


def refusal(name: str, source: Source, parts: Collection[str], *, strict: bool) -> NondeterminismDetected:
    """Return the error for a source that counts otherwise by *parts*, or the warning where that is passed over."""
    way = (
        "put it back; or declare it under another name behind a clean stop, which is read from its beginning (its "
        "records then come again, into state that is kept: dispose of its queries first to begin afresh); or, if "
        "each record has the partition and the place that it had, start once with strict=False "
        "(App(strict=False)), which goes on from the numbers that there are"
    )
    if not strict:
        way = f"it was read on from the numbers that there are: {OTHER_RECORDS}"
    return NondeterminismDetected(
        f"source {name!r} does not count as it did: its {shown_parts(source, parts)} is not what it was when its "
        f"positions were stored, which are numbers of records within their partition, in its order, so records "
        f"would be lost and others come twice: {way}",
        source=name,
        parts=tuple(parts),
    )


def shown_parts(source: Source, parts: Collection[str]) -> str:
    known: dict[str, Any] = {**definition_of(source), **numbering_of(source)}
    return ", ".join(named(part, known.get(part)) for part in parts)


def named(part: str, value: Any) -> str:
    """Name a part of a source for people, with the function that it is now."""
    if part == CLASS:
        return f"class {path_of(value)}"
    function = plain_function(value)
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)  # a method of a builtin class has none
    return f"{part} ({module}.{name})" if isinstance(name, str) and module else part
