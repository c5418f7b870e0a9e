"""The name of a query that a group has had and disposed of: free in every section, while that of one at work is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from lanes import at_each_commit
from node_world import ENDS, GROUP, Logs, World

from hosting import App
from hosting.cli import mend_group
from hosting.cli.wording import BadUsage
from hosting.evaluator.evaluator import QueryEvaluator
from reliable_rx.errors import StoreUnavailable

MOVED = re.compile("query '[qr]' is hosted in .* dispose of it there first")
Declare = Callable[[App, World], None]


def over(n: Logs, *names: str, whole: str = "") -> Declare:
    """Return an app with sums called *names*, of which those in *whole* are over all partitions."""

    def declare(app: App, world: World) -> None:
        source = app.source("n", n)
        for name in names:
            summed = source.scan(lambda total, each: total + each, 0)
            app.query(name, summed, scope="all" if name in whole else "partition")
            app.sink(name, world.sink(name, world.name))

    return declare


def places(*names: str, whole: str) -> dict[str, str]:
    return {name: "all" if name in whole else "a" for name in names}


def dispose(world: World, query: str, monkeypatch: pytest.MonkeyPatch, *, cut_off: bool = False) -> None:
    """Run the command that disposes of *query*, which *world* does not declare; *cut_off* before its checkpoint."""
    app = App(**world.options)
    world.name = "command"
    world.declare(app, world)

    def fail(*arguments: Any, **options: Any) -> None:
        raise StoreUnavailable("cut off here", where="test")

    with monkeypatch.context() as patch:
        patch.setattr(mend_group, "load_app", lambda where: app)
        if cut_off:
            patch.setattr(QueryEvaluator, "checkpoint", fail)
        assert mend_group.dispose(str(world.folder), query, group=GROUP, app="app", yes=True) == cut_off


@pytest.mark.parametrize("cut_off", [at_each_commit(False), True], ids=["whole", "cut off"])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("before, after", [("", "q"), ("q", "")])
@pytest.mark.parametrize("others", [("r",), at_each_commit(())], ids=["beside another", "alone"])
def test_the_name_of_a_disposed_query_is_free_in_another_section(
    others: tuple[str, ...],
    before: str,
    after: str,
    ends: str,
    cut_off: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It begins there, where that section has come to, and what stays goes on."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", *others, whole=before), app=ENDS[ends])
    was, will = places("q", *others, whole=before), places("q", *others, whole=after)
    gives = {"q": [3]} if others and not after else {}
    with world.node(ends=ends):
        until(lambda: all(world.values(name, place) == [1, 3] for name, place in was.items()))
    dispose(world.then(over(n, *others, whole=before)), "q", monkeypatch, cut_off=cut_off)
    n.add("a", 3)
    with world.then(over(n, "q", *others, whole=after)).node():
        until(lambda: all(world.values(name, place) == gives.get(name, [1, 3, 6]) for name, place in will.items()))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("before, after", [("", "q"), ("q", ""), ("r", "qr"), ("qr", "r"), ("r", "q"), ("q", "r")])
def test_the_name_of_a_query_at_work_is_not_free(before: str, after: str, ends: str, tmp_path: Path) -> None:
    """It would begin anew where it is moved to: refused, whichever stay; with the scopes of before all goes on."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r", whole=before), app=ENDS[ends])
    was = places("q", "r", whole=before)
    with world.node(ends=ends):
        until(lambda: all(world.values(name, place) == [1, 3] for name, place in was.items()))
    with world.then(over(n, "q", "r", whole=after)).node() as node:
        until(lambda: any(each.kind == "start" and MOVED.search(str(each)) for each in node.incidents.open()))
        assert not node.agents
    n.add("a", 3)
    with world.then(over(n, "q", "r", whole=before)).node():
        until(lambda: all(world.values(name, place) == [1, 3, 6] for name, place in was.items()))


def test_the_command_says_where_it_has_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app that has the query in another section already is no guide to it: the way that works is named."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r"))
    with world.node():
        until(lambda: world.values("q", "a") == world.values("r", "a") == [1, 3])
    with pytest.raises(BadUsage, match=r"has a query 'q' in section '\*'.*give an app that does not declare it"):
        dispose(world.then(over(n, "q", "r", whole="q")), "q", monkeypatch)
    with pytest.raises(BadUsage, match="no partition has a query 'other'; "):
        dispose(world, "other", monkeypatch)


def test_a_query_that_is_created_again_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disposed of and declared again in its place, it goes on under the ids that follow, and is refused elsewhere."""
    n = Logs("a")
    n.add("a", 1, 2)
    world = World(tmp_path, over(n, "q", "r"))
    with world.node():
        until(lambda: world.values("q", "a") == world.values("r", "a") == [1, 3])
    dispose(world.then(over(n, "r")), "q", monkeypatch)
    n.add("a", 3)
    with world.node():
        until(lambda: world.came["q", "a"][-1][1] == 3 and world.values("r", "a")[-1] == 6)
    with world.then(over(n, "q", "r", whole="q")).node() as node:
        until(lambda: any(each.kind == "start" and "query 'q'" in str(each) for each in node.incidents.open()))
