"""Partitions that fail are seen: in the log at once, in the beats, in status on every node and in its exit code."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from node_world import GROUP, Logs, World, row, status_in, sums

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.sqlite.parts import SqliteJournal
from hosting import App, CallbackSink, FileSource, QueryEvaluator
from hosting.cli import node as node_command
from hosting.cli import status as status_command
from hosting.partitioned.beats import Beat, Profile
from hosting.partitioned.coordinator import AVOIDED_AFTER, Coordinator
from hosting.partitioned.failures import FORGET_S, STEADY_S, Failures, worst_of
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.group import Group, Seat, read_group
from hosting.partitioned.member import Membership, Pauses
from hosting.partitioned.places import Place
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Failure, MemberId, Partition, Shard, Status
from hosting.reports.incidents import Incidents
from reliable_rx.errors import SourceFailed, StoreUnavailable

A = Partition("logs", "a")
QUICKLY = Pauses(open_s=0.02, most_s=0.2)


def test_a_failing_partition_is_seen_everywhere(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is logged once, not at every attempt; status says so in words, in JSON and by its exit code, and that it is
    well again when it is."""
    logs = Logs("ab")
    logs.broken["a"] = SourceFailed("the disk is on fire", source="logs", partition="a")
    world = World(tmp_path, sums(logs))
    with world.node(pauses=QUICKLY) as node:
        until(lambda: row(tmp_path, "a").failures >= 5)
        assert status_command.status(str(tmp_path), GROUP, new_offsets=None, app=None, as_json=True, watch=False) == 3
        said = json.loads(capsys.readouterr().out)
        found = next(each for each in said["partitions"] if each["partition"] == "a")
        assert found["status"] == "failing" and found["failures"] >= 5
        assert found["error"] == "SourceFailed: the disk is on fire"
        assert status_command.status(str(tmp_path), GROUP, new_offsets=None, app=None, as_json=False, watch=False) == 3
        line = next(each for each in capsys.readouterr().out.splitlines() if "logs/a" in each)
        assert "FAILING" in line and "times, last: SourceFailed: the disk is on fire" in line
        lines = [each for each in caplog.records if "logs/a" in each.message]
        starts = [each.message.split(":")[0] for each in lines]
        assert sorted(set(starts)) == sorted(starts), "each of those who tell of it has told once"
        assert all(each.levelno == logging.ERROR and "Traceback" in each.message for each in lines)
        assert "partition 'logs/a'" in starts
        assert [each.subject for each in node.incidents.open()] == ["logs/a"]
        assert row(tmp_path, "b").status == "open"
        monkeypatch.setattr("hosting.partitioned.failures.STEADY_S", 0.1)  # not before: attempts may be further apart
        del logs.broken["a"]
        until(lambda: not status_in(tmp_path).is_failing)
        assert not node.incidents.open()
        assert status_command.status(str(tmp_path), GROUP, new_offsets=None, app=None, as_json=True, watch=False) == 0


def test_a_look_in_the_midst_of_a_failure_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the node looks whether a partition is well again, from the first word of its failure on, it is not."""
    logs = Logs("a")
    logs.broken["a"] = SourceFailed("the disk is on fire", source="logs", partition="a")
    nodes: list[Any] = []
    report = Incidents.report

    def looked_at(self: Incidents, kind: str, subject: str, *more: Any, **told: Any) -> None:
        for each in nodes:
            each._leases.look()
        report(self, kind, subject, *more, **told)
        for each in nodes:
            each._leases.look()

    monkeypatch.setattr(Incidents, "report", looked_at)
    with World(tmp_path, sums(logs)).node(pauses=QUICKLY) as node:
        nodes.append(node)
        until(lambda: row(tmp_path, "a").failures >= 3)
        assert [each.subject for each in node.incidents.open()] == ["logs/a"] and node.failing
    assert sum("partition 'logs/a'" in each.message for each in caplog.records) == 1
    assert not any("well again" in each.message for each in caplog.records)


@pytest.fixture
def told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what fails inside a partition told in every round: one that is idle has its next half a minute later."""
    monkeypatch.setattr("hosting.partitioned.agent.TROUBLED_S", 0.1)
    monkeypatch.setattr("hosting.partitioned.agent.TELL_S", 0.0)


@pytest.mark.usefixtures("told_soon")
def test_what_fails_inside_a_partition_is_seen(tmp_path: Path) -> None:
    """A query that has failed leaves its partition running; status says that the partition fails, and which query."""
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        source = app.source("logs", logs)
        app.query("bad", source.map(lambda n: 1 // n))
        app.query("good", source)
        app.sink("good", world.sink("good", world.name))

    world = World(tmp_path, declare)
    with world.node():
        logs.add("a", 1, 0, 2)
        until(lambda: len(world.came.get(("good", "a"), ())) == 3)
        until(lambda: row(tmp_path, "a").status == "failing")
        found = row(tmp_path, "a")
        assert found.lease == "open" and not found.failures and "bad" in found.error


def declared(divide: Any) -> Any:
    """Return an app with a query that fails at 0, as long as it divides, and one that has no trouble."""

    def declare(app: App, world: World) -> None:
        source = app.source("logs", declared.logs)  # type: ignore[attr-defined]
        app.query("bad", source.map(divide))
        app.query("good", source)
        app.sink("good", world.sink("good", world.name))

    return declare


@pytest.mark.parametrize("end", ["read to the end", "given back"])
def test_what_had_failed_is_seen_when_all_nodes_have_stopped(
    end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], told_soon: None
) -> None:
    """Of a partition that has ended, and of one that nobody has: with the same exit code, until it runs without it."""
    declared.logs = logs = Logs("a")  # type: ignore[attr-defined]
    world = World(tmp_path, declared(lambda n: 1 // n))
    with world.node(pauses=QUICKLY) as node:
        logs.add("a", 1, 0, 2, end=end == "read to the end")
        until(lambda: len(world.came.get(("good", "a"), ())) == 3)
        if end == "read to the end":
            until(lambda: row(tmp_path, "a").lease == "terminated", "it has ended")
        else:
            until(lambda: row(tmp_path, "a").status == "failing", "it is told")
        del node
    found = row(tmp_path, "a")
    assert (found.status, found.owner) == ("failing", None) and "query 'bad'" in found.error
    assert status_command.status(str(tmp_path), GROUP, new_offsets=None, app=None, as_json=False, watch=False) == 3
    assert "query 'bad': has failed" in capsys.readouterr().out
    if end == "given back":
        mended = World(tmp_path, declared(lambda n: n))
        with mended.node(pauses=QUICKLY):
            until(lambda: row(tmp_path, "a").status == "open")
            until(lambda: not status_in(tmp_path).is_failing)
        assert not status_in(tmp_path).is_failing


class Unlisted(Logs):
    """Logs that can be listed only once they are *found*."""

    found = False

    def listing(self) -> Any:
        if not self.found:
            raise OSError("the shelf is locked")
        return super().listing()


def test_what_fails_on_a_node_is_seen_when_it_has_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no partition's: in status and its exit code until a node of that name joins, or another one is there."""

    def told() -> tuple[int, str]:
        code = status_command.status(str(tmp_path), GROUP, new_offsets=None, app=None, as_json=False, watch=False)
        return code, capsys.readouterr().out

    logs = Unlisted("a")
    world = World(tmp_path, sums(logs))
    with world.node(pauses=QUICKLY) as node:
        until(lambda: status_in(tmp_path).is_failing, "it is told")
        assert node_command.exit_code(node) == 3
        assert any("the shelf is locked" in each for each in node_command.own_troubles(node))
    code, said = told()
    assert code == 3 and "when a left: source 'logs': its partitions cannot be listed" in said
    assert json.loads(json.dumps(status_in(tmp_path).to_plain()))["former"]
    logs.found = True
    with world.node("b", pauses=QUICKLY):
        until(lambda: row(tmp_path, "a").status == "open")
        assert told()[0] == 0 and "when a left" in told()[1]
    assert told()[0] == 3, "nobody is there who would know better"
    with world.node("a", pauses=QUICKLY) as node:
        until(lambda: row(tmp_path, "a").status == "open")
        assert not status_in(tmp_path).former and node_command.exit_code(node) == 0
    assert told()[0] == 0


def test_few_of_those_who_left_are_remembered() -> None:
    """The newest, each once."""
    group = Group("g")
    for number in (*range(50), 49):
        group.members[MemberId("m")] = Seat("t", Profile(tag=f"n{number}"), trouble="the disk is full")
        group.forget(MemberId("m"))
    assert list(group.former) == [f"n{number}" for number in range(30, 50)]
    assert read_group(group.to_bytes(), name="g").former == group.former


@pytest.mark.parametrize("also_inside", [False, True])
def test_a_partition_that_could_not_be_run_at_first_is_well_when_it_has_ended(
    also_inside: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, told_soon: None
) -> None:
    """What it was read to the end in spite of is over, however quickly that went; a query that failed on the way is
    told in its place."""
    caplog.set_level(logging.INFO, "reliable_rx")
    logs, missing = Logs("a"), ["the mount"]

    def declare(app: App, world: World) -> None:
        sink = world.sink("good", world.name)

        def fails_at_first(place: Place) -> Any:
            if missing:
                raise OSError(f"{missing.pop()} is not there yet")
            return sink(place)

        source = app.source("logs", logs)
        app.query("bad", source.map(lambda n: 1 // n))
        app.query("good", source)
        app.sink("good", fails_at_first)

    logs.add("a", 1, 0 if also_inside else 3, 2, end=True)
    world = World(tmp_path, declare)
    with world.node(pauses=QUICKLY) as node:
        until(lambda: row(tmp_path, "a").lease == "terminated", "it has ended")
        until(lambda: not node.incidents.open())
    found = row(tmp_path, "a")
    assert len(world.values("good", "a")) == 3 and not missing
    assert (found.status, found.failures) == ("failing" if also_inside else "terminated", 0)
    assert ("query 'bad'" in found.error) if also_inside else not found.error
    assert bool(node.failing) == also_inside and "the mount" not in str(node.failing)
    said = [each.getMessage() for each in caplog.records]
    assert [each for each in said if each == "partition 'logs/a' was read to its end"]
    assert not [each for each in said if "not tried here any more" in each]


@pytest.mark.usefixtures("told_soon")
def test_what_was_skipped_is_told_by_the_next_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The count of events that a query has left out goes with its partition; it is a warning, and no failure."""
    logs = Logs("a")

    def declare(app: App, world: World) -> None:
        app.query("skips", app.source("logs", logs).map(lambda n: 1 // n), policy="skip")

    logs.add("a", 5, 0, 1)
    world = World(tmp_path, declare)
    for owner in ("one", "two"):
        caplog.clear()
        with world.node(owner, pauses=QUICKLY):
            until(lambda: "skipped 'skips': it raised at 1 event so far" in caplog.text)
            until(lambda: "at 1 event so far" in row(tmp_path, "a").error)
            assert row(tmp_path, "a").status == "open" and not status_in(tmp_path).is_failing
        assert "at 1 event so far" in row(tmp_path, "a").error, "what it said when it let go"
        assert sum("so far" in each.getMessage() for each in caplog.records) == 1


class SmallDisk(FolderStores):
    """Stores on the disk of one node, which is full."""

    def open(self, lease: Any, /) -> Any:
        raise StoreUnavailable("the disk is full")


def test_a_full_disk_on_one_node_moves_its_partitions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What one node cannot open goes to one that can, within a few attempts, and the one does not say it is well."""
    caplog.set_level(logging.INFO, "reliable_rx")
    logs = Logs("abcd")
    world = World(tmp_path, sums(logs))
    with world.node("full", pauses=QUICKLY) as full:
        full._means.stores.__class__ = SmallDisk
        until(lambda: len(full.agents) == 4 or full.incidents.open())
        with world.node("well") as well:
            until(lambda: len(well.agents) == 4, "all partitions on the node that can")
            until(lambda: not full.incidents.open(), "the other one has nothing to tell of them any more")
            said = [each.getMessage() for each in caplog.records]
            assert not [each for each in said if each.startswith("partition 'logs/") and "is well again" in each]
            assert [each for each in said if "is not tried here any more: another node" in each]
            for name in logs.values:
                logs.add(name, 1, end=True)
            until(lambda: all(len(world.came.get(("sums", name), ())) == 1 for name in "abcd"))
    assert {name for names in world.hosts.values() for name in names} >= {"well"}


def test_a_sink_that_cannot_be_made_leaves_nothing_open(tmp_path: Path) -> None:
    """Of several sinks one that raises: those made before it are closed at every attempt."""
    logs, made, closed = Logs("a"), list[object](), list[object]()

    class Counted:
        def __init__(self, inner: Any) -> None:
            self.inner = inner
            made.append(self)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def close(self) -> None:
            closed.append(self)

    def declare(app: App, world: World) -> None:
        sink = world.sink("sums", world.name)

        def fails(place: Place) -> Any:
            raise OSError("no such folder")

        app.query("sums", app.source("logs", logs))
        app.sink("sums", lambda place: Counted(sink(place)))
        app.sink("sums", fails)

    world = World(tmp_path, declare)
    with world.node(pauses=QUICKLY):
        until(lambda: len(made) >= 3)
    assert closed == made


# ---- the parts alone


def test_failures_count_until_it_has_run_for_long() -> None:
    """Running for a moment between two failures is no end of them; running longer than the last pause is."""
    failures = Failures()
    assert failures.failed(A, "x", now=0.0) == 1
    failures.paused(A, 30.0)
    assert not failures.look(now=1.0, running={A}, held={A})
    assert failures.failed(A, "y", now=2.0) == 2
    failures.paused(A, 30.0)
    assert not failures.look(now=3.0, running={A}, held={A})
    assert not failures.look(now=3.0 + STEADY_S + 29.0, running={A}, held={A})
    assert failures.look(now=3.0 + STEADY_S + 30.0, running={A}, held={A}) and not failures.report()


@pytest.mark.parametrize("how", ["has run for long", "has ended"])
def test_what_fails_inside_is_told_once_it_can_be_run_again(how: str) -> None:
    """An evaluator tells only changes: what it said while the failure before it still counted is not lost."""
    failures = Failures()
    failures.failed(A, "x", now=0.0)
    failures.inside(A, ONE, now=1.0)
    failures.inside(A, OTHER, now=1.0)
    assert not failures.look(now=1.0, running={A}, held={A}) and failures.report() == {A: Failure(1, "x")}
    if how == "has ended":
        failures.ended(A, now=2.0)
    else:
        assert failures.look(now=1.0 + STEADY_S, running={A}, held={A})
    assert failures.report() == {A: OTHER} and not failures.failing({A})
    failures.ended(A, now=3.0)
    assert failures.report() == {A: OTHER}, "which is no failure to run it"
    assert failures.inside(A, None, now=4.0) and not failures.report()


def test_failures_are_forgotten_where_it_is_at_work_elsewhere() -> None:
    """After a while this node may be asked again."""
    failures = Failures()
    failures.failed(A, "x", now=0.0)
    assert not failures.look(now=FORGET_S - 1, running=(), held=())
    assert failures.look(now=FORGET_S, running=(), held=())


def test_many_failures_are_told_in_part() -> None:
    """The document of a group does not grow with every partition that fails: the worst are told."""
    failures = Failures()
    for number in range(1_000):
        failures.failed(Partition("logs", f"{number:04}"), "x" * 10, now=0.0)
    failures.failed(Partition("logs", "0999"), "x", now=0.0)
    assert len(failures.report()) == 256 and next(iter(failures.report())) == Partition("logs", "0999")


def told(coordinator: Coordinator, name: str, number: int, failing: dict[Partition, Failure]) -> Any:
    member = None if number == 1 else MemberId(name)
    token = name
    holds: dict[Partition, Any] = {}
    for each, hold in coordinator.group.holds.items():
        if hold.owner == name and hold.status is Status.CLOSING:
            holds[each] = (hold.epoch, Status.CLOSED)
    return coordinator.beat(Beat(number=number, token=token, member=member, failing=failing, holds=holds), 0.0)


def test_what_nobody_can_run_stays() -> None:
    """A partition that fails on every member is not sent round and round among them."""
    from hosting.partitioned.assign import sticky

    coordinator = Coordinator("g", sticky, timing=Timing(session_s=9.0, gather_s=0.0))
    coordinator.shards_changed([Shard(A)])
    one, two = (told(coordinator, f"member-{each}", 1, {}).member for each in (1, 2))
    bad = {A: Failure(AVOIDED_AFTER, "poison")}
    assert told(coordinator, one, 2, {}).grants
    for number in (3, 4):
        told(coordinator, one, number, bad)
    assert told(coordinator, two, 2, {}).grants, "it has moved to one that has not failed yet"
    for number in range(3, 9):
        told(coordinator, one, number + 5, bad)
        assert told(coordinator, two, number, bad).grants == {A: (coordinator.group.holds[A].epoch, Status.OPEN)}
    assert coordinator.group.holds[A].epoch == 2


def test_the_pause_grows_over_epochs() -> None:
    """Every attempt has an epoch of its own, and the pause before it grows all the same."""
    from random import Random

    from hosting.partitioned.beats import Answer
    from hosting.partitioned.words import Epoch, Lease

    member = Membership(random=Random(1), pauses=Pauses(open_s=1.0, most_s=60.0))
    now, pauses = 0.0, []
    for epoch in range(1, 8):
        beat = member.beat(now)
        grants = {A: (Epoch(epoch), Status.OPEN)}
        member.answered(Answer(number=beat.number, member=MemberId("m"), session_s=1e6, grants=grants), now)
        lease = Lease(A, MemberId("m"), Epoch(epoch))
        due = member._start_after.get(A, now)
        pauses.append(due - now)
        now = due
        assert [each.lease for each in member.tick(now)] == [lease] or member.channels[A].busy
        member.admit(lease, lease)
        member.failed(lease, now, "x")
        assert member.beat(now).failing == {A: Failure(epoch, "x")}
    assert pauses[-1] > 20 and sorted(pauses) == pauses


def test_a_disk_that_fills_up_under_a_running_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_soon: None
) -> None:
    """A store that stays unavailable while its partition runs counts as a failure of it, seen as one, so that another
    node may have it; the positions and ids go on there."""
    real, stuck = SqliteJournal._insert, set[str]()

    def insert(self: SqliteJournal, *row: Any) -> None:
        if str(self._database.path) in stuck:
            raise StoreUnavailable("no space left on device")
        real(self, *row)

    logs = Logs("a")
    world = World(tmp_path, sums(logs))
    with world.node("full", pauses=QUICKLY) as first:
        until(lambda: [each for each in first.agents.values() if each.opened])
        path = next(iter(first.agents.values()))._store
        assert isinstance(path, SqliteStore)
        monkeypatch.setattr(SqliteJournal, "_insert", insert)
        stuck.add(str(path.directory / "journal.sqlite"))
        logs.add("a", 1, 2)
        until(lambda: row(tmp_path, "a").failures >= 1 or "no space" in row(tmp_path, "a").error, "its being seen")
        with world.node("well"):
            until(lambda: len(world.came.get(("sums", "a"), ())) == 2)
    assert world.values("sums", "a") == [1, 3]


def test_what_fails_inside_is_news_when_it_changes() -> None:
    """A node says so to its group: another failure, and that there is none any more; the same one is no news."""
    failures, jfk = Failures(), Partition("flights", "JFK")
    told = [failures.inside(jfk, found, now=0.0) for found in (None, ONE, ONE, OTHER, None, None)]
    assert told == [False, True, False, True, True, False]


ONE, OTHER = Failure(0, "query 'q' has failed"), Failure(0, "sink 's' has failed")


def test_a_function_of_a_source_that_raises_can_be_mended(tmp_path: Path) -> None:
    """A partition that a record ends keeps what was read before it: the next node reads it with another function."""
    path = tmp_path / "rows.csv"
    path.write_text("v\n1\n2\n")

    def declare(parse: Callable[[dict[str, str]], int]) -> Callable[[App, World], None]:
        def app(app: App, world: World) -> None:
            logs = app.source("logs", FileSource(path, parse=parse, follow=True))
            app.query("sums", logs.scan(lambda total, n: total + n, 0))
            app.sink("sums", world.sink("sums", world.name))

        return app

    broken = World(tmp_path, declare(lambda row: int(row["v"])), app={"checkpoint_interval_s": 1e9})
    with broken.node(pauses=QUICKLY):
        until(lambda: len(broken.came.get(("sums", "rows.csv"), ())) == 2)
        with path.open("a") as file:
            file.write("x\n4\n")
        until(lambda: row(tmp_path, "rows.csv").failures >= 2)
    mended = World(tmp_path, declare(lambda row: int(row["v"]) if row["v"].isdigit() else 3))
    mended.came = broken.came
    with mended.node(pauses=QUICKLY) as node:
        until(lambda: len(mended.came.get(("sums", "rows.csv"), ())) == 4)
        assert not node.failing
    assert mended.values("sums", "rows.csv") == [1, 3, 6, 10]


def told_by(run: Callable[[Hosted], object], *, sink: Any = None, before: Any = None) -> tuple[str, bool]:
    """Return what the group is told of a partition whose evaluator *run* takes on, and whether it takes turns then."""
    store = MemoryStore()
    if before is not None:
        with Hosted(store, [before]) as hosted:
            hosted.evaluator.checkpoint()
        store = store.reopen()
    with Hosted(store, [] if sink is None else [sink]) as hosted:
        run(hosted)
        number = hosted.evaluator.engine.number
        hosted.push(1)
        found = worst_of(hosted.evaluator.incidents.open())
        assert found is not None and found.warning
        return found.message, hosted.evaluator.engine.number > number


class Hosted:
    """An evaluator that has started, with one query over what is pushed."""

    def __init__(self, store: MemoryStore, sinks: list[Any]) -> None:
        self.evaluator = QueryEvaluator(store, background=False)
        self.n = self.evaluator.push("n")
        self.evaluator.create("q", rx.source("n").map(abs), policy="skip")
        for sink in sinks:
            self.evaluator.sink("q", sink)
        self.evaluator.start()

    def push(self, value: Any) -> None:
        self.n.push([value])
        for _ in range(3):
            self.evaluator.step()
        self.evaluator.reporter.look()

    def __enter__(self) -> Hosted:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(StoreUnavailable):
            self.evaluator.close()


def unavailable(n: int, value: Any) -> None:
    raise OSError("the disk is full")


def declare_idle(hosted: Hosted) -> None:
    hosted.evaluator.sink("q.dead_letters", CallbackSink(lambda n, value: None))
    hosted.evaluator.step()


@pytest.mark.parametrize(
    "run, how",
    [
        (lambda hosted: hosted.push(1), {"sink": CallbackSink(unavailable)}),
        (lambda hosted: hosted.push(1), {"before": CallbackSink(lambda n, value: None)}),
        (lambda hosted: hosted.push("no number"), {}),
        (declare_idle, {}),
    ],
    ids=["a sink waits", "a sink is not declared", "an event is skipped", "a sink gets nothing"],
)
def test_what_only_warns_is_not_said_to_wait(run: Any, how: dict[str, Any]) -> None:
    """A group is told that a partition waits where that takes no turns, and else that something in it warns."""
    message, goes_on = told_by(run, **how)
    assert message.startswith("warns: " if goes_on else "waits: "), message
