"""Before anyone has agreed, `store repair` writes nothing: no sink is opened, and no source is told anything."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from killed_store import killed
from lanes import crossed

from checkpoint import SqliteStore
from hosting import App, CallbackSink, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from hosting.cli.command import main
from reliable_rx.reliable import Reader

APP = f"{__name__}:app"
app = App()


class Noting(ListSource):
    """A source that writes down what is acknowledged to it, as one does that lets go of events then."""

    def __init__(self, path: Path, count: int) -> None:
        super().__init__(list(range(count)), follow=True)
        self.path = path

    def open(self, partition: str, at: int, /) -> Reader:
        reader, path = super().open(partition, at), self.path

        def acknowledge(n: int, /) -> None:
            with open(path, "a") as notes:
                notes.write(f"{n}\n")

        reader.acknowledge = acknowledge  # type: ignore[method-assign]
        return reader


class Own:
    """A sink of the user's, which touches its place when it is opened; it has all ids below *position*."""

    def __init__(self, path: Path, position: int | None) -> None:
        self.path, self.position_now = path, position

    def open(self, stream: str, /) -> int | None:
        with open(self.path, "a") as notes:
            notes.write("opened\n")
        return self.position_now

    def write(self, first: int, values: Any, /) -> None: ...
    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def torn(folder: Path) -> Any:
    path = folder / "torn.jsonl"
    lines = "".join(f'{{"id":{n},"value":{n}}}\n' for n in range(10))
    path.write_text(lines + '{"id":10,"val')
    (folder / "torn.jsonl.flushed").write_text(f"{len(lines):020}\n")
    return JsonLinesSink(path)


def table(folder: Path) -> Any:
    sink = SqliteTableSink(folder / "there.db", "numbers")
    sink.open("numbers")
    sink.write(0, list(range(10)))
    sink.flush()
    sink.close()
    return sink


SINKS: dict[str, Callable[[Path], Any]] = {
    "a file with a torn end": torn,
    "a file that is not there": lambda folder: JsonLinesSink(folder / "new" / "not.jsonl"),
    "a table": table,
    "a database that is not there": lambda folder: SqliteTableSink(folder / "new" / "not.db", "numbers"),
    "a function": lambda folder: CallbackSink(lambda n, value: None),
    "one that is made": lambda folder: lambda: JsonLinesSink(folder / "made.jsonl"),
    "one that is made and makes a folder": lambda folder: lambda: making(folder / "made"),
    "a user's": lambda folder: Own(folder / "own", 10),
}
MUST_BE_OPENED = ("one that is made", "one that is made and makes a folder", "a user's")


def making(folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return JsonLinesSink(folder / "out.jsonl")


def hosting(folder: Path, sink: Any = None, *, count: int = 10) -> App:
    global app
    app = App(checkpoint_interval_s=1e9)
    app.query("numbers", app.source("n", Noting(folder / "acknowledged", count)))
    if sink is not None:
        app.sink("numbers", sink, on_error="skip" if isinstance(sink, Counting) else "fail")
    return app


def store_of(folder: Path, *, damaged: bool, sink: Any = None) -> Path:
    """Make a store with a checkpoint and turns behind it."""

    def work() -> None:
        for count in (5, 10):
            evaluator = hosting(folder, sink, count=count).evaluator(SqliteStore(folder / "store"))
            while evaluator.step():
                pass
            evaluator.flush()
            if count == 5:
                evaluator.checkpoint()
                evaluator.close()
                evaluator.store.close()

    killed(work)
    if damaged:
        with closing(sqlite3.connect(folder / "store" / "checkpoint.sqlite", isolation_level=None)) as connection:
            connection.execute("UPDATE outputs SET blob = x'00'")
    return folder / "store"


class Counting(Own):
    """One that can leave ids out, and remembers which calls did."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, None)
        self.skips: list[tuple[int, int]] = []

    def skip(self, n: int, until: int, why: str, letter: Any, /) -> None:
        self.skips.append((n, until))


def test_ids_that_are_passed_over_are_skipped_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sink that is behind very many of them is not called for each."""
    counting, ahead = Counting(tmp_path / "own"), 300_000
    store = store_of(tmp_path, damaged=False, sink=counting)
    path = tmp_path / "out.jsonl"
    path.write_text(f'{{"id":0,"until":{ahead},"skipped":"why"}}\n')
    hosting(tmp_path, counting).sink("numbers", JsonLinesSink(path))
    assert main(["store", "repair", str(store), "--app", APP, "--yes"]) == 0
    assert f"it has ids 10 to {ahead - 1:,}" in capsys.readouterr().out
    started = app.evaluator(SqliteStore(store))
    with closing(started.store), closing(started):
        while started.step():
            pass
        assert not [each for each in started.incidents.open() if each.level == "error"]
    assert counting.skips[0][0] == 10 and counting.skips[-1][1] >= ahead
    assert all(until == n for (_, until), (n, _) in pairwise(counting.skips))
    assert len(counting.skips) <= ahead / 1000


def content(folder: Path) -> dict[str, bytes | None]:
    """Return what lies in *folder* beside the store, which is owned meanwhile."""
    return {
        str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None
        for each in sorted(folder.rglob("*"))
        if folder / "store" not in (each, *each.parents)
    }


@pytest.mark.parametrize("kind, damaged", crossed(SINKS, [True, False], nth=3, nightly=1))
def test_nothing_is_written_before_anyone_has_agreed(
    kind: str, damaged: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by sinks, nor by what makes them, nor by sources; and once somebody has, the store opens."""
    store = store_of(tmp_path, damaged=damaged)
    hosting(tmp_path, SINKS[kind](tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nn\n"))
    before = content(tmp_path)
    code = main(["store", "repair", str(store), "--app", APP])
    said = capsys.readouterr().out
    assert content(tmp_path) == before, said
    assert ("opened" in said) is (kind in MUST_BE_OPENED), said
    assert (code, "nothing was changed" in said) == ((1, True) if damaged else (0, False)), said
    assert main(["store", "repair", str(store), "--app", APP, "--yes"]) == 0, "".join(capsys.readouterr())
    acknowledged = (tmp_path / "acknowledged").read_text().split()
    assert (acknowledged[-1] == "9") is damaged, "a checkpoint of the store itself acknowledges"
    started = app.evaluator(SqliteStore(store))
    with closing(started.store), closing(started):
        started.start()
        assert not [each for each in started.incidents.open() if "store repair" in each.message]


@pytest.mark.parametrize("how, damaged", crossed(["file", "made", "own"], [True, False], nightly=1))
def test_a_sink_that_is_ahead_is_found(
    how: str, damaged: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a look, or once it may be opened; each finding is told before it is done."""
    store = store_of(tmp_path, damaged=damaged)
    path = tmp_path / "out.jsonl"
    path.write_text("".join(f"{json.dumps({'id': n, 'value': n}, separators=(',', ':'))}\n" for n in range(13)))
    sinks = {"file": JsonLinesSink(path), "made": lambda: JsonLinesSink(path), "own": Own(tmp_path / "own", 13)}
    hosting(tmp_path, sinks[how])
    before = content(tmp_path)
    asked = list[str]()

    def first_only(question: str) -> bool:
        asked.append(question)
        return len(asked) == 1 and how != "file"

    monkeypatch.setattr("hosting.cli.repair.agreed", first_only)
    looked, start = list[QueryEvaluator](), QueryEvaluator.start

    def noted(self: QueryEvaluator) -> None:
        looked.append(self)
        start(self)

    monkeypatch.setattr(QueryEvaluator, "start", noted)
    assert main(["store", "repair", str(store), "--app", APP]) == 1
    said = capsys.readouterr().out
    assert "sink of stream 'numbers': it has ids 10 to 12, which this store has never given" in said
    assert len(asked) == (1 if how == "file" else 2), asked
    assert looked and all(each.closed for each in looked), "who only looks lets go of what was looked at"
    if how == "file":
        assert content(tmp_path) == before
    assert main(["store", "repair", str(store), "--app", APP, "--yes"]) == 0
    assert main(["store", "repair", str(store), "--app", APP, "--yes"]) == 0
    assert "there is nothing to repair" in capsys.readouterr().out
