"""A node whose group can be read but not written, as on a full disk: seen until a write shows that it is over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import GROUP, QUICK, Logs, World, row, sums

from hosting.cli import status as status_command
from hosting.cli.node import last_words
from hosting.partitioned.node import Node
from hosting.partitioned.sqlite_registry import SqliteRegistry
from hosting.reports.incidents import Incident
from reliable_rx.errors import StoreUnavailable

ROUNDS = 30


class Disk:
    """The disk of a registry, which takes nothing while it is *full*."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        swap: Callable[..., bool] = SqliteRegistry.swap

        def swapped(registry: SqliteRegistry, *given: Any, **named: Any) -> bool:
            if self.full:
                raise StoreUnavailable("the disk is full")
            return swap(registry, *given, **named)

        monkeypatch.setattr(SqliteRegistry, "swap", swapped)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def trouble(node: Node) -> Incident | None:
    return next((each for each in node.incidents.open() if each.kind == "group"), None)


def more_than(seen: list[bool], count: int) -> bool:
    return len(seen) > count


def test_a_group_that_cannot_be_written_is_in_trouble_in_every_round(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rounds between two beats, which write nothing, show nothing: one line in the log, one incident, until a beat
    has been written."""
    caplog.set_level(logging.INFO, "reliable_rx")
    seen: list[bool] = []
    once = Node._round

    def round_(node: Node) -> None:
        once(node)
        seen.append(trouble(node) is not None and node.trouble is not None)

    monkeypatch.setattr(Node, "_round", round_)
    logs = Logs("a")
    world = World(tmp_path, sums(logs))
    with world.node() as node:
        until(lambda: node.agents)
        disk.full = True
        until(lambda: trouble(node), "the incident")
        seen.clear()
        for count in range(1, ROUNDS):
            node._waker.wake(at_once=True)
            until(partial(more_than, seen, count - 1))
        assert all(seen)
        disk.full = False
        until(lambda: trouble(node) is None and node.trouble is None, "its end")
        logs.add("a", 1, 2)
        until(lambda: world.came.get(("sums", "a")) == [(0, 1), (1, 3)])
    said = [each.message.partition(":")[0] for each in caplog.records if each.message.startswith("group ")]
    assert said == ["group 'group'", "group 'group' is well again"]


def test_a_group_that_stays_out_of_reach_is_an_error(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What lasts is no warning any more, in the log too; once it is over, nobody is told of it by the group."""
    monkeypatch.setattr("hosting.partitioned.node.LASTING_S", 0.0)
    world = World(tmp_path, sums(Logs("a")))
    with world.node() as node:
        until(lambda: node.agents)
        disk.full = True
        found = until(lambda: (each := trouble(node)) and each.level == "error" and each, "the incident")
        assert "the disk is full" in found.message
        until(lambda: any(each.levelno == logging.ERROR and "disk is full" in each.message for each in caplog.records))
        disk.full = False
        until(lambda: trouble(node) is None, "its end")
        until(lambda: not node._own_trouble(), "what it has of its own")


def test_status_tells_of_a_group_that_nobody_can_write_to(
    disk: Disk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is read is of before: `status` says for how long, with exit code 3, until it is written to again."""

    def status() -> tuple[int, str]:
        code = status_command.status(str(tmp_path), GROUP, new_offsets=None, app=None, as_json=False, watch=False)
        return code, capsys.readouterr().out

    world = World(tmp_path, sums(Logs("a")))
    with world.node(timing=replace(QUICK, session_s=0.6)) as node:
        until(lambda: node.agents and row(tmp_path, "a").lease == "open")
        assert until(lambda: status()[0] == 0)
        disk.full = True
        until(lambda: status()[0] == 3, "the exit code")
        assert "no member was heard of for" in status()[1]
        disk.full = False
        until(lambda: status()[0] == 0, "the end of it")
    assert status()[0] == 0, "a node that has left in order is not missed"


def test_who_could_not_hand_over_does_not_say_so(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says why, what becomes of its partitions, and ends with exit code 1."""
    monkeypatch.setattr("hosting.partitioned.node.LEAVE_S", 0.3)
    world = World(tmp_path, sums(Logs("a")))
    with world.node("one") as node:
        until(lambda: node.agents)
        disk.full = True
        until(lambda: trouble(node), "the incident")
    assert not node.has_left and last_words(node, stopped=True) == 1
    said = capsys.readouterr()
    assert "handed over" not in said.out and "the disk is full" in said.err and "session" in said.err
    disk.full = False
    monkeypatch.setattr("hosting.partitioned.node.LEAVE_S", 60.0)
    with world.node("two") as node:
        until(lambda: node.agents)
    assert node.has_left and last_words(node, stopped=True) == 0
    assert "everything has been handed over" in capsys.readouterr().out
