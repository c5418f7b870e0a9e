"""Real nodes, killed and stopped at every named place of their work: each partition comes out once, as un-hosted.

Three partitions, each into a file of lines and a table of its own. A *victim* has them all; another node joins, so that
the victim hands one over; at some point the victim dies, or is stopped (SIGSTOP) until its session is over and others
have gone on, and then continues, believing that it may write. In the second half the victim is the successor: it takes
over from a node that is stopped while it holds every lock, and dies of it.

Of the fault menu: SIGSTOP past the session and then SIGCONT; a kill at each named probe; a duplicate instance id.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_harness import KILLED, Cluster, cluster, is_over, is_stopped, locks_others_out

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads from /proc whether a process is stopped")

POINTS = (
    "agent.admitted@1", "agent.admitted@3", "agent.fenced@2", "agent.took_over@2", "agent.claimed@2", "agent.opened@3",
    "agent.checkpointed@1", "agent.committed@1", "agent.committed@2",
    "registry.before_swap@2", "registry.before_swap@4", "registry.after_swap@1", "registry.after_swap@3",
    "offsets.before_commit@2", "offsets.before_commit@5", "offsets.mid_commit@3",
    "offsets.after_commit@2", "offsets.after_commit@6",
    "journal.before_commit@4", "journal.after_commit@9",
    "checkpoint.before_snapshot@4", "checkpoint.before_commit@5", "checkpoint.mid_commit@7",
    "checkpoint.after_commit@6", "checkpoint.before_truncate@2", "checkpoint.before_acknowledge@3",
    "sink.mid_write@4", "sink.before_flush@3", "sink.mid_flush@2", "sink.after_flush@5", "sink.before_acknowledge@4",
    "take_over.after_claim@2", "take_over.after_rename@1", "take_over.before_clean@3",
    "take_over.fence@3", "take_over.fence@11", "take_over.fence@40", "take_over.fence@41",
)  # fmt: skip
OF_SUCCESSORS = (
    "agent.admitted@2", "agent.fenced@1", "agent.took_over@1", "agent.claimed@1", "agent.opened@1",
    "registry.before_swap@2", "offsets.after_commit@2", "journal.after_commit@1", "checkpoint.mid_commit@1",
    "sink.before_copy@1", "sink.before_rename@1", "sink.mid_write@1", "sink.after_flush@1",
    "take_over.after_claim@1", "take_over.mid_copy@1", "take_over.mid_copy@3", "take_over.before_rename@1",
    "take_over.after_rename@2", "take_over.before_clean@1", "take_over.fence@1",
)  # fmt: skip


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as found:
        yield found


def fault(point: str, action: str) -> str:
    name, _, number = point.partition("@")
    return f"{name}:{action}@{number}"


def start_beside_victim(nodes: Cluster, faults: str) -> None:
    """Start the victim; once it has all partitions, or has met its fault, another node joins, and events come."""
    victim = nodes.start("victim", faults=faults)
    nodes.start("other", gate="gate")
    nodes.until(
        lambda: len(nodes.owners()) == 3 or victim.exitcode is not None or is_stopped(victim), "a victim at work"
    )
    nodes.open("gate")
    nodes.begin()


def check_killed(nodes: Cluster, point: str) -> None:
    start_beside_victim(nodes, fault(point, "kill"))
    victim = nodes.nodes["victim"]
    nodes.until(lambda: victim.exitcode is not None, f"the end of the victim at {point}")
    assert victim.exitcode == KILLED, nodes.logs()
    nodes.start("third")
    nodes.finish()
    nodes.check()


def check_stopped(nodes: Cluster, point: str) -> None:
    start_beside_victim(nodes, fault(point, "stop"))
    victim = nodes.nodes["victim"]
    nodes.until(lambda: is_stopped(victim), f"the victim stopped at {point}")
    go_on_without(nodes, "victim", successor="other")
    nodes.signal("victim", signal.SIGCONT)
    nodes.finish()
    nodes.check()


def go_on_without(nodes: Cluster, stopped: str, *, successor: str) -> None:
    """Wait until *successor* has written to each partition, unless *stopped* keeps a database locked."""
    node = nodes.nodes[stopped]

    def gone_on() -> bool:
        return nodes.ended() or nodes.written_by(successor) or locks_others_out(node, nodes.folder)

    nodes.until(gone_on, f"records of {successor}, in place of {stopped}")


def stop_without_locks(nodes: Cluster, name: str) -> None:
    """Wait until node *name* has stopped itself; while it keeps others out of a database, let it go on and stop it."""
    node = nodes.nodes[name]
    nodes.until(lambda: is_stopped(node), f"{name} stopped")
    while locks_others_out(node, nodes.folder):
        nodes.signal(name, signal.SIGCONT)
        nodes.until(lambda: not is_stopped(node), f"{name} going on")
        nodes.signal(name, signal.SIGSTOP)
        nodes.until(lambda: is_stopped(node), f"{name} stopped again")


def check_successor_killed(nodes: Cluster, point: str) -> None:
    nodes.start("former", faults="journal.after_commit:stop@9")
    nodes.until(lambda: len(nodes.owners()) == 3, "a former owner")
    nodes.begin()
    victim = nodes.start("victim", faults=fault(point, "kill"), gate="gate")
    nodes.start("third", gate="last")
    stop_without_locks(nodes, "former")
    nodes.open("gate")
    nodes.until(lambda: victim.exitcode is not None, f"the end of the victim at {point}")
    assert victim.exitcode == KILLED, nodes.logs()
    nodes.open("last")
    go_on_without(nodes, "former", successor="third")
    nodes.signal("former", signal.SIGCONT)
    nodes.finish()
    nodes.check(losses=2)


def test_killed_inside_a_checkpoint(nodes: Cluster) -> None:
    """S4, S8: a node that dies between the parts of a checkpoint is replaced, and nothing is lost or doubled."""
    check_killed(nodes, "checkpoint.mid_commit@3")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_point(nodes: Cluster, point: str) -> None:
    """S4, S8, L1: whoever dies where he may, nothing is lost or doubled, and all partitions end."""
    check_killed(nodes, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_stopped_at_a_named_point(nodes: Cluster, point: str) -> None:
    """S1, S8, S19: a node stopped past its session that goes on writes nothing more under the epoch that it had."""
    check_stopped(nodes, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", OF_SUCCESSORS)
def test_a_successor_killed_while_it_takes_over(nodes: Cluster, point: str) -> None:
    """S1, S4, S18: the third owner has everything, whatever is left of the second; the first writes nothing more."""
    check_successor_killed(nodes, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["", "agent.checkpointed:kill@1", "agent.committed:stop@1", "agent.opened:kill@4"])
def test_a_partition_splits_while_nodes_come_and_go(tmp_path: Path, point: str) -> None:
    """S6: the parent is read to its end, by whomever, before its children are opened; all of it once, as un-hosted."""
    with cluster(tmp_path, script="split") as nodes:
        start_beside_victim(nodes, point)
        victim = nodes.nodes["victim"]
        if point:
            nodes.until(lambda: victim.exitcode is not None or is_stopped(victim), f"the victim at {point}")
        nodes.start("third")
        if victim.exitcode is None and is_stopped(victim):
            nodes.until(lambda: "victim" not in nodes.tags() or locks_others_out(victim, tmp_path), "an end")
            nodes.signal("victim", signal.SIGCONT)
        nodes.finish()
        nodes.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_killed_stopped_and_replaced_at_any_moment(tmp_path: Path, seed: int) -> None:
    """S4, S8, S18, S19: of three nodes one after the other is killed, stopped for a while, or told to leave."""
    draw, misfortunes = random.Random(seed), 6
    with cluster(tmp_path, rate_per_s=10.0) as nodes:
        nodes.codes |= {-signal.SIGTERM}  # of one that was told to leave before it could listen
        alive = [f"node{number}" for number in range(3)]
        for name in alive:
            nodes.start(name)
        nodes.until(lambda: len(nodes.owners()) == 3, "owners")
        nodes.begin()
        for number in range(misfortunes):
            name = alive.pop(draw.randrange(3))
            alive.append(f"next{number}")
            nodes.start(alive[-1])
            time.sleep(draw.random())  # what is tested is any moment
            how = draw.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
            if not is_over(nodes.nodes[name]):
                nodes.signal(name, how)
            time.sleep(draw.random() * 2 * nodes.session_s if how == signal.SIGSTOP else 0.0)
            if how == signal.SIGSTOP:
                nodes.signal(name, signal.SIGCONT)
                alive[-1] = name if draw.random() < 0.5 else alive[-1]
        nodes.finish()
        nodes.check(losses=misfortunes)


@pytest.mark.slow
def test_ten_join_in_one_second(tmp_path: Path) -> None:
    """L3: twenty partitions on ten nodes that start at once are shared evenly, and nearly none is moved for it."""
    names = [f"node{number}" for number in range(10)]
    with cluster(tmp_path, script="many", session_s=10.0) as nodes:
        for name in names:
            nodes.start(name, "--gather", "5", gate="gate")
        nodes.open("gate")
        nodes.until(lambda: sorted(Counter(nodes.owners().values()).values()) == [2] * 10, "an even share")
        group = nodes.group()
        assert group is not None
        moves = sum(hold.epoch - 1 for hold in group.holds.values())
        assert moves <= 20 * (1 - 1 / 10), nodes.logs()
        nodes.begin()
        nodes.finish()
        nodes.check(losses=0)


@pytest.mark.slow
def test_an_instance_started_twice(nodes: Cluster) -> None:
    """S1: of two nodes with one instance id the older one stops and says why; the newer one has its partitions."""
    nodes.codes = {0, 1}
    older = nodes.start("older", "--instance", "x")
    nodes.start("newer", "--instance", "x", gate="gate")
    nodes.until(lambda: set(nodes.owners().values()) == {"older"} and len(nodes.owners()) == 3, "an owner of all")
    nodes.begin()
    nodes.until(lambda: nodes.written_by("older"), "records of the older one")
    nodes.open("gate")
    nodes.until(lambda: older.exitcode is not None, "the end of the older one")
    assert older.exitcode == 1
    assert "another node has been started as instance 'x'" in nodes.log("older")
    assert not nodes.ended()
    nodes.finish()
    nodes.check()
