"""A stream into a micro-batch log: conformance, the end, another writer, and an evaluator that is restarted."""

from __future__ import annotations

import contextlib
import shutil
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from lanes import at_each_commit, every, left_to_commits
from spark_log_world import FailingDisk

import reliable_rx as rx
import spark_bridge.sink
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import PositionUnavailable, StoreUnavailable, ValueRefused
from reliable_rx.testing import check_sink
from reliable_rx.testing.hostile import ERRORS, FUNCTIONS, Hostile
from spark_bridge import LogFull, LogRefused, MicroBatchSink, MicroBatchSource
from spark_bridge.micro_batch_log import names
from spark_bridge.micro_batch_log.parts import CHUNK_ROWS_MAX

SCHEMA = pa.schema([("n", pa.int64())])


class Number(NamedTuple):
    """A value with a name."""

    n: int


def read_back(log: Path, *, values: str = "tuple") -> list[tuple[int, Any]]:
    reader = MicroBatchSource(log, reader="test", values=values).open("0", 0)  # type: ignore[arg-type]
    return list(enumerate(reader.fetch(100_000).values))


def test_it_keeps_the_promises_of_a_sink(tmp_path: Path) -> None:
    """Restarts at every id, ids that come again, a gap, the end with an id of its own."""
    values = [(n,) for n in range(3)]
    check_sink(lambda: MicroBatchSink(tmp_path, SCHEMA), lambda: read_back(tmp_path), values=values)


@pytest.mark.parametrize("hostile", every(3, [each for each in ERRORS if each.name != "long"], commits=1), ids=repr)
def test_any_error_may_be_the_end(tmp_path: Path, hostile: Hostile) -> None:
    """Whatever it says of itself, the log has an end behind the last row, and the sink knows it."""
    error = hostile.make()
    sink = MicroBatchSink(tmp_path, SCHEMA)
    sink.open("numbers")
    sink.write(0, [Number(1)])
    sink.end(1, error)
    batch = MicroBatchSource(tmp_path).open("0", 0).fetch(10)
    assert batch.ended and batch.error is not None
    assert MicroBatchSink(tmp_path, SCHEMA).open("numbers") == 2


@pytest.mark.parametrize("error", [None, ValueError("no more")])
def test_the_end_comes_out_as_it_went_in(tmp_path: Path, error: Exception | None) -> None:
    """Completed or failed; a reader that begins behind the last row is told as well."""
    sink = MicroBatchSink(tmp_path, SCHEMA)
    sink.open("numbers")
    sink.write(0, [Number(1), Number(2)])
    sink.end(2, error)
    for at in (0, 1, 2):
        batch = MicroBatchSource(tmp_path).open("0", at).fetch(10)
        assert (len(batch.values), batch.ended) == (2 - at, True)
        assert (batch.error is None) == (error is None)
        assert error is None or "no more" in str(batch.error)


def test_much_between_two_flushes_is_bounded(tmp_path: Path) -> None:
    """What waits is written before it is more than a chunk."""
    sink = MicroBatchSink(tmp_path, SCHEMA)
    sink.open("numbers")
    sink.write(0, [(n,) for n in range(CHUNK_ROWS_MAX * 2 + 5)])
    assert MicroBatchSource(tmp_path).bounds("0") == (0, CHUNK_ROWS_MAX * 2)
    sink.flush()
    assert read_back(tmp_path) == [(n, (n,)) for n in range(CHUNK_ROWS_MAX * 2 + 5)]


def test_a_reader_that_is_behind_holds_the_stream_up(tmp_path: Path) -> None:
    """What does not fit is refused, stays in hand, and is there once when the reader has come nearer."""
    sink = MicroBatchSink(tmp_path, SCHEMA, bytes_max=100)
    sink.open("numbers")
    reader = None
    for n in range(2):
        sink.write(n, [(n,)])
        sink.flush()
        reader = reader or MicroBatchSource(tmp_path).open("0", 0)
    sink.write(2, [(2,)])
    for _ in range(2):
        with pytest.raises(LogFull, match="its readers evaluator have read"):
            sink.flush()
    assert reader is not None
    reader.fetch(1)
    reader.acknowledge(0)
    sink.flush()
    assert MicroBatchSource(tmp_path, values="tuple").open("0", 1).fetch(9).values == [(1,), (2,)]


@left_to_commits
@pytest.mark.parametrize("rows", [1, at_each_commit(6000), at_each_commit(0)], ids=["few", "many", "the-end"])
def test_a_disk_that_fails_once_holds_the_stream_up_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Whatever fails in a flush, also behind the manifest and where some are put together, the next one goes on."""
    monkeypatch.setattr(names, "SPANS", (4, 16))
    fill(tmp_path / "seven", 7)
    monkeypatch.setattr(spark_bridge.sink, "new_log_disk", FailingDisk)
    for left in count(1):
        shutil.copytree(tmp_path / "seven", log := tmp_path / str(left))
        sink = MicroBatchSink(log, SCHEMA)
        sink.open("numbers")
        sink.write(7, [(n,) for n in range(7, 7 + rows)])
        disk: Any = sink._disk
        disk.left = left
        with contextlib.suppress(StoreUnavailable):
            sink.flush() if rows else sink.end(7, None)
        left_over, disk.left = disk.left, 0
        if rows:
            sink.write(7 + rows, [(7 + rows,)])
        sink.end(7 + rows + bool(rows), None)
        assert read_back(log) == [(n, (n,)) for n in range(7 + rows + bool(rows))], left
        if left_over > 0:
            break
    assert left > 20


def fill(log: Path, flushes: int) -> None:
    sink = MicroBatchSink(log, SCHEMA)
    sink.open("numbers")
    for n in range(flushes):
        sink.write(n, [(n,)])
        sink.flush()


def test_a_former_writer_is_told(tmp_path: Path) -> None:
    """One that was stopped, and goes on when its successor has written, writes nothing."""
    former, successor = MicroBatchSink(tmp_path, SCHEMA), MicroBatchSink(tmp_path, SCHEMA)
    former.open("numbers")
    former.write(0, [(0,), (1,)])
    successor.open("numbers")
    successor.write(0, [(0,)])
    successor.flush()
    with pytest.raises(StoreUnavailable, match="ends at 1, not at 0: another writer"):
        former.flush()
    assert read_back(tmp_path) == [(0, (0,))]


def test_what_does_not_belong_is_refused(tmp_path: Path) -> None:
    """Another stream, other columns, a value without them."""
    sink = MicroBatchSink(tmp_path, SCHEMA)
    sink.open("numbers")
    sink.write(0, [{"n": 0}])
    sink.flush()
    with pytest.raises(LogRefused, match="has the rows of another stream"):
        MicroBatchSink(tmp_path, SCHEMA).open("others")
    with pytest.raises(LogRefused, match="n is string instead of int64"):
        MicroBatchSink(tmp_path, pa.schema([("n", pa.string())])).open("numbers")
    with pytest.raises(ValueRefused, match=r"do not have the columns \['n'\]") as caught:
        sink.write(1, [{"n": 1}, {"m": 0}])
    assert caught.value.n == 2
    sink.write(1, [{"n": 1}])
    sink.flush()
    assert read_back(tmp_path) == [(0, (0,)), (1, (1,))]


def test_a_value_without_the_columns_is_written_with_encode(tmp_path: Path) -> None:
    """As the error says; rows that were there stay, and the others come behind them."""
    store, log = MemoryStore(), tmp_path / "log"
    for encode in (None, lambda value: {"n": -1} if value == 2 else value):
        store = store.reopen()
        with QueryEvaluator(store) as evaluator:
            evaluator.source("numbers", ListSource(range(4)))
            evaluator.create("odd", rx.source("numbers").pipe(ops.map(lambda n: n if n == 2 else Number(n))))
            evaluator.sink("odd", MicroBatchSink(log, SCHEMA, encode=encode))
            evaluator.run()
            said = [each.message for each in evaluator.statistics().incidents]
            assert said == [] if encode else "give the sink encode=" in said[0]
    assert read_back(log) == [(0, (0,)), (1, (1,)), (2, (-1,)), (3, (3,))]


@pytest.mark.parametrize("function", every(3, FUNCTIONS, commits=1), ids=str)
def test_whatever_encode_does_is_the_trouble_of_its_sink(tmp_path: Path, function: Hostile) -> None:
    """It fails by name, with what came before in the log, or writes what fits; the sink beside it has all."""
    try:
        sink = MicroBatchSink(tmp_path / "log", SCHEMA, encode=function.make())
    except TypeError as refused:
        assert function.name == "generates" and " is called with (one)" in str(refused)
        return
    beside: dict[int, Any] = {}
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("numbers", ListSource(range(10)))
        evaluator.create("same", rx.source("numbers").pipe(ops.map(int)))
        evaluator.sink("same", CallbackSink(beside.__setitem__))
        evaluator.sink("same", sink)
        evaluator.run()
        told = [each for each in evaluator.statistics().incidents if each.kind.startswith("sink")]
        assert all(each.subject.startswith("same") for each in told)
    assert beside == {n: n for n in range(10)}
    assert len(read_back(tmp_path / "log")) == 10 or told


def test_evaluators_hand_a_stream_on_through_a_log(tmp_path: Path) -> None:
    """One writes, is dropped without notice again and again, and writes on; another reads to the end."""
    store, log = MemoryStore(), tmp_path / "log"
    for lifetime in count():
        with QueryEvaluator(store, batch_events_max=5) as evaluator:
            evaluator.source("numbers", ListSource(range(60)))
            if not lifetime:
                evaluator.create("doubled", rx.source("numbers").pipe(ops.map(lambda n: Number(2 * n))))
            evaluator.sink("doubled", MicroBatchSink(log, SCHEMA))
            evaluator.start()
            if lifetime == 5:
                evaluator.run()
                break
            evaluator.step()
            evaluator.flush()
            if lifetime % 2:
                evaluator.checkpoint()
    with QueryEvaluator(MemoryStore()) as reader:
        reader.source("doubled", MicroBatchSource(log))
        reader.create("halves", rx.source("doubled").pipe(ops.map(lambda row: row["n"] // 2)))
        reader.run()
        assert [value for part in reader.stream("halves").read(0, 100) for value in part.values] == list(range(60))


def three(value: int) -> Number:
    if value == 3:
        raise ValueError("three")
    return Number(value)


@pytest.mark.parametrize("how", ["restart", "created anew", "killed"])
def test_a_query_that_is_run_again_goes_on_in_another_log(how: str, tmp_path: Path) -> None:
    """Its log has ended for good: the sink says so, and what it says helps, once and for each start that follows."""
    numbers, store = [1, 2, 3], MemoryStore()

    def opened(log: str, first: int = 0) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(numbers, follow=True))
        evaluator.create("q", rx.source("n").map(three))
        evaluator.sink("q", MicroBatchSink(tmp_path / log, SCHEMA, first=first))
        evaluator.start()
        settle(evaluator)
        return evaluator

    def settle(evaluator: QueryEvaluator) -> None:
        while evaluator.step():
            pass
        evaluator.checkpoint()
        while evaluator.step():
            pass

    evaluator = opened("one")
    evaluator.restart("q")
    if how == "created anew":
        evaluator.dispose("q")
        evaluator.create("q", rx.source("n").map(three))
    numbers += [4, 5]
    settle(evaluator)
    (sink,) = [each.message for each in evaluator.statistics().incidents if each.kind == "sink"]
    first = 4 if how == "created anew" else 3
    ways = "goes into a log of its own: give the sink another, empty directory, and first=3"
    assert ways in sink and sink.endswith("do that, and start again")
    assert read_back(tmp_path / "one") == [(0, (1,)), (1, (2,))]
    for more in (6, 7):
        evaluator.abandon() if how == "killed" else evaluator.__exit__(None, None, None)
        store = store.reopen()
        numbers.append(more)
        evaluator = opened("two", first)
    assert not [each for each in evaluator.statistics().incidents if each.kind == "sink"]
    assert read_back(tmp_path / "two") == list(enumerate([(4,), (5,), (6,), (7,)]))
    evaluator.close()
    with pytest.raises(PositionUnavailable, match="another first="):
        MicroBatchSink(tmp_path / "two", SCHEMA).open("q")
