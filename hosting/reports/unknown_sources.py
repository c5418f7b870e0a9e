"""Sources that a selector names by a value, and that nobody has: told at once, since what waits for them says nothing.

What a query names by itself is checked when it is created. What its selectors name comes with the events; the stream
may be created later, so that the query waits for it rather than fail, and the incident ends when it is there.
"""

from __future__ import annotations

from hosting.engine.cycles import Readers
from hosting.reports.incidents import Incidents

KIND = "unknown source"


class UnknownSources:
    """Tells of the queries that wait for what is not there."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self._told: dict[str, str] = {}

    def look(self, readers: Readers, *, again: bool) -> None:
        """Tell of what is new; *again* looks also whether what was missing is there now."""
        for name, stream in list(readers.unknown.items()):
            if again or name not in self._told:
                self._look_at(readers, name, stream)

    def _look_at(self, readers: Readers, name: str, stream: str) -> None:
        why = readers.missing(stream) if readers.waits_for(name, stream) else None
        if why is None:
            del readers.unknown[name]
            if self._told.pop(name, None) is not None:
                self._incidents.resolve(KIND, name)
        elif self._told.get(name) != stream:
            self._told[name] = stream
            self._incidents.report(KIND, name, f"a selector names {stream!r}, but {why}; it waits until that is there")
