"""Start Spark once for a small stream and end it: what its JVM is told to leave behind makes the next starts quicker.

Run by `make test-spark` with ``-XX:ArchiveClassesAtExit`` in SPARK_SUBMIT_OPTS. Its tests start Spark some twenty
times, and reading its classes is most of what a start costs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from spark_world import finish, put, start_spark, stream

import reliable_rx as rx
from spark_bridge import configure, publish, run_on_spark


def main(folder: Path) -> None:
    """Publish the rows of a file, and what a standing query says of them on Spark; return when the JVM has ended."""
    spark, once = start_spark(), {"availableNow": True}
    jvm = spark.sparkContext._gateway.proc
    configure(spark)
    put(folder / "in", 0, range(9))
    finish(publish(stream(spark, folder / "in"), folder / "rows", checkpoint=folder / "c", trigger=once, order_by="n"))
    counts = rx.source("rows").group_by(lambda row: row["user"]).flat_map(lambda user: user.count())
    said = run_on_spark(counts, stream(spark, folder / "in"), key="user", seq="n", emits="long", time="at")
    finish(publish(said, folder / "said", checkpoint=folder / "d", trigger=once))
    spark.stop()
    jvm.stdin.close()
    jvm.wait()  # it writes its classes when it ends, which takes longer than to start it


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
