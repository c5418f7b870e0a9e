"""The import graph of the packages, module by module: which modules import each other in a circle.

Imports for types and within functions count like all others. `test_layers.py` has the arrows between the packages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("reliable_rx", "checkpoint", "hosting", "spark_bridge")
KIT = "reliable_rx.testing"
IN_CIRCLES = {"reliable_rx": 57, "checkpoint": 0, "hosting": 35, "spark_bridge": 5}
"""How many modules of each package are in a circle, the testing kit apart. It is to come to 0, and never grows."""


def named(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    return {named(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


def imported(tree: ast.AST, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the modules among those *known* that *tree* imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


@cache
def graph() -> dict[str, frozenset[str]]:
    return {
        name: frozenset(imported(ast.parse(path.read_text()), modules())) - {name} for name, path in modules().items()
    }


def reached(graph: Mapping[str, frozenset[str]], start: str) -> set[str]:
    """Return all that *start* imports, and what that imports, and so on; itself only if it is in a circle."""
    found, waiting = set[str](), list(graph[start])
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += graph[at]
    return found


def circles(graph: Mapping[str, frozenset[str]]) -> set[str]:
    return {name for name in graph if name in reached(graph, name)}


def test_circles_are_found() -> None:
    """A circle of any length is found, and what only leads to it is not part of it."""
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a"), "e": frozenset[str]()}
    assert circles(graph) == {"a", "b", "c"}
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a\ndef f():\n    from p import b, c\n"
    assert [*imported(ast.parse(text), {"p": 0, "p.a": 0, "p.b": 0})] == ["p.a", "p.b", "p"]


@pytest.mark.parametrize("package", PACKAGES)
def test_circles_become_fewer(package: str) -> None:
    """No module comes into a circle of imports; whoever takes some out of it lowers the bound."""
    apart = {name: imports for name, imports in graph().items() if not name.startswith(KIT)}
    without_kit = {name: frozenset(each for each in imports if each in apart) for name, imports in apart.items()}
    found = [name for name in circles(without_kit) if name.partition(".")[0] == package]
    assert len(found) == IN_CIRCLES[package], sorted(found)
