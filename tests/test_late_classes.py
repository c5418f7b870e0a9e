"""Classes of values that come to reach other code once an app runs: one that nobody edits starts behind each kill.

A query reaches the class by pushed values only, so the first run reads it when it is met, and the next ones when they
load what is stored. A process is played by modules that are imported anew.
"""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from lanes import every_of
from test_late_code import DECODE, LATE, LOAD

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from reliable_rx.errors import NondeterminismDetected

BARE = """from dataclasses import dataclass
def decode(row): return row['n']
@dataclass(frozen=True)
class E:
    n: int
    as_of = 1"""
METHODS = "\n    def decoded(self): return decode({'n': self.n})\n    def twice(self): return 2 * self.decoded()"
WITH_METHODS = BARE + METHODS
SETS: dict[str, tuple[str, str]] = {
    "a method": (WITH_METHODS, "app_late.E.to_row = lambda self: {'n': self.n}"),
    "a method of a class without any": (BARE, "app_late.E.to_row = lambda self: {'n': self.n}"),
    "a method around one": (
        WITH_METHODS,
        "old = app_late.E.decoded\ndef decoded(self): return old(self)\napp_late.E.decoded = decoded",
    ),
    "a method instead of one": (WITH_METHODS, "app_late.E.decoded = lambda self: self.n"),
    **{f"what methods reach: {kind}": (f"{BARE}{METHODS}\n{app}", plugin) for kind, (app, plugin) in LATE.items()},
}
CELL = "<cell of test_late_classes>"
NAMES = ("app_late", "plugin_late")


class Life:
    """Processes of one app over one store, one after the other: each is killed."""

    def __init__(self, folder: Path, what: str, *, in_cells: bool = False) -> None:
        app, plugin = SETS[what]
        self.folder, self.store, self.in_cells = folder, MemoryStore(), in_cells
        self.write("app_late", f"import importlib\n{app}{LOAD}")
        self.write("plugin_late", f"{DECODE}{plugin}\n")

    def write(self, name: str, text: str) -> None:
        (self.folder / f"{name}.py").write_text(text)

    def edit(self, old: str, new: str) -> None:
        text = (self.folder / "app_late.py").read_text()
        assert old in text
        self.write("app_late", text.replace(old, new))

    def load(self) -> ModuleType:
        for name in NAMES:
            sys.modules.pop(name, None)
        linecache.checkcache()
        if not self.in_cells:
            return importlib.import_module("app_late")
        sys.modules["app_late"] = module = ModuleType("app_late")
        text = (self.folder / "app_late.py").read_text()
        linecache.cache[CELL] = (len(text), None, text.splitlines(keepends=True), CELL)
        exec(compile(text, CELL, "exec"), vars(module))
        return module

    def run(self, numbers: list[int], *, sets: str, stores: bool = False, edits: Any = None) -> QueryEvaluator:
        """Start, *set* what comes late before or behind the first event, take *numbers*, and be killed."""
        app = self.load()
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9)
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda each: each.n).scan(lambda total, n: total + n, 0))
        evaluator.create("unlike", rx.source("n").map(lambda each: (each.n, uuid4().hex)))
        try:
            evaluator.start()
            if edits is not None:
                self.edit(*edits)
            for place, number in enumerate(numbers):
                if sets == ("before the first event", "behind it")[place > 0]:
                    app.load()
                pushed.push([app.E(number)])
                while evaluator.step():
                    pass
                if stores and place == 0:
                    evaluator.checkpoint()
            evaluator.flush()
        finally:
            evaluator.abandon()
            self.store.crash()
            self.store = self.store.reopen()
        return evaluator


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield
    for name in NAMES:
        sys.modules.pop(name, None)
    linecache.cache.pop(CELL, None)


@pytest.mark.parametrize(
    "what, sets, stores, in_cells",
    every_of(5, product(SETS, ["before the first event", "behind it"], [True, False], [True, False]), commits=1),
)
def test_an_app_that_sets_code_late_starts_behind_each_kill(
    what: str, sets: str, stores: bool, in_cells: bool, tmp_path: Path
) -> None:
    """A query that does not repeat itself ends alone there, in the process behind the first run and in all others."""
    life, total = Life(tmp_path, what, in_cells=in_cells), 0
    for _ in range(3):
        evaluator = life.run([1, 2], sets=sets, stores=stores)
        total += 3
        assert [value for part in evaluator.stream("q").read(0, 100) for value in part.values][-1] == total
        assert evaluator.query("q").status == "running"
    assert evaluator.query("unlike").status == "failed" and "E may have" not in str(evaluator.query("unlike").error)


WITH = [each for each in SETS if SETS[each][0] is not BARE]
COMES = ("as_of = 1", "as_of = 1\n    def __str__(self): return 'one'")
EDITS = [
    ("    n: int", "    n: int\n    m: int = 1"),
    ("as_of = 1", "as_of = 2"),
    COMES,
]
OF_METHODS = ("return 2 * self", "return 3 * self")
ALL = [*product(SETS, EDITS), *((what, OF_METHODS) for what in WITH)]


@pytest.mark.parametrize(
    "what, edit, sets",
    every_of(3, ((*each, sets) for each in ALL for sets in ("before the first event", "never")), commits=1),
)
def test_an_edit_of_a_class_with_late_code_is_refused_by_name(
    what: str, edit: tuple[str, str], sets: str, tmp_path: Path
) -> None:
    """With the old code back, the store goes on."""
    life = Life(tmp_path, what)
    life.run([1, 2], sets=sets)
    life.edit(*edit)
    with pytest.raises(NondeterminismDetected, match=r"app_late\.E may have changed"):
        life.run([3], sets=sets)
    life.edit(edit[1], edit[0])
    again = life.run([3], sets=sets)
    assert again.query("q").status == "running" and again.query("unlike").status == "failed"


@pytest.mark.parametrize("what, edit", every_of(3, [each for each in ALL if each[1] is not COMES], commits=1))
def test_a_file_that_is_edited_while_it_runs_is_not_taken_for_what_runs(
    what: str, edit: tuple[str, str], tmp_path: Path
) -> None:
    """The next process has the new class, also where the file was written before the old class was met."""
    life = Life(tmp_path, what)
    life.run([1, 2], sets="before the first event", edits=edit)
    with pytest.raises(NondeterminismDetected, match=r"app_late\.E may have changed"):
        life.run([3], sets="before the first event")
