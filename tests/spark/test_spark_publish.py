"""Out of a real Spark: every row once and in order, whatever is run again; what does not belong together is refused."""

from __future__ import annotations

import socket
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from spark_world import START, USERS, WAIT_S, died_before_its_last_commit, finish, logged, put, stream

import reliable_rx as rx
from reliable_rx import operators as ops
from spark_bridge import LogRefused, MicroBatchSource, batch_writer, configure, publish, register, run_on_spark
from spark_bridge.session import start_session

ONCE = {"availableNow": True}


def test_a_batch_that_runs_again_is_there_once(spark: Any, tmp_path: Path) -> None:
    """Spark died between the manifest and its own commit; the batch comes again, with more behind it.

    The second log is read while it is written, by whoever has acknowledged: what is gone is not missed.
    """
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    for file in range(3):
        put(files, file, range(file * 10, file * 10 + 10))
    finish(publish(stream(spark, files), log, checkpoint=checkpoint, trigger=ONCE))
    before = logged(log)
    assert [row["n"] for row in before] == list(range(30))
    assert before[0] == {"n": 0, "user": "ada", "at": START}
    assert died_before_its_last_commit(checkpoint) == 2
    put(files, 3, range(30, 40))
    finish(publish(stream(spark, files), log, checkpoint=checkpoint, trigger=ONCE))
    assert [row["n"] for row in logged(log)] == list(range(40))
    assert not [path for path in log.iterdir() if path.name.startswith("rows-")]


def test_other_rows_are_refused_or_dropped(spark: Any, tmp_path: Path) -> None:
    """rand() gives other numbers when the batch comes again: both digests are told, or the first rows kept."""
    from pyspark.sql import functions as f

    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    put(files, 0, range(10))

    def run(**settings: Any) -> None:
        chance = stream(spark, files).withColumn("chance", f.rand())
        finish(publish(chance, log, checkpoint=checkpoint, trigger=ONCE, **settings))

    run()
    first = logged(log)
    died_before_its_last_commit(checkpoint)
    with pytest.raises(Exception, match=r"came again with other rows: digest \w{32} the first time, \w{32} now"):
        run()
    run(on_change="keep")
    put(files, 1, range(10, 12))
    run(on_change="keep")
    rows = logged(log)
    assert rows[:10] == first
    assert [row["n"] for row in rows[10:]] == [10, 11]


def test_a_source_that_forgets_is_found_out(spark: Any, tmp_path: Path) -> None:
    """A socket has nothing for a batch that comes again in a life after, and the query is refused, not shortened."""
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        server.settimeout(WAIT_S)

        def run() -> tuple[Any, socket.socket]:
            heard = spark.readStream.format("socket").option("host", host).option("port", port).load()
            return publish(heard, log, checkpoint=checkpoint), server.accept()[0]

        query, line = run()
        with line:
            line.sendall(b"one\n")
            query.processAllAvailable()
        query.stop()
        assert logged(log) == [{"value": "one"}]
        died_before_its_last_commit(checkpoint)
        query, line = run()
        with line, pytest.raises(Exception, match="came again with other rows"):
            finish(query)
    assert logged(log) == [{"value": "one"}]


def test_a_query_on_spark_runs_a_batch_again(spark: Any, tmp_path: Path) -> None:
    """Its state in Spark is that of before the batch, so its rows are the same, with the same ids, and come once."""
    configure(spark)
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    total = ops.scan(lambda total, row: total + row["n"], 0)
    query = rx.source("rows").pipe(ops.group_by(lambda row: row["user"]), ops.flat_map(lambda user: user.pipe(total)))
    for file in range(2):
        put(files, file, range(file * 6, file * 6 + 6))
        emitted = run_on_spark(query, stream(spark, files), key="user", seq="n", emits="long")
        finish(publish(emitted, log, checkpoint=checkpoint, trigger=ONCE))
        died_before_its_last_commit(checkpoint)
    rows = logged(log)
    assert len(rows) == 12
    for number, user in enumerate(USERS):
        found = [(row["id"], row["value"]) for row in rows if row["user"] == user]
        assert found == list(enumerate(accumulate(range(number, 12, 3))))


def test_windows_and_joins_in_append_mode(spark: Any, tmp_path: Path) -> None:
    """Two streams joined, and summed by event time: each window comes once, though a stateful batch runs again."""
    from pyspark.sql import functions as f

    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"

    def run(*numbers: int) -> None:
        put(files, numbers[0], numbers)
        left = stream(spark, files).withWatermark("at", "1 minute").alias("l")
        right = stream(spark, files).where("n % 2 = 0").withWatermark("at", "1 minute").alias("r")
        joined = left.join(right, f.expr("l.n = r.n and l.at = r.at")).select("l.n", "l.at")
        sums = joined.groupBy(f.window("at", "10 minutes")).agg(f.sum("n").alias("total"))
        finish(publish(sums, log, checkpoint=checkpoint, trigger=ONCE))

    run(*range(25))
    died_before_its_last_commit(checkpoint)
    run(*range(25, 50))
    run(200)
    found = {int((row["window"]["start"] - START).total_seconds()) // 600: row["total"] for row in logged(log)}
    assert len(found) == len(logged(log))
    assert found == {window: sum(range(window * 10, window * 10 + 10, 2)) for window in range(5)}


def test_update_mode_runs_a_known_batch_whole_and_keeps_its_state(spark: Any, tmp_path: Path) -> None:
    """Counts come with each batch that changed them; a batch that runs again saves its state and adds no rows."""
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    for file in range(3):
        put(files, file, range(file * 6, file * 6 + 6))
        counts = stream(spark, files).groupBy("user").count()
        finish(publish(counts, log, checkpoint=checkpoint, mode="update", key="user", partitions=3, trigger=ONCE))
        if file == 1:
            died_before_its_last_commit(checkpoint)
    seen = defaultdict(list)
    for row in logged(log):
        seen[row["user"]].append(row["count"])
    assert dict(seen) == {user: [2, 4, 6] for user in ("ada", "bob", "cyd")}
    source = MicroBatchSource(log, reader="test", values="tuple", columns=["user"])
    homes = {user: name for name in source.partitions() for (user,) in source.open(name, 0).fetch(99).values}
    assert len(homes) == 3


def test_every_type_comes_out_and_goes_in(spark: Any, tmp_path: Path) -> None:
    """What Python sees of each of Spark's types, with the session in Rome; read back, Spark sees what it had."""
    files, log = tmp_path / "in", tmp_path / "log"
    put(files, 0, [0])
    columns = {
        "small": "cast(-7 as tinyint)",
        "money": "cast('12.340000000000000001' as decimal(38, 18))",
        "at": "timestamp '2026-07-01 14:00:00.123456'",
        "wall": "timestamp_ntz '2026-07-01 14:00:00'",
        "day": "date '2026-07-01'",
        "raw": "cast('ab' as binary)",
        "deep": "array(named_struct('at', timestamp '2026-07-01 02:00:00', 'tags', map('a', 1, 'b', null)), null)",
        "nothing": "cast(null as string)",
        "span": "interval '1 02:03:04.5' day to second",
    }
    frame = stream(spark, files).selectExpr(*(f"{text} as {name}" for name, text in columns.items()))
    finish(publish(frame, log, checkpoint=tmp_path / "checkpoint", trigger=ONCE))
    (row,) = logged(log)
    noon = datetime.fromisoformat("2026-07-01T12:00:00.123456+00:00")
    assert row == {
        "small": -7,
        "money": Decimal("12.340000000000000001"),
        "at": noon,
        "wall": datetime(2026, 7, 1, 14),
        "day": date(2026, 7, 1),
        "raw": b"ab",
        "deep": [{"at": START, "tags": {"a": 1, "b": None}}, None],
        "nothing": None,
        "span": row["span"],
    }
    assert row["span"].total_seconds() == 93784.5
    assert row["at"].tzinfo is not None
    assert row["wall"].tzinfo is None
    register(spark)
    back = spark.read.format("reliable_rx").option("path", str(log)).option("positions", "false").load()
    assert back.collect() == spark.range(1).selectExpr(*(f"{text} as {n}" for n, text in columns.items())).collect()


def test_a_new_checkpoint_over_an_old_log_is_refused_before_it_begins(spark: Any, tmp_path: Path) -> None:
    """And an old checkpoint over a new log; each would lose or double rows. Other columns and keys are refused too."""
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    put(files, 0, range(3))
    finish(publish(stream(spark, files), log, checkpoint=checkpoint, trigger=ONCE))
    frame = stream(spark, files)
    with pytest.raises(LogRefused, match="the checkpoint is new: all rows would come again"):
        publish(frame, log, checkpoint=tmp_path / "new")
    with pytest.raises(LogRefused, match="belongs to another log"):
        publish(frame, tmp_path / "other", checkpoint=checkpoint)
    with pytest.raises(LogRefused, match=r"user \(string\) is missing|user is missing instead of string"):
        publish(frame.drop("user"), log, checkpoint=checkpoint)
    with pytest.raises(LogRefused, match=r"partitions=1, not 2"):
        publish(frame, log, checkpoint=checkpoint, key="user", partitions=2)
    with pytest.raises(ValueError, match="no column 'item'"):
        publish(frame, log, checkpoint=checkpoint, key="item", partitions=2)
    with pytest.raises(ValueError, match="choose append or update"):
        publish(frame, log, checkpoint=checkpoint, mode="complete")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not streaming"):
        publish(spark.range(3), log, checkpoint=checkpoint)


def test_any_thread_may_publish_and_read(spark: Any, tmp_path: Path) -> None:
    """In one that has started no session, and with a session that is another than the thread's."""
    files, log = tmp_path / "in", tmp_path / "log"
    put(files, 0, range(3))

    def in_a_thread() -> None:
        assert start_session({}) is spark
        finish(publish(stream(spark, files), log, checkpoint=tmp_path / "checkpoint", trigger=ONCE))
        for session in (spark.newSession(), spark):
            register(session)
            assert "n" in session.read.format("reliable_rx").option("path", str(log)).load().columns

    with ThreadPoolExecutor(1) as thread:
        thread.submit(in_a_thread).result(WAIT_S)
    assert len(logged(log)) == 3


def test_two_things_done_with_one_batch(spark: Any, tmp_path: Path) -> None:
    """batch_writer inside one's own foreachBatch writes what publish would."""
    files, log, seen = tmp_path / "in", tmp_path / "log", []
    for file in range(2):
        put(files, file, range(file * 3, file * 3 + 3))
    write = batch_writer(log)

    def both(df: Any, batch: int) -> None:
        write(df, batch)
        seen.append((batch, df.count()))

    writer = stream(spark, files).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(**ONCE).foreachBatch(both).start())
    assert seen == [(0, 3), (1, 3)]
    assert [row["n"] for row in logged(log)] == list(range(6))


def test_without_publish_the_data_source_checks_as_well(spark: Any, tmp_path: Path) -> None:
    """writeStream.format("reliable_rx") with a checkpoint that has been used for something else, and a wrong option."""
    files, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put(files, 0, range(3))
    register(spark)
    writer = stream(spark, files).writeStream.option("checkpointLocation", str(checkpoint)).trigger(**ONCE)
    finish(writer.format("noop").start())
    put(files, 1, range(3, 6))
    writer = writer.format("reliable_rx").option("path", str(tmp_path / "log"))
    with pytest.raises(Exception, match="was used without the log"):
        finish(writer.start())
    with pytest.raises(Exception, match="option onChange is 'ignore'"):
        finish(writer.option("onChange", "ignore").start())
