"""Sinks that have more than the store has given: of a query that was renamed, and behind an older copy of the store."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anybodys import Anybodys
from killed_store import killed
from lanes import at_each_commit

from checkpoint import SqliteStore
from hosting import App, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from hosting.cli.command import main
from hosting.repair.lost import QUIET_EACH, QUIET_TIMES
from reliable_rx.errors import PositionUnavailable
from reliable_rx.operators.contract.choices import Delivery
from reliable_rx.reliable import Sink

APP = f"{__name__}:app"
OTHERS = ["other 0", "other 1"]
app = App()


def declared(
    folder: Path,
    count: int,
    *,
    name: str = "sum",
    file: str = "sum",
    quiet: Iterable[str] = (),
    kind: type[JsonLinesSink] = JsonLinesSink,
) -> App:
    """Declare a query called *name* with a sink in *file*, others with theirs, and *quiet* ones without a sink."""
    global app
    app = App(checkpoint_interval_s=1e9)
    numbers = app.source("n", ListSource(list(range(count)), follow=True))
    for each in (name, *OTHERS, *quiet):
        app.query(each, numbers.scan(lambda a, b: a + b) if each == name else numbers.map(lambda v: -v))
    app.sink(name, lambda: kind(folder / f"{file}.jsonl"))
    for each in OTHERS:
        app.sink(each, lambda each=each: kind(folder / f"{each}.jsonl"))
    return app


def run(hosted: App, folder: Path, *, clean: bool = True) -> dict[str, int]:
    """Run until all that there is has been taken; return the next id of each stream."""
    with SqliteStore(folder / "store") as store, closing(hosted.evaluator(store)) as evaluator:
        take_all(evaluator)
        if clean:
            evaluator.checkpoint()
        evaluator.outlets.flush()
        return {name: evaluator.engine.emitted(name) for name in evaluator.queries()}


def take_all(evaluator: QueryEvaluator) -> None:
    evaluator.start()
    source = evaluator.intake.sources["n"]
    assert isinstance(source, ListSource)
    evaluator.run(until=lambda: evaluator.intake.partitions["n", "0"].position >= source.bounds("0")[1])
    evaluator.flush()
    evaluator.step()


def work(folder: Path, *, clean: bool) -> None:
    run(declared(folder, 30), folder, clean=clean)


def lines(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what is in the files."""
    return {each.stem: [json.loads(line) for line in each.read_text().splitlines()] for each in folder.glob("*.jsonl")}


RENAMED = {"old name": {"name": "sum"}, "new file": {"name": "total", "file": "total"}}


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("remedy", RENAMED)
def test_a_query_is_renamed_and_its_sink_is_not(remedy: str, clean: bool, tmp_path: Path) -> None:
    """The sink fails by name, and changes nothing; each way that it names loses nothing of any stream."""
    killed(lambda: work(tmp_path, clean=clean))
    before = lines(tmp_path)["sum"]
    hosted = declared(tmp_path, 40, name="total")
    for _ in range(2):
        with SqliteStore(tmp_path / "store") as store, closing(hosted.evaluator(store)) as evaluator:
            take_all(evaluator)
            (told,) = [each for each in evaluator.incidents.open() if each.kind == "sink"]
            assert (
                "has the ids of stream 'sum' up to 29, not of stream 'total'; give the sink of 'total' another"
                in str(told)
            )
        assert lines(tmp_path)["sum"] == before
    run(declared(tmp_path, 40, **RENAMED[remedy]), tmp_path)
    after = lines(tmp_path)
    check_renamed(remedy, before, after)


def check_renamed(remedy: str, before: list[dict[str, Any]], after: dict[str, list[dict[str, Any]]]) -> None:
    for each in OTHERS:
        assert after[each] == [{"id": n, "value": -n} for n in range(40)]
    if remedy == "old name":
        assert [each["value"] for each in after["sum"]] == [sum(range(n + 1)) for n in range(40)]
    else:
        assert after["sum"] == before and [row["id"] for row in after["total"]] == list(range(10))


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("remedy", RENAMED)
def test_a_query_is_renamed_and_its_sink_does_not_know_its_stream(
    remedy: str, clean: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The start and the repair say so, and change nothing; each way that they name loses nothing of any stream."""
    killed(lambda: run(declared(tmp_path, 30, kind=Anybodys), tmp_path, clean=clean))
    before = lines(tmp_path)
    hosted = declared(tmp_path, 40, name="total", kind=Anybodys)
    for _ in range(2):
        with pytest.raises(PositionUnavailable, match=r"never had a query 'total'.*another file.*the old one, 'sum'"):
            run(hosted, tmp_path)
        assert main(["store", "repair", str(tmp_path / "store"), "--app", APP, "--yes"]) == 1
        assert "never had a query 'total': if one was renamed" in capsys.readouterr().err
    assert lines(tmp_path) == before
    run(declared(tmp_path, 40, kind=Anybodys, **RENAMED[remedy]), tmp_path)
    check_renamed(remedy, before["sum"], lines(tmp_path))


@pytest.mark.parametrize("ahead", [1, 7, 500])
def test_behind_an_older_copy_ids_go_on_where_the_sinks_are(
    ahead: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of streams with a sink none is passed over; others go on by a bounded guess, which is said before it is done."""
    declared(tmp_path, 20, quiet=["quiet"])
    run(app, tmp_path)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    run(declared(tmp_path, 20 + ahead, quiet=["quiet"]), tmp_path)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    before = lines(tmp_path)
    declared(tmp_path, 30 + ahead, quiet=["quiet"])
    with pytest.raises(PositionUnavailable, match="store repair"):
        run(app, tmp_path)
    further = max(QUIET_EACH, QUIET_TIMES * ahead)
    assert main(["store", "repair", str(tmp_path / "store"), "--app", APP, "--yes"]) == 0
    assert f"none of these tells ('quiet'), by a guess the ids go on {further:,} further" in capsys.readouterr().out
    emitted = run(app, tmp_path)
    for name, rows in lines(tmp_path).items():
        again = range(20, 30 + ahead)
        values = {n: sum(range(n + 1)) if name == "sum" else -n for n in again}
        assert rows == before[name] + [{"id": n + ahead, "value": values[n]} for n in again]
    assert emitted["quiet"] == 30 + ahead + further


@pytest.mark.parametrize("flushed", [0, at_each_commit(4)])
def test_a_sink_that_is_flushed_later_does_not_tell_what_readers_had(
    flushed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind lost turns its stream goes on as far ahead as one without a sink, from what it has *flushed*."""

    def hosted(count: int) -> App:
        hosted = declared(tmp_path, count, quiet=["table"])
        hosted.sink("table", SqliteTableSink(tmp_path / "table.db", "rows"))
        return hosted

    run(hosted(20), tmp_path)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    if flushed:
        run(hosted(20 + flushed), tmp_path)
    killed(lambda: take_all(hosted(27).evaluator(SqliteStore(tmp_path / "store"))))
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    with pytest.raises(PositionUnavailable, match="store repair"):
        run(hosted(40), tmp_path)
    assert main(["store", "repair", str(tmp_path / "store"), "--app", APP, "--yes"]) == 0
    assert f"tells ('table'), by a guess the ids go on {QUIET_EACH:,} further" in capsys.readouterr().out
    run(hosted(40), tmp_path)
    with closing(sqlite3.connect(tmp_path / "table.db")) as database:
        rows = database.execute("SELECT id, value FROM rows ORDER BY id").fetchall()
    kept = 20 + flushed
    first = kept + QUIET_EACH
    assert first > 27 and rows == [(n, str(-n)) for n in range(kept)] + [(first + n, str(-20 - n)) for n in range(20)]


def test_a_store_in_which_nothing_has_begun_is_not_called_another_ones(tmp_path: Path) -> None:
    """It may have lost all that it had: sinks that do not know which store wrote them tell which ids are used.

    The repair goes on behind them.
    """
    run(declared(tmp_path, 20, kind=Anybodys), tmp_path)
    shutil.rmtree(tmp_path / "store")
    declared(tmp_path, 20, kind=Anybodys)
    with pytest.raises(PositionUnavailable, match="store repair"):
        run(app, tmp_path)
    assert main(["store", "repair", str(tmp_path / "store"), "--app", APP, "--yes"]) == 0
    assert run(app, tmp_path) == dict.fromkeys(["sum", *OTHERS], 40)


GONE: dict[str, Callable[[Path], None]] = {
    "deleted": lambda folder: shutil.rmtree(folder / "store"),
    "another": lambda folder: [shutil.rmtree(folder / "store"), (folder / "other").rename(folder / "store")][1],
}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("kind", ["file", "made file", "table", "made table"])
@pytest.mark.parametrize("delivery", ["exactly_once", at_each_commit("at_least_once")])
def test_a_repair_says_what_sinks_of_another_store_refuse_a_start_with(
    delivery: Delivery,
    kind: str,
    gone: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends with 1 and the words of the start; with 0 only where no sink was looked at, and it says so."""
    declared_with(kind, tmp_path / "away", delivery)
    run(app, tmp_path)
    (tmp_path / "store").rename(tmp_path / "other")
    declared_with(kind, tmp_path, delivery)
    run(app, tmp_path)
    GONE[gone](tmp_path)
    declared_with(kind, tmp_path, delivery)
    command = ["store", "repair", str(tmp_path / "store")]
    for _ in range(2):  # the first start makes the store
        with pytest.raises(PositionUnavailable, match="belongs to another store than") as refused:
            run(app, tmp_path)
        assert main([*command, "--app", APP, "--yes"]) == 1
        assert capsys.readouterr().err == f"reliable-rx: {refused.value.message}\n"
    monkeypatch.setattr("sys.stdin", None)  # nobody agrees that a sink is made
    is_made = kind.startswith("made")
    assert main([*command, "--app", APP]) == (0 if is_made else 1)
    assert ("starts as it is, as far as is known without the sinks of 'sum'" in capsys.readouterr().out) is is_made
    assert main(command) == 0
    assert "starts as it is, as far as is known without the sinks of its app" in capsys.readouterr().out


def declared_with(kind: str, folder: Path, delivery: Delivery) -> None:
    """Declare a query with one sink of a *kind*."""
    global app
    folder.mkdir(exist_ok=True)
    app = App(checkpoint_interval_s=1e9, delivery=delivery)
    app.query("sum", app.source("n", ListSource(list(range(5)), follow=True)).scan(lambda a, b: a + b))

    def make() -> Sink:
        return JsonLinesSink(folder / "out.jsonl") if "file" in kind else SqliteTableSink(folder / "out.db", "t")

    app.sink("sum", make if kind.startswith("made") else make())
