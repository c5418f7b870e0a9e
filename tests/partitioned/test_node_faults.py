"""Nodes under what a source and a store may do to them: splits in the midst of a hand-over, partitions that are no
longer listed, positions that cannot be read yet, user code that does not come back in time."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import GROUP, Logs, World, group_in, sums

from checkpoint.offsets import SqliteOffsets
from checkpoint.offsets.store import lag
from hosting import App, CallbackSink
from hosting.partitioned.member import Pauses
from hosting.partitioned.node import Node
from hosting.partitioned.opening import Opened, lease_authority, open_group
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Partition, Status
from reliable_rx.errors import SourceFailed

OFTEN_S = 0.1
SLOW = 13
INSIDE, GO_ON = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def slow_again() -> None:
    INSIDE.clear()
    GO_ON.clear()


def slow(value: int) -> int:
    """Take the first `SLOW` only when the test says so."""
    if value == SLOW and not INSIDE.is_set():
        INSIDE.set()
        GO_ON.wait(60.0)
    return value


def status(folder: Path, name: str) -> Status:
    return group_in(folder).holds[Partition("logs", name)].status


def test_a_split_while_the_parent_is_given_back(tmp_path: Path) -> None:
    """S6: children that appear while the parent's owner is still closing wait for the parent's end, wherever that is
    read; the parent is handed over, read on, and only then are they opened."""
    logs, order = Logs("p"), list[tuple[str, int]]()

    def declare(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs).map(slow))
        app.sink("same", lambda place: CallbackSink(lambda n, value: order.append((place.partition.name, value))))

    world = World(tmp_path, declare)
    with world.node("one") as one:
        until(lambda: len(one.agents) == 1)
        logs.add("p", SLOW)
        until(INSIDE.is_set)
        with world.node("two", period_s=OFTEN_S):
            one.stop()
            until(lambda: status(tmp_path, "p") is Status.CLOSING, "asking back")
            logs.list_also("left", "right", parents=("p",))
            for name in ("left", "right"):
                logs.add(name, 1, 2, end=True)
            until(lambda: Partition("logs", "left") in group_in(tmp_path).holds, "the children listed")
            assert status(tmp_path, "p") is Status.CLOSING
            assert status(tmp_path, "left") is status(tmp_path, "right") is Status.WAIT
            GO_ON.set()
            logs.add("p", 14, 15, end=True)
            until(lambda: {("left", 2), ("right", 2)} <= set(order), "the children")
    assert order[:3] == [("p", value) for value in (SLOW, 14, 15)]
    assert sorted(order[3:]) == [(name, value) for name in ("left", "right") for value in (1, 2)]


def test_a_partition_that_is_no_longer_listed(tmp_path: Path) -> None:
    """S18: a partition that its source no longer lists is given back, and read on if it is listed again, at a later
    epoch; the others do not notice."""
    logs = Logs("ab")
    world = World(tmp_path, sums(logs))
    with world.node(period_s=OFTEN_S) as node:
        logs.add("b", 1, 2)
        until(lambda: len(world.came.get(("sums", "b"), ())) == 2)
        (before,) = (each.lease.epoch for each in node.agents.values() if each.lease.partition.name == "b")
        logs.listed = ["a"]
        until(lambda: {each.name for each in node.agents} == {"a"}, "giving back")
        until(lambda: Partition("logs", "b") not in group_in(tmp_path).holds, "forgetting")
        logs.add("b", 3)
        logs.add("a", 5)
        until(lambda: world.came.get(("sums", "a")) == [(0, 5)])
        assert world.values("sums", "b") == [1, 3]
        logs.listed = ["a", "b"]
        until(lambda: world.values("sums", "b") == [1, 3, 6], "going on")
        (after,) = (each.lease.epoch for each in node.agents.values() if each.lease.partition.name == "b")
    assert after > before


def test_positions_that_are_loading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S4: while the log of positions is being read, nodes wait and say so in a line; then they begin where it says."""
    logs = Logs("ab")
    world = World(tmp_path, sums(logs))
    with world.node("one"):
        for name in "ab":
            logs.add(name, 1, 2)
        until(lambda: all(len(world.came.get(("sums", name), ())) == 2 for name in "ab"))
    stores: list[SqliteOffsets] = []

    def loading(shared: Opened) -> SqliteOffsets:
        stores.append(SqliteOffsets(tmp_path / "offsets", lease_authority(shared.registry, GROUP), load=False))
        return stores[0]

    world.offsets = loading
    with caplog.at_level(logging.WARNING), world.node("two", period_s=OFTEN_S) as two:
        for name in "ab":
            logs.add(name, 3)
        until(lambda: any("still being read" in each.message for each in caplog.records), "being told to wait")
        assert not opened(two)
        stores[0].load()
        until(lambda: all(len(world.came["sums", name]) == 3 for name in "ab"), "what came meanwhile")
    assert all(not each.exc_info for each in caplog.records)
    for name in "ab":
        assert world.values("sums", name) == [1, 3, 6]


def opened(node: Node) -> list[Any]:
    return [each for each in node.agents.values() if each.opened]


def test_who_does_not_close_in_time_is_fenced(tmp_path: Path) -> None:
    """L4, S19: an owner whose user code does not return is not waited for beyond its deadline; when it does return,
    what it made of the event is written by nobody but its successor."""
    logs, wrote = Logs("ab"), list[tuple[str, str, int]]()

    def declare(app: App, world: World) -> None:
        name = world.name
        app.query("same", app.source("logs", logs).map(slow))
        app.sink("same", lambda place: CallbackSink(lambda n, value: wrote.append((name, place.partition.name, value))))

    world = World(tmp_path, declare)
    timing = Timing(session_s=2.0, closing_s=0.5, gather_s=0.0)
    with world.node("one", timing=timing) as one:
        until(lambda: len(opened(one)) == 2)
        logs.add("a", 13)
        until(INSIDE.is_set)
        with world.node("two", timing=timing):
            logs.add("b", 1)
            until(lambda: len(wrote) >= 1)
            one.stop()
            until(lambda: ("two", "a", 13) in wrote, "its successor")
            GO_ON.set()
    assert sorted(set(wrote)) == sorted(wrote)
    assert [each for each in wrote if each[1] == "a"] == [("two", "a", 13)]


def test_lag_falls_once_the_fault_is_over(tmp_path: Path) -> None:
    """L3: what cannot be read falls behind, further and further; when it can, the node catches up with what goes on
    coming, one event for every two that it takes, until nothing is left to do."""
    logs, before, while_catching_up = Logs("ab"), 500, 200
    world = World(tmp_path, sums(logs), app={"batch_events_max": 20})
    shared = open_group(tmp_path, GROUP)

    def lags() -> dict[str, int]:
        ends = {("logs", name): len(values) for name, values in logs.values.items()}
        return {name: behind for (_, name), behind in lag(shared.offsets, GROUP, ends).items()}

    def caught_up() -> bool:
        now = lags()
        taken = len(logs.values["a"]) - now["a"]
        due = before + min(while_catching_up, taken // 2) - len(logs.values["a"])
        logs.add("a", *[1] * due)
        return due == 0 and now == {"a": 0, "b": 0}

    with world.node(pauses=Pauses(open_s=0.01, most_s=0.05)):
        logs.broken["a"] = SourceFailed("the disk of `a` does not answer", source="logs")
        for _ in range(2):
            logs.add("a", *[1] * (before // 2))
            logs.add("b", 1)
            until(lambda: lags() == {"a": len(logs.values["a"]), "b": 0}, "the lag of what cannot be read")
        del logs.broken["a"]
        until(caught_up, "no lag")
    shared.close()
    assert len(logs.values["a"]) == before + while_catching_up
    assert world.values("sums", "a") == [*range(1, before + while_catching_up + 1)]
