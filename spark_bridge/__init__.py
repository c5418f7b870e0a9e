"""What meets Spark: the only package that imports pyspark, and only where Spark itself is wanted.

`publish` writes a streaming DataFrame into a micro-batch log, which an evaluator reads as a `MicroBatchSource`;
`register` lets Spark read and write ``format("reliable_rx")``; `MicroBatchSink` writes a stream for it to read. An
evaluator that reads or writes a log needs no Spark. `run_on_spark` runs a standing query inside Spark, once per key.

Names are loaded when they are first wanted: Spark imports this package into every process that it starts for a task or
a commit, and these need the log and nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_bridge.micro_batch_log import LogFull, LogRefused, end, readers, release
    from spark_bridge.on_spark.moving import from_spark, to_spark
    from spark_bridge.on_spark.running import configure, run_on_spark
    from spark_bridge.publishing import batch_writer, publish, register
    from spark_bridge.session import start_session
    from spark_bridge.sidecar import SparkCompanion
    from spark_bridge.sink import MicroBatchSink
    from spark_bridge.source import MicroBatchSource

_HOME = {
    "LogFull": "micro_batch_log", "LogRefused": "micro_batch_log", "end": "micro_batch_log",
    "readers": "micro_batch_log", "release": "micro_batch_log", "MicroBatchSink": "sink", "MicroBatchSource": "source",
    "SparkCompanion": "sidecar", "configure": "on_spark.running", "run_on_spark": "on_spark.running",
    "from_spark": "on_spark.moving", "to_spark": "on_spark.moving", "batch_writer": "publishing",
    "publish": "publishing", "register": "publishing", "start_session": "session",
}  # fmt: skip
__all__ = [
    "LogFull", "LogRefused", "MicroBatchSink", "MicroBatchSource", "SparkCompanion", "batch_writer", "configure", "end",
    "from_spark", "publish", "readers", "register", "release", "run_on_spark", "start_session", "to_spark",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
