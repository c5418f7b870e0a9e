"""Sources that nothing reads any more, since all queries that read them have failed: told when a run waits.

Its events are taken and make no difference, and a run that waits for one of them may wait for ever, while each failure
was told long ago. Rejected: to end the run (a query may be mended while it goes on), and to take no events of such a
source (it would hold those of others back on event time).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from hosting.engine.engine import QueryEngine
from hosting.reports.causes import is_read
from hosting.reports.incidents import Incidents

UNREAD = "unread"
MESSAGE = (
    "nothing reads it any more: all queries that did have ended, and what comes of it makes no difference; mend those "
    "that have failed (an edited query runs again), or stop the run"
)


def tell_unread(engine: QueryEngine, incidents: Incidents, *, failed: Iterable[str], sources: Collection[str]) -> None:
    """Warn of those *sources* that go on, and that only queries read which have *failed*; between turns."""
    if not incidents.any_open:
        return
    standing = [engine.standing[name] for name in failed if name in engine.standing]
    read = {source for each in standing for source in each.plan.sources if engine.live.get(source)}
    found = {source for source in read.intersection(sources) if not is_read(engine, source)}
    told = {each.subject for each in incidents.open() if each.kind == UNREAD}
    for source in sorted(told - found):
        incidents.resolve(UNREAD, source, now="is read again, or has ended")
    for source in sorted(found - told):
        incidents.report(UNREAD, source, MESSAGE, level=logging.WARNING, once=True)
