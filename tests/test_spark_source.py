"""A micro-batch log as a source: conformance, acknowledging, being woken, and evaluators that are killed over it."""

from __future__ import annotations

import errno
import itertools
import logging
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_log_world import Spark, keyed, table

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import PositionUnavailable, SourceFailed, StoreUnavailable
from reliable_rx.reliable import Bounded, Listed, Waking
from reliable_rx.testing import check_source
from spark_bridge import MicroBatchSource
from spark_bridge.micro_batch_log import LogRefused, append, end
from spark_bridge.micro_batch_log.cursor import Cursor
from spark_bridge.micro_batch_log.disk import RealLogDisk
from spark_bridge.micro_batch_log.names import BELLS

WAIT_S = 60.0


def a_log(directory: Path) -> Spark:
    """Return a log of five batches, large and small, one of two tasks, the first forgotten by nobody."""
    spark = Spark(directory)
    spark.run(0, table(*range(20)), table(20))
    spark.run(1, table(21))
    spark.run(3, table(22, 23), table(*range(24, 40)))
    return spark


@pytest.mark.parametrize("settings", [{"values": "tuple", "columns": ["n"]}, {"values": "arrow"}])
def test_it_keeps_the_promises_of_a_source(tmp_path: Path, settings: dict[str, Any]) -> None:
    """While another reader holds everything, what check_source asks holds at every position."""
    a_log(tmp_path)
    MicroBatchSource(tmp_path, reader="keeper").open("0", 0).close()
    check_source(lambda: MicroBatchSource(tmp_path, **settings), finite=False, positions_max=12)
    source = MicroBatchSource(tmp_path)
    assert isinstance(source, Listed)
    assert isinstance(source, Bounded)
    assert isinstance(source.open("0", 0), Waking)


def test_partitions_keep_the_promises_of_a_source(tmp_path: Path) -> None:
    """The same with a key and three partitions, one of them empty."""
    spark = Spark(tmp_path, partitions=3, key=["n"])
    spark.run(0, keyed((2, 20), (0, 1), (2, 21)), keyed((0, 2)))
    spark.run(1, keyed((2, 22), (0, 3)))
    MicroBatchSource(tmp_path, reader="keeper").open("0", 0).close()
    for partition in ("1", "2"):
        MicroBatchSource(tmp_path, reader="keeper").open(partition, 0).close()
    check_source(lambda: MicroBatchSource(tmp_path), finite=False, positions_max=3)


def test_what_everyone_has_acknowledged_is_forgotten(tmp_path: Path) -> None:
    """Whole batches go, also with what they had in files; a position before is refused, one behind is not there yet."""
    a_log(tmp_path)
    source, other = MicroBatchSource(tmp_path), MicroBatchSource(tmp_path, reader="other", values="arrow")
    reader, slow = source.open("0", 0), other.open("0", 0)
    assert [each["n"] for each in reader.fetch(100).values] == list(range(40))
    reader.acknowledge(30)
    assert source.bounds("0") == (0, 40)
    assert [each.num_rows for each in slow.fetch(2).values] == [20, 1]
    slow.acknowledge(1)
    assert source.bounds("0") == (21, 40)
    assert other.bounds("0") == (2, 5)
    slow.acknowledge(2)
    assert source.bounds("0") == (22, 40)
    with pytest.raises(PositionUnavailable, match="id 21 is wanted, and what was before 22 has been forgotten"):
        source.open("0", 21)
    with pytest.raises(PositionUnavailable, match="it ends at 40"):
        source.open("0", 41)


def test_what_is_forgotten_under_a_reader_is_an_error_and_no_gap(tmp_path: Path) -> None:
    """A reader that was released and reads on is told, and never goes on behind what it has lost."""
    a_log(tmp_path)
    lost, rest = MicroBatchSource(tmp_path, reader="lost"), MicroBatchSource(tmp_path)
    reader, other = lost.open("0", 0), rest.open("0", 0)
    assert len(reader.fetch(3).values) == 3
    lost.release()
    other.fetch(100)
    other.acknowledge(39)
    with pytest.raises(PositionUnavailable):
        for _ in range(3):
            reader.fetch(100)


def test_a_readers_positions_count_one_thing(tmp_path: Path) -> None:
    """Rows and record batches are numbered differently; a name stands for one of them."""
    a_log(tmp_path)
    with (
        closing(MicroBatchSource(tmp_path).open("0", 5)),
        pytest.raises(LogRefused, match="counts rows; to count chunks"),
    ):
        MicroBatchSource(tmp_path, values="arrow").open("0", 0)


def test_a_log_that_is_not_there_yet_has_no_partitions(tmp_path: Path) -> None:
    """Who comes first, the evaluator or Spark, does not matter: partitions appear."""
    source = MicroBatchSource(tmp_path / "log")
    assert source.partitions() == source.listing() == []
    with pytest.raises(SourceFailed, match=r"no log in .* yet"):
        source.open("0", 0)
    append(tmp_path / "log", [table(1)], batch=0)
    assert source.partitions() == ["0"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"values": "list"}, "values must be one of dict, .*, got 'list'"),
        ({"timestamps": "seconds"}, "timestamps must be one of datetime, .*, got 'seconds'"),
        ({"reader": "a/b"}, "reader is 'a/b'"),
    ],
)
def test_settings_are_checked_at_once(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    """Each error names its setting."""
    with pytest.raises(ValueError, match=said):
        MicroBatchSource(tmp_path, **settings)


def test_columns_and_partitions_that_are_not_there_are_named(tmp_path: Path) -> None:
    """The error lists what there is."""
    a_log(tmp_path)
    with pytest.raises(SourceFailed, match=r"has columns \['n'\], not \['m'\]"):
        MicroBatchSource(tmp_path, columns=["m"]).open("0", 0)
    with pytest.raises(SourceFailed, match="has partitions 0 to 0, not '1'"):
        MicroBatchSource(tmp_path).bounds("1")


@pytest.mark.parametrize("bells", [True, False])
def test_a_batch_wakes_a_reader(tmp_path: Path, bells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch wakes whoever waits, through a pipe at once, or where there can be none at the next look."""
    append(tmp_path, [table(1)], batch=0)
    if bells:
        monkeypatch.setattr("spark_bridge.micro_batch_log.notify.LOOK_S", 10 * WAIT_S)
    else:
        (tmp_path / BELLS).write_text("not a directory: no pipe can be made here")
    reader = MicroBatchSource(tmp_path).open("0", 1)
    woken = threading.Event()
    reader.on_available(woken.set)
    assert not reader.fetch(10).values
    append(tmp_path, [table(7)], batch=1)
    assert woken.wait(WAIT_S)
    assert [each["n"] for each in reader.fetch(10).values] == [7]
    reader.close()
    if bells:
        assert not list((tmp_path / BELLS).iterdir())
    assert not [each for each in threading.enumerate() if str(tmp_path) in each.name]


def test_evaluators_that_die_lose_and_double_nothing(tmp_path: Path) -> None:
    """Six lifetimes over one log, each dropped after a turn with or without a checkpoint; batches come in between.

    What a committed checkpoint covers is forgotten, and nothing else.
    """
    log, store = tmp_path / "log", MemoryStore()
    spark, numbers = Spark(log), iter(range(10_000))
    query = rx.source("rows").pipe(ops.map(lambda row: row["n"]), ops.scan(lambda total, n: total + n, 0))
    seen: list[int] = []
    for lifetime in range(6):
        spark.run(lifetime, table(*(next(numbers) for _ in range(10))), table(next(numbers)))
        with QueryEvaluator(store, batch_events_max=4) as evaluator:
            evaluator.source("rows", MicroBatchSource(log))
            if not lifetime:
                evaluator.create("totals", query)
            evaluator.start()
            for _ in range(3 + lifetime):
                evaluator.step()
            if lifetime % 2:
                evaluator.flush()
                evaluator.checkpoint()
            if lifetime == 5:
                while evaluator.step():
                    pass
                evaluator.flush()
                stream = evaluator.stream("totals")
                seen = [value for part in stream.read(0, 10_000) for value in part.values]
    total = 66
    assert seen == [sum(range(n + 1)) for n in range(total)]
    assert MicroBatchSource(log, reader="other").bounds("0")[0] > 0


def test_values_are_the_same_when_they_come_again(tmp_path: Path) -> None:
    """A copy of the directory, read from the middle, gives what the first reading gave."""
    spark = a_log(tmp_path / "log")
    whole = [each["n"] for each in MicroBatchSource(spark.directory).open("0", 0).fetch(100).values]
    shutil.copytree(spark.directory, tmp_path / "copy")
    again = [each["n"] for each in MicroBatchSource(tmp_path / "copy").open("0", 13).fetch(100).values]
    assert again == whole[13:]


def test_what_cannot_be_read_comes_again_and_skips_nothing(tmp_path: Path) -> None:
    """Rows before a timestamp that no datetime holds are given, then the error, each time, with its position."""
    for batch, at in enumerate((0, 2**62, 1)):
        append(tmp_path, [pa.record_batch({"at": pa.array([at], pa.timestamp("us"))})], batch=batch)
    reader = MicroBatchSource(tmp_path).open("0", 0)
    assert len(reader.fetch(10).values) == 1
    for _ in range(2):
        with pytest.raises(SourceFailed, match=r"partition 0, ids from 1 on: column 'at'.*timestamps='microseconds'"):
            reader.fetch(10)
    whole = MicroBatchSource(tmp_path, reader="other", timestamps="microseconds").open("0", 0).fetch(10)
    assert [row["at"] for row in whole.values] == [0, 2**62, 1]


class Share(RealLogDisk):
    """A directory of another machine's, which is away for some reads behind the first few."""

    well, away = 0, 0

    def _look(self) -> None:
        cls = type(self)
        if cls.well:
            cls.well -= 1
        elif cls.away:
            cls.away -= 1
            raise OSError(errno.ESTALE, "Stale file handle")

    def read(self, name: str) -> bytes:
        self._look()
        return super().read(name)

    def view(self, name: str) -> Any:
        self._look()
        return super().view(name)

    def size(self, name: str) -> int | None:
        self._look()
        return super().size(name)


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> type[Share]:
    monkeypatch.setattr("spark_bridge.source.log_disk", Share)
    monkeypatch.setattr(Share, "well", 0)
    monkeypatch.setattr(Share, "away", 0)
    return Share


def test_a_share_that_is_away_for_a_moment_ends_nothing(
    tmp_path: Path, share: type[Share], caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever look fails, and two more, as an evaluator opens, replays or goes on: each row comes once and in order.

    Who opens is told, as nothing runs yet; then the query waits, and says so once.
    """
    log, store, batch = tmp_path / "log", MemoryStore(), 6000
    spark, refused, waited = Spark(log), 0, 0
    taken: Any = {"batch_events_max": 4096, "checkpoint_events": 3 * batch}
    for life in range(500):
        share.away = 0
        spark.run(life, table(*range(life * batch, (life + 1) * batch)))
        with closing(QueryEvaluator(store, background=False, **taken)) as evaluator:
            evaluator.source("rows", MicroBatchSource(log))
            if life == refused:
                evaluator.create("numbers", rx.source("rows").pipe(ops.map(lambda row: row["n"])))
            share.well, share.away = life, 3
            caplog.clear()
            try:
                evaluator.start()
            except StoreUnavailable as error:
                assert "Stale file handle" in str(error)
                refused += 1
                continue
            numbers, end = evaluator.stream("numbers"), (life + 1) * batch
            evaluator.run(until=lambda numbers=numbers, end=end: numbers.visible == end)
            found = [value for part in numbers.read(end - batch, end) for value in part.values]
            assert found == [*range(end - batch, end)]
            said = [each.levelno for each in caplog.records if each.module == "source"]  # who cannot forget says so too
            assert said in ([], [logging.WARNING])
            waited += len(said)
            if share.away == 3:  # no life looks as often as that
                break
    assert share.away == 3 and refused and waited


def test_a_share_that_stays_away_is_told_of(tmp_path: Path, share: type[Share]) -> None:
    """Behind its patience a fetch raises, each time, until the share is there again; how far it is nobody can say."""
    a_log(tmp_path)
    source = MicroBatchSource(tmp_path, patience_s=0)
    reader = source.open("0", 0)
    share.away = 3
    assert MicroBatchSource(tmp_path).end_of("0") is None
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="Stale file handle; nothing is lost"):
            reader.fetch(100)
    assert len(reader.fetch(100).values) == 40
    assert source.end_of("0") == 40


def test_arrow_batches_are_pyarrows(tmp_path: Path) -> None:
    """With values="arrow" an event is a record batch, cut to the columns that are wanted."""
    append(tmp_path, [pa.record_batch({"a": [1, 2], "b": ["x", "y"]})], batch=0)
    (only,) = MicroBatchSource(tmp_path, values="arrow", columns=["b"]).open("0", 0).fetch(9).values
    assert only.equals(pa.record_batch({"b": ["x", "y"]}))


def test_what_is_older_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    """On event time a source without partitions holds the others back as a silent partition does."""
    log = tmp_path / "log"
    with QueryEvaluator(MemoryStore(), idle_s=1e9) as evaluator:
        evaluator.source("numbers", ListSource([2, 4], timestamp=float))
        evaluator.source("rows", MicroBatchSource(log, timestamp=lambda row: float(row["n"])))
        evaluator.create("all", rx.source("rows").map(lambda row: row["n"]).merge(rx.source("numbers")))
        for _ in range(20):
            evaluator.step()
        assert evaluator.events_in == 0
        append(log, [pa.record_batch({"n": [1, 3, 5]})], batch=0)
        end(log)
        evaluator.intake.list_soon()
        evaluator.run()
        found = [value for part in evaluator.stream("all").read(0, 10) for value in part.values]
    assert found == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "raised", [StoreUnavailable("no disk"), SourceFailed("damaged"), ValueError("no rows")], ids=repr
)
def test_an_error_behind_some_rows_of_a_log_that_has_ended(
    tmp_path: Path, raised: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows before it are given without an end, which comes behind the last row."""
    a_log(tmp_path)
    end(tmp_path)
    peek, failures = Cursor.peek, [2, 3]
    calls = itertools.count(1)

    def peeks(cursor: Cursor) -> Any:
        if next(calls) in failures:
            raise raised
        return peek(cursor)

    monkeypatch.setattr(Cursor, "peek", peeks)
    found = list[Any]()
    with closing(MicroBatchSource(tmp_path).open("0", 0)) as reader:
        while True:
            try:
                batch = reader.fetch(100)
            except type(raised):
                continue
            assert batch.first == len(found)
            found += [each["n"] for each in batch.values]
            if batch.ended:
                break
    assert found == [*range(40)]
