"""What the code of the user's classes was of which a store has values, by name: they are stored by their names.

A query may reach a class only by values: those that another query gives, that were pushed, that a call answered. It
runs the class of today then, also in a replay. So a store has a fingerprint of each class that was met when values were
stored or digested: in each checkpoint, and in the journalled groups where one is not what the store has. If the outputs
of a replay differ, and a class is not what it was, it is that which is named. One that is defined anew while turns are
taken gets a checkpoint between, since no replay has both.

Rejected: a fingerprint beside each value (most of a store would be that), and only the classes that the values of the
query at hand have (what its state has held is not known without a look at all of it).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from checkpoint.code import makers
from checkpoint.met_classes import CLASSES_MAX, MET, name_in, named
from hosting.sources.fingerprint import class_digest
from reliable_rx.errors import StoreUnavailable
from reliable_rx.interrupts import let_through

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator

GONE = "gone"
KNOWN: dict[int, tuple[Any, str]] = {}
"""The fingerprints of classes by their ids; each class is kept, so that no other one has its id."""


class ClassVersions:
    """What the classes are of which one evaluator's store has values, and what they were."""

    def __init__(self, evaluator: QueryEvaluator) -> None:
        self.evaluator = evaluator
        self.stored: dict[str, str] = {}
        """As the store has it behind the turns at hand, by ``module:name``."""
        self._fresh: dict[str, str] = {}
        self._is_told = self._is_edited = False
        self._looked = 0

    def recovered(self, stored: Mapping[str, str]) -> None:
        """Take what a checkpoint says, or a group of the journal."""
        self.stored.update(stored)

    def changed(self) -> list[str]:
        """Name the classes that are not what they were when the turns at hand were taken."""
        return sorted(name.replace(":", ".") for name, was in self.stored.items() if is_edited(name, was))

    def look(self) -> None:
        """Take a checkpoint before the next turn if a class was defined anew, and the store has the old one."""
        if len(MET) > self._looked:
            self._meet()
        if self._is_edited:
            self._is_edited = False
            with suppress(StoreUnavailable):  # then no turn is taken until there is one
                self.evaluator.checkpointer.now(full=False)
            self._is_told = False

    def to_tell(self) -> dict[str, str]:
        """Return what the store is to have with the next group; with the first one of a run also what was edited."""
        if len(MET) > self._looked:
            self._meet()
        if not self._is_told:
            self._is_told = True
            with self.evaluator.inside:
                self._fresh |= {name: today(name) for name, was in self.stored.items() if is_edited(name, was)}
            self.stored |= self._fresh
        told, self._fresh = self._fresh, {}
        return told

    def for_checkpoint(self) -> dict[str, str]:
        return {name: each for name, each in self.stored.items() if each != GONE}

    def _meet(self) -> None:
        """Look at the classes that this process has met since."""
        kinds = [*MET.values()][self._looked :]
        self._looked += len(kinds)
        with self.evaluator.inside:  # what they reach is the user's
            found = {name_in(each): fingerprint_of(each) for each in kinds if named(name_in(each)) is each}
        known = found.keys() & self.stored.keys()
        self._is_edited |= self._is_told and any(self.stored[name] != found[name] for name in known)
        self._fresh |= {name: each for name, each in found.items() if name not in known}
        self.stored |= self._fresh


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
        return f"{made.reliable_rx}/{made.bytecode}/{class_digest(kind)}"
    except BaseException as raised:  # it reaches too much, or raises when it is looked at
        let_through(raised)
        return "unknown"


def today(name: str) -> str:
    """Return the fingerprint of what goes by a name."""
    found = named(name)
    return GONE if found is None else fingerprint_of(found)


def is_edited(name: str, was: str) -> bool:
    """Whether what goes by a name is not what it *was*; of a module that is not loaded nothing is known."""
    now = today(name)
    if now == GONE and was != GONE and name.partition(":")[0] not in sys.modules:
        return not _can_be_loaded(name.partition(":")[0])
    return now != was and (GONE in (now, was) or now.rpartition("/")[0] == was.rpartition("/")[0])


def _can_be_loaded(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # what it is in is no package, or gone too
        return False
