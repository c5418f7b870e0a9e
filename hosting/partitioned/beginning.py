"""Where a group begins: a starting point, made into positions once, for all partitions that are there at that moment.

The first node that lists the partitions resolves it and writes the positions into the offset store, before any of them
is opened. So the latest event is the same for all nodes and after every crash; and a partition that appears later has
no position, begins at its earliest event, and nothing is lost that was written to it before anybody looked (which is
what happens where each partition is resolved when it is first opened). A group that is to begin at the earliest events
needs no writing down.
"""

from __future__ import annotations

from collections.abc import Iterable

from checkpoint.offsets.store import OffsetStore
from hosting.partitioned.keys import key_of
from hosting.partitioned.sections import Section, listing_of
from hosting.starting import Start, resolve
from reliable_rx.errors import StoreOwned


def begin(offsets: OffsetStore, group: str, sections: Iterable[Section], start: Start) -> None:
    """Write down where the partitions of *sections* begin, unless *group* has positions already.

    *Raises* `PositionUnavailable` for a starting point that a source does not have, and what *offsets* raises.
    """
    if start == "earliest" or offsets.fetch(group):
        return
    vector = {
        key_of(section.name, name, each.name): resolve(source, each.name, start)
        for section in sections
        for name, source in section.sources.items()
        for each in listing_of(source)
    }
    try:
        offsets.reset(group, vector)
    except StoreOwned:
        return  # another node was first, and partitions are open already
