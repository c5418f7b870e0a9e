"""What runs on Spark's workers: a bucket out of the state store, a batch through it, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from reliable_rx.errors import CheckpointRefused
from spark_bridge.frames import Layout
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery

STATE, STATE_SCHEMA = "bucket", "blob binary, buckets int"
MS = 1000.0


class BucketProcessor(StatefulProcessor):
    """Runs the buckets of one query; Spark pickles it to its workers and calls it once per bucket and batch."""

    def __init__(self, query: KeyedQuery, layout: Layout, *, buckets: int, streaming: bool) -> None:
        self.code = cloudpickle.dumps(query)  # the query's own pickler: what it holds are functions
        self.layout = layout
        self.buckets = buckets
        self.streaming = streaming

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.state = handle.getValueState(STATE, STATE_SCHEMA)
        self.query: KeyedQuery = cloudpickle.loads(self.code)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        arrivals, now = self.layout.arrivals(list(rows))
        time = self.watermark(timerValues) if self.layout.event_time else now
        yield from self.take(arrivals, time or 0.0, ended=not self.streaming)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self.take(Arrivals([], [], [], times=[]), self.watermark(timerValues), ended=False)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        blob = bytes(initialState["blob"].iloc[0])
        self.state.update((blob, self.buckets))
        if self.layout.event_time:
            self.wake(Bucket(self.query, blob).next_wake(), 0.0)

    def close(self) -> None:
        """Nothing is held between batches."""

    def take(self, arrivals: Arrivals, time: float, *, ended: bool) -> Iterator[Any]:
        bucket = Bucket(self.query, self.load())
        out = bucket.take(arrivals, time=time, ended=ended)
        self.state.update((bucket.blob(), self.buckets))
        if self.layout.event_time and self.streaming:
            self.wake(bucket.next_wake(), time)
        if out.ids:
            yield self.layout.frame(out)

    def load(self) -> bytes | None:
        """Return the blob of the bucket at work. *Raises* `CheckpointRefused` if there were more buckets, or fewer."""
        row = self.state.get() if self.state.exists() else None
        if row is None:
            return None
        if row[1] != self.buckets:
            raise CheckpointRefused(
                f"the checkpoint has its keys in {row[1]} buckets, not {self.buckets}: say buckets={row[1]}, as at its "
                f"beginning",
                what="buckets",
                where="bucket",
            )
        return bytes(row[0])

    def watermark(self, timers: Any) -> float:
        """Return the time before which all has come: Spark is told a millisecond less, and drops what is at that."""
        return (timers.getCurrentWatermarkInMs() + 1) / MS if self.streaming else 0.0

    def wake(self, due: float | None, time: float) -> None:
        """Have Spark call when the watermark has passed *due*."""
        wanted = None if due is None else max(int(due * MS), int(time * MS))
        there = list(self.handle.listTimers())
        for each in there:
            if each != wanted:
                self.handle.deleteTimer(each)
        if wanted is not None and wanted not in there:
            self.handle.registerTimer(wanted)
