"""Values of a class whose cell is run again, in queries that are not created again: a kill leaves them what they were.

A notebook that runs on keeps them as values of the old class, which equal none of the new one. So does the next kernel:
what the streams hold must be what they hold without a kill. Each kernel is a process of its own, as only this one has
the old class by no name at all.
"""

from __future__ import annotations

import pickle
import sys
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from killed_store import killed
from lanes import crossed, sample_of

from checkpoint import MemoryStore, SqliteStore
from hosting import QueryEvaluator, event_time
from hosting.engine import watched_names

KINDS = {
    "dataclass": "@dataclasses.dataclass(frozen=True)\nclass C:\n    n: int\n    more: int = 0",
    "slots": "@dataclasses.dataclass(frozen=True, slots=True)\nclass C:\n    n: int\n    more: int = 0",
    "NamedTuple": "class C(typing.NamedTuple):\n    n: int\n    more: int = 0",
    "Enum": "class C(enum.Enum):\n    ONE, TWO, THREE, LAST = 1, 2, 3, 100\n    n = property(lambda self: self.value)",
    "plain": "class C:\n    def __init__(self, n): self.n = n\n"
    "    def __eq__(self, other): return type(other) is type(self) and other.n == self.n\n"
    "    def __hash__(self): return self.n",
    "within": "class O:\n    @dataclasses.dataclass(frozen=True)\n    class C:\n        n: int",
}
LATER = {
    "unchanged": "",
    "a method more": "\n    def doubled(self): return self.n * 2",
    "a field more": "\n    last: int = 7",
}
HOLDERS = {
    "distinct": "distinct().map(lambda c: c.n)",
    "changed": "distinct_until_changed().map(lambda c: c.n)",
    "pairs": "pairwise().map(lambda pair: type(pair[0]) is type(pair[1]))",
    "set": "scan(lambda seen, c: seen | {c}, frozenset()).map(len)",
    "first": "scan(lambda first, c: first or [c], []).map(lambda first: type(first[0]) is C)",
    "buffer": "buffer_with_count(3, 1).map(lambda few: len(set(map(type, few))))",
    "delayed": "delay(2.5).map(lambda c: type(c) is C)",
    "keys": "group_by(lambda c: c).flat_map(lambda group: group.scan(lambda k, _: k + 1, 0))",
    "in a group": "group_by(lambda c: c.n % 2).flat_map(lambda group: group.distinct()).map(lambda c: c.n)",
    "in a window": "window_with_count(5).flat_map(lambda w: w.scan(lambda seen, c: seen | {c}, frozenset())).map(len)",
    "waiting": "pairwise().map(lambda pair: type(pair[0]) is type(pair[1]))",
}
"""Operators that hold values, by the name of their query."""
FUNCTION = "\n".join(
    [
        "def make(n): return C(n)",
        "made = rx.source('n').map(make)",
        *(f"QUERIES[{name!r}] = rx.source('made').{text}" for name, text in HOLDERS.items()),
        *(f"QUERIES[{f'named {name}'!r}] = made.{HOLDERS[name]}" for name in ("distinct", "pairs")),
    ]
)
PUSHED = "\n".join(
    [
        "made = rx.source('n').filter(lambda c: c.n)",
        *(f"QUERIES[{name!r}] = rx.source('n').{text}" for name, text in HOLDERS.items() if "is C" not in text),
    ]
)
UNSEEN = "\n".join(
    [
        "def make(n): return C(n)",
        *(f"QUERIES[{name!r}] = rx.source('n').map(make).{HOLDERS[name]}" for name in HOLDERS if name != "waiting"),
    ]
)
WAYS = {"a function": FUNCTION, "pushed": PUSHED, "unseen": UNSEEN}
"""How queries come to values of the class.

Those that are pushed are of one that no function names, and those that no query emits are met by checkpoints alone.
"""
AGAIN = {"none": [], "one": ["pairs"], "what gives the values": ["made"], "all": ["made", *HOLDERS]}
"""Which queries are created again behind the cell of their class."""
OPERATIONS = (
    "push 1", "idle", "push 2", "idle", "checkpoint", "cell", "create", "push 2", "step", "step", "idle", "push 3",
    "idle", "cell", "push 3", "idle", "checkpoint", "push 1", "idle", "push 100", "idle",
)  # fmt: skip
EDITED = OPERATIONS.index("cell")
CLASS = "class C:\n    def __init__(self, n): self.n = n"
MINE = """
import reliable_rx as rx
from library_of_replaced import C


def query(step):
    def add(total, n):
        return C((total.n if type(total) is C else -1000) + n * step)

    return rx.source("n").scan(add, C(0)).map(lambda total: total.n)
"""
"""A module that does not follow the reload of another one."""


class Kernel:
    """A process that runs the cells of today, and goes on with what the store has."""

    def __init__(
        self, folder: Path, module: str, way: str, are_stored: bool, cells: tuple[str, str], again: str, at: int
    ) -> None:
        watched_names.PAUSE = 0.0  # who runs cells again is slower than a test
        sys.modules[module] = self.module = ModuleType(module)
        vars(self.module)["QUERIES"] = self.queries = dict[str, Any]()
        self.later, self.way, self.again, self.are_stored, self.now = cells[1], way, AGAIN[again], are_stored, at
        exec("import dataclasses, enum, typing, reliable_rx as rx", vars(self.module))
        self.run(cells[at > EDITED])
        self.evaluator = QueryEvaluator(
            SqliteStore(folder), background=False, checkpoint_interval_s=1e9, clock=lambda: float(self.now)
        )
        self.pushed = self.evaluator.push("n")
        self.create(["made", *self.queries])
        self.evaluator.start()

    def run(self, cell: str) -> None:
        exec(cell, vars(self.module))
        exec(WAYS[self.way], vars(self.module))

    def create(self, names: list[str]) -> None:
        for name in names:
            clock = event_time(lambda c: c.n / 100, lateness_s=0.5) if name == "waiting" else None
            query = getattr(self.module, "made", None) if name == "made" else self.queries.get(name)
            if query is not None:
                self.evaluator.create(name, query, clock=clock)

    def play(self, until: int) -> None:
        for self.now in range(self.now, until):
            what, _, number = OPERATIONS[self.now].partition(" ")
            if what == "push":
                self.pushed.push([self.module.C(int(number)) if self.way == "pushed" else int(number)])
            elif what == "cell":
                self.run(self.later)
            elif what == "create":
                self.create(self.again)
            elif what == "checkpoint" and (self.are_stored or self.now > EDITED):
                self.evaluator.checkpoint()
            while what == "idle" and self.evaluator.step():
                pass
            if what == "step":
                self.evaluator.step()

    def outputs(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.queries:
            assert self.evaluator.query(name).status == "running", self.evaluator.query(name).error
            found[name] = [value for part in self.evaluator.stream(name).read(0, 99) for value in part.values]
        return found


def outputs(folder: Path, kills: list[int], *how: Any) -> Any:
    """Return what the streams hold in the end if kernels are killed before the operations of these numbers."""
    folder.mkdir()
    found = folder / "outputs"

    def last() -> None:
        kernel = Kernel(folder / "store", *how, max(kills, default=0))
        kernel.play(len(OPERATIONS))
        found.write_bytes(pickle.dumps(kernel.outputs()))

    for began, end in pairwise([0, *kills]):
        killed(partial(lambda began, end: Kernel(folder / "store", *how, began).play(end), began, end))
    killed(last)
    return pickle.loads(found.read_bytes())


@pytest.mark.parametrize(
    "kind, later, again, place",
    crossed(
        KINDS, LATER, AGAIN, [*product(["__main__", "cells_of_replaced"], WAYS, [True, False])], nth=8, nightly=216
    ),
)
def test_values_of_an_old_class_stay_what_they_were_behind_a_kill(
    kind: str, later: str, again: str, place: tuple[str, str, bool], tmp_path: Path
) -> None:
    """Whatever holds them, and whichever queries are created again: killed at each boundary, outputs are the same.

    Also where they are in no checkpoint yet, and where the kernel in which the cell is run again has read them from it.
    """
    fits = later != "a field more" or kind not in ("Enum", "plain", "within")
    alias = "\nC = O.C" if kind == "within" else ""
    cells = (KINDS[kind] + alias, KINDS[kind] + LATER[later if fits else "unchanged"] + alias)
    how = (*place, cells, again)
    expected = outputs(tmp_path / "live", [], *how)
    assert expected["pairs"][1:] == [again in ("one", "all"), True, False, True, True]
    assert expected.get("waiting") in (None, [False, False, again == "all", True, False])
    creates = AGAIN[again] and (again, place[1]) != ("what gives the values", "unseen")
    untaken = {14, 15} if creates else {7, 8, 14, 15}
    """Where no turn was taken since a cell was run: there the next kernel has all values as of the new class."""
    kills = [each for each in range(EDITED + 2, len(OPERATIONS)) if each not in untaken]
    for number, kill in enumerate(sample_of(3, kills)):
        found = outputs(tmp_path / str(kill), [EDITED, kill] if number % 2 else [kill], *how)
        assert found == expected, f"killed before {kill}: {OPERATIONS[kill]}"


def test_what_another_module_still_has_is_replaced_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that has imported a class makes the same values behind a reload of that class's module: a state goes on
    with them when its query is created again."""
    library, mine = ModuleType("library_of_replaced"), ModuleType("mine_of_replaced")
    for module in (library, mine):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(CLASS, vars(library))
    exec(MINE, vars(mine))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        numbers = evaluator.push("n")
        for step in (1, 10):
            evaluator.create("sums", mine.query(step))
            evaluator.start()
            for n in (1, 2):
                numbers.on_next(n)
                while evaluator.step():
                    pass
            exec(CLASS, vars(library))
        assert [value for part in evaluator.stream("sums").read(0, 9) for value in part.values] == [1, 3, 13, 33]
