"""Queries over several sources, which are hosted with all that read one of these, added to an app and taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conditions import until
from node_world import Logs, World

from hosting import App


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
