"""What meets Spark: the only package that imports pyspark, and only where Spark itself is wanted.

`publish` writes a streaming DataFrame into a micro-batch log, which an evaluator reads as a `MicroBatchSource`;
`register` lets Spark read and write ``format("reliable_rx")``; `MicroBatchSink` writes a stream for it to read. An
evaluator that reads or writes a log needs no Spark. `run_on_spark` runs a standing query inside Spark, once per key.
"""

from spark_bridge.log import LogRefused, readers, release
from spark_bridge.on_spark import configure, run_on_spark
from spark_bridge.publish import batch_writer, publish, register
from spark_bridge.sink import MicroBatchSink
from spark_bridge.source import MicroBatchSource

__all__ = [
    "LogRefused", "MicroBatchSink", "MicroBatchSource", "batch_writer", "configure", "publish", "readers", "register",
    "release", "run_on_spark",
]  # fmt: skip
