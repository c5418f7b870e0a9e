"""`reliable-rx export`, `status` and `offsets`, as somebody uses them: real commands, against members that beat."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset
import pytest
from cli_process import running, wait_for, write

from checkpoint.offsets import OffsetStore
from hosting.cli import main
from hosting.cli.wording import FAILED
from hosting.partitioned.assign import sticky
from hosting.partitioned.beats import Beat, Profile
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.opening import Opened, lease_authority, open_group, open_offsets
from hosting.partitioned.shared import Shared
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Failure, MemberId, Partition, Shard, Status

APP = """
from typing import NamedTuple
from hosting import App, GeneratorSource, ListSource

class Flight(NamedTuple):
    number: int
    delay: float | None

app = App()
flights = app.source("flights", lambda: ListSource({
    "JFK": [Flight(n, None) for n in range(100)], "LGA": [Flight(n, n / 2) for n in range(40)],
}, timestamp=lambda flight: float(flight.number)))
app.query("late", flights.filter(lambda flight: flight.delay))
app.source("clashing", lambda: ListSource({"a": [{"n": 1}], "b": [{"n": "one"}]}))
app.source("endless", lambda: GeneratorSource(lambda i, random: i))
"""
TIMING = Timing(session_s=0.5, closing_s=60.0, gather_s=0.0)
JFK, LGA = Partition("flights", "JFK"), Partition("flights", "LGA")


class Member:
    """A node as the others see it: it beats when it is told to, and holds what it is given."""

    def __init__(self, opened: Opened, name: str, **profile: Any) -> None:
        self.shared = Shared(opened.registry, Coordinator("g", sticky))
        self.opened, self.name, self.profile = opened, name, Profile(tag=name, **profile)
        self.id: MemberId | None = None
        self.number = 0
        self.now = 0.0

    def beat(
        self,
        says: Mapping[Partition, Status] | None = None,
        *,
        leaving: bool = False,
        failing: Mapping[Partition, Failure] | None = None,
    ) -> None:
        self.number += 1
        self.now += 0.01
        holds = {each: (self.shared.group().holds[each].epoch, status) for each, status in (says or {}).items()}
        self.id = self.shared.beat(
            Beat(
                number=self.number, token=self.name, member=self.id, profile=self.profile, holds=holds,
                leaving=leaving, failing=failing or {},
            ),
            self.now,
        ).member  # fmt: skip

    def commit(self, vector: Mapping[Partition, int], *, to: OffsetStore | None = None) -> None:
        held = {(each.source, each.name): self.shared.lease(each) for each in vector}
        leases = {key: (str(lease.owner), int(lease.epoch)) for key, lease in held.items() if lease is not None}
        positions = {(each.source, each.name): position for each, position in vector.items()}
        answers = (to or self.opened.offsets).commit("g", positions, leases)
        assert set(answers.values()) == {None}, answers

    def leave(self) -> None:
        holds = [each for each, _ in self.shared.group().held_by(self.id or MemberId(""))]
        self.beat(leaving=True)
        self.beat(dict.fromkeys(holds, Status.CLOSED), leaving=True)


@pytest.fixture
def opened(terminal: Terminal, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A group of two partitions at ``here``."""
    timing = getattr(request, "param", TIMING)
    with closing(open_group(tmp_path / "here", "g")) as found:
        Shared(found.registry, Coordinator("g", sticky, timing=timing)).shards_changed(
            [Shard(partition=JFK), Shard(partition=LGA)]
        )
        yield found


patiently = pytest.mark.parametrize("opened", [replace(TIMING, session_s=600.0)], indirect=True, ids=["patiently"])
"""With members that count as alive, though they beat no more."""


def joined(opened: Opened, name: str = "n", **profile: Any) -> Member:
    """A member that holds both partitions and has committed in each."""
    member = Member(opened, name, **profile)
    member.beat()
    member.beat()
    member.commit({JFK: 70, LGA: 40})
    return member


class Terminal:
    """The commands in this process, one after the other; *member* lives, and beats, while they run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        monkeypatch.chdir(folder)
        monkeypatch.delitem(sys.modules, "app", raising=False)
        write(folder, "app.py", APP)

    def __call__(self, *arguments: str, code: int = 0, stdin: str = "", member: Member | None = None) -> Said:
        """Run a command, and hold it to its exit code."""
        self.monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        codes = [main(arguments)] if member is None else []
        if member is not None:
            command = threading.Thread(target=lambda: codes.append(main(arguments)))
            command.start()
            while command.is_alive():
                member.beat()
                command.join(timeout=0.02)
        said = Said(*self.capsys.readouterr())
        assert codes == [code], said
        return said


class Said(NamedTuple):
    """What a command has said."""

    stdout: str
    stderr: str


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path, monkeypatch, capsys)


# ---- status


@patiently
def test_status_tells_who_has_what(terminal: Terminal, opened: Opened) -> None:
    """Members, leases, positions and lag; the only group is found without its name."""
    joined(opened, room="north", capacity=2)
    said = terminal("status", "--store", "here", "--app", "app.py:app").stdout
    assert "group g: 1 member, 2 partitions, generation " in said
    words = [line.split() for line in said.splitlines()]
    assert ["n-1", "n", "north", "2", "2", "2", "2"] in words
    assert ["flights/JFK", "OPEN", "n-1", "1", "70", "30"] in [line[:6] for line in words]
    assert ["flights/LGA", "OPEN", "n-1", "1", "40", "0"] in [line[:6] for line in words]


@patiently
def test_status_for_machines(terminal: Terminal, opened: Opened) -> None:
    """JSON says the same; without an app the lag is not known, and that is said as null."""
    joined(opened)
    Member(opened, "m").beat()
    told = json.loads(terminal("status", "--store", "here", "--group", "g", "--json").stdout)
    assert [each["id"] for each in told["members"]] == ["m-2", "n-1"]
    (moving,) = [each for each in told["partitions"] if each["why"]]
    assert moving["why"] == "moving from n-1 to m-2; asked back with the next beat of n-1"
    assert [each["positions"][0]["lag"] for each in told["partitions"]] == [None, None]


@patiently
def test_status_can_be_watched(terminal: Terminal, opened: Opened) -> None:
    """What happens is seen; Ctrl-C ends it."""
    member = joined(opened)
    with running("status", "--store", "here", "--watch", cwd=Path.cwd()) as process:
        wait_for(process, "flights/LGA")
        member.beat({LGA: Status.TERMINATED})
        wait_for(process, "TERMINATED")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


@patiently
def test_watching_ends_with_the_code_of_what_was_seen_last(
    terminal: Terminal, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that fails, then is well, then fails: Ctrl-C returns what a look at that moment returns."""
    member = joined(opened)
    for failing, code in ((True, FAILED), (False, 0), (True, FAILED)):
        looks: list[int] = []

        def sleep(_: float, failing: bool = failing, looks: list[int] = looks) -> None:
            looks.append(0)
            if len(looks) > 1:
                raise KeyboardInterrupt
            member.beat(failing={JFK: Failure(3, "the disk is full")} if failing else {})

        monkeypatch.setattr("hosting.cli.status.time.sleep", sleep)
        for how in ((), ("--json",)):
            looks.clear()
            terminal("status", "--store", "here", "--watch", *how, code=code)
        terminal("status", "--store", "here", code=code)


def test_a_group_that_there_is_not(terminal: Terminal, opened: Opened) -> None:
    """Those that there are are named; looking makes none."""
    with closing(open_group("here", "other")) as other:
        Shared(other.registry, Coordinator("other", sticky)).shards_changed([])
    refused = terminal("status", "--store", "here", "--group", "h", code=2)
    assert "here has no group 'h'; there are: g, other" in refused.stderr
    assert "say which group with --group; there are: g, other" in terminal("status", "--store", "here", code=2).stderr
    for command in (("show",), ("reset", "--to", "0", "--yes"), ("migrate", "--from", "here", "--to", "there")):
        refused = terminal("offsets", *command, "--store", "here", "--group", "h", code=2)
        assert "here has no group 'h'; there are: g, other" in refused.stderr, command
    assert opened.offsets.charge("h") is None


# ---- offsets


def test_offsets_show(terminal: Terminal, opened: Opened) -> None:
    """Where the group has come to, by whom, and how far behind it is; as a table and as JSON."""
    joined(opened)
    said = terminal("offsets", "show", "--store", "here", "--app", "app.py:app").stdout
    assert ["flights/JFK", "70", "30", "1", "n-1"] in [line.split()[:5] for line in said.splitlines()]
    told = json.loads(terminal("offsets", "show", "--store", "here", "--json").stdout)
    first = told["positions"][0]
    assert (first["partition"], first["position"], first["owner"], first["lag"]) == ("JFK", 70, "n-1", None)
    assert first["time"] > 1.7e9 and not first["reset"]


def test_offsets_reset_while_somebody_lives(terminal: Terminal, opened: Opened) -> None:
    """It is refused, by the name of the one who holds the partition; nothing is changed."""
    member = joined(opened)
    complaint = terminal("offsets", "reset", "--store", "here", "--to", "0", "--yes", code=1, member=member).stderr
    assert "is held by n-1 (epoch 1); stop the group first" in complaint
    assert {each.position for each in opened.offsets.fetch("g").values()} == {70, 40}


@pytest.mark.parametrize(
    "command", ["restart here late --app app.py", "dispose here late --app app.py", "release here late x"]
)
def test_what_changes_a_group_is_refused_while_somebody_lives(command: str, terminal: Terminal, opened: Opened) -> None:
    """With the exit code of a store that is in use: it is called as it should be, and can be called again."""
    complaint = terminal(*command.split(), code=1, member=joined(opened)).stderr
    assert "the group 'g' runs: n-1; stop its nodes first" in complaint


def test_offsets_reset_in_order(terminal: Terminal, opened: Opened) -> None:
    """The group has been stopped; what is to change is shown and asked about; no is no, and yes marks the positions."""
    joined(opened).leave()
    command = (
        "offsets",
        "reset",
        "--store",
        "here",
        "--app",
        "app.py:app",
        "--to",
        "earliest",
        "--to",
        "flights/JFK=50",
    )
    said = terminal(*command, code=1, stdin="n\n").stdout
    assert ["flights/JFK", "70", "→", "50"] in [line.split() for line in said.splitlines()]
    assert "nothing was changed" in said
    assert not any(each.is_reset for each in opened.offsets.fetch("g").values())
    assert "2 positions set" in terminal(*command, stdin="y\n").stdout
    found = opened.offsets.fetch("g")
    assert {name: each.position for (_, name), each in found.items()} == {"JFK": 50, "LGA": 0}
    assert all(each.is_reset for each in found.values())


def test_offsets_reset_when_all_are_dead(terminal: Terminal, opened: Opened) -> None:
    """Members that were killed and are not heard of for a session stand in nobody's way; their epochs are over."""
    member = joined(opened)
    done = terminal("offsets", "reset", "--store", "here", "--to", "7", "--yes")
    assert "1 member not heard of for a session, taken out of the group" in done.stderr
    assert {each.position for each in opened.offsets.fetch("g").values()} == {7}
    key, lease = ("flights", "JFK"), ("n-1", 1)
    (refusal,) = opened.offsets.commit("g", {key: 80}, {key: lease}).values()
    assert refusal is not None and refusal.reason == "fenced"
    member.beat()
    assert member.id == ""


def test_offsets_reset_opens_again_what_had_ended(terminal: Terminal, opened: Opened) -> None:
    """A partition that was read to its end is read again from the new position."""
    member = joined(opened)
    member.beat({LGA: Status.TERMINATED})
    member.leave()
    said = terminal("offsets", "reset", "--store", "here", "--to", "flights/LGA=3", "--yes").stdout
    assert "1 position set, 1 partition open again" in said
    assert member.shared.group().holds[LGA].status is Status.WAIT


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("flights/EWR=3", "there is no position 'flights/EWR'; there are flights/JFK, flights/LGA"),
        ("latest", "give --app MODULE:APP, or a position"),
    ],
)
def test_offsets_reset_to_nowhere(terminal: Terminal, opened: Opened, to: str, says: str) -> None:
    """What cannot be found is refused before anything changes."""
    joined(opened).leave()
    assert says in terminal("offsets", "reset", "--store", "here", "--to", to, "--yes", code=2).stderr


def test_offsets_reset_outside_the_source(terminal: Terminal, opened: Opened) -> None:
    """With the app at hand a position that its source does not have is refused; a time is looked up."""
    joined(opened).leave()
    command = ("offsets", "reset", "--store", "here", "--app", "app.py:app", "--yes", "--to")
    assert "positions 0 to 40, not 41" in terminal(*command, "flights/LGA=41", code=1).stderr
    terminal(*command, "flights/JFK=1970-01-01T00:00:20", "--to", "flights/LGA=latest")
    assert {each.position for each in opened.offsets.fetch("g").values()} == {20, 40}


def test_a_migration_there_and_back(terminal: Terminal, opened: Opened) -> None:
    """Step by step: each says what to do next, and none is taken while a member would be left behind."""
    where = ("--store", "here", "--from", "here", "--to", "there")
    with closing(open_offsets("there", lease_authority(opened.registry, "g"))) as there:
        member = joined(opened, offsets="old")
        assert "group g: old\n" in terminal("offsets", "migrate", *where, "--look").stdout
        said = terminal("offsets", "migrate", *where).stdout
        assert (
            "group g: dual to new (it was: old)" in said and "restart the nodes one by one with --offsets dual" in said
        )
        assert there.paired().fetch("g")["flights", "JFK"].position == 70
        assert (
            "member n-1 of group 'g' runs with setting old"
            in terminal("offsets", "migrate", *where, member=member, code=1).stderr
        )
        member.profile = Profile(offsets="dual")
        member.beat()
        assert "group g: new" in terminal("offsets", "migrate", *where, member=member).stdout
        refused = terminal("offsets", "show", "--store", "here", code=1)
        assert "ask " in refused.stderr and "there" in refused.stderr and "with --new-offsets" in refused.stderr
        member.commit({JFK: 90}, to=there)
        assert "group g: dual to old" in terminal("offsets", "rollback", *where).stdout
        assert "group g: old" in terminal("offsets", "rollback", *where, member=member).stdout
    assert opened.offsets.fetch("g")["flights", "JFK"].position == 90


# ---- export


def test_export_and_again(terminal: Terminal, tmp_path: Path) -> None:
    """What was done is told per partition; the second time there is nothing new."""
    command = ("export", "app.py:app", "flights", "out", "--events-per-file", "30", "--workers", "1")
    said = terminal(*command).stdout
    assert "JFK: 100 events, ids 0 to 99, in 4 files" in said and "LGA: 40 events, ids 0 to 39, in 2 files" in said
    assert "140 events of 2 partitions in 6 new files under out" in said
    table = pyarrow.dataset.dataset(tmp_path / "out").to_table()
    assert table.schema.names == ["number", "delay", "_partition", "_position"]
    assert str(table.schema.field("delay").type) == "double"
    assert sum(each or 0 for each in table["delay"].to_pylist()) == sum(n / 2 for n in range(40))
    assert "JFK: nothing new from 100 on" in terminal(*command).stdout


def test_export_of_a_part(terminal: Terminal) -> None:
    """From a time to a position."""
    part = ("--from", "5", "--until", "9", "--workers", "1")
    said = terminal("export", "app.py:app", "endless", "out", *part).stdout
    assert "0: 4 events, ids 5 to 8, in 1 file" in said
    assert "say until where to export" in terminal("export", "app.py:app", "endless", "more", code=1).stderr


def test_export_of_what_does_not_fit(terminal: Terminal) -> None:
    """The sentence names partition and position; the other partition is there."""
    refused = terminal("export", "app.py:app", "clashing", "out", "--workers", "1", code=1)
    assert "partition 'b', position 0: column 'n': 'one' is not a whole number" in refused.stderr
    assert "run it again" in refused.stderr
    done = terminal("export", "app.py:app", "clashing", "text", "--workers", "1", "--kind", "n=json")
    assert "2 events of 2 partitions" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing", "out"], "has no source 'nothing' to read by itself; there are: flights, clashing, endless"),
        (["flights", "out", "--kind", "n=number"], "no kind of column 'number'"),
    ],
)
def test_export_called_wrongly(terminal: Terminal, arguments: list[str], says: str) -> None:
    """What there is is named."""
    assert says in terminal("export", "app.py:app", *arguments, code=2).stderr
