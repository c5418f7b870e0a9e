"""A node to whom its group's stores fail: whatever call it is, at whatever moment, it goes on when they are back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conditions import DEADLINE_S
from lanes import at_each_commit, sample_of
from node_world import GROUP, Logs

from hosting import App, CallbackSink
from hosting.partitioned.node import Node
from hosting.partitioned.opening import Opened, open_group
from hosting.partitioned.timing import Timing
from reliable_rx.errors import StoreUnavailable

PARALLEL = 8
QUICK = Timing(session_s=0.6, closing_s=5.0, gather_s=0.0)
CALLS_MAX = 400


class Faults:
    """Counts all calls of what it wraps, and has *lasting* of them fail, from number *first* on: undone, or *done*."""

    def __init__(self, first: int | None, *, lasting: int = 1, done: bool = False, deep: bool = False) -> None:
        self.deep = deep
        self.first, self.lasting, self.done = first, lasting, done
        self.count = itertools.count()
        self.calls: list[str] = []

    def wrap(self, what: Any) -> Any:
        return Wrapped(what, self)

    def call(self, name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        number = next(self.count)
        self.calls.append(name)
        if self.first is None or not self.first <= number < self.first + self.lasting:
            return method(*given, **named)
        if self.done and hasattr(lost := method(*given, **named), "close"):
            lost.close()  # an answer that does not arrive holds nothing
        raise StoreUnavailable(f"the server is gone at call {number}, {name}")


class Wrapped:
    """One of the three that nodes share, or a partition's store that one of them opens, with faults."""

    def __init__(self, what: Any, faults: Faults) -> None:
        self._what, self._faults = what, faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._what, name)
        if name in ("journal", "logs"):
            return Wrapped(found, self._faults)
        if not callable(found) or name in ("close", "subscribe"):
            return found
        call = partial(self._faults.call, f"{type(self._what).__name__}.{name}", found)
        is_opening = name == "open" and type(self._what).__name__ == "FolderStores"
        return (lambda *given: Wrapped(call(*given), self._faults)) if is_opening and self._faults.deep else call


def run(folder: Path, faults: Faults) -> tuple[list[BaseException], dict[str, dict[int, Any]], bool]:
    """Run a node until all has ended; return what its run raised, what came, and whether it has ended."""
    logs, came = Logs("ab"), dict[str, dict[int, Any]]()
    for name in "ab":
        logs.add(name, 1, 2, end=True)
    app = App(checkpoint_interval_s=0.05)
    app.query("sums", app.source("logs", logs).scan(lambda total, each: total + each, 0))

    def sink(place: Any) -> CallbackSink:
        mine = came.setdefault(place.partition.name, {})
        return CallbackSink(lambda n, value: mine.setdefault(n, value))

    app.sink("sums", sink)
    shared = open_group(folder, GROUP)
    node = Node(
        app,
        *Opened(*map(faults.wrap, shared)),
        group=GROUP,
        timing=QUICK,
        commit_interval_s=0.05,
        period_s=0.2,
        writers=1,
    )
    raised: list[BaseException] = []

    def until_ended() -> None:
        try:
            node.run(until_ended=True)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=until_ended)
    thread.start()
    thread.join(DEADLINE_S)
    has_ended = not thread.is_alive()
    node.stop()
    thread.join(DEADLINE_S)
    shared.close()
    return raised, came, has_ended


def fault_of(folder: Path, faults: Faults) -> str:
    """Say what went otherwise in a run with *faults* than in one without."""
    folder.mkdir()
    raised, came, has_ended = run(folder, faults)
    if raised or not has_ended or came != {"a": {0: 1, 1: 3}, "b": {0: 1, 1: 3}}:
        first = faults.first or 0
        return f"{faults.calls[first : first + 1]} {first=} {faults.done=} {raised} {came} {has_ended=}"
    return ""


SLOW = pytest.mark.slow


@pytest.mark.parametrize("deep", [at_each_commit(False), True], ids=["shared", "partitions"])
@pytest.mark.parametrize(
    "lasting, done",
    [
        (1, False),
        pytest.param(1, True, marks=SLOW),
        pytest.param(8, False, marks=SLOW),
        pytest.param(8, True, marks=SLOW),
    ],
    ids=["once", "once, and was done", "for a while", "for a while, and was done"],
)
def test_whatever_call_of_a_node_fails(lasting: int, done: bool, deep: bool, tmp_path: Path) -> None:
    """For each call of a short run: it fails, once or for a while, with or without having been done; the node goes on
    to the end, and all came under its id."""
    whole = Faults(None, deep=deep)
    assert not fault_of(tmp_path / "whole", whole)
    assert len(whole.calls) < CALLS_MAX
    assert {name.rpartition(".")[2] for name in whole.calls} >= {"load", "swap", "open", "claim", "fetch", "commit"}
    faults = [Faults(first, lasting=lasting, done=done, deep=deep) for first in sample_of(3, range(len(whole.calls)))]
    with ThreadPoolExecutor(PARALLEL) as pool:
        found = list(pool.map(fault_of, (tmp_path / str(each.first) for each in faults), faults))
    assert not any(found), "\n".join(each for each in found if each)
