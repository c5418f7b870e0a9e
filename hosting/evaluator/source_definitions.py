"""Which functions have read the turns of a store, by source: a replay reads events again, and needs the same.

Queries travel into the store with their code, sources do not: they hold files and connections. So a store has a
fingerprint of what each source's events come from (`hosting.sources.fingerprint`): in each checkpoint, in the first
journalled group of each run, and in the first behind a redefinition. A replay that would read a turn with other *code*
is refused before anything is written, as it is for classes that have changed; with the old code back nothing is lost.
Behind a clean stop no turn is read again. Other *data* are told, and refused where the outputs of the replay differ.

Names that are bound anew while a source reads are watched. Turns behind that are read by the new code, so a checkpoint
is taken before the next turn, the fingerprint anew, and what was read ahead is read again: no replay has both. The one
that the process took first is stored too: code that comes late in each process, or is set late, is no edit.

A fingerprint of another interpreter or release tells nothing. Rejected: storing the functions (a source is declared
whole, also with what does not pickle), comparing outputs alone (a state may differ long before an output does).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from hosting.engine.watched_names import WatchedNames
from hosting.evaluator.source_positions import SourcePositions, named
from hosting.sources.definition import definition_of
from hosting.sources.fingerprint import Difference, Fingerprint, Versions, differing
from hosting.sources.numbering import Reading, reading_of
from reliable_rx.errors import NondeterminismDetected, StoreUnavailable
from reliable_rx.names import query_of
from reliable_rx.reliable import Source
from reliable_rx.shown import listed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hosting.edges.partition import Partition
    from hosting.reports.incidents import Incidents
    from hosting.reports.start_warnings import StartWarnings

REDEFINED = "redefined"
"""The incident of a query or source that reaches what was defined anew while it ran."""
DATA_MAX = 10
"""Where data are bound anew more often, by a thread say, that is only told: reading again each time costs too much."""
READ = ("events", "rejects")
"""The kinds of journalled turns that are read from their source again."""


class Inputs(Protocol):
    """The sources of an evaluator, and where they are read."""

    @property
    def sources(self) -> Mapping[str, Source]: ...
    @property
    def partitions(self) -> Mapping[tuple[str, str], Partition]: ...
    def move(self, positions: Mapping[tuple[str, str], int], /) -> None:
        """Read partitions again from these positions on."""


class SourceDefinitions:
    """What the sources of an evaluator are defined by, now and in its store."""

    def __init__(
        self,
        inputs: Inputs,
        warnings: StartWarnings,
        incidents: Incidents,
        *,
        strict: bool,
        repair: str,
        inside: AbstractContextManager[None],
        close_group: Callable[[], None],
        checkpoint: Callable[[], None],
    ) -> None:
        self._inputs, self._warnings, self._incidents = inputs, warnings, incidents
        self._strict, self._repair = strict, repair
        self._inside, self._close_group, self._checkpoint = inside, close_group, checkpoint
        self.is_first = True
        """Whether nothing of this process reads the sources yet, as another partition of a node may."""
        self.read: dict[str, Reading] = {}
        self.watched = WatchedNames()
        self._data_taken = 0
        self.stored: dict[str, Versions] = {}
        self.is_told = False
        self.changed: dict[str, Difference] = {}
        """The sources that are not what has read the turns at hand, with what differs."""
        self.passed_over: dict[str, NondeterminismDetected] = {}
        """Those whose turns were taken again all the same."""
        self.data: dict[str, str] = {}
        """Those that have read turns again with other data, with a sentence that says so."""
        self.positions = SourcePositions(inputs.sources, warnings, strict=strict)
        self._compared = set[str]()
        """The sources of which it is known that positions mean what they meant when they were stored."""

    def recovered(self, meta: Mapping[str, Any]) -> None:
        """Take what a checkpoint has, and look what is declared now.

        *Raises* `NondeterminismDetected` if a strict evaluator would go on from positions that mean other records.
        """
        self.read = self._read(anew=self.is_first)
        self._know(meta.get("definitions", {}))
        read = {source for (source, _), at in meta["positions"].items() if at}
        self._compare(read | {source for source, _ in meta["ended"]})

    def _compare(self, read: set[str]) -> None:
        """*Raises* `NondeterminismDetected` if positions of what has been *read* mean other records."""
        self.positions.check(self.read, self.stored, read - self._compared)
        self._compared |= read

    def _read(self, *, anew: bool = False) -> dict[str, Reading]:
        found = {name: reading_of(source, anew=anew) for name, source in self._inputs.sources.items()}
        self.watched.reset(content for each in found.values() for content in each.names)
        return found

    def _know(self, stored: Mapping[str, Any]) -> None:
        self.stored.update((name, tuple(Fingerprint(*each) for each in there)) for name, there in stored.items())
        found = {name: _difference(self.stored[name], each) for name, each in self.read.items() if name in self.stored}
        self.changed = {name: each for name, each in found.items() if each is not None}

    def check(self, stored: Mapping[str, Any], entries: Iterable[Sequence[Any]], first: int, last: int) -> None:
        """*Raises* `NondeterminismDetected` if a strict evaluator would read one of *entries* otherwise than they were.

        *stored*: what is stored with them, if they are the first of a run.
        """
        if stored:
            self._know(stored)
        read = dict.fromkeys(entry[1] for entry in entries if entry[0] in READ)
        if not self._compared.issuperset(read):  # by a run that was killed before its first checkpoint
            self._compare({*read})
        if not self.changed:
            return
        for name in read:
            there = self.changed.get(name)
            if there is None:
                continue
            if there.refuses and name not in self.passed_over:
                self.passed_over[name] = self._refusal(name, there, first, last)
                self._warnings.append(self.passed_over[name].message)
            elif not there.refuses and name not in self.data:
                what, way = self._told(name, there)
                self.data[name] = f"{what}: {way}"
                self._warnings.append(
                    f"turns {first:,} to {last:,} were read again after a crash: {what}. If that decides what is read, "
                    f"a state may differ that no output shows (outputs that differ are refused, or told with "
                    f"strict=False): have it be the same at each start. The id of a run, or a time in a line of a log, "
                    f"decides nothing"
                )

    def _told(self, name: str, there: Difference) -> tuple[str, str]:
        """Say in what a source reads turns again that is not refused, and what to do where outputs differ."""
        part = f"source {name!r}: its {self._parts(name, there)}"
        if there.is_late:
            return (
                f"{part} changes while its process runs{_named(there, ' (', ')')}, and is not what read them",
                "start with what it was last, and set what is set once before the start",
            )
        return (
            f"{part} {_named(there)} (its code is what it was)",
            "put the old value back, start, stop cleanly, and change it then (where it decides nothing that is read, "
            "a function of the query reads a clock, a random number, a changing global or the order of a set)",
        )

    def _refusal(self, name: str, there: Difference, first: int, last: int) -> NondeterminismDetected:
        """Say of which source the code differs. *Raises* it where that is not to be passed over."""
        strict = self._strict
        way = (
            f"put the old code back, start, stop cleanly, and change it then; or go on with what it reads now, "
            f"with strict=False (App(strict=False)){self._repair}"
        )
        if not strict:
            way = "they were read again with what it is now, so states and outputs are what comes of that"
        error = NondeterminismDetected(
            f"source {name!r} does not read as it did: its {self._parts(name, there)} is not what it was when turns "
            f"{first:,} to {last:,} were taken{_named(there, ' (', ')')}, which must be read again after a crash: "
            f"{way}",
            source=name,
            parts=there.parts,
            turn=first,
        )
        if strict:
            raise error
        return error

    def _parts(self, name: str, there: Difference) -> str:
        definition = definition_of(self._inputs.sources[name])
        return ", ".join(named(part, definition.get(part)) for part in there.parts)

    def read_by(self, queries: Iterable[str], reads: Callable[[str], Collection[str]]) -> dict[str, str]:
        """Say what differs of the sources behind *queries* that have read turns again with other data.

        *reads* says what a query reads: sources and other queries.
        """
        found, waiting = dict[str, str](), {query_of(each) for each in queries}
        seen = set[str]()
        while self.data and waiting:
            name = waiting.pop()
            seen.add(name)
            if name in self.data:
                found[name] = self.data[name]
            waiting |= set(reads(name)) - seen
        return found

    # -- while it runs

    def look(self) -> None:
        """Tell of the sources that reach what was defined anew, and have what follows be read by that."""
        if not self.watched.are_due():
            return
        with self._inside:
            now = self._read()
        found = {name: differing(self.read[name].now, each.now) for name, each in now.items()}
        is_code = any(each is not None and each.is_code for each in found.values())
        if is_code or (any(found.values()) and self._data_taken < DATA_MAX):
            self._data_taken += not is_code
            self._take_up({name for name, each in found.items() if each is not None}, now)
        for name, each in now.items():
            self._tell(name, differing(each.began, each.now))
        self.watched.compared()

    def _tell(self, name: str, there: Difference | None) -> None:
        if there is None:
            self._incidents.resolve(REDEFINED, name)
            return
        message = (
            f"its {self._parts(name, there)} was defined anew while it ran{_named(there, ' (', ')')}: what it reads "
            f"from now on is read by the new one. Start with the new one, or stop cleanly and then with any"
        )
        self._incidents.report(REDEFINED, name, message, level=logging.WARNING, once=True)

    def _take_up(self, sources: Collection[str], now: dict[str, Reading]) -> None:
        """Have one definition before a checkpoint, and another one behind it; what was read ahead is read again."""
        self._close_group()
        self.read, self.is_told = now, False
        with suppress(StoreUnavailable):  # then no turn is taken until there is one
            self._checkpoint()
        partitions = self._inputs.partitions.items()
        is_read = {key: each for key, each in partitions if key[0] in sources and each.reader and not each.ended}
        self._inputs.move({key: each.safe_position for key, each in is_read.items()})

    def to_tell(self) -> dict[str, Any]:
        """Return what the first group of this run, or behind a redefinition, is to have."""
        if self.is_told:
            return {}
        self.is_told = True
        return self._versions()

    def for_checkpoint(self) -> dict[str, Any]:
        """Return what is known behind the turns of this run, also of sources that are not declared now."""
        return {**{name: tuple(map(tuple, each)) for name, each in self.stored.items()}, **self._versions()}

    def _versions(self) -> dict[str, Any]:
        found = dict[str, Any]()
        for name, each in self.read.items():
            found[name] = (tuple(each.now),) if each.began == each.now else (tuple(each.began), tuple(each.now))
        return found


def _difference(stored: Versions, read: Reading) -> Difference | None:
    """Say what differs from what has read last; an app that comes by code late in each process is not edited."""
    there = differing(stored[-1], read.now)
    if there is None or not there.is_code:
        return there
    at_start = differing(stored[0], read.began)
    return there._replace(is_late=at_start is None or not at_start.is_code)


def _named(there: Difference, before: str = "", behind: str = "") -> str:
    """Name what differs in the parts of a source."""
    if not there.names:
        return "" if before else "holds what differs"
    names = listed(list(there.names))
    return f"{before}{names} differs{behind}" if before else f"holds or names {names}, which differs"
