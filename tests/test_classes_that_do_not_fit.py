"""A state whose class does not fit any more is refused by the same sentence, whatever else has changed meanwhile.

Its class is edited while the store lies still: alone, or in the step to another interpreter (played by other `Makers`),
where queries are taken over by what the app declares, suspended, or taken up again. Or its cell is run again while the
query runs, and `create` behind that.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import sys
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import test_notebook_edits
from lanes import every_of
from other_pythons import Pythons
from test_notebook_edits import ALL, Notebook

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from hosting.engine.reopening import WAITED
from reliable_rx.errors import CheckpointRefused, QueryRefused

MODULE = "classes_that_do_not_fit"
FIELDS = ["qty", "price"]


def made(n: int) -> Any:
    """Return a value of the class as it is by now."""
    kind: Any = sys.modules[MODULE].Item  # type: ignore[attr-defined]
    return kind(n, -n) if dataclasses.is_dataclass(kind) else kind.A


def price(item: Any) -> Any:
    return str(getattr(item, "price", item))


PLACES: dict[str, Callable[[Any], Any]] = {
    "a state": lambda n: n.map(made).scan(lambda least, each: min(least, each, key=price)).map(price),
    "a state within one": lambda n: n.map(made).buffer_with_count(100).map(len),
    "a group": lambda n: n.group_by(lambda x: x % 2).flat_map(
        lambda group: group.map(made).scan(lambda least, each: min(least, each, key=price)).map(price)
    ),
    "a sequence inside": lambda n: n.flat_map(
        lambda x: rx.of(x).concat(rx.never()).map(made).scan(lambda least, each: min(least, each, key=price)).map(price)
    ),
    "a key": lambda n: n.group_by(made).flat_map(lambda group: group.count()),
    "beside a function": lambda n: n.scan(lambda _, x: lambda: x, None).map(lambda f: made(f())).pairwise().map(len),
    "with a function": lambda n: n.scan(lambda _, x: (lambda: x, made(x)), None).map(lambda pair: pair[0]()),
    "behind a clock": lambda n: n.map(price),
}
"""Where the state of a query has a value of the class."""
Change = Callable[[Any], None]


def data(*fields: str, **space: Any) -> Any:
    found = dataclasses.make_dataclass("Item", fields, frozen=True, namespace=space)
    found.__module__ = MODULE
    return found


def members(*names: str) -> Any:
    return enum.Enum("Item", list(names), module=MODULE)


def gone(module: Any) -> None:
    del module.Item


CHANGES: dict[str, tuple[Any, Change, str]] = {
    "renamed": (
        data(*FIELDS),
        lambda module: setattr(module, "Item", data("qty", "cost")),
        "stored values of Item have a field 'price' and no 'cost', which looks renamed",
    ),
    "one more": (
        data(*FIELDS),
        lambda module: setattr(module, "Item", data(*FIELDS, "more")),
        "stored values of Item have no field 'more': give it a default",
    ),
    "another member": (
        members("A", "B"),
        lambda module: setattr(module, "Item", members("B", "C")),
        "stored values of Item have a member 'A', which it has no more",
    ),
    "gone": (data(*FIELDS), gone, f"{MODULE}.Item"),
}


class World:
    """A store, the class of its values, and the interpreter."""

    def __init__(self, module: Any, interpreters: Pythons, place: str, change: str) -> None:
        self.module, self.interpreters, self.place = module, interpreters, place
        self.before, self.change, self.reason = CHANGES[change]
        self.store = MemoryStore()
        self.module.Item = self.before
        self.run(3)

    def evaluator(self, count: int, *, declared: bool = True, strict: bool = True) -> QueryEvaluator:
        self.store = self.store.reopen()
        evaluator = QueryEvaluator(self.store, background=False, clock=lambda: 0.0, strict=strict)
        evaluator.source("n", ListSource(range(count), follow=True))
        if declared:
            evaluator.create("items", rx.source("n").map(made))
            clock = event_time(lambda item: 1.0, lateness_s=1e6) if self.place == "behind a clock" else None
            source: Any = rx.source("n" if clock is None else "items")
            evaluator.create("q", PLACES[self.place](source), clock=clock)
        return evaluator

    def run(self, count: int, **how: Any) -> list[Any]:
        """Take the first *count* events, stop cleanly, and return what the query has emitted."""
        with self.evaluator(count, **how) as evaluator:
            evaluator.start()
            while evaluator.step():
                pass
            evaluator.checkpoint()
            found = [] if "q" not in evaluator.queries() else list(evaluator.stream("q").read(0, 100))
        return [value for part in found for value in part.values]

    def refusal(self, **how: Any) -> str:
        """Return why a start is refused, which changes nothing."""
        evaluator = self.evaluator(3, **how)
        with pytest.raises(CheckpointRefused) as refused:
            evaluator.start()
        evaluator.abandon()
        return refused.value.message


STEPS: dict[str, tuple[str, ...]] = {
    "alone": (),
    "to another interpreter": ("next",),
    "to another one that does not declare it": ("next", "undeclared"),
    "when it is taken up again": ("next", "suspended"),
    "when it is taken up again by another one": ("next", "suspended", "next"),
    "when it is woken by its own": ("next", "suspended", "home", "undeclared"),
}
"""What happens between the last clean stop and the start with the class as it is now."""


@pytest.fixture
def module() -> Iterator[Any]:
    sys.modules[MODULE] = found = ModuleType(MODULE)
    yield found
    del sys.modules[MODULE]


def stepped(world: World, step: str) -> dict[str, Any]:
    """Do what *step* says, and return how the next start declares the query."""
    how: dict[str, Any] = {}
    for each in STEPS[step]:
        if each == "next":
            world.interpreters.change()
        elif each == "home":
            world.interpreters.number = 0
        elif each == "suspended":
            world.run(3, declared=False)
        else:
            how["declared"] = False
    return how


@pytest.mark.parametrize("place, change, step", every_of(5, product(PLACES, CHANGES, STEPS)))
def test_it_is_refused_by_name(place: str, change: str, step: str, module: Any, interpreters: Pythons) -> None:
    """The start says whose state, which class and the remedy, and changes nothing: put back, the state is there."""
    world = World(module, interpreters, place, change)
    how = stepped(world, step)
    world.change(module)
    message = world.refusal(**how)
    needs = "needs" if change == "gone" else "is of an earlier class:"
    assert f"the state of 'q' {needs} {world.reason}" in message and "strict=False" in message
    assert message == world.refusal(**how)
    module.Item = world.before
    with world.evaluator(3, **how) as evaluator:
        evaluator.start()
        report = str(evaluator.statistics().reports.get("q", ""))
        gives_up = "function" in place and ("q" in evaluator.queries()) and "next" in STEPS[step]
        assert ("fresh" in report) == gives_up
        assert not gives_up or "it holds code that is not loaded" in report


@pytest.mark.parametrize("place, change, step", every_of(5, product(PLACES, CHANGES, list(STEPS)[1:])))
def test_without_strictness_it_is_told(place: str, change: str, step: str, module: Any, interpreters: Pythons) -> None:
    """The query goes on without what does not fit; the report says what of which operator is given up, and why."""
    world = World(module, interpreters, place, change)
    how = stepped(world, step)
    world.change(module)
    with world.evaluator(3, strict=False, **how) as evaluator:
        evaluator.start()
        if "declared" in how and "suspended" not in STEPS[step]:
            (told,) = [each for each in evaluator.warnings if "was given up" in each]
            assert world.reason in told
        else:
            told = evaluator.statistics().reports["q"]
            assert " is given up: " in told and ("fresh: " in told or "dropped: " in told)
            assert place == "with a function" or world.reason in told  # that is given up for its function already


RECORD = "@dataclasses.dataclass(frozen=True)\nclass C:\n    n: int\n    "
ENUM = "class C(enum.Enum):\n    A = 1\n    "
CELLS: dict[str, tuple[str, str, str, str]] = {
    "renamed": (
        f"{RECORD}price: int = 0",
        f"{RECORD}cost: int = 0",
        "values of C have a field 'price' and no 'cost'.*__renamed_fields__",
        f"{RECORD}cost: int = 0\n    __renamed_fields__ = {{'price': 'cost'}}",
    ),
    "one more": (
        f"{RECORD}price: int = 0",
        f"{RECORD}price: int\n    more: int",
        "values of C have no field 'more': give it a default",
        f"{RECORD}price: int\n    more: int = 7",
    ),
    "another member": (
        f"{ENUM}B = 2",
        "class C(enum.Enum):\n    B = 2",
        "values of C have a member 'A', which it has no more: take it back",
        "class C(enum.Enum):\n    B = 2\n    A = B",
    ),
}
"""A cell of a class, the same as it is run again, why that does not fit, and a third one that does."""
MAKE = "make = lambda n: [*C][0] if issubclass(C, enum.Enum) else C(*[n] * len(dataclasses.fields(C)))\n"
KEEPS = {
    "a state": f"{MAKE}q = rx.source('n').map(lambda n: n).scan(lambda seen, n: seen or [make(n)], [])"
    ".map(lambda seen: type(seen[0]) is C)\n"
    "stateless = rx.source('n').map(lambda n: issubclass(C, enum.Enum))",
    "a clock": f"{MAKE}made = rx.source('n').map(lambda n: (n, make(n)))\n"
    "q = rx.source('made').map(lambda pair: type(pair[1]) is C)\n"
    "stateless = rx.source('n').map(lambda n: issubclass(C, enum.Enum))",
}
"""Queries that keep the value of their first event, or that of each until three more have come."""
OLD = [True, False, False]
SEEN: dict[tuple[str, str], tuple[list[bool], ...]] = {
    ("a state", "mended"): (OLD, [*OLD, True], [*OLD, True, True, True, True]),
    ("a state", "begun anew"): (OLD, [*OLD, True], [*OLD, True, True, True, True]),
    ("a clock", "mended"): ([], [True], [True, True, True, True]),
    ("a clock", "begun anew"): ([], [], [True]),
}
"""What they have emitted before the remedy, behind it and an event, and behind a kill and three more."""


class Cells(Notebook):
    """A notebook of which a query keeps values of the class of a cell."""

    def __init__(self, patch: pytest.MonkeyPatch, change: str, holder: str, *, strict: bool = True) -> None:
        first, self.second, self.reason, self.third = CELLS[change]
        patch.setitem(ALL, "class", (first, first, ""))
        patch.setattr(test_notebook_edits, "HEAD", "import dataclasses, enum, reliable_rx as rx")
        patch.setattr(test_notebook_edits, "COMPOSE", KEEPS[holder])
        self.strict = strict
        self.clock = event_time(lambda pair: float(pair[0]), lateness_s=2.5) if holder == "a clock" else None
        super().__init__(patch, "class")

    def create(self) -> None:
        self.evaluator.creation._strict = self.strict
        cells = vars(self.main)
        if self.clock is None:
            self.evaluator.create_many({name: cells[name] for name in ("stateless", "q")})
            return
        if not self.evaluator.started:
            self.evaluator.create_many({name: cells[name] for name in ("stateless", "made")})
        self.evaluator.create("q", cells["q"], clock=self.clock)


@pytest.mark.parametrize("holder, remedy", SEEN)
@pytest.mark.parametrize("change", CELLS)
def test_a_create_while_it_runs_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, change: str, holder: str, remedy: str
) -> None:
    """A class whose cell was run again does not fit: `create` says so and changes nothing, and each remedy helps.

    Whether a state has values of it, or events that wait for the query's clock.
    """
    notebook, (seen, then, last) = Cells(monkeypatch, change, holder), SEEN[holder, remedy]
    notebook.event()
    notebook.cell(notebook.second)
    before = {name: each.plan for name, each in notebook.evaluator.engine.standing.items()}
    for _ in range(2):
        with pytest.raises(QueryRefused, match=f"the query 'q' goes on as it was.*{notebook.reason}.*restart\\('q'\\)"):
            notebook.create()
        assert {name: each.plan for name, each in notebook.evaluator.engine.standing.items()} == before
        notebook.event()
    assert notebook.outputs == seen and notebook.evaluator.query("q").status == "running"
    notebook.helper = notebook.third if remedy == "mended" else notebook.second
    if remedy == "mended":
        notebook.cell(notebook.third)
    else:
        notebook.evaluator.restart("q")
    notebook.create()
    notebook.event()
    assert notebook.outputs == then
    notebook.kill()
    for _ in range(3):
        notebook.event()
    assert notebook.outputs == last and not notebook.evaluator.warnings
    notebook.evaluator.close()


@pytest.mark.parametrize("holder, what", [("a state", "/scan"), ("a clock", WAITED)])
@pytest.mark.parametrize("change", CELLS)
def test_without_strictness_an_edit_says_what_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, change: str, holder: str, what: str
) -> None:
    """The operator begins afresh, or goes on without the event; the report and a warning say which one, and why."""
    notebook = Cells(monkeypatch, change, holder, strict=False)
    notebook.event()
    notebook.cell(notebook.second)
    caplog.clear()
    notebook.create()
    (told,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    had = f"what {what} had" if holder == "a state" else what
    for each in (told, notebook.report):
        assert re.search(f"{had} is given up: C: FieldsDiffer: stored {notebook.reason}", each), each
    assert ("fresh: " if holder == "a state" else "dropped: ") + what in notebook.report
    for _ in range(1 if holder == "a state" else 4):
        notebook.event()
    assert notebook.outputs == ([True, True] if holder == "a state" else [True])
    notebook.evaluator.close()


class Unstorable:
    """A value that no pickler takes."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("not to be stored")


class Unloadable:
    """A value that goes into bytes and does not come out of them."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


@pytest.mark.parametrize("kind, told", [(Unstorable, "not to be stored"), (Unloadable, "invalid literal for int")])
def test_what_an_edit_cannot_take_over_is_told(
    kind: Callable[[], Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a value that does not survive its way through bytes the operator and the cause are named, with a warning."""
    store = MemoryStore()
    with QueryEvaluator(store, background=False, checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("q", rx.source("n").scan(lambda _, n: kind(), None).map(lambda _: 1))
        while evaluator.step():
            pass
        evaluator.create("q", rx.source("n").scan(lambda _, n: kind(), None).map(lambda _: 2))
        report = evaluator.statistics().reports["q"]
        (line,) = [each.getMessage() for each in caplog.records if "was edited" in each.getMessage()]
        assert told in report and told in line and "/scan" in line and "/scan" in report.partition("; ")[2]
        evaluator.dispose("q")
