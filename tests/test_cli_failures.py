"""What has failed is seen from outside, running or stopped, and mended on a stopped store; as real processes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from cli_process import cli, kill, running, status_of, stop, wait_for, write
from conditions import until
from lanes import left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.cli.run import farewell
from hosting.cli.tail import Writer
from hosting.cli.wording import FAILED

APP = """
import time
from hosting import App, GeneratorSource, JsonLinesSink

app = App(checkpoint_interval_s=0.1, batch_events_max=1)


def number(i, random):
    time.sleep(0.001)
    return i


def seven(n):
    if n == 7:
        raise ValueError("seven cannot be had")
    return n


numbers = app.source("numbers", GeneratorSource(number{end}))
app.query("bad", numbers.map(seven))
app.query("sums", numbers.scan(lambda total, n: total + n, 0))
app.sink("bad", lambda: JsonLinesSink("bad.jsonl"))
"""


def test_a_running_store_says_what_has_failed(tmp_path: Path) -> None:
    """`status` names query, error, event and traceback while the process runs, when it is killed, when it stopped."""
    write(tmp_path, "app.py", APP.format(end=""))
    with running("run", "app.py:app", "--store", "s", cwd=tmp_path) as process:
        file = tmp_path / "s" / "status.json"
        until(lambda: file.exists() and b'"query"' in file.read_bytes(), "what has failed is told")
        now = status_of(tmp_path, FAILED)
        shown = cli("status", "--store", "s", cwd=tmp_path, code=FAILED).stdout
        kill(process)
    after = status_of(tmp_path, FAILED)
    with running("run", "app.py:app", "--store", "s", cwd=tmp_path) as process:
        wait_for(process, "going on from checkpoint")
        stop(process)
    assert process.returncode == FAILED
    stopped = status_of(tmp_path, FAILED)
    for each in (now, after, stopped):
        (failed,) = each["failed"]
        assert (failed["name"], failed["error"]) == ("bad", "ValueError: seven cannot be had")
        assert (failed["failed_at"]["source"], failed["failed_at"]["position"]) == ("numbers", 7)
        assert "in seven" in failed["trace"]
    assert now["pid"] is not None and [each["kind"] for each in now["incidents"]] == ["query"]
    assert [each["state"] for each in (now, after, stopped)] == ["running", "killed", "stopped"]
    assert after["pid"] is None and stopped["pid"] is None
    assert "numbers/0 event 7" in shown and 'raise ValueError("seven cannot be had")' in shown


def test_a_failed_query_is_run_again_and_disposed_of(tmp_path: Path) -> None:
    """Its ids go on behind its end, its sink gets every one once; disposed of it is gone; others do not notice."""
    write(tmp_path, "app.py", APP.format(end=", count=20"))
    cli("run", "app.py:app", "--store", "s", cwd=tmp_path, code=FAILED)
    assert cli("tail", "s", "bad", cwd=tmp_path).stdout.splitlines()[-1].startswith("7\tfailed")
    told = cli("restart", "s", "bad", cwd=tmp_path).stdout
    assert "was failed with ValueError: seven cannot be had; it " in told
    write(tmp_path, "app.py", APP.format(end=", count=40"))
    cli("run", "app.py:app", "--store", "s", cwd=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [each["id"] for each in lines] == list(range(len(lines)))
    assert status_of(tmp_path, 0)["failed"] == []
    for follow in ([], ["--follow"]):
        shown = cli("tail", "s", "bad", *follow, cwd=tmp_path).stdout.splitlines()
        assert [int(line.split("\t")[0]) for line in shown] == list(range(len(lines))), "it stops at no end in between"
        assert shown[-1].endswith("\tcompleted")
        for start in (8, len(shown)):  # behind the first end, and where nothing is left
            rest = cli("tail", "s", "bad", "--from", str(start), *follow, cwd=tmp_path).stdout.splitlines()
            assert rest == shown[start:]
    told = cli("dispose", "s", "bad", cwd=tmp_path).stdout
    assert "is disposed of" in told
    assert "bad" not in cli("inspect", "s", cwd=tmp_path).stdout.split("standing quer")[1].splitlines()[2]
    assert "the store has no query 'bad'; " in cli("restart", "s", "bad", cwd=tmp_path, code=2).stderr


def checkpointed(folder: Path) -> bool:
    with SqliteStore.read_only(folder) as store:
        return bool(store.generations())


def runs(folder: Path) -> bool:
    """Whether the query runs that fails, as the last checkpoint has it."""
    with SqliteStore.read_only(folder) as store:
        return Writer(store, "bad").goes_on()


def test_behind_a_crash_the_app_is_asked_for(tmp_path: Path) -> None:
    """The journal's events are in the sources, which only the app has; with it the query is run again."""
    write(tmp_path, "app.py", APP.format(end=""))
    with running("run", "app.py:app", "--store", "s", cwd=tmp_path) as process:
        file = tmp_path / "s" / "status.json"
        until(lambda: file.exists() and b'"query"' in file.read_bytes(), "it has failed")
        until(lambda: checkpointed(tmp_path / "s") and not runs(tmp_path / "s"), "a checkpoint has its end")
        owned = cli("restart", "s", "bad", cwd=tmp_path, code=1).stderr
        kill(process)
    assert "is in use by process" in owned
    assert not runs(tmp_path / "s"), "who follows its stream need not wait behind the end"
    cli("restart", "s", "bad", "--app", "app.py:app", cwd=tmp_path)
    assert runs(tmp_path / "s"), "its ids will go on behind the end"
    assert status_of(tmp_path, 0)["failed"] == []


@left_to_commits
def test_the_state_of_a_query_that_runs_is_not_dropped_unasked(tmp_path: Path) -> None:
    """`restart` of a query that has not ended asks; declined, or with nobody to ask, the state is still there."""
    endless = APP.format(end="")
    write(tmp_path, "app.py", endless)
    with running("run", "app.py:app", "--store", "s", cwd=tmp_path) as process:
        wait_for(process, "checkpoint")
        stop(process)
    before = cli("inspect", "s", "--state", "sums", cwd=tmp_path).stdout
    for answer in ("", "n\n"):
        assert "--yes" in cli("restart", "s", "sums", cwd=tmp_path, code=2, stdin=answer).stderr
    assert cli("inspect", "s", "--state", "sums", cwd=tmp_path).stdout == before
    assert "runs again, without state" in cli("restart", "s", "sums", "--yes", cwd=tmp_path).stdout
    assert cli("inspect", "s", "--state", "sums", cwd=tmp_path).stdout != before


def test_the_last_words_name_everything_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """Failed queries once, and what else is open; its level decides whether that is a failure of the run."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.start()
        assert farewell(evaluator, stopped=True) == 0
        evaluator.incidents.report("sink", "s", "the disk is full", level=logging.WARNING)
        assert farewell(evaluator, stopped=True) == 0
        evaluator.incidents.report("clock", "c", "it stands still")
        assert farewell(evaluator, stopped=True) == FAILED
    said = capsys.readouterr()
    assert (said.out + said.err).count("sink 's': the disk is full") == 2
    assert (said.out + said.err).count("it stands still") == 1


def test_the_last_words_say_how_many_they_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of many failed queries, and of many incidents, ten are named, the others are counted, with the way to all."""
    with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1, 0]))
        for number in range(12):
            evaluator.create(f"q{number}", rx.source("n").map(lambda n: 1 // n))
            evaluator.incidents.report("sink", f"s{number}", "the disk is full")
        evaluator.run()
        assert farewell(evaluator, stopped=False) == FAILED
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 21 and said[-1].endswith(
        f"… and 4 more; `reliable-rx status --store {tmp_path / 's'} --json` has all of them"
    )


UNLICENSED = """
from hosting import App, JsonLinesSink, ListSource

app = App()


class Model:
    def __init__(self):
        self.x = 1

    def __setstate__(self, state):
        raise ValueError("needs its licence")


n = app.source("n", ListSource([1, 2, 3]))
app.query("q", n.scan(lambda a, i: (a[0] + i, Model()), (0, None)).map(lambda a: a[0]))
app.query("good", n.map(lambda i: i))
app.sink("q", lambda: JsonLinesSink("q.jsonl"))
"""


def test_what_an_ended_query_was_need_not_be_read(tmp_path: Path) -> None:
    """A start that cannot read it tells of it once, and all is well: it has ended, and needs it no more."""
    write(tmp_path, "app.py", UNLICENSED)
    said = [cli("run", "app.py:app", "--store", "store", cwd=tmp_path, code=0).stderr for _ in range(3)]
    assert ["nothing is lost" in each for each in said] == [False, True, False]
