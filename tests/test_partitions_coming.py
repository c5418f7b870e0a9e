"""Partitions and sources that are there at one start and were not at the one before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.turns import Appear, Turn
from hosting.evaluator import group_commit as journaling
from hosting.sources import FileSource
from reliable_rx.errors import CheckpointRefused

n, m = rx.source("n"), rx.source("m")
QUERIES: dict[str, Any] = {
    "sums": n.scan(lambda total, value: total + value, seed=0),
    "the last": n.last(),
    "both": n.merge(m).scan(lambda total, value: total + value, seed=0),
    "either end": n.concat(m),
}
STOPS = ("clean", "killed", "killed at once", "killed behind a checkpoint")


class Written:
    """An app over files and lists, some of which come with its second start."""

    def __init__(self, folder: Path, kind: str, *, batch: int, start: Any = None) -> None:
        self.folder, self.kind, self.batch, self.start = folder, kind, batch, start
        self.lists: dict[str, list[int]] = {}
        self.store: Any = MemoryStore()

    def come(self, name: str, values: list[int]) -> None:
        self.lists[name] = values
        (self.folder / f"{name}.jsonl").write_text("".join(f"{value}\n" for value in values))

    def opened(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, batch_events_max=self.batch)
        pattern = "*.jsonl" if self.kind == "files" else "b.jsonl"
        lists = {name: list(each) for name, each in self.lists.items()}
        source: Any = ListSource(lists) if self.kind in ("lists", "none") else FileSource(str(self.folder / pattern))
        evaluator.source("n", source, start=self.start)
        if has_both := self.kind != "sources" or "late" in self.lists:
            evaluator.source("m", ListSource([7, 8]))
        for name, query in QUERIES.items():
            if has_both or name in ("sums", "the last"):
                evaluator.create(name, query)
        return evaluator

    def stop(self, evaluator: QueryEvaluator, how: str) -> None:
        if how == "clean":
            evaluator.__exit__(None, None, None)
        else:
            evaluator.flush()
            evaluator.abandon()
        self.store = self.store.reopen()


def outputs(
    folder: Path, kind: str, how: str, cut: int, batch: int, start: Any, first: Sequence[int] = (1, 2, 3)
) -> dict[str, Any]:
    """Return all that comes of an app to which a partition comes while it is down, behind *cut* turns."""
    app = Written(folder, kind, batch=batch, start=start)
    if kind != "none":
        app.come("b", [*first])
    evaluator = app.opened()
    evaluator.start()
    for turn in range(cut):
        if turn == 1 and how == "killed behind a checkpoint":
            evaluator.checkpoint(full=True)
        evaluator.step()
    app.stop(evaluator, how)
    if how == "killed at once":
        app.stop(app.opened().__enter__(), "killed")
    app.come("late", [40, 50])
    app.come("a", [100])
    with app.opened() as again:
        again.run()
        return {
            name: [value for part in again.stream(name).read(0, 99) for value in part.values] for name in QUERIES
        } | {f"{name} is": again.query(name).status for name in QUERIES}


@pytest.mark.parametrize(
    "kind, how, cut, batch, start",
    crossed(("files", "lists", "sources", "none"), STOPS[1:], range(6), (1, 2, 64), (None, "latest", 2)),
)
def test_what_comes_behind_a_kill_comes_as_behind_a_stop(
    kind: str, how: str, cut: int, batch: int, start: Any, tmp_path: Path
) -> None:
    """A replay knows the partitions that there were, however many there are now, and if there was none."""
    (clean := tmp_path / "clean").mkdir()
    (killed := tmp_path / "killed").mkdir()
    assert outputs(killed, kind, how, cut, batch, start) == outputs(clean, kind, "clean", cut, batch, start)


@pytest.mark.parametrize(
    "how, start, first",
    crossed(STOPS, (None, "earliest", "latest", 2, {"b": 1, "late": 1}), ((1, 2, 3), (4, 5))),
)
def test_a_start_counts_for_what_was_there(how: str, start: Any, first: Sequence[int], tmp_path: Path) -> None:
    """What comes later is read whole, whatever ended the process before."""
    found = outputs(tmp_path, "lists", how, 0, 1, start, first)
    was_there = [each for at, each in enumerate(first) if at >= begin_of(start, len(first))]
    assert found["sums"][-1] == sum(was_there) + 40 + 50 + 100


def begin_of(start: Any, end: int) -> int:
    return 1 if isinstance(start, dict) else {None: 0, "earliest": 0, "latest": end}.get(start, 2)


@pytest.mark.parametrize("kind", ["files", "lists"])
def test_a_journal_that_does_not_say_which_partitions_there_were_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an older version: it is not read as what it may be."""
    app = Written(tmp_path, kind, batch=1)
    app.come("a", [1, 2])
    app.come("b", [3])
    with monkeypatch.context() as patch:
        patch.setattr(journaling, "entry_of", lambda turn, code: entry_without(turn, code))
        evaluator = app.opened()
        for _ in range(4):
            evaluator.step()
        app.stop(evaluator, "killed")
    with pytest.raises(CheckpointRefused, match="an older version has written it; start once with that one"):
        app.opened().start()


def entry_without(turn: Turn, code: bytes | None) -> Any:
    return ("tick", 0.0) if isinstance(turn, Appear) else entry_of(turn, code)


entry_of = journaling.entry_of
