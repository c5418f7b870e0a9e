"""Where a group begins: a starting point, made into positions once, for all partitions that are there at that moment.

The first node that lists the partitions resolves it and writes the positions into the offset store, before any of them
is opened. So the latest event is the same for all nodes and after every crash; and a partition that appears later has
no position, begins at its earliest event, and nothing is lost that was written to it before anybody looked (which is
what happens where each partition is resolved when it is first opened). A group that is to begin at the earliest events
needs no writing down. Before that it is seen that no source is read in another section than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from checkpoint.offsets.store import OffsetStore
from hosting.partitioned.keys import key_of
from hosting.partitioned.sections import Section, listing_of
from hosting.starting import Start, resolve
from reliable_rx.errors import QueryRefused, StoreOwned


def begin(offsets: OffsetStore, group: str, sections: Collection[Section], start: Start) -> None:
    """Write down where the partitions of *sections* begin, unless *group* has positions already.

    *Raises* `PositionUnavailable` for a starting point that a source does not have, `QueryRefused` for what other
    sections have read, and what *offsets* raises.
    """
    known = offsets.fetch(group)
    check_sections({source for source, _ in known}, sections, group)
    if start == "earliest" or known:
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


def check_sections(known: Collection[str], sections: Iterable[Section], group: str) -> None:
    """*Raises* `QueryRefused` if a source that *group* has read in one section is to be read in another one.

    Its partitions have other stores there: all queries of the section would begin anew, under the ids of before.
    """
    mine = {key_of(each.name, source, "")[0]: (each.name, source) for each in sections for source in each.sources}
    theirs = {key.rpartition("/")[2]: key for key in known if key not in mine}
    for key, (section, source) in mine.items():
        if key not in known and source in theirs:
            before = theirs[source].rpartition("/")[0] or source
            raise QueryRefused(
                f"source {source!r} is read in section {section!r} by this app, and group {group!r} has read it in "
                f"{before!r}: queries that read several sources are hosted with all that read one of these, so such a "
                f"query was added or taken out, and the others would lose their state and use their ids again; declare "
                f"the queries over {before!r} as they were, or give this app another group",
                path=f"/{section}",
            )
