"""Who has what, under every fault: real coordinators, memberships and channels under a state machine.

What must hold, and where it is checked:

====  ==============================================================  ==================================================
S1    epochs of grants strictly increase, one owner each              World._granted
S2    unless given up for dead, no two nodes run one partition        World.check
S3    a committed position never goes back                            World._commit
S5    committed is at most processed                                  World._commit
S6    parents and base data end first; terminated is committed        World._may_be_open, World.run
S14   answers merge to the newest                                     test_answers_merge_to_the_newest
S15   no wake-up is lost                                              test_waking.py
S18   no epoch is used twice, whoever is lost                         test_no_epoch_is_used_twice, World._granted
S19   what was fenced opens, commits and writes nothing               World._open, World._emit
L1    everything can end from everywhere                              World.settle
L2    what may be woken is due within its period                      test_waking.py
L3    balance within one is reached in three beats per move           test_balance_is_reached_soon
L4    who hangs while closing is fenced after the deadline            test_who_hangs_while_closing_is_fenced
L5    a partition that always fails keeps no other from ending        test_a_poisoned_partition_stops_no_other
====  ==============================================================  ==================================================
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lanes import Lane
from planted import PLANTED
from planting import Planting
from protocol_world import SCRIPTS, TIMING, World, part, shard

from hosting.partitioned.assign import sticky
from hosting.partitioned.beats import Answer
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.member import Membership
from hosting.partitioned.shared import Shared
from hosting.partitioned.words import Epoch, Lease, MemberId, Status

INDEX = st.integers(0, 7)
BY = st.integers(0, 1)
OFTEN = st.sampled_from((True, True, True, False))


class Core(RuleBasedStateMachine):
    """What it takes to move a partition, and nothing else: few rules, so that they meet often."""

    world: World
    faults = True

    @initialize(seed=INDEX)
    def begin(self, seed: int) -> None:
        self.open_world(World(seed=seed))

    def open_world(self, world: World) -> None:
        self.world = world
        for _ in range(12):
            world.calm_round()

    def node(self, index: int) -> Any:
        return self.world.nodes[index % len(self.world.nodes)]

    def lease(self, node: Any, index: int) -> Lease | None:
        return list(node.runs)[index % len(node.runs)] if node.runs else None

    @rule(node=INDEX, by=BY, answered=OFTEN)
    def exchange(self, node: int, by: int, answered: bool) -> None:
        """A node beats at once and is heard; its answer may stay on its way."""
        self.world.exchange(self.node(node), by=by, answered=answered)

    @precondition(lambda self: self.world.answers)
    @rule(index=INDEX, again=OFTEN)
    def answer(self, index: int, again: bool) -> None:
        self.world.answer(index % len(self.world.answers), keep=not again)

    @rule(index=INDEX, node=INDEX, to=INDEX)
    def change_mind(self, index: int, node: int, to: int) -> None:
        if self.node(node).stopped:
            return
        listed = self.world.lists[self.world.listed - 1]
        self.world.change_mind(listed[index % len(listed)].partition, self.node(node), to)

    @rule(index=INDEX, to=INDEX, by=BY, told=st.booleans())
    def move(self, index: int, to: int, by: int, told: bool) -> None:
        """The assignor is of another opinion and all nodes beat; the first one's answer may stay on its way."""
        self.change_mind(index, index, to)
        for place in range(len(self.world.nodes)):
            self.world.exchange(self.node(index + place), by=by, answered=told or place > 0)

    @rule(node=INDEX, steps=st.integers(1, 3))
    def work(self, node: int, steps: int) -> None:
        for lease in list(self.node(node).runs) * steps:
            if lease in self.node(node).runs:
                self.world.work(self.node(node), lease)

    @rule(node=INDEX, index=INDEX)
    def commit(self, node: int, index: int) -> None:
        if (lease := self.lease(self.node(node), index)) is not None:
            self.world.commit(self.node(node), lease)

    @precondition(lambda self: self.faults)
    @rule(node=INDEX)
    def expire_the_others(self, node: int) -> None:
        """All but one are silent for a session; they may be running as before."""
        for _ in range(8):
            self.world.now += TIMING.session_s / 6
            self.world.exchange(self.node(node), by=0)
            self.world.tick(0)

    @rule(rounds=st.integers(1, 4))
    def calm(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.calm_round()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()


class Machine(Core):
    """Everything that may happen to a group."""

    @initialize(script=st.sampled_from(sorted(SCRIPTS)), nodes=st.integers(2, 3), instances=st.booleans(), seed=INDEX)
    def begin(self, script: str, nodes: int, instances: bool, seed: int) -> None:  # type: ignore[override]
        self.open_world(World(script=script, nodes=nodes, instances=instances, seed=seed))

    @rule(seconds=st.sampled_from((0.3, 1.0, 2.1, 4.0)))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @rule(node=INDEX)
    def beat(self, node: int) -> None:
        self.world.beat(self.node(node))

    @precondition(lambda self: self.world.beats)
    @rule(index=INDEX, by=BY, again=OFTEN)
    def hear(self, index: int, by: int, again: bool) -> None:
        self.world.hear(index % len(self.world.beats), by=by, keep=not again)

    @rule(by=BY)
    def tick(self, by: int) -> None:
        self.world.tick(by)

    @rule()
    def shards(self) -> None:
        self.world.shards()

    @rule(node=INDEX)
    def leave(self, node: int) -> None:
        if (member := self.node(node).membership) is not None:
            member.leave()

    # ---- faults

    @precondition(lambda self: self.faults)
    @rule(node=INDEX, index=INDEX)
    def fail(self, node: int, index: int) -> None:
        if (lease := self.lease(self.node(node), index)) is not None:
            self.world.fail(self.node(node), lease)

    @precondition(lambda self: self.faults)
    @rule(node=INDEX, index=INDEX)
    def hang(self, node: int, index: int) -> None:
        if (lease := self.lease(self.node(node), index)) is not None:
            self.node(node).runs[lease].hangs = True

    @precondition(lambda self: self.faults and self.world.beats)
    @rule(index=INDEX)
    def lose_beat(self, index: int) -> None:
        del self.world.beats[index % len(self.world.beats)]

    @precondition(lambda self: self.faults and self.world.answers)
    @rule(index=INDEX)
    def lose_answer(self, index: int) -> None:
        del self.world.answers[index % len(self.world.answers)]

    @precondition(lambda self: self.faults)
    @rule(node=INDEX)
    def crash(self, node: int) -> None:
        self.world.crash(self.node(node))

    @rule(node=INDEX)
    def start(self, node: int) -> None:
        self.world.start(self.node(node))

    @precondition(lambda self: self.faults)
    @rule(node=INDEX)
    def stop(self, node: int) -> None:
        self.node(node).stopped = True

    @rule(node=INDEX)
    def go_on(self, node: int) -> None:
        self.node(node).stopped = False

    @precondition(lambda self: self.faults)
    @rule(node=INDEX, seconds=st.sampled_from((-TIMING.session_s, -1.0, 1.0, TIMING.session_s)))
    def set_clock(self, node: int, seconds: float) -> None:
        self.node(node).skew_s += seconds

    @precondition(lambda self: self.faults)
    @rule(by=BY)
    def race(self, by: int) -> None:
        self.world.race(by)

    @precondition(lambda self: self.faults)
    @rule(failing=st.sampled_from(("before", "after")))
    def fail_registry(self, failing: str) -> None:
        self.world.registry.failing = failing


class QuietCore(Core):
    """The core, with nobody dying."""

    faults = False


class WithoutFaults(Machine):
    """The same, with nothing lost and nobody dying."""

    faults = False


class TwoVersions(Core):
    """The core, with a first node whose app is older than that of the others."""

    @initialize(seed=INDEX, instances=st.booleans())
    def begin(self, seed: int, instances: bool) -> None:  # type: ignore[override]
        self.open_world(World(script="versions", nodes=3, instances=instances, seed=seed))


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def run(machine: type[Core], examples: int, *, steps: int = 40, shrink: bool = True) -> None:
    phases = settings().phases if shrink else (Phase.generate,)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, suppress_health_check=QUIET, phases=phases, database=None,
            deadline=None, print_blob=True,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("machine", [Core, Machine, WithoutFaults, TwoVersions])
def test_whatever_happens_a_partition_has_one_owner_that_counts(machine: type[Core]) -> None:
    """S1, S2, S3, S5, S6, S18, S19, L1, and that nobody is given what his app has not, a few examples."""
    run(machine, 5 if Lane.fast_alone else 10)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Core, Machine, WithoutFaults, TwoVersions])
def test_whatever_happens_a_partition_has_one_owner_that_counts_at_length(machine: type[Core]) -> None:
    """The same, many examples."""
    run(machine, 600)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_each_way_to_break_it_fits(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes what it replaces takes."""
    plant(Planting(monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_broken_protocol_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of six ways to break it breaks what the table of `planted` says, within some hundreds of examples."""
    plant(Planting(monkeypatch))
    with pytest.raises(AssertionError, match=PLANTED[plant]):
        run({"S2": QuietCore, "V1": TwoVersions}.get(PLANTED[plant], Core), 2_000, shrink=False)


def test_no_epoch_is_used_twice() -> None:
    """S18: not when every member is lost, and not when the source takes a partition away and lists it again."""
    world = World(script="removed", nodes=1)
    epochs = []
    for _ in range(4):
        for _ in range(60):
            world.calm_round()
        epochs.append(world.observer.group().holds[part("q")].epoch)
        world.crash(world.nodes[0])
        world.now += 2 * TIMING.session_s
        world.shards()
    assert epochs == sorted(set(epochs)), epochs
    assert world.observer.group().floor >= 1


def test_who_hangs_while_closing_is_fenced() -> None:
    """L4: after the deadline another has the partition, and what the first one does then does not count."""
    world = World()
    first, second = world.nodes
    for _ in range(16):
        world.calm_round()
    owner, other = (first, second) if first.runs else (second, first)
    (lease,) = owner.runs
    owner.runs[lease].hangs = True
    world.change_mind(lease.partition, owner, 1 if owner is first else 0)
    for _ in range(200):
        world.calm_round()
    (taken,) = other.runs
    assert taken.partition == lease.partition and taken.epoch > lease.epoch
    assert not world.shared[0].guards(lease)


def test_a_poisoned_partition_stops_no_other() -> None:
    """L5: a channel that always fails is opened again and again, at growing intervals; the others end meanwhile."""
    world = World(script="base", nodes=2)
    world.lists = ((shard("bad"), shard("s"), shard("t")),)
    world.run(0, lambda shared: shared.shards_changed(world.lists[0]))
    failures = 0
    for _ in range(200):
        world.calm_round(reading=True)
        for node in world.nodes:
            for lease in [each for each in node.runs if each.partition == part("bad")]:
                world.fail(node, lease)
                failures += 1
    assert world.committed.keys() == {part("s"), part("t")}
    assert 3 <= failures <= 60, failures


def test_balance_is_reached_soon() -> None:
    """L3: two nodes more, and within three beats per moved partition each has its share, and least was moved."""
    world = World(nodes=4)
    world.assign = sticky  # type: ignore[method-assign, assignment]
    world.shared = [Shared(world.registry, Coordinator("g", sticky, timing=TIMING)) for _ in range(3)]
    world.lists = (tuple(shard(f"{number:02}") for number in range(12)),)
    world.run(0, lambda shared: shared.shards_changed(world.lists[0]))
    late = [world.nodes.pop(), world.nodes.pop()]
    for node in late:
        node.membership = None
    shares(world, rounds=40)
    before = {lease for node in world.nodes for lease in node.runs}
    world.nodes += late
    beats = shares(world, rounds=60)
    after = {lease for node in world.nodes for lease in node.runs}
    assert sorted(len(node.runs) for node in world.nodes) == [3, 3, 3, 3]
    assert len(before - after) == 6
    assert beats <= 3 * 6 + 4 * 2 * 60 * 0.25 / TIMING.beat_s


def shares(world: World, *, rounds: int) -> int:
    """Let a group be for some rounds; return how many beats it took until nothing changed any more."""
    beats, settled, held = 0, 0, set[Lease]()
    for _ in range(rounds):
        before = sum(hold.number for hold in world.observer.group().members.values())
        world.calm_round()
        beats += sum(hold.number for hold in world.observer.group().members.values()) - before
        now = {lease for node in world.nodes for lease in node.runs}
        settled, held = (beats if now != held else settled), now
    return settled


@given(st.lists(st.integers(0, 5), min_size=1, max_size=15))
def test_answers_merge_to_the_newest(order: list[int]) -> None:
    """S14: answers in any order and number, the newest among them, leave what the newest alone leaves."""
    grants = [
        {}, {part("p"): (1, "open")}, {part("p"): (1, "closing")}, {},
        {part("p"): (2, "open"), part("q"): (1, "open")}, {part("p"): (3, "open")},
    ]  # fmt: skip

    def after(numbers: list[int]) -> dict[Any, Any]:
        member = Membership(random=Random(1))
        for _ in grants:
            member.beat(0.0)
        for number in numbers:
            said = {each: (Epoch(epoch), Status(status)) for each, (epoch, status) in grants[number].items()}
            member.answered(Answer(number=number + 1, member=MemberId("m-1"), session_s=10.0, grants=said), 1.0)
        return {each: channel.lease for each, channel in member.channels.items()}

    assert after([*order, 5]) == after([5])
    assert after([5, *order]) == after([5])
    assert after([*order, *sorted(set(order)), 5, *order]) == after([5])
