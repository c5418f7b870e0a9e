"""What Spark says of its streaming queries, batch by batch, as figures for a display.

A `StreamingQueryListener` hears of every batch that is done, without being asked; asking (`lastProgress`) costs a call
into the JVM each time. What it hears becomes `CompanionFigures` here, in plain Python: the listener itself is made
where Spark is there (`listen`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosting.evaluator.sidecars import CompanionFigures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STARTING, RUNNING, IDLE, ENDED, FAILED = "starting", "running", "idle", "ended", "failed"


def after_batch(before: CompanionFigures, progress: Mapping[str, Any]) -> CompanionFigures:
    """Return the figures of a query behind the batch that *progress* tells of, in the form of Spark's JSON.

    >>> told = {"batchId": 7, "numInputRows": 300, "durationMs": {"triggerExecution": 1500},
    ...         "stateOperators": [{"numRowsTotal": 16}]}
    >>> after_batch(CompanionFigures("rides", "running", rows=100), told)  # doctest: +NORMALIZE_WHITESPACE
    CompanionFigures(name='rides', status='running', batch=7, rows=400, rows_per_s=200.0, latency_s=1.5, state_rows=16)
    """
    rows, latency_s = progress["numInputRows"], progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
    return replace(
        before,
        status=RUNNING,
        batch=progress["batchId"],
        rows=before.rows + rows,
        rows_per_s=rows / latency_s if latency_s else 0.0,
        latency_s=latency_s,
        state_rows=sum(each["numRowsTotal"] for each in progress.get("stateOperators", ())),
    )


class QueryTable:
    """The figures of some streaming queries, by the ids of their runs; told and asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[str, CompanionFigures] = {}

    def add(self, run: str, name: str) -> None:
        """Keep figures of one more query."""
        with self._lock:
            self._figures[run] = CompanionFigures(name, STARTING)

    def progress(self, run: str, progress: Mapping[str, Any]) -> None:
        """A batch is done."""
        with self._lock:
            if run in self._figures:
                self._figures[run] = after_batch(self._figures[run], progress)

    def status(self, run: str, status: str) -> None:
        """A query has nothing to do, or has come to its end."""
        with self._lock:
            if run in self._figures:
                self._figures[run] = replace(self._figures[run], status=status)

    def figures(self) -> tuple[CompanionFigures, ...]:
        """Return the figures of all queries, in the order in which they were given."""
        with self._lock:
            return tuple(self._figures.values())


def listen(spark: SparkSession, table: QueryTable) -> Callable[[], None]:
    """Keep *table* current from now on; return what ends that."""
    from pyspark.sql.streaming import listener as told

    class Listener(told.StreamingQueryListener):
        """Hears of all queries of the session, in a thread of Spark's."""

        def onQueryStarted(self, event: told.QueryStartedEvent) -> None:
            """Whoever starts a query adds it."""

        def onQueryProgress(self, event: told.QueryProgressEvent) -> None:
            table.progress(str(event.progress.runId), json.loads(event.progress.json))

        def onQueryIdle(self, event: told.QueryIdleEvent) -> None:
            table.status(str(event.runId), IDLE)

        def onQueryTerminated(self, event: told.QueryTerminatedEvent) -> None:
            table.status(str(event.runId), ENDED if event.exception is None else FAILED)

    listener = Listener()
    spark.streams.addListener(listener)
    return lambda: spark.streams.removeListener(listener)
