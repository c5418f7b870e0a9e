"""The file protocol of micro-batch logs: what comes again, what does not belong, what is forgotten, what is damaged."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_log_world import OTHER, QUERY, Spark, compete, contested, keyed, table

from reliable_rx.errors import CheckpointRefused, NondeterminismDetected, PositionUnavailable, StoreUnavailable
from reliable_rx.testing.faults import arm, raise_
from spark_bridge import MicroBatchSource
from spark_bridge.micro_batch_log import LogFull, LogRefused, append, end, names, readers, release
from spark_bridge.micro_batch_log.disk import log_directory, log_disk, new_log_disk
from spark_bridge.micro_batch_log.parts import CHUNK_ROWS_MAX, write_part
from spark_bridge.micro_batch_log.retention import Held, acknowledge, register, retain
from spark_bridge.micro_batch_log.view import LogView
from spark_bridge.micro_batch_log.writer import SWEEP_EVERY, LogWriter

MANY = tuple(range(6000))  # too many for the manifest


def test_batches_have_consecutive_ids_in_the_order_of_their_tasks(tmp_path: Path) -> None:
    """Whatever batch ids Spark skips, rows follow each other; few rows lie in the manifest, many in a file."""
    spark = Spark(tmp_path)
    spark.run(0, table(0, 1), table(2))
    spark.run(1, table(*MANY), table())
    done = spark.run(5, table(7))
    assert done.manifest is not None
    assert (done.manifest.number, done.manifest.before["rows"]) == (2, (6003,))
    assert spark.numbers() == [0, 1, 2, *MANY, 7]
    assert (len(spark.files()), len(spark.files("manifest-"))) == (1, 3)


def test_a_batch_without_rows_leaves_nothing(tmp_path: Path) -> None:
    """Spark runs empty batches whenever event time moves; they cost no file."""
    spark = Spark(tmp_path)
    spark.run(0, table(1))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert spark.run(1, table(), table()).manifest is None
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_batch_that_comes_again_is_recognised(tmp_path: Path) -> None:
    """The second copy is discarded, byte for byte the same or cut and ordered otherwise."""
    spark = Spark(tmp_path)
    spark.run(0, table(0))
    spark.run(1, table(*MANY), table(1, 2))
    files = spark.files()
    for tasks in ([table(*MANY), table(1, 2)], [table(2, *reversed(MANY), 1)], [table(1), table(2), table(*MANY)]):
        done = spark.run(1, *tasks)
        assert (done.again, done.difference) == (True, None)
        assert spark.files() == files
    assert spark.numbers() == [0, *MANY, 1, 2]
    spark.run(2, table(9))
    assert spark.run(0, table(0)).again
    assert spark.numbers() == [0, *MANY, 1, 2, 9]


def test_a_batch_that_comes_again_with_other_rows_is_refused_with_both_digests(tmp_path: Path) -> None:
    """The rows that came first stay, the others are removed, and the error says how much differs."""
    spark = Spark(tmp_path)
    first = spark.run(0, table(*MANY))
    with pytest.raises(
        NondeterminismDetected, match=r"came again with other rows.*1 rows are gone, 2 are new"
    ) as caught:
        spark.run(0, table(*MANY[:-1], -1, -2))
    assert caught.value.first != caught.value.now
    assert first.manifest is not None
    assert spark.files() == first.manifest.files
    assert spark.numbers() == [*MANY]


def test_other_rows_may_be_dropped_by_choice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With on_change="keep" the query goes on with what came first, and a warning has both digests."""
    spark = Spark(tmp_path, on_change="keep")
    spark.run(0, table(1, 2))
    with caplog.at_level(logging.WARNING):
        difference = spark.run(0, table(1, 3)).difference
    assert difference is not None
    assert difference.first_digest in caplog.text
    assert difference.digest in caplog.text
    spark.run(1, table(4))
    assert spark.numbers() == [1, 2, 4]


def test_a_log_is_one_querys(tmp_path: Path) -> None:
    """Another query, such as one with a new checkpoint, is refused before it begins; it may take over."""
    Spark(tmp_path).run(7, table(1))
    with pytest.raises(LogRefused, match=f"belongs to query {'a' * 32}, not to {OTHER}.*takeover"):
        Spark(tmp_path, query=OTHER).run(0, table(2))
    successor = Spark(tmp_path, query=OTHER, takeover=True)
    successor.run(0, table(2))
    assert successor.run(0, table(2)).again
    assert successor.numbers() == [1, 2]
    with pytest.raises(LogRefused):
        Spark(tmp_path).run(8, table(3))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("n", pa.string())]), "n is string instead of int64"),
        (pa.schema([("n", pa.int64()), ("m", pa.int64())]), r"m \(int64\) is new"),
        (pa.schema([("m", pa.int64())]), "n is missing instead of int64"),
    ],
)
def test_a_log_keeps_its_columns(tmp_path: Path, schema: pa.Schema, said: str) -> None:
    """Rows with other columns are refused, and the sentence names these."""
    spark = Spark(tmp_path)
    spark.identity()
    with pytest.raises(LogRefused, match=said):
        spark.identity(schema)


def test_settings_of_the_session_are_no_other_columns(tmp_path: Path) -> None:
    """The session's zone, large strings and nullability say nothing about the rows."""
    spark = Spark(tmp_path)
    rome = pa.schema([pa.field("t", pa.timestamp("us", "Europe/Rome")), pa.field("s", pa.large_string(), False)])
    oslo = pa.schema([pa.field("t", pa.timestamp("us", "Europe/Oslo"), False), pa.field("s", pa.string())])
    assert spark.identity(rome) == spark.identity(oslo)
    with pytest.raises(LogRefused, match=r"t is timestamp\[us\] instead of timestamp\[us, tz=UTC\]"):
        spark.identity(pa.schema([pa.field("t", pa.timestamp("us")), pa.field("s", pa.string())]))


def test_partitions_and_key_are_fixed(tmp_path: Path) -> None:
    """What shares rows out cannot change: a key would be in two partitions."""
    Spark(tmp_path, partitions=4, key=["user"]).identity()
    with pytest.raises(LogRefused, match=r"was made with partitions=4, not 8"):
        Spark(tmp_path, partitions=8, key=["user"]).identity()
    with pytest.raises(LogRefused, match=r"key=\['user'\], not \['item'\]"):
        Spark(tmp_path, partitions=4, key=["item"]).identity()
    with pytest.raises(ValueError, match="several partitions need a key"):
        Spark(tmp_path / "new", partitions=4).identity()


def test_partitions_have_ids_of_their_own(tmp_path: Path) -> None:
    """Rows of a task are shared out by the column that says where; each partition keeps their order."""
    spark = Spark(tmp_path, partitions=3, key=["n"])
    spark.run(0, keyed((2, 20), (0, 1), (2, 21)), keyed((0, 2)))
    spark.run(1, keyed((2, 22), (0, 3)))
    assert [spark.numbers(partition) for partition in range(3)] == [[1, 2, 3], [], [20, 21, 22]]
    assert spark.view().bounds(2, "rows") == (0, 3)
    with pytest.raises(LogRefused, match="_log_partition"):
        spark.run(2, table(1))


def test_chunks_are_bounded(tmp_path: Path) -> None:
    """However large Spark's Arrow batches are, what a reader takes at once is not."""
    spark = Spark(tmp_path)
    done = spark.run(0, table(*range(CHUNK_ROWS_MAX * 2 + 5)))
    assert done.manifest is not None
    assert [rows for _, rows in done.manifest.parts[0].chunks] == [CHUNK_ROWS_MAX, CHUNK_ROWS_MAX, 5]


def test_of_two_drivers_one_is_told(tmp_path: Path) -> None:
    """A driver that was thought dead and writes the next manifest after its successor has done so is refused."""
    spark, disk = Spark(tmp_path), new_log_disk(tmp_path)
    spark.run(0, table(0))
    slow = spark.wrote(1, table(1))
    link = disk.link

    def overtaken(old: str, new: str) -> None:
        spark.run(1, table(1))
        link(old, new)

    disk.link = overtaken  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="another driver"):
        LogWriter(disk, where="the log").commit(spark.query, 1, slow)
    assert spark.numbers() == [0, 1]


@pytest.mark.slow
def test_processes_that_write_at_the_same_time_never_overwrite_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three processes write other rows under the same batch ids into a file: URL; each batch is whole and one's own."""
    monkeypatch.setattr(names, "SPANS", (4, 16))
    batches, writers = 24, 3
    spark = Spark(f"file://{tmp_path}")
    spark.identity()
    context = multiprocessing.get_context("spawn")
    together, told = context.Barrier(writers, timeout=60), context.Queue()
    arguments = [(spark.directory, who, batches, together, told) for who in range(writers)]
    processes = [context.Process(target=compete, args=each, daemon=True) for each in arguments]
    for process in processes:
        process.start()
    owner = {batch: who for who, mine in (told.get(timeout=60) for _ in processes) for batch in mine}
    assert sorted(owner) == list(range(batches))
    assert len(set(owner.values())) > 1
    expected = [n for batch in range(batches) for n in contested(batch, owner[batch]).column(0).to_pylist()]
    assert spark.numbers() == expected
    for process in processes:
        process.join(60)


def test_a_task_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    """Rows that end in an error: what was written of them is closed and gone, though the process lives on."""

    def broken() -> Iterator[Any]:
        yield table(*range(CHUNK_ROWS_MAX))
        assert len(spark.files()) == 1
        raise OSError("a cable was pulled")

    spark = Spark(tmp_path)
    with pytest.raises(OSError, match="a cable was pulled"):
        write_part(new_log_disk(tmp_path), spark.identity(), broken(), query=QUERY, batch=0, task=0)
    assert not spark.files()
    assert not [path for path in open_files() if path.startswith(str(tmp_path))]


def open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found


def test_files_of_attempts_that_lost_are_swept(tmp_path: Path) -> None:
    """A task that ran twice has two files; the manifest names one, the other goes. So do those of a died batch."""
    spark = Spark(tmp_path)
    spark.wrote(0, table(*MANY))
    spark.run(0, table(*MANY))
    assert len(spark.files()) == 1
    spark.wrote(1, table(*MANY))
    assert len(spark.files()) == 2
    spark.run(1, table(*MANY))
    assert len(spark.files()) == 2


def test_a_task_that_dies_behind_its_last_byte_is_swept(tmp_path: Path) -> None:
    """Its file is whole and synced, and nobody was told of it; the task runs again under another name."""
    spark = Spark(tmp_path)
    with arm("spark.part_written", raise_(OSError("the executor is gone"))), pytest.raises(OSError, match="executor"):
        spark.wrote(0, table(*MANY))
    assert len(spark.files()) == 1
    spark.run(0, table(*MANY))
    assert len(spark.files()) == 1
    assert spark.numbers() == [*MANY]


def test_a_reader_that_dies_while_it_forgets_leaves_a_log_that_can_be_read(tmp_path: Path) -> None:
    """The manifest is gone and its rows are not: the log begins behind it, and what is left is swept later."""
    spark, disk = Spark(tmp_path), new_log_disk(tmp_path)
    for batch in range(2):
        spark.run(batch, table(*MANY))
    register(disk, "app", 0, len(MANY), "rows", where="the log")
    with arm("spark.forgetting", raise_(OSError("killed"))), pytest.raises(OSError, match="killed"):
        retain(spark.view())
    assert spark.view().bounds(0, "rows") == (len(MANY), 2 * len(MANY))
    assert len(spark.files()) == 2
    for batch in range(2, SWEEP_EVERY + 1):
        spark.run(batch, table(0))
    assert len(spark.files()) == 1


def test_executors_that_write_elsewhere_are_found_out(tmp_path: Path) -> None:
    """A file that the driver cannot see is no batch."""
    spark = Spark(tmp_path)
    parts = spark.wrote(0, table(*MANY))
    (tmp_path / spark.files()[0]).unlink()
    with pytest.raises(StoreUnavailable, match="do all executors see the same directory"):
        spark.commit(0, parts)
    assert spark.view().newest() is None


def test_damage_is_found(tmp_path: Path) -> None:
    """A byte that changed on the disk is an error, in the rows and in the manifest."""
    spark = Spark(tmp_path)
    spark.run(0, table(*MANY))
    flip(tmp_path / spark.files()[0])
    with pytest.raises(CheckpointRefused, match="rows of batch 0, task 0 are damaged"):
        spark.numbers()
    flip(tmp_path / spark.files("manifest-")[0])
    with pytest.raises(CheckpointRefused, match="manifest is damaged"):
        spark.numbers()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_whole_batches_are_forgotten_when_all_readers_have_them(tmp_path: Path) -> None:
    """The slowest reader decides, the newest batch stays, ids go on, and a released reader no longer counts."""
    spark, disk = Spark(tmp_path), new_log_disk(tmp_path)
    for batch in range(4):
        spark.run(batch, table(*range(batch * 10, batch * 10 + 3)))
    assert retain(spark.view()) == 0
    for reader in ("fast", "slow"):
        register(disk, reader, 0, 0, "rows", where="the log")
    acknowledge(disk, "fast", 0, Held("rows", 12))
    acknowledge(disk, "slow", 0, Held("rows", 5))
    assert retain(spark.view()) == 1
    assert spark.view().bounds(0, "rows") == (3, 12)
    assert readers(tmp_path) == ["fast", "slow"]
    release(tmp_path, "slow")
    assert retain(spark.view()) == 2
    assert spark.numbers() == [30, 31, 32]
    with pytest.raises(PositionUnavailable, match="id 8 is wanted, and what was before 9 has been forgotten"):
        spark.view().locate(0, "rows", 8)
    spark.run(4, table(40))
    assert spark.view().bounds(0, "rows") == (9, 13)


def test_a_log_lies_in_a_directory_or_where_fsspec_says(tmp_path: Path) -> None:
    """A file URI is a directory; a URL that fsspec does not know is refused by name."""
    assert log_directory(tmp_path.as_uri()) == tmp_path
    with pytest.raises(ValueError, match="path is 'swallow://bucket/log', which fsspec cannot open"):
        log_disk("swallow://bucket/log")


def test_readers_that_are_behind_hold_the_query_up(tmp_path: Path) -> None:
    """With more kept than bytes_max the next batch waits until they have read, and then is there once."""
    spark = Spark(tmp_path, bytes_max=100)
    disk = new_log_disk(tmp_path)
    register(disk, "app", 0, 0, "rows", where="the log")
    for batch in range(2):
        spark.run(batch, table(batch))
    waiting = threading.Thread(target=spark.run, args=(2, table(2)))
    waiting.start()
    assert spark.numbers() == [0, 1]
    acknowledge(disk, "app", 0, Held("rows", 1))
    retain(spark.view())
    waiting.join(60)
    assert spark.numbers() == [1, 2]


def test_a_log_that_is_full_says_what_to_do(tmp_path: Path) -> None:
    """Where it is not to be waited, or nobody reads who could be waited for; no file of the batch is left behind."""
    spark, patient = Spark(tmp_path, bytes_max=100, on_full="refuse"), Spark(tmp_path, bytes_max=100)
    for batch in range(2):
        spark.run(batch, table(batch))
    with pytest.raises(LogFull, match="more than bytes_max=100, which nobody has read"):
        patient.run(2, table(*MANY))
    register(new_log_disk(tmp_path), "app", 0, 0, "rows", where="the log")
    with pytest.raises(LogFull, match=r"its readers app have read; let them read, spark_bridge.release\(\)") as caught:
        spark.run(2, table(*MANY))
    assert caught.value.bytes > caught.value.bytes_max == 100
    assert not spark.files()
    release(tmp_path, "app")
    register(new_log_disk(tmp_path), "app", 0, 2, "rows", where="the log")
    retain(spark.view())
    spark.run(2, table(*MANY))
    assert spark.numbers() == [1, *MANY]


def test_a_log_begins_behind_its_last_hole(tmp_path: Path) -> None:
    """What a driver that was thought dead has left before the oldest kept batch is no part of the log."""
    spark = Spark(tmp_path)
    for batch in range(4):
        spark.run(batch, table(batch))
    (tmp_path / spark.files("manifest-")[1]).unlink()
    assert spark.view().bounds(0, "rows") == (2, 4)
    assert spark.numbers() == [2, 3]


def test_an_ended_log_knows_its_batches_and_takes_no_new_ones(tmp_path: Path) -> None:
    """Readers come to the end; the last batch may come again, other rows are refused, and to end it twice is once."""
    with pytest.raises(LogRefused, match="has no rows"):
        end(tmp_path)
    rows = pa.record_batch({"n": [1, 2]})
    append(tmp_path, [rows], batch=0)
    end(tmp_path)
    end(tmp_path)
    append(tmp_path, [rows], batch=0)
    with pytest.raises(LogRefused, match="has ended, and batch 1 has rows"):
        append(tmp_path, [rows], batch=1)
    reader = MicroBatchSource(tmp_path).open("0", 0)
    taken = reader.fetch(9)
    assert taken.ended and [row["n"] for row in taken.values] == [1, 2]
    assert len(list(tmp_path.glob("manifest-*"))) == 2


def test_the_latest_of_an_empty_log_is_its_first_row(tmp_path: Path) -> None:
    """Nothing lies in a log that nobody has written to: whoever begins at its end gets the first row that comes."""
    view = LogView(new_log_disk(tmp_path), where="the log")
    assert view.bounds(0, "rows") == (0, 0)


@pytest.mark.parametrize("name", ["manifest-000000000009", "manifests-0-000000000009", "manifests-7-000000000003"])
def test_a_file_that_is_listed_and_not_there_makes_no_loop(tmp_path: Path, name: str) -> None:
    """A name like that of a manifest, which leads nowhere, is passed over or refused."""
    spark = Spark(tmp_path)
    spark.run(0, table(1, 2))
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with contextlib.suppress(CheckpointRefused):
        assert Spark(tmp_path).numbers() == [1, 2]
