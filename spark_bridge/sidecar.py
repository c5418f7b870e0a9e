"""Spark's driver beside an evaluator: streaming queries that one process runs with the standing queries they feed.

An app names a function that starts a session and its queries and returns a `SparkCompanion`; a host shows what the
listener hears, ends when the queries have ended, and stops them behind the batch that is under way. Spark knows no such
stop: `StreamingQuery.stop` interrupts the batch, which then runs again at the next start. That loses nothing and costs
a batch; so it is called where a batch has just ended, or has taken too long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hosting.evaluator.sidecars import CompanionFigures
from reliable_rx.errors import SourceFailed
from spark_bridge.failures import told
from spark_bridge.listener import QueryTable, listen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 0.02


class SparkCompanion:
    """Streaming *queries* that run beside an evaluator, such as those which `publish` returns.

    Given to an app by a function: ``@app.companion``. Stopped, each query finishes the batch that is under way, for at
    most *batch_s* seconds: then the batch is interrupted, and runs again at the next start. The session stays; its JVM
    ends with the process.

    *Raises* `SourceFailed` (out of `ended`) with the name of the query that has failed and what Spark says.
    """

    def __init__(self, spark: SparkSession, *queries: StreamingQuery, batch_s: float = 60.0) -> None:
        self._batch_s = batch_s
        self._queries: list[StreamingQuery] = []
        self._table = QueryTable()
        self._unlisten = listen(spark, self._table)
        for query in queries:
            self.add(query)

    def add(self, query: StreamingQuery) -> None:
        """Look after one more query; while this is at work, in its `ended`."""
        self._table.add(str(query.runId), query.name or f"query {len(self._queries) + 1}")
        self._queries.append(query)

    @property
    def ended(self) -> bool:
        """Whether all queries have come to their end. *Raises* what one has failed with."""
        for query in self._queries:
            if not query.isActive and (error := query.exception()) is not None:
                name = query.name or str(query.id)
                raise SourceFailed(f"Spark's query {name} has failed: {told(str(error))}", source=name) from error
        return not any(query.isActive for query in self._queries)

    def figures(self) -> Sequence[CompanionFigures]:
        """Return what the listener has heard of each query."""
        return self._table.figures()

    def stop(self) -> None:
        """Stop every query behind its batch; return when all have. *Raises* what Spark says of one that does not."""
        deadline = time.monotonic() + self._batch_s
        done = {query: last_trigger(query) for query in self._queries}
        errors: list[Exception] = []
        while active := [query for query in done if query.isActive]:
            for query in active:
                between = last_trigger(query) != done[query] or not query.status["isTriggerActive"]
                if between or time.monotonic() > deadline:
                    try:
                        query.stop()
                    except Exception as error:
                        errors.append(error)
                        del done[query]
            time.sleep(LOOK_S)
        self._unlisten()
        if errors:
            raise errors[0]


def last_trigger(query: StreamingQuery) -> str:
    """Return when the last trigger began that *query* says is over: a listener may hear of it a batch too late."""
    progress = query.lastProgress
    return "" if progress is None else progress["timestamp"]
