"""Records that a source could not read, on their way past Spark: counted and told by the task that met them.

Spark's Python data sources have rows and nothing beside: no metrics, no second output, and what a task counts does not
come to the driver. So each task warns once in the log of its worker (in local mode the driver's standard error), with a
count, a position and a reason; the records themselves are rows of another read (`spark_bridge.dead_letters`).
Rejected: a column in every row (it would change each schema), an error (that is what ``fail`` is for).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hosting.reports.log import LOG
from reliable_rx.operators.contract.arguments import plural

if TYPE_CHECKING:
    from reliable_rx.reliable import Rejected
    from spark_bridge.feeds import Range


class BadRecords:
    """The records among *ids* that the source called *name* could not read."""

    def __init__(self, name: str, ids: Range, policy: str) -> None:
        self._name, self._ids, self._policy = name, ids, policy
        self._behind = ids.start
        self._count = 0
        self._last: Rejected | None = None

    def new(self, rejected: Iterable[Rejected]) -> Iterator[Rejected]:
        """Yield those that are among the ids, each once."""
        for each in rejected:
            if self._behind <= each.position < self._ids.end:
                self._behind = each.position + 1
                yield each

    def add(self, rejected: Iterable[Rejected]) -> None:
        """Count *rejected*."""
        for each in self.new(rejected):
            self._count, self._last = self._count + 1, each

    def tell(self) -> None:
        """Warn of what was counted."""
        if self._last is None:
            return
        ids, last = self._ids, self._last
        way = "option deadLetters=true reads them" if self._policy == "dead_letter" else "left out"
        LOG.warning(
            "source %s, partition %r, ids %s to %s: %s could not be read; %s; the last, at %s: %s",
            self._name, ids.partition, f"{ids.start:,}", f"{ids.end:,}", plural(self._count, "record"), way,
            f"{last.position:,}", last.error,
        )  # fmt: skip
