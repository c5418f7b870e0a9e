"""What an incident of a failed sink tells to do is what helps, for a program, for commands and on nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conditions import until
from node_world import Logs, World, row

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, JsonLinesSink, QueryEvaluator
from reliable_rx.errors import PositionUnavailable, ReliableRxError


def taken_away(folder: Path) -> Callable[[], None]:
    """Move the folder away in which the file is; return what puts it back."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    return lambda: (aside.rename(folder), None)[1]


def spoilt(folder: Path) -> Callable[[], None]:
    """Have another file in its place; return what puts the first one back."""
    path, aside = folder / "out.jsonl", folder / "aside"
    path.rename(aside)
    path.write_text("my notes\n")
    return lambda: (aside.replace(path), None)[1]


WAYS = pytest.mark.parametrize("lose", [taken_away, spoilt])


def values(folder: Path) -> int:
    return (folder / "out.jsonl").read_text().count('"value"')


class Program:
    """An evaluator whose one sink writes to a file in *folder*."""

    def __init__(self, store: MemoryStore, folder: Path) -> None:
        self.evaluator = QueryEvaluator(store, background=False)
        self.input = self.evaluator.push("n")
        if not store.generations():
            self.evaluator.create("q", rx.source("n"))
        self.evaluator.sink("q", JsonLinesSink(folder / "out.jsonl"))

    def take(self, value: int) -> None:
        self.input.push([value])
        while self.evaluator.step():
            pass
        self.evaluator.checkpoint()

    def failure(self) -> str:
        return next((each.message for each in self.evaluator.incidents.open() if each.kind == "sink"), "")


@WAYS
@pytest.mark.parametrize("how", ["reopen", "start again"])
def test_what_is_told_helps_in_a_program(tmp_path: Path, lose: Callable[[Path], Callable[[], None]], how: str) -> None:
    """The call that is named, as it stands there, and a start with the same sink: each id is in the file once."""
    folder, store = tmp_path / "out", MemoryStore()
    folder.mkdir()
    program = Program(store, folder)
    program.take(1)
    mend = lose(folder)
    program.take(2)
    message = program.failure()
    assert "mend it and start again (in a program: " in message and "without it" not in message
    mend()
    if how == "reopen":
        found = re.search(r"evaluator\.reopen\('\w+'\)", message)
        assert found is not None
        eval(found[0], {"evaluator": program.evaluator})
    else:
        program.evaluator.close()
        program = Program(store.reopen(), folder)
        program.evaluator.start()
    program.take(3)
    assert not program.failure() and values(folder) == 3
    program.evaluator.close()


@pytest.mark.slow
@pytest.mark.commit
@WAYS  # half a minute each: a node waits so long for a sink that cannot be written
def test_what_is_told_helps_on_a_node(tmp_path: Path, lose: Callable[[Path], Callable[[], None]]) -> None:
    """No call of an evaluator is named, which nobody has there; the next node goes on."""
    folder, logs = tmp_path / "out", Logs("a")
    folder.mkdir()

    def declare(app: App, world: World) -> None:
        app.query("q", app.source("logs", logs))
        app.sink("q", lambda place: JsonLinesSink(folder / "out.jsonl"))

    world = World(tmp_path / "group", declare)
    with world.node():
        logs.add("a", 1)
        until(lambda: (folder / "out.jsonl").exists() and values(folder) == 1)
        mend = lose(folder)
        logs.add("a", 2)
        until(lambda: row(world.folder, "a").status == "failing")
        message = row(world.folder, "a").error
        assert "mend it and start its node again" in message and "evaluator." not in message, message
        mend()
    with world.node():
        until(lambda: values(folder) == 2)


def test_no_remedy_needs_what_is_not_there() -> None:
    """Each error that a sink can have is answered by a start with it, which goes on behind what it has."""
    from hosting.edges.sink_remedies import ways_on

    kinds: list[type[Exception]] = [KeyError, OSError, *ReliableRxError.__subclasses__()]
    for kind in kinds:
        error = kind("it is so") if kind.__init__ is not ReliableRxError.__init__ else kind("it is so", path="/")
        said = ways_on(error, JsonLinesSink("out.jsonl"), "q", on_error="fail")
        unopened = ways_on(error, JsonLinesSink("out.jsonl"), "q", on_error="fail", is_open=False)
        assert "on_error=" not in unopened or kind is PositionUnavailable
        assert "start again" in said and "without" not in said and "(stream)" not in said, said
