"""Which partitions a made-up source has, and when: splits, merges, base data; a script that anybody may read again.

A node that opens the source in another process, or after a crash, must see the same. So what is listed depends on the
script and on two things that outlive a process: the time, and *facts*, marks in a directory that a partition has been
read to its end by somebody. Rejected: remembering in the object what was read (the next process would never see the
children of what was ended before it), and listing children by how far their parent has been read (two readers, two
lists).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from reliable_rx.reliable import Listing

Seen = float | Literal["always", "after parents"]
"""When a partition is listed: from the start, from so many seconds after the script's begin, or once somebody has read
all its parents to their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """End *partition* in place of record *at*; *into* names the partitions that go on. They are *seen* from when on."""

    partition: str = "0"
    at: int
    into: tuple[str, ...]
    seen: Seen = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """End each of *ends* in place of its record; the partition *into* goes on for all of them."""

    ends: Mapping[str, int] = field(hash=False)
    into: str
    seen: Seen = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Let *partition* hold *count* records that were there before: all that is no base waits for it."""

    partition: str
    count: int


Change = Split | Merge | Base


class Script:
    """The partitions that *changes* make out of *names*, in the order in which they come up.

    *Raises* `ValueError` for a script that contradicts itself.
    """

    def __init__(self, names: Iterable[str], changes: Iterable[Change], *, facts: Path | None) -> None:
        self.listings: dict[str, Listing] = {name: Listing(name) for name in names}
        self.ends: dict[str, int] = {}
        self._seen: dict[str, Seen] = {}
        self._facts = facts
        for change in changes:
            self._take(change)
        if facts is None and "after parents" in self._seen.values():
            raise ValueError("seen='after parents' is a fact that all processes must find: give a directory as facts")

    def listed(self, since_s: float) -> Sequence[Listing]:
        """Return what is listed *since_s* seconds after the begin.

        A partition is never listed before its parents, which whoever reads the list could take for gone.
        """
        found: dict[str, Listing] = {}
        for name, listing in self.listings.items():
            if all(parent in found for parent in listing.parents) and self._is_seen(listing, since_s):
                found[name] = listing
        return list(found.values())

    def was_read(self, partition: str) -> None:
        """Note for everybody that *partition* has been read to its end."""
        if self._facts is not None:
            self._facts.mkdir(parents=True, exist_ok=True)
            self._fact(partition).touch()

    def _is_seen(self, listing: Listing, since_s: float) -> bool:
        seen = self._seen.get(listing.name, "always")
        if seen == "after parents":
            return all(self._fact(parent).exists() for parent in listing.parents)
        return seen == "always" or since_s >= seen

    def _fact(self, partition: str) -> Path:
        return (self._facts or Path()) / f"{quote(partition, safe='')}.read"

    def _take(self, change: Change) -> None:
        if isinstance(change, Base):
            self._end(change.partition, change.count, change)
            self.listings[change.partition] = Listing(change.partition, base=True)
        elif isinstance(change, Split):
            self._end(change.partition, change.at, change)
            for child in change.into:
                self._add(Listing(child, (change.partition,)), change)
        else:
            for parent, at in change.ends.items():
                self._end(parent, at, change)
            self._add(Listing(change.into, tuple(change.ends)), change)

    def _end(self, partition: str, at: int, change: Change) -> None:
        if partition not in self.listings:
            raise ValueError(f"{change}: there is no partition {partition!r} by then, only {', '.join(self.listings)}")
        if partition in self.ends:
            raise ValueError(f"{change}: partition {partition!r} has ended at {self.ends[partition]} already")
        if at < 0:
            raise ValueError(f"{change}: records are numbered from 0 on")
        self.ends[partition] = at

    def _add(self, listing: Listing, change: Split | Merge) -> None:
        if listing.name in self.listings:
            raise ValueError(f"{change}: there is a partition {listing.name!r} already; names are never used again")
        self.listings[listing.name] = listing
        self._seen[listing.name] = change.seen


def made_by(change: Change) -> tuple[str, ...]:
    """Name the partitions that *change* makes."""
    if isinstance(change, Split):
        return change.into
    return (change.into,) if isinstance(change, Merge) else ()
