"""The main job with Spark before it: two logs in place of the file of flights, and Spark's driver as a companion."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosting.app import App
from hosting.demo.airport import stream_file
from hosting.demo.data import Flight, weather_source
from hosting.demo.queries import QUERIES, Hour
from hosting.sinks import JsonLinesSink
from spark_bridge.demo.frames import FLIGHT, flights, hours
from spark_bridge.demo.keyed import KEYED
from spark_bridge.micro_batch_log import end
from spark_bridge.on_spark.running import configure
from spark_bridge.publishing import Form, publish
from spark_bridge.session import start_session
from spark_bridge.sidecar import SparkCompanion
from spark_bridge.source import MicroBatchSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

READ = ("flights", "hours")
"""The logs that the evaluator reads."""
AT_ONCE = 2
"""Each query on Spark starts processes of Python's for each batch."""
FILES_PER_BATCH = 4
"""Where Spark sorts rows itself, by the number of their lines."""
SETTINGS = {
    "spark.master": "local[2,3]",
    "spark.app.name": "reliable-rx demo",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "20000",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Few and small batches in a process that is started four times: a compiler that is quick to start, one local disk."""
BY_SPARK = "hours_by_spark"
PATIENT_S = 1e9
"""Wait for Spark however long it takes: the weather must not overtake the flights."""


def airport(data: Path, logs: Path, streams: Path) -> App:
    """Declare the demo over the weather in *data* and what Spark writes into *logs*; streams go to files."""
    app = App(checkpoint_interval_s=1.0, idle_s=PATIENT_S)
    rows = app.source(
        "rows", MicroBatchSource(logs / "flights", values="tuple", columns=FLIGHT, timestamp=itemgetter(0))
    )
    app.source("weather", weather_source(data))
    app.query("flights", rows.map(Flight._make))
    for name, query in QUERIES.items():
        app.query(name, query())
        app.sink(name, JsonLinesSink(stream_file(streams, name)))
    summed = app.source("hours", MicroBatchSource(logs / "hours", values="tuple", timestamp=itemgetter(0)))
    app.query(BY_SPARK, summed.map(Hour._make))
    app.sink(BY_SPARK, JsonLinesSink(stream_file(streams, BY_SPARK)))
    return app


class Driver(SparkCompanion):
    """Everything that Spark does: two queries write logs for the evaluator, the others run standing queries per key."""

    def __init__(self, feed: Path, logs: Path) -> None:
        spark = start_session(SETTINGS, jvm_log=logs / "jvm.log")
        configure(spark)
        gateway: Any = spark.sparkContext._gateway
        self.jvm = int(gateway.proc.pid)
        self._logs = logs
        flown = flights(spark, feed, files_per_batch=FILES_PER_BATCH)
        super().__init__(spark)
        self._open = {
            "flights": self._added(start_flights(spark, feed, logs)),
            "hours": self._added(start(hours(flown), logs, "hours")),
        }
        self._frames = [(each.name, each.frame(flown)) for each in KEYED]
        self._keyed: list[StreamingQuery] = []

    def _added(self, query: StreamingQuery) -> StreamingQuery:
        self.add(query)
        return query

    @property
    def ended(self) -> bool:
        """Whether all queries have read the feed to its end; a log whose query has is ended too."""
        over = super().ended
        for name in [name for name, query in self._open.items() if not query.isActive]:
            end(self._logs / name)
            del self._open[name]
        if self._frames and sum(query.isActive for query in self._keyed) < AT_ONCE:
            name, frame = self._frames.pop(0)
            self._keyed.append(self._added(start(frame, self._logs, name, form="foreach_batch")))
            return False
        return over


def start_flights(spark: SparkSession, feed: Path, logs: Path) -> StreamingQuery:
    """Start to write the flights of *feed* into their log, in the order of their lines also where a kill made one batch
    of two files.
    """
    rows = flights(spark, feed, files_per_batch=1).where("origin != ''").select("line", *FLIGHT)
    return start(rows, logs, "flights", order_by="line")


def start(
    frame: DataFrame, logs: Path, name: str, *, form: Form | None = None, order_by: str | Sequence[str] = ()
) -> StreamingQuery:
    """Start to write *frame* into the log *name*, until all of the feed is read."""
    checkpoint = checkpoint_of(logs, name)
    once = {"availableNow": True}
    return publish(frame, logs / name, checkpoint=checkpoint, name=name, form=form, order_by=order_by, trigger=once)


def checkpoint_of(logs: Path, name: str) -> Path:
    """Return the checkpoint of Spark's that belongs to a log."""
    return logs / f"{name}.checkpoint"
