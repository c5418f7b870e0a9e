"""A source of a group whose records would be in other partitions, or have other numbers, is read by no node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import ENDS, World, group_in, status_in

from hosting import App, FileSource

COUNT = 40


def by_name(moved: str = "") -> Callable[[Any], str]:
    return lambda row: "x" if row["k"] in f"ab{moved}" else "y"


def new_key(row: Any) -> str:
    return "z" if row["k"] == "c" else by_name()(row)


def declared(folder: Path, given: Mapping[str, Any]) -> Callable[[App, World], None]:
    path = folder / "rows.jsonl"
    if not path.exists():
        path.write_text("".join(f"{json.dumps({'n': n, 'k': 'abcd'[n % 4]})}\n" for n in range(COUNT)))

    def declare(app: App, world: World) -> None:
        app.query("q", app.source("s", FileSource(path, follow=True, **given)).map(lambda row: row["n"]))
        app.sink("q", world.sink("q", world.name))

    return declare


def came(world: World) -> list[int]:
    return sorted(value for partition in ("rows.jsonl", *"xyz") for value in world.values("q", partition))


EDITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "moved": ({"partition_by": by_name()}, {"partition_by": by_name("c")}),
    "a new key": ({"partition_by": by_name()}, {"partition_by": new_key}),
    "added": ({}, {"partition_by": by_name()}),
    "taken away": ({"partition_by": by_name()}, {}),
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("edit", EDITS)
def test_a_group_is_not_read_on_with_another_key(edit: str, ends: str, tmp_path: Path) -> None:
    """The node says so and takes nothing, also of partitions that are new, however the last node ended; with the old
    key all goes on, once each."""
    before, after = EDITS[edit]
    world = World(tmp_path, declared(tmp_path, before), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: came(world) == list(range(COUNT)))
    edited = world.then(declared(tmp_path, after))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(f"{json.dumps({'n': COUNT, 'k': 'c'})}\n")
    with edited.node() as node:
        refused = "'s' does not count as it did: its partition_by"
        until(lambda: any(refused in str(each) for each in node.incidents.open()))
        assert not node.agents
    assert came(world) == list(range(COUNT))
    again = world.then(declared(tmp_path, before))
    with again.node():
        until(lambda: came(again) == list(range(COUNT + 1)))


@pytest.mark.parametrize("ends", ENDS)
def test_a_node_that_is_refused_is_given_nothing(ends: str, tmp_path: Path) -> None:
    """The group hears of it and of why, also where it has partitions that nobody else has."""
    world = World(tmp_path, declared(tmp_path, {"partition_by": by_name()}), app=ENDS[ends])
    with world.node(ends=ends):
        until(lambda: came(world) == list(range(COUNT)))
    with world.then(declared(tmp_path, {"partition_by": by_name("c")})).node("other") as node:
        until(lambda: any("does not count" in each.trouble for each in status_in(tmp_path).members))
        until(lambda: len(group_in(tmp_path).members) == 1, "the end of the session of the one that was killed")
        (member,) = group_in(tmp_path).members
        heard = group_in(tmp_path).members[member].number
        until(lambda: group_in(tmp_path).members[member].number >= heard + 2)
        assert not node.agents
        assert not any(each.owner for each in group_in(tmp_path).holds.values())


@pytest.mark.parametrize("ends", ENDS)
def test_where_nothing_was_read_the_key_may_be_another(ends: str, tmp_path: Path) -> None:
    """No record has a number yet."""
    (tmp_path / "rows.jsonl").touch()
    world = World(tmp_path, declared(tmp_path, {}), app=ENDS[ends])
    with world.node(ends=ends) as node:
        until(lambda: any(each.opened for each in node.agents.values()))
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps({'n': 0, 'k': 'c'})}\n")
    edited = world.then(declared(tmp_path, {"partition_by": by_name()}))
    with edited.node():
        until(lambda: came(edited) == [0])
