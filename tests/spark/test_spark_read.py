"""Into a real Spark: a log or a source as a stream and as a table, with what is run again read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_world import died_before_its_last_commit, finish, logged

from hosting import ListSource
from spark_bridge import MicroBatchSource, publish, register
from spark_bridge.micro_batch_log import append

ONCE = {"availableNow": True}
FAILED = "a task has failed here already"


def rows(*numbers: int) -> Any:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def reading(spark: Any, log: Path, **options: Any) -> Any:
    register(spark)
    return spark.readStream.format("reliable_rx").option("path", str(log)).options(**options).load()


def test_a_log_is_read_on_and_forgotten_behind(spark: Any, tmp_path: Path) -> None:
    """Batches of bounded size, a restart that runs one again, more rows: all once; what is finished is forgotten."""
    log, out, checkpoint = tmp_path / "log", tmp_path / "out", tmp_path / "checkpoint"
    for batch in range(5):
        append(log, [rows(*range(batch * 10, batch * 10 + 10))], batch=batch)

    def run() -> None:
        frame = reading(spark, log, maxRowsPerBatch=20, rowsPerTask=8)
        finish(publish(frame, out, checkpoint=checkpoint, trigger=ONCE))

    run()
    died_before_its_last_commit(checkpoint)
    append(log, [rows(50, 51)], batch=5)
    run()
    found = sorted((row["_position"], row["n"]) for row in logged(out))
    assert found == [(n, n) for n in range(52)]
    assert MicroBatchSource(out, reader="test").view.numbers() == range(4)
    first, end = MicroBatchSource(log).bounds("0")
    assert (first > 0, end) == (True, 52)


def test_a_table_between_two_positions(spark: Any, tmp_path: Path) -> None:
    """Read in parallel, each id once, with the columns asked for; errors name their option."""
    log = tmp_path / "log"
    for batch in range(3):
        append(log, [rows(*range(batch * 10, batch * 10 + 10))], batch=batch)
    register(spark)
    read = spark.read.format("reliable_rx").option("path", str(log))
    table = read.option("start", "5").option("end", '{"0": 25}').option("rowsPerTask", "7").load()
    assert table.columns == ["n", "_partition", "_position"]
    assert table.rdd.getNumPartitions() == 3
    assert sorted(tuple(row) for row in table.collect()) == [(n, "0", n) for n in range(5, 25)]
    for option, value, said in [("start", "99", "option start is 99"), ("ends", "9", "no option 'ends'")]:
        with pytest.raises(Exception, match=said):
            spark.read.format("reliable_rx").option("path", str(log)).option(option, value).load().collect()
    with pytest.raises(Exception, match="no micro-batch log"):
        spark.read.format("reliable_rx").option("path", str(tmp_path / "none")).load()


class Flaky(ListSource):
    """A source whose second partition breaks off in the middle, the first time."""

    def __init__(self, folder: Path) -> None:
        super().__init__({"a": [(n, "a") for n in range(9)], "b": [(n, "b") for n in range(9)]})
        self.folder = folder

    def open(self, partition: str, at: int, /) -> Any:
        reader = super().open(partition, at)
        mark, fetch = self.folder / FAILED, reader.fetch

        def broken(count_max: int, /) -> Any:
            batch = fetch(2)
            if partition == "b" and at == 4 and batch.first > 4 and not mark.exists():
                mark.touch()
                raise OSError("a cable was pulled")
            return batch

        reader.fetch = broken  # type: ignore[method-assign]
        return reader


def test_a_task_that_fails_is_run_again_without_duplicates(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any bounded source can be read; a range that broke off is read anew and counted once."""
    module = tmp_path / "flaky_for_spark.py"
    where = Path(__file__).parent
    module.write_text(
        f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(where)!r})\n"
        f"from test_spark_read import Flaky\n\n\ndef made():\n    return Flaky(Path({str(tmp_path)!r}))\n"
    )
    spark.sparkContext.addPyFile(str(module))
    register(spark)
    read = spark.read.format("reliable_rx").option("source", "flaky_for_spark:made").option("rowsPerTask", "4")
    with pytest.raises(Exception, match="option source: say with schema"):
        read.load()
    table = read.schema("n long, s string, _partition string, _position long").load()
    found = sorted(tuple(row) for row in table.collect())
    assert (tmp_path / FAILED).exists()
    assert found == sorted((n, name, name, n) for name in "ab" for n in range(9))


def test_dead_letters_of_a_source_are_rows_of_another_read(spark: Any, tmp_path: Path) -> None:
    """What the source cannot read is no row of its events, and a row of the read that asks for it."""
    (tmp_path / "r.jsonl").write_text("\n".join("{broken" if n % 3 == 0 else f'{{"n": {n}}}' for n in range(10)))
    module = tmp_path / "dead_for_spark.py"
    module.write_text(
        "from hosting import FileSource\n\n\ndef made():\n"
        f"    return FileSource({str(tmp_path / 'r.jsonl')!r}, on_bad_record='dead_letter')\n"
    )
    spark.sparkContext.addPyFile(str(module))
    register(spark)
    source = {"source": "dead_for_spark:made", "rowsPerTask": "4"}
    rows = spark.read.format("reliable_rx").options(**source).schema("n long, _partition string, _position long").load()
    assert sorted(row["_position"] for row in rows.collect()) == [1, 2, 4, 5, 7, 8]
    letters = spark.read.format("reliable_rx").options(**source, deadLetters="true").load()
    assert letters.columns == ["value", "error", "_partition", "_position"]
    found = sorted((row["_position"], row["value"]) for row in letters.collect())
    assert found == [(n, "{broken") for n in (0, 3, 6, 9)]
