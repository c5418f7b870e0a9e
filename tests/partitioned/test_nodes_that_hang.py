"""What does not return: a source that is asked for its partitions, and the server that a group shares."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import Logs, World, row

from hosting import App, CallbackSink
from hosting.cli.node import end_unheard, hand_over
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.node import Node
from hosting.partitioned.sqlite_registry import SqliteRegistry
from reliable_rx.reliable import Batch, Listing, Reader


class Gate:
    """Holds whoever passes while it is shut."""

    def __init__(self) -> None:
        self.held = 0
        self._is_open = threading.Event()
        self.open()

    def shut(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    def __call__(self) -> None:
        if not self._is_open.is_set():
            self.held += 1
            self._is_open.wait()
            self.held -= 1


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setattr("hosting.reports.hang_watch.HANG_S", 0.2)
    monkeypatch.setattr("hosting.partitioned.listing.UNANSWERED_S", 0.2)
    monkeypatch.setattr("hosting.partitioned.node.LIST_AGAIN_S", 0.05)
    monkeypatch.setattr("hosting.partitioned.node.PATIENCE_S", 0.1)
    gate = Gate()
    yield gate
    gate.open()
    until(lambda: not gate.held)


class SlowLogs(Logs):
    """Logs of which the list does not come while the gate is shut."""

    def __init__(self, names: Sequence[str], gate: Gate) -> None:
        super().__init__(names)
        self.gate = gate

    def listing(self) -> Sequence[Listing]:
        self.gate()
        return super().listing()


def both(fine: Logs, slow: Logs) -> Any:
    def declare(app: App, world: World) -> None:
        for name, logs in (("fine", fine), ("slow", slow)):
            app.query(f"q_{name}", app.source(name, logs))
            app.sink(f"q_{name}", world.sink(f"q_{name}", world.name))

    return declare


def hanging(place: str, fine: Logs, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an app of which the source ``slow`` has what does not return at a *place* while the gate is shut."""

    def at(here: str) -> None:
        if here == place:
            gate()

    class Slow(Logs):
        def open(self, partition: str, at_: int, /) -> Reader:
            at("its source is opened")
            reader = super().open(partition, at_)
            fetch = reader.fetch

            def fetched(count_max: int, /) -> Batch:
                at("its source is read")
                return fetch(count_max)

            reader.fetch = fetched  # type: ignore[method-assign]
            return reader

    class Fenced(CallbackSink):
        def fence(self, epoch: int, /) -> None:
            at("its sink is fenced")

    def made(place: Any) -> CallbackSink:
        at("its sink is made")
        return Fenced(lambda n, value: at("its sink is written"))

    opened = FolderStores.open

    def opens(stores: FolderStores, lease: Any, /) -> Any:
        if lease.partition.source == "slow":
            at("its store is opened")
        return opened(stores, lease)

    def declare(app: App, world: World) -> None:
        app.query("q_fine", app.source("fine", fine))
        app.sink("q_fine", world.sink("q_fine", world.name))
        slow = Slow("s")
        slow.add("s", 1)
        app.query("q_slow", app.source("slow", slow))
        app.sink("q_slow", made)

    monkeypatch.setattr(FolderStores, "open", opens)
    return declare


def kinds(node: Node) -> dict[str, str]:
    return {each.kind: each.subject for each in node.incidents.open()}


def thread_of_the_node() -> threading.Thread:
    return next(each for each in threading.enumerate() if each.name == "node a")


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_a_listing_that_does_not_return_stops_nothing_else(when: str, gate: Gate, tmp_path: Path) -> None:
    """The node beats on, the other sources are read, also what they list anew; it is seen which one it is, until it
    answers."""
    fine, slow = Logs("a"), SlowLogs("s", gate)
    if when == "from the start":
        gate.shut()
    world = World(tmp_path, both(fine, slow))
    with world.node(period_s=0.1) as node:
        if when == "later":
            until(lambda: len(node.agents) == 2)
            gate.shut()
        until(lambda: kinds(node).get("source") == "slow", "the incident")
        fine.list_also("b")
        fine.add("b", 1)
        until(lambda: world.came.get(("q_fine", "b")) == [(0, 1)], "what the other source has")
        beats = node._membership._answered
        until(lambda: node._membership._answered > beats + 2, "beats")
        assert "stall" not in kinds(node)
        if when == "later":
            slow.add("s", 1)
            until(lambda: world.came.get(("q_slow", "s")) == [(0, 1)], "what was listed before")
        gate.open()
        slow.add("s", 2)
        until(lambda: (world.came.get(("q_slow", "s")) or [(0, 0)])[-1][1] == 2, "what it has itself")
        until(lambda: not kinds(node), "the end of it")


@pytest.mark.parametrize(
    "place",
    [
        "its sink is made",
        "its sink is fenced",
        "its store is opened",
        "its source is opened",
        "its source is read",
        "its sink is written",
    ],
)
def test_whatever_of_a_partition_does_not_return_is_seen(
    place: str, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in what `status` reads, until it does; the others go on."""
    monkeypatch.setattr("hosting.reports.lasting.COMMIT_S", 0.2)
    monkeypatch.setattr("hosting.reports.reporter.LOOK_S", 0.05)
    monkeypatch.setattr("hosting.partitioned.agent.TELL_S", 0.0)
    fine = Logs("a")
    gate.shut()
    world = World(tmp_path, hanging(place, fine, gate, monkeypatch))
    with world.node(writers=4) as node:
        until(lambda: gate.held, "it hangs")
        until(lambda: "stall" in row(tmp_path, "s").error, "it is seen")
        until(lambda: any("stall" in each.message for each in caplog.records))
        fine.add("a", 1)
        until(lambda: world.came.get(("q_fine", "a")) == [(0, 1)], "the other one goes on")
        gate.open()
        until(lambda: not row(tmp_path, "s").error and not kinds(node), "the end of it")


def test_a_source_that_is_asked_where_a_group_begins_holds_up_no_beat(gate: Gate, tmp_path: Path) -> None:
    """It is told as what the group waits for; its node lives, and can be stopped."""
    fine, slow = Logs("a"), SlowLogs("s", gate)
    gate.shut()
    world = World(tmp_path, both(fine, slow))
    with world.node(start="latest", period_s=0.1) as node:
        until(lambda: kinds(node).get("start") == "group", "it is told")
        beats = node._membership._answered
        until(lambda: node._membership._answered > beats + 2, "beats")
        assert "stall" not in kinds(node)
        gate.open()
        until(lambda: len(node.agents) == 2 and not kinds(node), "it begins")


def test_a_node_whose_group_does_not_answer_says_so(
    gate: Gate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It cannot beat, and raises nothing: it is told with where it waits, until it goes on. Who stops it meanwhile does
    not wait for ever."""
    swap = SqliteRegistry.swap

    def swapped(registry: SqliteRegistry, *given: Any, **named: Any) -> bool:
        gate()
        return swap(registry, *given, **named)

    monkeypatch.setattr(SqliteRegistry, "swap", swapped)
    fine = Logs("a")
    world = World(tmp_path, both(fine, Logs("s")))
    with world.node() as node:
        until(lambda: len(node.agents) == 2)
        gate.shut()
        ends = threading.Thread(target=lambda: None)
        ends.start()
        assert hand_over(node, ends)
        monkeypatch.setattr("hosting.cli.node.HANDING_OVER_S", 0.01)
        monkeypatch.setattr("hosting.cli.node.GIVE_UP_S", 0.02)
        found = until(lambda: next((each for each in node.incidents.open() if each.subject == "node"), None))
        assert "does not answer" in found.message and "swapped" in found.trace
        until(lambda: (logging.WARNING, True) in ((r.levelno, "stall 'node'" in r.message) for r in caplog.records))
        assert not hand_over(node, thread_of_the_node()) and end_unheard(node) == 1
        said = capsys.readouterr().err
        assert "still waiting for fine/a, slow/s" in said and "without handing everything over (a round has" in said
        gate.open()
        until(lambda: not kinds(node), "the end of it")
        fine.add("a", 1)
        until(lambda: world.came.get(("q_fine", "a")) == [(0, 1)])
