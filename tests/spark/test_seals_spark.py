"""A real stream of Spark's whose state is sealed with a key from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_on_spark import BEGIN, run, stream, sums, trades, write

from checkpoint import SqliteStore
from reliable_rx.errors import CheckpointRefused
from spark_bridge import configure, run_on_spark
from spark_bridge.on_spark.moving import from_spark, to_spark

KEY = "5e" * 32


def query_failure() -> type[Exception]:
    """Return what Spark raises; this module is collected also where there is no PySpark."""
    from pyspark.errors import StreamingQueryException

    return StreamingQueryException  # type: ignore[no-any-return]


def test_state_is_sealed_with_a_key_from_outside(spark: Any, tmp_path: Path) -> None:
    """The workers find the key where its place says, it lies in nothing that Spark writes, and without it, or with
    another one, the state is refused by workers and by the driver."""
    configure(spark)
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "other").write_text("77" * 32)
    place, given = f"file:{tmp_path / 'key'}", {"key": "symbol", "seq": "n", "emits": "double"}
    write(tmp_path / "in", trades(0, 20), "0")
    run(run_on_spark(sums(), stream(spark, tmp_path / "in"), seal_key=place, **given), tmp_path)
    for file in (each for each in (tmp_path / "checkpoint").rglob("*") if each.is_file()):
        data = file.read_bytes()
        assert KEY.encode() not in data and bytes.fromhex(KEY) not in data, file
    write(tmp_path / "in", trades(20, 30), "1")
    for wrong in (None, f"file:{tmp_path / 'other'}"):
        with pytest.raises(query_failure(), match="key"):
            run(run_on_spark(sums(), stream(spark, tmp_path / "in"), seal_key=wrong, **given), tmp_path)
        with SqliteStore(tmp_path / "refused") as store, pytest.raises(CheckpointRefused, match="key"):
            from_spark(spark, str(tmp_path / "checkpoint"), store, "sums", sums(), positions=BEGIN, seal_key=wrong)
    run(run_on_spark(sums(), stream(spark, tmp_path / "in"), seal_key=place, **given), tmp_path)
    with SqliteStore(tmp_path / "store") as store:
        joined = from_spark(spark, str(tmp_path / "checkpoint"), store, "sums", sums(), positions=BEGIN, seal_key=place)
    assert joined.next_id and joined.next_id > 0 and not joined.ended


def test_state_on_its_way_to_spark_is_sealed(spark: Any, tmp_path: Path) -> None:
    """So are the rows of `to_spark`: they go through Spark's shuffle, and whatever caches them."""
    from test_on_spark import in_evaluator

    configure(spark)
    (tmp_path / "key").write_text(KEY)
    place, given = f"file:{tmp_path / 'key'}", {"key": "symbol", "seq": "n", "emits": "double"}
    in_evaluator(tmp_path / "before", {"sums": sums()}, trades(0, 30))
    write(tmp_path / "in", trades(30, 40), "0")
    with SqliteStore(tmp_path / "before") as store:
        initial = to_spark(spark, store, "sums", sums(), key="symbol string", seal_key=place)
    frame = stream(spark, tmp_path / "in")
    with pytest.raises(query_failure(), match="key"):
        run(run_on_spark(sums(), frame, initial=initial, **given), tmp_path / "refused")
    run(run_on_spark(sums(), frame, initial=initial, seal_key=place, **given), tmp_path / "taken")
