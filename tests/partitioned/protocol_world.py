"""A group of nodes in one process: real coordinators, memberships and channels; a made network, clocks and hosts.

Everything that can go wrong is a method here, so that a state machine may call them in any order. What must hold is
checked after each of them (`World.check`) and where it happens (`_open`, `_commit`, `_emit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hosting.partitioned.beats import Answer, Beat, Catalog, Profile, catalog_of
from hosting.partitioned.channel import Channel, Do
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.group import read_group
from hosting.partitioned.member import Action, Membership, Pauses
from hosting.partitioned.registry import MemoryRegistry
from hosting.partitioned.shared import Shared
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Assignment, Epoch, Lease, Member, MemberId, Partition, Shard, Status
from reliable_rx.errors import StoreUnavailable

TIMING = Timing(session_s=6.0, closing_s=6.0, gather_s=1.0)
PAUSES = Pauses(reconnect_s=2.0, beat_s=0.5, open_s=0.5, most_s=4.0)
END = 1_000


def part(name: str) -> Partition:
    return Partition("flights", name)


def shard(name: str, *parents: str, base: bool = False) -> Shard:
    return Shard(partition=part(name), parents=tuple(part(each) for each in parents), base=base)


# What a source lists, one list after the other: a split, a merge, data from before, a shard that is taken away.
SCRIPTS: dict[str, tuple[tuple[Shard, ...], ...]] = {
    "split": ((shard("p"),), (shard("p"), shard("c", "p"))),
    "merge": ((shard("a"), shard("b")), (shard("a"), shard("b"), shard("m", "a", "b"))),
    "base": ((shard("all", base=True), shard("s"), shard("t")),),
    "versions": ((shard("p"), shard("new")), (shard("p"), shard("new"), shard("c", "p"))),
    "removed": ((shard("p"), shard("q")), (shard("q"),), (shard("p"), shard("q"))),
}
LENGTH = 4


class RacyRegistry(MemoryRegistry):
    """A registry in which somebody else may be faster, or the disk fail: once for each *rival* and *failing* set."""

    rival: Callable[[], object] | None = None
    failing: str = ""
    """The next swap raises: "before" it is done, or "after"."""

    def swap(self, expected_version: int, document: bytes, *, notice: bool) -> bool:
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()
        failing, self.failing = self.failing, ""
        done = failing != "before" and super().swap(expected_version, document, notice=notice)
        if failing:
            raise StoreUnavailable(f"the disk failed {failing} the swap")
        return done


@dataclass
class Run:
    """What the host of a channel is at: asked, loading, running, closing or abandoning."""

    channel: Channel
    state: str = "asked"
    position: int = 0
    hangs: bool = False


@dataclass
class Node:
    """A process. *skew_s* is what its clock differs by; *stopped*: by a signal; a crash takes the membership away."""

    number: int
    membership: Membership | None = None
    skew_s: float = 0.0
    stopped: bool = False
    runs: dict[Lease, Run] = field(default_factory=dict)


class World:
    """Nodes, what is on its way between them and the registry, and what was committed and written."""

    def __init__(self, *, nodes: int = 2, script: str = "split", seed: int = 0, instances: bool = False) -> None:
        self.now, self.random = 0.0, Random(seed)
        self.lists, self.listed, self.versions = SCRIPTS[script], 0, script == "versions"
        self.leaning: dict[Partition, int] = {}
        self.registry = RacyRegistry()
        self.shared = [Shared(self.registry, Coordinator("g", self.assign, timing=TIMING)) for _ in range(3)]
        self.observer = Shared(self.registry, Coordinator("g", self.assign, timing=TIMING))
        self.nodes = [Node(number) for number in range(nodes)]
        self.instances = instances
        self.beats: list[tuple[Node, Membership, Beat]] = []
        self.answers: list[tuple[Node, Membership, Answer]] = []
        self.committed: dict[Partition, int] = {}
        self.processed: dict[Partition, int] = {}
        self.emitted: dict[Partition, list[tuple[Epoch, int]]] = {}
        self.granted: dict[tuple[Partition, Epoch], MemberId] = {}
        self.forced: set[Partition] = set()
        self.shards()
        for node in self.nodes:
            self.start(node)

    def assign(self, members: Any, shards: Any, owners: Assignment, /) -> Assignment:
        """Leave everything where it is, unless the world leans towards another member."""
        target = {}
        for place, partition in enumerate(sorted(each.partition for each in shards)):
            names = sorted(each.id for each in members if each.may_own(partition))
            if not names:
                continue
            owner, leaning = owners.get(partition), self.leaning.get(partition)
            kept = owner in names and leaning is None
            target[partition] = owner if kept and owner else names[(leaning or place) % len(names)]
        return target

    # ---- what may happen

    def shards(self) -> None:
        """The source lists its next list."""
        self.listed = min(self.listed + 1, len(self.lists))
        if not self.versions:
            self.run(0, lambda shared: shared.shards_changed(self.lists[self.listed - 1]))

    def catalog(self, node: Node) -> Catalog | None:
        """What the app of a node lists; that of the first one is older, and lists nothing that is new."""
        if not self.versions:
            return None
        return catalog_of(s for s in self.lists[self.listed - 1] if node.number or s.partition != part("new"))

    def start(self, node: Node) -> None:
        """A process starts, if none runs there."""
        if node.membership is None:
            instance = f"i{node.number}" if self.instances else None
            profile = Profile(tag=f"n{node.number}", instance=instance)
            node.membership = Membership(profile, random=Random(self.random.random()), pauses=PAUSES)

    def crash(self, node: Node) -> None:
        """The process is gone, with all that it knew."""
        for lease in node.runs:
            self.forced.add(lease.partition)
        node.membership, node.runs, node.stopped = None, {}, False

    def beat(self, node: Node) -> None:
        """The node's clock says that it is time for something."""
        member = node.membership
        if member is None or node.stopped:
            return
        now = self.now + node.skew_s
        self.do(node, member.tick(now))
        if member.beat_due(now):
            self.beats.append((node, member, replace(member.beat(now), catalog=self.catalog(node))))
        if member.gone:
            node.membership, node.runs = None, {}

    def exchange(self, node: Node, *, by: int, answered: bool = True) -> None:
        """The node beats now and is heard; its answer may stay on its way."""
        if node.membership is None or node.stopped:
            return
        self.now += PAUSES.beat_s
        node.membership.soon()
        before = len(self.beats)
        self.beat(node)
        if len(self.beats) > before:
            self.hear(before, by=by)
            if answered:
                self.answer(len(self.answers) - 1)

    def hear(self, index: int, *, by: int, keep: bool = False) -> None:
        """A beat arrives and is answered. It may arrive again."""
        node, member, beat = self.beats[index]
        if not keep:
            del self.beats[index]
        answer = self.run(by, lambda shared: shared.beat(beat, self.clock(by)))
        self.answers.append((node, member, answer))

    def answer(self, index: int, *, keep: bool = False) -> None:
        """An answer arrives. It may arrive again."""
        node, member, answer = self.answers[index]
        if node.stopped and node.membership is member:
            return
        if not keep:
            del self.answers[index]
        if node.membership is member:
            self.do(node, member.answered(answer, self.now + node.skew_s))

    def tick(self, by: int) -> None:
        """A coordinator looks who has died."""
        self.run(by, lambda shared: shared.tick(self.clock(by)))

    def clock(self, by: int) -> float:
        return self.now + self.nodes[by % len(self.nodes)].skew_s

    def change_mind(self, partition: Partition, node: Node, index: int) -> None:
        """The assignor is of another opinion; that a node has changed makes the group ask it."""
        if node.membership is not None:
            self.leaning[partition] = index
            own = node.membership.profile
            node.membership.profile = Profile(tag=own.tag, instance=own.instance, capacity=own.capacity % 5 + 1)
            node.membership.soon()

    def race(self, by: int) -> None:
        """Somebody else will be faster at the next swap."""
        self.registry.rival = lambda: self.run(2, lambda shared: shared.tick(self.clock(by)))

    # ---- hosts

    def do(self, node: Node, actions: list[Action]) -> None:
        for action in actions:
            if action.do is Do.OPEN:
                channel = node.membership and node.membership.channels[action.lease.partition]
                assert isinstance(channel, Channel) and action.lease not in node.runs
                node.runs[action.lease] = Run(channel)
                continue
            for run in node.runs.values():
                if run.channel.lease == action.lease:
                    run.state = "closing" if action.do is Do.CLOSE else "abandoning"
                    run.hangs &= action.do is Do.CLOSE

    def work(self, node: Node, lease: Lease) -> None:
        """The host of a channel takes its next step."""
        run, member = node.runs[lease], node.membership
        if run.hangs or node.stopped or member is None:
            return
        if run.state == "asked":
            if not member.admit(lease, self.shared[0].lease(lease.partition)):
                self._over(node, lease, [])
            else:
                self._open(node, lease)
                run.state = "loading"
        elif run.state == "loading":
            run.position = self.committed.get(lease.partition, 0)
            run.state = "running"
            self.do(node, member.opened(run.channel.lease))
        elif run.state == "abandoning":
            self._over(node, lease, member.stopped(run.channel.lease))
        elif run.state == "closing":
            if self.commit(node, lease):
                self._over(node, lease, member.closed(run.channel.lease))
        elif run.position < LENGTH:
            self._emit(node, run)
        elif self.commit(node, lease, END):
            unwritten = lease.epoch % 3 == 1  # a sink fails in some epochs
            self._over(node, lease, member.ended(run.channel.lease, self.now + node.skew_s, unwritten=unwritten))

    def commit(self, node: Node, lease: Lease, position: int | None = None) -> bool:
        """Commit where a running channel is; False if that was refused, and then it stops."""
        run, member = node.runs[lease], node.membership
        if member is None or node.stopped or run.state not in ("running", "closing"):
            return False
        if not self._commit(run, run.position if position is None else position):
            self.do(node, member.fenced(run.channel.lease))
            return run.channel.lease != lease and self._commit(run, run.position if position is None else position)
        return True

    def fail(self, node: Node, lease: Lease) -> None:
        """The host of a channel raises."""
        if node.membership is not None and not node.stopped:
            self._over(node, lease, node.membership.failed(lease, self.now + node.skew_s))

    def _over(self, node: Node, lease: Lease, actions: list[Action]) -> None:
        del node.runs[lease]
        self.do(node, actions)

    # ---- what must hold

    def _open(self, node: Node, lease: Lease) -> None:
        assert lease.partition != part("new") or node.number, f"V1: {lease} is opened by a node whose app has it not"
        assert self.shared[1].lease(lease.partition) == lease, f"S19: {lease} is opened, but not in force"

    def _emit(self, node: Node, run: Run) -> None:
        """A channel takes an event and writes what comes of it; the sink takes it only under the lease in force."""
        lease = run.channel.lease
        if not run.channel.running:
            return
        run.position += 1
        self.processed[lease.partition] = max(self.processed.get(lease.partition, 0), run.position)
        if self.shared[1].guards(lease):
            written = self.emitted.setdefault(lease.partition, [])
            assert not written or written[-1][0] <= lease.epoch, f"S19: {lease} writes after {written[-1]}"
            written.append((lease.epoch, run.position))

    def _commit(self, run: Run, position: int) -> bool:
        partition = run.channel.lease.partition
        if not self.shared[1].guards(run.channel.lease):
            return False
        before = self.committed.get(partition, 0)
        assert position >= before, f"S3: the committed position of {partition} went back from {before} to {position}"
        assert min(position, LENGTH) <= self.processed.get(partition, 0), f"S5: {position} of {partition} not processed"
        self.committed[partition] = position
        return True

    def run(self, by: int, step: Callable[[Shared], Any]) -> Any:
        """Let a coordinator take a step, again if the registry fails, and look at what it did to the leases."""
        before = {each: (hold.owner, hold.status) for each, hold in self.observer.group().holds.items()}
        try:
            result = step(self.shared[by])
        except StoreUnavailable:
            self.check()
            result = step(self.shared[by])
        group = self.observer.group()
        for partition, (owner, status) in before.items():
            hold = group.holds.get(partition)
            taken = owner is not None and (hold is None or hold.owner != owner)
            if taken and (
                owner not in group.members or (status is Status.CLOSING and self._still_runs(partition, owner))
            ):
                self.forced.add(partition)
        for partition, hold in group.holds.items():
            if hold.owner is not None:
                self._granted(partition, hold.epoch, hold.owner)
                self._may_be_open(partition)
            if hold.status is Status.TERMINATED:
                assert self.committed.get(partition) == END, f"S6: {partition} is terminated, its end not committed"
        return result

    def _still_runs(self, partition: Partition, owner: MemberId) -> bool:
        return any(lease.partition == partition and lease.owner == owner for node in self.nodes for lease in node.runs)

    def _granted(self, partition: Partition, epoch: Epoch, owner: MemberId) -> None:
        if (partition, epoch) not in self.granted:
            newest = max((before for each, before in self.granted if each == partition), default=0)
            assert epoch > newest, f"S1: {partition} is granted under epoch {epoch} after {newest}"
        assert self.granted.setdefault((partition, epoch), owner) == owner, f"S1: two owners of {partition}, {epoch}"

    def _may_be_open(self, partition: Partition) -> None:
        listed = {each.partition: each for each in self.lists[self.listed - 1]}
        if partition not in listed:
            return
        base = () if listed[partition].base else tuple(each for each, one in listed.items() if one.base)
        for before in (*listed[partition].parents, *base):
            assert self.committed.get(before) == END, f"S6: {partition} is open before {before} has ended"

    def check(self) -> None:
        """S2: no two nodes run one partition, unless one of them was given up for dead."""
        running: dict[Partition, int] = {}
        for node in self.nodes:
            for lease in {lease.partition for lease, run in node.runs.items() if run.channel.running}:
                running[lease] = running.get(lease, 0) + 1
        twice = {each for each, count in running.items() if count > 1} - self.forced
        assert not twice, f"S2: two nodes run {twice}, and nobody was given up for dead"
        for shared in self.shared:
            group, document = shared.standing()
            assert document is None or group == read_group(document, name="g"), "a node stands at what nobody wrote"

    # ---- without faults

    def settle(self, rounds: int = 600) -> None:
        """L1: from here on nothing fails; then everything ends."""
        self.registry.rival, self.registry.failing = None, ""
        while self.listed < len(self.lists):
            self.shards()
        for node in self.nodes:
            node.stopped = False
            for run in node.runs.values():
                run.hangs = False
        for _ in range(rounds):
            self.calm_round(reading=True)
            if self.all_ended():
                return
        raise AssertionError(f"L1: not everything has ended: {self.observer.group()}")

    def calm_round(self, *, reading: bool = False) -> None:
        """A quarter of a second in which all goes well; channels are opened and closed; with *reading*, also read."""
        for node in self.nodes:
            self.start(node)
            self.beat(node)
            for _ in range(2):
                for lease in list(node.runs):
                    if lease in node.runs and (reading or node.runs[lease].state != "running"):
                        self.work(node, lease)
        while self.beats:
            self.hear(0, by=0)
        for index in reversed(range(len(self.answers))):
            self.answer(index)
        self.check()
        self.now += 0.25

    def all_ended(self) -> bool:
        holds = self.observer.group().holds
        ended = {each for each, hold in holds.items() if hold.status is Status.TERMINATED}
        return all(each.partition in ended for each in self.lists[-1])


def member_of(name: str) -> Member:
    """A member as assignors see one."""
    return Member(id=MemberId(name))
