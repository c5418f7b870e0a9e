"""The time during which inputs cannot be read.

While the log of a pushed one cannot, no turn is taken, and it is tried again with growing pauses. A source that fails
ends the run; what the register says of it stays until inputs are read again.
"""

from __future__ import annotations

from time import monotonic

from hosting.edges.partition import Partition
from hosting.engine.lineage import Lineage
from hosting.evaluator.serial_executor import RETRY_S, RETRY_S_MAX
from hosting.reports.incidents import Incidents
from reliable_rx.errors import SourceFailed, StoreUnavailable


class Outage:
    """Why inputs cannot be read now, and when to look again."""

    def __init__(self, incidents: Incidents) -> None:
        self.error: StoreUnavailable | None = None
        self.lasts = False
        self._failed: set[str] = set()
        self._incidents = incidents
        self._pause_s = RETRY_S
        self._retry_at = 0.0

    @property
    def pauses(self) -> bool:
        """Whether it is too soon to look again."""
        return self.error is not None and monotonic() < self._retry_at

    def begin(self, error: StoreUnavailable) -> None:
        """They cannot be read, or still not."""
        self.error, self.lasts = error, True
        self._retry_at = monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, RETRY_S_MAX)
        self._incidents.report("reading", "pushed inputs", f"{error}; no turn is taken until they can be read")

    def fail(self, error: SourceFailed) -> None:
        """A source cannot be read: the run ends."""
        subject = declared_name(error) or str(error.fields.get("source") or "unknown")
        self._failed.add(subject)
        self.lasts = True
        self._incidents.report("source", subject, str(error), error=error)

    def over(self) -> None:
        """They can be read again."""
        self.error, self.lasts, self._pause_s = None, False, RETRY_S
        self._incidents.resolve("reading", "pushed inputs")
        while self._failed:
            self._incidents.resolve("source", self._failed.pop())


def declared_name(error: SourceFailed) -> str | None:
    """Return the name under which the source is declared that *error* came from; it names itself by a path or topic."""
    at = error.__traceback__
    while at is not None:
        found = at.tb_frame.f_locals.get("self")
        if isinstance(found, (Partition, Lineage)):
            return found.source
        at = at.tb_next
    return None
