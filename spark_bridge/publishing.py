"""Out of Spark: a streaming DataFrame, batch by batch, into a micro-batch log.

Two forms. The *sink* is a data source: executors write files, a process of Spark's writes the manifest, nothing passes
through the driver's Python. It appends only. The *foreach_batch* form runs inside `foreachBatch`, for plans that need
it: update mode, rows in an order, or several things to do with a batch. It always runs the whole plan, also for a batch
it has had: a stateful plan that is not run does not save its state, and Spark can then never start from that checkpoint
again.

Which rows a batch has is up to Spark, and a kill may make one batch of two. What can be the same all the same is the
order of the rows. Spark sorts batches, of any size, and no streams: hence `foreachBatch`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from reliable_rx.errors import InternalError
from spark_bridge.checkpoints import check_checkpoint
from spark_bridge.failures import interruptions_told
from spark_bridge.micro_batch_log.columns import PARTITION
from spark_bridge.micro_batch_log.disk import log_directory, log_disk, new_log_disk
from spark_bridge.micro_batch_log.errors import LogRefused
from spark_bridge.micro_batch_log.identity import Identity, check_sharing, claim
from spark_bridge.micro_batch_log.manifest import part_told, told_part
from spark_bridge.micro_batch_log.noted import Noted
from spark_bridge.micro_batch_log.notify import ring
from spark_bridge.micro_batch_log.parts import write_part
from spark_bridge.micro_batch_log.writer import BYTES_MAX, LogWriter, OnChange, OnFull

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Form = Literal["sink", "foreach_batch"]
Mode = Literal["append", "update"]


def register(spark: SparkSession) -> None:
    """Let *spark* know ``format("reliable_rx")``, for `read`, `readStream` and `writeStream` in this thread.

    Spark looks for a format in the session that is active in the thread that asks. In one that has not started a
    session that is none; so *spark* becomes it.
    """
    from spark_bridge.datasource import ReliableRxSource

    if not _is_remote(spark):  # the server of one that is makes it active by itself
        sessions: Any = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
        sessions.setActiveSession(spark._jsparkSession)
    spark.dataSource.register(ReliableRxSource)


def publish(
    df: DataFrame,
    log: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    name: str | None = None,
    key: str | Sequence[str] = (),
    partitions: int = 1,
    order_by: str | Sequence[str] = (),
    mode: Mode = "append",
    form: Form | None = None,
    on_change: OnChange = "refuse",
    takeover: bool = False,
    bytes_max: int = BYTES_MAX,
    on_full: OnFull = "pause",
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start to write the rows of the streaming *df* into the micro-batch log *log*, a directory or a URL of fsspec's.

    *checkpoint* is the directory for Spark's checkpoint; the two belong together. With a *key* (one column or several)
    rows are shared out over *partitions*, all rows of a key to the same, for nodes to share; without, the log has one
    partition and one order. *trigger* goes to Spark as it is: ``{"processingTime": "1 second"}``,
    ``{"availableNow": True}``.

    Within a batch rows come as Spark reads them: of two files, which a kill may put into a batch that would have one,
    the larger first. With *order_by* (one column or several) each batch is sorted, nulls first, before it is written:
    a query on event time over batches sorted by time then says the same after any kill, if with each file in a batch
    of its own no row is later than its ``lateness_s``. This needs the *form* ``"foreach_batch"`` and has it by itself.

    In *mode* ``"append"`` a row of an aggregation comes once, when the watermark has passed its window. In ``"update"``
    it comes with every batch that changed it: a later row of the same group replaces the earlier ones, and whoever
    reads must take it so. Update mode needs the *form* ``"foreach_batch"`` and has it by itself.

    A batch that Spark runs again is recognised. If it then has other rows (``rand()``, a clock, a source that forgets)
    *on_change* says whether to ``"refuse"`` it, which fails the query, or to ``"keep"`` what came first, and warn. A
    log belongs to the query that began it; *takeover* lets one with a new checkpoint go on behind its rows.

    What is kept for readers that are behind is at most *bytes_max* and two batches more. Then Spark's query waits for
    them, or with *on_full* ``"refuse"`` fails with `LogFull`, as it always does if there is no reader at all.

    *Raises* `LogRefused` if the log or the checkpoint belongs to something else, `ValueError` for other bad settings.
    """
    order, names = _names(order_by), _names(key)
    in_batches = _in_batches(df, mode, form, order)
    check_sharing(partitions, names)
    shared = _shared_out(df, names, partitions)
    identity = _claimed(shared, log, names, partitions)
    where = log_disk(log).where
    query = check_checkpoint(os.fspath(checkpoint), identity.id, where=where)
    noted = Noted(checkpoint)
    _check_owner(log, query, where, takeover, noted)
    writer = shared.writeStream.outputMode(mode).option("checkpointLocation", os.fspath(checkpoint))
    writer = writer if name is None else writer.queryName(name)
    writer = writer if trigger is None else writer.trigger(**trigger)
    if in_batches:
        batch = batch_writer(
            log,
            order_by=order,
            checkpoint=checkpoint,
            on_change=on_change,
            takeover=takeover,
            bytes_max=bytes_max,
            on_full=on_full,
        )
        return writer.foreachBatch(batch).start()
    register(df.sparkSession)
    options = {"path": _place(log), "onChange": on_change, "onFull": on_full, "bytesMax": str(bytes_max)}
    return writer.format("reliable_rx").options(**options, takeover=str(takeover).lower()).start()


def batch_writer(
    log: str | os.PathLike[str],
    *,
    key: str | Sequence[str] = (),
    partitions: int = 1,
    order_by: str | Sequence[str] = (),
    on_change: OnChange = "refuse",
    takeover: bool = False,
    bytes_max: int = BYTES_MAX,
    on_full: OnFull = "pause",
    checkpoint: str | os.PathLike[str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch into *log*, as `publish` does.

    For whoever does more with a batch than that. It runs the plan once; cache the batch if others read it as well, and
    call this for every batch: one that is left out leaves its state behind. By Spark's *checkpoint*, if it is told,
    a log that was set back to an older copy is found out.
    """
    names, order = _names(key), _names(order_by)
    place, noted = _place(log), None if checkpoint is None else Noted(checkpoint)

    def write(df: DataFrame, batch: int) -> None:
        _check_local(df)
        query = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise InternalError("Spark no longer says in sql.streaming.queryId whose batch this is")
        _check_order(df, order)
        shared = df if PARTITION in df.columns else _shared_out(df, names, partitions)
        identity = _claimed(shared, log, names or None, None)
        with interruptions_told(place):
            ordered = _sorted(shared, order, identity.partitions)
            rows = ordered.mapInArrow(_task(place, identity, query, batch), "part binary").collect()
        parts = [told_part(bytes(row.part)) for row in rows]
        disk = log_disk(place)
        writer = LogWriter(
            disk,
            where=disk.where,
            partitions=identity.partitions,
            on_change=on_change,
            takeover=takeover,
            bytes_max=bytes_max,
            on_full=on_full,
            noted=noted,
        )
        writer.commit(query, batch, parts)
        ring(disk.directory)

    return write


def _in_batches(df: DataFrame, mode: Mode, form: Form | None, order: Sequence[str]) -> bool:
    """Return whether the form is ``"foreach_batch"``. *Raises* `ValueError` for what does not go together."""
    if not df.isStreaming:
        raise ValueError("df is not streaming: publish takes what spark.readStream gives")
    if mode not in ("append", "update"):
        raise ValueError(f"mode is {mode!r}; choose append or update (complete would write the whole table each time)")
    cannot = f"mode is {mode!r}" if mode == "update" else f"order_by is {list(order)}" if order else None
    if cannot is not None and form == "sink":
        raise ValueError(f"{cannot}, which a sink of Spark's cannot do; leave form out, or say 'foreach_batch'")
    if cannot is None and form != "foreach_batch":
        return False
    _check_local(df)
    _check_order(df, order)
    return True


def _check_local(df: DataFrame) -> None:
    """*Raises* `ValueError` under Spark Connect, where a function for batches cannot know whose batch it has."""
    if _is_remote(df):
        message = "Spark Connect runs foreachBatch in a process of its server's, which does not know whose batch it has"
        raise ValueError(f"{message}; publish in mode 'append' and form 'sink', or with a session that is not remote")


def _is_remote(thing: DataFrame | SparkSession) -> bool:
    """Whether it is of Spark Connect."""
    return type(thing).__module__.startswith("pyspark.sql.connect")


def _place(log: str | os.PathLike[str]) -> str:
    """Return where *log* is, as every process understands it."""
    return str(log_directory(log) or os.fspath(log))


def _task(place: str, identity: Identity, query: str, batch: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        part = write_part(log_disk(place), identity, batches, query=query, batch=batch, task=task)
        if part is not None:
            yield pa.record_batch({"part": [part_told(part)]})

    return write


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _check_order(df: DataFrame, order: Sequence[str]) -> None:
    """*Raises* `ValueError` unless *df* has all columns of *order*, and Spark can say which of two values is less."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    missing = [name for name in order if name not in df.columns]
    if missing:
        raise ValueError(f"order_by is {list(order)}, and there is no column {missing[0]!r}; there are {df.columns}")
    for name in order:
        column = functions.col(f"`{name}`")
        try:
            df.select(column <= column)
        except AnalysisException as error:
            kind = df.schema[name].dataType.simpleString()
            raise ValueError(f"order_by is {list(order)}, and {name!r} is {kind}, which has no order") from error


def _sorted(df: DataFrame, order: Sequence[str], partitions: int) -> DataFrame:
    """Return the batch *df* with the rows of each of the log's partitions in *order*; as it is if there is none."""
    from pyspark.sql import functions

    if not order:
        return df
    together = df.repartition(1) if partitions == 1 else df.repartition(partitions, PARTITION)
    return together.sortWithinPartitions(*(functions.col(f"`{name}`") for name in order))


def _shared_out(df: DataFrame, key: Sequence[str], partitions: int) -> DataFrame:
    """Return *df* with the column that says into which partition each row belongs."""
    from pyspark.sql import functions

    missing = [name for name in key if name not in df.columns]
    if missing:
        raise ValueError(f"key is {list(key)}, and there is no column {missing[0]!r}; there are {df.columns}")
    if partitions == 1:
        return df
    hashed = functions.hash(*(functions.col(f"`{name}`") for name in key))
    return df.withColumn(PARTITION, functions.pmod(hashed, functions.lit(partitions)))


def _claimed(df: DataFrame, log: str | os.PathLike[str], key: Sequence[str] | None, partitions: int | None) -> Identity:
    from spark_bridge.datasource import log_schema

    disk = new_log_disk(log)
    return claim(disk, log_schema(df.schema), partitions=partitions, key=key, where=disk.where)


def _check_owner(log: str | os.PathLike[str], query: str | None, where: str, takeover: bool, noted: Noted) -> None:
    """Refuse before Spark begins what the first batch would be refused for."""
    writer = LogWriter(log_disk(log), where=where, takeover=takeover, noted=noted)
    if query is not None:
        writer.check_query(query)
    elif not takeover and (newest := writer.view.newest()) is not None:
        message = f"{where} belongs to query {newest.query}, and the checkpoint is new: all rows would come again"
        remedy = "use the checkpoint it was made with, a new directory for the log, or takeover=True"
        raise LogRefused(f"{message}; {remedy}", where=where, found=newest.query)
