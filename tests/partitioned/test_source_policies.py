"""What a source sets aside or cannot do is the same on nodes as in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import GROUP, QUICK, World

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, CallbackSink, FileSource, ListSource
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.sections import sections_of
from reliable_rx.errors import QueryRefused, SourceFailed

POLICIES = ["fail", "skip", "dead_letter"]
FILES = {
    "a value": ("v,t\n1,1\n2,2\nx,3\n4,4\n5,5\n", 2),
    "its time": ("v,t\n1,1\n2,late\n3,3\n", 1),
}


def time_of(row: Any) -> float:
    return float(row["t"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("what", FILES)
def test_a_policy_holds_on_nodes(tmp_path: Path, policy: Any, what: str) -> None:
    """What comes of a source's values and dead letters on a node is what comes of them in one process."""
    path = tmp_path / "rows.csv"
    text, bad = FILES[what]
    path.write_text(text)
    streams = ["values", "rows.dead_letters"] if policy == "dead_letter" else ["values"]

    def declare(app: App, world: World | None, came: dict[str, list[Any]]) -> None:
        rows = app.source("rows", FileSource(path, types={"v": int}, on_bad_record=policy, timestamp=time_of))
        app.query("values", rows.map(lambda row: row["v"]))
        for name in streams:
            took = came.setdefault(name, []).append
            one = CallbackSink(lambda n, value, took=took: took((n, value)))  # type: ignore[misc]
            app.sink(name, one if world is None else world.sink(name, "a"))

    alone: dict[str, list[Any]] = {}
    app = App()
    declare(app, None, alone)
    with app.evaluator(MemoryStore()) as evaluator:
        if policy == "fail":
            with pytest.raises(SourceFailed, match="on_bad_record='skip'"):
                evaluator.run()
        else:
            evaluator.run()
    expected = {name: [value for _, value in came] for name, came in alone.items()}
    assert len(expected["values"]) == (bad if policy == "fail" else text.count("\n") - 2)
    assert [letter.position for letter in expected.get("rows.dead_letters", [])] == [bad] * (len(streams) - 1)

    world = World(tmp_path / "group", lambda app, world: declare(app, world, {}))

    def came() -> dict[str, list[Any]]:
        return {name: world.values(name, "rows.csv") for name in streams}

    with world.node() as node:
        until(lambda: node.failing if policy == "fail" else came() == expected, "it is all there, or it fails")
        assert bool(node.failing) == (policy == "fail")
        if policy == "fail":
            until(lambda: came() == expected, "what comes before it")
    assert came() == expected


ODD = {
    "in UTF-16": "v\n7\n".encode("utf-16"),
    "with another header": b"x\n7\n",
    "without a header": b"\xff,v\n7\n",
    "in JSON": b'{"v": 7}\n',
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_file_of_a_pattern_is_refused_by_name(tmp_path: Path, odd: str, policy: Any) -> None:
    """It is no record that could be passed over: a run ends, a node has the other files; mended, all is read once."""
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.csv").write_text("v\n1\n2\n")
    (folder / "b.csv").write_bytes(ODD[odd])
    (folder / "c.csv").write_text("v\n3\n")

    def declare(app: App, world: World | None = None) -> App:
        source = FileSource(f"{folder}/*.csv", columns=["v"], on_bad_record=policy)
        app.query("values", app.source("rows", source).map(lambda row: int(row["v"])))
        if world is not None:
            app.sink("values", world.sink("values", "a"))
        return app

    def came() -> list[Any]:
        return [world.values("values", f"{name}.csv") for name in "abc"]

    store, world = MemoryStore(), World(tmp_path / "group", lambda app, world: (declare(app, world), None)[1])
    with declare(App()).evaluator(store) as evaluator, pytest.raises(SourceFailed, match=r"b\.csv.*; \w+") as refused:
        evaluator.run()
    with world.node() as node:
        until(lambda: came() == [[1, 2], [], [3]] and node.failing, "what can be read, and what cannot")
        assert {each.name: str(refused.value) in said for each, said in node.failing.items()} == {"b.csv": True}
    (folder / "b.csv").write_text("v\n7\n")
    with declare(App()).evaluator(store) as evaluator:
        evaluator.run()
        assert sorted(v for part in evaluator.stream("values").read(0, 10) for v in part.values) == [1, 2, 3, 7]
    with world.node():
        until(lambda: came() == [[1, 2], [7], [3]], "all of it")


def test_a_file_that_has_grown_behind_its_end_is_told_on_nodes(tmp_path: Path) -> None:
    """In the words of one process: by the node that has read it while it runs, and by each that starts later."""
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.csv").write_text("v\n1\n")
    (folder / "b.csv").write_text("v\n2\n")

    def declare(app: App, world: World | None) -> None:
        app.query("values", app.source("rows", FileSource(f"{folder}/*.csv")).map(lambda row: row["v"]))

    def told(incidents: Any) -> list[str]:
        return [each.message for each in incidents if each.kind == "growth" and each.subject == "rows"]

    app, store = App(), MemoryStore()
    declare(app, None)
    with app.evaluator(store) as evaluator:
        evaluator.run()
    world = World(tmp_path / "group", declare)
    with world.node(period_s=0.1) as node:
        until(node._all_ended, "all is read")
        assert not told(node.incidents.open())
        (folder / "a.csv").write_text("v\n1\n3\n")
        (first,) = until(lambda: told(node.incidents.open()))
    app = App()
    declare(app, None)
    with app.evaluator(store) as evaluator:
        evaluator.run()
        assert told(evaluator.statistics().incidents) == [first]
    assert "a.csv has grown from 4 to 6 bytes" in first
    shared = open_group(tmp_path / "group", GROUP)
    app = App()
    declare(app, None)
    node = Node(app, *shared, group=GROUP, timing=QUICK)
    node.run(until_ended=True)
    shared.close()
    assert told(node.incidents.open()) == [first]


def test_queries_over_dead_letters_run_within_a_partition(tmp_path: Path) -> None:
    """A query over the dead letters of a source, or of a query, gives on a node what it gives in one process."""
    path = tmp_path / "rows.csv"
    path.write_text("v\n1\nx\n0\n4\n")

    def declare(app: App) -> None:
        rows = app.source("rows", FileSource(path, types={"v": int}, on_bad_record="dead_letter"))
        app.query("inverse", rows.map(lambda row: 1 / row["v"]), policy="dead_letter")
        app.query("unread", rx.source("rows.dead_letters").map(lambda letter: letter.position))
        app.query("undone", rx.source("inverse.dead_letters").map(lambda letter: letter.position))
        app.query("both", rx.source("undone").merge(rx.source("unread")).map(str))

    streams = ("inverse", "unread", "undone", "both")
    alone: dict[str, list[Any]] = {name: [] for name in streams}
    app = App()
    declare(app)
    for name in streams:
        app.sink(name, CallbackSink(lambda _, value, took=alone[name].append: took(value)))  # type: ignore[misc]
    with app.evaluator(MemoryStore()) as evaluator:
        evaluator.run()
    assert alone == {"inverse": [1.0, 0.25], "unread": [1], "undone": [2], "both": ["1", "2"]}

    def on_node(app: App, world: World) -> None:
        declare(app)
        for name in streams:
            app.sink(name, world.sink(name, "a"))

    world = World(tmp_path / "group", on_node)
    with world.node() as node:
        until(lambda: {name: world.values(name, "rows.csv") for name in streams} == alone, "it is all there")
        assert not node.failing


def test_scopes_count_for_dead_letters_too(tmp_path: Path) -> None:
    """A query of another scope is refused by name where it reads what a query sets aside, as where it reads that."""
    app = App()
    app.query("a", app.source("rows", ListSource([1])), policy="dead_letter")
    app.query("b", rx.source("a.dead_letters"), scope="all")
    with pytest.raises(QueryRefused, match="'b' of scope 'all' reads 'a' of scope 'partition'"):
        sections_of(app)


@pytest.mark.parametrize("raised", [ValueError("no"), OSError("no"), SystemExit("no")], ids=repr)
def test_what_makes_a_source_or_a_sink_and_raises_is_named(raised: BaseException) -> None:
    """The error says which source or sink it was, and has the one that was raised as its cause."""

    def bad() -> Any:
        raise raised

    app = App()
    app.query("q", app.source("rows", bad))
    for build in (lambda: app.evaluator(MemoryStore()), lambda: sections_of(app)):
        with pytest.raises(SourceFailed, match=r"source 'rows' cannot be made: .*no") as caught:
            build()
        assert caught.value.__cause__ is not None
    app = App()
    app.query("q", app.source("rows", ListSource([1])))
    app.sink("q", bad)
    with pytest.raises(QueryRefused, match=r"sink of 'q' cannot be made: .*no") as refused:
        app.evaluator(MemoryStore())
    assert refused.value.__cause__ is not None


def test_a_crash_of_native_code_says_where() -> None:
    """Where native code ends a process of the command line, stderr says which line of Python was at work."""
    code = "import os, sys, reliable_rx_cli; sys.argv = ['x', '--version']\ntry: reliable_rx_cli.main()\n"
    code += "except SystemExit: os.abort()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode < 0 and "Fatal Python error: Aborted" in ended.stderr
