"""`store repair` says what is wrong and what it would do, changes nothing without consent, and then the store opens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import SqliteStore
from checkpoint.salvage import Unreadable
from hosting import App, ListSource
from hosting.cli.command import main
from reliable_rx import operators as ops
from reliable_rx.errors import ReliableRxError
from reliable_rx.testing.hostile import Emits
from reliable_rx.testing.steps import add

NUMBERS = [1, 2, 3, 4]
APP = f"{__name__}:app"
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
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
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


def test_a_state_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its query is named and ends; the others go on where they were."""
    folder = tmp_path / "s"
    hosting(rx.source("n").pipe(ops.map(Emits("never read")), ops.buffer_with_count(9)))
    work(folder, clean=True)
    assert "q: failed" in repaired(folder, "query 'q': CheckpointRefused: its stored state", capsys, monkeypatch)
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
    folder = tmp_path / "s"
    hosting(numbers=[1, 2])
    work(folder, clean=True)
    hosting(rx.source("sum"))
    work(folder, clean=False)
    hosting(rx.source("sum"), numbers=[1, 2, 3])
    with pytest.raises(ReliableRxError):
        work(folder, clean=True)
    repaired(folder, "they cannot be taken again: PositionUnavailable", capsys, monkeypatch)
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
    assert ".repair-" not in told.err + told.out
    assert content(folder) == before


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
    assert "the script that has them" in capsys.readouterr().err
    assert content(folder) == before
