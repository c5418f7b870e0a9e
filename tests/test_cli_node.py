"""`reliable-rx node`, as real processes that share partitions, are told to stop, and read again what was reset."""

from __future__ import annotations

import json
import signal
import time
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from cli_process import cli, running, wait_for, write
from conditions import until
from lanes import left_to_commits
from postgres_server import PostgresServer

from hosting.cli import main
from hosting.cli.node import Running
from hosting.cli.run import TOGETHER_S

APP = """
import time
from hosting import App, GeneratorSource, JsonLinesSink

def number(i, random):
    {each}
    return i

app = App(checkpoint_interval_s=0.2, batch_events_max=50)
numbers = app.source("numbers", lambda: GeneratorSource(number, partitions=4, count={count}))
sums = app.query("sums", numbers.scan(lambda total, n: total + n, 0))
app.sink("sums", lambda place: JsonLinesSink(f"{{place.partition.name}}.jsonl"))
"""
NODE = ("node", "app.py:app", "--store", "here", "--gather", "0")


def sums(folder: Path, name: str) -> list[int]:
    """Return what came out of a partition; the ids leave nothing out and repeat nothing."""
    lines = [json.loads(each) for each in (folder / f"{name}.jsonl").read_bytes().split(b"\n")[:-1]]
    assert [each["id"] for each in lines] == list(range(len(lines)))
    return [each["value"] for each in lines if "value" in each]


def has_sums(folder: Path, name: str) -> bool:
    """Return whether anything has come out of a partition that is being worked on."""
    path = folder / f"{name}.jsonl"
    return path.exists() and b'"value"' in path.read_bytes()


def test_to_the_end_and_again_after_a_reset(tmp_path: Path) -> None:
    """A node reads its partitions to their ends; once they are reset it reads them again, from there, anew."""
    write(tmp_path, "app.py", APP.format(each="", count=30))
    said = cli(*NODE, "--until-ended", cwd=tmp_path).stdout
    assert "group app in here" in said and "all partitions have ended" in said
    status = cli("status", "--store", "here", "--app", "app.py:app", "--json", cwd=tmp_path).stdout
    partitions = json.loads(status)["partitions"]
    assert {(each["status"], each["positions"][0]["lag"]) for each in partitions} == {("terminated", 0)}
    reset = ("offsets", "reset", "--store", "here", "--app", "app.py:app", "--yes")
    assert "2 partitions open again" in cli(*reset, "--to", "numbers/0=0", "--to", "numbers/1=20", cwd=tmp_path).stdout
    cli(*NODE, "--until-ended", cwd=tmp_path)
    once = list(accumulate(range(30)))
    assert sums(tmp_path, "0") == once * 2
    assert sums(tmp_path, "1") == once + list(accumulate(range(20, 30)))
    assert sums(tmp_path, "2") == sums(tmp_path, "3") == once


@pytest.mark.slow
def test_a_node_that_is_stopped_hands_over(tmp_path: Path) -> None:
    """Two share; one is told to stop and gives all back at once; the other goes on, and no sum is lost or doubled."""
    write(tmp_path, "app.py", APP.format(each="time.sleep(0.001)", count=None))
    with running(*NODE, "--tag", "first", "--session", "60", cwd=tmp_path) as first:
        wait_for(first, "4 partitions here")
        with running(*NODE, "--tag", "second", "--room", "north", cwd=tmp_path) as second:
            wait_for(second, "2 partitions here")
            members = json.loads(cli("status", "--store", "here", "--json", cwd=tmp_path).stdout)["members"]
            assert {(each["tag"], each["room"]) for each in members} == {("first", None), ("second", "north")}
            first.send_signal(signal.SIGTERM)
            wait_for(first, "everything has been handed over")
            assert first.wait(timeout=60) == 0
            wait_for(second, "4 partitions here")
            until(lambda: all(has_sums(tmp_path, name) for name in "0123"), "a sum of each partition")
            second.send_signal(signal.SIGINT)
            wait_for(second, "everything has been handed over")
            _, complaint = second.communicate(timeout=60)
            assert second.returncode == 0
    assert "goes by what its first node said: session_s 60" in complaint
    for name in "0123":
        found = sums(tmp_path, name)
        assert found and found == list(accumulate(range(len(found))))


@pytest.mark.slow
def test_positions_that_have_moved(tmp_path: Path) -> None:
    """A node that is started with the new store goes on from what the old one had, and commits to the new one alone."""
    write(tmp_path, "app.py", APP.format(each="", count=30))
    cli(*NODE, "--offsets", "old", "--new-offsets", "there", "--until-ended", cwd=tmp_path)
    for phase in ("dual to new", "new"):
        moved = cli("offsets", "migrate", "--from", "here", "--to", "there", cwd=tmp_path)
        assert f"group app: {phase}" in moved.stdout
    new = ("--store", "here", "--new-offsets", "there")
    cli("offsets", "reset", *new, "--to", "numbers/0=10", "--yes", cwd=tmp_path)
    cli(*NODE, "--offsets", "new", "--new-offsets", "there", "--until-ended", cwd=tmp_path)
    told = json.loads(cli("offsets", "show", *new, "--json", cwd=tmp_path).stdout)["positions"]
    assert [(each["position"], each["epoch"]) for each in told] == [(30, 2), (30, 1), (30, 1), (30, 1)]
    assert sums(tmp_path, "0") == [*accumulate(range(30)), *accumulate(range(10, 30))]
    status = cli("status", "--store", "here", cwd=tmp_path)
    assert "shown without positions" in status.stderr and "numbers/0  TERMINATED" in status.stdout


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    """A node that cannot hand over, because a source does not return, ends like a crash when asked twice, apart."""
    each = "print('stuck', flush=True) or time.sleep(600)"
    write(tmp_path, "app.py", APP.format(each=each, count=1_000))
    with running(*NODE, cwd=tmp_path) as process:
        wait_for(process, "stuck")
        process.send_signal(signal.SIGINT)
        wait_for(process, "handing everything over")
        apart = time.monotonic() + TOGETHER_S
        until(lambda: time.monotonic() > apart, "the second one is a wish of its own")
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the others take over after a session" in complaint


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--assignor", "random"], "there is no assignor 'random'; choose one of averagely"),
        (["--assignor", "fixed"], "cannot be made with"),
        (["--session", "0"], "longer than nothing"),
        (["--offsets", "dual"], "--offsets and --new-offsets belong together"),
        (["--only", "letters/a"], "--only letters/a: the app has no such source; what it shares out is numbers"),
    ],
)
def test_called_wrongly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    says: str,
) -> None:
    """A sentence says what is wrong."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "wrong_node.py", APP.format(each="", count=1))
    assert main(["node", "wrong_node:app", "--store", "here", *options]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--session", "soon"], "argument --session: 'soon' is no span of time; give seconds from 0"),
        (["--threads=-1"], "argument --threads: '-1' is no number of them; give one from 1"),
    ],
)
def test_an_option_that_is_no_number(capsys: pytest.CaptureFixture[str], options: list[str], says: str) -> None:
    """The option is named, and what it takes."""
    with pytest.raises(SystemExit):
        main(["node", "app.py:app", "--store", "here", *options])
    assert says in capsys.readouterr().err


FAILING_APP = """
from hosting import App, ListSource

app = App(checkpoint_interval_s=0.1)
numbers = app.source("numbers", ListSource({"a": [1, 2], "b": [1, 0]}))
app.query("good", numbers)
app.query("inverse", numbers.map(lambda n: 1 / n))
"""


LISTED_APP = """
from pathlib import Path
from hosting import App, ListSource

class Listed(ListSource):
    def partitions(self):
        return Path("names").read_text().split()

app = App(checkpoint_interval_s=0.1)
numbers = app.source("numbers", lambda: Listed({{"a": [1], "b": [2]}}))
app.query("all", numbers, scope={scope!r})
"""


@pytest.mark.parametrize("names, scope, why", [("a b", "all", "start"), (None, "partition", "source")])
def test_what_could_not_be_looked_for_has_not_ended(names: str | None, scope: str, why: str, tmp_path: Path) -> None:
    """A start that is refused, or a source that lists nothing, is told as what it is, beside what the group knows."""
    write(tmp_path, "app.py", LISTED_APP.format(scope="partition"))
    write(tmp_path, "names", "a")
    assert "all partitions have ended" in cli(*NODE, "--until-ended", cwd=tmp_path).stdout
    (tmp_path / "names").unlink()
    if names is not None:
        write(tmp_path, "names", names)
    write(tmp_path, "app.py", LISTED_APP.format(scope=scope))
    said = cli(*NODE, "--until-ended", cwd=tmp_path, code=3)
    assert "others could not be looked for" in said.stdout and f"{why} '" in said.stderr
    assert "all partitions have ended" not in said.stdout


def test_a_query_that_fails_in_one_partition_is_seen(tmp_path: Path) -> None:
    """The node says where and in which query, with the traceback in its log, and ends with exit code 3."""
    write(tmp_path, "app.py", FAILING_APP)
    said = cli(*NODE, "--until-ended", cwd=tmp_path, code=3)
    assert "all partitions have ended" in said.stdout
    assert "numbers/b fails: query 'inverse'" in said.stderr and "numbers/a" not in said.stderr
    assert "numbers/b: query 'inverse'" in said.stderr and "ZeroDivisionError" in said.stderr
    assert "Traceback" in said.stderr


def test_a_node_at_work_keeps_no_process_alive() -> None:
    """A command that fails beside it ends, and with it the node."""
    node: Any = SimpleNamespace(run=lambda until_ended: None)
    running = Running(node, until_ended=True, ended=lambda: None)
    running.join()
    assert running.daemon and running.error is None


def test_a_node_that_has_ended_says_so_however_it_ended() -> None:
    """Its command waits for nothing else: before, it looked twice a second, and ended half a second later."""

    def failing(until_ended: bool) -> None:
        raise OSError("the disk is gone")

    said: list[bool] = []
    for run in (failing, lambda until_ended: None):
        node: Any = SimpleNamespace(run=run)
        running = Running(node, until_ended=True, ended=lambda: said.append(True))
        running.join()
    assert said == [True, True]


def set_read_only(dsn: str, *, is_on: bool) -> None:
    place, _, name = dsn.rpartition("/")
    with psycopg.connect(f"{place}/postgres", autocommit=True) as connection:
        change = "SET default_transaction_read_only = on" if is_on else "RESET default_transaction_read_only"
        connection.execute(f"ALTER DATABASE {name} {change}".encode())


@left_to_commits
def test_a_node_that_starts_while_its_database_is_away(tmp_path: Path, mortal_postgres: PostgresServer) -> None:
    """Where the group cannot be opened, known or new, a node ends with exit code 1 and one sentence, for a supervisor
    to start it again; one that has opened it waits, as at any other time, and goes on when it can be written."""
    write(tmp_path, "app.py", APP.format(each="", count=30))
    dsn = mortal_postgres.new_database()
    start = ("node", "app.py:app", "--store", dsn, "--gather", "0", "--until-ended")

    def refused() -> str:
        ended = cli(*start, cwd=tmp_path, code=1)
        assert not ended.stdout and ended.stderr.count("reliable-rx: ") == 1
        return ended.stderr

    set_read_only(dsn, is_on=True)
    assert "read-only" in refused()
    mortal_postgres.stop()
    assert "ask again when the server is well" in refused()
    mortal_postgres.start()
    set_read_only(dsn, is_on=False)
    assert "all partitions have ended" in cli(*start, cwd=tmp_path).stdout
    assert sums(tmp_path, "0") == list(accumulate(range(30)))
    mortal_postgres.stop()
    assert "ask again when the server is well" in refused()
    mortal_postgres.start()
    set_read_only(dsn, is_on=True)
    with running(*start, cwd=tmp_path) as node:
        wait_for(node, "waiting: ")
        set_read_only(dsn, is_on=False)
        wait_for(node, "all partitions have ended")
