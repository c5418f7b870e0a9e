"""A real Spark for tests, and streams out of files: one file is one batch, and the next run brings more of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge import MicroBatchSource
from spark_bridge.session import worker_python

WAIT_S = 240
START = datetime(2026, 7, 1, tzinfo=UTC)
SCHEMA = "n long, user string, at timestamp"
USERS = ("ada", "bob", "cyd")

QUICK_TO_START = os.environ.get("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""What `make test-spark` says to the JVM of a driver, for executors as well."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "Europe/Rome",
    "spark.sql.streaming.stopTimeout": "20000",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": QUICK_TO_START,
    "spark.driver.host": "127.0.0.1",
}
"""As little as Spark can be told to do. To compile a plan takes it longer than these rows take it as it is."""


def start_spark(master: str = "local[2,2]") -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = worker_python()
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def put(folder: Path, file: int, numbers: Iterable[int]) -> None:
    """Write *numbers* as rows of one file, a minute apart. Spark takes files in the order of their times.

    As many rows make as many bytes: a kill may put two files into a batch, of which Spark reads the larger first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(numbers)
    at = pa.array([START + timedelta(minutes=n) for n in rows], pa.timestamp("us", tz="UTC"))
    table = pa.table({"n": rows, "user": [USERS[n % 3] for n in rows], "at": at})
    plain: Any = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, beside := folder.parent / f"{file}.parquet", **plain)
    os.utime(beside, (START.timestamp() + file,) * 2)
    beside.rename(folder / f"{file:03d}.parquet")


def stream(spark: Any, folder: Path) -> Any:
    """Read the files of *folder*, one a batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def finish(query: Any) -> None:
    """Wait until *query* has done what there is. *Raises* what it failed with."""
    if not query.awaitTermination(WAIT_S):
        query.stop()
        raise TimeoutError("the query has not come to its end")


def died_before_its_last_commit(checkpoint: Path) -> int:
    """Make the checkpoint what it is when Spark dies behind the sink's commit and before its own; return the batch."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return last


def logged(log: Path, **settings: Any) -> list[Any]:
    """Read all partitions of a log, as a reader that came first and keeps everything."""
    source = MicroBatchSource(log, reader="test", **settings)
    return [value for name in source.partitions() for value in source.open(name, 0).fetch(100_000).values]
