"""Large functions of the user's: all that is looked at in them, to store them and to warn, grows as they do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.functions.element_changes import changes_of

sample = Random(1).sample
ARGUMENTS = [each + how for each in "abcd" for how in ("", "[0]", "[1]", ".x")]
SHAPES: dict[str, Callable[[int], list[str]]] = {
    "calls itself": lambda count: ["def g(n):", *(f"    if n == {i}: return g(n[{i}])" for i in range(count))],
    "calls itself otherwise": lambda count: [
        "def h(a, b, c, d):",
        *(f"    if a == {i}: return h({', '.join(sample(ARGUMENTS, 4))})" for i in range(count)),
        "def g(n): return h(n[0], n[1], n[2], n[3])",
    ],
    "calls helpers": lambda count: [
        *(f"def h{i}(n): return n + {i}" for i in range(count)),
        *("def g(n):", *(f"    n = h{i}(n)" for i in range(count))),
    ],
    "helpers call one another": lambda count: [
        *(f"def h{i}(n): return h{(7 * i + 1) % count}(n), h{(3 * i + 2) % count}(n), g(n)" for i in range(count)),
        "def g(n): return h0(n)",
    ],
    "branches": lambda count: ["def g(n):", *(f"    if n == {i}: n.append({i})" for i in range(count))],
    "nested": lambda count: ["def g(n):", *(f"    f{i} = lambda n: (n, {i})" for i in range(count))],
    "loops": lambda count: ["def g(n):", *(f"    for a{i} in n: n = a{i}" for i in range(count))],
    "a table": lambda count: [f"T = {{{', '.join(f'{i}: [{i}]' for i in range(count))}}}", "def g(n): return T[n]"],
}


def calls(function: Any) -> int:
    """Return how many functions are called to create and to start a query with *function*."""
    count = 0

    def counted(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += 1

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            evaluator.create("q", rx.source("n").map(function))
            evaluator.start()
        finally:
            sys.setprofile(before)
    return count


def made(lines: list[str]) -> Any:
    space: dict[str, Any] = {"__name__": "rules"}
    exec(compile("\n".join(lines), "rules.py", "exec"), space)
    return space["g"]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_looked_at_grows_as_the_function_does(shape: str) -> None:
    """Twice the function is at most four times the work: one that called itself in 34 places took minutes."""
    calls(made(SHAPES[shape](3)))  # what is imported, and kept, by the first one
    small, large = (calls(made(SHAPES[shape](count))) for count in (15, 30))
    assert large < 4 * small


@pytest.mark.parametrize("place", [0, 500])
def test_a_change_in_one_of_very_many_helpers_is_found(place: int) -> None:
    """However many there are, those that can be read are."""
    lines = [f"def h{i}(n): {'n.append(1)' if i == place else 'pass'}" for i in range(1500)]
    found = changes_of(made([*lines, "def g(n):", *(f"    h{i}(n)" for i in range(1500))]))
    assert [each.how for each in found] == ["n.append(...)"]
