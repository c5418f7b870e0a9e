"""Spark and a standing query over it in one process: endless rides, counted by city.

reliable-rx run examples/rides.py:app          needs the extra spark, and Java 17 or newer
reliable-rx tail rides.store fares --follow    in another terminal
"""

from __future__ import annotations

from hosting import App, JsonLinesSink
from spark_bridge import MicroBatchSource, SparkCompanion, publish, start_session

SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "20000",
}

app = App(checkpoint_interval_s=1.0)
rides = app.source("rides", MicroBatchSource("rides.log"))
app.query("fares", rides.scan(lambda total, ride: total + ride["fare"], 0))
app.sink("fares", lambda: JsonLinesSink("fares.jsonl"))


@app.companion
def spark() -> SparkCompanion:
    """Start Spark when the app is hosted, in a thread of its own; it is stopped before the last checkpoint."""
    session = start_session(SETTINGS, jvm_log="spark.log")
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1).load()
    fares = rows.selectExpr("value as ride", "cast(value % 7 as int) as fare")
    every = {"processingTime": "1 second"}
    return SparkCompanion(
        session, publish(fares, "rides.log", checkpoint="rides.checkpoint", name="rides", trigger=every)
    )
