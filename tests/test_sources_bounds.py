"""Sources that say what they list, how far they reach and where a time is: made up, in lists, in files, pushed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import crossed

from checkpoint import MemoryStore
from hosting import GeneratorSource, ListSource, QueryEvaluator
from hosting.edges.positions import position_of
from hosting.edges.start_positions import ENDLESS, resolve
from hosting.sources import Base, End, Error, FaultySource, FileSource, Merge, Split, Stall
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Listing
from reliable_rx.testing import check_source

SCRIPT = [
    Base(partition="old", count=30),
    Split(partition="p", at=20, into=("a", "b")),
    Split(partition="a", at=5, into=("c", "d")),
    Merge(ends={"b": 10, "c": 0}, into="m"),
]


def scripted(**options: Any) -> GeneratorSource:
    return GeneratorSource(
        lambda i, random: (i, random.random()), partitions=("p", "old"), count=40, script=SCRIPT, seed=9, **options
    )


def test_a_script_is_listed_and_read_byte_for_byte() -> None:
    """Splits, merges and base data keep every promise of a source, over and over and from every position."""
    check_source(scripted, positions_max=100)
    assert scripted().listing() == [
        Listing("p"), Listing("old", base=True), Listing("a", ("p",)), Listing("b", ("p",)), Listing("c", ("a",)),
        Listing("d", ("a",)), Listing("m", ("b", "c")),
    ]  # fmt: skip
    assert [scripted().bounds(name)[1] for name in scripted().partitions()] == [20, 30, 5, 10, 0, 40, 40]


def test_children_are_seen_when_the_script_says(tmp_path: Path) -> None:
    """From a time on, or once somebody has read their parents, in whichever process that was."""
    clock = [1000.0]
    timed = [Split(partition="0", at=2, into=("a",), seen=5.0), Split(partition="a", at=2, into=("b",))]

    def names(source: GeneratorSource) -> Sequence[str]:
        return source.partitions()

    source = GeneratorSource(lambda i, _: i, script=timed, begin=1000.0, clock=lambda: clock[0])
    assert names(source) == ("0",)
    clock[0] = 1005.0
    assert names(source) == ("0", "a", "b")
    read = [Split(partition="0", at=2, into=("a",), seen="after parents")]

    def another() -> GeneratorSource:
        return GeneratorSource(lambda i, _: i, script=read, facts=tmp_path / "facts", faults=[Stall(at=1)])

    reader = another().open("0", 0)
    while not (batch := reader.fetch(1)).ended and batch.first < 1:
        assert names(another()) == ("0",)
    reader.fetch(5)
    assert names(another()) == ("0", "a")
    with pytest.raises(ValueError, match="give a directory as facts"):
        GeneratorSource(lambda i, _: i, script=read)


def test_records_that_come_at_a_rate() -> None:
    """Record i is there i / rate seconds after the begin, for everybody who looks at that time."""
    now = [50.0]
    source = GeneratorSource(lambda i, _: i, count=10, rate_per_s=2.0, begin=50.0, clock=lambda: now[0])
    reader = source.open("0", 0)
    assert (reader.fetch(10).values, source.bounds("0")) == ([], (0, 0))
    now[0] = 51.6
    assert (reader.fetch(10).values, source.bounds("0")) == ([0, 1, 2], (0, 3))
    now[0] = 90.0
    batch = reader.fetch(20)
    assert (batch.values, batch.ended) == ([3, 4, 5, 6, 7, 8, 9], True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Split(partition="x", at=1, into=("a",)), "no partition 'x'"),
        (Split(partition="p", at=-1, into=("a",)), "from 0 on"),
        (Split(partition="p", at=1, into=("old",)), "'old' already"),
        (Merge(ends={"p": 1, "old": 41}, into="m"), "has 40 records, and the script ends it at 41"),
    ],
)
def test_a_script_that_contradicts_itself_is_refused(change: Any, words: str) -> None:
    """What could never happen is an error that names it."""
    with pytest.raises(ValueError, match=words):
        GeneratorSource(lambda i, _: i, partitions=("p", "old"), count=40, script=[change])
    with pytest.raises(ValueError, match="has ended at 1 already"):
        again = [Split(partition="0", at=1, into=("a",)), Split(partition="0", at=2, into=("b",))]
        GeneratorSource(lambda i, _: i, script=again)
    with pytest.raises(ValueError, match="no function is given"):
        GeneratorSource({"p": lambda i, _: i}, script=[Split(partition="p", at=1, into=("a",))])


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(-1, 21))
def test_what_is_found_is_the_first_from_the_time_on(times: list[int], time: int) -> None:
    """Also where events are not in the order of their times; the end if there is none."""
    expected = next((at for at, each in enumerate(times) if each >= time), len(times))
    assert ListSource(times, timestamp=float).find("0", time) == expected
    live = ListSource(times, timestamp=float, follow=True)
    assert live.find("0", time) == expected
    check_source(lambda: ListSource(times, timestamp=float), positions_max=2)


def test_faults_bound_what_there_is() -> None:
    """A partition that a fault ends reaches as far as that, also for those who look events up."""
    inner = ListSource(range(20), timestamp=float)
    check_source(lambda: FaultySource(inner, [Stall(at=3, fetches=2), End(at=12)]))
    source: Any = FaultySource(inner, [Error(at=7)])
    assert (source.bounds("0"), source.find("0", 15.0), source.find("0", 5.0)) == ((0, 7), 7, 5)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"key": "abc"[i * 7 % 3], "time": float(i), "text": 'with "quotes",\nand lines'} for i in range(count)]


@pytest.mark.parametrize(
    "options, format",
    crossed([{}, {"partition_by": "key"}, {"partition_by": "key", "sort_by": "time"}], ["csv", "jsonl", "parquet"]),
)
def test_files_know_how_far_they_reach(tmp_path: Path, format: str, options: dict[str, Any]) -> None:
    """Of each format, split or not, sorted or not: the number of records, unread and read; times are found."""
    path = tmp_path / f"events.{format}"
    write(path, rows(90))
    if "sort_by" in options:
        options = options | {"sort_by": lambda row: float(row["time"])}
    stamp = lambda row: float(row["time"])  # noqa: E731
    check_source(lambda: FileSource(path, timestamp=stamp, **options), positions_max=3)
    source = FileSource(path, timestamp=stamp, **options)
    with closing(source.open(source.partitions()[0], 0)) as reader:
        reader.fetch(20)
    ends = [source.bounds(name)[1] for name in source.partitions()]
    assert ends == ([90] if not options else [30, 30, 30])
    assert ends == [FileSource(path, **options).bounds(name)[1] for name in source.partitions()]
    with pytest.raises(SourceFailed, match="no partition"):
        source.bounds("none")
    with pytest.raises(PositionUnavailable, match="without `timestamp`"):
        FileSource(path, **options).find(source.partitions()[0], 1.0)


def write(path: Path, values: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(values), path, row_group_size=40)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(value) + "\n" for value in values))
    else:
        import csv

        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(values[0]))
            writer.writeheader()
            writer.writerows(values)


def test_a_file_that_grows_is_counted_again(tmp_path: Path) -> None:
    """With follow the end moves, and half a line is no record."""
    path = tmp_path / "log.jsonl"
    path.write_text("1\n2\n")
    source = FileSource(path, follow=True)
    assert source.bounds("log.jsonl") == (0, 2)
    with path.open("a") as file:
        file.write("3\n4")
    assert source.bounds("log.jsonl") == (0, 3)


def test_pushed_streams_know_how_far_they_reach() -> None:
    """From what was not forgotten to behind the last value; the end is no value."""
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    pushed = evaluator.push("s")
    assert pushed.bounds("0") == (0, 0)
    pushed.push([1, 2, 3])
    assert pushed.bounds("0") == (0, 3)
    pushed.on_completed()
    assert pushed.bounds("0") == (0, 3)


def test_starting_points_of_a_source() -> None:
    """Earliest, latest, a position, a time; for all partitions or each; what cannot be is said."""
    source = ListSource({"a": [1, 2, 3], "b": [5, 6]}, timestamp=float)
    assert [resolve(source, "a", start) for start in ("earliest", "latest", 2)] == [0, 3, 2]
    each = {"a": "latest", "b": datetime.fromtimestamp(6, UTC)}
    assert [resolve(source, name, each) for name in ("a", "b")] == [3, 1]  # type: ignore[arg-type]
    assert resolve(source, "b", {"a": 2}) == 0
    with pytest.raises(PositionUnavailable, match="positions 0 to 3, not 4"):
        resolve(source, "a", 4)
    endless = GeneratorSource(lambda i, _: i)
    assert endless.bounds("0") == (0, ENDLESS)
    with pytest.raises(PositionUnavailable, match="no end to begin at"):
        resolve(endless, "0", "latest")


class Planted(ListSource):
    """A source with a bug that the suite must find."""

    def __init__(self, bug: str) -> None:
        super().__init__({"a": [1.0, 2.0, 3.0], "b": [4.0]}, timestamp=lambda value: value)
        self.bug = bug

    def listing(self) -> Sequence[Listing]:
        listing = [Listing("a"), Listing("b", ("a",))]
        if self.bug == "ring":
            listing[0] = Listing("a", ("b",))
        return listing[:1] if self.bug == "missing" else listing

    def bounds(self, partition: str, /) -> tuple[int, int]:
        first, end = super().bounds(partition)
        return first, end + (self.bug == "end")

    def find(self, partition: str, time: float, /) -> int:
        return super().find(partition, time) + (self.bug == "after" and time == 2.0)


@pytest.mark.parametrize("bug", ["ring", "missing", "end", "after"])
def test_the_suite_finds_planted_bugs(bug: str) -> None:
    """`check_source` refuses a source with any of these bugs, and accepts it without."""
    check_source(lambda: Planted("none"))
    with pytest.raises(AssertionError, match="broken promise"):
        check_source(lambda: Planted(bug))


def test_a_source_that_cannot_tell_its_end_has_no_latest() -> None:
    """It is named, and asked for a position instead."""

    class Plain:
        partitions, open = ListSource.partitions, ListSource.open

    with pytest.raises(PositionUnavailable, match="cannot say where its partitions end"):
        position_of(Plain(), "0", "latest")  # type: ignore[arg-type]
    assert position_of(Plain(), "0", 7) == 7  # type: ignore[arg-type]
