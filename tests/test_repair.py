"""`store repair` says what is wrong and what it would do, changes nothing without consent, and then the store opens."""

from __future__ import annotations

import io
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from lanes import at_each_commit, crossed

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.format.salvage import Unreadable
from hosting import App, ListSource, QueryEvaluator
from hosting.cli.command import main
from hosting.repair.repair import readers_told
from reliable_rx import operators as ops
from reliable_rx.errors import ReliableRxError
from reliable_rx.operators.contract.choices import OnBadRecord
from reliable_rx.testing.hostile import Emits
from reliable_rx.testing.steps import add

NUMBERS = [1, 2, 3, 4]
APP = f"{__name__}:app"
Trouble = Callable[[Path, bool, pytest.MonkeyPatch], None]
app: App = App()


class Drifting:
    """Gives another number each time."""

    calls = 0


def drifts(n: int) -> int:
    Drifting.calls += 1
    return Drifting.calls


class Leaving:
    """A class that goes."""


def leaving(n: int) -> Any:
    return Leaving()


def hosting(query: Any = None, numbers: list[int] = NUMBERS) -> App:
    global app
    app = App(checkpoint_interval_s=1e9)
    app.source("n", ListSource(numbers, follow=True))
    app.query("sum", rx.source("n").pipe(ops.scan(add, 0)))
    if query is not None:
        app.query("q", query)
    return app


def work(folder: Path, *, clean: bool) -> dict[str, Any]:
    """Run the app on the store, end as told, and return what the streams hold."""
    with SqliteStore(folder) as store:
        evaluator = app.evaluator(store)
        while evaluator.step():
            pass
        evaluator.flush()
        if clean:
            evaluator.checkpoint()
        streams = {name: evaluator.stream(name) for name in evaluator.queries()}
        parts = {name: list(stream.read(stream.first, 100)) for name, stream in streams.items()}
        found = {name: [value for part in read for value in part.values] for name, read in parts.items()}
        evaluator.close() if clean else evaluator.abandon()
        return found


def content(folder: Path) -> dict[str, bytes]:
    fleeting = (".lock", "-shm", "-wal")
    return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith(fleeting)}


def repaired(folder: Path, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Decline, and see that nothing was changed; then agree; return what was said."""
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    before = content(folder)
    assert main(["store", "repair", str(folder), "--app", APP]) == 1
    assert content(folder) == before
    assert [each.name for each in folder.parent.iterdir()] == [folder.name]
    assert said in capsys.readouterr().out
    assert main(["store", "repair", str(folder), "--app", APP, "--yes"]) == 0
    out = capsys.readouterr().out
    assert main(["store", "repair", str(folder), "--app", APP]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    return out


def test_nothing_to_repair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that starts is left alone, also behind a crash."""
    folder = tmp_path / "s"
    hosting()
    work(folder, clean=False)
    assert main(["store", "repair", str(folder), "--app", APP]) == 0
    assert "nothing to repair" in capsys.readouterr().out


def test_a_state_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The start ends its query by itself, so there is nothing to repair: that is told; the others go on."""
    folder = tmp_path / "s"
    hosting(rx.source("n").pipe(ops.map(Emits("never read")), ops.buffer_with_count(9)))
    work(folder, clean=True)
    before = content(folder)
    assert main(["store", "repair", str(folder), "--app", APP, "--yes"]) == 0
    assert "what its start does: query 'q': CheckpointRefused: its stored state" in capsys.readouterr().out
    assert content(folder) == before
    hosting(rx.source("n").pipe(ops.map(Emits("never read")), ops.buffer_with_count(9)), [*NUMBERS, 5])
    assert work(folder, clean=True)["sum"] == [1, 3, 6, 10, 4]


def test_a_class_that_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a strict evaluator refuses to give up is given up here, and named."""
    folder = tmp_path / "s"
    hosting(rx.source("n").pipe(ops.map(leaving), ops.buffer_with_count(9)))
    work(folder, clean=True)
    monkeypatch.delattr(f"{__name__}.Leaving")
    with pytest.raises(ReliableRxError, match="Leaving"):
        work(folder, clean=True)
    repaired(folder, "Leaving", capsys, monkeypatch)
    assert work(folder, clean=True)["sum"] == [1, 3, 6, 10]


def test_turns_that_cannot_be_taken_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that lost the events of the journal: the turns are passed over, and their ids are not used again."""
    monkeypatch.setattr("hosting.edges.partition_replay.QUIET_S", 0.0)
    folder = tmp_path / "s"
    hosting(numbers=[1, 2])
    work(folder, clean=True)
    hosting(rx.source("sum"))
    work(folder, clean=False)
    hosting(rx.source("sum"), numbers=[1, 2, 3])
    with pytest.raises(ReliableRxError):
        work(folder, clean=True)
    out = repaired(folder, "cannot be taken again: PositionUnavailable", capsys, monkeypatch)
    assert "stream 'sum': ids 2 to 3 in use before a crash" in out
    assert main(["tail", str(folder), "sum"]) == 0
    assert "2\tunreadable\tvalue of 'sum': it was emitted before a crash" in capsys.readouterr().out
    found = work(folder, clean=True)["sum"]
    assert found[:2] == [1, 3]
    assert [type(each) for each in found[2:]] == [Unreadable, Unreadable, int]
    assert found[-1] == 6


def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a store is a wrong use."""
    assert main(["store", "repair", str(tmp_path)]) == 2
    assert "there is no store" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["behind a kill", "a class of the app"])
def test_without_the_app_nothing_is_given_up(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may only come from the missing app is no finding: the app is asked for, and nothing is changed."""
    folder = tmp_path / "s"
    if how == "behind a kill":
        hosting()
        work(folder, clean=False)
    else:
        hosting(rx.source("n").pipe(ops.map(leaving), ops.buffer_with_count(9)))
        work(folder, clean=True)
        monkeypatch.delattr(f"{__name__}.Leaving")
    before = content(folder)
    assert main(["store", "repair", str(folder), "--yes"]) == 2
    told = capsys.readouterr()
    assert "give --app MODULE:APP" in told.err
    assert len(told.err.replace(str(folder), "").replace(__file__, "")) < 300
    assert ".repair-" not in told.err + told.out
    assert content(folder) == before


def test_turns_that_are_missing_need_no_app(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a journal begins behind its first turns, that is repaired whatever the app is: none is asked for."""
    folder, numbers = tmp_path / "s", [1, 2]
    hosting(numbers=numbers)
    for number in (3, 4):
        work(folder, clean=True)
        numbers.append(number)
    work(folder, clean=True)
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal, journal:
        assert journal.execute("DELETE FROM turns WHERE first = (SELECT min(first) FROM turns)").rowcount == 1
    assert main(["store", "repair", str(folder), "--yes"]) == 0
    assert "turns before that are missing" in capsys.readouterr().out
    assert work(folder, clean=True)["sum"] == [1, 3, 6, 10]


def test_a_store_of_a_script_is_not_judged_without_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes of ``__main__`` are found by the script alone, whatever app is named: their states are not given up."""
    folder = tmp_path / "s"
    monkeypatch.setattr(Leaving, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Leaving", Leaving, raising=False)
    hosting(rx.source("n").pipe(ops.map(leaving), ops.buffer_with_count(9)))
    work(folder, clean=True)
    monkeypatch.delattr(sys.modules["__main__"], "Leaving")
    before = content(folder)
    assert main(["store", "repair", str(folder), "--app", APP, "--yes"]) == 2
    assert "give --app and the script" in capsys.readouterr().err
    assert content(folder) == before


TOOL = """
import os, sys
from hosting import App, ListSource
class Mine:
    def __init__(self, v): self.v = v
app = App(checkpoint_interval_s=0.01)
n = app.source("n", ListSource(list(range(50)), follow=True))
app.query("q", n.map(Mine).scan(lambda a, m: Mine(a.v + m.v)).map(lambda a: a.v))
if __name__ == "__main__":
    from checkpoint import SqliteStore
    with SqliteStore(sys.argv[1]) as store, app.evaluator(store) as evaluator:
        evaluator.run(until=lambda: evaluator.events_in >= 45)
        os._exit(0)
"""


@pytest.mark.parametrize(
    "command", [*map(at_each_commit, (["store", "repair"], ["restart"], ["dispose"]))], ids=" ".join
)
def test_an_app_that_a_script_runs_itself_is_asked_for_as_the_script(command: list[str], tmp_path: Path) -> None:
    """Loaded by the name of its app it has no ``__main__`` with its classes: nothing is given up for that."""
    script, folder = tmp_path / "tool.py", tmp_path / "s"
    script.write_text(TOOL)
    subprocess.run([sys.executable, script, folder], check=True)
    named = [str(folder), *(["q"] if command != ["store", "repair"] else [])]
    asked = [sys.executable, "-m", "hosting.cli", *command, *named, "--app", f"{script}:app", "--yes"]
    found = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 2 and "the script" in found.stderr, found.stderr
    asked = [
        sys.executable,
        "-m",
        "hosting.cli",
        "store",
        "repair",
        str(folder),
        "--app",
        f"{script}:__main__",
        "--yes",
    ]
    found = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0 and "nothing to repair" in found.stdout, found.stdout + found.stderr


@dataclass
class Level:
    """Goes by name into the stores of this module, and changes."""

    left: int


@dataclass
class Changed:
    """What is called `Level` later."""

    left: int
    warn: bool = False


def level(n: int) -> Any:
    return Level(n)


def with_gone_class(policy: OnBadRecord, *, strict: bool) -> App:
    """Declare an app of which a pushed value is of a class that goes."""
    global app
    app = App(checkpoint_interval_s=1e9, strict=strict)
    app.push("p", on_bad_record=policy)
    app.query("q", rx.source("p").pipe(ops.map(str)))
    return app


def pushing(policy: OnBadRecord) -> Trouble:
    def make(folder: Path, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        with_gone_class(policy, strict=strict)
        with SqliteStore(folder) as store, closing(app.evaluator(store)):
            app.pushed["p"].push([1, Leaving(), 2])
        if policy == "fail":  # it would wait for the record to be mended
            return
        monkeypatch.delattr(f"{__name__}.Leaving")
        work(folder, clean=False)

    return make


def hosted(query: Any, *, then: Callable[[Path, pytest.MonkeyPatch], object], clean: bool = False) -> Trouble:
    def make(folder: Path, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        hosting(query).options["strict"] = strict
        work(folder, clean=clean)
        then(folder, monkeypatch)

    return make


def gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(f"{__name__}.Leaving")


def change_level(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Changed.__qualname__ = Changed.__name__ = "Level"
    monkeypatch.setattr(f"{__name__}.Level", Changed)


def flip_newest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a generation and damage it."""
    work(folder, clean=True)
    work(folder, clean=True)
    with closing(sqlite3.connect(folder / "checkpoint.sqlite")) as db, db:
        row, blob = db.execute("SELECT rowid, blob FROM chunks ORDER BY generation DESC, rowid DESC").fetchone()
        db.execute("UPDATE chunks SET blob = ? WHERE rowid = ?", (blob[:-1] + bytes([blob[-1] ^ 1]), row))


def forget_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app.sources["n"] = ListSource([1, 2], follow=True)


def read_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app.query("new", rx.source("a source that is not there"))


def nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pass


N = rx.source("n")
TROUBLES: dict[str, Trouble] = {
    "none": hosted(None, then=nothing),
    "pushed, dead letters": pushing("dead_letter"),
    "pushed, skipped": pushing("skip"),
    "pushed, fail": pushing("fail"),
    "drifting": hosted(N.pipe(ops.map(drifts)), then=nothing),
    "state of a class that is gone": hosted(N.pipe(ops.map(leaving), ops.buffer_with_count(9)), then=gone, clean=True),
    "state never read": hosted(
        N.pipe(ops.map(Emits("never read")), ops.buffer_with_count(9)), then=nothing, clean=True
    ),
    "class changed behind a kill": hosted(N.pipe(ops.map(level)), then=change_level),
    "newest checkpoint damaged": hosted(None, then=flip_newest, clean=True),
    "events of the journal lost": hosted(None, then=forget_numbers),
    "app that is refused": hosted(None, then=read_nothing),
}


@pytest.mark.parametrize("strict, trouble", crossed([True, False], TROUBLES))
def test_a_repair_is_for_what_does_not_start(
    trouble: str, strict: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starts is called well and left alone. What does not is never called well: the app starts behind a repair,
    or the repair says that it cannot help, and changes nothing."""
    folder = tmp_path / "s"
    TROUBLES[trouble](folder, strict, monkeypatch)
    before = content(folder)
    refusal = refusal_of(folder, tmp_path / "copy")
    exit_code = main(["store", "repair", str(folder), "--app", APP, "--yes"])
    out = capsys.readouterr().out
    assert str(tmp_path / ".repair") not in out
    assert "store repair" not in out  # it does not name itself as a way
    assert all(int(first) < int(last) for first, last in re.findall(r"(?:turns|ids) (\d+) to (\d+)", out)), out
    if refusal is None:
        assert (exit_code, "nothing to repair" in out) == (0, True), out
    elif exit_code == 0:
        assert "repaired: " in out
        assert refusal_of(folder, tmp_path / "again") is None
        return
    else:
        assert (exit_code, "no repair lets the app start" in out) == (1, True), out
    assert content(folder) == before


def refusal_of(folder: Path, copy: Path) -> Exception | None:
    """Start the app on a copy; return why that is refused."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.lock", "lock"))
    with SqliteStore(copy) as store, closing(app.evaluator(store)) as evaluator:
        try:
            evaluator.start()
        except ReliableRxError as error:
            return error
        finally:
            evaluator.abandon()
    return None


def test_what_a_command_hosts_has_the_inputs_of_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and repairs take turns with all that the app says of its inputs, and with its options."""
    declared = App(delivery="at_least_once", batch_events_max=7, strict=False, retain_events=3, idle_s=9.0)
    declared.source("n", ListSource([1]))
    for policy in get_args(OnBadRecord):
        declared.push(policy, on_bad_record=policy)
    declared.query("q", rx.source("n"))
    told: list[Any] = []
    for name in ("__init__", "source", "push"):
        before = getattr(QueryEvaluator, name)

        def spy(self: Any, *given: Any, _name: str = name, _before: Any = before, **named: Any) -> Any:
            told.append((_name, [each for each in given if isinstance(each, str)], named))
            return _before(self, *given, **named)

        monkeypatch.setattr(QueryEvaluator, name, spy)
    with closing(declared.evaluator(MemoryStore())):
        wanted, told[:] = list(told), []
    with closing(declared.bare(MemoryStore())) as bare:
        assert told == wanted
        assert list(bare.engine.suspended.declared) == ["q"]
        assert not bare.declared


def test_who_fails_with_a_query_is_named_before_the_consent() -> None:
    """What reads it, and what reads that: their states go too."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("a", rx.source("n"))
        evaluator.create("b", rx.source("a").scan(lambda total, n: total + n, 0))
        evaluator.create("c", rx.source("b"))
        evaluator.run()
        assert readers_told(evaluator, "a") == "; with it 'b', 'c', which read it: their states are given up too"
        assert readers_told(evaluator, "c") == ""
