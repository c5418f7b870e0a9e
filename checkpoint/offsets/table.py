"""The table of positions in memory, as a pure machine: the rules of an offset store without its durability.

An operation is a function of a `Draft`, which collects what is to be written over a table that it does not touch. What
is durable is then applied, here and in every other process that reads the log. A deleted entry stays as a tombstone
for one round of compaction: it still fences its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from checkpoint.offsets.store import (
    METADATA_BYTES_MAX,
    RESET,
    Charge,
    Committed,
    Lease,
    LeaseAuthority,
    Partition,
    Refusal,
)
from reliable_rx.errors import LimitExceeded, OffsetsMoved, StoreOwned


class Entry(NamedTuple):
    """What is known of one partition. *owner* is empty if whoever comes next needs a newer epoch.

    *gone* makes it a tombstone: 1 when it was deleted, 2 when a compaction has carried it over once.
    """

    position: int | None
    epoch: int
    owner: str
    time: float
    metadata: str = ""
    gone: int = 0


class Charged(NamedTuple):
    """What this store is for a group, and which the other one is; how often that has been said."""

    charge: Charge
    to: str
    number: int


Key = tuple[str, Partition | None]
"""Group and partition; None for what the store is for the group."""
Value = Entry | Charged
Record = tuple[Key, Value]
NOTHING = Entry(None, 0, "", 0.0)


class Table:
    """Everything durable, in dictionaries."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Partition, Entry]] = {}
        self.charges: dict[str, Charged] = {}
        self.size = 0

    def apply(self, records: Iterable[Record]) -> None:
        for (group, partition), value in records:
            if partition is None:
                if isinstance(value, Charged):
                    self.charges[group] = value
            elif isinstance(value, Entry):
                entries = self.groups.setdefault(group, {})
                self.size += partition not in entries
                entries[partition] = value

    def kept(self) -> list[Record]:
        """Return what a compaction leaves: the newest of each, and the tombstones made since the one before."""
        kept: list[Record] = [((group, None), charged) for group, charged in self.charges.items()]
        for group, entries in self.groups.items():
            for partition, entry in entries.items():
                if entry.gone < 2:
                    kept.append(((group, partition), entry._replace(gone=entry.gone * 2)))
        return kept


class Draft:
    """What one transaction is about to write, over a table that stays as it is."""

    def __init__(self, table: Table, *, now: float, leases: LeaseAuthority, entries_max: int, where: str) -> None:
        self._table, self._leases, self._entries_max = table, leases, entries_max
        self.now, self.where = now, where
        self.changes: dict[Key, Value] = {}

    def entry(self, group: str, partition: Partition) -> Entry:
        changed = self.changes.get((group, partition))
        return changed if isinstance(changed, Entry) else self._table.groups.get(group, {}).get(partition, NOTHING)

    def entries(self, group: str) -> dict[Partition, Entry]:
        found = dict(self._table.groups.get(group, {}))
        for (name, partition), value in self.changes.items():
            if name == group and partition is not None and isinstance(value, Entry):
                found[partition] = value
        return {partition: entry for partition, entry in found.items() if not entry.gone}

    def charged(self, group: str) -> Charged | None:
        changed = self.changes.get((group, None))
        return changed if isinstance(changed, Charged) else self._table.charges.get(group)

    def put(self, group: str, partition: Partition | None, value: Entry | Charged) -> None:
        self.changes[group, partition] = value
        if self._table.size + len(self.changes) > self._entries_max:
            message = f"{self.where}: more than {self._entries_max:,} entries; retire groups, or raise entries_max"
            raise LimitExceeded(message, path=self.where, limit="entries_max", most=self._entries_max)

    def held(self, group: str, partition: Partition) -> Lease | None:
        return self._leases(group, partition)

    def check_not_held(self, group: str, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            holder = self.held(group, partition)
            if holder is not None:
                message = f"{_named(group, partition)} is held by {holder[0]} (epoch {holder[1]}); stop the group first"
                raise StoreOwned(message, owner=holder[0], group=group, partition=partition)


Operation = Callable[[Draft], object]


def check_charge(charged: Charged | None, group: str, where: str, *, paired: bool, alone: bool = False) -> None:
    """Refuse who asks the wrong store. *paired*: the caller writes both; *alone*: what he wants needs all of them."""
    charge = "alone" if charged is None else charged.charge
    if charged is None or charge == "alone" or (paired and charge != "moved") or (charge == "shared" and not alone):
        return
    remedy = f"ask {charged.to}" if charge == "moved" else f"it is shared with {charged.to}, use both"
    raise OffsetsMoved(f"{where} is not in charge of group {group!r} by itself: {remedy}", group=group, to=charged.to)


def claim(draft: Draft, group: str, leases: Mapping[Partition, Lease]) -> dict[Partition, Refusal | None]:
    answers: dict[Partition, Refusal | None] = {}
    for partition, lease in leases.items():
        before = draft.entry(group, partition)
        answers[partition] = refusal = _fenced(draft, group, partition, lease)
        if refusal is None and (before.gone or (before.owner, before.epoch) != lease):
            entry = NOTHING._replace(time=draft.now) if before.position is None or before.gone else before
            draft.put(group, partition, entry._replace(owner=lease[0], epoch=lease[1]))
    return answers


def commit(
    draft: Draft, group: str, vector: Mapping[Partition, int], leases: Mapping[Partition, Lease], metadata: str
) -> dict[Partition, Refusal | None]:
    answers: dict[Partition, Refusal | None] = {}
    for partition, position in vector.items():
        check_position(partition, position)
        before = draft.entry(group, partition)
        refusal = _fenced(draft, group, partition, leases.get(partition))
        if refusal is None and not before.gone and position < (before.position or 0):
            refusal = behind(group, partition, position, before.position or 0)
        if refusal is None:
            owner, epoch = leases[partition]
            draft.put(group, partition, Entry(position, epoch, owner, max(draft.now, before.time), metadata))
        answers[partition] = refusal
    return answers


def check_position(partition: Partition, position: int) -> None:
    """*Raises* `TypeError` or `ValueError` for what is the id of no event."""
    if not isinstance(position, int):
        raise TypeError(f"the position of {partition} must be a whole number, got {position!r}")
    if position < 0:
        raise ValueError(
            f"the position of {partition} is {position}: commit the id of the next event, one more than that of the "
            f"last one that was taken, and 0 where none was"
        )


def _fenced(draft: Draft, group: str, partition: Partition, lease: Lease | None) -> Refusal | None:
    """Refuse a lease that is not the present one, or older than what was seen here; a reset ends an epoch too."""
    seen = draft.entry(group, partition)
    if lease is None or not lease[0]:
        return Refusal("fenced", f"{_named(group, partition)}: no lease was given")
    if lease[1] < seen.epoch or (lease[1] == seen.epoch and seen.owner != lease[0] and seen != NOTHING):
        return Refusal("fenced", f"{_named(group, partition)}: epoch {lease[1]} is over, {seen.epoch} was seen")
    holder = draft.held(group, partition)
    if holder is None or tuple(holder) != tuple(lease):
        return Refusal("fenced", f"{_named(group, partition)}: {lease[0]} no longer holds epoch {lease[1]}")
    return None


def behind(group: str, partition: Partition, position: int, committed: int) -> Refusal:
    message = f"{_named(group, partition)}: {committed} is committed, {position} is before it; only a reset goes back"
    return Refusal("behind", message)


def reset(draft: Draft, group: str, vector: Mapping[Partition, int]) -> None:
    draft.check_not_held(group, vector)
    for partition, position in vector.items():
        check_position(partition, position)
        draft.put(group, partition, Entry(position, draft.entry(group, partition).epoch, "", draft.now, RESET))


def delete(draft: Draft, group: str, unless_after: float | None) -> bool:
    entries = draft.entries(group)
    if unless_after is not None and any(entry.time > unless_after for entry in entries.values()):
        return False
    draft.check_not_held(group, entries)
    for partition, entry in entries.items():
        draft.put(group, partition, Entry(None, entry.epoch, "", draft.now, gone=1))
    return True


def adopt(draft: Draft, group: str, vector: Mapping[Partition, Committed], *, exactly: bool) -> None:
    before = draft.entries(group)
    for partition in before.keys() - vector.keys() if exactly else ():
        seen = before[partition]  # its owner may hold it still: a claim without a commit is in no *vector*
        draft.put(group, partition, Entry(None, seen.epoch, seen.owner, draft.now, gone=1))
    for partition, there in vector.items():
        ours = draft.entry(group, partition)
        position, metadata = there.position, there.metadata
        if not exactly and partition in before and (ours.position or 0) > position:
            position, metadata = ours.position or 0, ours.metadata
        newest = there if there.epoch >= ours.epoch else ours
        draft.put(group, partition, Entry(position, newest.epoch, newest.owner, max(there.time, ours.time), metadata))


def committed_in(
    entries: Mapping[Partition, Entry], partitions: Iterable[Partition] | None
) -> dict[Partition, Committed]:
    """Return what is committed of *partitions*, or of all."""
    wanted = entries if partitions is None else [each for each in partitions if each in entries]
    found = {each: entries[each] for each in wanted}
    return {
        partition: Committed(entry.position, entry.epoch, entry.owner, entry.time, entry.metadata)
        for partition, entry in found.items()
        if entry.position is not None and not entry.gone
    }


def check_metadata(metadata: str) -> None:
    length = len(metadata.encode())
    if length > METADATA_BYTES_MAX:
        message = f"metadata of {length:,} bytes is too large; {METADATA_BYTES_MAX:,} is the most"
        raise LimitExceeded(message, path="metadata", limit="METADATA_BYTES_MAX", most=METADATA_BYTES_MAX)


def _named(group: str, partition: Partition) -> str:
    return f"group {group!r}, partition {'/'.join(partition)}"
