"""Watch over the partition of all sources when it was read to its end: what has come to a source since is told.

No node opens it again, so no evaluator tells what one process tells at each start (`hosting.edges.late_partitions`):
the queries of scope ``all`` would never read it, and nothing would say so. What it had is in the last checkpoint of its
store, what there is now its sources say. They are asked by a thread of its own, since they may not return; the log has
it, and the group's document, for who looks when no node runs. Rejected: to open it at each start (for queries that get
nothing of it, and sinks that are fenced for nothing), and to run its queries again by ourselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoint.format.codec import decode_data
from hosting.edges.late_partitions import AFTER_THE_END, RESTARTED_MAX, shown_some
from hosting.engine.blame import blamed
from hosting.partitioned.asking import Asker
from hosting.partitioned.failures import worst_of
from hosting.partitioned.group import Hold
from hosting.partitioned.keys import WHOLE_PARTITION
from hosting.partitioned.places import PartitionStores
from hosting.partitioned.sections import Section, listing_of, roots_of, sources_of
from hosting.partitioned.words import Epoch, Failure, Status
from hosting.reports.incidents import Incidents
from hosting.reports.partition_store import Group, of_group
from reliable_rx.errors import StoreUnavailable, described

SINCE = "all that it had was read to its end"


@dataclass(frozen=True, slots=True)
class Had:
    """What a partition of all sources had read when it was over, and of which *group* it is, if commands find that."""

    known: Collection[tuple[str, str]]
    ended: Collection[tuple[str, str]]
    group: Group | None

    def new(self, source: str, names: Collection[str]) -> list[str]:
        """Return which of the partitions *names* of *source* it has not read."""
        return [each for each in names if (source, each) not in self.ended]

    def gone(self, source: str, names: Collection[str]) -> list[str]:
        """Return which partitions of *source* it has read that are not among *names*."""
        return sorted(each for of, each in self.known if of == source and each not in names)


class Latecomers:
    """What has come to the sources of *section* since its partition was read to its end; *tell* has the group know."""

    def __init__(
        self,
        section: Section,
        stores: PartitionStores,
        incidents: Incidents,
        *,
        tell: Callable[[Failure | None], None],
    ) -> None:
        self._section, self._stores, self._incidents, self._tell = section, stores, incidents, tell
        self._asker = Asker("partitions behind the end", self._ask)
        self._epoch = Epoch(0)
        self._had: tuple[Epoch, Had] | None = None
        self._readers: Mapping[str, list[str]] | None = None
        self._said: dict[str, str] = {}
        self._told: Failure | None = None
        self._looks = False

    def look(self, hold: Hold | None, patience_s: float) -> None:
        """Look what has come, if *hold* says that it is over, and wait so long for what comes of it."""
        if not self._section.sources or hold is None or hold.status is not Status.TERMINATED:
            self._say({})
            self._looks = False
            return
        is_first, self._looks = not self._looks, True
        if is_first:
            self._told = hold.failure if hold.failure is not None and hold.failure.is_late else None
        if self._asker.since is None:
            self._epoch = hold.epoch
        answer = self._asker.answer(patience_s)
        if answer is not None:
            self._say(answer())
        elif is_first:
            self._say({each: f"{_unknown()}: it has not answered yet" for each in self._section.sources})
        self._tell_group(hold)

    def close(self) -> None:
        """Look no more."""
        self._asker.close()

    def _say(self, found: Mapping[str, str]) -> None:
        """Have the log, and who looks at this node, know what was *found* of each source."""
        for source in self._said.keys() - found.keys():
            self._incidents.resolve(AFTER_THE_END, source, now="has nothing any more that came behind its end")
        for source, message in found.items():
            if self._said.get(source) != message:
                self._incidents.report(AFTER_THE_END, source, message, level=logging.WARNING)
        self._said = dict(found)

    def _tell_group(self, hold: Hold) -> None:
        """Have the group know, once: another node may find otherwise, and would have it know that again and again."""
        found = worst_of(each for each in self._incidents.open() if each.kind == AFTER_THE_END)
        if found != self._told or (found is not None and hold.failure is None):
            self._tell(found)
            self._told = found

    # ---- in a thread of its own

    def _ask(self) -> dict[str, str]:
        """Return what is to be told of each source of which something is."""
        found = {source: self._news(source) for source in self._section.sources}
        return {source: message for source, message in found.items() if message}

    def _news(self, source: str) -> str:
        try:
            had, names = self._known(), [each.name for each in listing_of(self._section.sources[source])]
        except BaseException as raised:  # a source is somebody else's code
            return f"{_unknown()}: {described(blamed(raised))}"
        new = had.new(source, names)
        return _told(new, had.gone(source, names), self._readers_of(source), had.group) if new else ""

    def _known(self) -> Had:
        if self._had is None or self._had[0] != self._epoch:
            self._had = (self._epoch, self._read())
        return self._had[1]

    def _read(self) -> Had:
        reader = self._stores.look(WHOLE_PARTITION)
        if reader is None:
            raise StoreUnavailable("its store is not there", where=str(WHOLE_PARTITION))
        with reader as store:
            recovered = store.recover()
            meta: Mapping[str, Any] = {} if recovered is None else decode_data(recovered.meta)[0]
        return Had({*meta.get("positions", ())}, {*meta.get("ended", ())}, getattr(reader, "group", None))

    def _readers_of(self, source: str) -> list[str]:
        """Name the queries that have *source* behind them."""
        if self._readers is None:
            reads = {name: sources_of(each.query, name) for name, each in self._section.queries.items()}
            roots = {name: roots_of(name, reads) for name in reads}
            self._readers = {each: [name for name in roots if each in roots[name]] for each in self._section.sources}
        return self._readers[source]


def _unknown() -> str:
    return f"whether it has partitions that have come since {SINCE} is not known"


def _told(new: list[str], gone: list[str], queries: list[str], group: Group | None) -> str:
    """Say that the partitions *new* are not read by *queries*, and what to do."""
    have, they, it = ("have", "they are", "them") if len(new) > 1 else ("has", "it is", "it")
    renamed = f"; {shown_some(gone)} is not there any more: if it was renamed, its records come again" if gone else ""
    return (
        f"partition{'s' * (len(new) > 1)} {shown_some(new)} {have} come since {SINCE}, and {they} not read by queries "
        f'of scope "all" before they are run again: stop the nodes, and run {shown_some(queries)} again, all that are '
        f"to have {it} together, without state and under the ids that follow, with "
        f"{way_to_restart(queries, group)}{renamed}"
    )


def way_to_restart(queries: list[str], group: Group | None) -> str:
    """Name the call that runs *queries* of *group* again."""
    shown, left = queries[:RESTARTED_MAX], len(queries) - RESTARTED_MAX
    more = f"; there are {left:,} more, to be named in the same call" if left > 0 else ""
    return f"`{of_group('restart', group or ('WHERE', 'GROUP'), *shown)}`{more}"
