"""Log lines for queries that had ended and run again: behind one end their streams and sinks get another.

It is said when an edit does it, not when its turn is taken again. Rejected: a line for each edit; one that changes no
end surprises nobody, and `statistics().reports` has it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

LOG = logging.getLogger("reliable_rx")


@contextmanager
def afresh_told(evaluator: QueryEvaluator, name: str, how: str) -> Iterator[None]:
    """Log that the query *name* begins afresh, if what is done within makes it; *how* it comes to that."""
    before = evaluator.engine.reports.get(name)
    yield
    report = evaluator.engine.reports.get(name)
    if report is not None and report is not before and report.note:
        report.how = how
        LOG.warning("query %r %s: %s", name, how, report.note)
