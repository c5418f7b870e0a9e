"""Queries over several sources, which are hosted with all that read one of these, added to an app and taken out."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import ENDS, GROUP, Logs, World, group_in

import reliable_rx as rx
from hosting import App
from hosting.partitioned.beginning import check_sections
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.past import Past
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


def other_only(app: App, world: World) -> None:
    """An app of which nobody knows what the others read."""
    app.query("others", app.source("other", Logs("a")).map(lambda n: n))


def is_forgotten(folder: Path) -> bool:
    """Whether the group's document has nothing of the sources of `declared` any more."""
    return {each.source for each in group_in(folder).holds} == {"other"}


def run_between(world: World) -> None:
    """Have an app run that reads none of the sources, until the group has forgotten that there were any."""
    with world.then(other_only).node():
        until(lambda: is_forgotten(world.folder))


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "with another app between"])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("both", [True, False], ids=["taken out", "added"])
def test_no_query_begins_anew_for_another_one(both: bool, ends: str, forgotten: bool, tmp_path: Path) -> None:
    """A node whose app reads a source in another section says so and runs none of it, however the last node ended and
    whichever app ran since; with the old app all goes on."""
    n, m = Logs("a"), Logs("a")
    n.add("a", 1, 2)
    m.add("a", 10)
    world = World(tmp_path, declared(n, m, both=both), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: world.values("kn", "a") == [1, 3] and world.values("km", "a") == [10])
    if forgotten:
        run_between(world)
    n.add("a", 3)
    with world.then(declared(n, m, both=not both)).node() as node:
        until(lambda: any("'m+n'" in str(each) and "another group" in str(each) for each in node.incidents.open()))
        assert not {"n", "m", "m+n"} & {each.source for each in node.agents}
    assert world.values("kn", "a") == [1, 3] and world.values("km", "a") == [10]
    again = world.then(declared(n, m, both=both, more=True))
    with again.node():
        until(lambda: again.values("kn", "a") == [1, 3, 6])


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("scopes", [("partition", "all"), ("all", "partition")], ids="-".join)
def test_no_query_begins_anew_for_another_scope(scopes: tuple[Any, Any], ends: str, tmp_path: Path) -> None:
    """Its partitions have other stores there: refused, and with the scope of before it goes on."""
    n = Logs("a")
    n.add("a", 1)

    def scoped(scope: Any) -> Callable[[App, World], None]:
        def declare(app: App, world: World) -> None:
            app.query("k", app.source("n", n).scan(lambda total, each: total + each, 0), scope=scope)
            app.sink("k", world.sink("k", world.name))

        return declare

    before, after = scopes
    place = "all" if before == "all" else "a"
    world = World(tmp_path, scoped(before), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: world.values("k", place) == [1])
    with world.then(scoped(after)).node() as node:
        until(lambda: any("declare the queries over" in str(each) for each in node.incidents.open()))
        assert not node.agents
    n.add("a", 2)
    with world.then(scoped(before)).node():
        until(lambda: world.values("k", place) == [1, 3])


@pytest.mark.parametrize("ends", ENDS)
def test_where_nothing_was_read_sources_may_be_joined(ends: str, tmp_path: Path) -> None:
    """Nothing is lost by that; once something was read, they stay together."""
    n, m = Logs("a"), Logs("a")
    world = World(tmp_path, declared(n, m, both=False), app=ENDS[ends])
    with world.node(ends=ends) as node:
        until(lambda: len(node.agents) == 2 and all(each.opened for each in node.agents.values()))
    n.add("a", 1)
    joined = world.then(declared(n, m, both=True))
    with joined.node(ends=ends):
        until(lambda: joined.values("kn", "a") == [1])
    with joined.then(declared(n, m, both=False)).node() as node:
        until(lambda: any("'m+n'" in str(each) and "another group" in str(each) for each in node.incidents.open()))
        assert not node.agents


@pytest.mark.parametrize("ends", ENDS)
def test_where_something_came_out_sources_may_not_be_joined(ends: str, tmp_path: Path) -> None:
    """Though nothing was read: it would come again, under its id."""
    n, m = Logs("a"), Logs("a")

    def with_a_start(both: bool) -> Callable[[App, World], None]:
        def declare(app: App, world: World) -> None:
            sources = [app.source("n", n), app.source("m", m)]
            app.query("k", sources[0].start_with(0))
            app.sink("k", world.sink("k", world.name))
            if both:
                app.query("both", sources[0].merge(sources[1]))

        return declare

    world = World(tmp_path, with_a_start(False), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: world.values("k", "a") == [0])
    with world.then(with_a_start(True)).node() as node:
        until(lambda: any("'m+n'" in str(each) and "another group" in str(each) for each in node.incidents.open()))
        assert not node.agents


def only_n(name: str, n: Logs) -> Callable[[App, World], None]:
    """Return an app whose one query reads *n*, as the source *name*."""

    def declare(app: App, world: World) -> None:
        app.query("kn", app.source(name, n).scan(lambda total, each: total + each, 0))
        app.sink("kn", world.sink("kn", world.name))

    return declare


def told_of_recovery(world: World, came: Sequence[Any] = ()) -> str:
    """Run a node until *came* has come of its query over the first source; return what it tells of sources."""
    with world.node() as node:
        until(lambda: node.agents and all(each.opened for each in node.agents.values()))
        until(lambda: world.values("kn", "a") == list(came))
        return "\n".join(each.message for each in node.incidents.open() if each.kind == "recovery")


@pytest.mark.parametrize("ends", ENDS)
def test_a_source_that_nothing_reads_any_more_is_told(ends: str, tmp_path: Path) -> None:
    """Its queries are not run and their streams do not end; declared again they go on."""
    n, m = Logs("a"), Logs("a")
    n.add("a", 1, 2)
    m.add("a", 10)
    world = World(tmp_path, declared(n, m, both=False), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: world.values("kn", "a") == [1, 3] and world.values("km", "a") == [10])
    told = told_of_recovery(world.then(only_n("n", n)), [1, 3])
    assert "'m'" in told and "no query of this app does any more" in told and "declared again they go on" in told
    assert "'n'" not in told and "its beginning" not in told
    m.add("a", 5)
    again = world.then(declared(n, m, both=False))
    with again.node():
        until(lambda: again.values("km", "a") == [10, 15])


def over(n: Logs, *names: str, whole: str = "whole") -> Callable[[App, World], None]:
    def declare(app: App, world: World) -> None:
        source = app.source("n", n)
        for name in names:
            app.query(
                name, source.scan(lambda total, each: total + each, 0), scope="all" if name == whole else "partition"
            )
            app.sink(name, world.sink(name, world.name))

    return declare


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("first, place", [("each", "a"), ("whole", "all")])
def test_a_query_over_all_partitions_is_added_beside_the_others(
    ends: str, first: str, place: str, tmp_path: Path
) -> None:
    """And the other way round: both have stores of their own, and neither begins anew for the other."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, first), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: world.values(first, place) == [1, 3])
    n.add("a", 3)
    again = world.then(over(n, "each", "whole"))
    with again.node():
        until(lambda: again.values("each", "a")[-1:] == again.values("whole", "all")[-1:] == [6])


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("before, after", [("", "q"), ("q", ""), ("r", "q")])
def test_a_query_that_is_moved_alone_is_refused(ends: str, before: str, after: str, tmp_path: Path) -> None:
    """While another one stays: it does not begin anew under its ids, and with the old scope all goes on."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r", whole=before), app=ENDS[ends])
    places = {name: "all" if name == before else "a" for name in ("q", "r")}
    with world.node(ends=ends):
        until(lambda: all(world.values(name, place) == [1, 3] for name, place in places.items()))
    with world.then(over(n, "q", "r", whole=after)).node() as node:
        until(lambda: any("it would begin anew there" in str(each) for each in node.incidents.open()))
    n.add("a", 3)
    again = world.then(over(n, "q", "r", whole=before))
    with again.node():
        until(lambda: all(again.values(name, place)[-1:] == [6] for name, place in places.items()))


def quietly(n: Logs, reached: Path, *, whole: str, loud: bool = False) -> Callable[[App, World], None]:
    """Return an app in which *q* has a state, and neither a sink, unless it is *loud*, nor an output up to 3."""

    def declare(app: App, world: World) -> None:
        over(n, "r", whole=whole)(app, world)
        summed = rx.source("n").scan(lambda total, each: total + each, 0)
        noted = summed.do_action(lambda total: (reached / str(total)).touch())
        app.query("q", noted.filter(lambda total: total > 3), scope="all" if whole == "q" else "partition")
        if loud:
            app.sink("q", world.sink("q", world.name))

    return declare


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("before, after", [("", "q"), ("q", "")])
def test_a_query_is_moved_that_nobody_has_heard_of(ends: str, before: str, after: str, tmp_path: Path) -> None:
    """It has no sink and no output, but a state, which would begin anew: refused, and with the old scope it goes on."""
    n, reached, place = Logs("a"), tmp_path / "reached", "all" if before == "q" else "a"
    reached.mkdir()
    n.add("a", 1, 2)
    world = World(tmp_path / "group", quietly(n, reached, whole=before), app=ENDS[ends])
    with world.node(ends=ends) as node:
        until(lambda: (reached / "3").exists() and any(each[0] == "r" for each in world.came))
        for agent in node.agents.values():  # a function is called before its turn is durable
            if agent._evaluator is not None:  # none of one that sleeps, behind a checkpoint
                agent._evaluator.flush()
    with world.then(quietly(n, reached, whole=after)).node() as node:
        until(lambda: any("query 'q'" in str(each) and "begin anew" in str(each) for each in node.incidents.open()))
        assert not node.agents
    n.add("a", 3)
    again = world.then(quietly(n, reached, whole=before, loud=True))
    with again.node():
        until(lambda: again.values("q", place) == [6])


def spoil(store: Path, part: str) -> None:
    file, table, column = {
        "checkpoints": ("checkpoint.sqlite", "generations", "manifest"),
        "rows": ("checkpoint.sqlite", "chunks", "blob"),
        "journal": ("journal.sqlite", "turns", "blob"),
    }[part]
    with closing(sqlite3.connect(store / file)) as there, there:
        assert there.execute(f"UPDATE {table} SET {column} = zeroblob(length({column}))").rowcount


@pytest.mark.parametrize("ends, part", [("stopped", "checkpoints"), ("killed", "journal")])
@pytest.mark.parametrize("before, after", [("q", ""), ("", "q")])
def test_a_query_is_moved_whose_store_cannot_be_read(
    before: str, after: str, ends: str, part: str, tmp_path: Path
) -> None:
    """Whether it was there is not known, so it is refused, by query, store and remedy; with the old scope the other
    partitions go on."""
    n, where = Logs("a"), "all" if before == "q" else "a"
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r", whole=before), app=ENDS[ends])
    places = {name: "all" if name == before else "a" for name in ("q", "r")}
    with world.node(ends=ends):
        until(lambda: all(world.values(name, place) == [1, 3] for name, place in places.items()))
    (store,) = tmp_path.glob(f"partitions/{GROUP}/*/{where}/*")
    spoil(store, part)
    with world.then(over(n, "q", "r", whole=after)).node() as node:
        until(lambda: [each for each in node.incidents.open() if "query 'q'" in str(each) and str(store) in str(each)])
        (told,) = [str(each) for each in node.incidents.open() if each.kind == "start"]
        assert "cannot be read" in told and "restore" in told and not node.agents
    if places["q"] != places["r"]:
        n.add("a", 3)
        again = world.then(over(n, "q", "r", whole=before))
        with again.node():
            until(lambda: again.values("r", places["r"])[-1:] == [6])


def test_a_moved_query_is_found_without_a_look_at_rows(tmp_path: Path) -> None:
    """What a checkpoint says besides them is enough, however much they are; of one section alone nothing is read."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r", whole="q"))
    with world.node():
        until(lambda: world.values("q", "all") == world.values("r", "a") == [1, 3])
    for store in tmp_path.glob(f"partitions/{GROUP}/*/*/*"):
        spoil(store, "rows")
    with world.then(over(n, "q", "r")).node() as node:
        until(
            lambda: any("query 'q'" in str(each) and "has had it in '*'" in str(each) for each in node.incidents.open())
        )
    app = App()
    over(n, "q", "r")(app, world)
    alone = Past(Unread(Partition("n", "a")), {})
    check_sections(alone, sections_of(app), GROUP)


class Unread(FolderStores):
    """Stores of *partitions*, of which none is to be looked into."""

    def __init__(self, *partitions: Partition) -> None:
        self._partitions = partitions

    def opened(self) -> list[Partition]:
        return list(self._partitions)

    def look(self, partition: Partition, /, *, claimed: bool = False) -> Any:
        raise AssertionError(partition)


def test_no_query_is_taken_for_moved_whose_own_store_cannot_be_read(tmp_path: Path) -> None:
    """Where stores of several sections are damaged, each is told by its own start: an app that moves none runs."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r", whole="q"))
    with world.node():
        until(lambda: world.values("q", "all") == world.values("r", "a") == [1, 3])
    for store in tmp_path.glob(f"partitions/{GROUP}/*/*/*"):
        spoil(store, "checkpoints")
    with world.node() as node:
        until(lambda: {each.subject for each in node.incidents.open() if each.kind == "partition"} >= {"*/all", "n/a"})
        assert "start" not in {each.kind for each in node.incidents.open()}


@pytest.mark.parametrize("ends", ENDS)
def test_a_source_that_is_renamed_is_told_with_what_comes_again(ends: str, tmp_path: Path) -> None:
    """Its queries begin anew at its beginning, under the ids of before, which is said; a source more, or one of which
    nothing was read, is no renaming."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, only_n("n", n), app=ENDS[ends])
    assert told_of_recovery(World(tmp_path / "empty", only_n("n", Logs("a")))) == ""
    assert told_of_recovery(World(tmp_path / "empty", only_n("nn", Logs("a")))) == ""
    with world.node(ends=ends):
        until(lambda: world.values("kn", "a") == [1, 3])
    assert told_of_recovery(world.then(declared(n, Logs("a"), both=False)), [1, 3]) == "", "a source more"
    came, world.came["kn", "a"] = world.came["kn", "a"], []
    told = told_of_recovery(world.then(only_n("nn", n)), [1, 3])
    assert "'n'" in told and "'nn'" in told and "'kn'" in told and "nothing of them is lost" not in told
    assert "its beginning" in told and "without state" in told and "ids from 0" in told and "its old name" in told
    world.came["kn", "a"] = came
    n.add("a", 3)
    with world.then(only_n("n", n)).node():
        until(lambda: world.values("kn", "a") == [1, 3, 6])


@pytest.mark.parametrize("name", ["eu/n", "a+b", "+", "n/"])
def test_a_source_whose_name_would_be_taken_apart_is_refused(name: str) -> None:
    """At once and by name: sections and positions of a group are called after sources."""
    app = App()
    app.query("q", app.source(name, Logs("a")))
    with pytest.raises(QueryRefused, match=f"{re.escape(repr(name))} cannot be read by a group of nodes.*leave the"):
        sections_of(app)
