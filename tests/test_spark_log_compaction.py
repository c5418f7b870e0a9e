"""Old manifests put together: few files, the same rows, ids and batches, at whatever moment who dies or looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lanes import left_to_commits
from spark_log_world import (
    QUERY,
    WHERE,
    SimulatedLogDisk,
    Spark,
    State,
    commit,
    numbers_in,
    settled,
    seven_batches,
    table,
    ten,
)

from reliable_rx.errors import CheckpointRefused, NondeterminismDetected, PositionUnavailable
from reliable_rx.testing.faults import ProcessDied, arm, raise_
from spark_bridge import MicroBatchSource
from spark_bridge.micro_batch_log import names
from spark_bridge.micro_batch_log.disk import new_log_disk
from spark_bridge.micro_batch_log.manifest import following
from spark_bridge.micro_batch_log.names import homes, manifest_name, parts_of, span_name, span_numbers
from spark_bridge.micro_batch_log.retention import Held, acknowledge, register, retain
from spark_bridge.micro_batch_log.view import LogView

MANY = 6000  # rows that are too many for the manifest


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put together four manifests, and four of these."""
    monkeypatch.setattr(names, "SPANS", (4, 16))


def run(spark: Spark, first: int, stop: int, *, large: int = 0) -> None:
    """Run batches of one row, those of which the number can be divided by *large* of many."""
    for batch in range(first, stop):
        spark.run(batch, table(*rows(batch, large)), table(-batch))


def rows(batch: int, large: int = 0) -> list[int]:
    return [batch * MANY + n for n in range(MANY if large and batch % large == 0 else 1)]


def all_rows(stop: int, *, large: int = 0, first: int = 0) -> list[int]:
    return [n for batch in range(first, stop) for n in [*rows(batch, large), -batch]]


def spans(spark: Spark) -> list[str]:
    return spark.files("manifests-")


@left_to_commits
def test_a_reader_that_is_away_for_a_day_keeps_few_files(tmp_path: Path) -> None:
    """As many files as blocks, with real sizes: 64 at a time, the newest 64 alone; rows and ids are the same."""
    spark = Spark(tmp_path)
    run(spark, 0, 200)
    assert spans(spark) == [f"manifests-64-{first:012d}" for first in (0, 64)]
    assert len(spark.files("manifest-")) == 200 - 128
    assert spark.numbers() == all_rows(200)
    assert spark.view().bounds(0, "rows") == (0, 400)


@left_to_commits
def test_blocks_are_put_together_again(tmp_path: Path, small: None) -> None:
    """Blocks of blocks too; a reader that begins anywhere, or has an old batch open, goes on unharmed."""
    spark = Spark(tmp_path)
    run(spark, 0, 3)
    early = MicroBatchSource(tmp_path, reader="early", values="tuple").open("0", 0)
    assert early.fetch(1).values == [(0,)]
    run(spark, 3, 45)
    assert spans(spark) == [
        *(f"manifests-16-{first:012d}" for first in (0, 16)),
        *(f"manifests-4-{first:012d}" for first in (32, 36)),
    ]
    assert [value for (value,) in early.fetch(1000).values] == all_rows(45)[1:]
    for at in range(0, 90, 7):
        reader = MicroBatchSource(tmp_path, reader="other", values="tuple").open("0", at)
        assert [value for (value,) in reader.fetch(1000).values] == all_rows(45)[at:]


@pytest.mark.parametrize("spread", [0, 3])
def test_chunks_keep_their_ids(tmp_path: Path, small: None, spread: int) -> None:
    """What counts record batches counts the same ones."""
    spark = Spark(tmp_path)
    run(spark, 0, 7, large=spread)
    before = [each.to_pylist() for each in MicroBatchSource(tmp_path, values="arrow").open("0", 0).fetch(99).values]
    run(spark, 7, 30, large=spread)
    assert len(spans(spark)) > 1
    after = MicroBatchSource(tmp_path, values="arrow").open("0", 3).fetch(99).values
    assert [each.to_pylist() for each in after][: len(before) - 3] == before[3:]


def test_small_files_of_rows_are_taken_in(tmp_path: Path, small: None) -> None:
    """Also under a reader that has read the manifest and not yet the rows; a block that would grow too large stays."""
    spark = Spark(tmp_path)
    run(spark, 0, 3, large=1)
    reader = MicroBatchSource(tmp_path, values="tuple").open("0", 0)
    assert reader.fetch(1).values == [(0,)]
    run(spark, 3, 12, large=1)
    assert (len(spark.files()), len(spans(spark))) == (4, 2)
    assert [value for (value,) in reader.fetch(10**6).values] == all_rows(12, large=1)[1:]


def test_large_rows_stay_where_they_are(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into a block keeps its file, is found, and goes when it is forgotten."""
    monkeypatch.setattr("spark_bridge.micro_batch_log.compaction.SPAN_BYTES_MAX", 30_000)
    spark, disk = Spark(tmp_path), new_log_disk(tmp_path)
    run(spark, 0, 12, large=2)
    assert (len(spark.files()), len(spans(spark))) == (6, 2)
    assert spark.numbers() == all_rows(12, large=2)
    register(disk, "app", 0, spark.view().bounds(0, "rows")[1], "rows", where=WHERE)
    assert retain(spark.view()) == 11
    assert (len(spark.files()), len(spans(spark))) == (0, 0)


def test_a_batch_that_comes_again_is_known(tmp_path: Path, small: None) -> None:
    """However old it is: the same rows are dropped, others are refused."""
    spark = Spark(tmp_path)
    run(spark, 0, 25, large=3)
    before = spark.numbers()
    for batch in (0, 1, 9, 20):
        done = spark.run(batch, table(*rows(batch, 3)), table(-batch))
        assert (done.again, done.difference) == (True, None)
        with pytest.raises(NondeterminismDetected):
            spark.run(batch, table(*rows(batch, 3)), table(1))
    run(spark, 25, 33, large=3)
    assert spark.numbers() == before + all_rows(33, large=3, first=25)


def test_a_block_is_forgotten_whole(tmp_path: Path, small: None) -> None:
    """When every reader has all of it, and not before; ids and bounds go on."""
    spark, disk = Spark(tmp_path), new_log_disk(tmp_path)
    run(spark, 0, 25)
    register(disk, "app", 0, 0, "rows", where=WHERE)
    for position, first in ((31, 0), (32, 16), (39, 16), (40, 20), (45, 22), (50, 24)):
        acknowledge(disk, "app", 0, Held("rows", position))
        retain(spark.view())
        assert spark.view().bounds(0, "rows") == (2 * first, 50)
        assert spark.numbers() == all_rows(25, first=first)
    assert spans(spark) == []
    with pytest.raises(PositionUnavailable):
        MicroBatchSource(tmp_path, reader="other").open("0", 47)


def test_damage_is_found(tmp_path: Path, small: None) -> None:
    """In the index, in a manifest inside, and where the end is missing."""
    spark = Spark(tmp_path)
    run(spark, 0, 12)
    path = tmp_path / spans(spark)[0]
    whole = path.read_bytes()
    for damaged in (whole[:50] + b"7" + whole[51:], whole[:-40] + b"x" + whole[-39:], whole[:-1]):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointRefused):
            spark.numbers()
    path.write_bytes(whole)
    assert spark.numbers() == all_rows(12)


def test_what_is_forgotten_while_it_is_put_together_goes_with_its_block(tmp_path: Path, small: None) -> None:
    """Two of four batches are forgotten when their block is made: they are there again, whole, until all four go."""
    spark, disk = Spark(tmp_path), new_log_disk(tmp_path)
    run(spark, 0, 7, large=1)
    register(disk, "app", 0, 2 * (MANY + 1), "rows", where=WHERE)
    reader, listed = spark.view(), disk.names()
    reader.disk.names = lambda: listed  # type: ignore[method-assign]  # it has listed the files before

    def forget() -> None:
        assert retain(reader) == 2

    with arm("spark.after_span", forget):
        run(spark, 7, 8, large=1)
    assert spans(spark) == [span_name(range(4))]
    assert spark.numbers() == all_rows(8, large=1)
    acknowledge(disk, "app", 0, Held("rows", 8 * (MANY + 1)))
    retain(spark.view())
    assert spark.files("manifest") == ["manifest-000000000007"]
    assert len(spark.files()) == 1


def test_what_a_driver_that_died_left_is_cleared(tmp_path: Path, small: None) -> None:
    """Both the block and what it was made of are there: the log reads the same, and the next block clears up."""
    spark = Spark(tmp_path)
    run(spark, 0, 7, large=2)
    with arm("spark.after_span", raise_(ProcessDied())), pytest.raises(ProcessDied):
        run(spark, 7, 8)
    assert (len(spans(spark)), len(spark.files("manifest-"))) == (1, 8)
    assert spark.numbers() == all_rows(7, large=2) + all_rows(8, first=7)
    run(spark, 7, 12)
    assert len(spark.files("manifest-")) == 4
    run(spark, 12, 65)
    assert not spark.files()
    assert spark.numbers() == all_rows(7, large=2) + all_rows(65, first=7)


# -- power loss and kills, on the simulated disk


@pytest.fixture(scope="module")
def seven() -> State:
    return seven_batches()


def read(state: State) -> list[int]:
    return numbers_in(LogView(SimulatedLogDisk(state), where=WHERE))


def crashes(start: State, protocol: Any) -> list[State]:
    disk, found = SimulatedLogDisk(start), dict[tuple[Any, ...], State]()

    def note() -> None:
        found.update({tuple(sorted(state.items())): state for state in disk.crash_states()})

    disk.on_operation = note
    protocol(disk)
    note()
    return list(found.values())


def test_no_power_loss_takes_a_row(small: None, seven: State) -> None:
    """Whatever a power loss leaves while batch 7 is written and a block is made, each batch is there once, in order."""
    states = crashes(seven, lambda disk: commit(disk, 7))
    assert len(states) > 50
    assert {len(read(state)) for state in states} == {14, 14 + 2}
    assert all(read(state) in (ten(*range(7)), ten(*range(8))) for state in states)
    assert any(span_name(range(4)) in state and "manifest-000000000002" in state for state in states)


def test_who_goes_on_after_a_power_loss_clears_up(small: None, seven: State) -> None:
    """The batch runs again, others follow: rows once, and in the end no file that nothing names."""
    states = crashes(seven, lambda disk: commit(disk, 7))
    for state in states[:: max(1, len(states) // 60)]:
        disk = SimulatedLogDisk(state)
        for batch in range(7, 17):
            commit(disk, batch, attempt="2")
        final = settled(disk)
        assert read(final) == ten(*range(17))
        assert not [name for name in final if name.endswith(".new")]
        alone = {numbers.start for name in final if (numbers := span_numbers(name)) and len(numbers) == 1}
        inside = [numbers for name in final if (numbers := span_numbers(name)) and len(numbers) > 1]
        assert not [number for number in alone if any(number in numbers for numbers in inside)]


def test_no_power_loss_while_a_block_is_forgotten_shows_batches_without_rows(small: None, seven: State) -> None:
    """What can be seen can be read, up to the end, and ids stay."""
    disk = SimulatedLogDisk(seven)
    for batch in range(7, 9):
        commit(disk, batch)
    register(disk, "app", 0, 10, "rows", where=WHERE)
    states = crashes(settled(disk), lambda disk: retain(LogView(disk, where=WHERE)))
    for state in states:
        view = LogView(SimulatedLogDisk(state), where=WHERE)
        first, end = view.bounds(0, "rows")
        assert end == 18
        assert read(state) == ten(*range(first // 2, 9))
    assert min(len(read(state)) for state in states) == 8


# -- which file counts


def test_what_a_driver_that_slept_and_died_has_left_is_not_read(tmp_path: Path, small: None) -> None:
    """It wrote a batch under a number that was free again, and was killed before it looked: what has moved counts."""
    spark = Spark(tmp_path)
    run(spark, 0, 4)
    slept = following(spark.view().newest(), query=QUERY, batch=4, parts=spark.wrote(4, table(777)), partitions=1)
    run(spark, 4, 12)
    moved = spark.view().manifest(4)
    new_log_disk(tmp_path).create(manifest_name(4), slept.encoded())
    assert moved is not None and spark.view().manifest(4) == moved
    assert spark.numbers() == all_rows(12)
    run(spark, 12, 16)
    assert manifest_name(4) not in spark.files("manifest-")
    assert spark.numbers() == all_rows(16)


def test_a_manifest_moves_only_upwards() -> None:
    """The files it can be in are known from its number: alone, in a block, in a block of blocks."""
    assert [span_numbers(span_name(home)) for home in homes(5000)] == homes(5000)
    assert [parts_of(home) for home in homes(5000)[1:]] == [64, 64]
    assert all(5000 in home for home in homes(5000))
