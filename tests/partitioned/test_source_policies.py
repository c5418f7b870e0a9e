"""What a source does with records that it cannot read is the same on nodes as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import World

from checkpoint import MemoryStore
from hosting import App, CallbackSink, FileSource
from reliable_rx.errors import SourceFailed

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
