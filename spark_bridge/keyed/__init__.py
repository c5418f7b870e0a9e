"""Standing queries run once per key, many keys to a bucket, their state one blob per bucket: all of it without Spark.

Spark shuffles rows into buckets and keeps a blob for each; what happens to the rows of a bucket is decided here. It is
a function of the blob and the batch, so it can be tested without a JVM and gives the same when a batch is run again.
`query` says what can run per key, `straight` and `general` run one key, `bucket` runs a batch.
"""

from spark_bridge.keyed.bucket import Arrivals, Bucket
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.query import KeyedQuery

__all__ = ["Arrivals", "Bucket", "Emitted", "KeyedQuery"]
