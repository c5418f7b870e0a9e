"""`reliable-rx run`, as a real process: hosted, stopped, killed, started again."""

from __future__ import annotations

import json
import re
import signal
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_process import cli, running, stop, wait_for, write
from conditions import until
from lanes import at_each_commit
from postgres_server import PostgresServer

from checkpoint import PostgresStore
from hosting.cli.owed import Owed
from hosting.cli.wording import FAILED

ENDLESS = """
from hosting import App, GeneratorSource, JsonLinesSink

app = App(checkpoint_interval_s=0.1, batch_events_max=1)


def number(i, random):
    if i % 2000 == 1999:
        print("far enough", flush=True)
    return i


numbers = app.source("numbers", GeneratorSource(number))
app.query("sums", numbers.scan(lambda total, n: total + n, 0))
app.sink("sums", lambda: JsonLinesSink("sums.jsonl"))
"""

FINITE = """
from hosting import App, ListSource

app = App()
words = app.source("words", ListSource("to be or not to be".split()))
counts = app.query(
    "counts", words.group_by(lambda word: word).flat_map(lambda g: g.count().map(lambda n: (g.key, n)))
)
app.query("twice", counts.filter(lambda pair: pair[1] == 2))
"""


def records(path: Path) -> list[tuple[int, int]]:
    """Return the whole lines of the file, as ids and values."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [(each["id"], each["value"]) for each in map(json.loads, lines)]


@pytest.mark.parametrize(
    "number",
    [at_each_commit(signal.SIGTERM), at_each_commit(signal.SIGINT), signal.SIGKILL],
    ids=lambda number: number.name,
)
def test_a_stopped_or_killed_app_goes_on_where_it_was(tmp_path: Path, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end in a checkpoint and exit code 0; after these and after SIGKILL every sum is there once."""
    write(tmp_path, "endless.py", ENDLESS)
    sums = tmp_path / "sums.jsonl"
    with running("run", "endless.py:app", cwd=tmp_path) as process:
        wait_for(process, "far enough")
        until(lambda: sums.exists() and sums.stat().st_size, "what is durable")  # and can be gone on from
        looked = cli("inspect", "endless.store", cwd=tmp_path)
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    if number is signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 0
        assert "stopped: " in said and "is durable" in said
    assert "sums" in looked.stdout or "no checkpoint yet" in looked.stdout
    before = len(records(sums))
    with running("run", "endless.py:app", cwd=tmp_path) as process:
        wait_for(process, "going on from checkpoint")
        wait_for(process, "far enough")
        stop(process)
    assert process.returncode == 0
    after = records(sums)
    assert len(after) > before
    assert after == list(enumerate(accumulate(range(len(after)))))


def test_a_finite_app_runs_to_its_end_and_stays_there(tmp_path: Path) -> None:
    """Without a signal the command ends when the sources do; once more, there is nothing left to do."""
    write(tmp_path, "finite.py", FINITE)
    first = cli("run", "finite.py:app", "--store", "here", cwd=tmp_path)
    assert "2 queries on the store here" in first.stdout
    assert "all sources have ended: 6 events in and 6 out" in first.stdout
    again = cli("run", "finite:app", "--store", "here", cwd=tmp_path)
    assert "0 events in and 0 out" in again.stdout


def test_an_app_is_hosted_in_a_database(tmp_path: Path, postgres: PostgresServer) -> None:
    """With the address of a database the store is there, under the app's name, and no folder is made of the address."""
    name = f"finite_{tmp_path.name}".replace("-", "_")
    write(tmp_path, f"{name}.py", FINITE)
    first, second = (cli("run", f"{name}.py:app", "--store", postgres.dsn, cwd=tmp_path) for _ in range(2))
    assert "in the database" in first.stdout
    assert "going on from checkpoint" in second.stdout
    assert [each.name for each in tmp_path.iterdir() if each.name != "__pycache__"] == [f"{name}.py"]
    with PostgresStore.read_only(postgres.dsn, name) as reader:
        assert reader.streams() == ["counts", "twice"]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """A store has one owner: a second run says so, and disturbs nothing."""
    write(tmp_path, "endless.py", ENDLESS)
    with running("run", "endless.py:app", cwd=tmp_path) as process:
        wait_for(process, "far enough")
        refused = cli("run", "endless.py:app", cwd=tmp_path, code=1)
        assert "endless.store" in refused.stderr
        stop(process)
    assert process.returncode == 0


PUSHED = """
import sys
import reliable_rx as rx
from hosting import App

def make():
    app = App()
    lines = app.push("lines")
    app.query("lengths", rx.source("lines").map(len))

    @app.feed
    def read(evaluator):
        for line in sys.stdin:
            lines.on_next(line.strip())
        if line == "fail":
            raise ValueError("the last line is bad")

    return app
"""


def test_what_a_feed_pushes_is_taken_before_the_end(tmp_path: Path) -> None:
    """The command ends when its feeds have and all they pushed is through; the next run goes on behind it."""
    write(tmp_path, "pushed.py", PUSHED)
    cli("run", "pushed.py:make", "--store", "s", cwd=tmp_path, stdin="a\nbb\n")
    cli("run", "pushed.py:make", "--store", "s", cwd=tmp_path, stdin="ccc\n")
    assert cli("tail", "s", "lengths", cwd=tmp_path).stdout == "0\t1\n1\t2\n2\t3\n"


def test_a_feed_that_fails_ends_the_run_with_its_error(tmp_path: Path) -> None:
    """What it had pushed before is durable."""
    write(tmp_path, "pushed.py", PUSHED)
    failed = cli("run", "pushed.py:make", "--store", "s", cwd=tmp_path, stdin="a\nfail", code=1)
    assert "the last line is bad" in failed.stderr
    cli("run", "pushed.py:make", "--store", "s", cwd=tmp_path, stdin="x\n")
    assert cli("tail", "s", "lengths", cwd=tmp_path).stdout == "0\t1\n1\t4\n2\t1\n"


def test_a_failed_query_is_named_and_makes_the_exit_code_3(tmp_path: Path) -> None:
    """The log has a line with time, query, event and traceback at once; the other queries run to their end.

    The next run tells it again, and so does one that is stopped.
    """
    text = FINITE + 'app.query("bad", words.map(int))\n'
    write(tmp_path, "partly.py", text)
    done = cli("run", "partly.py:app", cwd=tmp_path, code=3)
    assert "query 'bad' has failed at words/0 event 0: ValueError: invalid literal for int()" in done.stderr
    line = r"^[-\d]+ [:,\d]+ ERROR query 'bad': has failed at words/0 event 0: ValueError: .*\n  Traceback"
    assert re.search(line, done.stderr, re.MULTILINE), done.stderr
    again = cli("run", "partly.py:app", cwd=tmp_path, code=3)
    assert "ERROR query 'bad': has failed in an earlier run, at words/0 event 0: ValueError" in again.stderr
    assert cli("tail", "partly.store", "twice", cwd=tmp_path).stdout.count("\n") == 3


CALLS = """
import asyncio
import sys
import threading

import reliable_rx as rx
from hosting import App

app = App(checkpoint_interval_s=0.1)
numbers = app.push("numbers")
hosts, is_out = [], threading.Event()


async def ask(n):
    print("asked for", n, flush=True)
    if n >= 2:
        is_out.set()
    while sys.argv[-1] == "never" or not hosts[0].calls.finishing:
        await asyncio.sleep(0.001)
    return -n


app.query("answers", rx.source("numbers").map_async(ask, concurrency=2))


@app.feed
def push_some(evaluator):
    hosts.append(evaluator)
    if numbers.end == 0:
        numbers.push([1, 2, 3])
    is_out.wait()
    END
"""
ENDS = {"SIGTERM": "threading.Event().wait()", "SIGINT": "threading.Event().wait()", "fails": "1 / 0"}


@pytest.mark.parametrize("way", ENDS)
def test_a_run_that_ends_takes_the_answers_to_calls_in_flight(way: str, tmp_path: Path) -> None:
    """However a run ends in order, calls that are in flight and are answered shortly are not made again."""
    write(tmp_path, "calls.py", CALLS.replace("END", ENDS[way]))
    code = 1 if way == "fails" else 0
    with running("run", "calls.py:app", "--store", "s", cwd=tmp_path) as process:
        if way.startswith("SIG"):
            wait_for(process, "asked for 2")
            process.send_signal(getattr(signal, way))
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == code, complaint
    assert cli("tail", "s", "answers", cwd=tmp_path).stdout == "0\t-1\n1\t-2\n"
    write(tmp_path, "calls.py", CALLS.replace("END", "").replace("await asyncio.sleep(0.001)", "break"))
    again = cli("run", "calls.py:app", "--store", "s", cwd=tmp_path).stdout
    assert re.findall("asked for .", again) == ["asked for 3"]


OWED = """
import asyncio
from pathlib import Path

import reliable_rx as rx
from hosting import App, CallbackSink

app = App()
numbers = app.push("numbers")
tries = []


async def ask(n):
    await asyncio.sleep(0.01)
    return -n


def write(n, value):
    tries.append(n)
    if len(tries) < 8:
        raise ConnectionError("away")
    with Path("written").open("a") as file:
        file.write(f"{value}\\n")


async def ping(n):
    await asyncio.sleep(0.2)
    return n


app.query("answers", rx.source("numbers")ASKED)
app.query("pings", rx.interval(0.05).map_async(ping, concurrency=8))
app.query("news", rx.just(0).map_async(ping).repeat())
app.sink("answers", CallbackSink(write))


@app.feed
def push_some(evaluator):
    numbers.push([1, 2, 3])
"""


ASKED = {
    "no call": ".map(lambda n: -n)",
    "one at a time": ".map_async(ask, concurrency=1)",
    "one behind the other": ".map_async(ping).map_async(ask, concurrency=1)",
    "beside a timer": ".map_async(ping, concurrency=1).map_async(ask).timeout(3600.0)",
    "and others by a timer": ".map_async(ask, concurrency=1).merge(rx.interval(0.1).map_async(ping).ignore_elements())",
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_run_ends_behind_what_it_owes(asked: str, tmp_path: Path) -> None:
    """Its feeds have ended, their calls are answered, and a sink that was not available has it; others may go on."""
    write(tmp_path, "owed.py", OWED.replace("ASKED", asked))
    done = cli("run", "owed.py:app", "--store", "s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "written").read_text() == "-1\n-2\n-3\n"


BEHIND = """
import asyncio
import threading
from pathlib import Path

import reliable_rx as rx
from hosting import App

app = App(checkpoint_interval_s=0.05)
numbers = app.push("numbers")
is_first = not Path("pushed").exists()


async def ask(n):
    while is_first:
        print("asked", flush=True)
        await asyncio.sleep(0.3)
    return n


async def ping(n):
    await asyncio.sleep(0.05)
    return n


app.query("answers", rx.source("numbers").map_async(ask, concurrency=2).map_async(ping, concurrency=1))
app.query("news", rx.just(0).map_async(ping).repeat(EDIT))


@app.feed
def push_some(evaluator):
    if is_first:
        numbers.push([1, 2, 3, 4, 5])
        Path("pushed").touch()
        threading.Event().wait()
"""


@pytest.mark.parametrize("edit", ["", "1_000_000"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_start_ends_behind_the_calls_that_it_finds(how: signal.Signals, edit: str, tmp_path: Path) -> None:
    """What was in flight as the run before ended, and what waited behind it, is answered; a poll keeps no run."""
    write(tmp_path, "behind.py", BEHIND.replace("EDIT", ""))
    with running("run", "behind.py:app", "--store", "s", cwd=tmp_path) as process:
        for _ in range(4):
            wait_for(process, "asked")
        process.send_signal(how)
        process.communicate(timeout=60)
    write(tmp_path, "behind.py", BEHIND.replace("EDIT", edit))
    done = cli("run", "behind.py:app", "--store", "s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert cli("tail", "s", "answers", cwd=tmp_path).stdout.split()[1::2] == ["1", "2", "3", "4", "5"]


def test_what_a_run_goes_on_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, where it takes long: calls that follow from events may lead to others for ever."""
    monkeypatch.setattr("hosting.cli.owed.WAITS_S", 0.0)
    left, said = [("q", 1, 1)], list[str]()
    calls = SimpleNamespace(of_events=lambda: iter(left))
    owed = Owed(calls, SimpleNamespace(lacking=list), said.append)
    assert not any(owed.is_paid() for _ in range(5))
    assert len(said) == 1 and "1 call of query 'q'" in said[0] and "Ctrl-C" in said[0]
    left.clear()
    assert owed.is_paid()


def test_a_second_signal_ends_the_wait_for_answers(tmp_path: Path) -> None:
    """While a stop waits for a call that is not answered `run` says what a second signal does, and that does it."""
    write(tmp_path, "calls.py", CALLS.replace("END", ENDS["SIGINT"]).replace("sys.argv[-1]", "'never'"))
    with running("run", "calls.py:app", "--store", "s", cwd=tmp_path) as process:
        wait_for(process, "asked for 2")
        process.send_signal(signal.SIGINT)
        wait_for(process, "Ctrl-C again to stop at once")
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert complaint.count("no last checkpoint") == 1


HANGS = """
import time
from hosting import App, ListSource
app = App()
numbers = app.source("numbers", ListSource([1, 2]))


@numbers.map
def hung(n):
    print("stuck", flush=True)
    while True:
        time.sleep(0.01)  # Python hears what comes just before one long wait only behind it


app.query("slow", hung)
"""


def test_a_stop_that_is_interrupted_is_none(tmp_path: Path) -> None:
    """While a turn hangs `run` says what a second signal does; one that comes with the first is none. After it the
    command and `status` say that it was interrupted and has taken no checkpoint; it has not stopped in order."""
    write(tmp_path, "app.py", HANGS)
    with running("run", "app.py:app", "--store", "s", cwd=tmp_path) as process:
        wait_for(process, "stuck")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        wait_for(process, "Ctrl-C again to stop at once")
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert complaint.count("no last checkpoint") == 1
    said = cli("status", "--store", "s", cwd=tmp_path, code=FAILED).stdout
    assert "no last checkpoint" in said and "in order" not in said


AWAY = """
import time
from pathlib import Path
from hosting import App, CallbackSink
import reliable_rx as rx

app = App()
numbers = app.push("numbers")


def write(n, value):
    print("asked", flush=True)
    if not Path("here").exists():
        raise ConnectionError("away")
    print(f"got {n}", flush=True)


app.query("q", rx.source("numbers"))
app.sink("q", CallbackSink(write))


@app.feed
def push_some(evaluator):
    numbers.push([1])
    while not Path("here").exists():
        time.sleep(0.01)
"""


def test_a_stop_asks_a_sink_that_is_away_once_more(tmp_path: Path) -> None:
    """It waits no longer than the sink does itself, and says why it fails; the next start goes on from there."""
    write(tmp_path, "app.py", AWAY)
    with running("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path) as process:
        wait_for(process, "asked")
        process.send_signal(signal.SIGTERM)
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert complaint.splitlines()[-1].startswith(
        "reliable-rx: the sink of stream 'q' is not available: ConnectionError"
    )
    assert 1 <= said.count("asked") <= 4  # some of its own may come between the first and the stop
    write(tmp_path, "here", "")
    assert "got 0" in cli("run", "app.py:app", "--store", "s", "--plain", cwd=tmp_path).stdout
