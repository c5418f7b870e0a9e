"""What Spark does for the demo: lines to flights, what is torn left out, and hours of event time.

The log of flights is sorted batch by batch by the lines of the feed, so it has their order also where a kill has made
one batch of two files. The windows are Spark's own: shuffled, aggregated, and given out once the watermark has passed
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hosting.demo.data import AIRPORTS
from hosting.demo.queries import DAY_S, HOUR_S, LATE_MIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES = (
    "line string, year string, month string, day string, dep_time string, sched_dep_time string, dep_delay string, "
    "arr_time string, sched_arr_time string, arr_delay string, carrier string, flight string, tailnum string, "
    "origin string, dest string, air_time string, distance string, hour string, minute string, time_hour string"
)
FLIGHT = ("time", "origin", "dest", "carrier", "number", "tail", "delay_min")
"""The columns that make a `hosting.demo.data.Flight`, in its order."""


def flights(spark: SparkSession, feed: Path, *, files_per_batch: int) -> DataFrame:
    """Read the lines of *feed* as flights; the line that ends it has an empty origin.

    Column ``at`` is the time of the flight for Spark's watermark, which the last line moves on by a day; ``line`` is
    the number that the feed gave the line: the order of the feed, which Spark keeps within a file only.
    """
    from pyspark.sql import functions as f

    reader = spark.readStream.schema(LINES).option("header", "true").option("maxFilesPerTrigger", files_per_batch)
    lines = reader.csv(str(feed))
    hour = f.unix_timestamp(f.expr("try_to_timestamp(time_hour)"))
    timed = lines.withColumn("time", (hour + 60 * f.expr("try_cast(minute as int)")).cast("double"))
    known = f.col("origin").isin(*AIRPORTS) | (f.col("origin").isNull() & f.col("carrier").isNull())
    last = f.when(f.col("origin").isNull(), f.lit(DAY_S)).otherwise(f.lit(0.0))
    return timed.where(f.col("time").isNotNull() & known).select(
        "time",
        f.coalesce("origin", f.lit("")).alias("origin"),
        f.coalesce("dest", f.lit("")).alias("dest"),
        f.coalesce("carrier", f.lit("")).alias("carrier"),
        f.coalesce("flight", f.lit("")).alias("number"),
        f.coalesce("tailnum", f.lit("NA")).alias("tail"),
        f.expr("try_cast(dep_delay as int)").alias("delay_min"),
        f.timestamp_seconds(f.col("time") + last).alias("at"),
        f.expr("try_cast(line as long)").alias("line"),
        f.concat_ws("-", "origin", "dest").alias("route"),
    )


def hours(flown: DataFrame) -> DataFrame:
    """Sum the flights by airport and hour, as `hosting.demo.queries.Hour` has them.

    A window of Rx closes behind the events of its last moment, and one of Spark's before them: so the times that Spark
    sees are a microsecond earlier. An hour is called by its first flight's. The line that ends the feed is in a window
    that never closes; left out here, it would be left out before the watermark has seen it.
    """
    from pyspark.sql import functions as f

    delay = f.col("delay_min")
    summed = (
        flown.withColumn("at", f.expr("at - INTERVAL '0.000001' SECOND"))
        .withWatermark("at", "0 seconds")
        .groupBy(f.window("at", "1 hour"), "origin")
        .agg(
            (f.floor(f.min("time") / HOUR_S) * HOUR_S).alias("time"),
            f.count(delay).alias("departures"),
            f.count(f.when(delay.isNull(), 1)).alias("cancelled"),
            f.count(f.when(delay > LATE_MIN, 1)).alias("late"),
            f.coalesce(f.sum(delay), f.lit(0)).alias("delay_min"),
        )
    )
    return summed.select("time", "origin", "departures", "cancelled", "late", "delay_min")
