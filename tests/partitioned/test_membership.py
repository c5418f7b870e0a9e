"""One node's place in a group, and one lease on it: what each word of the coordinator does in each status."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from conditions import DEADLINE_S, until
from node_world import Logs, World

from hosting import App, ListSource, Node, open_group
from hosting.partitioned.assign import sticky
from hosting.partitioned.beats import Answer, Beat, Profile
from hosting.partitioned.channel import Channel, Do
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.member import Action, Membership, Pauses
from hosting.partitioned.registry import MemoryRegistry
from hosting.partitioned.shared import Shared
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Epoch, Lease, MemberId, Partition, Shard, Status

PART = Partition("flights", "JFK")
LEASE = Lease(PART, MemberId("m-1"), Epoch(1))
SESSION_S = 9.0
Grants = dict[Partition, tuple[Epoch, Status]]
OPEN, CLOSING = ({PART: (Epoch(1), each)} for each in (Status.OPEN, Status.CLOSING))


def channel(status: Status) -> Channel:
    """Bring a channel to *status*, by what its host says."""
    made = Channel(LEASE)
    if status is Status.WAIT:
        return made
    assert made.start() is Do.OPEN and made.admit(LEASE)
    made.opened()
    if status is Status.CLOSING:
        assert made.desire(Status.CLOSING) is Do.CLOSE
    elif status is Status.CLOSED:
        made.failed()
    elif status is Status.TERMINATED:
        made.ended()
    return made


@pytest.mark.parametrize(
    ("status", "word", "does", "then"),
    [
        (Status.WAIT, "open", Do.OPEN, Status.WAIT),
        (Status.OPEN, "open", None, Status.OPEN),
        (Status.CLOSING, "open", None, Status.CLOSING),
        (Status.CLOSED, "open", None, Status.CLOSED),
        (Status.TERMINATED, "open", None, Status.TERMINATED),
        (Status.WAIT, "closing", None, Status.CLOSED),
        (Status.OPEN, "closing", Do.CLOSE, Status.CLOSING),
        (Status.CLOSING, "closing", None, Status.CLOSING),
        (Status.CLOSED, "closing", None, Status.CLOSED),
        (Status.TERMINATED, "closing", None, Status.TERMINATED),
        (Status.WAIT, "not mine", None, Status.CLOSED),
        (Status.OPEN, "not mine", Do.ABANDON, Status.CLOSED),
        (Status.CLOSING, "not mine", Do.ABANDON, Status.CLOSED),
        (Status.CLOSED, "not mine", None, Status.CLOSED),
        (Status.TERMINATED, "not mine", None, Status.TERMINATED),
    ],
)  # fmt: skip
def test_every_word_in_every_status(status: Status, word: str, does: Do | None, then: Status) -> None:
    """A channel begins in WAIT, follows what is granted, and once it is over nothing opens it again."""
    made = channel(status)
    said = {
        "open": lambda: made.desire(Status.OPEN) or made.start(),
        "closing": lambda: made.desire(Status.CLOSING),
        "not mine": made.abandon,
    }[word]()
    assert (said, made.status) == (does, then)


@pytest.mark.parametrize("status", [Status.OPEN, Status.CLOSING])
def test_closed_is_said_of_what_has_stopped(status: Status) -> None:
    """While anything of an abandoned channel runs it is reported as closing, and as closed only then."""
    made = channel(status)
    made.abandon()
    running = made.report
    made.stopped()
    assert (running, made.report) == (Status.CLOSING, Status.CLOSED)


def member(**options: Any) -> Membership:
    return Membership(Profile(tag="host"), random=Random(1), **options)


def answered(to: Membership, now: float, grants: Grants, **said: Any) -> list[Action]:
    """Beat at *now* and hear *grants* at once."""
    beat = to.beat(now)
    answer = Answer(number=beat.number, member=MemberId("m-1"), session_s=SESSION_S, grants=grants, **said)
    return to.answered(answer, now)


def test_it_beats_thrice_in_a_session() -> None:
    """The coordinator says how long a session is; a third of it after an answer the next beat is due, or at once when
    something has changed."""
    node = member()
    assert node.beat_due(0.0)
    answered(node, 0.0, {})
    assert not node.beat_due(SESSION_S / 3 - 0.01) and node.beat_due(SESSION_S / 3)
    node.soon()
    assert node.beat_due(1.0)


def test_a_silent_coordinator_ends_what_runs() -> None:
    """Without an answer for two thirds of a session everything is stopped without a commit; the beats go on, and what
    is granted anew under the same lease is not opened again."""
    node = member()
    assert answered(node, 0.0, OPEN) == [Action(Do.OPEN, LEASE)]
    node.admit(LEASE, LEASE)
    node.opened(LEASE)
    assert node.alive(5.9) and not node.tick(5.9)
    assert not node.alive(6.0) and node.tick(6.0) == [Action(Do.ABANDON, LEASE)]
    node.stopped(LEASE)
    assert node.beat_due(7.0) and answered(node, 7.0, OPEN) == []
    assert node.beat(8.0).holds == {PART: (Epoch(1), Status.CLOSED)}


def test_who_is_fenced_comes_back_as_somebody_else() -> None:
    """It drops all it has, forgets its id, and asks to be let in again, under another token, after a random pause that
    is first shorter than a session and grows each time."""
    node = member(pauses=Pauses(reconnect_s=2 * SESSION_S, most_s=6 * SESSION_S))
    answered(node, 0.0, OPEN)
    token, pauses, now = node.beat(0.5).token, [], 1.0
    assert answered(node, now, {}, fenced=True) == [Action(Do.ABANDON, LEASE)]
    for _ in range(40):
        due = node.due()
        assert due is not None and not node.beat_due(due - 0.001) and node.id is None and not node.channels
        pauses.append(due - now)
        now = due
        beat = node.beat(now)
        assert beat.member is None and beat.token != token and not beat.holds
        token = beat.token
        node.answered(Answer(number=beat.number, member=MemberId(""), session_s=SESSION_S, fenced=True), now)
    assert pauses[0] <= SESSION_S and pauses[1] <= 2 * SESSION_S and 2 * SESSION_S < max(pauses) <= 6 * SESSION_S
    answered(node, now + 100.0, OPEN)
    assert node.id == "m-1" and node.channels[PART].lease == LEASE


def test_how_long_who_is_fenced_stays_away() -> None:
    """First within a session, or ten seconds if that is longer; each time within twice as long, up to a limit."""
    dice, pauses = Random(1), Pauses()
    for times, session_s, most_s in [(0, 3.0, 3.0), (0, 60.0, 10.0), (1, 3.0, 6.0), (9, 3.0, 60.0)]:
        drawn = [pauses.reconnect(times, session_s, dice) for _ in range(1_000)]
        assert 0.0 <= min(drawn) < 0.05 * most_s and 0.95 * most_s < max(drawn) <= most_s


def test_who_was_replaced_does_not_come_back() -> None:
    """A second process has the name of this one's instance: it drops all it has and is gone."""
    node = member()
    answered(node, 0.0, OPEN)
    assert answered(node, 1.0, {}, fenced=True, replaced=True) == [Action(Do.ABANDON, LEASE)]
    assert node.gone and node.due() is None


def test_ids_come_from_the_coordinator() -> None:
    """A node says who it is for people and for its restarts, and is told an id and the session; no two have one id,
    and a beat that comes twice is not a second node."""
    coordinator = Coordinator("g", sticky, timing=Timing(session_s=SESSION_S, gather_s=0.0))
    coordinator.shards_changed([Shard(PART)])
    beats = [Beat(number=1, token=str(each), profile=Profile(tag="host")) for each in range(3)]
    answers = [coordinator.beat(each, 0.0) for each in [*beats, beats[0]]]
    assert [each.member for each in answers] == ["host-1", "host-2", "host-3", "host-1"]
    assert {each.session_s for each in answers} == {SESSION_S}
    named = Profile(tag="host", instance="kitchen")
    assert coordinator.beat(Beat(number=1, token="k", profile=named), 0.0).member == "kitchen-4"


def test_a_profile_that_changes_is_shared_out_anew() -> None:
    """What a member may own is in its beats: when that changes, so does what it is to have."""
    coordinator = Coordinator("g", sticky, timing=Timing(gather_s=0.0))
    coordinator.shards_changed([Shard(PART)])
    one = coordinator.beat(Beat(number=1, token="one"), 0.0).member
    coordinator.beat(Beat(number=1, token="two"), 0.0)
    owner = coordinator.wanted()[PART]
    assert owner == one
    other = Profile(sources=frozenset({"weather"}))
    answer = coordinator.beat(Beat(number=2, token="one", member=one, profile=other), 1.0)
    assert coordinator.wanted()[PART] != one and answer.grants[PART][1] is Status.CLOSING


def test_what_others_wait_for_is_noticed() -> None:
    """A member that is new, or changes, or gives something back, wakes all nodes; one that only beats wakes nobody."""
    registry, heard = MemoryRegistry(), list[int]()
    shared = Shared(registry, Coordinator("g", sticky, timing=Timing(gather_s=0.0)))
    shared.shards_changed([Shard(PART)])
    registry.subscribe(lambda: heard.append(1))

    def notices(number: int, **said: Any) -> int:
        heard.clear()
        shared.beat(Beat(number=number, token="one", **said), float(number))
        return len(heard)

    me, small = MemberId("member-1"), Profile(capacity=2)
    assert notices(1) == 1
    assert notices(2, member=me) == 0
    assert notices(3, member=me, profile=small) == 1
    assert notices(4, member=me, profile=small) == 0
    assert notices(5, member=me, profile=small, holds={PART: (Epoch(1), Status.TERMINATED)}) == 1


def test_a_notice_makes_nodes_beat_at_once(tmp_path: Path) -> None:
    """With minutes between beats a node that comes gets its share at once, and one that goes has its share taken: the
    change of the document wakes whoever it concerns."""
    logs = Logs("abcd")
    seldom = Timing(session_s=100 * DEADLINE_S, gather_s=0.0)

    def nothing(app: App, world: World) -> None:
        app.query("same", app.source("logs", logs))

    world = World(tmp_path, nothing)
    with world.node("stays", timing=seldom) as stays:
        until(lambda: len(stays.agents) == 4)
        with world.node("leaves", timing=seldom) as leaves:
            until(lambda: len(stays.agents) == len(leaves.agents) == 2)
        until(lambda: len(stays.agents) == 4)


def test_a_node_runs_once(tmp_path: Path) -> None:
    """Started again, at the same time or later, it says so, and what ran is not disturbed."""
    app = App()
    app.query("n", app.source("numbers", ListSource({"a": [1]})))
    shared = open_group(tmp_path, "g")
    node = Node(app, *shared, group="g", timing=Timing(gather_s=0.0))
    node.run(until_ended=True)
    with pytest.raises(RuntimeError, match="started before; make another Node"):
        node.run()
    shared.close()
