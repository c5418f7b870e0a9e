"""What an app of a node lists: the partitions of its sections, asked for now and then, each section by itself.

A source that cannot be asked says nothing about its partitions: they are *unknown*, never gone. What this process has
listed before stays, and if it never has, what the group knows. Rejected: one list of all sections or none (a source
that is away for an hour would keep new partitions of all others from everybody); an empty list for a source that
fails (the group would give up its partitions). One that does not return is like one that fails: each is asked by a
thread of its own, and a node waits only for what it has never listed, before it joins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from hosting.engine.blame import blamed
from hosting.partitioned.asking import Asker
from hosting.partitioned.beats import Catalog, catalog_of
from hosting.partitioned.sections import Section
from hosting.partitioned.words import Shard
from hosting.reports.incidents import Incidents
from reliable_rx.errors import described

Known = Callable[[], Iterable[Shard]]
PATIENCE_S = 0.05
UNANSWERED_S = 10.0
"""How long a listing is waited for before that is told, as a failure is."""
STAY = "they stay as they were, and it is asked again"


class Lister:
    """Lists *sections*; what cannot be listed is an open incident until it can."""

    def __init__(self, sections: Mapping[str, Section], incidents: Incidents) -> None:
        self._incidents = incidents
        self._askers = {name: Asker(f"listing of {name}", section.shards) for name, section in sections.items()}
        self._listed: dict[str, list[Shard]] = {}
        self.failed = False
        """Whether a section could not be listed, or has not answered, when it was tried last."""

    def look(self, known: Known) -> Catalog:
        """Return the catalog as it is now; *known* gives what the group lists, if that is needed."""
        self.failed = False
        for name, asker in self._askers.items():
            try:
                answer = self._wait(name, asker)
                if answer is None:
                    continue
                self._listed[name] = answer()
            except BaseException as raised:  # a source that cannot be asked now is no reason to give up what runs
                error = blamed(raised)
                self.failed = True
                message = f"its partitions cannot be listed; {STAY}: {described(error)}"
                self._incidents.report("source", name, message, error=error)
            else:
                self._incidents.resolve("source", name)
        if missing := self._askers.keys() - self._listed.keys():
            return catalog_of([*self._all(), *(each for each in known() if each.partition.source in missing)])
        return catalog_of(self._all())

    def _wait(self, name: str, asker: Asker[list[Shard]]) -> Callable[[], list[Shard]] | None:
        """Wait for an answer: long only for the first one. Tell if there is none for long."""
        waited_s = 0.0 if asker.since is None else time.monotonic() - asker.since
        answer = asker.answer(PATIENCE_S if name in self._listed else max(PATIENCE_S, UNANSWERED_S - waited_s))
        if answer is None:
            self.failed = True
            waited_s = 0.0 if asker.since is None else time.monotonic() - asker.since
            if waited_s >= UNANSWERED_S:
                message = f"its partitions have not been listed for {waited_s:.0f} s: it does not return; {STAY}"
                self._incidents.report("source", name, message)
        return answer

    def close(self) -> None:
        """Ask no more."""
        for asker in self._askers.values():
            asker.close()

    def _all(self) -> Iterable[Shard]:
        return (each for listed in self._listed.values() for each in listed)
