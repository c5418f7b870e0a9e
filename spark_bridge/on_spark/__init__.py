"""The side of a keyed query that is Spark's: from frames of rows to packets in buckets, through a bucket, and back.

`running` puts a query together on the driver, `placing` its frames; `processor` is what runs on workers; `layout` and
`packets` are how rows travel between the two; `moving` takes state to Spark and from it. What a bucket does with its
rows is `spark_bridge.keyed`. Nothing is imported here: a worker needs the processor and none of the driver's part.
"""
