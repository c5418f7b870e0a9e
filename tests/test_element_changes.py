"""Functions that change the element that they are given are found, where others may hold it, and no others."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from changed_elements import CHANGE, KEEP, Order
from changed_process import OPERATORS, told
from lanes import at_each_commit, left_to_commits
from test_interpreters import HERE, App, interpreters, links  # noqa: F401 - a fixture

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.reports.incidents import Incident
from reliable_rx.functions.element_changes import changes_of
from reliable_rx.functions.shared_elements import GIVEN, changed_elements
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.runtime.plan import Plan

PROCESS = Path(__file__).parent / "changed_process.py"
n = rx.source("n")


@left_to_commits
@pytest.mark.parametrize("version", [each if each == HERE else at_each_commit(each) for each in interpreters()])
def test_who_changes_elements_is_found(version: str, tmp_path: Path, links: Path) -> None:  # noqa: F811
    """Each of many functions, in each operator that takes one, by the byte code of each Python that is here."""
    assert min(len(CHANGE), len(KEEP)) >= 25 and len(OPERATORS) >= 25
    if version == HERE:
        found = told()
    else:
        ran = App(tmp_path, links).python(version, str(PROCESS))
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
    assert not any(found.values()), found


@pytest.mark.parametrize("name", CHANGE)
def test_the_line_is_told(name: str) -> None:
    """A change is told with the file and the line where it stands."""
    found = changes_of(CHANGE[name])[0]
    assert found.file.endswith("changed_elements.py")
    assert found.line in range(1, len(Path(found.file).read_text().splitlines()))


def samples() -> list[Any]:
    """Return elements of the kinds that the functions are made for."""
    parts = [{"price": 1}, {"price": 5}]
    row = {"price": 3, "tags": ["b", "a"], "parts": parts, "by_name": {"x": {}}, "pair": ("p", 2), "name": "n"}
    return [row, {"tags": []}, Order(2.0, ["b", "a"]), frozenset("x"), "text"]


def changed(function: Any) -> bool:
    """Whether *function* changes one of these elements when it is called."""
    for each in samples():
        before = copy.deepcopy(each)
        with contextlib.suppress(Exception):
            function(each)
        if each != before:
            return True
    return False


@pytest.mark.parametrize("name", [*CHANGE, *KEEP])
def test_the_cases_do_what_is_said_of_them(name: str) -> None:
    """Called with an element, each changes it or does not; a cache needs one that can be hashed."""
    assert CHANGE.keys().isdisjoint(KEEP)
    if name != "cache":
        assert changed((CHANGE | KEEP)[name]) == (name in CHANGE)


NOT_GIVEN = frozenset((
    "error_action", "completed_action", "action", "condition", "handler", "steps", "duration_mapper", "factory",
    "resource_factory", "observable_factory", "iterate", "time_mapper", "make",
))  # fmt: skip
"""Parameters that are functions of no elements: of an error, a group, a sequence, a state of their own."""


def kinds(kind: type[Operator] = Operator) -> Iterator[Any]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def test_every_function_of_an_operator_is_looked_at_or_is_no_function_of_elements() -> None:
    """A new operator's functions are put into one of the two lists."""
    for kind in kinds():
        if kind.__module__.startswith("reliable_rx.") and dataclasses.is_dataclass(kind):
            taken = [each.name for each in dataclasses.fields(kind) if "Callable[" in str(each.type)]
            unknown = [each for each in taken if each not in GIVEN and each not in NOT_GIVEN]
            assert not unknown, f"{kind}: {unknown}"


SAME = {
    "debounce": n.debounce(0.001), "default_if_empty": n.default_if_empty({}), "delay": n.delay(0.001),
    "max": n.max(lambda a, b: a["i"] - b["i"]), "min": n.min(lambda a, b: a["i"] - b["i"]),
    "take_last": n.take_last(2), "skip_last": n.skip_last(1), "last": n.last(), "single": n.take(1).single(),
    "distinct": n.distinct(str), "merge": n.merge(rx.of(1)), "concat": rx.of(1).concat(n), "share": n.share(),
    "start_with": n.start_with({}), "groups": n.group_by(len).flat_map(lambda g: g),
    "take_until": n.take_until(rx.never()), "windows": n.window_with_count(2).merge_all(),
    "amb": n.amb(rx.never()), "slice": n.slice(1, 3),
    "publish": n.publish(lambda s: s.skip(1)), "element_at": n.element_at(1), "retry": n.retry(2),
    "repeat": n.repeat(2), "find": n.find(lambda r, i, s: True),
    "timeout": n.timeout(5), "delay_with_mapper": n.delay_with_mapper(lambda row: rx.of(1)),
}  # fmt: skip
HELD = {
    "pairwise": n.pairwise(), "buffer_with_count": n.buffer_with_count(2), "zip": n.zip(rx.of(1, 2)),
    "to_list": n.to_list(), "take_last_buffer": n.take_last_buffer(2),
    "combine_latest": n.combine_latest(rx.of(1)), "min_by": n.min_by(lambda row: row["i"]),
    "fork_join": n.fork_join(rx.of(1)),
}  # fmt: skip
NEITHER = {
    "map": n.map(dict),
    "count": n.count(),
    "scan": n.scan(lambda a, row: {**a, **row}, {}),
    "merged": n.map(dict).merge(rx.of({"i": 1})),
}


@pytest.mark.parametrize("name", [*SAME, *HELD, *NEITHER])
def test_what_is_taken_for_shared_is_the_same_object(name: str) -> None:
    """Where an operator is taken to hand elements on, or to hold them, that is what it does."""
    query: Any = (SAME | HELD | NEITHER)[name]
    rows = [{"i": i} for i in range(4)]
    out = query.bind(n=rx.from_iterable(rows)).to_list().run()
    own = set(map(id, rows))
    is_same = any(id(each) in own for each in out)
    is_held = any(id(part) in own for each in out if isinstance(each, (list, tuple)) for part in each)
    found = changed_elements(Plan(query.map(CHANGE["item in place"]).node, symbolic=True))
    deeper = changed_elements(Plan(query.map(lambda pair: pair[0].pop("i")).node, symbolic=True))
    assert (is_same, is_held) == (name in SAME, name in HELD)
    assert (bool(found), bool(deeper)) == (name in SAME, name in SAME or name in HELD)


def mutations(evaluator: QueryEvaluator) -> dict[str, Incident]:
    return {each.subject: each for each in evaluator.statistics().incidents if each.kind == "mutation"}


def gross(row: Any) -> Any:
    row["price"] *= 100
    return row


def test_who_changes_elements_is_named_and_not_who_reads_them(caplog: pytest.LogCaptureFixture) -> None:
    """One warning and one incident with the operator, the line and the remedy; an edit or its end resolves it."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([{"price": i} for i in (1, 2, 3)]))
        evaluator.create("net", n.map(lambda row: {"price": row["price"]}))
        evaluator.create("gross", n.map(gross))
        evaluator.create("alone", n.map(dict).map(gross))
        evaluator.run()
        evaluator.create("again", rx.source("net").filter(gross))
        found = mutations(evaluator)
        assert list(found) == ["gross", "again"]
        assert found["again"].level == "warning" and found["again"].count == 1
        line = gross.__code__.co_firstlineno + 1
        assert (
            "the predicate of /filter changes" in found["again"].message and f"line {line})" in found["again"].message
        )
        assert "{**row, key: value}" in found["again"].message
        assert sum("mutation" in each.getMessage() for each in caplog.records) == 2
        evaluator.create("again", rx.source("net").filter(bool))
        assert list(mutations(evaluator)) == ["gross"]
        evaluator.dispose("gross")
        assert mutations(evaluator) == {}


def test_it_is_told_again_at_the_next_start() -> None:
    """The query comes out of the store then, with the line where its function stood."""
    store = MemoryStore()
    for start in range(2):
        with QueryEvaluator(store) as evaluator:
            evaluator.source("n", ListSource([{"price": i} for i in (1, 2, 3)]))
            if not start:
                evaluator.create("gross", n.map(gross))
            evaluator.run()
            assert list(mutations(evaluator)) == ["gross"]
