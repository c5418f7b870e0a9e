"""The app's code changes between two runs: after a clean stop, and behind a kill, in every way in which code changes.

A replay runs the code that took the turns the first time, and the edit comes behind it as a turn. So what the streams
hold is always: what the old code gave for the events that it took, then what the new code gives for the rest, from the
state that was there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lanes import crossed

from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import NondeterminismDetected, ReliableRxError

NAMES = ("changed_app", "changed_helping")
Load = Callable[..., ModuleType]
APP = """
import functools
from dataclasses import dataclass

import changed_helping
from changed_helping import outer
import reliable_rx as rx

RATE = 2
TABLE = {"k": 2}


class Rate:
    by = 2

    def times(self, n):
        return n * 2


@dataclass(frozen=True)
class Config:
    rate: int


CONFIG = Config(2)


def helper(n):
    return n * 2


def deep(n):
    return helper(n)


def closing(by):
    return lambda n: n * by


def defaulted(n, by=2):
    return n * by


@functools.lru_cache(None)
def cached(n):
    return n * 2


def recursive(n):
    return n if n < 1 else recursive(n - 1) + 2


n = rx.source("n")
QUERY = n.map(lambda x: x * 2).scan(lambda a, x: a + x, 0)
"""
HELPING = """
RATE = 2


def twice(n):
    return n * RATE


def outer(n):
    return twice(n)
"""
BY = "QUERY = n.map(lambda x: x * 2)"


def using(expression: str) -> tuple[str, str]:
    return BY, f"QUERY = n.map({expression})"


CHANGES: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "the lambda itself": (using("lambda x: x * 2"), ("lambda x: x * 2)", "lambda x: x * 3)")),
    "a helper of a lambda": (
        using("lambda x: helper(x)"),
        ("return n * 2\n\n\ndef deep", "return n * 3\n\n\ndef deep"),
    ),
    "a named function": (using("helper"), ("return n * 2\n\n\ndef deep", "return n * 3\n\n\ndef deep")),
    "a helper's helper": (using("deep"), ("return n * 2\n\n\ndef deep", "return n * 3\n\n\ndef deep")),
    "a constant": (using("lambda x: x * RATE"), ("RATE = 2", "RATE = 3")),
    "a table": (using('lambda x: x * TABLE["k"]'), ('{"k": 2}', '{"k": 3}')),
    "a record": (using("lambda x: x * CONFIG.rate"), ("Config(2)", "Config(3)")),
    "a closure": (using("closing(2)"), ("closing(2)", "closing(3)")),
    "what makes a closure": (using("closing(2)"), ("n: n * by", "n: n * (by + 1)")),
    "a default": (using("defaulted"), ("by=2", "by=3")),
    "a cached function": (using("cached"), ("return n * 2\n\n\ndef recursive", "return n * 3\n\n\ndef recursive")),
    "recursion": (using("recursive"), (") + 2", ") + 3")),
    "a helper of another module": (using("lambda x: changed_helping.twice(x)"), ("", "")),
    "a helper of an imported function": (using("outer"), ("", "")),
    "an operator before": (using("lambda x: x * 2"), ("* 2).scan", "* 2).map(lambda x: x + x // 2).scan")),
    "a partial": (using("functools.partial(defaulted, by=2)"), ("defaulted, by=2", "defaulted, by=3")),
    "a function that goes": (
        using("helper"),
        ("def helper(n):\n    return n * 2", "def helper(n):\n    return n * 3\n#"),
    ),
    "a function that is renamed": (using("helper"), ("helper", "changed_helper")),
}
OTHER_MODULE = {"a helper of another module", "a helper of an imported function"}
BY_NAME = {
    "a method": (using("lambda x: Rate().times(x)"), ("return n * 2\n\n\n@dataclass", "return n * 3\n\n\n@dataclass")),
    "an attribute of a class": (using("lambda x: x * Rate.by"), ("by = 2", "by = 3")),
}


@contextmanager
def modules(folder: Path) -> Iterator[Load]:
    """Give what writes the modules into *folder*, with replacements, and imports them as the next process would."""

    def load(*replaced: tuple[str, str], helping: str = HELPING) -> ModuleType:
        text = APP
        for before, after in replaced:
            assert before in text
            text = text.replace(before, after)
        (folder / "changed_app.py").write_text(text)
        (folder / "changed_helping.py").write_text(helping)
        for name in NAMES:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("changed_app")

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setattr(sys, "dont_write_bytecode", True)
        yield load
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    with modules(tmp_path) as loading:
        yield loading


def run(store: MemoryStore, query: Any, count: int, *, cleanly: bool) -> tuple[list[tuple[int, Any]], dict[str, str]]:
    """Host *query* until it has taken *count* numbers; return all that its stream holds, and the edit reports."""
    evaluator = QueryEvaluator(store, checkpoint_interval_s=1e9, background=False)
    evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
    evaluator.create("q", query)
    evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
    stream = evaluator.stream("q")
    held = [(p.first + i, value) for p in stream.read(stream.first, 1000) for i, value in enumerate(p.values)]
    if cleanly:
        evaluator.checkpoint()
    evaluator.close()
    return held, evaluator.statistics().reports


EXPECTED = [2, 6, 12, 12 + 3 * 4, 12 + 3 * 4 + 3 * 5]


@pytest.mark.parametrize("change, end", crossed(CHANGES, ["stopped", "killed"], nightly=1))
def test_the_change_comes_behind_what_was_done(load: Load, change: str, end: str) -> None:
    """What was done stays done, what comes is done by the new code, the sum goes on, and the report says so."""
    begin, edit = CHANGES[change]
    store, cleanly = MemoryStore(), end == "stopped"
    assert run(store, load(begin).QUERY, 3, cleanly=cleanly)[1] == {}
    helping = HELPING.replace("RATE = 2", "RATE = 3") if change in OTHER_MODULE else HELPING
    if change == "a function that is renamed":
        helped = load(begin, edit, helping=helping)
        held, _ = run(store, helped.QUERY, 5, cleanly=cleanly)
        assert [value for _, value in held] == [2, 6, 12, 20, 30]
        return
    held, reports = run(store, load(begin, edit, helping=helping).QUERY, 5, cleanly=cleanly)
    assert held == list(enumerate(EXPECTED))
    assert reports == {"q": "kept: /scan"}


@pytest.mark.parametrize("change", BY_NAME)
def test_classes_go_by_name_and_are_blamed_by_name(load: Load, change: str) -> None:
    """After a clean stop a changed class is an edit like others; behind a kill the error says that it has changed."""
    begin, edit = BY_NAME[change]
    store = MemoryStore()
    run(store, load(begin).QUERY, 3, cleanly=True)
    held, reports = run(store, load(begin, edit).QUERY, 5, cleanly=True)
    assert [value for _, value in held] == EXPECTED
    assert reports == {"q": "kept: /scan"}
    store = MemoryStore()
    run(store, load(begin).QUERY, 3, cleanly=False)
    with pytest.raises(NondeterminismDetected, match=r"changed_app\.Rate .*changed since"):
        run(store, load(begin, edit).QUERY, 5, cleanly=False)
    before = run(store.reopen(), load(begin).QUERY, 5, cleanly=True)
    other = MemoryStore()
    run(other, load(begin).QUERY, 3, cleanly=False)
    assert before == run(other, load(begin).QUERY, 5, cleanly=True), "with the old code back nothing is lost"


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped", "killed"])
def test_without_a_change_nothing_is_edited(load: Load, cleanly: bool) -> None:
    """The same code, imported again, is the same code."""
    for begin, _ in (*CHANGES.values(), *BY_NAME.values()):
        store = MemoryStore()
        for count in (3, 5, 5):
            assert run(store, load(begin).QUERY, count, cleanly=cleanly)[1] == {}


NAMING = "n.map(lambda x: changed_helping.twice(x)).take(2)"
HELD_QUERIES = {
    "waiting": f"n.map(lambda v: {NAMING}).merge(max_concurrent=1).map(abs)",
    "in windows": "n.window_with_count(2).flat_map(lambda window: window.map(lambda v: "
    f"{NAMING}).merge(max_concurrent=1)).map(abs)",
}


def held_by(store: MemoryStore, query: Any, count: int, *, kill: bool = False) -> tuple[list[Any], str]:
    """Host *query*, or what is there, until it has taken *count* numbers; store it twice and return what came of it."""
    with QueryEvaluator(store, checkpoint_interval_s=1e9, background=False) as evaluator:
        evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
        if query is not None:
            evaluator.create("q", query)
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == count)
        evaluator.flush()
        if kill:
            evaluator.abandon()
        else:
            evaluator.checkpoint(full=True)
        assert evaluator.query("q").status == "running", evaluator.query("q").error
        values = [value for part in evaluator.stream("q").read(0, 1000) for value in part.values]
        return values, evaluator.statistics().reports.get("q", "")


@pytest.mark.parametrize("queries", HELD_QUERIES)
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("goes_on", ["undeclared", "edited", "unchanged"])
def test_a_state_that_holds_queries_is_stored_again(load: Load, queries: str, kill: bool, goes_on: str) -> None:
    """Their functions name modules of the app; whichever process stores them, and if it declares the query or not."""
    begin = (BY, f"QUERY = {HELD_QUERIES[queries]}\n#")
    edits = ("map(abs)", "map(abs).filter(lambda x: True)")
    want, _ = held_by(MemoryStore(), load(begin).QUERY, 12)
    store = MemoryStore()
    held_by(store, load(begin).QUERY, 4, kill=kill)
    for count in (6, 9, 12):
        module = load(begin, edits) if goes_on == "edited" else load(begin)
        query = None if goes_on == "undeclared" else module.QUERY
        values, report = held_by(store.reopen(), query, count, kill=kill and count == 6)
        assert "given up" not in report and "dropped" not in report
    assert values == want


@pytest.mark.parametrize("how", ["gone", "renamed"])
def test_a_class_that_goes_is_an_edit_after_a_clean_stop(load: Load, how: str) -> None:
    """What a stored query names may be gone: what the app declares today goes on from the state."""
    begin = using("lambda x: Rate().times(x)")
    edits = (
        [using("lambda x: x * 3")] if how == "gone" else [begin, ("return n * 2\n\n\n@data", "return n * 3\n\n\n@data")]
    )
    store = MemoryStore()
    run(store, load(begin).QUERY, 3, cleanly=True)
    held, reports = run(store, load(*edits, ("Rate", "Rater")).QUERY, 5, cleanly=True)
    assert held == list(enumerate(EXPECTED))
    assert reports == {"q": "kept: /scan"}


def test_a_class_that_goes_behind_a_kill_is_named(load: Load) -> None:
    """Behind a kill a replay needs it: the error names it."""
    store = MemoryStore()
    run(store, load(using("lambda x: Rate().times(x)")).QUERY, 3, cleanly=False)
    with pytest.raises(ReliableRxError, match="Rate"):
        run(store, load(using("lambda x: x * 3"), ("Rate", "Rater")).QUERY, 5, cleanly=False)
