"""A name of a source's function that is bound anew while it reads: told, and held by a checkpoint behind it.

A notebook is played as a module ``__main__`` in which cells are run, also again; its kernel is killed, and the next one
runs the cells as they stand by then.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, GeneratorSource, QueryEvaluator
from hosting.evaluator.source_definitions import DATA_MAX
from hosting.sources.faults import FaultySource
from hosting.sources.polling import PolledSource, Want
from hosting.sources.shared import SharedSource
from reliable_rx.errors import NondeterminismDetected, StoreUnavailable

CELLS: dict[str, tuple[str, str]] = {
    "function": ("def f(v): return v * $", "def parse(row): return f(int(row['v']))"),
    "lambda": ("f = lambda v: v * $", "def parse(row): return f(int(row['v']))"),
    "number": ("RATE = $", "def parse(row): return int(row['v']) * RATE"),
    "table": ("RATES = {'a': $}", "def parse(row): return int(row['v']) * RATES['a']"),
    "class": ("class F:\n    def f(self, v): return v * $", "def parse(row): return F().f(int(row['v']))"),
    "helper of a helper": ("def g(v): return v * $", "def f(v): return g(v)\ndef parse(row): return f(int(row['v']))"),
    "object": (
        "class F:\n    def __init__(self, rate): self.rate = rate\nF.f = lambda self, v: v * self.rate\nOF = F($)",
        "def parse(row): return OF.f(int(row['v']))",
    ),
}


class Notebook:
    """Cells as they stand, the kernel that has run them, and what follows a file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str, **options: Any) -> None:
        monkeypatch.setattr("hosting.engine.watched_names.PAUSE", 0.0)
        self.monkeypatch, self.options, self.store = monkeypatch, options, MemoryStore()
        self.helper, self.parse, self.rate = *CELLS[kind], 2
        self.path, self.expected, self.rows = folder / "rows.csv", list[int](), 0
        self.path.write_text("v\n")
        self.kernel()

    def kernel(self) -> None:
        self.main = ModuleType("__main__")
        self.monkeypatch.setitem(sys.modules, "__main__", self.main)
        self.cell(self.helper.replace("$", str(self.rate)))
        self.cell(self.parse)
        self.evaluator = QueryEvaluator(
            self.store, background=False, checkpoint_interval_s=1e9, **{"batch_events_max": 2, **self.options}
        )
        source = FileSource(self.path, parse=vars(self.main)["parse"], follow=True)
        self.evaluator.source("n", source)
        self.evaluator.create("q", rx.source("n"))

    def cell(self, text: str) -> None:
        exec(compile(text, "<cell>", "exec"), vars(self.main))

    def mend(self, rate: int) -> None:
        """Run the cell of the helper again."""
        self.rate = rate
        self.cell(self.helper.replace("$", str(rate)))

    def write(self, count: int = 1) -> None:
        with self.path.open("a") as file:
            for _ in range(count):
                self.rows += 1
                self.expected.append(self.rows * self.rate)
                file.write(f"{self.rows}\n")

    def events(self, count: int = 1) -> None:
        self.write(count)
        self.run()

    def run(self) -> None:
        self.evaluator.run(until=lambda: self.evaluator.query("q").emitted >= self.rows)
        while self.evaluator.step():
            pass

    def kill(self) -> None:
        self.evaluator.abandon()
        self.store.crash()
        self.store = self.store.reopen()
        self.kernel()

    @property
    def outputs(self) -> list[int]:
        return [value for part in self.evaluator.stream("q").read(0, 10_000) for value in part.values]

    @property
    def told(self) -> list[str]:
        return [each.message for each in self.evaluator.statistics().incidents if each.kind == "redefined"]

    @property
    def is_well(self) -> bool:
        self.run()
        assert self.outputs == self.expected, (self.outputs, self.expected)
        return not self.evaluator.warnings and not self.evaluator.query("q").error


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    return Notebook(monkeypatch, tmp_path, getattr(request, "param", "function"))


@pytest.mark.parametrize("notebook", CELLS, indirect=True)
@pytest.mark.parametrize("behind", [0, 1, 3])
def test_it_is_told_and_behind_a_kill_the_cells_as_they_stand_start(notebook: Notebook, behind: int) -> None:
    """However many events came behind the look that noticed it, and also when it is mended once more."""
    notebook.events(2)
    notebook.mend(3)
    notebook.events(1)  # the round that reads it notices it
    (told,) = notebook.told
    assert "its parse (__main__.parse) was defined anew while it ran" in told
    for _ in range(behind):
        notebook.events()
    notebook.kill()
    assert notebook.is_well and not notebook.told
    notebook.events(2)
    notebook.mend(5)
    notebook.events(2)
    assert len(notebook.told) == 1
    notebook.mend(7)
    notebook.events(2)
    notebook.kill()
    assert notebook.is_well
    notebook.evaluator.close()


@pytest.mark.parametrize("notebook", CELLS, indirect=True)
def test_what_is_again_what_it_was_is_told_no_more(notebook: Notebook) -> None:
    """Each kernel has one that was run twice, and each start takes up what was there last."""
    notebook.events(2)
    notebook.mend(3)
    notebook.events(2)
    assert notebook.told
    notebook.mend(2)
    notebook.events(2)
    assert not notebook.told
    notebook.kill()
    assert notebook.is_well
    notebook.evaluator.close()


def test_what_was_read_ahead_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No event comes of the old function once the new one was noticed, so behind the checkpoint there is one only."""
    notebook = Notebook(monkeypatch, tmp_path, "function")
    notebook.write(100)
    notebook.evaluator.step()
    taken = notebook.evaluator.query("q").emitted
    assert 0 < taken < 100
    notebook.mend(3)
    notebook.expected[taken:] = [3 * n for n in range(taken + 1, 101)]
    while notebook.evaluator.query("q").emitted < 50:
        notebook.evaluator.step()
    notebook.kill()
    assert notebook.is_well
    notebook.evaluator.close()


def test_data_that_change_all_the_time_are_told_and_do_not_hold_it_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thread that refreshes a table: some times there is a checkpoint, and what was read ahead is read again."""
    notebook = Notebook(monkeypatch, tmp_path, "table")
    opened = list[int]()
    source = notebook.evaluator.intake.sources["n"]
    read = source.open

    def counted(name: str, at: int) -> Any:
        opened.append(at)
        return read(name, at)

    monkeypatch.setattr(source, "open", counted)
    for rate in range(3, 40):
        notebook.mend(rate)
        notebook.events(1)
    assert notebook.outputs == notebook.expected and len(notebook.told) == 1
    assert len(opened) <= DATA_MAX + 1 < 37
    notebook.evaluator.close()


CLASS = "class log:\n    def __init__(self, v): pass"


@pytest.mark.parametrize("before", ["log = None", "def log(v): return None", CLASS])
def test_an_app_that_sets_a_function_late_starts_behind_a_kill(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str
) -> None:
    """It does so at each start, and nobody has edited it; what was read by the late one is told, and compared."""
    monkeypatch.setitem(CELLS, "late", (before, "def parse(row): (log and log(1)); return int(row['v']) * 2"))
    notebook = Notebook(monkeypatch, tmp_path, "late")
    for _ in range(3):
        notebook.events(2)
        notebook.cell("def log(v): return v + 1")
        notebook.events(3)
        assert notebook.told
        notebook.events(2)
        notebook.kill()
        notebook.run()
        assert notebook.outputs == notebook.expected and not notebook.evaluator.query("q").error
        (warning,) = notebook.evaluator.warnings
        assert "source 'n'" in warning and "log" in warning
    notebook.evaluator.close()


KINDS: dict[str, Any] = {
    "files": lambda parse, when, paths: FileSource(paths, parse=parse),
    "timed": lambda parse, when, paths: FileSource(paths, parse=parse, timestamp=when),
    "sorted": lambda parse, when, paths: FileSource(paths, parse=parse, timestamp=when, sort_by=lambda v: -when(v)),
    "by key": lambda parse, when, paths: FileSource(paths, parse=parse, partition_by=lambda v: str(when(v) % 3)),
    "generator": lambda parse, when, paths: GeneratorSource(lambda n, _: parse({"v": n % 300}), count=600),
    "shared": lambda parse, when, paths: SharedSource(FileSource(paths, parse=parse)).named("q"),
    "polled": lambda parse, when, paths: PolledSource(FileSource(paths, parse=parse), Want(count_max=70)),
    "faulty": lambda parse, when, paths: FaultySource(FileSource(paths, parse=parse), ()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kill_after", [0, 1, 4])
def test_whatever_the_source_each_event_comes_once_and_the_new_ones_by_the_new_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, kill_after: int
) -> None:
    """From the turn behind the redefinition on, of all partitions, with times, and wherever it is killed then."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("v\n" + "".join(f"{n}\n" for n in range(300)))
    main, store = ModuleType("__main__"), MemoryStore()
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec("def parse(row): return f(int(row['v']))\ndef when(v): return float(v // 10)", vars(main))

    def define(mark: int) -> None:
        exec(f"def f(v): return v * 10 + {mark}", vars(main))

    def begin() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, batch_events_max=20)
        evaluator.source("n", KINDS[kind](vars(main)["parse"], vars(main)["when"], str(tmp_path / "*.csv")))
        evaluator.create("q", rx.source("n"))
        return evaluator

    define(1)
    evaluator = begin()
    for _ in range(3):
        evaluator.step()
    at = evaluator.query("q").emitted
    define(2)
    for _ in range(kill_after):
        evaluator.step()
    if kill_after:
        evaluator.abandon()
        store.crash()
        store = store.reopen()
        evaluator = begin()
    evaluator.run(until=lambda: evaluator.query("q").emitted >= 600)
    values = [value for part in evaluator.stream("q").read(0, 1000) for value in part.values]
    assert 0 < at < 600 and [value % 10 for value in values] == [1] * at + [2] * (600 - at)
    assert sorted(value // 10 for value in values) == sorted([*range(300)] * 2)
    assert not evaluator.warnings and not evaluator.query("q").error
    evaluator.close()


class Killed(BaseException):
    """The process is killed at this point."""


@pytest.mark.parametrize("at", ["before_snapshot", "before_truncate", "before_acknowledge"])
def test_a_kill_at_the_checkpoint_of_a_redefinition_leaves_one_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: str
) -> None:
    """Before it is committed all turns are the old function's, which starts; behind it none is to be read again."""
    notebook = Notebook(monkeypatch, tmp_path, "function")
    notebook.events(2)
    notebook.mend(3)
    notebook.write(2)

    def killed(point: str) -> None:
        if point == f"checkpoint.{at}":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("hosting.evaluator.checkpointer.probe", killed)
        with pytest.raises(Killed):
            notebook.run()
    notebook.kill()
    if at == "before_snapshot":
        with pytest.raises(NondeterminismDetected, match="put the old code back"):
            notebook.evaluator.start()
        notebook.rate = 2
        notebook.kill()
        notebook.expected[2:] = [6, 8]
    assert notebook.is_well
    notebook.evaluator.close()


def test_no_turn_is_taken_while_the_checkpoint_of_a_redefinition_cannot_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A disk that is full for a while: what waits is read by the new function behind it."""
    notebook = Notebook(monkeypatch, tmp_path, "function")
    notebook.events(2)
    notebook.mend(3)
    notebook.write(2)
    commit, full = notebook.store.commit, [StoreUnavailable("the disk is full")] * 3

    def refuses(*given: Any, **more: Any) -> Any:
        if full:
            raise full.pop()
        return commit(*given, **more)

    monkeypatch.setattr(notebook.store, "commit", refuses)
    notebook.evaluator.step()
    assert notebook.outputs == [2, 4] and len(full) < 3
    notebook.run()
    assert not full and notebook.outputs == notebook.expected
    notebook.kill()
    assert notebook.is_well
    notebook.evaluator.close()
