"""Bulk load: every id once and in order, whatever is killed, and columns that hold what they say."""

from __future__ import annotations

import datetime
import json
import random
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset
import pytest
from export_process import COUNT, PARTITIONS, PER_FILE, make
from forked import Forked, script
from lanes import at_each_commit, every

from hosting import GeneratorSource, ListSource
from hosting.bulk import Exported, export
from hosting.bulk.columns import infer
from hosting.bulk.files import PartitionFiles
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, SourceFailed, StoreOwned
from reliable_rx.reliable import Batch
from reliable_rx.testing.faults import arm, disk_full, nth
from reliable_rx.testing.hostile import VALUES, Hostile

POINTS = ("export.after_chunk", "export.before_sync", "export.before_rename", "export.after_rename")
KILLED = -signal.SIGKILL


def loaded(directory: Path) -> Any:
    """Return everything as one table, read as a stranger would read it."""
    return pyarrow.dataset.dataset(directory, format="parquet").to_table()


def ids(directory: Path, partition: str) -> list[int]:
    """Return the ids of one partition in the order of the files and of the rows in them."""
    table = loaded(directory)
    pairs = zip(table["_partition"].to_pylist(), table["_position"].to_pylist(), strict=True)
    return [position for name, position in pairs if name == partition]


def check(directory: Path) -> None:
    """Hold what the process wrote to what its source gives: every id once, in order, with its value."""
    table = loaded(directory)
    rows = list(zip(*(table[name].to_pylist() for name in ("_partition", "_position", "n", "drawn")), strict=True))
    expected = [
        (name, i, value["n"], value["drawn"])
        for name in PARTITIONS
        for i, value in enumerate(make().open(name, 0).fetch(COUNT).values)
    ]
    assert sorted(rows) == sorted(expected)
    for name in PARTITIONS:
        assert [row[1] for row in rows if row[0] == name] == list(range(COUNT))


class Endless:
    """A source of several batches per partition, some ids of which hold nothing; it grows, and never ends."""

    def __init__(self, batches: Mapping[str, Sequence[Batch]], bounds: Mapping[str, tuple[int, int]]) -> None:
        self._batches, self._bounds = batches, bounds

    def partitions(self) -> Sequence[str]:
        return list(self._batches)

    def bounds(self, partition: str, /) -> tuple[int, int]:
        return self._bounds[partition]

    def find(self, partition: str, time: float, /) -> int:
        return int(time)

    def open(self, partition: str, at: int, /) -> Endless.Reader:
        return Endless.Reader([batch for batch in self._batches[partition] if batch.next > at])

    class Reader:
        def __init__(self, batches: list[Batch]) -> None:
            self.batches = batches

        def fetch(self, count_max: int, /) -> Batch:
            return self.batches.pop(0) if self.batches else Batch(0, ())

        def acknowledge(self, n: int, /) -> None:
            raise AssertionError("an export acknowledges nothing")

        def close(self) -> None: ...


# ---- killed and restarted


def start(directory: Path, workers: int, faults: str = "") -> Forked:
    command = [str(Path(__file__).with_name("export_process.py")), str(directory), str(workers)]
    return Forked(command, script, environment={"RELIABLE_RX_FAULTS": faults})


@pytest.mark.parametrize("point", [*map(at_each_commit, POINTS)])
def test_killed_at_every_point_and_restarted(tmp_path: Path, point: str) -> None:
    """A process that SIGKILL ends while it writes, syncs or renames loses and doubles nothing when run again."""
    with start(tmp_path, 1, f"{point}:kill@{random.randint(1, 20)}") as process:
        assert process.wait(timeout=60) == KILLED
    export(make, tmp_path, workers=1, events_per_file=PER_FILE)
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_killed_at_random_until_it_is_done(tmp_path: Path, workers: int) -> None:
    """Parents and workers are killed at any moment, and started again at once, while workers of the dead may live."""
    kills = 0
    for life in range(4):
        faults = f"{random.choice(POINTS)}:kill@{random.randint(1, 12)}" if life % 2 else ""
        with start(tmp_path, workers, faults) as process:
            enough = files_in(tmp_path) + random.randint(1, 12)
            while process.poll() is None and files_in(tmp_path) < enough:
                time.sleep(0.001)
            process.kill()
            _, complaint = process.communicate()
        assert process.returncode in (0, KILLED) or "a worker process died" in complaint, complaint
        kills += process.returncode != 0
    assert kills > 1
    export(make, tmp_path, workers=1, events_per_file=PER_FILE)
    check(tmp_path)


def files_in(directory: Path) -> int:
    return sum(1 for _ in directory.glob("*/*.parquet"))


@pytest.mark.slow
@pytest.mark.commit
def test_workers_share_the_partitions(tmp_path: Path) -> None:
    """Two processes write what one would."""
    done = export(make, tmp_path, workers=2, events_per_file=PER_FILE)
    assert [(each.partition, each.first, each.next, each.ended) for each in done] == [
        (name, 0, COUNT, True) for name in PARTITIONS
    ]
    check(tmp_path)


def test_a_full_disk_costs_the_file_that_was_being_written(tmp_path: Path) -> None:
    """What was whole stays; the next run goes on behind it."""
    with arm("export.before_sync", nth(5, disk_full(by_sqlite=False))), pytest.raises(SourceFailed, match="No space"):
        export(make, tmp_path, partitions=["JFK"], workers=1, events_per_file=PER_FILE)
    assert ids(tmp_path, "JFK") == list(range(4 * PER_FILE))
    (done,) = export(make, tmp_path, partitions=["JFK"], workers=1, events_per_file=PER_FILE)
    assert done.first == 4 * PER_FILE and ids(tmp_path, "JFK") == list(range(COUNT))


def test_two_exports_into_one_place_at_once(tmp_path: Path) -> None:
    """The second is refused for as long as the first writes the partition."""
    with PartitionFiles(tmp_path, "0"), pytest.raises(StoreOwned, match="another process is exporting"):
        PartitionFiles(tmp_path, "0", wait_s=0).__enter__()
    with PartitionFiles(tmp_path, "0", wait_s=0):
        pass


def test_the_first_of_two_that_wait_goes_on(tmp_path: Path) -> None:
    """Whoever waits for a partition gets it when the other lets go."""
    with PartitionFiles(tmp_path, "0"):
        waiting = threading.Thread(target=export, args=(ListSource([1]), tmp_path), kwargs={"workers": 1})
        waiting.start()
    waiting.join(timeout=60)
    assert ids(tmp_path, "0") == [0]


def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    """A gap between files is refused by the names of its neighbours."""
    export(make, tmp_path, partitions=["JFK"], workers=1, events_per_file=PER_FILE)
    next(each for each in (tmp_path / "partition-JFK").iterdir() if f"-{3 * PER_FILE:020}" in each.name).unlink()
    with pytest.raises(SourceFailed, match="restore what lay between"):
        export(make, tmp_path, partitions=["JFK"], workers=1)
    with PartitionFiles(tmp_path, "JFK") as files, pytest.raises(CheckpointRefused):
        files.ranges()


# ---- from where, to where


def test_a_source_that_grows_is_taken_to_its_end_as_it_was(tmp_path: Path) -> None:
    """Later runs take what has come since; a run with nothing new makes no file."""
    bounds = {"0": (0, 3)}
    source = Endless({"0": [Batch(0, [0, 1, 2, 3, 4, 5])]}, bounds)
    assert export(source, tmp_path, workers=1)[0].next == 3
    assert export(source, tmp_path, workers=1)[0].files == 0
    bounds["0"] = (0, 5)
    assert export(source, tmp_path, workers=1)[0].first == 3
    assert ids(tmp_path, "0") == [0, 1, 2, 3, 4]


def test_where_it_began_is_kept(tmp_path: Path) -> None:
    """An export from the latest event on that made no file yet still goes on from there, not from a later one."""
    bounds = {"0": (0, 2)}
    source = Endless({"0": [Batch(0, [0, 1, 2, 3])]}, bounds)
    assert export(source, tmp_path, first="latest", workers=1)[0].next == 2
    bounds["0"] = (0, 4)
    export(source, tmp_path, first="latest", workers=1)
    assert ids(tmp_path, "0") == [2, 3]


def test_from_a_time_to_a_time(tmp_path: Path) -> None:
    """A source that can look up times is asked; here the time is the id."""
    source = Endless({"0": [Batch(0, list(range(10)))]}, {"0": (0, 10)})
    first, until = (datetime.datetime.fromtimestamp(second, datetime.UTC) for second in (3, 7))
    export(source, tmp_path, first=first, until=until, workers=1)
    assert ids(tmp_path, "0") == [3, 4, 5, 6]


def test_ids_that_hold_nothing_are_passed_over(tmp_path: Path) -> None:
    """The files reach over them, and the rows keep their ids."""
    batches = [Batch(0, ["a", "b"]), Batch(5, ["c"], skipped=3), Batch(9, (), skipped=3), Batch(9, ["d"])]
    (done,) = export(Endless({"0": batches}, {"0": (0, 10)}), tmp_path, events_per_file=2, workers=1)
    assert (done.events, done.next, ids(tmp_path, "0")) == (4, 10, [0, 1, 5, 9])
    assert export(Endless({"0": batches}, {"0": (0, 10)}), tmp_path, workers=1)[0].first == 10


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ([Batch(0, ["a"]), Batch(3, ["b"])], "position 1: the source goes on at 3; events were lost"),
        ([Batch(0, ["a"])], "position 1: no event for 0 s"),
    ],
)
def test_what_is_missing_is_an_error(tmp_path: Path, batches: list[Batch], says: str) -> None:
    """Events that the source has promised and does not give are not passed over in silence."""
    with pytest.raises(SourceFailed, match=says):
        export(Endless({"0": batches}, {"0": (0, 5)}), tmp_path, workers=1, stall_s=0)


def test_a_partition_that_ends_with_an_error(tmp_path: Path) -> None:
    """What came before is written; the error is told, and the other partitions are done."""
    batches = {"bad": [Batch(0, ["a"], error=ValueError("torn"))], "good": [Batch(0, ["b"], ended=True)]}
    told: list[Exported] = []
    with pytest.raises(SourceFailed, match=r"1 of 2 partitions failed; the first: .*torn") as caught:
        export(Endless(batches, {"bad": (0, 2), "good": (0, 1)}), tmp_path, workers=1, each=told.append)
    assert caught.value.exported == told
    assert ids(tmp_path, "bad") == [0] and ids(tmp_path, "good") == [0]


def test_a_source_that_cannot_tell(tmp_path: Path) -> None:
    """What has no end, and what knows no times, is refused before anything is written."""
    endless = GeneratorSource(lambda i, random: i)
    with pytest.raises(PositionUnavailable, match="cannot look up a time"):
        export(endless, tmp_path, until=datetime.datetime.now(datetime.UTC))
    with pytest.raises(PositionUnavailable, match="say until where"):
        export(endless, tmp_path)
    assert export(endless, tmp_path, until=7, workers=1)[0].next == 7


@pytest.mark.parametrize(
    ("options", "says"),
    [({"events_per_file": 0}, "at least one"), ({"workers": 0}, "from 1 to"), ({"kinds": {"a": "number"}}, "no kind")],
)
def test_bad_options(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    """They are refused at once."""
    with pytest.raises(ValueError, match=says):
        export(ListSource([1]), tmp_path, **options)


def test_a_source_that_cannot_be_sent(tmp_path: Path) -> None:
    """The remedy is a function, or one process."""
    source = Endless({"0": [Batch(0, [threading.Lock()])], "1": []}, {"0": (0, 1), "1": (0, 0)})
    with pytest.raises(SourceFailed, match="give a function that makes it, or workers=1"):
        export(source, tmp_path, workers=2)


# ---- columns


@dataclass(frozen=True)
class Flight:
    """What most sources give."""

    carrier: str
    delay: float | None
    at: datetime.datetime
    stops: list[str]
    price: Decimal


class Pair(NamedTuple):
    """Its second field is only known from its annotation, as long as it is None."""

    n: int
    text: str | None


def test_fields_become_columns(tmp_path: Path) -> None:
    """Each with its type; what is nested is JSON, and what JSON writes as text is text."""
    at = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    flights = [Flight("UA", None, at, ["JFK"], Decimal("1.50")), Flight("ÅÄ", 2, at, [], Decimal("-1"))]
    export(ListSource(flights), tmp_path, workers=1)
    assert loaded(tmp_path).to_pylist() == [
        {
            "carrier": flight.carrier, "delay": flight.delay, "at": at, "stops": json.dumps(flight.stops),
            "price": str(flight.price), "_partition": "0", "_position": i,
        }
        for i, flight in enumerate(flights)
    ]  # fmt: skip


def test_values_that_are_no_records_are_json(tmp_path: Path) -> None:
    """Whatever they are, a record among them too."""
    values = [1, None, "é", [1.5, {"a": None}], Pair(1, None)]
    export(ListSource(values), tmp_path, workers=1)
    found = [json.loads(each) for each in loaded(tmp_path)["value"].to_pylist()]
    assert found == [*values[:4], {"n": 1, "text": None}]


class Closed(ListSource):
    """It says how far it goes, and cannot be opened."""

    def open(self, partition: str, at: int, /) -> Any:
        raise AssertionError("there is nothing to be read")


def test_what_is_complete_is_not_opened_again(tmp_path: Path) -> None:
    """An export that finds nothing to do asks its source for nothing."""
    export(ListSource([1, 2, 3]), tmp_path, workers=1)
    export(Closed([1, 2, 3]), tmp_path, workers=1)
    assert ids(tmp_path, "0") == [0, 1, 2]


def test_a_query_in_sql_terms(tmp_path: Path) -> None:
    """A filter and a grouping over all files give what Python gives."""
    export(make, tmp_path, workers=1, events_per_file=PER_FILE)
    field = pyarrow.dataset.field
    table = pyarrow.dataset.dataset(tmp_path).to_table(filter=field("n") >= 990)
    counted = table.group_by("_partition").aggregate([("n", "sum"), ("n", "count")]).to_pylist()
    assert {each["_partition"]: (each["n_sum"], each["n_count"]) for each in counted} == {
        name: (sum(range(990, COUNT)), COUNT - 990) for name in PARTITIONS
    }


MISFITS: list[tuple[Any, Any, str]] = [
    ({"n": 1}, {"n": 1.5}, r"column 'n': 1\.5 is not a whole number"),
    ({"n": 1}, {"n": True}, "column 'n': True is not a whole number"),
    ({"n": 1}, {"n": 2**63}, "column 'n': .*too (large|big)"),
    ({"n": 0.5}, {"n": 2**53 + 1}, "cannot be held exactly"),
    ({"n": "a"}, {"n": 1}, "column 'n': 1 is not text"),
    ({"n": "a"}, {"n": "\udc80"}, "column 'n': .*surrogates"),
    ({"n": b"a"}, {"n": "a"}, "column 'n': 'a' is not bytes"),
    ({"n": None}, {"n": 1}, "came after nothing but None"),
    ({"n": datetime.datetime.now()}, {"n": datetime.datetime.now(datetime.UTC)}, "is not a time without a zone"),
    ({"n": datetime.date(2013, 1, 1)}, {"n": datetime.datetime(2013, 1, 1)}, "is not a date"),
    ({"n": [1]}, {"n": [threading]}, "column 'n': a builtins.module has no JSON form"),
    ({"n": 1}, {"n": 1, "m": 2}, "there is no column 'm'"),
    ({"n": 1}, 7, "7 is no record"),
    (Pair(1, None), Pair(1, 7), "column 'text': 7 is not text"),
    (Pair(1, None), Flight("", 0, datetime.datetime.now(), [], Decimal(1)), "there is no column 'at'"),
    (7, threading, "column 'value': a builtins.module has no JSON form"),
    ({"n": 0.5}, {"n": "3"}, "column 'n': '3' is not a number"),
    ({"n": 0.5}, {"n": True}, "column 'n': True is not a number"),
]


@pytest.mark.parametrize(
    ("first", "later", "says"),
    [each if not place % 4 else at_each_commit(*each) for place, each in enumerate(MISFITS)],
    ids=lambda value: str(value)[:30],
)
def test_a_value_that_does_not_fit(tmp_path: Path, first: Any, later: Any, says: str) -> None:
    """It is refused by partition and position, in a later run as in the first; what came before stays."""
    export(ListSource([first]), tmp_path, workers=1)
    with pytest.raises(SourceFailed, match=f"partition '0', position 2: .*{says}"):
        export(ListSource([first, first, later]), tmp_path, workers=1)
    assert ids(tmp_path, "0") == [0]


def test_values_that_do_fit(tmp_path: Path) -> None:
    """A field may be missing, None stands anywhere, whole numbers fit floats, and a kind may be said beforehand."""
    values = [{"n": 0.5, "t": None}, {"n": 2}, {"n": None, "t": "x"}, {}]
    export(ListSource(values), tmp_path, workers=1, kinds={"t": "text"})
    rows = loaded(tmp_path).select(["n", "t"]).to_pylist()
    assert rows == [{"n": 0.5, "t": None}, {"n": 2.0, "t": None}, {"n": None, "t": "x"}, {"n": None, "t": None}]


def test_names_that_are_the_exports_own() -> None:
    """They are refused, as their columns could not be told apart."""
    with pytest.raises(ValueError, match="a field is called '_position'"):
        infer([{"_position": 1}])


def test_columns_of_another_version(tmp_path: Path) -> None:
    """What does not say which columns there are is named."""
    export(ListSource([1]), tmp_path, workers=1)
    (tmp_path / ".columns").write_text('{"format": 2, "columns": {}}')
    with pytest.raises(SourceFailed, match="export into an empty directory"):
        export(ListSource([1, 2]), tmp_path, workers=1)


def test_partitions_of_any_name(tmp_path: Path) -> None:
    """Names that are no file names have folders of their own; what is too long is refused."""
    names = ["", ".", "..", "a/b", "a%2Fb", "_x", "é", "A", "a"]
    source = GeneratorSource(lambda i, random: i, partitions=names, count=2)
    export(source, tmp_path, workers=1)
    assert {name: ids(tmp_path, name) for name in names} == {name: [0, 1] for name in names}
    with pytest.raises(SourceFailed, match="too long"):
        export(GeneratorSource(lambda i, random: i, partitions=["x" * 300], count=2), tmp_path, workers=1)


@pytest.mark.parametrize("hostile", every(3, VALUES), ids=repr)
def test_hostile_values_are_written_or_named(tmp_path: Path, hostile: Hostile) -> None:
    """As a value, in a field of the first events and of a later one: it is written, or its position is said."""
    rows: list[list[Any]] = [[hostile.make()], [{"a": hostile.make()}], [*[{"a": 1}] * 15, {"a": hostile.make()}]]
    for number, values in enumerate(rows):
        try:
            export(ListSource(values), tmp_path / str(number), events_per_file=10, workers=1)
        except SourceFailed as error:
            assert f"position {len(values) - 1}" in error.message
        else:
            assert len(loaded(tmp_path / str(number))) == len(values)


def test_a_partition_of_which_nothing_is_known_has_not_ended() -> None:
    """As where the process that was to export it has died."""
    assert not Exported("0", 0, 0, 0, 0, 0.0, error="the process died").ended
