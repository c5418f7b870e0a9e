"""What runs on Spark's workers: a bucket out of the state store, a batch through it, and back."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf
from typing import Any

import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from spark_bridge.keyed import Arrivals, Bucket, Emitted, KeyedQuery
from spark_bridge.keyed.editing import Manner
from spark_bridge.keyed.seals import PUBLIC, Seals
from spark_bridge.on_spark.layout import Layout

STATE, STATE_SCHEMA = "bucket", "blob binary"
MS, US = 1e3, 1e6
PACKET, SOURCE, NOW = 1, 2, 3
"""The columns of what Spark brings: a bucket, a packet, the number of its source, the time of the batch."""


class BucketProcessor(StatefulProcessor):
    """Runs the buckets of one query; Spark pickles it to its workers and calls it once per bucket and batch."""

    def __init__(
        self, query: KeyedQuery, layout: Layout, *, placed: Manner, streaming: bool, seals: Seals = PUBLIC
    ) -> None:
        self.seals = seals
        code = cloudpickle.dumps(query)  # the query's own pickler: what it holds are functions
        self.code = seals.sealed(code, kind="query")
        self.layout = layout
        self.placed = placed
        self.streaming = streaming

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.state = handle.getValueState(STATE, STATE_SCHEMA)
        self.query: KeyedQuery = cloudpickle.loads(self.seals.unsealed(self.code, kind="query"))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        frames = list(rows)
        packets = [
            (packet, source)
            for frame in frames
            for packet, source in zip(frame.iloc[:, PACKET], frame.iloc[:, SOURCE], strict=True)
        ]
        now = max(int(frame.iloc[:, NOW].max()) for frame in frames) / US
        time = self.watermark(timerValues) if self.layout.event_time else now
        yield from self.take(self.layout.arrivals(packets), time, ended=not self.streaming)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from self.take(self.layout.arrivals(()), self.watermark(timerValues), ended=False)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        blob = bytes(initialState["blob"].iloc[0])
        self.state.update((blob,))
        if self.layout.event_time:
            self.wake(self.bucket(blob).next_wake(), -inf)

    def close(self) -> None:
        """Nothing is held between batches."""

    def take(self, arrivals: Arrivals, time: float, *, ended: bool) -> Iterator[Any]:
        bucket = self.bucket(bytes(self.state.get()[0]) if self.state.exists() else None)
        out = bucket.take(arrivals, time=time, ended=ended)
        self.state.update((bucket.blob(out),))
        if self.layout.event_time and self.streaming:
            self.wake(bucket.next_wake(), time)
        if out.ids:
            yield self.frame(out)

    def frame(self, out: Emitted) -> Any:
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame({"packet": [self.layout.packet(out)]})

    def bucket(self, blob: bytes | None) -> Bucket:
        return Bucket(self.query, blob, placed=self.placed, seals=self.seals)

    def watermark(self, timers: Any) -> float:
        """Return the time before which all has come; Spark says 0 as long as it knows none."""
        return (timers.getCurrentWatermarkInMs() or -inf) / MS if self.streaming else -inf

    def wake(self, due: float | None, time: float) -> None:
        """Have Spark call when the watermark has passed *due*.

        A timer at the present watermark would be the one that Spark is just calling for, and takes away afterwards.
        """
        next_ms = 0 if time == -inf else round(time * MS) + 1
        wanted = None if due is None else max(floor(due * MS), next_ms)
        there = list(self.handle.listTimers())
        for each in there:
            if each != wanted:
                self.handle.deleteTimer(each)
        if wanted is not None and wanted not in there:
            self.handle.registerTimer(wanted)
