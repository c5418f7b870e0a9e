"""Nodes of one process over a real folder, a source that a test appends to, and what came out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conditions import DEADLINE_S

from hosting import App, CallbackSink
from hosting.partitioned.beats import Profile
from hosting.partitioned.group import Group, read_group
from hosting.partitioned.node import Node
from hosting.partitioned.opening import Opened, open_group
from hosting.partitioned.places import Place
from hosting.partitioned.status import GroupStatus, status_of
from hosting.partitioned.timing import Timing
from reliable_rx.reliable import Batch, Listing, Reader

GROUP = "group"
NOTHING = SimpleNamespace(failures=0, status="", lease="", error="")
ENDS: dict[str, dict[str, Any]] = {"stopped": {}, "killed": {"checkpoint_interval_s": 1e9}}
"""How a node ends, behind a checkpoint or before the first one of any partition, with the options of its app."""
QUICK = Timing(session_s=2.0, closing_s=5.0, gather_s=0.0)


class Logs:
    """Partitions in memory that a test appends to, shared by the nodes of a process; readers are woken, as told."""

    def __init__(self, names: Sequence[str], *, waking: bool = True) -> None:
        self.values: dict[str, list[Any]] = {name: [] for name in names}
        self.over: set[str] = set()
        self.broken: dict[str, Exception] = {}
        self.listed = list(names)
        self.parents: dict[str, tuple[str, ...]] = {}
        self.wakes: dict[str, list[Callable[[], None]]] = {name: [] for name in names}
        self.waking = waking

    def add(self, partition: str, *values: Any, end: bool = False) -> None:
        self.values[partition] += values
        if end:
            self.over.add(partition)
        for wake in list(self.wakes[partition]):
            wake()

    def list_also(self, *names: str, parents: tuple[str, ...] = ()) -> None:
        """Have more partitions, which follow *parents*."""
        for name in names:
            self.values.setdefault(name, [])
            self.wakes.setdefault(name, [])
            self.parents[name] = parents
        self.listed = [*self.listed, *names]

    def end(self) -> None:
        for partition in self.values:
            self.add(partition, end=True)

    def partitions(self) -> Sequence[str]:
        return self.listed

    def listing(self) -> Sequence[Listing]:
        return [Listing(name, parents=self.parents.get(name, ())) for name in self.listed]

    def bounds(self, partition: str, /) -> tuple[int, int]:
        return 0, len(self.values[partition])

    def open(self, partition: str, at: int, /) -> Reader:
        return (WakingReader if self.waking else LogReader)(self, partition, at)


class LogReader:
    def __init__(self, logs: Logs, partition: str, at: int) -> None:
        self.logs, self.partition, self.position = logs, partition, at

    def fetch(self, count_max: int, /) -> Batch:
        if self.partition in self.logs.broken:
            raise self.logs.broken[self.partition]
        over = self.partition in self.logs.over
        first, values = self.position, self.logs.values[self.partition]
        batch = values[first : first + count_max]
        self.position += len(batch)
        return Batch(first, batch, ended=over and self.position == len(values))

    def acknowledge(self, n: int, /) -> None: ...
    def close(self) -> None: ...


class WakingReader(LogReader):
    def on_available(self, wake: Callable[[], None], /) -> None:
        self.logs.wakes[self.partition].append(wake)


class World:
    """A folder that nodes share, and everything that their callback sinks were given, by stream and partition."""

    def __init__(
        self, folder: Path, declare: Callable[[App, World], None], *, app: dict[str, Any] | None = None
    ) -> None:
        self.folder, self.declare = folder, declare
        self.options = {"checkpoint_interval_s": 0.05} | (app or {})
        self.came: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.hosts: dict[tuple[str, str], list[str]] = {}
        self.offsets: Callable[[Opened], Any] | None = None
        self.was_killed = False

    def then(self, declare: Callable[[App, World], None]) -> World:
        """Return the same folder with another app, and with what came before."""
        other = World(self.folder, declare, app=self.options)
        other.came, other.was_killed = self.came, self.was_killed
        return other

    def sink(self, stream: str, node: str) -> Callable[[Place], CallbackSink]:
        def make(place: Place) -> CallbackSink:
            key = (stream, place.partition.name)
            self.hosts.setdefault(key, []).append(node)
            return CallbackSink(lambda n, value: self.came.setdefault(key, []).append((n, value)))

        return make

    def values(self, stream: str, partition: str) -> list[Any]:
        """What came of *stream*, once checked that every id came exactly once and in order.

        Behind a kill callbacks are called again, and with the same values.
        """
        came = list(self.came.get((stream, partition), []))
        if self.was_killed:
            once = dict(came)
            assert all(once[n] == value for n, value in came), f"{stream} of {partition}: another value: {came}"
            came = list(once.items())
        assert [n for n, _ in came] == list(range(len(came))), f"{stream} of {partition}: ids {came}"
        return [value for _, value in came]

    @contextmanager
    def node(self, name: str = "a", *, ends: str = "stopped", **options: Any) -> Iterator[Node]:
        """Run a node in a thread; at the end it leaves in order, or is *killed*: gives nothing back, stores nothing.

        The next node of an instance that was killed has its partitions at once.
        """
        app = App(**self.options)
        self.name = name
        self.declare(app, self)
        shared = open_group(self.folder, GROUP)
        if self.offsets is not None:
            shared.offsets.close()
            shared = shared._replace(offsets=self.offsets(shared))
        # one writer: whatever waits for a thread that it holds itself would stand still
        defaults: dict[str, Any] = {
            "profile": Profile(tag=name, instance=name if ends == "killed" or self.was_killed else None),
            "timing": QUICK,
            "commit_interval_s": 0.05,
            "writers": 1,
        }
        node = Node(app, *shared, group=GROUP, **defaults | options)
        thread = threading.Thread(target=node.run, name=f"node {name}")
        thread.start()
        try:
            yield node
        finally:
            if ends == "killed":
                self.was_killed, node._over = True, lambda: True  # type: ignore[method-assign]
                node._waker.wake(at_once=True)
            else:
                node.stop()
            thread.join(DEADLINE_S)
            shared.close()
            assert not thread.is_alive(), f"node {name} does not leave: {node.agents}"


def sums(logs: Logs) -> Callable[[App, World], None]:
    """Return an app with a running sum of each log."""

    def declare(app: App, world: World) -> None:
        app.query("sums", app.source("logs", logs).scan(lambda total, each: total + each, 0))
        app.sink("sums", world.sink("sums", world.name))

    return declare


def group_in(folder: Path) -> Group:
    """Return what the group in *folder* has in common, as it is stored; a new one where there is nothing yet."""
    shared = open_group(folder, GROUP)
    try:
        _, found = shared.registry.load()
        return read_group(found, name=GROUP) if found else Group(GROUP)
    finally:
        shared.close()


def status_in(folder: Path) -> GroupStatus:
    """Return what `status` makes of the group in *folder*."""
    return status_of(group_in(folder), {}, {})


def row(folder: Path, name: str) -> Any:
    """Return what `status` says of a partition; of one that is not there, nothing."""
    return next((each for each in status_in(folder).partitions if each.partition == name), NOTHING)
