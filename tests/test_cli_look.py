"""`reliable-rx inspect` and `tail`: looking at a store."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_process import cli, running, wait_for, write
from other_pythons import Pythons
from test_cli_run import FINITE

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator, event_time
from hosting.cli import store_status
from hosting.cli.command import main
from hosting.cli.stores import Folder
from hosting.cli.tail import tail
from reliable_rx import operators as ops


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of a finite app that has run."""
    folder = tmp_path_factory.mktemp("look")
    text = FINITE + 'app.query("last", words.scan(lambda a, b: b).merge(words.take(1)))\n'
    write(folder, "finite.py", text)
    cli("run", "finite.py:app", "--store", "s", cwd=folder)
    return folder


def test_inspect_shows_queries_plans_positions_and_generations(folder: Path) -> None:
    """All that a recovery would find is there to be read."""
    shown = cli("inspect", "s", cwd=folder).stdout
    assert "generations" in shown and "full" in shown
    assert "words   0" in shown and "ended" in shown
    assert "counts  completed" in shown
    assert "source('words')" in shown and "group_by" in shown


HELD = """
import reliable_rx as rx
from hosting import App

app = App()
lines = app.push("lines")
app.query("longest", rx.source("lines").group_by(len).flat_map(lambda those: those.scan(max)))


@app.feed
def push_some(evaluator):
    lines.push(["to", "be", "or", "not"])
"""


def test_inspect_shows_the_state_of_a_query_row_by_row(tmp_path: Path) -> None:
    """The decoded state of every group, by path and key."""
    write(tmp_path, "held.py", HELD)
    cli("run", "held.py:app", "--store", "s", cwd=tmp_path)
    shown = cli("inspect", "s", "--state", "longest", cwd=tmp_path).stdout
    assert "longest   running, 4 emitted" in shown
    assert "/group_by [2]\n    /flat_map/inner/scan   value = 'to'" in shown
    assert "/group_by [3]\n    /flat_map/inner/scan   value = 'not'" in shown


def test_tail_prints_ids_and_values_from_where_it_is_told(folder: Path) -> None:
    """A line for each notification: its id, a tab, the value as JSON; the end is one of them."""
    lines = cli("tail", "s", "counts", cwd=folder).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["0", "1", "2", "3", "4"]
    assert dict(json.loads(line.split("\t")[1]) for line in lines[:-1]) == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert lines[-1] == "4\tcompleted"
    assert cli("tail", "s", "counts", "--from", "3", cwd=folder).stdout.splitlines() == lines[3:]
    assert cli("tail", "s", "counts", "--follow", cwd=folder).stdout.splitlines() == lines


GROWING = """
import sys
import reliable_rx as rx
from hosting import App

app = App(checkpoint_interval_s=0.05)
lines = app.push("lines")
app.query("upper", rx.source("lines").map(str.upper))


@app.feed
def read(evaluator):
    for line in sys.stdin:
        lines.on_completed() if line == "end\\n" else lines.on_next(line.strip())
"""


def test_tail_follows_a_stream_while_another_process_writes_it(tmp_path: Path) -> None:
    """What the owner commits appears, and the end of the stream ends the command."""
    write(tmp_path, "growing.py", GROWING)
    cli("run", "growing.py:app", "--store", "s", cwd=tmp_path, stdin="one\n")
    with running("tail", "s", "upper", "--follow", cwd=tmp_path) as tail:
        wait_for(tail, '0\t"ONE"')
        cli("run", "growing.py:app", "--store", "s", cwd=tmp_path, stdin="two\nend\n")
        said, _ = tail.communicate(timeout=60)
    assert said.splitlines() == ['1\t"TWO"', "2\tcompleted"]
    assert tail.returncode == 0


def test_code_that_cannot_be_found_is_said_and_can_be_named(folder: Path, tmp_path: Path) -> None:
    """Elsewhere than where the app was run, --app says where its functions come from."""
    twice = "class Twice:\n    def __call__(self, n):\n        return n + n\n"
    text = twice + FINITE + 'app.query("named", counts.map(Twice()))\n'
    write(tmp_path, "named.py", text)
    cli("run", "named.py:app", "--store", "s", cwd=tmp_path)
    shown = cli("inspect", tmp_path / "s", cwd=folder)
    assert "warning" in shown.stdout and "named.Twice" in shown.stdout and "--app" in shown.stdout
    shown = cli("inspect", tmp_path / "s", "--app", tmp_path / "named.py", cwd=folder)
    assert "warning" not in shown.stdout and "Twice" in shown.stdout


def test_following_reads_a_checkpoint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind an end it is looked up whether the query goes on: in each new checkpoint, and in none again and again."""
    reads, polls = list[int](), 0

    def poll(_: float) -> None:
        nonlocal polls
        polls += 1
        if polls == 20:
            evaluator.create("more", rx.source("n"))
            evaluator.checkpoint()
        if polls == 40:
            evaluator.dispose("q")
            evaluator.checkpoint()

    with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("q", rx.source("n").pipe(ops.take(1)))
        evaluator.step()
        evaluator.restart("q")
        evaluator.checkpoint()
        with SqliteStore.read_only(tmp_path / "s") as opened:
            reader: Any = type(opened)
        recover = reader.recover
        monkeypatch.setattr(reader, "recover", lambda self, **how: [reads.append(polls), recover(self, **how)][1])
        monkeypatch.setattr("hosting.cli.tail.SELDOM", 0.0)
        monkeypatch.setattr("hosting.cli.tail.time", SimpleNamespace(sleep=poll, monotonic=time.monotonic))
        assert tail(Folder(tmp_path / "s"), "q", start=None, follow=True, app=None) == 0
    assert reads == [0, 20, 40]


def test_what_is_left_out_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three names of those that share a plan, and how many more; nothing where nothing is left out."""
    with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        for name in ("a", "b", "c", "d"):
            evaluator.create(name, rx.source("n").pipe(ops.take(1)))
        evaluator.create("e", rx.source("n").pipe(ops.skip(1)))
        evaluator.run()
    assert main(["inspect", str(tmp_path / "s")]) == 0
    shown = capsys.readouterr().out
    assert "\na, b, c and 1 more\n" in shown and "\ne\n" in shown and "; --all" not in shown


EMPTY = "from hosting import App\n\napp = App()\n"


@pytest.mark.parametrize("options", [[], ["--all"], ["--app"], ["--all", "--app"]], ids=" ".join)
def test_each_query_has_a_line_whatever_it_is(
    options: list[str], tmp_path: Path, interpreters: Pythons, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each standing query has a line with its status, a suspended one too: in the interpreter that made it, and in that
    which has suspended it, whatever it was before."""
    name = tmp_path.name.replace("-", "_")  # one that no module has yet
    more = [f"{write(tmp_path, f'{name}.py', EMPTY)}:app"] if "--app" in options else []
    n: Any = rx.source("n").map(lambda x: x)  # with code, or another interpreter takes it over as it is
    queries = {"runs": n.scan(max), "groups": n.group_by(bool).flat_map(lambda g: g.count()), "ends": n.take(1)}
    queries |= {"fails": n.map(lambda x: 1 // x), "timed": n.buffer_with_time(9.0), "stays": n}
    for declared in (queries, {"stays"}, {"stays"}):  # the last stores again what it found suspended
        with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([0, 1], follow=True))
            for name in declared:
                clock = event_time(float, lateness_s=1.0) if name == "timed" else None
                evaluator.create(name, queries[name], clock=clock)
            evaluator.run(until=lambda: evaluator.intake.partitions["n", "0"].position == 2)
            evaluator.checkpoint()
        for number in (0, 1):
            interpreters.number = number
            assert main(["inspect", str(tmp_path / "s"), *options, *more]) == 0
            lines = capsys.readouterr().out.split("standing queries\n")[1].splitlines()
            found = dict(line.split()[:2] for line in lines[1 : 1 + len(queries)])
            assert found.keys() == queries.keys()
            assert declared is queries or {found[name] for name in queries if name != "stays"} == {"suspended"}
            assert found["stays"] == "running"


def test_a_status_says_what_it_waits_for_only_where_it_waits() -> None:
    """Each state of a store has its own first line, and trouble a line if there is any."""
    status = store_status.StoreStatus(
        store="s", state="ended", ended="a fault", reported_s=5.0, generation=0, committed_s=None, pid=None,
        told_s=None, behind=0, trouble="", running={}, failed=[],
    )  # fmt: skip
    first, *others = store_status.lines(status)
    assert first.endswith("the last process ended 5.0 s ago: a fault")
    assert not any("waiting" in each for each in others)
    assert "waiting: no disk" in store_status.lines(replace(status, trouble="no disk"))
