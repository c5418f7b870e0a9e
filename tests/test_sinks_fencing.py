"""Sinks that refuse former writers: in every order of steps, and from real processes stopped within a write."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sink_process import LOST, make

from hosting.sinks import JsonLinesSink, SqliteTableSink
from reliable_rx.errors import CheckpointRefused, LeaseLost, StoreUnavailable
from reliable_rx.reliable import Fencing
from reliable_rx.testing import check_fencing

APP = Path(__file__).with_name("sink_process.py")
WAIT_S = 60.0


def lines_of(path: Path) -> list[tuple[int, Any]]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [(record["id"], record["value"]) for record in records if "value" in record]


def rows_of(path: Path, sql: str = "SELECT id, value FROM t ORDER BY id") -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def rows_of_partition(path: Path, partition: str) -> list[tuple[int, Any]]:
    rows = rows_of(path, f"SELECT id, value FROM t WHERE partition = '{partition}' ORDER BY id")
    return [(n, json.loads(text)) for n, text in rows]


def test_lines(tmp_path: Path) -> None:
    """A file of lines has one writer, the newest, at every step of an old one and a new one; nothing else is left."""
    assert check_fencing(lambda place: JsonLinesSink(tmp_path / place), lambda place: lines_of(tmp_path / place)) == 49
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".epoch", ".flushed"}


def test_a_table_is_taken_from_a_former_writer(tmp_path: Path) -> None:
    """What it held back is refused within its transaction, an empty flush too; its neighbours write on."""
    path = tmp_path / "out.db"
    old, new, neighbour = (SqliteTableSink(path, "t", partition=name) for name in ("a", "a", "b"))
    for sink, epoch in ((old, 1), (neighbour, 1)):
        sink.fence(epoch)
        sink.open("s")
        sink.write(0, ["old"])
        sink.flush()
    old.write(1, ["never seen"])
    new.fence(2)
    with pytest.raises(LeaseLost, match="partition a is written by epoch 2") as caught:
        old.flush()
    assert (caught.value.partition, caught.value.epoch, caught.value.newest) == ("a", 1, 2)
    assert new.open("s") == 1
    new.write(1, ["new"])
    new.flush()
    neighbour.write(1, ["on"])
    neighbour.flush()
    for sink in (old, new, neighbour):
        sink.close()
    assert rows_of_partition(path, "a") == [(0, "old"), (1, "new")]
    assert rows_of_partition(path, "b") == [(0, "old"), (1, "on")]
    with pytest.raises(LeaseLost):
        SqliteTableSink(path, "t", partition="a").fence(1)


@pytest.mark.slow
def test_partitions_of_a_table(tmp_path: Path) -> None:
    """So has each partition of a table, whatever the writers of the others do."""
    path = tmp_path / "out.db"
    check_fencing(
        lambda place: SqliteTableSink(path, "t", partition=place), lambda place: rows_of_partition(path, place)
    )


@pytest.mark.slow
def test_tables(tmp_path: Path) -> None:
    """And a table."""
    check_fencing(
        lambda place: SqliteTableSink(tmp_path / place, "t"),
        lambda place: [(n, json.loads(text)) for n, text in rows_of(tmp_path / place)],
    )


def test_the_suite_finds_planted_bugs(tmp_path: Path) -> None:
    """`check_fencing` refuses a sink that does not look, looks at opening only, forgets, or gives up lines."""

    class Blind(SqliteTableSink):
        def fence(self, epoch: int, /) -> None: ...

    class Polite(SqliteTableSink):
        def _check_epoch(self, newest: int) -> None:
            if not self._open:
                super()._check_epoch(newest)

    class Forgetful(SqliteTableSink):
        def fence(self, epoch: int, /) -> None:
            super().fence(1)

    class Emptying(JsonLinesSink):
        def _replace(self, epochs: Any, beside: Path) -> None:
            super()._replace(epochs, beside)
            self._file.truncate(0)

    with pytest.raises(AssertionError, match="begins behind"):
        check_fencing(lambda place: Emptying(tmp_path / place), lambda place: lines_of(tmp_path / place))
    for kind, claim in ((Blind, "comes later is refused"), (Polite, "told with LeaseLost"), (Forgetful, "refused")):
        path = tmp_path / f"{kind.__name__}.db"
        with pytest.raises(AssertionError, match=claim):
            check_fencing(
                lambda place, kind=kind, path=path: kind(path, "t", partition=place),
                lambda place, path=path: rows_of_partition(path, place),
            )


def test_both_are_fencing(tmp_path: Path) -> None:
    """Hosting finds out by the protocol."""
    assert isinstance(JsonLinesSink(tmp_path / "x"), Fencing)
    assert isinstance(SqliteTableSink(tmp_path / "x", "t"), Fencing)


@pytest.mark.parametrize("kind", ["lines", "table"])
def test_who_does_not_fence_is_refused_where_others_do(kind: str, tmp_path: Path) -> None:
    """A single evaluator does not write into the place of a group by mistake."""
    sink = make(kind, tmp_path / "out")
    sink.fence(2)
    sink.open("s")
    sink.close()
    with pytest.raises(LeaseLost, match="was not fenced") as caught:
        make(kind, tmp_path / "out").open("s")
    assert caught.value.newest == 2


def test_a_file_that_nobody_has_open_is_not_copied(tmp_path: Path) -> None:
    """The next writer goes on in the same file, however long it is."""
    path = tmp_path / "out.jsonl"
    nodes = set()
    for epoch in (1, 2, 3):
        sink = JsonLinesSink(path)
        sink.fence(epoch)
        assert sink.open("s") == epoch - 1
        sink.write(epoch - 1, [epoch])
        sink.flush()
        sink.close()
        nodes.add(path.stat().st_ino)
    assert len(nodes) == 1


def test_an_epoch_that_cannot_be_read(tmp_path: Path) -> None:
    """A damaged number is not taken for an early one."""
    (tmp_path / "out.jsonl.epoch").write_text("seven")
    with pytest.raises(CheckpointRefused, match="holds no epoch"):
        JsonLinesSink(tmp_path / "out.jsonl").fence(8)


def test_partitions_share_a_table(tmp_path: Path) -> None:
    """Rows of all partitions lie in one table under (partition, id); each has its position and its end."""
    path = tmp_path / "out.db"
    sinks = {name: SqliteTableSink(path, "flights", partition=name) for name in ("JFK", "EWR")}
    for sink in sinks.values():
        assert sink.open("s") == 0
    for count, (name, sink) in enumerate(sinks.items(), 1):
        sink.write(0, [{"origin": name}] * count)
        sink.end(count, None)
        sink.flush()
        sink.close()
    assert rows_of(path, "SELECT * FROM flights ORDER BY 1, 2") == [
        ("EWR", 0, "EWR"), ("EWR", 1, "EWR"), ("JFK", 0, "JFK"),
    ]  # fmt: skip
    ends = rows_of(path, "SELECT partition, next_id, ended_id FROM reliable_rx_sinks ORDER BY 1")
    assert ends == [("EWR", 3, 2), ("JFK", 2, 1)]
    with pytest.raises(CheckpointRefused, match="partition, id, origin"):
        SqliteTableSink(path, "flights").open("s")
    other = SqliteTableSink(path, "flights", partition="LGA", columns=["carrier"])
    with pytest.raises(CheckpointRefused, match="has the columns partition, id, origin, not partition, id, carrier"):
        other.open("s")


def test_two_partitions_make_a_table_at_once(tmp_path: Path) -> None:
    """The slower one adopts it, or is refused if its columns are others."""
    path = tmp_path / "out.db"
    sinks = {name: SqliteTableSink(path, "t", partition=name) for name in ("a", "b", "c")}
    for (name, sink), field in zip(sinks.items(), ("x", "x", "y"), strict=True):
        sink.open("s")
        sink.write(0, [{field: name}])
    sinks["a"].flush()
    sinks["b"].flush()
    with pytest.raises(CheckpointRefused, match="has the columns partition, id, x"):
        sinks["c"].flush()
    for sink in sinks.values():
        sink.close()
    assert rows_of(path, "SELECT * FROM t ORDER BY 1") == [("a", 0, "a"), ("b", 0, "b")]


def test_names_of_partitions(tmp_path: Path) -> None:
    """A column called partition is the table's own, and an empty name is none."""
    with pytest.raises(ValueError, match="a partition needs a name"):
        SqliteTableSink(tmp_path / "o.db", "t", partition="")
    with pytest.raises(ValueError, match="the table's own partition and id"):
        SqliteTableSink(tmp_path / "o.db", "t", partition="a", columns=["partition"])
    SqliteTableSink(tmp_path / "o.db", "t", columns=["partition"])


def test_a_registry_without_epochs_is_kept(tmp_path: Path) -> None:
    """A database written before there were epochs goes on from where it was."""
    path = tmp_path / "out.db"
    database = sqlite3.connect(path)
    database.executescript(
        """CREATE TABLE reliable_rx_sinks (
            name TEXT PRIMARY KEY, stream TEXT NOT NULL, next_id INTEGER NOT NULL, ended_id INTEGER, error TEXT
        );
        INSERT INTO reliable_rx_sinks VALUES ('t', 's', 1, NULL, NULL);
        CREATE TABLE t (id INTEGER PRIMARY KEY, value);
        INSERT INTO t VALUES (0, '"a"');"""
    )
    database.close()
    sink = SqliteTableSink(path, "t")
    sink.fence(1)
    assert sink.open("s") == 1
    sink.write(1, ["b"])
    sink.flush()
    sink.close()
    assert rows_of(path) == [(0, '"a"'), (1, '"b"')]


class Place:
    """One sink and the processes that write it: what each was told is durable."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind, self.path = kind, path
        self.flushed: dict[int, int] = {}

    def start(self, epoch: int, faults: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(APP), self.kind, str(self.path), str(epoch)],
            env={**os.environ, "RELIABLE_RX_FAULTS": faults},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str]) -> int:
        said, complaint = process.communicate(timeout=WAIT_S)
        assert process.returncode in (0, LOST, -signal.SIGKILL), complaint
        for first, end, epoch in (map(int, line.split()) for line in said.splitlines()):
            for n in range(first, end):
                assert n not in self.flushed, f"id {n} was told to be durable twice"
                self.flushed[n] = epoch
        return process.returncode

    def check(self) -> None:
        """Every id once; those that a writer was told are durable are its own."""
        if self.kind == "lines":
            found = [(n, value["epoch"]) for n, value in lines_of(self.path)]
        else:
            found = rows_of(self.path, "SELECT id, epoch FROM t ORDER BY id")
        assert [n for n, _ in found] == list(range(len(found)))
        assert {n: dict(found).get(n) for n in self.flushed} == self.flushed
        assert [epoch for _, epoch in found] == sorted(epoch for _, epoch in found)


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


STOPS = [
    *(("lines", f"sink.{point}:stop@{n}") for point in ("mid_write", "before_flush", "mid_flush") for n in (1, 3)),
    *(("table", f"sink.before_flush:stop@{n}") for n in (1, 3)),
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads from /proc whether a process is stopped")
@pytest.mark.parametrize(("kind", "faults"), STOPS)
def test_stopped_taken_over_and_continued(kind: str, faults: str, tmp_path: Path) -> None:
    """A writer stopped within a write or a flush is told when it goes on, and nothing of what it then does is seen."""
    place = Place(kind, tmp_path / "out")
    stopped = place.start(1, faults)
    try:
        wait_until_stopped(stopped)
        assert place.finish(place.start(2)) == 0
        place.check()
        stopped.send_signal(signal.SIGCONT)
        assert place.finish(stopped) == LOST
    finally:
        stopped.kill()
        stopped.wait(WAIT_S)
    place.check()
    assert place.finish(place.start(3)) == 0
    place.check()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads from /proc whether a process is stopped")
def test_stopped_within_a_transaction(tmp_path: Path) -> None:
    """The next writer of the file waits for a while, says so, and goes on when the stopped one has ended."""
    place = Place("table", tmp_path / "out")
    stopped = place.start(1, "sink.mid_flush:stop@2")
    try:
        wait_until_stopped(stopped)
        with pytest.raises(StoreUnavailable, match="locked"):
            make("table", tmp_path / "out").fence(2)
    finally:
        stopped.kill()
    assert place.finish(stopped) == -signal.SIGKILL
    assert place.finish(place.start(2)) == 0
    place.check()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads from /proc whether a process is stopped")
@pytest.mark.parametrize("point", ["before_copy", "before_rename", "mid_write", "mid_flush", "after_flush"])
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_the_taker_over_dies_or_is_stopped(point: str, fault: str, tmp_path: Path) -> None:
    """The one after it has everything, and finds no leftovers; only between two system calls does it wait."""
    place = Place("lines", tmp_path / "out")
    first = place.start(1, "sink.mid_write:stop@3")
    second = None
    try:
        wait_until_stopped(first)
        second = place.start(2, f"sink.{point}:{fault}")
        if fault == "kill":
            assert place.finish(second) == -signal.SIGKILL
        else:
            wait_until_stopped(second)
            if point == "before_rename":
                with pytest.raises(StoreUnavailable, match="being taken over"):
                    make("lines", tmp_path / "out").fence(3)
                second.kill()
        assert place.finish(place.start(3)) == 0
        place.check()
        for process in (first, second):
            process.send_signal(signal.SIGCONT)
        assert place.finish(first) == LOST
        assert fault == "kill" or place.finish(second) in (LOST, -signal.SIGKILL)
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.wait(WAIT_S)
    place.check()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.epoch", "out.flushed"]
