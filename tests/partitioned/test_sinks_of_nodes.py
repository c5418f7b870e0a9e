"""Sinks of partitions: one that cannot be made, fenced, opened or written fails alone, and the group sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from lanes import at_each_commit
from node_world import Logs, World, row

from hosting import App, CallbackSink, FileSource, JsonLinesSink, SqliteTableSink
from hosting.partitioned.places import Place


def refuses(place: Place | None) -> Any:
    raise KeyError("no such folder")


def refuse(n: int, value: Any) -> None:
    raise KeyError("no such customer")


def unfenced(folder: Path) -> Callable[[Place], Any]:
    def make(place: Place) -> Any:
        (folder / "out.jsonl.epoch").write_text("seven")
        return JsonLinesSink(folder / "out.jsonl")

    return make


def foreign(folder: Path) -> Callable[[Place], Any]:
    def make(place: Place) -> Any:
        (folder / "notes.db").write_text("my notes\n" * 1000)
        return SqliteTableSink(folder / "notes.db", "t")

    return make


class Unnamed(CallbackSink):
    """A sink that cannot say what it is called."""

    @property
    def label(self) -> str:
        raise KeyError("no name today")


CASES: dict[str, tuple[Callable[[Path], Callable[[Place], Any]], str]] = {
    "made": (lambda folder: refuses, "no such folder"),
    "named": (lambda folder: lambda place: Unnamed(refuse), "no name today"),
    "fenced": (unfenced, "holds no epoch"),
    "opened": (foreign, "file is not a database"),
    "written": (lambda folder: lambda place: CallbackSink(refuse), "no such customer"),
}


@pytest.mark.parametrize("what", [at_each_commit(each) if each == "written" else each for each in CASES])
def test_a_sink_that_fails_stops_no_partition(tmp_path: Path, what: str) -> None:
    """The partition runs under its first epoch, its other sinks have everything, and its row says why it fails."""
    make, why = CASES[what]
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        source = app.source("logs", logs)
        app.query("same", source)
        app.sink("same", make(tmp_path))
        app.sink("same", world.sink("same", world.name))

    world = World(tmp_path, declare)
    with world.node():
        logs.add("a", 1, 2, 3)
        until(lambda: len(world.came.get(("same", "a"), ())) == 3)
        until(lambda: row(tmp_path, "a").status == "failing")
        found = row(tmp_path, "a")
        assert found.lease == "open" and found.epoch == 1 and why in found.error


def test_of_two_sinks_of_one_label_the_second_fails_alone(tmp_path: Path) -> None:
    """They are made at their place, so it is seen there; the first one and all others have everything."""
    logs, got = Logs("a"), list[int]()

    def declare(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs))
        for _ in range(2):
            app.sink("same", lambda place: CallbackSink(lambda n, value: got.append(value), label="mail"))
        app.sink("same", world.sink("same", world.name))

    world = World(tmp_path, declare)
    with world.node():
        logs.add("a", 1, 2, 3)
        until(lambda: len(world.came.get(("same", "a"), ())) == len(got) == 3)
        until(lambda: row(tmp_path, "a").status == "failing")
        assert "stream 'same' has a sink with the label 'mail' already" in row(tmp_path, "a").error
    assert got == [1, 2, 3]


def test_a_sink_does_not_write_what_a_source_reads(tmp_path: Path) -> None:
    """Its file would be the next partition, and that one's the next: it is refused by name, and nothing is written."""
    (tmp_path / "a.jsonl").write_text("1\n2\n")

    def declare(app: App, world: World) -> None:
        source = app.source("logs", lambda: FileSource(tmp_path / "*.jsonl", follow=True))
        app.query("same", source)
        app.sink("same", lambda place: JsonLinesSink(tmp_path / f"out-{place.partition.name}"))
        app.sink("same", world.sink("same", world.name))

    world = World(tmp_path / "world", declare)
    with world.node():
        until(lambda: len(world.came.get(("same", "a.jsonl"), ())) == 2)
        until(lambda: row(tmp_path / "world", "a.jsonl").status == "failing")
        assert "source 'logs' finds" in row(tmp_path / "world", "a.jsonl").error
    assert [each.name for each in tmp_path.glob("*.jsonl*")] == ["a.jsonl"]


def test_a_partition_leaves_out_what_its_sink_refuses(tmp_path: Path) -> None:
    """Policies hold on nodes, too."""
    logs = Logs("a")
    path = tmp_path / "out.jsonl"

    def declare(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs).map(lambda n: n if n != 2 else b"two"))
        app.sink("same", lambda place: JsonLinesSink(path), on_error="skip")

    world = World(tmp_path, declare)
    with world.node():
        logs.add("a", 1, 2, 3)
        until(lambda: path.exists() and path.read_bytes().count(b"\n") == 3)
    assert [json.loads(line).get("value") for line in path.read_text().splitlines()] == [1, None, 3]


@pytest.mark.parametrize("kind", ["lines", "table"])
def test_two_partitions_with_one_target_are_named(tmp_path: Path, kind: str) -> None:
    """The one that comes second has no sink, and says why; the other has all of its own, and no epoch climbs."""
    logs = Logs("ab")
    path = tmp_path / "out"

    def declare(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs))
        app.sink("same", lambda place: JsonLinesSink(path) if kind == "lines" else SqliteTableSink(path, "t"))

    world = World(tmp_path, declare)
    with world.node():
        logs.add("a", 1, 2, 3)
        logs.add("b", 1, 2, 3)
        until(lambda: any(row(tmp_path, each).status == "failing" for each in "ab"))
        (failing,) = [each for each in "ab" if row(tmp_path, each).status == "failing"]
        (other,) = {"a", "b"} - {failing}
        said = row(tmp_path, failing).error
        assert "need a target each for 'same', and both write to" in said
        assert all(f"'logs/{each}'" in said for each in "ab")
        assert row(tmp_path, other).status == "open"
        assert row(tmp_path, "a").epoch == row(tmp_path, "b").epoch == 1
