"""Cells of a notebook that are mended while their query runs: it is edited by what it reaches, not by its object.

A notebook is played as one module ``__main__`` in which cells are run, also again; its kernel is killed at each
boundary, and the next one runs the cells as they stand by then. What the streams hold is always: what the old code gave
for the events before the edit, and then what the new code gives, from the state that was there.
"""

from __future__ import annotations

import importlib
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.redefinitions import EDITS_MAX
from reliable_rx import Limits
from reliable_rx.contents import Content, content

HEAD = "import decimal, functools, operator, re, types, numpy, pandas, reliable_rx as rx"
COMPOSE = "q = rx.source('n').map({}).scan(lambda a, x: a + x, 0)"
CALLS = "lambda x: f(x)"
KINDS: dict[str, tuple[str, str]] = {
    "function": ("def f(x): return x * $", CALLS),
    "lambda": ("f = lambda x: x * $", CALLS),
    "number": ("RATE = $", "lambda x: x * RATE"),
    "dict": ("RATES = {'a': $}", "lambda x: x * RATES['a']"),
    "list in a dict": ("RATES = {'a': [$]}", "lambda x: x * RATES['a'][0]"),
    "object": ("OF = types.SimpleNamespace(rate=$)", "lambda x: x * OF.rate"),
    "function of a function": ("def g(x): return x * $", "(lambda h: lambda x: h(x))(lambda x: g(x))"),
    "decorated": (
        "def twice(k):\n"
        "    @functools.wraps(k)\n"
        "    def around(x): return k(x)\n"
        "    return around\n"
        "@twice\ndef f(x): return x * $",
        CALLS,
    ),
    "cached": ("@functools.lru_cache\ndef f(x): return x * $", CALLS),
    "closure": ("def made(k): return lambda x: x * k\nf = made($)", CALLS),
    "what makes a closure": ("def made(k): return lambda x: x * k * $ // 2\nf = made(2)", CALLS),
    "default": ("def f(x, k=$): return x * k", CALLS),
    "Series": ("RATES = pandas.Series([$])", "lambda x: int(x * RATES[0])"),
    "array": ("RATES = numpy.array([$])", "lambda x: int(x * RATES[0])"),
    "pattern": ("WORD = re.compile('a' * $)", "lambda x: x * len(WORD.pattern)"),
    "Decimal": ("RATE = decimal.Decimal($)", "lambda x: int(x * RATE)"),
    "generator": ("def f(x): yield x * $", "lambda x: next(f(x))"),
    "attribute of a module": ("OF = types.ModuleType('of')\nOF.rate = $", "lambda x: x * OF.rate"),
    "partial": ("f = functools.partial(operator.mul, $)", CALLS),
    "selector": ("def f(x): return x * $", "lambda x: f(x)).flat_map(lambda x: rx.of(x)"),
    "within a selector": ("def f(x): return x * $", "lambda x: x).flat_map(lambda x: rx.of(x).map(lambda y: f(y))"),
}
IN_PLACE: dict[str, tuple[str, str, str]] = {
    "item": ("RATES = {'a': $}", "RATES['a'] = $", "lambda x: x * RATES['a']"),
    "item of a default": ("RATES = {'a': $}", "RATES['a'] = $", "lambda x, rates=RATES: x * rates['a']"),
    "items": ("RATES = [$]", "RATES[:] = [$]", "lambda x: x * RATES[0]"),
    "attribute": ("OF = types.SimpleNamespace(rate=$)", "OF.rate = $", "lambda x: x * OF.rate"),
}
BY_NAME: dict[str, tuple[str, str, str]] = {
    "class": (
        "class C:\n    def times(self, x): return x * $",
        "class C:\n    def times(self, x): return x * $",
        "lambda x: C().times(x)",
    ),
    "attribute of a class": ("class C:\n    rate = $", "C.rate = $", "lambda x: x * C.rate"),
    "method of a class": (
        "class C:\n    def times(self, x): return x * $",
        "C.times = lambda self, x: x * $",
        "lambda x: C().times(x)",
    ),
}
ALL = {**{name: (cell, cell, calls) for name, (cell, calls) in KINDS.items()}, **IN_PLACE, **BY_NAME}
STEPS = ("event", "event", "checkpoint", "mend", "create", "event", "checkpoint", "event")
OUTPUTS = [2, 6, 15, 27]


class Notebook:
    """Cells as they stand, and the kernel that has run them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self.monkeypatch, self.store = monkeypatch, MemoryStore()
        self.helper, self.mended, calls = ALL[kind]
        self.compose, self.rate, self.rows = COMPOSE.format(calls), 2, list[int]()
        self.evaluator: Any = None
        self.kernel()

    def kernel(self) -> None:
        """Begin a kernel, and run all cells as they stand."""
        self.main = ModuleType("__main__")
        self.monkeypatch.setitem(sys.modules, "__main__", self.main)
        for text in (HEAD, self.helper.replace("$", str(self.rate)), self.compose):
            self.cell(text)
        self.evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, clock=lambda: 0.0)
        self.evaluator.source("n", ListSource(self.rows, follow=True))
        self.create()

    def cell(self, text: str) -> None:
        exec(compile(text, "<cell>", "exec"), vars(self.main))

    def create(self) -> None:
        self.evaluator.create("q", vars(self.main)["q"])

    def mend(self) -> None:
        """Mend the helper: its cell alone is run again."""
        self.rate = 3
        self.cell(self.mended.replace("$", "3"))

    def event(self) -> None:
        self.rows.append(len(self.rows) + 1)
        self.run()

    def run(self) -> None:
        while self.evaluator.step():
            pass

    def step(self, name: str, *, again: bool) -> None:
        if name == "checkpoint":
            self.evaluator.checkpoint()
        else:
            if name == "create" and again:
                self.cell(self.compose)
            getattr(self, name)()

    def kill(self, *, starts: bool = True) -> None:
        """End the kernel; the next one goes on with what the store has."""
        self.evaluator.abandon()
        self.store.crash()
        self.store = self.store.reopen()
        self.kernel()
        if starts:
            self.run()

    @property
    def outputs(self) -> list[Any]:
        return [value for part in self.evaluator.stream("q").read(0, 100) for value in part.values]

    @property
    def report(self) -> str:
        return str(self.evaluator.statistics().reports.get("q"))


def played(monkeypatch: pytest.MonkeyPatch, kind: str, *, again: bool, kill_at: int, steps: Any = STEPS) -> Notebook:
    notebook = Notebook(monkeypatch, kind)
    for number, name in enumerate(steps):
        notebook.step(name, again=again)
        if name == "create":
            assert notebook.report.startswith("kept: ") and "fresh" not in notebook.report
        if number == kill_at:
            notebook.kill()
    return notebook


@pytest.mark.parametrize(("kind", "again"), [*product(ALL, (False, True))])
def test_an_edit_is_told_by_what_is_reached_when_a_query_is_created(
    monkeypatch: pytest.MonkeyPatch, kind: str, again: bool
) -> None:
    """With the old object or a new one: one report, one turn, and the same outputs wherever the kernel is killed."""
    for kill_at in (*range(STEPS.index("mend"), len(STEPS) - 1), len(STEPS)):
        notebook = played(monkeypatch, kind, again=again, kill_at=kill_at)
        assert notebook.outputs == OUTPUTS, f"killed behind step {kill_at}: {STEPS[min(kill_at, len(STEPS) - 1)]}"
        assert notebook.evaluator.query("q").status == "running"
        assert not notebook.evaluator.warnings
        notebook.evaluator.close()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_needs_a_checkpoint_that_goes_by_value(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """All turns are taken again, by the functions that took them."""
    steps = tuple(each for each in STEPS if each != "checkpoint")
    for kill_at in range(steps.index("mend"), len(steps) - 1):
        notebook = played(monkeypatch, kind, again=False, kill_at=kill_at, steps=steps)
        assert notebook.outputs == OUTPUTS, f"killed behind step {kill_at}: {steps[kill_at]}"
        assert not notebook.evaluator.warnings
        notebook.evaluator.close()


def test_a_query_that_has_ended_is_revived_by_its_old_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an edit revives any: what it named has been mended."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell("def f(x): raise KeyError(x)")
    notebook.create()
    notebook.event()
    assert notebook.evaluator.query("q").status == "failed"
    notebook.mend()
    notebook.create()
    notebook.event()
    assert notebook.evaluator.query("q").status == "running"
    assert notebook.outputs == [6]
    notebook.evaluator.close()


def test_what_is_as_it_was_is_no_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that is run again unchanged makes other objects, and the same query."""
    for kind in ALL:
        notebook = Notebook(monkeypatch, kind)
        notebook.event()
        notebook.cell(notebook.helper.replace("$", "2"))
        notebook.create()
        assert notebook.report == "None", kind
        notebook.evaluator.close()


def test_a_query_made_by_a_function_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new object by the same code is shared in the process; what it reaches is looked at all the same."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell("def make(): return rx.source('n').map(lambda x: f(x)).scan(lambda a, x: a + x, 0)\nq = make()")
    notebook.create()
    notebook.event()
    notebook.mend()
    notebook.cell("q = make()")
    notebook.create()
    assert notebook.report == "kept: /scan"
    notebook.event()
    assert notebook.outputs == [2, 8]
    notebook.evaluator.close()


def test_a_name_that_had_no_meaning_yet_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query may be created before the cell of its helper is run; what shadows a builtin is an edit, too."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell("q = rx.source('n').map(lambda x: abs(x) if x < 2 else later(x))")
    notebook.create()
    notebook.event()
    notebook.cell("def later(x): return x * 3")
    notebook.create()
    notebook.event()
    notebook.cell("def abs(x): return x * 5\ndef later(x): return abs(x)")
    notebook.create()
    notebook.event()
    assert notebook.outputs == [1, 6, 15]
    notebook.kill()
    assert notebook.outputs == [1, 6, 15]
    assert not notebook.evaluator.warnings
    notebook.evaluator.close()


def test_many_queries_of_one_plan_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can change by itself is read once a call, not once a query."""
    notebook = Notebook(monkeypatch, "item")
    read: list[Any] = []

    def counted(node: Any) -> Content:
        read.append(node)
        return content(node)

    monkeypatch.setattr("hosting.plans.content", counted)
    queries = {f"q{number}": vars(notebook.main)["q"] for number in range(100)}
    notebook.evaluator.create_many(queries)
    notebook.run()
    assert len(read) <= 4
    notebook.evaluator.create_many(queries)
    assert len(read) <= 5
    notebook.evaluator.close()


@pytest.mark.parametrize("kind", [*KINDS, "class"])
def test_what_is_defined_anew_is_an_edit_before_the_next_event(
    monkeypatch: pytest.MonkeyPatch, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody creates the query again: Python runs what its names mean now, and so does each replay."""
    steps = tuple(each for each in STEPS if each != "create")
    if kind in KINDS:
        steps = tuple(each for each in steps if each != "checkpoint")
    for kill_at in (*range(steps.index("mend"), len(steps) - 1), len(steps)):
        caplog.clear()
        notebook = played(monkeypatch, kind, again=False, kill_at=kill_at, steps=steps)
        assert notebook.outputs == OUTPUTS, f"killed behind step {kill_at}"
        assert not notebook.evaluator.warnings and not notebook.evaluator.statistics().incidents
        if kill_at != steps.index("mend"):
            assert (
                "was edited, since '__main__." in caplog.text and "was defined anew while it ran: kept" in caplog.text
            )
        notebook.evaluator.close()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_cell_is_mended_between_the_declaration_and_the_start(
    monkeypatch: pytest.MonkeyPatch, again: bool, checkpoint: bool
) -> None:
    """What the store has is taken again by its own functions, though the declared query had been the same."""
    notebook = Notebook(monkeypatch, "function")
    notebook.event()
    if checkpoint:
        notebook.evaluator.checkpoint()
        notebook.event()
    expected = notebook.outputs
    notebook.kill(starts=False)
    notebook.mend()
    if again:
        notebook.create()
    notebook.run()
    assert notebook.outputs == expected and notebook.report == "kept: /scan"
    notebook.event()
    assert notebook.outputs == [*expected, expected[-1] + 3 * len(notebook.rows)]
    notebook.kill()
    assert notebook.outputs == [*expected, expected[-1] + 3 * len(notebook.rows)]
    assert not notebook.evaluator.warnings
    notebook.evaluator.close()


def test_another_module_under_a_name_is_another_meaning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Imported at the top or in a function's body, also if its module was thrown out and imported again."""
    monkeypatch.syspath_prepend(tmp_path)
    for compose in ("lambda x: helping_cells.f(x)", "imports"):
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        (tmp_path / "helping_cells.py").write_text("def f(x): return x * 2")
        sys.modules.pop("helping_cells", None)
        notebook = Notebook(monkeypatch, "function")
        notebook.cell("import helping_cells\ndef imports(x):\n    from helping_cells import f\n    return f(x)")
        notebook.cell(f"q = rx.source('n').map({compose}).scan(lambda a, x: a + x, 0)")
        notebook.create()
        notebook.event()
        (tmp_path / "helping_cells.py").write_text("def f(x): return x * 3")
        del sys.modules["helping_cells"]
        importlib.invalidate_caches()
        notebook.cell("import helping_cells")
        notebook.event()
        assert notebook.outputs == [2, 8] and notebook.report == "kept: /scan"
        notebook.evaluator.close()
    del sys.modules["helping_cells"]


def test_one_of_two_queries_is_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one reaches the same name, and is edited before its next event."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell("other = rx.source('n').map(lambda x: -f(x))")
    notebook.evaluator.create("other", vars(notebook.main)["other"])
    notebook.event()
    notebook.mend()
    notebook.create()
    notebook.event()
    assert str(notebook.evaluator.statistics().reports["other"]) == "no state"
    notebook.kill()
    assert notebook.outputs == [2, 8]
    assert [v for each in notebook.evaluator.stream("other").read(0, 9) for v in each.values] == [-2, -6]
    assert not notebook.evaluator.warnings
    notebook.evaluator.close()


def test_what_is_edited_keeps_how_it_is_hosted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key, policy, limits and clock of each of the queries that share a plan."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell(
        "def key(x): return x % 2\n"
        "def by(k): return rx.source('n').where_key(key, k).map(lambda x: f(x)).scan(lambda a, x: a + x, 0)\n"
        "clock = rx.event_time(lambda x: float(x), lateness_s=0.5)"
    )
    space, limits = vars(notebook.main), Limits(actions_max=1000)
    queries = {f"q{k}": space["by"](k) for k in (0, 1)}
    notebook.evaluator.create_many(queries, policy="skip", limits=limits, clock=space["clock"])
    for _ in range(3):
        notebook.event()
    notebook.mend()
    for _ in range(2):
        notebook.event()
    for name in ("q0", "q1"):
        there = notebook.evaluator.engine.standing[name]
        assert (there.policy, there.plan.limits, there.keys) == ("skip", limits, (int(name[1]),))
        assert there.clock.spec == space["clock"]
    assert held(notebook, "q0", "q1") == HELD
    notebook.kill()
    notebook.evaluator.create_many(queries, policy="skip", limits=limits, clock=space["clock"])
    assert held(notebook, "q0", "q1") == HELD
    assert not notebook.evaluator.warnings
    notebook.evaluator.close()


HELD = {"q0": [4, 16], "q1": [2, 11]}  # an event that waits for its time is taken by what there is then


def held(notebook: Notebook, *names: str) -> dict[str, list[Any]]:
    read = notebook.evaluator.stream
    return {name: [v for each in read(name).read(0, 9) for v in each.values] for name in names}


def test_what_cannot_be_stored_is_told_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query goes on with it, as Python does; an incident names it, and a creation ends that."""
    notebook = Notebook(monkeypatch, "number")
    notebook.event()
    notebook.cell("class Rate:\n    def __rmul__(self, x): return x\n    def __reduce__(self): raise OSError('no')")
    notebook.cell("RATE = Rate()")
    notebook.event()
    (found,) = notebook.evaluator.statistics().incidents
    assert (found.kind, found.subject, found.level) == ("redefined", "q", "warning")
    assert "'__main__.RATE' was defined anew while it ran" in found.message and "cannot be stored" in found.message
    notebook.cell("RATE = 3")
    notebook.create()
    notebook.event()
    assert not notebook.evaluator.statistics().incidents
    assert notebook.outputs == [2, 4, 13]
    notebook.evaluator.close()


def test_what_changes_all_the_time_is_no_edit_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some edits in a minute it is told: such a number is to come as an event."""
    notebook = Notebook(monkeypatch, "number")
    for number in range(EDITS_MAX + 5):
        notebook.cell(f"RATE = {number + 10}")
        notebook.event()
    (found,) = notebook.evaluator.statistics().incidents
    assert found.kind == "redefined" and "let it come as events" in found.message
    notebook.create()
    assert not notebook.evaluator.statistics().incidents
    notebook.evaluator.close()


def test_a_list_that_is_filled_is_no_edit_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what changes in place nothing is an edit before the query is created again, also if another is edited."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell("seen = []\nfills = rx.source('n').do_action(seen.append).map(lambda x, to=seen: len(to))")
    notebook.evaluator.create("fills", vars(notebook.main)["fills"])
    notebook.event()
    notebook.mend()
    notebook.event()
    assert list(notebook.evaluator.statistics().reports) == ["q"]
    assert vars(notebook.main)["seen"] == [1, 2]
    notebook.evaluator.close()


def test_what_takes_long_to_compare_is_not_compared_for_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand queries may share one table, and be created one by one; a name that changes counts at once."""
    notebook = Notebook(monkeypatch, "function")
    notebook.cell("q = rx.source('n').map(lambda x, table=[0]: f(x) + table[0]).scan(lambda a, x: a + x, 0)")
    notebook.create()
    notebook.evaluator.start()
    read: list[Any] = []

    def counted(node: Any) -> Content:
        read.append(node)
        return content(node)

    monkeypatch.setattr("hosting.plans.content", counted)
    monkeypatch.setattr("hosting.plans.DEAR_S", -1.0)
    monkeypatch.setattr("hosting.plans.DEAR_PAUSE", 1e9)
    for number in range(20):
        notebook.evaluator.create(f"q{number}", vars(notebook.main)["q"])
    assert len(read) == 1
    notebook.mend()
    notebook.create()
    assert notebook.report == "kept: /scan"
    notebook.evaluator.close()


def test_what_a_query_sets_itself_is_no_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter of a query's own is data, also for another query that reads it."""
    notebook = Notebook(monkeypatch, "number")
    notebook.cell("COUNT = 0\ndef f(x):\n    global COUNT\n    COUNT += 1\n    return x")
    notebook.cell("q = rx.source('n').map(lambda x: f(x))")
    notebook.create()
    notebook.evaluator.create("reads", rx_reading(notebook))
    for _ in range(3):
        notebook.event()
    assert "reads" not in notebook.evaluator.statistics().reports
    assert notebook.outputs == [1, 2, 3]
    notebook.evaluator.close()


def rx_reading(notebook: Notebook) -> Any:
    notebook.cell("reads = rx.source('n').map(lambda x: COUNT)")
    return vars(notebook.main)["reads"]
