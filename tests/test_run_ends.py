"""What `reliable-rx run` waits for before it ends, and what it says of a stop: within this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conditions import until
from test_source_methods import FAILS_AT, METHODS, Own

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, ListSource, QueryEvaluator
from hosting.cli import run
from hosting.cli.run import Stop, are_done, hint_of
from reliable_rx.errors import ReliableRxError
from reliable_rx.reliable import Batch


def test_a_run_is_done_when_all_that_was_pushed_is_taken() -> None:
    """Without a feed at work it ends behind the last pushed value, neither before that nor never."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n"))
        evaluator.start()
        for n in range(2):
            assert are_done([], evaluator)
            pushed.on_next(n)
            assert not are_done([], evaluator)
            while evaluator.step():
                pass
        assert are_done([], evaluator)


GAP = Batch(FAILS_AT + 1, [FAILS_AT + 1])
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "see-what-is-wrong.md"
ENDS: dict[str, Callable[[Path], Any]] = {
    "a record that cannot be read": lambda path: FileSource(path),
    "whose `timestamp` raises": lambda path: FileSource(path, timestamp=lambda _: 1 / 0),
    "a file that is missing at the start": lambda path: FileSource(path.with_name("nowhere.jsonl")),
    "a gap in the ids of a source": lambda path: Own("fetch", lambda: GAP),
    **{f"`{each}`": lambda path, each=each: Own(each, lost_connection) for each in METHODS},
}
"""What ends a run, by the words of the page that says so."""


def lost_connection() -> Any:
    raise ConnectionError("the other end has gone")


def never_acknowledged() -> Any:
    source = ListSource([1, 2, 3])
    source.open = lambda partition, at: refusing(ListSource.open(source, partition, at))  # type: ignore[method-assign]
    return source


def refusing(reader: Any) -> Any:
    reader.acknowledge = lambda n: lost_connection()
    return reader


@pytest.mark.parametrize("what", [*ENDS, ""])
def test_the_page_on_what_is_wrong_lists_what_ends_a_run(what: str, tmp_path: Path) -> None:
    """Each ends it with an error of the library; an acknowledgement that fails is an incident."""
    listed = PAGE.read_text().partition("A run is ended")[2].partition("\nNothing else stops")[0]
    (tmp_path / "file.jsonl").write_text("1\n{\n")
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        with pytest.raises(ReliableRxError) if what else nullcontext():
            evaluator.source("n", ENDS[what](tmp_path / "file.jsonl") if what else never_acknowledged())
            evaluator.create("q", rx.source("n"))
            evaluator.run()
            evaluator.checkpoint()
            evaluator.checkpoint(full=True)
        assert what in listed and "acknowledge" not in listed
        assert what or any("gone" in each.message for each in evaluator.incidents.open())


def asked(stop: Stop) -> None:
    stop.asked = True
    stop.wake()


def told(capsys: pytest.CaptureFixture[str]) -> Callable[[], bool]:
    return lambda: "Ctrl-C again to stop at once" in capsys.readouterr().out


def test_a_stop_that_takes_long_is_told_how_to_end_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a second signal does is said while the first one has not ended the run."""
    monkeypatch.setattr(run, "TOGETHER_S", 0.0)
    stop = Stop()
    with hint_of(stop):
        asked(stop)
        until(told(capsys))


def test_a_stop_that_ends_soon_says_no_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a second signal nothing is said where none is needed."""
    monkeypatch.setattr(run, "TOGETHER_S", 60.0)
    stop = Stop()
    with hint_of(stop):
        asked(stop)
    assert not told(capsys)()
