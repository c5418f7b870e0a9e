"""Moving a group from one offset store to another while its members run, and back, step by step.

    old  →  dual to new  →  new  →  dual to old  →  old

A step of `migrate` or `rollback` leads to the next phase on the way; between them the members are restarted one by
one with their next setting (``old``, ``dual``, ``new``). While the group is dual on the way to a store, members that
know the other one only may still run; once it is over they are refused, so it cannot be ended while one is alive. A
way that was begun can be turned round at any moment.

There is no record of the phase: it is what the two stores say of themselves. Every step is a series of durable writes,
each of which leaves a state that is safe to stay in, and from which the same call, or the other one, goes on. Rejected:
a phase kept in one of the stores (it and the other store could disagree after a crash), settings of the members alone
(nothing would stop one that was forgotten).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from checkpoint.offsets.dual import DualOffsets
from checkpoint.offsets.store import Charge, MovableOffsets, OffsetStore, Partition
from reliable_rx.errors import StoreOwned
from reliable_rx.failpoints import probe

Phase = Literal["old", "dual to new", "dual", "new", "dual to old"]
Setting = Literal["old", "dual", "new"]
Members = Callable[[str], Mapping[str, Setting | None]]
"""The live members of a group and the setting each was started with, None if it does not say."""


class Migration:
    """The way of groups from *old* to *new* and back. *members* tells who is alive with which setting.

    >>> from checkpoint.offsets import MemoryOffsets
    >>> held = lambda group, partition: ("a", 1)
    >>> old, new, settings = MemoryOffsets(held), MemoryOffsets(held), {"a": "old"}
    >>> migration = Migration(old, new, lambda group: settings)
    >>> migration.migrate("g")
    'dual to new'
    >>> migration.migrate("g")
    Traceback (most recent call last):
    reliable_rx.errors.StoreOwned: member a of group 'g' runs with setting old; restart it with dual first
    >>> settings["a"] = "dual"
    >>> migration.migrate("g")
    'new'
    """

    def __init__(self, old: MovableOffsets, new: MovableOffsets, members: Members) -> None:
        self._old, self._new, self._members = old, new, members

    def store_for(self, setting: Setting) -> OffsetStore:
        """Return what a member started with *setting* reads and writes."""
        return {"old": self._old, "new": self._new}.get(setting) or DualOffsets(self._new, self._old)

    def phase(self, group: str) -> Phase:
        """Return how far the group is; an interrupted step counts as not done.

        ``dual`` alone is the midst of an end: only members that know both stores may run, until the step is repeated.
        """
        charges = _charge(self._old, group, self._old), _charge(self._new, group, self._old)
        match charges:
            case ("alone", _) | ("shared", None | "moved"):
                return "old"
            case ("moved", "alone" | "shared"):
                return "new"
            case ("paired", "paired" | "moved") | ("moved", "paired"):
                return "dual"
            case ("paired", _):
                return "dual to old"
        return "dual to new"

    def compare(self, group: str) -> dict[Partition, tuple[int | None, int | None]]:
        """Return where the old and the new store differ: position in each, None for none."""
        old, new = _positions(self._old, group), _positions(self._new, group)
        both = {each: (old.get(each), new.get(each)) for each in sorted(old.keys() | new.keys())}
        return {each: pair for each, pair in both.items() if pair[0] != pair[1]}

    def migrate(self, group: str) -> Phase:
        """Take the next step towards the new store; at the end do nothing.

        *Raises* `StoreOwned` if a living member would be left behind, and changes nothing.
        """
        self._step(group, self._old, self._new, lacking="old")
        return self.phase(group)

    def rollback(self, group: str) -> Phase:
        """Take the next step towards the old store; at the end do nothing. *Raises* as `migrate` does."""
        self._step(group, self._new, self._old, lacking="new")
        return self.phase(group)

    def _step(self, group: str, source: MovableOffsets, target: MovableOffsets, *, lacking: Setting) -> None:
        charges = _charge(source, group, self._old), _charge(target, group, self._old)
        match charges:
            case ("moved", "alone") | (None, "alone"):
                return
            case (None | "paired" | "moved", "shared"):  # the other way was begun: what it leads from is whole
                _put(source, target, group, "moved")
                _put(target, source, group, "alone")
            case ("paired", "moved"):  # the other way was being ended: end it, and begin ours
                _put(source, target, group, "alone")
                _begin(source, target, group)
            case ("alone", _) | ("shared", None | "moved" | "alone"):
                _begin(source, target, group)
            case _:
                self._check_members(group, lacking)
                _finish(source, target, group)

    def _check_members(self, group: str, lacking: Setting) -> None:
        for member, setting in self._members(group).items():
            if setting in (lacking, None):
                message = f"member {member} of group {group!r} runs with setting {setting}; restart it with dual first"
                raise StoreOwned(message, owner=member, group=group)


def _begin(source: MovableOffsets, target: MovableOffsets, group: str) -> None:
    """Let *target* be written too. What it had is from before, and must not be read."""
    _put(source, target, group, "shared")
    probe("offsets.migrating")
    target.adopt(group, source.paired().fetch(group), exactly=True)
    _put(target, source, group, "paired")


def _finish(source: MovableOffsets, target: MovableOffsets, group: str) -> None:
    """Leave *source*. From the first write on no member can write to it alone, so that the copy misses nothing."""
    if source.charge(group) != "moved":
        _put(source, target, group, "paired")
        probe("offsets.migrating")
        target.adopt(group, source.paired().fetch(group), exactly=False)
        _put(source, target, group, "moved")
    _put(target, source, group, "alone")


def _put(store: MovableOffsets, other: MovableOffsets, group: str, charge: Charge) -> None:
    probe("offsets.migrating")
    store.put_in_charge(group, charge, other.where)


def _charge(store: MovableOffsets, group: str, old: MovableOffsets) -> Charge | None:
    """Return the charge; a group that has never moved is in the old store."""
    return store.charge(group) or ("alone" if store is old else None)


def _positions(store: MovableOffsets, group: str) -> dict[Partition, int]:
    return {partition: committed.position for partition, committed in store.stored(group).items()}
