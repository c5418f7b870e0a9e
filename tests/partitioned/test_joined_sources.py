"""Queries over several sources, which are hosted with all that read one of these, added to an app and taken out."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import GROUP, Logs, World

from checkpoint.offsets import MemoryOffsets
from hosting import App
from hosting.partitioned.beginning import begin
from hosting.partitioned.node import opened_partitions
from hosting.partitioned.opening import open_group
from hosting.partitioned.sections import sections_of
from hosting.partitioned.words import Partition
from reliable_rx.errors import QueryRefused


def declared(n: Logs, m: Logs, *, both: bool, more: bool = False) -> Callable[[App, World], None]:
    def declare(app: App, world: World) -> None:
        sources = {"n": app.source("n", n), "m": app.source("m", m)}
        for name, source in sources.items():
            app.query(f"k{name}", source.scan(lambda total, each: total + each, 0))
            app.sink(f"k{name}", world.sink(f"k{name}", world.name))
        if both:
            app.query("both", sources["n"].merge(sources["m"]))
        if more:
            app.query("others", app.source("other", Logs("a")))

    return declare


@pytest.mark.parametrize("both", [True, False], ids=["taken out", "added"])
def test_no_query_begins_anew_for_another_one(both: bool, tmp_path: Path) -> None:
    """A node whose app reads a source in another section says so and runs none of it; with the old app all goes on."""
    n, m = Logs("a"), Logs("a")
    n.add("a", 1, 2)
    m.add("a", 10)
    world = World(tmp_path, declared(n, m, both=both))
    with world.node():
        until(lambda: world.values("kn", "a") == [1, 3] and world.values("km", "a") == [10])
    n.add("a", 3)
    changed = World(tmp_path, declared(n, m, both=not both))
    with changed.node() as node:
        until(lambda: any("'m+n'" in str(each) and "another group" in str(each) for each in node.incidents.open()))
        assert not {"n", "m", "m+n"} & {each.source for each, agent in node.agents.items() if agent.taken}
    assert not changed.came
    again = World(tmp_path, declared(n, m, both=both, more=True))
    again.came = world.came
    with again.node():
        until(lambda: again.values("kn", "a") == [1, 3, 6])


def test_a_group_that_has_committed_nothing_knows_its_sections(tmp_path: Path) -> None:
    """Its stores are there, and what they have given: killed before its first commit it takes no other app either."""
    n, m = Logs("a"), Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, declared(n, m, both=False))
    with world.node():
        until(lambda: world.values("kn", "a") == [1, 3])
    shared = open_group(tmp_path, GROUP)
    opened = opened_partitions(shared.registry, shared.stores, GROUP, ())
    assert not opened_partitions(shared.registry, shared.stores, GROUP, shared.offsets.fetch(GROUP).keys())
    shared.close()
    assert {str(each) for each in opened} == {"n/a", "m/a"}
    offsets, app = MemoryOffsets(lambda group, partition: None), App()
    declared(n, m, both=True)(app, world)
    with pytest.raises(QueryRefused, match="'m' is read in section 'm\\+n' by this app, and group 'group' has read it"):
        begin(offsets, GROUP, sections_of(app), "earliest", lambda _: opened)


@pytest.mark.parametrize("opened, scope", [("*", "partition"), ("n", "all"), ("*", "all"), ("n", "partition")])
def test_a_scope_that_changes_before_anything_is_committed(opened: str, scope: Any) -> None:
    """Its partitions have other stores there: refused, unless it is the scope of before."""
    app = App()
    app.query("q", app.source("n", Logs("a")), scope=scope)
    offsets = MemoryOffsets(lambda group, partition: None)
    refused = pytest.raises(QueryRefused, match="declare the queries over")
    with nullcontext() if (opened == "*") == (scope == "all") else refused:
        begin(offsets, GROUP, sections_of(app), "earliest", lambda _: [Partition(opened, "a")])


def test_a_source_that_nothing_reads_any_more_is_told(tmp_path: Path) -> None:
    """Its queries are not run and their streams do not end; declared again they go on."""
    n, m = Logs("a"), Logs("a")
    n.add("a", 1, 2)
    m.add("a", 10)
    world = World(tmp_path, declared(n, m, both=False))
    with world.node():
        until(lambda: world.values("kn", "a") == [1, 3] and world.values("km", "a") == [10])

    def only_n(app: App, world: World) -> None:
        app.query("kn", app.source("n", n).scan(lambda total, each: total + each, 0))
        app.sink("kn", world.sink("kn", world.name))

    with World(tmp_path, only_n).node() as node:
        until(lambda: any("no query of this app does any more" in str(each) for each in node.incidents.open()))
        assert not any("'n'" in str(each) for each in node.incidents.open())
    m.add("a", 5)
    again = World(tmp_path, declared(n, m, both=False))
    again.came = world.came
    with again.node():
        until(lambda: again.values("km", "a") == [10, 15])


@pytest.mark.parametrize("name", ["eu/n", "a+b", "+", "n/"])
def test_a_source_whose_name_would_be_taken_apart_is_refused(name: str) -> None:
    """At once and by name: sections and positions of a group are called after sources."""
    app = App()
    app.query("q", app.source(name, Logs("a")))
    with pytest.raises(QueryRefused, match=f"{re.escape(repr(name))} cannot be read by a group of nodes.*leave the"):
        sections_of(app)
