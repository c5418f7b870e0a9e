"""Log lines for queries that had ended and run again: behind one end their streams and sinks get another.

It is said when an edit does it, not when its turn is taken again. Rejected: a line for each edit; one that changes no
end surprises nobody, and `statistics().reports` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hosting.reports.log import LOG
from reliable_rx.runtime.report import Report


@contextmanager
def afresh_told(reports: Mapping[str, Report], name: str, how: str) -> Iterator[None]:
    """Log that the query *name* begins afresh, if what is done within changes its report so; *how* it comes to that."""
    before = reports.get(name)
    yield
    report = reports.get(name)
    if report is not None and report is not before and report.note:
        report.how = how
        LOG.warning("query %r %s: %s", name, how, report.note)
