"""The table of docs/explanation/partitioned-hosting.md: every point is there once, and what it names exists."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "partitioned-hosting.md"
LISTS = {
    "Orleans persistent streams": ("O", 39),
    "Kafka": ("K", 29),
    "Tablestore Tunnel client": ("T", 26),
    "RocketMQ rebalance": ("R", 34),
}
ROW = re.compile(r"^\| ([OKTR]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)
NAME = re.compile(r"`([^`]+)`")
POINTS = {match[1]: match for match in ROW.finditer(PAGE.read_text())}


def test_every_point_is_there_once() -> None:
    """Under the heading of each system stand its points, all of them, in their order, and nowhere else."""
    parts = re.split(r"^### (.+)$", PAGE.read_text(), flags=re.M)
    assert not ROW.findall(parts[0])
    found = {title: [row[0] for row in ROW.findall(text)] for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    wanted = {title: [f"{letter}{n}" for n in range(1, count + 1)] for title, (letter, count) in LISTS.items()}
    assert found == wanted and sum(map(len, found.values())) == 128


def test_what_a_point_names_exists() -> None:
    """Each row says what is asked for, names classes or functions that can be imported, and tests that there are."""
    for point, row in POINTS.items():
        _, asked, where, shown = row.groups()
        assert len(asked.split()) > 1, point
        places, tests = NAME.findall(where), NAME.findall(shown)
        assert places and tests, point
        assert all(found(place) is not None for place in places), point
        assert not [test for test in tests if not is_there(test)], point


def found(name: str) -> Any:
    """Import as much of a dotted name as is a module, and look the rest up. *Raises* what does not exist."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(name)


def is_there(test: str) -> bool:
    """Whether ``file::name`` is a test that pytest collects, in the one file of that name."""
    file, _, name = test.partition("::")
    paths = list((ROOT / "tests").rglob(file))
    return len(paths) == 1 and name.lower().startswith("test") and name in named_in(paths[0])


@cache
def named_in(path: Path) -> frozenset[str]:
    return frozenset(names(ast.parse(path.read_text())))


def names(module: ast.Module) -> Iterator[str]:
    for each in module.body:
        if isinstance(each, (ast.FunctionDef, ast.ClassDef)):
            yield each.name
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


def test_what_is_named_and_is_not_there_is_found() -> None:
    """The checks of this file refuse a class, a method and a test that do not exist."""
    assert is_there("test_points.py::test_every_point_is_there_once")
    assert not is_there("test_points.py::test_nothing") and not is_there("test_nowhere.py::test_nothing")
    assert not is_there("node_world.py::until")
    for name in ("hosting.partitioned.node.Nodes", "hosting.partitioned.nodes.Node", "nowhere.to.be"):
        with pytest.raises((AttributeError, ModuleNotFoundError)):
            found(name)
