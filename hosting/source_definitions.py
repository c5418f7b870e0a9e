"""Which functions have read the turns of a store, by source: a replay reads events again, and needs the same.

Queries travel into the store with their code, sources do not: they hold files and connections. So a store has a hash
of what each source's events come from (`hosting.sources.definition`): in each checkpoint, and in the first journalled
group of each run. A replay that would read a turn with something else is refused before anything is written, as it is
for classes that have changed; with the old code back nothing is lost. Behind a clean stop no turn is read again.

What an object holds counts as far as code at hand reads it and does not set it, as if a function named the object. A
hash of another interpreter or release tells nothing. Rejected: storing the functions (a source is declared whole, also
with what does not pickle), comparing outputs alone (a state may differ long before an output does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkpoint.code import makers
from hosting.sources.definition import CLASS, definition_of
from hosting.store_commands import or_repair_it
from reliable_rx.changing import Changes
from reliable_rx.class_of import path_of
from reliable_rx.errors import NondeterminismDetected
from reliable_rx.identity import Writing
from reliable_rx.interrupts import let_through
from reliable_rx.reach import plain_function
from reliable_rx.reliable import Source
from reliable_rx.text import NAMED

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator

READ = ("events", "rejects")
"""The kinds of journalled turns that are read from their source again."""
KNOWN_MAX = 1000
KNOWN: dict[int, tuple[Any, Writing, str]] = {}
"""What was hashed, and holds for as long as all names mean the same."""
Hashes = Mapping[str, Mapping[str, str]]
"""By source: the hashes of what its events come from, by name, and under ``""`` what has made them."""


class SourceDefinitions:
    """What the sources of an evaluator are defined by, now and in its store."""

    def __init__(self, evaluator: QueryEvaluator) -> None:
        self.evaluator = evaluator
        self.now: Hashes = {}
        self.stored: dict[str, Mapping[str, str]] = {}
        self.is_told = False
        self.changed: dict[str, list[str]] = {}
        """The sources that are not what has read the turns at hand, with what differs."""
        self.passed_over: dict[str, NondeterminismDetected] = {}
        """Those whose turns were taken again all the same."""

    def recovered(self, stored: Hashes) -> None:
        """Take what a checkpoint has *stored*, and look what is declared now."""
        self.now = {name: hashes_of(source) for name, source in self.evaluator.intake.sources.items()}
        self._know(stored)

    def _know(self, stored: Hashes) -> None:
        self.stored.update(stored)
        found = {name: differing(self.stored[name], each) for name, each in self.now.items() if name in self.stored}
        self.changed = {name: each for name, each in found.items() if each}

    def check(self, stored: Hashes, entries: Iterable[Sequence[Any]], first: int, last: int) -> None:
        """*Raises* `NondeterminismDetected` if a strict evaluator would read one of *entries* with other functions.

        *stored*: what is stored with them, if they are the first of a run.
        """
        if stored:
            self._know(stored)
        if not self.changed:
            return
        for name in dict.fromkeys(entry[1] for entry in entries if entry[0] in READ):
            if name in self.changed and name not in self.passed_over:
                error = self._refusal(name, first, last)
                if self.evaluator.strict:
                    raise error
                self.passed_over[name] = error
                self.evaluator.warnings.append(error.message)

    def _refusal(self, name: str, first: int, last: int) -> NondeterminismDetected:
        there = definition_of(self.evaluator.intake.sources[name])
        parts = [named(part, there.get(part)) for part in self.changed[name]]
        return NondeterminismDetected(
            f"source {name!r} does not read as it did: its {', '.join(parts)} is not what it was when turns {first:,} "
            f"to {last:,} were taken, which must be read again after a crash: put the old code back, start, stop "
            f"cleanly, and change it then (if nothing was edited, it names what differs at each start, as a time or "
            f"the id of a run: look that up when it runs); or go on with what it reads now, with strict=False "
            f"(App(strict=False)){or_repair_it(self.evaluator.store)}",
            source=name,
            parts=tuple(self.changed[name]),
            turn=first,
        )

    def to_tell(self) -> Hashes:
        """Return what the first group of this run is to have."""
        if self.is_told:
            return {}
        self.is_told = True
        return self.now

    def for_checkpoint(self) -> Hashes:
        """Return what is known behind the turns of this run, also of sources that are not declared now."""
        return {**self.stored, **self.now}


def hashes_of(source: Source) -> Mapping[str, str]:
    """Hash what the events of *source* come from; what cannot be hashed is left out."""
    made = makers()
    found = {"": f"{made.reliable_rx}/{made.bytecode}"}
    try:
        there = definition_of(source)
    except BaseException as raised:  # a source is somebody else's code
        let_through(raised)
        return found
    for name, value in there.items():
        if value is not None:
            try:
                found[name] = hash_of_named(value)
            except BaseException as raised:  # what it reaches may be of any size, or raise when it is looked at
                let_through(raised)
    return found


def hash_of_named(value: Any) -> str:
    """Return a hex digest of *value* as if a function named it: of an object, of what its code reads and does not set.

    *Raises* `QueryRefused` for what reaches a million objects.
    """
    known = KNOWN.get(id(value))
    if known is not None and known[0] is value and known[1].holds:
        return known[2]
    changes = Changes()
    while True:
        writing = Writing(inline=True, changes=changes)
        writing.put(value, NAMED)
        text = writing.digest()
        if writing.is_settled(changes):
            break
    if writing.fixed:  # each partition of a node has its own evaluator, and all have one source
        writing.forget()
        if len(KNOWN) >= KNOWN_MAX:
            KNOWN.clear()
        KNOWN[id(value)] = value, writing, text
    return text


def differing(stored: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name what differs; nothing if the two were made by different interpreters or releases.

    >>> differing({"": "1/3495", "parse": "a"}, {"": "1/3495", "parse": "b", "timestamp": "c"})
    ['parse', 'timestamp']
    >>> differing({"": "1/3495", "parse": "a"}, {"": "1/3571", "parse": "b"})
    []
    """
    if stored.get("") != now.get(""):
        return []
    return sorted(name for name in stored.keys() | now.keys() if stored.get(name) != now.get(name))


def named(part: str, value: Any) -> str:
    """Name a part of a source for people, with the function that it is now."""
    if part == CLASS:
        return f"class {path_of(value)}"
    function = plain_function(value)
    name = getattr(function, "__qualname__", None)
    return f"{part} ({function.__module__}.{name})" if isinstance(name, str) else part
