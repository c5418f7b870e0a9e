"""What the code of the user's classes was of which a store has values, by name: they are stored by their names.

A query may reach a class only by values: those that another query gives, that were pushed, that a call answered. It
runs the class of today then, also in a replay. So a store has a fingerprint of each class that was met when values were
stored or digested: in each checkpoint, and in the journalled groups where one is not what the store has. If the outputs
of a replay differ, and a class is not what it was, it is that which is named.

Where another class comes in the place of one while turns are taken, also one of the same code, values that rows have of
the old one would come back as values of the other, which equal no old ones. So all rows are written before the next
turn: the codec stores a value by the code of its class where the name leads to another one. No replay has both.

Rejected: a fingerprint beside each value (most of a store would be that), only the classes that the values of the
query at hand have (what its state has held is not known without a look at all of it), and writing only the rows of
queries that are created again (the others have values of the class too, and may not name it).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Protocol

from checkpoint.format.code import makers
from checkpoint.format.met_classes import CLASSES_MAX, MET, name_in, named, place_of
from hosting.engine.watched_names import WatchedNames
from hosting.evaluator.reentrancy import Inside
from hosting.reports.incidents import Incidents
from hosting.sources.fingerprint import class_digest
from reliable_rx.class_of import is_a
from reliable_rx.errors import StoreUnavailable
from reliable_rx.functions.contents import Content
from reliable_rx.functions.replaced_classes import are_any, times_replaced
from reliable_rx.interrupts import let_through

CLASSES = "classes"
GONE = "gone"
KNOWN: dict[int, tuple[Any, str]] = {}
"""The fingerprints of classes by their ids; each class is kept, so that no other one has its id."""


class Checkpoints(Protocol):
    """The checkpoints of an evaluator."""

    @property
    def is_wanted(self) -> bool: ...
    def now(self, *, full: bool) -> None: ...


class ClassVersions:
    """What the classes are of which one evaluator's store has values, and what they were.

    *checkpoints* returns what takes them: it has these versions stored.
    """

    def __init__(self, inside: Inside, incidents: Incidents, checkpoints: Callable[[], Checkpoints]) -> None:
        self._inside, self._incidents, self._checkpoints = inside, incidents, checkpoints
        self.stored: dict[str, str] = {}
        """As the store has it behind the turns at hand, by ``module:name``."""
        self._kinds: dict[int, Any] = {}
        """The classes of which rows have values by their names, by id."""
        self._watched = WatchedNames()
        self._fresh: dict[str, str] = {}
        self._is_told = self._is_due = self._is_full_told = False
        self._looked, self._times = 0, times_replaced()

    def recovered(self, stored: Mapping[str, str]) -> None:
        """Take what a checkpoint says, or a group of the journal."""
        self.stored.update(stored)
        self._note([found for found in map(named, stored) if is_a(found, type)])

    def changed(self) -> list[str]:
        """Name the classes that are not what they were when the turns at hand were taken."""
        return sorted(name.replace(":", ".") for name, was in self.stored.items() if is_edited(name, was))

    def look(self) -> None:
        """Have all rows written before the next turn if other classes have come in the place of some.

        Also wait for a checkpoint that has the values of an edited query as of the new classes.
        """
        self._meet()
        checkpoints, times = self._checkpoints(), times_replaced()
        is_new, goes_over = times != self._times, checkpoints.is_wanted and are_any()
        if not (is_new or goes_over or self._is_due or self._watched.differ()):
            return
        gone = [each for each in self._kinds.values() if named(name_in(each)) is not each]
        for each in gone:
            del self._kinds[id(each)]
        self._is_due, self._times = False, times
        if gone or is_new or goes_over:
            with suppress(StoreUnavailable):  # then no turn is taken until there is one
                checkpoints.now(full=bool(gone) or is_new)
            self._is_told = False

    def to_tell(self) -> dict[str, str]:
        """Return what the store is to have with the next group; with the first one of a run also what was edited."""
        self._meet()
        if not self._is_told:
            self._is_told = True
            with self._inside:
                self._fresh |= {name: today(name) for name, was in self.stored.items() if is_edited(name, was)}
            self.stored |= self._fresh
        told, self._fresh = self._fresh, {}
        return told

    def for_checkpoint(self) -> dict[str, str]:
        self._meet()
        return {name: each for name, each in self.stored.items() if each != GONE}

    def _meet(self) -> None:
        """Look at the classes that this process has met since."""
        if MET.left_out and not self._is_full_told:
            self._tell_full()
        count = MET.count
        if count == self._looked:  # as for each round of turns
            return
        kinds = MET.behind(self._looked)
        here = [each for each in kinds if named(name_in(each)) is each]
        self._note(kinds if self._looked else here)  # the first are those of other evaluators too
        self._looked = count
        with self._inside:  # what they reach is the user's
            found = {name_in(each): fingerprint_of(each) for each in here}
        self._fresh |= {name: each for name, each in found.items() if self.stored.get(name) != each}
        self.stored |= self._fresh

    def _tell_full(self) -> None:
        self._is_full_told = True
        message = (
            f"this process has values of more than {CLASSES_MAX:,} classes, and does not watch this one and others: "
            f"stop cleanly before you edit them, since an edit behind a kill is not named, and one in a cell has no "
            f"checkpoint of its own"
        )
        self._incidents.report(CLASSES, MET.left_out, message, level=logging.WARNING, once=True)

    def _note(self, kinds: Iterable[Any]) -> None:
        """Watch the names of *kinds*, by which rows have their values."""
        for each in kinds:
            self._kinds[id(each)] = each
            self._watched.add(Content("", tuple(place_of(each)), (), (), (), is_fixed=True))
            self._is_due = True


def fingerprint_of(kind: Any) -> str:
    """Return what tells versions of a class apart; a class is read once, for all stores of the process."""
    known = KNOWN.get(id(kind))
    if known is None:
        if len(KNOWN) >= CLASSES_MAX:
            KNOWN.clear()
        known = KNOWN[id(kind)] = kind, _read(kind)
    return known[1]


def _read(kind: Any) -> str:
    made = makers()
    try:
        digest, texts = class_digest(kind)
        return " ".join((f"{made.reliable_rx}/{made.bytecode}/{digest}", *sorted(texts)))
    except BaseException as raised:  # it reaches too much, or raises when it is looked at
        let_through(raised)
        return "unknown"


def today(name: str) -> str:
    """Return the fingerprint of what goes by a name."""
    found = named(name)
    return fingerprint_of(found) if is_a(found, type) else GONE


def is_edited(name: str, was: str) -> bool:
    """Whether what goes by a name is not what it *was*; of a module that is not loaded nothing is known.

    It is no edit if all texts are the same but some that are reached once a process has set what it sets late.
    """
    now = today(name)
    if now == GONE and was != GONE and name.partition(":")[0] not in sys.modules:
        return not _can_be_loaded(name.partition(":")[0])
    if now == was or GONE in (now, was):
        return now != was
    (code, *texts), (code_was, *texts_were) = now.split(), was.split()
    is_late = set(texts) <= set(texts_were) or set(texts_were) <= set(texts)
    return code != code_was and not is_late and code.rpartition("/")[0] == code_was.rpartition("/")[0]


def _can_be_loaded(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # what it is in is no package, or gone too
        return False
