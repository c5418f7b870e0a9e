"""What meets Spark: the only package that imports pyspark, and only where Spark itself is wanted."""

from spark_bridge.log.refusal import LogRefused
from spark_bridge.source import MicroBatchSource

__all__ = ["LogRefused", "MicroBatchSource"]
