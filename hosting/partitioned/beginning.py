"""Where a group begins: a starting point, made into positions once, for all partitions that are there at that moment.

The first node that lists the partitions resolves it and writes the positions into the offset store, before any of them
is opened. So the latest event is the same for all nodes and after every crash; and a partition that appears later has
no position, begins at its earliest event, and nothing is lost that was written to it before anybody looked (which is
what happens where each partition is resolved when it is first opened). A group that is to begin at the earliest events
needs no writing down. Before that it is seen that no source is read in another section than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from checkpoint.offsets.store import OffsetStore
from hosting.edges import renamed
from hosting.edges.start_positions import Start, resolve
from hosting.partitioned.keys import WHOLE, key_of, sources_in
from hosting.partitioned.numbering import check_numbering
from hosting.partitioned.past import Past
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.sections import Section, listing_of
from hosting.partitioned.words import Partition
from hosting.reports.partition_store import RESTORE_GROUP
from reliable_rx.errors import QueryRefused, StoreOwned
from reliable_rx.reliable import Listed


def begin(
    offsets: OffsetStore, stores: PartitionStores, group: str, sections: Collection[Section], start: Start
) -> tuple[Past, Sequence[tuple[str, str]]]:
    """Write down where the partitions of *sections* begin, unless *group* has begun; return what it has read before,
    and of which sources that is told.

    *Raises* `PositionUnavailable` for a starting point that a source does not have, `QueryRefused` for what other
    sections have read, `NondeterminismDetected` for a source that counts its records otherwise, and what *offsets* and
    *stores* raise.
    """
    past = Past(stores, offsets.fetch(group))
    check_sections(past, sections, group)
    check_numbering(sections, past)
    found = past, list(gone_sources(sections, past))
    if start == "earliest" or past.opened:
        return found
    vector = {
        key_of(section.name, name, each.name): resolve(source, each.name, start)
        for section in sections
        for name, source in section.sources.items()
        for each in listing_of(source)
    }
    with suppress(StoreOwned):  # else another node was first, and partitions are open already
        offsets.reset(group, vector)
    return found


def gone_sources(sections: Iterable[Section], past: Past) -> Iterator[tuple[str, str]]:
    """Yield the sources that were read and are not any more, each with what is said of it."""
    known = {each: past.sources(each) for each in past.sections()}
    read = {source: section for section in sections for source in section.sources}
    new = sorted(read.keys() - frozenset[str]().union(*known.values()))
    begun = sorted({name for source in new for name in read[source].queries})
    gone = [(source, where) for where, sources in known.items() for source in sources - read.keys()]
    for source, where in sorted(gone):
        if past.is_at_work(where):
            yield source, renamed.source_of_group(source, new, begun) if new else renamed.source_unread(source)


def renamed_partitions(
    sections: Iterable[Section], past: Past, listed: Collection[Partition]
) -> Iterator[tuple[str, str]]:
    """Yield the sources that have a partition less and one more *listed* now, each with what is said of it."""
    for section in sections:
        there = {each.name for each in listed if each.source == section.name}
        before = past.partitions(section.name)
        gone, new = sorted(before - there), sorted(there - before)
        for source, made in section.sources.items():
            if gone and new and not section.whole and not isinstance(made, Listed):
                yield source, renamed.partition(source, gone, new)


def check_sections(past: Past, sections: Collection[Section], group: str) -> None:
    """*Raises* `QueryRefused` if a source or a query that *group* has had in one section is to be in another one.

    Its partitions have other stores there: all queries of the section would begin anew, under the ids of before. Where
    this app reads it in that section too, beside queries over all partitions, only a query that was moved begins anew.
    """
    mine = {(each.name, source) for each in sections for source in each.sources}
    for section in sections:
        for other in past.sections():
            for source in sorted(section.sources.keys() & past.sources(other)):
                if (other, source) not in mine and past.is_at_work(other) and not _goes_on(past, section.name, source):
                    raise QueryRefused(
                        f"source {source!r} is read in section {section.name!r} by this app, and group {group!r} has "
                        f"read it in {other!r}: queries that read several sources are hosted with all that read one "
                        f"of these, so such a query was added or taken out, and the others would lose their state and "
                        f"use their ids again; declare the queries over {other!r} as they were, or give this app "
                        f"another group",
                        path=f"/{section.name}",
                    )
        check_scopes(past, section, {source for _, source in mine}, group)


def check_scopes(past: Past, section: Section, read: Collection[str], group: str) -> None:
    """*Raises* `QueryRefused` if a query of *section* has its state and its ids in the stores of another one, or may.

    One of whose sources none is *read* any more had sources that were renamed, which is told. What the stores of
    *section* itself do not say, since they cannot be read, is not taken for new: their own start tells.
    """
    known = [each for each in past.sections() if each == WHOLE or not sources_in(each).isdisjoint(read)]
    others = [each for each in known if each != section.name]
    begun = section.queries.keys() - past.queries(section.name) if others else set[str]()
    for other in others if begun else ():
        if moved := sorted(past.queries(other) & begun):
            raise QueryRefused(
                f"query {moved[0]!r} is hosted in section {section.name!r} by this app, and group {group!r} has had it "
                f"in {other!r}: it would begin anew there and use its ids again; declare the queries over {other!r} as "
                f"they were, give it another name, or dispose of it there first, by an app that does not declare it",
                path=f"/{section.name}",
            )
        refused = past.refused(other)
        if refused is not None and past.refused(section.name) is None:
            raise QueryRefused(
                f"whether group {group!r} has had query {min(begun)!r} in section {other!r} cannot be told, since a "
                f"store there cannot be read, and in {section.name!r} it would begin anew: {refused.message}; declare "
                f"the queries as they were, or {RESTORE_GROUP}",
                path=f"/{section.name}",
            )


def _goes_on(past: Past, section: str, source: str) -> bool:
    return source in past.sources(section) and past.is_at_work(section)
