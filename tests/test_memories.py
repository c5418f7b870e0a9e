"""Functions that remember something outside of the state of their query are told of, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lanes import at_each_commit
from remembering import KEEP, REMEMBER, is_new, n, told
from test_interpreters import HERE, App, interpreters, links  # noqa: F401 - a fixture

from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator

PROCESS = Path(__file__).parent / "remembering.py"


@pytest.mark.parametrize("version", [each if each == HERE else at_each_commit(each) for each in interpreters()])
def test_what_remembers_is_told(version: str, tmp_path: Path, links: Path) -> None:  # noqa: F811
    """Each of many functions in operators that take one, by the byte code of each Python; none for effects."""
    assert min(len(REMEMBER), len(KEEP)) >= 25
    if version == HERE:
        found = told()
    else:
        ran = App(tmp_path, links).python(version, str(PROCESS))
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
    assert not any(found.values()), found


def test_the_incident_names_query_operator_line_and_remedy_and_ends_with_an_edit() -> None:
    """One warning at the creation; an edit resolves it."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", n.filter(is_new))
        evaluator.run()
        (found,) = [each for each in evaluator.statistics().incidents if each.kind == "memory"]
        assert (found.subject, found.level, found.count) == ("q", "warning", 1)
        line = is_new.__code__.co_firstlineno + 3
        assert all(each in found.message for each in ("/filter", "seen.add(...)", f"line {line})", "scan"))
        evaluator.create("q", n.distinct())
        assert not [each for each in evaluator.statistics().incidents if each.kind == "memory"]


def test_the_incident_names_a_method_that_is_given_itself() -> None:
    """A container's own method has no line of code: what it is called stands there alone."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", n.filter(set[int]().add))
        evaluator.run()
        (found,) = [each for each in evaluator.statistics().incidents if each.kind == "memory"]
        assert "(set.add)" in found.message and "/filter" in found.message
