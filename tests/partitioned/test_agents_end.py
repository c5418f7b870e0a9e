"""However a node or one of its agents ends, nothing of theirs stays open: no store, sink, reader or thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from conditions import DEADLINE_S, until
from node_world import GROUP, QUICK, Logs

from checkpoint import SqliteStore
from hosting import App, CallbackSink
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.partitioned.agent import Agent
from hosting.partitioned.crew import DONE, Crew
from hosting.partitioned.leases import Leases
from hosting.partitioned.member import Pauses
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.readers import Readers
from reliable_rx.errors import StoreUnavailable
from reliable_rx.reliable import Reader


class Counted:
    """What is open, by kind."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[str, list[object]] = {"sink": [], "reader": [], "store": []}

    def opened(self, kind: str, what: object) -> None:
        with self.lock:
            self.open[kind].append(what)

    def closed(self, kind: str, what: object) -> None:
        with self.lock:
            if what in self.open[kind]:
                self.open[kind].remove(what)


class CountedLogs(Logs):
    def __init__(self, names: str, counted: Counted) -> None:
        super().__init__(names)
        self.counted = counted

    def open(self, partition: str, at: int, /) -> Reader:
        reader: Any = super().open(partition, at)
        self.counted.opened("reader", reader)
        reader.close = lambda: self.counted.closed("reader", reader)
        opened: Reader = reader
        return opened


class CountedSink(CallbackSink):
    fails = threading.Event()

    def __init__(self, counted: Counted) -> None:
        super().__init__(lambda n, value: None)
        self.counted = counted
        counted.opened("sink", self)

    def close(self) -> None:
        super().close()
        self.counted.closed("sink", self)
        if self.fails.is_set():
            raise OSError("this sink does not close")


@contextmanager
def running(folder: Path, counted: Counted, patch: pytest.MonkeyPatch) -> Iterator[tuple[Node, list[BaseException]]]:
    """A node over three partitions that all run; it is to be ended by the test."""
    logs, app = CountedLogs("abc", counted), App(checkpoint_interval_s=0.05)
    app.query("sums", app.source("logs", logs).scan(lambda total, each: total + each, 0))
    app.sink("sums", lambda place: CountedSink(counted))
    opened = SqliteStore.__init__
    closed = SqliteStore.close

    def open_it(self: SqliteStore, *arguments: Any, **options: Any) -> None:
        opened(self, *arguments, **options)
        counted.opened("store", self)

    def close_it(self: SqliteStore) -> None:
        closed(self)
        counted.closed("store", self)

    patch.setattr(SqliteStore, "__init__", open_it)
    patch.setattr(SqliteStore, "close", close_it)
    before = {each.name for each in threading.enumerate()}
    shared = open_group(folder, GROUP)
    node = Node(app, *shared, group=GROUP, timing=QUICK, pauses=Pauses(open_s=0.02, most_s=0.05))
    raised: list[BaseException] = []

    def run() -> None:
        try:
            node.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="the node")
    thread.start()
    try:
        until(lambda: len(node.agents) == 3 and all(each.opened for each in node.agents.values()))
        for name in "abc":
            logs.add(name, 1, 2, 3)
        yield node, raised
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    finally:
        node.stop()
        thread.join(DEADLINE_S)
        shared.close()
    until(lambda: {each.name for each in threading.enumerate()} <= before, "the end of all threads")
    assert counted.open == {"sink": [], "reader": [], "store": []}


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), KeyError("new"), SystemExit(3)], ids=lambda e: type(e).__name__
)
def test_a_node_that_ends_by_an_error(error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop raises: every agent lets go of what it has before the node is over."""

    def fail(self: Node, now: float) -> None:
        raise error

    with running(tmp_path, Counted(), monkeypatch) as (_, raised):
        monkeypatch.setattr(Node, "_beat", fail)
    assert raised == [error]


def test_an_agent_that_ends_by_system_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a thread elsewhere is a failure of its partition, which is tried again; the crew's threads stay."""
    left = [5]
    real = QueryEvaluator.step

    def step(self: QueryEvaluator) -> bool:
        if left[0]:
            left[0] -= 1
            raise SystemExit(1)
        return real(self)

    with running(tmp_path, Counted(), monkeypatch) as (node, raised):
        monkeypatch.setattr(QueryEvaluator, "step", step)
        for agent in node.agents.values():
            agent.wake()
        until(lambda: not left[0])
        until(lambda: len(node.agents) == 3 and all(each.opened for each in node.agents.values()))
        node.stop()
    assert not raised


def test_what_its_evaluator_does_not_let_go_of_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An evaluator that cannot even be abandoned is in the log, and its store is closed all the same."""
    real = QueryEvaluator.abandon

    def abandon(self: QueryEvaluator) -> None:
        real(self)
        raise OSError("this evaluator does not let go")

    with running(tmp_path, Counted(), monkeypatch) as (node, raised):
        monkeypatch.setattr(QueryEvaluator, "abandon", abandon)
        node.stop()
    assert not raised and "did not stop in order: OSError: this evaluator does not let go" in caplog.text


def test_an_agent_does_nothing_while_its_lease_is_not_to_be_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node may have the partition by then: it looks again until the lease may be trusted, or is lost."""
    looks, steps, step = count(), count(), QueryEvaluator.step
    looked = stepped = 0

    def dead(self: Leases) -> bool:
        nonlocal looked
        looked = next(looks)
        return False

    def counted(self: QueryEvaluator) -> bool:
        nonlocal stepped
        stepped = next(steps)
        return step(self)

    monkeypatch.setattr(Agent, "_wait", lambda self, evaluator: 0.01)  # and never falls asleep
    with running(tmp_path, Counted(), monkeypatch) as (node, raised):
        monkeypatch.setattr(QueryEvaluator, "step", counted)
        with monkeypatch.context() as patch:
            patch.setattr(Leases, "alive", dead)
            until(lambda: looked >= 12)
            before = stepped
            for agent in node.agents.values():
                agent.wake()
            until(lambda: looked >= 24)
            assert stepped == before
        node.stop()
    assert not raised


def test_a_group_that_cannot_be_reached_is_an_incident_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told while it lasts, and not for ever."""

    def told(node: Node) -> bool:
        return any(each.kind == "group" for each in node.incidents.open())

    def fail(self: Node, now: float) -> None:
        raise StoreUnavailable("no disk")

    with running(tmp_path, Counted(), monkeypatch) as (node, _):
        with monkeypatch.context() as patch:
            patch.setattr(Node, "_look", fail)
            until(lambda: told(node))
        until(lambda: not told(node))
        node.stop()


def test_a_node_is_told_at_once_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for its next round."""
    woken: list[dict[str, bool]] = []
    with running(tmp_path, Counted(), monkeypatch) as (node, _):
        wake = node._waker.wake

        def noted(**how: bool) -> None:
            if threading.current_thread() is threading.main_thread():
                woken.append(how)
            wake(**how)

        monkeypatch.setattr(node._waker, "wake", noted)
        node.stop()
        assert woken == [{"at_once": True}]


def test_what_an_evaluator_emits_is_kept_from_its_start_for_readers_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition's is, before it takes anything again: a replay could forget what they have not read."""
    held: list[bool] = []
    monkeypatch.setattr(Readers, "hold", lambda self, evaluator: held.append(evaluator.started))
    with running(tmp_path, Counted(), monkeypatch) as (node, _):
        assert held == [False] * 3
        node.stop()


def test_what_does_not_close_keeps_nothing_else_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A sink that raises when it is closed: its store, its readers and the other partitions are closed all the same,
    and the partition is not said to be handed over in order."""
    CountedSink.fails.set()
    try:
        with running(tmp_path, Counted(), monkeypatch) as (node, raised):
            node.stop()
        assert not raised
    finally:
        CountedSink.fails.clear()
    assert "this sink does not close" in caplog.text


def test_an_agent_told_to_stop_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node ends while a step is under way: the agent takes its last step behind that."""
    inside, go_on = threading.Event(), threading.Event()
    real = Agent._run

    def slow(self: Agent) -> float | None:
        if self.lease.partition.name == "a":
            inside.set()
            go_on.wait(DEADLINE_S)
        return real(self)

    with running(tmp_path, Counted(), monkeypatch) as (node, raised):
        monkeypatch.setattr(Agent, "_run", slow)
        for agent in node.agents.values():
            agent._phase = agent._run
            agent.wake()
        assert inside.wait(DEADLINE_S)
        monkeypatch.setattr(Node, "_look", lambda self, now: (_ for _ in ()).throw(RuntimeError("a bug")))
        node._waker.wake(at_once=True)
        until(lambda: node._crew._closed, "the end of the crew")
        go_on.set()
    assert [str(each) for each in raised] == ["a bug"]


def test_a_crew_that_closes_calls_what_was_woken() -> None:
    """Each task that was woken before is called once more, and none for ever."""
    called: list[int] = []
    crew = Crew(threads=1)
    begun, go_on = threading.Event(), threading.Event()

    def first() -> float:
        begun.set()
        go_on.wait(DEADLINE_S)
        return DONE

    def restless(number: int) -> float:
        called.append(number)
        return 0.0

    crew.task(first).wake()
    assert begun.wait(DEADLINE_S)
    tasks = [crew.task(partial(restless, number)) for number in range(5)]
    tasks[4].patient = True
    for task in tasks:
        task.wake()
    closing = threading.Thread(target=crew.close)
    closing.start()
    until(lambda: crew._closed)
    go_on.set()
    closing.join(DEADLINE_S)
    assert not closing.is_alive() and sorted(called) == [0, 1, 2, 3, 4]
