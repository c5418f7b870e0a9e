"""Classes that are mended while queries run: a class goes by its name, so no replay has the old and the new one."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format import codec, met_classes, plain
from checkpoint.format.codec import digest, encode
from checkpoint.format.met_classes import MetClasses
from hosting import ListSource, QueryEvaluator
from hosting.evaluator import class_versions
from reliable_rx.errors import NondeterminismDetected, ReliableRxError, StoreUnavailable

MODULE = "cells_of_test_edited_classes"
CELLS = {
    "a method": ("class C:\n    def of(self, n): return n", "class C:\n    def of(self, n): return n * 10"),
    "a field with a default": (
        "@dataclass(frozen=True)\nclass C:\n    k: int = 1\n    def of(self, n): return n * self.k",
        "@dataclass(frozen=True)\nclass C:\n    k: int = 1\n    m: int = 9\n    def of(self, n): return n * self.m",
    ),
    "fields that are moved": (
        "class C(NamedTuple):\n    a: int = 1\n    b: int = 2\n    def of(self, n): return n * self[0]",
        "class C(NamedTuple):\n    b: int = 2\n    a: int = 1\n    def of(self, n): return n * self[0]",
    ),
}


@pytest.fixture
def module() -> Iterator[Any]:
    sys.modules[MODULE] = made = ModuleType(MODULE)
    exec("from dataclasses import dataclass\nfrom typing import NamedTuple", made.__dict__)
    yield made
    del sys.modules[MODULE]
    for cell in [each for each in linecache.cache if MODULE in each]:
        del linecache.cache[cell]


def run(cell: str, module: Any) -> Any:
    exec(cell, module.__dict__)
    exec("def make(n): return C().of(n)", module.__dict__)
    return rx.source("n").map(module.make).scan(lambda total, n: total + n, 0)


def hosted(store: MemoryStore, events: list[int]) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource(events, follow=True))
    return evaluator


def steps(evaluator: QueryEvaluator, most: int = 1000) -> None:
    for _ in range(most):
        if not evaluator.step():
            return


def outputs(evaluator: QueryEvaluator) -> list[Any]:
    return [value for part in evaluator.stream("q").read(0, 100) for value in part.values]


@pytest.mark.parametrize("events_after", range(3))
@pytest.mark.parametrize("change", CELLS)
def test_an_edit_of_a_class_is_behind_a_checkpoint(change: str, events_after: int, module: Any) -> None:
    """Killed after the edit and any number of events behind it, the store goes on with the new class."""
    before, after = CELLS[change]
    events, store = [1, 2], MemoryStore()
    evaluator = hosted(store, events)
    evaluator.create("q", run(before, module))
    evaluator.start()
    steps(evaluator)
    assert outputs(evaluator) == [1, 3]
    evaluator.create("q", run(after, module))
    steps(evaluator)
    for n in range(events_after):
        events.append(n + 3)
        steps(evaluator)
    found = outputs(evaluator)
    evaluator.abandon()
    store.crash()
    again = hosted(store.reopen(), events)
    again.create("q", run(after, module))
    again.start()
    steps(again)
    assert outputs(again) == found and again.query("q").status == "running"
    events.append(100)
    steps(again)
    assert len(outputs(again)) == len(found) + 1
    again.close()


ORDERS = """
from dataclasses import astuple, dataclass, fields
from functools import cache
from itertools import count
from operator import methodcaller
from threading import Lock
from uuid import uuid4
import reliable_rx as rx

RATE = 2
def times(n): return n * 2
class Base:
    def more(self): return 2
@dataclass(frozen=True)
class Order(Base):
    a: int
    b: int = 1
    by = 2
    def total(self):
        n, *rest = astuple(self)
        return times(n) * 2 * RATE + self.by + self.more() + sum(rest[1:]) + ord(fields(self)[0].name[-1])

n = rx.source("n")
def summed(query): return query.scan(lambda total, each: total + each, 0)
def plain(value): return value
def named(value): return Order(value["n"]).total()
def gives(value): return Order(value["n"])
def gives_many(value): return [value["n"], {"k": Order(value["n"])}]
def total(value): return value.total()
def total_within(value): return value[1]["k"].total()
def unlike(value): return (value.total(), uuid4().hex)

NAMED = {"q": summed(n.map(named))}
CHAIN = {"made": n.map(gives), "q": summed(rx.source("made").map(total))}
LONG_CHAIN = {"made": n.map(gives), "same": rx.source("made").filter(lambda each: True),
              "q": summed(rx.source("same").map(total))}
CALLED = {"made": n.map(gives), "q": summed(rx.source("made").map(methodcaller("total")))}
WITHIN = {"made": n.map(gives_many), "q": summed(rx.source("made").map(total_within))}
PUSHED = {"q": summed(n.map(total))}
PUSHED_CALLED = {"q": summed(n.map(methodcaller("total")))}
PUSHED_WITHIN = {"q": summed(n.map(total_within))}
UNLIKE = {"q": summed(n.map(total)), "unlike": n.map(unlike)}
"""
EDITS = {
    "a method": ("* 2 * RATE", "* 3 * RATE"),
    "an attribute": ("by = 2", "by = 3"),
    "a base": ("def more(self): return 2", "def more(self): return 3"),
    "a helper": ("return n * 2", "return n * 3"),
    "a constant": ("RATE = 2", "RATE = 3"),
    "fields that are moved": ("    a: int\n    b: int = 1", "    b: int = 1\n    a: int = 1"),
    "a field that comes": ("b: int = 1", "b: int = 1\n    c: int = 5"),
    "a field that goes": ("    a: int\n    b: int = 1", "    b: int = 1"),
    "a field that is renamed": ("    a: int\n", "    amount: int\n"),
}
VARYING = {
    "nothing": "",
    "a count": "made = 0\n    def __post_init__(self): Order.made += 1",
    "a count of the class": "made = 0\n    def __post_init__(self): type(self).made += 1",
    "numbers": "ids = count()\n    def __post_init__(self): next(self.ids)",
    "a list": "seen = []\n    def __post_init__(self): self.seen.append(self.a)",
    "a table": "seen = {}\n    def __post_init__(self): self.seen[self.a] = 1",
    "a cache": "@cache\n    def known(self): return 1\n    def __post_init__(self): self.known()",
    "a lock": "lock = Lock()",
}
PUSHES = {"PUSHED": "gives", "PUSHED_CALLED": "gives", "PUSHED_WITHIN": "gives_many", "UNLIKE": "gives"}
WAYS = ["NAMED", "CHAIN", "LONG_CHAIN", "CALLED", "WITHIN", *(each for each in PUSHES if each != "UNLIKE")]


def load(module: Any, text: str) -> None:
    """Run *text* as a kernel runs a cell, whose text can be asked for."""
    cell = f"<{MODULE} {hash(text)}>"
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    exec(compile(text, cell, "exec"), module.__dict__)


def life(store: MemoryStore, module: Any, way: str, numbers: list[int], *, edit: Any = ("", ""), end: str) -> Any:
    """Have another process, whose code has the *edit*, take *numbers* by the queries of *way*; return its evaluator."""
    assert edit[0] in ORDERS
    load(module, ORDERS.replace(*edit) if edit[0] else ORDERS)
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    pushed = evaluator.push("n")
    for name, query in getattr(module, way).items():
        evaluator.create(name, query)
    try:
        evaluator.start()
        pushed.push([getattr(module, PUSHES.get(way, "plain"))({"n": n}) for n in numbers])
        steps(evaluator)
        if end == "stopped":
            evaluator.checkpoint()
    finally:
        evaluator.abandon()
        if end == "killed":
            store.crash()
    return evaluator


def totals(numbers: list[int]) -> list[int]:
    return [sum(n * 8 + 101 for n in numbers[: count + 1]) for count in range(len(numbers))]


@pytest.mark.parametrize("way, edit, began", crossed(WAYS, EDITS, ["at once", "behind a stop"], nightly=2))
def test_an_edit_behind_a_kill_is_refused_by_name_and_nothing_is_lost(
    way: str, edit: str, began: str, module: Any
) -> None:
    """However a query meets a class, an edit of it is named; put back, every query goes on, and no output is another.

    Behind a stop then, the edit is one like others.
    """
    store = MemoryStore()
    if began == "behind a stop":
        life(store, module, way, [1], end="stopped")
        store = store.reopen()
    life(store, module, way, [2, 3], end="killed")
    store = store.reopen()
    with pytest.raises(ReliableRxError, match="Order"):
        life(store, module, way, [4], edit=EDITS[edit], end="killed")
    store = store.reopen()
    again = life(store, module, way, [4], end="stopped")
    first = [1] if began == "behind a stop" else []
    assert outputs(again) == totals([*first, 2, 3, 4])
    assert {again.query(name).status for name in again.queries()} == {"running"}


@pytest.mark.parametrize("what", VARYING)
def test_a_query_over_values_of_an_unchanged_class_ends_alone(what: str, module: Any) -> None:
    """What does not repeat itself is its own fault, whatever classes its values have, and whatever these count."""
    store, edit = MemoryStore(), ("by = 2", f"by = 2\n    {VARYING[what]}")
    life(store, module, "UNLIKE", [1, 2], edit=edit, end="killed")
    again = life(store.reopen(), module, "UNLIKE", [3], edit=edit, end="stopped")
    assert outputs(again) == totals([1, 2, 3])
    assert again.query("q").status == "running" and again.query("unlike").status == "failed"
    assert "Order" not in str(again.query("unlike").error)


def test_an_edit_behind_a_stop_is_what_the_next_kill_is_compared_with(module: Any) -> None:
    """The class of the run that took the turns counts, not that of the first run which had it."""
    store, edit = MemoryStore(), EDITS["a method"]
    life(store, module, "UNLIKE", [1], end="stopped")
    life(store.reopen(), module, "UNLIKE", [2], edit=edit, end="killed")
    store = store.reopen()
    with pytest.raises(NondeterminismDetected, match="Order"):
        life(store, module, "UNLIKE", [3], end="killed")
    again = life(store.reopen(), module, "UNLIKE", [3], edit=edit, end="stopped")
    assert again.query("q").status == "running" and again.query("unlike").status == "failed"


@pytest.mark.parametrize("created_again", [True, False])
@pytest.mark.parametrize("way", ["CHAIN", "PUSHED", "PUSHED_WITHIN"])
def test_a_class_of_values_is_defined_anew_while_it_runs(way: str, created_again: bool, module: Any) -> None:
    """Killed behind that, the store goes on with the new class: no replay has the old one and the new one."""
    load(module, ORDERS)
    store, edit = MemoryStore(), EDITS["a method"]
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    pushed = evaluator.push("n")
    for cell in (ORDERS, ORDERS.replace(*edit)):
        load(module, cell)
        for name, query in getattr(module, way).items() if created_again or cell is ORDERS else ():
            evaluator.create(name, query)
        pushed.push([getattr(module, PUSHES.get(way, "plain"))({"n": 1})])
        steps(evaluator)
    evaluator.flush()
    found = outputs(evaluator)
    evaluator.abandon()
    store.crash()
    again = life(store.reopen(), module, way, [1], edit=edit, end="stopped")
    assert outputs(again)[: len(found)] == found and len(outputs(again)) == len(found) + 1
    assert {again.query(name).status for name in again.queries()} == {"running"}


def test_no_turn_is_taken_before_a_store_that_is_down_has_all_rows(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a cell of a class that is run again, also where the checkpoint has to be tried again."""
    load(module, ORDERS)
    store = MemoryStore()
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    pushed = evaluator.push("n")
    evaluator.create("q", rx.source("n").map(lambda order: order.a))
    for n in range(2):
        pushed.push([module.Order(n)])
        steps(evaluator)
        evaluator.checkpoint()
    assert store.generations()[-1].kind == "differential"
    load(module, ORDERS)
    pushed.push([module.Order(2)])
    with monkeypatch.context() as down:
        down.setattr(store, "commit", Mock(side_effect=StoreUnavailable("down")))
        steps(evaluator, 10)
        assert outputs(evaluator) == [0, 1] and store.commit.called
    steps(evaluator)
    assert outputs(evaluator) == [0, 1, 2] and store.generations()[-1].kind == "full"
    evaluator.close()


@pytest.mark.parametrize("take", [encode, digest])
def test_a_class_is_met_where_a_value_is_stored_or_digested(take: Any, module: Any) -> None:
    """However deep it lies, and once for each class: the store of whoever asks gets it."""
    load(module, ORDERS)
    take([{"k": (module.Order(1),)}])
    for _ in range(2):
        versions = QueryEvaluator(MemoryStore(), background=False).redefinitions.classes
        assert f"{MODULE}:Order" in versions.to_tell()
        assert versions.to_tell() == {} and versions.changed() == []
        load(module, ORDERS.replace(*EDITS["a method"]))
        assert versions.changed() == [f"{MODULE}.Order"]
        load(module, ORDERS)
        take([module.Order(1)])


def test_a_class_is_read_once_for_all_stores_of_a_process(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition of a node has a store: to read a class takes milliseconds, and so does each turn that differs."""
    load(module, ORDERS)
    encode(module.Order(1))
    read, digested = list[Any](), class_versions.class_digest
    monkeypatch.setattr(class_versions, "class_digest", lambda kind: read.append(kind) or digested(kind))
    for _ in range(3):
        versions = QueryEvaluator(MemoryStore(), background=False).redefinitions.classes
        assert f"{MODULE}:Order" in versions.to_tell()
        assert versions.changed() == []
    assert [each for each in read if each is module.Order] == [module.Order]


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> MetClasses:
    """Return a register of classes that has met none, in the place of the one of the process."""
    found = MetClasses()
    for module in (class_versions, codec, plain):
        monkeypatch.setattr(module, "MET", found)
    for module in (class_versions, met_classes):
        monkeypatch.setattr(module, "CLASSES_MAX", 4)
    return found


def test_a_class_gives_its_place_to_its_successor(module: Any, met: MetClasses) -> None:
    """However often its cell is run again, an edit has a checkpoint before the next turn: no replay has both."""
    load(module, ORDERS)
    store, edit = MemoryStore(), EDITS["a method"]
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    pushed = evaluator.push("n")
    evaluator.create("q", module.PUSHED["q"])
    for cell in (*[ORDERS] * 10, ORDERS.replace(*edit)):
        load(module, cell)
        pushed.push([module.Order(1)])
        steps(evaluator)
    evaluator.flush()
    found = outputs(evaluator)
    assert not met.left_out
    evaluator.abandon()
    store.crash()
    again = life(store.reopen(), module, "PUSHED", [1], edit=edit, end="stopped")
    assert outputs(again)[: len(found)] == found and len(outputs(again)) == len(found) + 1
    assert again.query("q").status == "running"


def test_classes_beyond_the_most_are_told_once(module: Any, met: MetClasses) -> None:
    """As an incident of each host, which names the first of them and the limit."""
    load(module, ORDERS + "".join(f"class C{n}: pass\n" for n in range(6)))
    evaluator = QueryEvaluator(MemoryStore(), background=False, checkpoint_interval_s=1e9)
    pushed = evaluator.push("n")
    evaluator.create("q", rx.source("n").map(module.plain))
    evaluator.start()
    for n in range(6):
        pushed.push([getattr(module, f"C{n}")()])
        steps(evaluator)
    (told,) = evaluator.incidents.open()
    assert (told.kind, told.subject, told.count) == ("classes", met.left_out, 1)
    assert met.left_out.endswith(":C4") and "more than 4 classes" in told.message
    evaluator.close()
