"""Where groups begin: resolved once for all that is there, earliest for what comes later, by source and partition."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import ENDS, QUICK, Logs, World, group_in, sums

import reliable_rx as rx
from checkpoint.offsets import MemoryOffsets
from hosting import App, CallbackSink, FileSource, ListSource
from hosting.partitioned.beginning import begin
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.sections import sections_of
from reliable_rx.errors import StoreOwned
from reliable_rx.testing.faults import arm, raise_


def app_over(sources: dict[str, ListSource], got: list[Any], *, scope: str = "partition") -> App:
    app = App(checkpoint_interval_s=0.05)
    merged = rx.merge(*[app.source(name, source) for name, source in sources.items()])
    app.query("seen", merged.pipe(rx.operators.start_with("begun")), scope=scope)
    app.sink("seen", lambda place: CallbackSink(lambda n, value: got.append(value)))
    return app


@contextmanager
def running(app: App, where: Path, **options: Any) -> Iterator[Node]:
    opened = open_group(where, "g")
    node = Node(app, *opened, group="g", timing=QUICK, period_s=0.1, commit_interval_s=0.05, **options)
    thread = threading.Thread(target=node.run)
    thread.start()
    try:
        yield node
    finally:
        node.stop()
        thread.join(60)
        opened.close()


def test_what_appears_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    """A group that begins at the latest events loses nothing of a partition that appears with events in it; and after
    a restart all goes on where it was. The queries begin once."""
    source = ListSource({"a": [1, 2, 3]}, follow=True)
    values: dict[str, Any] = source._sequences  # type: ignore[assignment]
    got: list[Any] = []
    app = app_over({"s": source}, got)
    with running(app, tmp_path, start="latest"):
        until(lambda: got == ["begun"])
        values["a"].append(4)
        until(lambda: 4 in got)
        values["b"] = [10, 20]
        until(lambda: 20 in got)
    values["a"].append(5)
    with running(app, tmp_path, start="latest"):
        until(lambda: 5 in got)
    assert sorted(each for each in got if each != "begun") == [4, 5, 10, 20]
    assert got.count("begun") == 2


@pytest.mark.parametrize("scope", ["partition", "all"])
def test_sources_with_partitions_of_one_name_begin_each_at_its_own(tmp_path: Path, scope: str) -> None:
    """Positions are those of a source's partition, not of whatever is called the same."""
    first = ListSource({"a": [1] * 5}, follow=True)
    second = ListSource({"a": [2] * 2}, follow=True)
    got: list[Any] = []
    with running(app_over({"first": first, "second": second}, got, scope=scope), tmp_path, start="latest"):
        until(lambda: got == ["begun"])
        first._sequences["a"].append(77)  # type: ignore[attr-defined]
        second._sequences["a"].append(88)  # type: ignore[attr-defined]
        until(lambda: len(got) == 3)
    assert sorted(got[1:]) == [77, 88]


def test_the_first_node_decides(tmp_path: Path) -> None:
    """Positions are written once; a node that finds some, or finds partitions held, changes nothing."""
    source = ListSource([1, 2, 3], follow=True)
    sections = sections_of(app_over({"s": source}, []))
    lease: list[Any] = [None]
    stores = FolderStores(tmp_path)
    offsets = MemoryOffsets(lambda group, partition: lease[0])
    begin(offsets, stores, "early", sections, "earliest")
    assert offsets.fetch("early") == {}
    begin(offsets, stores, "g", sections, "latest")
    source._sequences["0"].append(4)  # type: ignore[attr-defined]
    begin(offsets, stores, "g", sections, "latest")
    assert offsets.fetch("g")["s", "0"].position == 3
    lease[0] = ("somebody", 1)
    with pytest.raises(StoreOwned):
        offsets.reset("late", {("s", "0"): 1})
    begin(offsets, stores, "late", sections, "latest")
    assert offsets.fetch("late") == {}


@pytest.mark.parametrize("ends", ENDS)
def test_a_group_that_has_opened_a_partition_has_begun(ends: str, tmp_path: Path) -> None:
    """Another starting point moves none of it, also where nothing is committed yet and no lease is left."""
    logs = Logs("a")
    logs.add("a", 1)
    world = World(tmp_path, sums(logs), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: world.values("sums", "a") == [1])
    with world.then(lambda app, _: app.query("others", app.source("other", Logs("a")).map(str))).node(ends=ends):
        until(lambda: {each.source for each in group_in(tmp_path).holds} == {"other"}, "nobody to have the partition")
    logs.add("a", 2)
    with world.node(start="latest"):
        logs.add("a", 3)
        until(lambda: world.values("sums", "a") == [1, 3, 6])


POINTS = (
    "agent.admitted", "agent.fenced", "take_over.after_claim", "take_over.after_rename", "take_over.before_clean",
    "agent.took_over", "agent.claimed", "agent.opened",
)  # fmt: skip


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("point", POINTS)
def test_a_group_that_was_killed_while_it_opened_begins(point: str, again: bool, tmp_path: Path) -> None:
    """Whatever of its stores is there: what is half made, or claimed by one that is dead, keeps no node from it."""
    logs = Logs("a")
    logs.add("a", 1)
    world = World(tmp_path, sums(logs), app=ENDS["killed"])
    if again:
        with world.node():
            until(lambda: world.values("sums", "a") == [1])
        logs.add("a", 2)
    with arm(point, raise_(OSError(f"killed at {point}"))), world.node(ends="killed") as node:
        until(lambda: any("killed at" in str(each) for each in node.incidents.open()))
    with world.node():
        until(lambda: world.values("sums", "a") == ([1, 3] if again else [1]))


def test_a_file_that_is_renamed_in_a_group_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a single evaluator tells it, by the first node that starts; a file more or less is none."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text("n\n1\n2\n")

    def node(wanted: int) -> str:
        caplog.clear()
        got = list[Any]()
        app = App(checkpoint_interval_s=0.05)
        source = app.source("s", lambda: FileSource(str(folder / "*.csv"), follow=True))
        app.query("seen", source)
        app.sink("seen", lambda place: CallbackSink(lambda n, value: got.append(value)))
        with caplog.at_level(logging.WARNING, "reliable_rx"), running(app, tmp_path / "here") as it:
            until(lambda: len(it.agents) == wanted and all(each.opened for each in it.agents.values()))
        return caplog.text

    assert "come twice" not in node(2)
    (folder / "c.csv").write_text("n\n1\n")
    assert "come twice" not in node(3)
    (folder / "b.csv").rename(folder / "b-old.csv")
    told = node(3)
    assert told.count("its records come twice") == 1 and "'b.csv'" in told and "'b-old.csv'" in told
    (folder / "c.csv").unlink()
    assert "come twice" not in node(2)
