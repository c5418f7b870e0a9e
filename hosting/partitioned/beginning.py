"""Where a group begins: a starting point, made into positions once, for all partitions that are there at that moment.

The first node that lists the partitions resolves it and writes the positions into the offset store, before any of them
is opened. So the latest event is the same for all nodes and after every crash; and a partition that appears later has
no position, begins at its earliest event, and nothing is lost that was written to it before anybody looked (which is
what happens where each partition is resolved when it is first opened). A group that is to begin at the earliest events
needs no writing down. Before that it is seen that no source is read in another section than before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

from checkpoint.offsets.store import OffsetStore
from hosting.partitioned.keys import AND, WHOLE, Key, key_of
from hosting.partitioned.numbering import Look, check_numbering
from hosting.partitioned.sections import Section, listing_of
from hosting.partitioned.words import Partition
from hosting.renamed import sentence
from hosting.starting import Start, resolve
from reliable_rx.errors import QueryRefused, StoreOwned
from reliable_rx.reliable import Listed


def begin(
    offsets: OffsetStore,
    group: str,
    sections: Collection[Section],
    start: Start,
    opened: Callable[[Collection[Key]], Iterable[Partition]] = lambda _: (),
    look: Look = lambda _: None,
) -> Collection[Key]:
    """Write down where the partitions of *sections* begin, unless *group* has positions already; return which it has.

    *opened*: return the partitions of which a store has been opened, though it may have no position yet. *look* opens
    the store of a partition for looking only.

    *Raises* `PositionUnavailable` for a starting point that a source does not have, `QueryRefused` for what other
    sections have read, `NondeterminismDetected` for a source that counts its records otherwise, and what *offsets*
    raises.
    """
    committed = offsets.fetch(group).keys()
    known = {*committed, *keys_of(opened(committed), sections)}
    check_sections({source for source, _ in known}, sections, group)
    check_numbering(sections, known, look)
    if start == "earliest" or committed:
        return known
    vector = {
        key_of(section.name, name, each.name): resolve(source, each.name, start)
        for section in sections
        for name, source in section.sources.items()
        for each in listing_of(source)
    }
    with suppress(StoreOwned):  # else another node was first, and partitions are open already
        offsets.reset(group, vector)
    return ()


def renamed(
    sections: Iterable[Section], known: Collection[Key], listed: Collection[Partition]
) -> Iterator[tuple[str, str]]:
    """Yield the sources of which a group that *known* positions are of has a partition less and one more *listed*."""
    for section in sections:
        there = {each.name for each in listed if each.source == section.name}
        for source, made in section.sources.items():
            before = {name for key, name in known if key == key_of(section.name, source, "")[0]}
            gone, new = sorted(before - there), sorted(there - before)
            if gone and new and not section.whole and not isinstance(made, Listed):
                yield source, sentence(source, gone, new)


def keys_of(opened: Iterable[Partition], sections: Collection[Section]) -> Iterator[Key]:
    """Yield under which names partitions that were *opened* would have positions, as far as names say it.

    One that saw all partitions has read any source; where this app has none of that kind, it has read those of it.
    """
    for section, partition in ((each.source, each.name) for each in opened):
        if section != WHOLE:
            yield from (key_of(section, source, partition) for source in section.split(AND))
        elif not any(each.whole for each in sections):
            yield from (key_of(section, source, partition) for each in sections for source in each.sources)


def unread(sections: Collection[Section], known: Collection[Key]) -> Iterator[tuple[str, str]]:
    """Yield the sources of which a group that *known* positions are of has read, and no query of *sections* does."""
    read = {source for section in sections for source in section.sources}
    for source in sorted({name.rpartition("/")[2] for name, _ in known} - read):
        yield (
            source,
            f"this group has read source {source!r}, and no query of this app does any more: the queries that did are "
            f"not run, and their streams do not end; nothing of them is lost, and declared again they go on",
        )


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
