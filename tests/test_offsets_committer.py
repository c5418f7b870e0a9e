"""The committer: never ahead of the checkpoint, late by an interval at most; it gives up what it no longer holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.offsets import Committer, MemoryOffsets
from reliable_rx.errors import InternalError, OffsetsLoading, StoreUnavailable
from reliable_rx.testing.faults import arm, disk_full, nth

P, Q = ("flights", "0"), ("flights", "1")


class World:
    def __init__(self) -> None:
        self.held = {P: ("a", 1), Q: ("a", 1)}
        self.store = MemoryOffsets(lambda group, partition: self.held.get(partition))

    def committer(self, *, automatic: bool = True, count: int = 100, attempts: int = 5) -> Committer:
        made = Committer(
            self.store, "g", interval_s=5.0, count=count, automatic=automatic, attempts=attempts, sleep=self.pauses
        )
        for partition, lease in self.held.items():
            made.open(partition, lease, committed=0)
        return made

    def positions(self) -> dict[tuple[str, str], int]:
        return {partition: committed.position for partition, committed in self.store.fetch("g").items()}

    slept: float = 0.0

    def pauses(self, seconds: float) -> None:
        self.slept += seconds


def test_every_interval_the_newest() -> None:
    """What is checkpointed waits at most an interval; of several positions the newest is committed, in one commit."""
    world = World()
    committer = world.committer()
    for position in (1, 4, 3):
        committer.checkpointed({P: position, Q: 10 * position}, now=float(position))
    assert (committer.tick(5.9), world.positions()) == ({}, {})
    assert committer.tick(6.0) == {P: None, Q: None}
    assert world.positions() == {P: 4, Q: 40}
    assert committer.tick(1_000.0) == {}, "nothing new"


def test_a_count_is_enough() -> None:
    """Many events do not wait for the interval."""
    world = World()
    committer = world.committer(count=100)
    committer.checkpointed({P: 50, Q: 49}, now=0.0)
    assert not committer.due(0.0)
    committer.checkpointed({Q: 50}, now=0.0)
    assert committer.tick(0.0) == {P: None, Q: None}


def test_by_hand() -> None:
    """Without automatic commits nothing is committed but by `commit` and at the end, and never beyond a checkpoint."""
    world = World()
    committer = world.committer(automatic=False, count=1)
    committer.checkpointed({P: 5, Q: 5}, now=0.0)
    assert (committer.tick(1_000.0), world.positions()) == ({}, {})
    assert committer.commit({P: 3}) == {P: None}
    with pytest.raises(InternalError, match=r"6 of .* is in no checkpoint, only up to 5"):
        committer.commit({P: 6})
    assert world.positions() == {P: 3}
    assert committer.close() == {P: None, Q: None}
    assert world.positions() == {P: 5, Q: 5}


def test_the_end_is_committed() -> None:
    """Closing commits what waits, at once; a second closing has nothing to do."""
    world = World()
    committer = world.committer()
    committer.checkpointed({P: 5}, now=0.0)
    assert committer.close() == {P: None}
    assert committer.close() == {}


def test_automatic_commits_wait_for_the_next_interval() -> None:
    """A store that fails is not asked at every tick, however much waits, and nothing is lost."""
    world = World()
    committer = world.committer(count=1)
    committer.checkpointed({P: 5}, now=0.0)
    with arm("offsets.before_commit", nth(1, disk_full())):
        assert committer.tick(0.0) == {}
    assert committer.tick(4.9) == {}
    assert committer.tick(5.0) == {P: None}


@pytest.mark.parametrize("point", ["offsets.before_commit", "offsets.after_commit"])
def test_commits_by_hand_are_retried(point: str) -> None:
    """A commit by hand tries again after growing pauses, whether the first was durable or not, and then says why."""
    world = World()
    committer = world.committer(automatic=False, attempts=3)
    committer.checkpointed({P: 5}, now=0.0)
    with arm(point, nth(1, disk_full())):
        assert committer.commit() == {P: None}
    committer.checkpointed({P: 6}, now=0.0)
    before = world.slept
    with arm(point, disk_full()), pytest.raises(StoreUnavailable):
        committer.commit()
    assert world.slept - before == pytest.approx(0.02 + 0.04)
    assert committer.close() == {P: None}


def test_a_store_that_is_loading_is_asked_again() -> None:
    """Loading is a reason to come again, not to give up."""
    world = World()
    store = world.store.beside(load=False)
    committer = Committer(store, "g", sleep=lambda _: store.load())
    committer.open(P, ("a", 1), committed=0)
    committer.checkpointed({P: 5}, now=0.0)
    with pytest.raises(OffsetsLoading):
        store.fetch("g")
    assert committer.tick(100.0) == {}
    assert committer.commit() == {P: None}


def test_a_lost_lease_is_given_up() -> None:
    """A fenced partition is told and dropped, the others go on; what was checkpointed of it is never committed."""
    world = World()
    committer = world.committer()
    committer.checkpointed({P: 5, Q: 5}, now=0.0)
    world.held[P] = ("b", 2)
    answers = committer.close()
    refusal = answers[P]
    assert refusal is not None and refusal.reason == "fenced" and answers[Q] is None
    committer.checkpointed({P: 9}, now=0.0)
    assert committer.waiting() == {}
    assert world.positions() == {Q: 5}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["deliver", "checkpoint", "old", "tick", "commit", "fail"]),
            st.sampled_from([P, Q]),
            st.integers(0, 9),
        ),
        max_size=60,
    )
)
def test_never_ahead_of_the_checkpoint(steps: list[tuple[str, tuple[str, str], int]]) -> None:
    """Committed ≤ checkpointed ≤ delivered after every step, committed never goes back, and in the end all is equal."""
    world, now = World(), 0.0
    committer = world.committer(count=12)
    delivered, durable, before = {P: 0, Q: 0}, {P: 0, Q: 0}, {P: 0, Q: 0}
    for step, partition, number in steps:
        if step == "deliver":
            delivered[partition] += number
        elif step == "checkpoint":
            durable = dict(delivered)
            committer.checkpointed(durable, now)
        elif step == "old":
            committer.checkpointed({partition: max(0, durable[partition] - number)}, now)
        elif step == "commit":
            committer.commit()
        else:
            now += number
            with arm("offsets.before_commit", disk_full() if step == "fail" else lambda: None):
                committer.tick(now)
        committed = {P: 0, Q: 0} | world.positions()
        for each in (P, Q):
            assert before[each] <= committed[each] <= durable[each] <= delivered[each]
        before = committed
    committer.close()
    assert {P: 0, Q: 0} | world.positions() == durable
