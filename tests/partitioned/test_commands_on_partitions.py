"""Each command on each kind of store, that of a partition included: afterwards nothing of what was to come is lost.

A store of a partition has one partition of its sources. What is started on it as if it were the app's would read all of
them into it: the queries there would wait for ends that never come, and the group would call the partition well.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cli_process import cli, running, wait_for, write
from conditions import until
from lanes import every

from checkpoint import PostgresStore, SqliteStore
from checkpoint.store import Store
from hosting import App, ListSource, QueryEvaluator
from hosting.cli.wording import FAILED
from hosting.reports.partition_store import group_of
from reliable_rx.errors import StoreOwned

COUNT, BEFORE = 60, 20
APP = """
import pathlib
from hosting import App, GeneratorSource, JsonLinesSink

app = App()
begun = float(pathlib.Path("begun").read_text())  # the moment of the sources' clock that has come
n = app.source("n", lambda: GeneratorSource(
    lambda i, r: i, partitions=["a", "b"], count=60, rate_per_s=1, begin=0, clock=lambda: begun
))
app.query("seen", n.map(lambda v: v))
app.query("total", n.sum())
if pathlib.Path("with_old").exists():
    app.query("old", n.map(lambda v: v))
    app.sink("old", lambda place: JsonLinesSink(f"old-{place.partition.name if place else 'all'}.jsonl"))
for name in ("seen", "total"):
    app.sink(name, lambda place, name=name: JsonLinesSink(f"{name}-{place.partition.name if place else 'all'}.jsonl"))
"""
NODE = ("node", "app.py", "--group", "g", "--gather", "0", "--session", "2", "--plain")
KINDS = ["folder", "partition in a folder", "database", "partition in a database"]
COMMANDS = {
    "inspect": ["inspect", "{}", "--app", "app.py"],
    "tail": ["tail", "{}", "seen", "--app", "app.py"],
    "holders": ["holders", "{}"],
    "release": ["release", "{}", "seen", "sink 0"],
    "restart": ["restart", "{}", "old", "--app", "app.py", "--yes"],
    "dispose": ["dispose", "{}", "old", "--app", "app.py", "--yes"],
    "repair": ["store", "repair", "{}", "--app", "app.py", "--yes"],
    "export": ["export", "app.py", "n", "out", "--workers", "1"],
    "run": ["run", "app.py", "--store", "{}", "--plain"],
}
IN_PROGRAMS: dict[str, Callable[[App, Store], QueryEvaluator]] = {
    "App.evaluator": App.evaluator,
    "App.look": App.look,
    "App.bare": App.bare,
    "QueryEvaluator": lambda app, store: QueryEvaluator(store),
}


@dataclass(frozen=True)
class Hosted:
    """An app that has taken a part of its events, and was stopped in order; *where* its command is pointed to."""

    folder: Path
    where: str
    is_group: bool

    @property
    def store(self) -> list[str]:
        """Name its store, or that of its partition a, as commands take it."""
        if self.where.startswith("postgresql"):
            return [self.where, "--name", "g/n/a" if self.is_group else "app"]
        if not self.is_group:
            return [self.where]
        (found,) = self.folder.glob("s/partitions/g/n/a/*")
        return [str(found)]

    def own(self) -> Store:
        where, *named = self.store
        return PostgresStore(where, named[1]) if named else SqliteStore(self.folder / where)

    def begin(self, count: int = BEFORE) -> None:
        """Have it take *count* events of each partition, which have come, and stop."""
        seen = [self.folder / f"seen-{each}.jsonl" for each in ("ab" if self.is_group else ["all"])]
        each = count if self.is_group else 2 * count
        with running(*self.command, cwd=self.folder) as process:
            assert until(lambda: all(path.exists() and path.read_text().count("\n") >= each for path in seen))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)

    @property
    def command(self) -> tuple[str, ...]:
        return (*NODE, "--store", self.where) if self.is_group else ("run", "app.py", "--plain", "--store", self.where)

    def end(self) -> None:
        """Have it take all the rest."""
        (self.folder / "begun").write_text("1e9")
        cli(*self.command, *(["--until-ended"] if self.is_group else []), cwd=self.folder)

    def ledger(self) -> tuple[int, int, int]:
        """Count what is lost, doubled and wrong in the files."""
        lost = doubled = wrong = 0
        for name, times in (("a", 1), ("b", 1)) if self.is_group else (("all", 2),):
            due = sorted(list(range(COUNT)) * times)
            for stream, values in (("seen", due), ("total", [sum(due)])):
                rows = [json.loads(each) for each in (self.folder / f"{stream}-{name}.jsonl").read_text().splitlines()]
                got = [row["value"] for row in rows if "value" in row]
                lost += sum(max(0, values.count(v) - got.count(v)) for v in set(values))
                doubled += sum(max(0, got.count(v) - values.count(v)) for v in set(values))
                lost += not rows or "completed" not in rows[-1]
                wrong += len([v for v in got if v not in values]) + ([r["id"] for r in rows] != list(range(len(rows))))
        return lost, doubled, wrong


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], Hosted]:
    """Return what makes a hosted app of a kind; each is begun once."""
    made: dict[str, Hosted] = {}

    def hosted(kind: str) -> Hosted:
        if kind not in made:
            folder = tmp_path_factory.mktemp("begun")
            write(folder, "app.py", APP)
            (folder / "begun").write_text(str(BEFORE + 0.5))
            (folder / "with_old").touch()
            where = request.getfixturevalue("postgres").new_database() if "database" in kind else "s"
            made[kind] = Hosted(folder, where, "partition" in kind)
            made[kind].begin()
            (folder / "with_old").unlink()
        return made[kind]

    return hosted


@pytest.fixture
def hosted(begun: Callable[[str], Hosted], tmp_path: Path) -> Callable[[str], Hosted]:
    """Return what makes a copy of a hosted app of a kind."""

    def copy(kind: str) -> Hosted:
        first, folder = begun(kind), tmp_path / "copy"
        shutil.copytree(first.folder, folder)
        if not first.where.startswith("postgresql"):
            return replace(first, folder=folder)
        server, _, name = first.where.rpartition("/")
        fresh = f"t{uuid.uuid4().hex}"
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{fresh}" TEMPLATE "{name}"'.encode())
        return Hosted(folder, f"{server}/{fresh}", first.is_group)

    return copy


def called(hosted: Hosted, command: list[str]) -> tuple[int, str]:
    """Run a command on the store until it ends, or until it has begun to run; return its exit code and what it said."""
    words = [word for each in command for word in (hosted.store if each == "{}" else [each])]
    if words[0] != "run":
        with running(*words, cwd=hosted.folder) as process:
            said, complaint = process.communicate()
            return process.returncode, said + complaint
    with running(*words, cwd=hosted.folder) as process:
        line = next(iter(process.stdout), "")
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        said, complaint = process.communicate(timeout=60)
        return process.returncode, line + said + complaint


@pytest.mark.parametrize("case", every(11, product(KINDS, COMMANDS)), ids="-".join)
def test_no_command_on_a_store_loses_what_is_to_come(case: tuple[str, str], hosted: Any) -> None:
    """It does what it says, or is refused with a way that works; then all values come, once, and all ends."""
    kind, command = case
    app = hosted(kind)
    code, said = called(app, COMMANDS[command])
    assert code in (0, 1, 2), said
    if code:
        ways = [shlex.split(each.replace("MODULE:APP", "app.py")) for each in re.findall("`([^`]*)`", said)]
        assert "partition" in kind and (ways or command == "repair"), said
        for way in ways if command in ("restart", "dispose") else []:
            assert way[:2] == ["reliable-rx", command]
            cli(*way[1:], "--yes", cwd=app.folder)
    app.end()
    assert app.ledger() == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.commit
def test_a_partition_whose_newest_checkpoint_is_damaged(hosted: Any) -> None:
    """It fails alone, and says the way: nodes that are not strict go on from the one before, and lose nothing."""
    app = hosted("partition in a folder")
    (app.folder / "begun").write_text(str(2 * BEFORE))
    app.begin(2 * BEFORE)
    (checkpoint,) = app.folder.glob("s/partitions/g/n/a/*/checkpoint.sqlite")
    with closing(sqlite3.connect(checkpoint)) as there, there:
        newest = "generation = (SELECT max(generation) FROM generations)"
        there.execute(f"UPDATE chunks SET blob = zeroblob(length(blob)) WHERE {newest}")
    (app.folder / "begun").write_text("1e9")
    other = app.folder / "total-b.jsonl"
    with running(*app.command, cwd=app.folder) as process:
        log = Path(process.stderr.name)
        assert until(lambda: re.search(r"ERROR partition 'n/a': .*App\(strict=False\)", log.read_text()))
        assert until(lambda: "completed" in other.read_text())
    program = app.folder / "app.py"
    program.write_text(program.read_text().replace("App()", "App(strict=False)"))
    said = cli(*app.command, "--until-ended", cwd=app.folder).stderr
    assert said.count("was given up") == 1
    assert app.ledger() == (0, 0, 0)


@pytest.mark.parametrize("case", every(4, product(KINDS[1::2], IN_PROGRAMS)), ids="-".join)
def test_no_program_starts_on_the_store_of_a_partition(case: tuple[str, str], hosted: Any) -> None:
    """Whatever builds an evaluator on it: its start is refused, before anything has changed."""
    kind, build = case
    group, program = hosted(kind), App()
    program.query("seen", program.source("n", ListSource({"a": [], "b": [1]})).map(abs))
    with (
        group.own() as store,
        closing(IN_PROGRAMS[build](program, store)) as evaluator,
        pytest.raises(StoreOwned, match=r"of a partition of the group 'g'.*`reliable-rx dispose"),
    ):
        evaluator.start()
    group.end()
    assert group.ledger() == (0, 0, 0)


@pytest.mark.parametrize("kind", every(2, KINDS[1::2]))
def test_what_the_log_of_a_node_says_of_an_undeclared_query_is_the_way(kind: str, hosted: Any) -> None:
    """The call that it names ends the query in all partitions, and no node tells of it again."""
    group = hosted(kind)
    with running(*group.command, cwd=group.folder) as process:
        wait_for(process, "2 partitions here")
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=60)[1]
    (way,) = set(re.findall("`(reliable-rx dispose [^`]*)`", log))
    words = shlex.split(way.replace("MODULE:APP", "app.py").replace("QUERY", "old"))[1:]
    assert "with a state that a disposal drops" in cli(*words, cwd=group.folder, code=2).stderr
    told = cli(*words, "--yes", cwd=group.folder).stdout
    assert "old was disposed of in 2 partitions" in told
    assert told.count("not kept any more for what is not declared: a JsonLinesSink to ") == 2
    assert "no partition has a query 'old'" in cli(*words, "--yes", cwd=group.folder, code=2).stderr
    with running(*group.command, cwd=group.folder) as process:
        wait_for(process, "2 partitions here")
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=60)[1]
    assert "without being declared" not in log and "not declare this sink" not in log
    group.end()
    assert group.ledger() == (0, 0, 0)


def run_for_a_moment(app: Hosted) -> str:
    """Start it, and stop it in order; return its log."""
    with running(*app.command, cwd=app.folder) as process:
        if app.is_group:
            wait_for(process, "2 partitions here")
        else:
            next(iter(process.stdout))
        process.send_signal(signal.SIGTERM)
        log: str = process.communicate(timeout=60)[1]
        return log


@pytest.mark.parametrize("kind", every(2, KINDS))
def test_what_is_told_of_an_undeclared_sink_is_the_way(kind: str, hosted: Any) -> None:
    """One call for all partitions, whole as it is told, lets it go; then neither the log nor `status` tells of it."""
    app = hosted(kind)
    log = run_for_a_moment(app)
    assert "app does not declare this sink any more: a JsonLinesSink to " in log
    (way,) = set(re.findall("`(reliable-rx release [^`]*)`", log))
    status = ["status", "--store", app.where]
    seen = cli(*status, cwd=app.folder).stdout
    assert ("warns: holder 'old/sink 0'" if app.is_group else "WARNING since") in seen and "waits: holder" not in seen
    listed = cli("holders", app.where, cwd=app.folder).stdout
    assert listed.count("not declared any more") == listed.count("  old ") == (2 if app.is_group else 1)
    assert "is not kept for 'sink 0' any more" in cli(*shlex.split(way)[1:], cwd=app.folder).stdout
    assert "holder 'old/sink 0'" not in cli(*status, cwd=app.folder).stdout
    assert "old-" not in cli("holders", app.where, cwd=app.folder).stdout
    said = cli(*shlex.split(way)[1:], cwd=app.folder, code=2).stderr
    assert "nobody holds a stream 'old'" in said
    assert "not declare this sink" not in run_for_a_moment(app)
    app.end()
    assert app.ledger() == (0, 0, 0)


def test_a_sink_that_is_declared_is_not_let_go_in_a_group(hosted: Any) -> None:
    """Numbers of sinks may differ from partition to partition: only what is not declared is let go by them."""
    group = hosted(KINDS[1])
    run_for_a_moment(group)
    said = cli("release", "s", "seen", "sink 1", "--group", "g", cwd=group.folder, code=1).stderr
    assert "the app that ran last declares this sink" in said
    said = cli("release", "s", "seen", "sink 7", "--group", "g", cwd=group.folder, code=2).stderr
    assert "in no partition: 'sink 7' does not hold stream 'seen'; it is held by 'sink 1'" in said
    cli("restart", "s", "old", "--app", "app.py", cwd=group.folder)
    listed = cli("holders", "s", cwd=group.folder).stdout
    assert listed.count("not declared any more") == 2, "a command that has no sinks says nothing of them"
    group.end()
    assert group.ledger() == (0, 0, 0)


def test_of_partitions_that_have_ended_a_holder_is_let_go(hosted: Any) -> None:
    """No node opens them again, so that no app which declares the sink no more is ever the last one there."""
    group = hosted(KINDS[1])
    (group.folder / "with_old").touch()
    group.end()
    (group.folder / "with_old").unlink()
    cli(*group.command, "--until-ended", cwd=group.folder)
    (old,) = set(re.findall(r"  old +(sink \d)", cli("holders", "s", cwd=group.folder).stdout))
    said = cli("release", "s", "old", old, "--group", "g", cwd=group.folder).stdout
    assert f"{old} of old was let go in 2 partitions" in said
    assert "old-" not in cli("holders", "s", cwd=group.folder).stdout
    cli("release", "s", "seen", "sink 1", "--group", "g", cwd=group.folder)
    assert group.ledger() == (0, 0, 0)
    cli("offsets", "reset", "--store", "s", "--app", "app.py", "--to", "n/a=59", "--yes", cwd=group.folder)
    cli(*group.command, "--until-ended", cwd=group.folder)
    assert group.ledger() == (0, 1, 1), "what was read again comes once more, under the ids that follow"


def test_a_disposal_lets_go_what_is_not_declared_any_more(hosted: Any) -> None:
    """In a store of one program: it says so, and the next start has nothing to warn of; what is declared stays."""
    app = hosted(KINDS[0])
    run_for_a_moment(app)
    told = cli("dispose", "s", "old", "--app", "app.py", "--yes", cwd=app.folder).stdout
    assert "not kept any more for what is not declared: a JsonLinesSink to " in told
    assert "holder" not in cli("status", "--store", "s", cwd=app.folder).stdout
    assert "not declare this sink" not in run_for_a_moment(app)
    listed = cli("holders", "s", cwd=app.folder).stdout
    assert "  old " not in listed and listed.count("JsonLinesSink") == 2
    app.end()
    assert app.ledger() == (0, 0, 0)


def test_a_damaged_partition_in_a_database_is_not_repaired(hosted: Any) -> None:
    """A lost turn keeps failing until the group is restored: a repair would take it for a whole app's store."""
    group = hosted(KINDS[3])
    with psycopg.connect(group.where) as connection:
        connection.execute("DELETE FROM reliable_rx.generations")
    code, said = called(group, COMMANDS["repair"])
    assert code == 2 and "no repair helps" in said and "restore the group" in said
    (group.folder / "begun").write_text("1e9")
    with running(*group.command, cwd=group.folder) as process:
        wait_for(process, "a fails")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == FAILED and "restore all of it from a copy" in said


def test_what_is_told_of_a_damaged_partition_names_no_repair_that_refuses(hosted: Any) -> None:
    """A node and the commands on queries name the restoring of the group, which is what helps."""
    group = hosted(KINDS[1])
    store = Path(group.folder, group.store[0])
    with closing(sqlite3.connect(store / "checkpoint.sqlite")) as connection, connection:
        connection.execute("UPDATE chunks SET blob = zeroblob(length(blob))")
    with running(*group.command, cwd=group.folder) as process:
        wait_for(process, "a fails")
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
    with running("restart", "s", "seen", "--app", "app.py", cwd=group.folder) as process:
        said = process.communicate(timeout=60)[1]
    for each in (told, said):
        assert "restore all of it from a copy" in each and "store repair" not in each


def test_the_store_of_a_partition_is_known_behind_a_link_and_without_the_registry(tmp_path: Path) -> None:
    """Where it is tells it, as its folder has no other name."""
    store = tmp_path / "g" / "partitions" / "my%20group" / "n" / "a" / "12"
    store.mkdir(parents=True)
    assert group_of(store) is None
    (tmp_path / "g" / "offsets").mkdir()
    (tmp_path / "link").symlink_to(store)
    assert group_of(store) == group_of(tmp_path / "link") == (str(tmp_path / "g"), "my group")
    assert group_of(store.parent) is None
