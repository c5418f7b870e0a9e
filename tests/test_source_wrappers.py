"""What a source may say beside its partitions is handed on by all that stands around one, and asked for by name."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reliable_rx.reliable as reliable
from hosting import ListSource, SharedSource
from hosting.partitioned.sections import OnePartition
from hosting.sources.definition import OPTIONAL
from hosting.sources.faults import FaultySource
from hosting.sources.polling import PolledSource, Want

ROOT = Path(__file__).parents[1]
FOLDERS = ("hosting", "spark_bridge", "reliable_rx/testing")
REQUIRED = {"partitions", "open"}


class Able(ListSource):
    """A source that has everything that one may have."""

    def __init__(self) -> None:
        super().__init__([1])
        for name in OPTIONAL:
            setattr(self, name, lambda *_: {})


WRAPPERS: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "FaultySource": (lambda source: FaultySource(source, []), set()),
    "PolledSource": (lambda source: PolledSource(source, Want()), set()),
    "SharedSource": (SharedSource, set()),
    "SharedView": (lambda source: SharedSource(source).named("me"), set()),
    "OnePartition": (lambda source: OnePartition(source, "0"), {"listing"}),  # the group follows the list
}
SCRIPTED = {"_Plain"}  # the generator without its faults: it knows its only source


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def is_source(node: ast.arg) -> bool:
    return node.annotation is not None and ast.unparse(node.annotation).endswith("Source")


def wrappers() -> Iterator[str]:
    """Name the classes that are sources and are made of one."""
    for _, tree in trees():
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                methods = {part.name: part for part in each.body if isinstance(part, ast.FunctionDef)}
                if methods.keys() >= REQUIRED and "__init__" in methods:
                    arguments = methods["__init__"].args
                    if any(map(is_source, arguments.args + arguments.kwonlyargs)):
                        yield each.name


def test_every_wrapper_is_known() -> None:
    """A class that is a source around a source is held to the test below."""
    assert set(wrappers()) == WRAPPERS.keys() | SCRIPTED


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_hands_on_all_that_its_source_says(name: str) -> None:
    """What the source within has, the source around it has; what it has not, that has not."""
    wrap, left_out = WRAPPERS[name]
    able, plain = wrap(Able()), wrap(ListSource([1]))
    assert {each for each in OPTIONAL if not hasattr(able, each)} == left_out
    told = {each for each in OPTIONAL if hasattr(ListSource([1]), each)} | {"definition", "numbering"}
    assert {each for each in OPTIONAL if hasattr(plain, each)} == told - left_out


def test_whatever_a_source_is_asked_for_is_in_the_list() -> None:
    """Each attribute that is looked for on a source may be handed on: it is in `OPTIONAL`."""
    asked = {
        (str(path.relative_to(ROOT)), each.args[1].value)
        for path, tree in trees()
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and ast.unparse(each.func) in ("getattr", "hasattr")
        if "source" in ast.unparse(each.args[0]) and isinstance(each.args[1], ast.Constant)
    }
    assert len(asked) > 5
    assert {(path, name) for path, name in asked if name not in {*OPTIONAL, *REQUIRED}} == set()


def test_the_protocols_of_a_source_are_in_the_list() -> None:
    """What a protocol wants beyond `Source` is in `OPTIONAL`, unless readers or sinks alone have it."""
    ours = (each for each in vars(reliable).values() if inspect.isclass(each) and getattr(each, "_is_protocol", False))
    of_sources = {each for each in ours if "source" in (each.__doc__ or "").lower().split(".")[0]} - {reliable.Sink}
    wanted = {name for each in of_sources for name in vars(each) if name[0] != "_"}
    assert wanted - REQUIRED <= set(OPTIONAL)
    assert len(of_sources) > 5
