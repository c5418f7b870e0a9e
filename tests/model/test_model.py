"""The protocol of leases and channels, looked at in all its states; and that each of its rules is needed.

Without faults in every run, with one at every commit; with two, with answers that overtake each other and with a merge
in the slow lane.
"""

from __future__ import annotations

import pytest
from claims import what_is_wrong
from explore import Explored, Explorer
from protocol import Bounds, Protocol, Rules

NO_FAULT = Bounds(faults=0)
OLD, NEW = (0,), (0, 1)
TWO_VERSIONS = Bounds(versions=(OLD, NEW), faults=0)
OVERTAKING = Bounds(lengths=(2,), parents=((),), answers=2)
MERGE = Bounds(lengths=(1, 1, 1), parents=((), (), (0, 1)), faults=0, epochs=2)


def explored(rules: Rules, bounds: Bounds) -> Explored:
    return Explorer(Protocol(rules, bounds), what_is_wrong).explore()


def test_all_holds_without_faults() -> None:
    """Whatever comes late: every claim holds, and all can still end."""
    found = explored(Rules(), NO_FAULT)
    assert (found.broken, found.trace, found.stuck) == (None, [], 0)
    assert found.states > 1_000


def test_all_holds_with_two_versions_of_the_app() -> None:
    """One node's app has no child partition: it never gets it, every claim holds, and all can still end."""
    found = explored(Rules(), TWO_VERSIONS)
    assert (found.broken, found.trace, found.stuck) == (None, [], 0)
    assert found.states > 1_000


@pytest.mark.slow
@pytest.mark.commit
def test_all_holds_with_one_fault() -> None:
    """Whatever is lost, repeated or late, and whatever fails once: every claim holds, and all can still end."""
    found = explored(Rules(), Bounds())
    assert (found.broken, found.trace, found.stuck) == (None, [], 0)
    assert found.states == 100_477, "the protocol or its bounds have changed; is that meant?"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "states_min"),
    [
        (Bounds(faults=2), 150_000),
        (OVERTAKING, 400_000),
        (MERGE, 300_000),
        (Bounds(versions=(OLD, NEW)), 50_000),
    ],
    ids=["two faults", "two answers on the way", "a merge", "two versions and an upgrade"],
)
def test_all_holds_in_wider_bounds(bounds: Bounds, states_min: int) -> None:
    """The same with two faults, with two answers on the way to each node, with a child of two parents, and with a node
    whose app has no child, until it crashes and is started with the newer one."""
    found = explored(Rules(), bounds)
    assert (found.broken, found.trace, found.stuck) == (None, [], 0)
    assert found.states > states_min


PLANTED = {
    "commits are not fenced": (Rules(commits_are_fenced=False), Bounds(), "of 0 went back from 1 to 0", 11),
    "refused commits are retried": (Rules(refused_commits_retry=True), Bounds(), "of 0 went back from 1 to 0", 12),
    "the lease goes before its owner stops": (Rules(owner_stops_first=False), NO_FAULT, "nothing has failed", 8),
    "opening is not fenced": (
        Rules(opening_is_fenced=False), Bounds(faults=0, answers=2), "nothing has failed", 11,
    ),
    "everything goes to everybody": (
        Rules(only_to_who_knows=False), TWO_VERSIONS, "has 1, which its app has not", 9,
    ),
    "children do not wait": (Rules(parents_come_first=False), NO_FAULT, "before its parents have ended", 2),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_each_rule_is_needed(planted: str) -> None:
    """Without any one of the rules there is a way to break a claim, and the shortest is found."""
    rules, bounds, words, steps = PLANTED[planted]
    found = explored(rules, bounds)
    assert found.broken is not None and words in found.broken
    assert len(found.trace) == steps


def test_a_trace_tells_what_happened_from_the_beginning() -> None:
    """It keeps the two nodes apart, though states in which they have changed places count as one."""
    rules, bounds, _, _ = PLANTED["the lease goes before its owner stops"]
    assert explored(rules, bounds).trace == [
        "node 0 joins",
        "node 0 beats",
        "node 0 gets an answer",
        "node 1 joins",
        "node 1 is wanted as the owner, partition 0",
        "node 0 beats",
        "node 1 beats",
        "node 1 gets an answer",
    ]


def test_a_protocol_that_can_get_stuck_is_noticed() -> None:
    """Where a partition is its own ancestor nothing can ever end, and the explorer counts that."""
    knot = Bounds(lengths=(1, 1), parents=((1,), (0,)), faults=0)
    assert explored(Rules(), knot).stuck > 0
