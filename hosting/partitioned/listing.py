"""What an app of a node lists: the partitions of its sections, asked for now and then, each section by itself.

A source that cannot be asked says nothing about its partitions: they are *unknown*, never gone. What this process has
listed before stays, and if it never has, what the group knows. Rejected: one list of all sections or none (a source
that is away for an hour would keep new partitions of all others from everybody); an empty list for a source that
fails (the group would give up its partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hosting.blame import blamed
from hosting.incidents import Incidents
from hosting.partitioned.beats import Catalog, catalog_of
from hosting.partitioned.failures import in_a_line
from hosting.partitioned.sections import Section
from hosting.partitioned.words import Shard

Known = Callable[[], Iterable[Shard]]


class Lister:
    """Lists *sections*; what cannot be listed is an open incident until it can."""

    def __init__(self, sections: Mapping[str, Section], incidents: Incidents) -> None:
        self._sections, self._incidents = sections, incidents
        self._listed: dict[str, list[Shard]] = {}
        self.failed = False
        """Whether a section could not be listed when it was tried last."""

    def look(self, known: Known) -> Catalog:
        """Return the catalog as it is now; *known* gives what the group lists, if that is needed."""
        self.failed = False
        for name, section in self._sections.items():
            try:
                self._listed[name] = section.shards()
            except BaseException as raised:  # a source that cannot be asked now is no reason to give up what runs
                error = blamed(raised)
                self.failed = True
                where = "its partitions cannot be listed; they stay as they were, and it is asked again"
                self._incidents.report("source", name, f"{where}: {in_a_line(error)}", error=error)
            else:
                self._incidents.resolve("source", name)
        if missing := self._sections.keys() - self._listed.keys():
            return catalog_of([*self._all(), *(each for each in known() if each.partition.source in missing)])
        return catalog_of(self._all())

    def _all(self) -> Iterable[Shard]:
        return (each for listed in self._listed.values() for each in listed)
