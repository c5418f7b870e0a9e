"""Nodes of two versions of an app in one group: catalogs are united, and partitions go to nodes that know them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from hypothesis import given
from hypothesis import strategies as st
from node_world import Logs, World, group_in

from hosting import App
from hosting.partitioned.assign.named import assignor_named
from hosting.partitioned.beats import Beat, Catalog, Profile, catalog_of
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.group import Group, read_group
from hosting.partitioned.node import Node
from hosting.partitioned.status import status_of
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Assignment, MemberId, Partition, Shard, Status
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Listing

SELDOM = Timing(session_s=600.0, closing_s=600.0, gather_s=0.0)
"""Of a group in which nobody dies: no node counts as dead where the machine is busy."""


class Part(Logs):
    """Some of the partitions of *logs*, as an app of another version lists them."""

    def __init__(self, logs: Logs, names: str) -> None:
        super().__init__(names)
        self.values, self.over, self.wakes = logs.values, logs.over, logs.wakes


def two_versions(logs: Logs, more: Logs) -> Any:
    """The old app reads partitions a and b of *logs*; the new one c too, and has a section of its own over *more*."""

    def declare(app: App, world: World) -> None:
        source = app.source("logs", Part(logs, "ab" if world.name == "old" else "abc"))
        app.query("sums", source.scan(lambda total, each: total + each, 0))
        app.sink("sums", world.sink("sums", world.name))
        if world.name != "old":
            app.query("new", app.source("more", more))
            app.sink("new", world.sink("new", world.name))

    return declare


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")], ids="-".join)
def test_partitions_go_to_nodes_that_know_them(order: tuple[str, str], tmp_path: Path) -> None:
    """Nodes of an older and a newer app, whichever has all there is before the other joins: both go on, all is read to
    its end, and what is new runs on the newer node."""
    logs, more = Logs("abc"), Logs("xyz")
    world = World(tmp_path, two_versions(logs, more))
    with ExitStack() as nodes:
        by_name: dict[str, Node] = {}
        for name, count in zip(order, (2 if order[0] == "old" else 6, 6), strict=True):
            by_name[name] = nodes.enter_context(world.node(name, period_s=0.05, timing=SELDOM))
            until(lambda count=count: sum(len(each.agents) for each in by_name.values()) == count)
            until(lambda name=name: by_name[name].agents, "leases of the node that has joined")
        group = group_in(tmp_path)
        assert len(group.members) == group.listed == 2
        without = {(each.source, each.partition): each.without for each in status_of(group, {}, {}).partitions}
        for each in (logs, more):
            for name in each.listed:
                each.add(name, 1, 2, 3, end=True)
        until(lambda: all(len(world.came.get(("sums", name), ())) == 3 for name in "abc"))
        until(lambda: all(len(world.came.get(("new", name), ())) == 3 for name in "xyz"))
        assert group_in(tmp_path).listed == 2, "the lists are written over each other"
    (member,) = {each for names in without.values() for each in names}
    assert member.startswith("old-")
    assert {each for each, names in without.items() if names} == {("logs", "c"), *(("more", each) for each in "xyz")}
    assert "old" not in {name for key in world.hosts if key[1] in "cxyz" for name in world.hosts[key]}


def test_what_nobody_there_knows_waits_and_says_so(tmp_path: Path) -> None:
    """When the newer node is gone its partitions stay listed while it is a member, and wait for one that has them."""
    logs, more = Logs("abc"), Logs("x")
    world = World(tmp_path, two_versions(logs, more))
    with world.node("old", period_s=0.05) as old:
        until(lambda: len(old.agents) == 2)
        with world.node("new", period_s=0.05, profile=Profile(tag="new", instance="new")) as new:
            until(lambda: len(old.agents) + len(new.agents) == 4)
        status = status_of(group_in(tmp_path), {}, {})
        waiting = next(each for each in status.partitions if each.source == "more")
        assert waiting.lease == "wait" and waiting.target is not None and waiting.target.startswith("new")
        assert "not in the app of old-" in waiting.why
        until(lambda: ("more", "x") not in {(e.source, e.name) for e in group_in(tmp_path).shards}, "its session's end")
        assert {each.name for each in old.agents} <= set("ab")


def test_a_lease_that_the_app_does_not_have_fails_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is granted all the same, by whatever mistake, is a failing partition, not the end of its node."""
    monkeypatch.setattr(Group, "knows", lambda self, seat, partition: True)
    monkeypatch.setattr(
        Coordinator, "_members", lambda self, seats: [seat.member(each) for each, seat in seats.items()]
    )
    logs, more = Logs("abc"), Logs("x")
    world = World(tmp_path, two_versions(logs, more))
    only = Profile(tag="new", sources=frozenset({"logs"}))
    with world.node("old", period_s=0.05) as old, world.node("new", period_s=0.05, profile=only):
        until(lambda: any(each.subject == "more/x" for each in old.incidents.open()))
        found = next(each for each in old.incidents.open() if each.subject == "more/x")
        assert "this node's app has no queries over 'more'" in found.message
        until(lambda: status_of(group_in(tmp_path), {}, {}).is_failing)
        logs.add("a", 1)
        until(lambda: world.came.get(("sums", "a")) == [(0, 1)])


class Away(Logs):
    """Logs whose partitions cannot be listed now and then."""

    away = False

    def listing(self) -> Sequence[Listing]:
        if self.away:
            raise SourceFailed("the broker cannot be reached", source="logs")
        return super().listing()


def test_a_failed_listing_is_unknown_not_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While a source cannot be listed its partitions stay, on nodes that have listed it and on ones that never could;
    other sections are listed as ever, and the failure is seen."""
    logs, others = Away("ab"), Logs("x")

    def declare(app: App, world: World) -> None:
        app.query("sums", app.source("logs", logs))
        app.sink("sums", world.sink("sums", world.name))
        app.query("rest", app.source("others", others))
        app.sink("rest", world.sink("rest", world.name))

    world = World(tmp_path, declare)
    with world.node("one", period_s=0.05) as one:
        until(lambda: len(one.agents) == 3)
        epochs = {each: hold.epoch for each, hold in group_in(tmp_path).holds.items()}
        logs.away = True
        others.list_also("y")
        until(lambda: len(one.agents) == 4, "what another source lists meanwhile")
        until(lambda: "the broker cannot be reached" in str(one.incidents.open()))
        assert epochs.items() <= {each: hold.epoch for each, hold in group_in(tmp_path).holds.items()}.items()
        until(lambda: status_of(group_in(tmp_path), {}, {}).is_failing)
    until(lambda: any(each.levelno == logging.ERROR and "broker" in each.message for each in caplog.records))
    with world.node("two", period_s=0.05) as two:
        until(lambda: len(two.agents) == 4, "a node that could never list takes what the group knows")
        logs.add("a", 1)
        until(lambda: world.came.get(("sums", "a")) == [(0, 1)])
        logs.away = False
        until(lambda: not two.incidents.open())
        until(lambda: not status_of(group_in(tmp_path), {}, {}).is_failing)


# ---- the machine alone


PARTITIONS = tuple(Partition("log", name) for name in "abcd")
CATALOGS = st.lists(
    st.frozensets(st.sampled_from(PARTITIONS)).map(lambda each: catalog_of(map(Shard, sorted(each)))),
    min_size=1,
    max_size=4,
)

FREE = ("sticky", "averagely", "averagely-by-circle", "consistent-hash")


class Told:
    """A group, and members that beat with the catalogs they are told to have."""

    def __init__(self, assignor: Any) -> None:
        self.coordinator = Coordinator("g", assignor, timing=Timing(session_s=9.0, gather_s=0.0))
        self.numbers: dict[int, int] = {}
        self.ids: dict[int, MemberId] = {}
        self.catalogs: dict[int, Catalog] = {}

    def beat(self, member: int, catalog: Catalog | None, holds: dict[Partition, Any]) -> dict[Partition, Any]:
        self.numbers[member] = self.numbers.get(member, 0) + 1
        self.catalogs[member] = catalog or self.catalogs[member]
        beat = Beat(
            number=self.numbers[member], token=str(member), member=self.ids.get(member), catalog=catalog, holds=holds
        )
        answer = self.coordinator.beat(beat, 0.0)
        self.ids[member] = answer.member
        assert read_group(self.coordinator.group.to_bytes(), name="g") == self.coordinator.group
        return dict(answer.grants)


@given(catalogs=CATALOGS, changed=CATALOGS, name=st.sampled_from(FREE))
def test_the_union_is_given_to_those_who_know(catalogs: list[Catalog], changed: list[Catalog], name: str) -> None:
    """Whatever members list, and list next: all that one of them lists is with one who lists it, nothing elsewhere, and
    beating on changes nothing."""
    told = Told(assignor_named(name))
    for step in (catalogs, changed[: len(catalogs)], [None], [None]):
        for member, catalog in enumerate(step):
            told.beat(member, catalog, {})
        for _ in range(3):
            for member in range(len(catalogs)):
                grants = told.beat(member, None, {})
                closed = {each: (epoch, Status.CLOSED) for each, (epoch, s) in grants.items() if s is Status.CLOSING}
                told.beat(member, None, closed)
        group = told.coordinator.group
        known = {each: set(told.catalogs[member].shards) for member, each in told.ids.items()}
        assert group.shards.keys() == set().union(*known.values()) == group.holds.keys()
        for partition, hold in group.holds.items():
            assert hold.status is Status.OPEN and hold.owner is not None and partition in known[hold.owner]
    before = told.coordinator.group.generation
    for member in range(len(catalogs)):
        told.beat(member, told.catalogs[member], {})
    assert told.coordinator.group.generation == before


def test_an_assignor_that_does_not_look_is_corrected() -> None:
    """Even one that gives everything to the first member gives nobody what his app does not list."""

    def first(members: Any, shards: Any, owners: Assignment, /) -> Assignment:
        return {each.partition: members[0].id for each in shards}

    told = Told(first)
    told.beat(0, catalog_of([Shard(PARTITIONS[0])]), {})
    told.beat(1, catalog_of([Shard(PARTITIONS[1])]), {})
    assert told.beat(0, None, {}).keys() == {PARTITIONS[0]}
    assert told.beat(1, None, {}) == {}
    waits = next(e for e in status_of(told.coordinator.group, {}, {}).partitions if e.partition == "b")
    assert waits.why == "the assignor gives it to nobody; not in the app of member-1"
    assert waits.without == ("member-1",)


def test_others_are_given_a_moment_to_list_the_same() -> None:
    """A partition that one node has seen first is not opened there before the others could say that they have it, too:
    it would only be moved again."""
    from hosting.partitioned.assign import sticky

    told = Told(sticky)
    told.coordinator = Coordinator("g", sticky, timing=Timing(session_s=9.0, gather_s=3.0))
    told.coordinator.group.timing = Timing(session_s=9.0, gather_s=3.0)
    one, more = (catalog_of(map(Shard, PARTITIONS[:count])) for count in (1, 4))
    for member in range(2):
        told.beat(member, one, {})
    told.coordinator.group.gathering = False
    told.beat(0, None, {})
    told.beat(0, more, {})
    assert told.coordinator.group.listing and told.coordinator.group.listed == 2
    held = told.beat(1, more, {}).keys() | told.beat(0, None, {}).keys()
    assert held == set(PARTITIONS) and not told.coordinator.group.listing
    assert sorted(len(list(told.coordinator.group.held_by(each))) for each in told.ids.values()) == [2, 2]


def test_a_query_of_the_newer_app_goes_on_at_the_older_node(tmp_path: Path) -> None:
    """A partition that goes from the newer app to the older and back: the query that only the newer one declares runs
    on as it is stored, what it emits waits for a node that has its sink, and nothing of either is lost or doubled."""
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        source = app.source("logs", logs)
        app.query("sums", source.scan(lambda total, each: total + each, 0))
        app.sink("sums", world.sink("sums", world.name))
        if world.name.startswith("new"):
            app.query("counts", source.scan(lambda count, each: count + 1, 0))
            app.sink("counts", world.sink("counts", world.name))

    world = World(tmp_path, declare)
    for number, name in enumerate(("new 1", "old 1", "new 2", "old 2", "new 3"), 1):
        with world.node(name):
            logs.add("a", 1, 1)
            until(lambda number=number: len(world.came.get(("sums", "a"), ())) == 2 * number)
            if name.startswith("new"):
                until(lambda number=number: len(world.came.get(("counts", "a"), ())) == 2 * number)
    assert world.values("sums", "a") == world.values("counts", "a") == list(range(1, 11))
