"""What Spark is told by options and offsets, without Spark: ranges, admission, checkpoints, sources as feeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import crossed
from spark_log_world import Spark, table

import reliable_rx as rx
from hosting import ListSource
from reliable_rx.errors import CheckpointRefused, SourceFailed
from reliable_rx.reliable import Batch
from reliable_rx.testing.hostile import RECORDS
from spark_bridge.checkpoints import KEYED_MARK, MARK, check_checkpoint, check_keyed
from spark_bridge.feeds import (
    LogFeed,
    Range,
    SourceFeed,
    admitted,
    check_not_set_back,
    check_offsets,
    feed_of,
    ranges,
    record_batch,
    resolved,
    same_columns,
)
from spark_bridge.keyed import KeyedQuery
from spark_bridge.micro_batch_log import LogRefused
from spark_bridge.micro_batch_log.noted import NOTE, Noted
from spark_bridge.options import read_options, write_options

HERE = __name__
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option path is missing"),
        ({"path": "/x", "partitions": "0"}, "option partitions is '0'"),
        ({"path": "/x", "onChange": "ignore"}, "option onChange is 'ignore'; choose one of refuse, keep"),
        ({"path": "/x", "takeover": "maybe"}, "option takeover is 'maybe'"),
        ({"path": "/x", "onFull": "wait"}, "option onFull is 'wait'; choose one of pause, refuse"),
        ({"path": "/x", "bytesMax": "64 GiB"}, "option bytesMax is '64 GiB'"),
        ({"path": "/x", "onchanged": "keep"}, "no option 'onchanged'"),
    ],
)
def test_options_of_writing_are_checked(options: dict[str, str], said: str) -> None:
    """Each error names its option."""
    with pytest.raises(ValueError, match=said):
        write_options(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option path .* or option source"),
        ({"path": "/x", "source": "a:b"}, "one of the two"),
        ({"path": "/x", "start": "soon"}, "option start is 'soon'"),
        ({"path": "/x", "start": '{"0": -1}'}, "option start"),
        ({"path": "/x", "end": "9"}, "no option 'end'"),
        ({"path": "/x", "rowsPerTask": "many"}, "option rowsPerTask is 'many'"),
        ({"path": "/x", "reader": "a b"}, "reader is 'a b'"),
        ({"path": "/x", "positions": "1"}, "option positions is '1'"),
    ],
)
def test_options_of_reading_are_checked(options: dict[str, str], said: str) -> None:
    """Each error names its option; what only a bounded read has is none of a stream's."""
    with pytest.raises(ValueError, match=said):
        read_options(options, streaming=True)


def test_a_log_that_was_set_back_is_refused(tmp_path: Path) -> None:
    """A checkpoint that has read further than the log goes does not wait until other rows have come there."""
    Spark(tmp_path).run(0, table(*range(10)))
    feed = LogFeed(str(tmp_path), "spark")
    ends = {name: end for name, (_, end) in feed.bounds().items()}
    check_not_set_back(feed, {"0": 10}, ends)
    with pytest.raises(LogRefused, match=r"ends at 10, and this checkpoint has read 11 of it: it was set back"):
        check_not_set_back(feed, {"0": 11}, ends)


def test_options_have_no_case() -> None:
    """Spark passes options in any case, and its own beside them."""
    options = read_options({"PATH": "/x", "rowspertask": "7", "checkpointLocation": "/cp"}, streaming=True)
    assert (options.path, options.rows_per_task, options.start) == ("/x", 7, "earliest")


ENDS = st.dictionaries(st.sampled_from("0123"), st.integers(0, 50), min_size=1)


@given(ENDS, st.integers(1, 100), st.integers(1, 9))
def test_what_is_admitted_covers_everything_once(ends: dict[str, int], rows_max: int, per_task: int) -> None:
    """Batch by batch up to the end: each has rows, never too many, and all its ranges are all its ids."""
    at, seen = dict.fromkeys(ends, 0), []
    while at != ends:
        upto = admitted(at, ends, rows_max)
        count = sum(upto.values()) - sum(at.values())
        assert 0 < count <= rows_max
        pieces = ranges(at, upto, per_task)
        assert all(0 < piece.end - piece.start <= per_task for piece in pieces)
        seen += [(piece.partition, n) for piece in pieces for n in range(piece.start, piece.end)]
        at = upto
    assert sorted(seen) == sorted((partition, n) for partition, end in ends.items() for n in range(end))
    assert admitted(at, ends, rows_max) == ends


def test_positions_mean_ids_of_what_is_there() -> None:
    """Words, one id, an id for some partitions; what is not there is refused by the option's name."""
    bounds = {"0": (5, 9), "1": (0, 3)}
    assert resolved("earliest", bounds, option="start") == {"0": 5, "1": 0}
    assert resolved("latest", bounds, option="start") == {"0": 9, "1": 3}
    assert resolved({"0": 7}, bounds, option="start") == {"0": 7, "1": 0}
    assert resolved({"0": 7}, bounds, option="end") == {"0": 7, "1": 3}
    with pytest.raises(ValueError, match="option end is 12 for partition 0; it holds ids 5 to 9"):
        resolved({"0": 12}, bounds, option="end")
    with pytest.raises(ValueError, match="option start names partition '7'"):
        resolved({"7": 1}, bounds, option="start")


def test_a_checkpoint_belongs_to_one_log(tmp_path: Path) -> None:
    """One that has been used for something else is refused, before and after it has a query."""
    place = tmp_path / "checkpoint"
    assert check_checkpoint(str(place), "log a", where="the log a") is None
    (place / "metadata").write_text(json.dumps({"id": "q"}))
    assert check_checkpoint(place.as_uri(), "log a", where="the log a") == "q"
    with pytest.raises(LogRefused, match="belongs to another log than the log b"):
        check_checkpoint(str(place), "log b", where="the log b")
    (place / MARK).unlink()
    with pytest.raises(LogRefused, match="was used without the log a"):
        check_checkpoint(str(place), "log a", where="the log a")


DAMAGED = (*RECORDS, b"[]", b"{}", b"-7", b'{"id": 7, "log": [], "query": {}, "manner": [], "keeps": 1}')


@pytest.mark.parametrize(
    "name, data",
    crossed([MARK, KEYED_MARK, "metadata", NOTE], DAMAGED),
    ids=lambda given: given if isinstance(given, str) else repr(given[:12]),
)
def test_a_damaged_file_of_a_checkpoint_is_named(name: str, data: bytes, tmp_path: Path) -> None:
    """Whatever a file beside Spark's holds: it is refused by its path, with what to do; a lost note is none."""
    query = KeyedQuery(rx.source("t").group_by(len).flat_map(lambda group: group.count()))
    log, keyed = tmp_path / "log", tmp_path / "keyed"
    check_checkpoint(str(log), "a", where="the log a")
    check_keyed(str(keyed), query, {})
    for place in (log, keyed):
        (place / "metadata").write_text(json.dumps({"id": "q"}))
        (place / name).write_bytes(data)
    if name == NOTE:
        assert Noted(log).newest == -1
        return
    for place, check in (
        (log, lambda: check_checkpoint(str(log), "a", where="the log a")),
        (keyed, lambda: check_keyed(str(keyed), query, {})),
    ):
        if name == "metadata" or (name == MARK) == (place == log):
            with pytest.raises(CheckpointRefused) as refused:
                check()
            assert str(place / name) in str(refused.value) and "bring it back" in str(refused.value)


def test_offsets_belong_to_one_log(tmp_path: Path) -> None:
    """A stream that is pointed at another log is told, instead of reading from the middle of it."""
    for name in ("a", "b"):
        Spark(tmp_path / name).run(0, table(1, 2, 3))
    a, b = (LogFeed(str(tmp_path / name), "spark") for name in "ab")
    assert check_offsets(a, {"of": a.id, "next": {"0": 2}}) == {"0": 2}
    with pytest.raises(LogRefused, match="the log is another one"):
        check_offsets(b, {"of": a.id, "next": {"0": 2}})


def test_a_range_of_a_log_is_read_the_same_anywhere(tmp_path: Path) -> None:
    """Ranges over the edges of batches and tasks give just their ids, again and again."""
    spark = Spark(tmp_path)
    spark.run(0, table(0, 1, 2), table(3))
    spark.run(1, table(*range(4, 10)))
    schema = pa.schema([("n", pa.int64())])
    for ids in ranges({"0": 0}, {"0": 10}, 3) * 2:
        found = list(LogFeed(str(tmp_path), "spark").batches(ids, schema))
        assert [n for numbers, _ in found for n in numbers] == list(range(ids.start, ids.end))
        assert [n for _, rows in found for n in rows.column(0).to_pylist()] == list(range(ids.start, ids.end))
    with pytest.raises(SourceFailed, match=r"ids 9 to 12 were said to be there, and nothing comes at 10"):
        list(LogFeed(str(tmp_path), "spark").batches(Range("0", 9, 12), schema))


def test_what_spark_has_finished_is_forgotten(tmp_path: Path) -> None:
    """Offsets that come once more, or older ones, take nothing back."""
    spark = Spark(tmp_path)
    for batch in range(3):
        spark.run(batch, table(batch))
    feed = LogFeed(str(tmp_path), "spark")
    feed.hold({"0": 0})
    for at in (2, 1, 2):
        feed.acknowledge({"0": at})
        assert feed.bounds() == {"0": (2, 3)}


def test_columns_that_are_asked_for_must_be_there(tmp_path: Path) -> None:
    """By name and type; in any order, and not all of them."""
    same_columns(pa.schema([("s", pa.string())]), SCHEMA)
    with pytest.raises(LogRefused, match="column 'n' is string, in the log it is int64"):
        same_columns(pa.schema([("n", pa.string())]), SCHEMA)
    with pytest.raises(LogRefused, match="column 'm' is int64, in the log it is missing"):
        same_columns(pa.schema([("m", pa.int64())]), SCHEMA)


@dataclass
class Record:
    """An event of a query."""

    s: str
    n: int


class Holey(ListSource):
    """A source whose ids have gaps, as those of a compacted topic."""

    def open(self, partition: str, at: int, /) -> Any:
        reader = super().open(partition, at)
        fetch: Callable[[int], Batch] = reader.fetch

        def gappy(count_max: int, /) -> Batch:
            batch = fetch(min(2, count_max))
            if batch.values and batch.first % 2 == 0:
                return Batch(batch.first + 1, batch.values[1:], skipped=1)
            return batch

        reader.fetch = gappy  # type: ignore[method-assign]
        return reader


def records() -> ListSource:
    return ListSource({"a": [Record("x", 1), Record("y", 2)], "b": [Record("z", 3)]})


def holes() -> ListSource:
    return Holey([(n, str(n)) for n in range(6)])


def unbounded() -> object:
    return object()


def test_any_bounded_source_is_a_feed() -> None:
    """Every process makes it anew; records go by name and tuples by place."""
    feed = feed_of(read_options({"source": f"{HERE}:records"}, streaming=False))
    assert feed.bounds() == {"a": (0, 2), "b": (0, 1)}
    ((numbers, rows),) = feed.batches(Range("a", 0, 2), SCHEMA)
    assert (numbers, rows.to_pylist()) == (range(2), [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}])
    feed.acknowledge({"a": 2, "b": 0})


def test_ids_that_hold_nothing_are_passed_over() -> None:
    """A range over a gap gives the ids that are there."""
    found = list(SourceFeed(f"{HERE}:holes").batches(Range("0", 0, 6), SCHEMA))
    assert [n for numbers, _ in found for n in numbers] == [1, 3, 5]
    assert [row["n"] for _, rows in found for row in rows.to_pylist()] == [1, 3, 5]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("records", "it is 'module:function'"),
        (f"{HERE}:nothing", "cannot be had"),
        ("no.such.module:f", "cannot be had"),
        (f"{HERE}:unbounded", "needs a source that has bounds"),
    ],
)
def test_a_source_that_cannot_be_had_is_named(name: str, said: str) -> None:
    """The sentence begins with the option."""
    with pytest.raises(ValueError, match=f"option source is .*{said}"):
        SourceFeed(name)


@pytest.mark.parametrize("values", [[(1,)], [("x", 1)], [{"n": 1}], [7], [(1, "a"), {"n": 1, "s": "b"}]])
def test_events_that_have_other_columns_are_refused(values: list[Any]) -> None:
    """A missing column, a value of another type, an event without columns."""
    with pytest.raises(SourceFailed, match=r"do not have the columns \['n', 's'\]"):
        record_batch(values, SCHEMA)
