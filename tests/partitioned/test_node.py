"""Nodes: partitions shared, handed over, put to sleep, failing, read again; one process, real stores, real threads."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import GROUP, Logs, World, sums

import reliable_rx as rx
from checkpoint.offsets import SqliteOffsets
from hosting import App, CallbackSink
from hosting.partitioned.group import read_group
from hosting.partitioned.lease_guard import LeaseGuard
from hosting.partitioned.opening import open_group
from hosting.partitioned.places import Place
from hosting.partitioned.sections import WHOLE, sections_of
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition, Status
from reliable_rx.errors import LeaseLost, QueryRefused, SourceFailed
from reliable_rx.reliable import Listing


def totals(values: list[int]) -> list[int]:
    return [sum(values[: index + 1]) for index in range(len(values))]


def test_two_nodes_share_the_partitions_evenly(tmp_path: Path) -> None:
    """S4, S13: each of two nodes hosts half of the partitions, and everything comes once and in order."""
    logs = Logs("abcdef")
    world = World(tmp_path, sums(logs))
    with world.node("one") as one, world.node("two") as two:
        until(lambda: len(one.agents) == len(two.agents) == 3, "an even share")
        for name in logs.values:
            logs.add(name, *range(100), end=True)
        until(lambda: all(len(world.came.get(("sums", name), ())) == 100 for name in logs.values))
    for name in logs.values:
        assert world.values("sums", name) == totals(list(range(100)))


def test_an_orderly_hand_over_repeats_nothing(tmp_path: Path) -> None:
    """S8: when a node leaves in order, its successor goes on behind its last event, whatever the sink knows."""
    logs = Logs("ab")
    world = World(tmp_path, sums(logs))
    with world.node("one"):
        for name in "ab":
            logs.add(name, *range(50))
        until(lambda: all(len(world.came.get(("sums", name), ())) == 50 for name in "ab"))
    with world.node("two"):
        for name in "ab":
            logs.add(name, *range(50, 100))
        until(lambda: all(len(world.came.get(("sums", name), ())) == 100 for name in "ab"))
    for name in "ab":
        assert world.values("sums", name) == totals(list(range(100)))
        assert world.hosts["sums", name] == ["one", "two"]


def test_the_offset_store_has_what_was_taken_when_all_have_left(tmp_path: Path) -> None:
    """S5: after an orderly stop the committed positions are the positions, and nobody holds a lease."""
    logs = Logs("ab")
    world = World(tmp_path, sums(logs))
    with world.node():
        logs.add("a", 1, 2, 3)
        logs.add("b", 1)
        until(lambda: len(world.came) == 2 and len(world.came["sums", "a"]) == 3)
    shared = open_group(tmp_path, GROUP)
    committed = shared.offsets.fetch(GROUP)
    shared.close()
    assert {key: each.position for key, each in committed.items()} == {("logs", "a"): 3, ("logs", "b"): 1}


def test_a_reset_reads_again_and_goes_on_with_the_ids(tmp_path: Path) -> None:
    """S3, K12: after a reset the queries begin anew at that position, under the ids that follow; it happens once."""
    logs = Logs("a")
    world = World(tmp_path, sums(logs))
    with world.node("one"):
        logs.add("a", 1, 2, 3, 4)
        until(lambda: len(world.came.get(("sums", "a"), ())) == 4)
    shared = open_group(tmp_path, GROUP)
    shared.offsets.reset(GROUP, {("logs", "a"): 2})
    shared.close()
    for name in ("two", "three"):
        with world.node(name):
            until(lambda: len(world.came["sums", "a"]) == 6)
    assert world.values("sums", "a") == [1, 3, 6, 10, 3, 7]


def test_a_partition_that_has_ended_never_opens_again(tmp_path: Path) -> None:
    """S6: the end is committed, the partition is terminated, and a node that comes later leaves it alone."""
    logs = Logs("a")
    world = World(tmp_path, sums(logs))
    with world.node("one"):
        logs.add("a", 1, 2, end=True)
        shared = open_group(tmp_path, GROUP)
        until(lambda: statuses(shared) == [Status.TERMINATED], "the end")
        shared.close()
    with world.node("two") as two:
        until(lambda: two._membership.id is not None)
        assert not two.agents
    assert world.hosts["sums", "a"] == ["one"]


def statuses(shared: Any) -> list[Status]:
    _, document = shared.registry.load()
    if document is None:
        return []
    return [hold.status for hold in read_group(document, name=GROUP).holds.values()]


@pytest.mark.parametrize("waking", [True, False], ids=["woken", "looked at"])
def test_an_idle_partition_sleeps_and_wakes_up(tmp_path: Path, waking: bool) -> None:
    """A partition where nothing happens gives up its evaluator and store, and goes on where it was."""
    logs = Logs("ab", waking=waking)
    world = World(tmp_path, sums(logs))
    with world.node(sleep_after_s=0.0) as node:
        logs.add("a", 1, 2)
        until(lambda: len(world.came.get(("sums", "a"), ())) == 2)
        until(lambda: len(node.agents) == 2 and all(each.asleep for each in node.agents.values()), "sleep")
        logs.add("a", 3)
        until(lambda: len(world.came["sums", "a"]) == 3)
        until(lambda: all(each.asleep for each in node.agents.values()), "sleep again")
    assert world.values("sums", "a") == [1, 3, 6]


def test_a_timer_wakes_a_sleeping_partition(tmp_path: Path) -> None:
    """A query that waits for time gets it, though its evaluator sleeps meanwhile."""
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        app.query("quiet", app.source("logs", logs).debounce(0.3))
        app.sink("quiet", world.sink("quiet", world.name))

    world = World(tmp_path, declare)
    with world.node(sleep_after_s=0.0) as node:
        logs.add("a", 1, 2)
        until(lambda: any(each.asleep for each in node.agents.values()), "sleep before the timer")
        until(lambda: world.came.get(("quiet", "a")) == [(0, 2)])


def test_few_are_awake_at_once(tmp_path: Path) -> None:
    """With more partitions than may be awake all are served, and who has nothing to do sleeps at once."""
    logs = Logs([str(number) for number in range(12)])
    world = World(tmp_path, sums(logs))
    with world.node(awake_max=2) as node:
        for name in logs.values:
            logs.add(name, 1)
        until(lambda: len(world.came) == 12)
        until(lambda: sum(not each.asleep for each in node.agents.values()) <= 2, "sleep")


def test_one_evaluator_sees_all_partitions(tmp_path: Path) -> None:
    """A query of scope all is hosted once, over every partition, beside those that are spread."""
    logs = Logs("abc")

    def declare(app: App, world: World) -> None:
        source = app.source("logs", logs)
        app.query("sums", source.scan(lambda total, each: total + each, 0))
        app.query("count", source.count(), scope="all")
        app.sink("sums", world.sink("sums", world.name))
        app.sink("count", world.sink("count", world.name))

    world = World(tmp_path, declare)
    with world.node("one") as one, world.node("two") as two:
        until(lambda: len(one.agents) == len(two.agents) == 2, "four leases on two nodes")
        for name in "abc":
            logs.add(name, 1, 2, end=True)
        until(lambda: world.came.get(("count", "all")) == [(0, 6)])
        until(lambda: all(len(world.came.get(("sums", name), ())) == 2 for name in "abc"))


def test_logs_split_by_the_same_key_are_read_together(tmp_path: Path) -> None:
    """Queries of two sources with the same partitions are spread, one evaluator for both logs of a partition."""
    left, right = Logs("ab"), Logs("ab")

    def declare(app: App, world: World) -> None:
        both = app.source("left", left).merge(app.source("right", right))
        app.query("sums", both.scan(lambda total, each: total + each, 0))
        app.sink("sums", world.sink("sums", world.name))

    world = World(tmp_path, declare)
    with world.node() as node:
        for logs in (left, right):
            logs.add("a", 1, 1)
        until(lambda: len(world.came.get(("sums", "a"), ())) == 4)
        until(lambda: {each.positions.get(("left+right/left", "a"), 0) for each in node.agents.values()} >= {2})
    shared = open_group(tmp_path, GROUP)
    committed = shared.offsets.fetch(GROUP)
    shared.close()
    assert committed["left+right/left", "a"].position == committed["left+right/right", "a"].position == 2


def test_sources_with_other_partitions_are_refused() -> None:
    """Two logs that were not split alike cannot be read partition by partition: the sentence names the odd one."""
    app = App()
    app.query("both", app.source("left", Logs("ab")).merge(app.source("right", Logs("ac"))))
    (section,) = sections_of(app)
    with pytest.raises(SourceFailed, match="only one of them has b, c"):
        section.shards()


def test_scopes_do_not_mix() -> None:
    """A query over all partitions cannot read the stream of one that lives in many evaluators."""
    app = App()
    one = app.query("one", app.source("logs", Logs("a")).map(lambda each: each))
    app.query("two", one.count(), scope="all")
    with pytest.raises(QueryRefused, match="give both the same scope"):
        sections_of(app)


def test_a_query_without_a_source_is_refused() -> None:
    """No partition of it could be shared; one evaluator may have it, on a node or not."""
    app = App()
    app.query("clock", rx.interval(1.0))
    with pytest.raises(QueryRefused, match=r"'clock' reads no source.*reliable-rx run.*scope="):
        sections_of(app)
    app = App()
    app.query("clock", rx.interval(1.0), scope="all")
    assert [each.name for each in sections_of(app)] == [WHOLE]


def test_a_poisoned_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    """L5: a log that cannot be read is tried again after a growing pause; the others go on, and it comes back."""
    logs = Logs("ab")
    logs.broken["a"] = SourceFailed("the disk is on fire", source="logs", partition="a")
    world = World(tmp_path, sums(logs))
    with world.node():
        logs.add("a", 1)
        logs.add("b", 1, 2)
        until(lambda: len(world.came.get(("sums", "b"), ())) == 2)
        assert ("sums", "a") not in world.came
        del logs.broken["a"]
        until(lambda: world.came.get(("sums", "a")) == [(0, 1)])


GO_ON = threading.Event()


def stuck(value: int) -> int | bool:
    return GO_ON.wait(60.0) if value < 0 else value


def test_a_stuck_partition_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L4, L5: user code that does not return holds up its own partition only, though the crew has one thread."""
    monkeypatch.setattr("hosting.partitioned.node.STUCK_S", 0.2)
    logs = Logs("ab")
    GO_ON.clear()

    def declare(app: App, world: World) -> None:
        app.query("waited", app.source("logs", logs).map(stuck))
        app.sink("waited", world.sink("waited", world.name))

    world = World(tmp_path, declare)
    with world.node(threads=1) as node:
        until(lambda: len(node.agents) == 2)
        logs.add("a", -1)
        logs.add("b", 5)
        until(lambda: world.came.get(("waited", "b")) == [(0, 5)])
        GO_ON.set()
        until(lambda: world.came.get(("waited", "a")) == [(0, True)])


def test_who_has_lost_a_lease_writes_nothing_more(tmp_path: Path) -> None:
    """S1, S19: an owner whose epoch is over is refused by the store, the positions and the sink alike."""
    logs = Logs("a")
    world = World(tmp_path, sums(logs))
    with world.node() as node:
        until(lambda: len(node.agents) == 1)
        (agent,) = node.agents.values()
        until(lambda: agent._phase == agent._run)
        shared = open_group(tmp_path, GROUP)
        newer = replace(agent.lease, epoch=Epoch(agent.lease.epoch + 100))
        shared.stores.open(newer).close()
        shared.close()
        logs.add("a", 1)
        until(lambda: node.agents.get(agent.lease.partition) is not agent, "the end of the former owner")
    assert world.came.get(("sums", "a"), []) == [], "the epoch was over before the event came"


def test_a_guarded_sink_is_not_written_to_without_a_lease() -> None:
    """A sink that cannot fence is written to only while its node may trust its lease."""

    came: list[Any] = []
    alive = [True]
    lease = Lease(Partition("logs", "a"), MemberId("m"), Epoch(3))
    guarded = CallbackSink(lambda n, value: came.append(value))
    sink = LeaseGuard(guarded, Place(GROUP, lease), lambda: alive[0], label="came")
    sink.open("s")
    sink.write(0, ["x"])
    alive[0] = False
    for write in (lambda: sink.write(1, ["y"]), lambda: sink.end(1, None), sink.flush, lambda: sink.open("s")):
        with pytest.raises(LeaseLost, match="epoch 3 is over here"):
            write()
    assert came == ["x"]


def test_where_to_begin_counts_once(tmp_path: Path) -> None:
    """A group that starts at the latest event begins there once: who comes later goes on where it was."""
    logs = Logs("a")
    logs.add("a", 1, 2, 3)
    world = World(tmp_path, sums(logs))
    with world.node("one", start="latest") as node:
        until(lambda: all(each._phase == each._run for each in node.agents.values()) and node.agents)
        logs.add("a", 10)
        until(lambda: len(world.came.get(("sums", "a"), ())) == 1)
    logs.add("a", 20)
    with world.node("two", start="latest"):
        until(lambda: len(world.came["sums", "a"]) == 2)
    assert world.values("sums", "a") == [10, 30]


def test_positions_outlive_their_stores(tmp_path: Path) -> None:
    """K9: a partition whose store is gone begins where the group has committed, not at its start."""
    logs = Logs("a")
    logs.add("a", 1, 2, 3)
    world = World(tmp_path, sums(logs))
    with world.node("one"):
        until(lambda: len(world.came.get(("sums", "a"), ())) == 3)
    shared = open_group(tmp_path, GROUP)
    assert isinstance(shared.offsets, SqliteOffsets)
    (partition,) = sections_of_one(world)
    shared.stores.forget(partition)
    shared.close()
    logs.add("a", 4)
    with world.node("two"):
        until(lambda: len(world.came["sums", "a"]) == 4)
    assert world.came["sums", "a"][3] == (0, 4), "a new store counts its outputs from 0, and knows no sum"


def sections_of_one(world: World) -> list[Any]:
    app = App()
    world.name = "nobody"
    world.declare(app, world)
    return [shard.partition for section in sections_of(app) for shard in section.shards()]


class Growing(Logs):
    """Logs to which partitions are added while they are read."""

    def listing(self) -> list[Listing]:
        return [Listing(name) for name in self.values]

    def split(self, partition: str, child: str) -> None:
        self.values[child], self.wakes[child] = [], []


def test_one_evaluator_commits_also_what_appears_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that appears while one evaluator reads all of them is read, and its position committed."""
    monkeypatch.setattr("hosting.edges.ingress.LISTING_S", 0.05)
    logs = Growing("a")

    def declare(app: App, world: World) -> None:
        app.query("all", app.source("logs", logs).scan(lambda total, each: total + each, 0), scope="all")
        app.sink("all", world.sink("all", world.name))

    world = World(tmp_path, declare)
    with world.node() as node:
        logs.add("a", 1)
        until(lambda: len(world.came.get(("all", "all"), ())) == 1)
        logs.split("a", "b")
        logs.add("b", 10)
        until(lambda: len(world.came["all", "all"]) == 2)
        until(lambda: any(("*/logs", "b") in each.positions for each in node.agents.values()))
    shared = open_group(tmp_path, GROUP)
    committed = shared.offsets.fetch(GROUP)
    shared.close()
    assert {key: each.position for key, each in committed.items()} == {("*/logs", "a"): 1, ("*/logs", "b"): 1}
