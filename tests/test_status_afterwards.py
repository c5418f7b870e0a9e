"""What `status` says of a store on which nothing runs: from its checkpoint, from last words, and what is not known."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_process import cli, write
from postgres_server import PostgresServer

import reliable_rx as rx
from checkpoint import PostgresStore, SqliteStore
from checkpoint.store import Store
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.cli.store_status import StoreStatus, lines, look, look_in_database
from hosting.cli.wording import FAILED


def refuse(n: int, value: object) -> None:
    raise ValueError(f"{value} is not wanted")


def mended_refuse() -> Callable[[int, object], None]:
    """Return the same function, as its label says, once it is mended."""

    def taken(n: int, value: object) -> None: ...

    taken.__qualname__ = refuse.__qualname__
    return taken


def run_on(store: Store, *, checkpoints: bool = True) -> None:
    """Run a query that fails, one that skips and a sink that fails to the end."""
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource([1, 0, 2]))
    evaluator.create("fails", rx.source("n").map(lambda n: 1 // n))
    evaluator.create("skips", rx.source("n").map(lambda n: 1 // n), policy="skip")
    evaluator.create("fine", rx.source("n"))
    evaluator.sink("fine", CallbackSink(refuse))
    evaluator.run()
    if checkpoints:
        evaluator.checkpoint()
    evaluator.close()


def wrong(status: StoreStatus) -> list[str]:
    """Name what *status* says is wrong."""
    return [each["name"] for each in status.failed] + [each["kind"] for each in status.incidents]


def test_last_words_have_what_was_open_at_the_end(tmp_path: Path) -> None:
    """After a clean stop: the failed query, the failed sink, the count of what was skipped."""
    with SqliteStore(tmp_path / "s") as store:
        run_on(store)
    status = look(tmp_path / "s")
    assert (status.state, status.behind, status.exit_code) == ("stopped", 0, FAILED)
    assert {"fails", "skipped", "sink"} <= set(wrong(status))


def test_a_store_without_its_status_file_does_not_lie(tmp_path: Path) -> None:
    """A copy is judged by its checkpoint, and a journal behind it is said not to have been looked at."""
    with SqliteStore(tmp_path / "s") as store:
        run_on(store)
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    status = look(tmp_path / "copy")
    assert (status.state, status.exit_code) == ("unknown", FAILED)
    assert {"fails", "skipped", "sink"} == set(wrong(status))
    with SqliteStore(tmp_path / "journal only") as store:
        run_on(store, checkpoints=False)
    status = look(tmp_path / "journal only")
    assert status.state == "stopped" and status.behind and {"fails", "skipped", "sink"} <= set(wrong(status))
    (tmp_path / "journal only" / "status.json").unlink()
    status = look(tmp_path / "journal only")
    assert not wrong(status) and status.behind
    assert "not known: start it to see" in "\n".join(lines(status))


def test_a_start_that_mends_it_clears_it(tmp_path: Path) -> None:
    """What another run left is not told of a run in which nothing fails."""
    for mended in (False, True):
        with SqliteStore(tmp_path / "s") as store:
            if not mended:
                run_on(store)
                continue
            with QueryEvaluator(store) as evaluator:
                evaluator.source("n", ListSource([1, 0, 2]))
                evaluator.create("fails", rx.source("n").map(lambda n: n))
                evaluator.create("skips", rx.source("n").map(lambda n: n), policy="skip")
                evaluator.sink("fine", CallbackSink(mended_refuse()))
                evaluator.run()
    status = look(tmp_path / "s")
    assert not wrong(status) and status.exit_code == 0 and "nothing has failed" in list(lines(status))


def test_what_was_skipped_is_told_of_each_run_until_the_query_is_another(tmp_path: Path) -> None:
    """A run in which nothing was skipped does not hide that events are missing in what the query has counted."""
    for _ in range(3):
        with SqliteStore(tmp_path / "s") as store:
            run_on(store)
        (found,) = [each for each in look(tmp_path / "s").incidents if each["kind"] == "skipped"]
        assert found["message"].startswith("it raised at 1 event so far, which is lost")


def test_what_breaks_an_evaluator_is_its_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that dies of an error leaves that error, and one that is only opened changes nothing."""
    with SqliteStore(tmp_path / "s") as store:
        evaluator = QueryEvaluator(store)
        evaluator.source("n", ListSource([1]))
        evaluator.start()
        monkeypatch.setattr(evaluator.engine, "take", lambda turn: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            evaluator.run()
        evaluator.close()
        QueryEvaluator(store).close()
    status = look(tmp_path / "s")
    assert (status.state, status.exit_code) == ("ended", FAILED) and "ZeroDivisionError" in status.ended


StatusReport = tuple[str, bool, str, list[str]]


class Looked(ListSource):
    """Has `status` asked while the evaluator that it belongs to starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__([1, 0, 2])
        self.folder, self.seen = folder, list[StatusReport]()

    def open(self, partition: str, at: int) -> Any:
        status = look(self.folder)
        self.seen.append((status.state, status.starting, next(lines(status)), wrong(status)))
        return super().open(partition, at)


def test_a_process_that_starts_is_seen(tmp_path: Path) -> None:
    """A replay may take long: meanwhile it is said who runs, and what was known before is not forgotten."""
    for run in range(2):
        with SqliteStore(tmp_path / "s") as store:
            source = Looked(tmp_path / "s")
            evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9)
            evaluator.source("n", source)
            evaluator.create("fails", rx.source("n").map(lambda n: 1 // n))
            evaluator.run()
            evaluator.close()
        ((state, starting, line, found),) = source.seen
        assert (state, starting) == ("running", True) and "starts on it" in line
        assert ("fails" in found) is (run == 1)
    assert look(tmp_path / "s").state == "stopped"


def test_whether_something_has_failed_in_what_is_taken_again_is_not_known_yet(tmp_path: Path) -> None:
    """While a process starts behind a kill `status` says so, and not that nothing has."""
    with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.run()
    found = look(tmp_path / "s")
    for behind, starting, said in ((3, True, "not known"), (0, True, "nothing has failed"), (3, False, "nothing")):
        status = replace(found, state="running", behind=behind, starting=starting)
        assert said in list(lines(status))[-1]


APP = """
import reliable_rx as rx
from hosting import App, CallbackSink, ListSource


def refuse(n, value):
    raise ValueError("it is not wanted")


app = App()
n = app.source("n", ListSource([1, 0, 2]))
app.query("fails", n.map(lambda n: 1 // n))
app.query("fine", n)
app.sink("fine", lambda: CallbackSink(refuse))
"""


@pytest.mark.parametrize("command", [("restart", "s", "fails"), ("dispose", "s", "fails")])
def test_a_command_that_changes_a_query_keeps_what_it_does_not_know(command: tuple[str, ...], tmp_path: Path) -> None:
    """The query is well, and the sink that had failed, which only a run has, still counts."""
    write(tmp_path, "app.py", APP)
    cli("run", "app.py", "--store", "s", "--plain", cwd=tmp_path, code=FAILED)
    assert {"fails", "sink"} <= set(wrong(look(tmp_path / "s")))
    cli(*command, cwd=tmp_path)
    status = look(tmp_path / "s")
    assert (wrong(status), status.state, status.exit_code) == (["sink"], "stopped", FAILED)


def test_a_store_in_a_database_is_judged_by_its_checkpoint(postgres: PostgresServer, tmp_path: Path) -> None:
    """There is no file beside it: what is in the checkpoint counts, and the command finds it by its name."""
    dsn, name = postgres.dsn, f"shop {uuid.uuid4()}"
    with PostgresStore(dsn, name) as store:
        run_on(store)
    status = look_in_database(dsn, name)
    assert (status.state, status.exit_code) == ("unknown", FAILED)
    assert {"fails", "skipped", "sink"} == set(wrong(status))
    told = cli("status", "--store", dsn, "--name", name, cwd=tmp_path, code=FAILED).stdout
    assert "fails" in told and "what was known" in told


MISSING = """
import reliable_rx as rx
from hosting import App, FileSource

app = App()
n = app.source("n", {source})
app.query("fails", n.map(lambda n: 1 // n))
"""


@pytest.mark.parametrize("source", ["FileSource('n.jsonl')", "lambda: FileSource('n.jsonl')"])
def test_a_run_that_could_not_begin_leaves_why(tmp_path: Path, source: str) -> None:
    """Whether its app cannot be loaded or not be built: `status` says so, beside what had failed before."""
    write(tmp_path, "app.py", MISSING.format(source=source))
    write(tmp_path, "n.jsonl", "1\n0\n")
    cli("run", "app.py", "--store", "s", "--plain", cwd=tmp_path, code=FAILED)
    (tmp_path / "n.jsonl").rename(tmp_path / "away")
    for _ in range(2):
        cli("run", "app.py", "--store", "s", "--plain", cwd=tmp_path, code=1 if "lambda" in source else 2)
        status = look(tmp_path / "s")
        assert status.state == "ended" and "there is no file n.jsonl" in status.ended
        assert status.exit_code == FAILED and wrong(status)[0] == "fails"
    (tmp_path / "s" / "status.json").unlink()
    cli("run", "app.py", "--store", "s", "--plain", cwd=tmp_path, code=1 if "lambda" in source else 2)
    assert "ended: " in next(lines(look(tmp_path / "s"))) and wrong(look(tmp_path / "s"))[0] == "fails"
    (tmp_path / "away").rename(tmp_path / "n.jsonl")
    cli("run", "app.py", "--store", "s", "--plain", cwd=tmp_path, code=FAILED)
    assert look(tmp_path / "s").state == "stopped"


def test_a_run_that_could_not_begin_says_nothing_for_another(tmp_path: Path) -> None:
    """While a process runs on the store, `status` is that one's alone."""
    write(tmp_path, "app.py", MISSING.format(source="FileSource('n.jsonl')"))
    with SqliteStore(tmp_path / "s") as store, QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.start()
        cli("run", "app.py", "--store", "s", "--plain", cwd=tmp_path, code=2)
        assert look(tmp_path / "s").state == "running"
