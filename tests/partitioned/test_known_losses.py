"""Ways in which other systems lost, doubled or misplaced events, by their own reports, and tests that ours does not.

Those that other files show stand in the table, with their tests; the rest is tested here. Left out is what cannot be
said of these parts at all, such as sources that cannot be read again: ours can, by the definition of a source.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_harness import Cluster, cluster, is_over
from node_world import GROUP, Logs, World, sums
from test_points import is_there

from checkpoint.offsets import MemoryOffsets
from hosting import SharedSource
from hosting.partitioned.keys import Key
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.timing import Timing
from reliable_rx.reliable import Waking

SHOWN_ELSEWHERE = {
    "Orleans #9107: what came while a consumer was being subscribed was dropped": [
        "test_shared_source.py::test_an_event_after_open_returned_is_delivered",
        "test_shared_source.py::test_a_new_stream_is_pinned_while_it_is_told_of",
    ],
    "Orleans #9023: quiet streams fell out of the cache though nothing of theirs was lost": [
        "test_window.py::test_a_quiet_stream_holds_nothing_and_misses_nothing",
    ],
    "Orleans: a cache of fewer than ten events overflowed after they had left the queue": [
        "test_window.py::test_a_cache_of_any_size_moves_on",
    ],
    "Orleans: after a consumer said where it was, one event too many was passed over": [
        "test_deliveries.py::test_a_consumer_says_where_it_is",
    ],
    "Orleans: a lease was given back before its agent had stopped, so that two ran": [
        "test_protocol.py::test_a_broken_protocol_is_found",
        "test_membership.py::test_closed_is_said_of_what_has_stopped",
    ],
    "Orleans: nobody noticed that a lease had run out while its renewal was late": [
        "test_membership.py::test_a_silent_coordinator_ends_what_runs",
    ],
    "Orleans: a lease's token did not say which of two was older": ["test_protocol.py::test_no_epoch_is_used_twice"],
    "Orleans: a position was saved when an event had left the cache, delivered or not": [
        "test_offsets_committer.py::test_never_ahead_of_the_checkpoint",
    ],
    "Python: placing by the hash of a text differs from process to process": [
        "test_assignors.py::test_the_ring_is_the_same_in_every_process",
    ],
    "Kafka KAFKA-19779: a good commit was fenced because another partition had moved": [
        "test_offsets.py::test_partial_success",
    ],
    "Kafka: with two offset stores the larger position undid a rewind": [
        "test_offsets_dual.py::test_a_reset_needs_both"
    ],
    "Tunnel client, Java: closing left what was not yet committed": [
        "test_offsets_committer.py::test_the_end_is_committed",
        "test_node.py::test_the_offset_store_has_what_was_taken_when_all_have_left",
    ],
    "Tunnel client: failed checkpoints were swallowed": [
        "test_offsets_committer.py::test_commits_by_hand_are_retried",
        "test_offsets.py::test_nothing_is_promised_that_is_not_durable",
    ],
    "Tunnel client, Java: the pause was computed twice, so that every other one was left out": [
        "test_deliveries.py::test_retries_and_their_pauses",
    ],
    "Tunnel client, Go: a position that could not be read was taken for another": [
        "test_offsets_kill.py::test_damage_is_refused",
    ],
    "RocketMQ #1643, #10543: a wake-up at the wrong moment was swallowed": [
        "test_waking.py::test_of_many_threads_none_is_swallowed",
        "test_waking.py::test_a_round_begins_after_the_last_wake_up_and_not_before_the_gap",
    ],
    "RocketMQ #1945: shares of many small topics added up to 60 : 40": [
        "test_sticky.py::test_remainders_of_many_sources_do_not_add_up"
    ],
    "RocketMQ #2837: a queue had two owners for a while, by design": [
        "test_protocol.py::test_whatever_happens_a_partition_has_one_owner_that_counts",
    ],
    "RocketMQ #1547: two clients of one id left queues to nobody": [
        "test_membership.py::test_ids_come_from_the_coordinator",
        "test_node_kill.py::test_an_instance_started_twice",
    ],
    "RocketMQ externals #568: clients with different views assigned differently": [
        "test_registry.py::test_every_swap_of_many_threads_counts",
    ],
}


@pytest.mark.parametrize("loss", SHOWN_ELSEWHERE)
def test_every_loss_has_its_tests(loss: str) -> None:
    """The tests that the table names are there."""
    assert [each for each in SHOWN_ELSEWHERE[loss] if not is_there(each)] == []


def more_than(values: Sequence[object], count: int) -> bool:
    return len(values) > count


def has_agents(node: Node, count: int) -> bool:
    return len(node.agents) >= count


def is_member(nodes: Cluster, tag: str) -> bool:
    return tag in nodes.tags()


def test_the_event_that_comes_as_a_reader_runs_dry() -> None:
    """Orleans #9023: an event was skipped that arrived in the moment in which a cursor had just found nothing more.

    Here a reader that found nothing is woken, whatever moment the next event comes in.
    """
    logs, count = Logs("a"), 3_000
    shared = SharedSource(logs, events_max=16)
    reader, woken, got = shared.open("a", 0), threading.Event(), list[int]()
    moved = threading.Condition()
    assert isinstance(reader, Waking)
    reader.on_available(woken.set)

    def take() -> None:
        while len(got) < count:
            batch = reader.fetch(4)
            with moved:
                got.extend(batch.values)
                moved.notify()
            reader.acknowledge(len(got) - 1)
            if not batch.values:
                assert woken.wait(60.0), f"nobody said that event {len(got)} is there"
                woken.clear()

    taker = threading.Thread(target=take)
    taker.start()
    for n in range(count):
        logs.add("a", n)
        if n % 7 == 0:
            with moved:
                assert moved.wait_for(partial(more_than, got, n), 60.0), f"event {n} has not come"
    taker.join()
    reader.close()
    assert got == list(range(count))


def test_the_event_that_comes_as_a_partition_falls_asleep(tmp_path: Path) -> None:
    """Orleans #9023 again, of our own making: a partition closes its evaluator when nothing comes.

    Each event comes as soon as the one before is out, which is when its partition begins to fall asleep.
    """
    logs = Logs("a")
    world = World(tmp_path, sums(logs))
    with world.node(sleep_after_s=0.0):
        for n in range(40):
            logs.add("a", 1)
            until(partial(more_than, world.came.setdefault(("sums", "a"), []), n), f"event {n}")
    assert world.values("sums", "a") == list(range(1, 41))


def test_a_node_that_stops_while_it_opens(tmp_path: Path) -> None:
    """Orleans #10286: shutting down raced with the timers that took leases, and left them held by nobody alive.

    Here nodes stop at many moments of their beginning. Each ends, and the next one has everything at once, though the
    sessions are long.
    """
    logs = Logs("abc")
    world = World(tmp_path, sums(logs))
    timing = Timing(session_s=300.0, closing_s=300.0, gather_s=0.0)
    for name in "abc":
        logs.add(name, 1, 2, 3)
    for number in range(12):
        with world.node(f"short-lived {number}", timing=timing) as node:
            until(partial(has_agents, node, min(3, number // 2)))
            if number % 3 == 2:
                until(lambda: all(agent.opened for agent in node.agents.values()))
    with world.node("last", timing=timing) as node:
        until(lambda: len(node.agents) == 3, "all partitions, long before a session is over")
        until(lambda: all(len(world.came.get(("sums", name), ())) == 3 for name in "abc"))
    for name in "abc":
        assert world.values("sums", name) == [1, 3, 6]


def test_a_hand_over_does_not_wait_for_beats(tmp_path: Path) -> None:
    """Tunnel client: a partition changed hands in up to three heartbeats, as reports waited for the next one.

    Here two nodes share, one leaves, and the other has everything, in less time than passes between two beats.
    """
    logs = Logs("abcd")
    world = World(tmp_path, sums(logs))
    timing = Timing(session_s=600.0, closing_s=600.0, gather_s=0.0)
    assert timing.beat_s > 100.0
    with world.node("stays", timing=timing) as stays:
        until(lambda: len(stays.agents) == 4)
        with world.node("goes", timing=timing) as goes:
            until(lambda: len(stays.agents) == len(goes.agents) == 2, "an even share")
        until(lambda: len(stays.agents) == 4, "everything back")


def test_a_zombie_is_refused_however_often_it_asks() -> None:
    """Tunnel client, Java: told that its number was not the newest, a former owner read the newest and tried again
    with that, and won.

    Here what a commit is refused for is the lease, which nothing that can be read makes newer.
    """
    partition: Key = ("logs", "a")
    held = {partition: ("old", 1)}
    offsets = MemoryOffsets(lambda group, each: held.get(each))
    assert offsets.commit(GROUP, {partition: 5}, {partition: ("old", 1)}) == {partition: None}
    held[partition] = ("new", 2)
    assert offsets.commit(GROUP, {partition: 7}, {partition: ("new", 2)}) == {partition: None}
    for _ in range(3):
        position = offsets.fetch(GROUP)[partition].position
        refusal = offsets.commit(GROUP, {partition: position + 1}, {partition: ("old", 1)})[partition]
        assert refusal is not None and refusal.reason == "fenced"
    assert offsets.fetch(GROUP)[partition].position == 7


def test_acknowledged_event_by_event() -> None:
    """Orleans #850: events were acknowledged to their queue by tenths of the cache, so that a crash repeated them.

    Here the source learns of every event that all readers are done with.
    """
    acknowledged: list[int] = []

    class Telling(Logs):
        def open(self, partition: str, at: int, /) -> Any:
            reader = super().open(partition, at)
            reader.acknowledge = acknowledged.append  # type: ignore[method-assign]
            return reader

    logs = Telling("a")
    shared = SharedSource(logs, events_max=1_000)
    one, other = shared.open("a", 0), shared.open("a", 0)
    logs.add("a", *range(5))
    assert list(one.fetch(10).values) == list(other.fetch(10).values) == list(range(5))
    for n in range(5):
        one.acknowledge(n)
        assert acknowledged == list(range(n))
        other.acknowledge(n)
        assert acknowledged == list(range(n + 1))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_every_node_is_replaced_while_events_come(tmp_path: Path) -> None:
    """Orleans #8986, #8399: events were missed while the servers of a cluster were replaced one after the other.

    Here three real nodes are told to stop, one by one, each after its successor has come; nothing is lost, and as all
    was handed over in order, not even a sink that knows nothing is told anything twice.
    """
    with cluster(tmp_path, session_s=60.0) as nodes:
        for number in range(3):
            nodes.start(f"old{number}")
        nodes.until(lambda: len(set(nodes.owners().values())) == 3, "a partition each")
        for number in range(3):
            nodes.start(f"new{number}")
            nodes.until(partial(is_member, nodes, f"new{number}"), "the successor")
            nodes.begin(events_max=25 * (number + 1))  # so some come just now, however long all this takes
            nodes.signal(f"old{number}", signal.SIGTERM)
            nodes.until(partial(is_over, nodes.nodes[f"old{number}"]), "an orderly end")
        nodes.begin()
        nodes.finish()
        nodes.check(losses=0)


def test_where_a_group_has_come_to_outlives_all_its_nodes(tmp_path: Path) -> None:
    """RocketMQ: positions in the memory of a broker, written to a file every few seconds, went back when it died.

    Here what a node says that it has committed is read by the next one from the disk.
    """
    logs = Logs("a")
    logs.add("a", 1, 2, 3)
    world = World(tmp_path, sums(logs))
    with world.node("one"):
        until(lambda: len(world.came.get(("sums", "a"), ())) == 3)
        shared = open_group(tmp_path, GROUP)
        until(lambda: shared.offsets.fetch(GROUP).get(("logs", "a")) is not None)
        until(lambda: shared.offsets.fetch(GROUP)["logs", "a"].position == 3)
        shared.close()
    again = open_group(tmp_path, GROUP)
    assert again.offsets.fetch(GROUP)["logs", "a"].position == 3
    again.close()
