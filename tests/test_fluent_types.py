"""What type checkers are told of a query's methods is what there is: parameters, defaults, and what comes out."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from inspect import Parameter
from typing import Any

import every_case
import fluent_stub
import pytest
import reactivex
from lanes import left_to_commits

import reliable_rx as rx
from reliable_rx import operators as ops

KINDS = {
    "posonlyargs": Parameter.POSITIONAL_ONLY,
    "args": Parameter.POSITIONAL_OR_KEYWORD,
    "vararg": Parameter.VAR_POSITIONAL,
    "kwonlyargs": Parameter.KEYWORD_ONLY,
    "kwarg": Parameter.VAR_KEYWORD,
}
OTHER_NAMES = {"combine_latest", "fork_join", "with_latest_from", "zip", "zip_latest"}
"""What is typed by the number of its sequences, each of which an overload gives a name and a place."""


@cache
def told() -> dict[str, list[ast.FunctionDef]]:
    """Return what the file says of each method, overload by overload."""
    fluent = next(each for each in ast.parse(fluent_stub.STUB.read_text()).body if isinstance(each, ast.ClassDef))
    found: dict[str, list[ast.FunctionDef]] = {}
    for each in fluent.body:
        if isinstance(each, ast.FunctionDef):
            found.setdefault(each.name, []).append(each)
    return found


def parameters(function: ast.FunctionDef) -> Iterator[tuple[str, Any, str | None]]:
    """Yield what follows `self`: name, kind and the text of the default."""
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(placed[::-1], arguments.defaults[::-1], strict=False))
    defaults |= {one: each for one, each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if each}
    for field, kind in KINDS.items():
        value = getattr(arguments, field)
        for each in value if isinstance(value, list) else [value]:
            if each is not None and each.arg != "self":
                yield each.arg, kind, ast.unparse(defaults[each]) if each in defaults else None


def test_the_file_is_current() -> None:
    """The file is what the operators say now; `make stubs` writes it anew."""
    assert fluent_stub.STUB.read_text() == fluent_stub.stub(), "fluent_methods.pyi is old: run make stubs"


def test_every_operator_is_a_method_for_checkers() -> None:
    """A checker knows each method that a query has, and none that it has not."""
    assert set(told()) == set(ops.__all__)
    assert not [name for name in told() if not callable(getattr(rx.Query, name))]


@pytest.mark.parametrize("name", ops.__all__)
def test_a_checker_knows_every_parameter(name: str) -> None:
    """Each parameter is told by name, kind and default, in some overload, and no overload tells of another."""
    whole = rx.Query.do if name == "do" else getattr(ops, name)
    module = inspect.getmodule(whole)
    real = {each.name: each for each in inspect.signature(whole).parameters.values() if each.name != "self"}
    seen: dict[str, list[tuple[Any, str | None]]] = {}
    for overload in told()[name]:
        for parameter, kind, default in parameters(overload):
            seen.setdefault(parameter, []).append((kind, default))
    if name in OTHER_NAMES:
        seen = {parameter: ways for parameter, ways in seen.items() if ways[0][0] is not Parameter.POSITIONAL_ONLY}
    assert set(seen) == set(real)
    for parameter, ways in seen.items():
        kinds = {kind for kind, _ in ways}
        assert real[parameter].kind in kinds <= {real[parameter].kind, Parameter.KEYWORD_ONLY}, parameter
        defaults = [eval(default, vars(module)) for _, default in ways if default is not None]
        expected = [] if real[parameter].default is Parameter.empty else [real[parameter].default]
        assert all(each in expected for each in defaults), parameter
        assert real[parameter].kind is Parameter.VAR_POSITIONAL or bool(
            defaults or len(ways) < len(told()[name])
        ) == bool(expected), parameter


@pytest.mark.parametrize("name", ops.__all__)
def test_an_element_is_anything_while_nothing_is_known_of_it(name: str) -> None:
    """A lambda in an operator that stands alone gets no errors: what comes in is a variable bound to `Any`.

    Both checkers take a variable without a bound for an `object`, which has no attribute and nothing to be added to.
    """
    module = inspect.getmodule(getattr(ops, name))
    for overload in told()[name]:
        came_in = next(each for each in (*overload.args.posonlyargs, *overload.args.args) if each.arg == "self")
        assert isinstance(came_in.annotation, ast.Subscript)
        element = came_in.annotation.slice
        if isinstance(element, ast.Name) and element.id != "Any":
            assert getattr(module, element.id).__bound__ is Any


class Watched:
    """The operators, and what each has made of a sequence."""

    def __init__(self) -> None:
        self.made: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        def operator(*args: Any, **kwargs: Any) -> Any:
            function = getattr(ops, name)(*args, **kwargs)

            def applied(source: Any) -> Any:
                self.made.setdefault(name, []).append(made := function(source))
                return made

            return applied

        return operator


NOT_AMONG_THE_CASES = {"map_async", "to_future"}
NO_SEQUENCE = {"partition": "list", "partition_indexed": "list", "to_future": "AnyFuture"}


@left_to_commits
@pytest.mark.parametrize("plain", [False, True], ids=["query", "plain observable"])
def test_an_operator_makes_a_query(plain: bool) -> None:
    """What the types say comes out comes out, be it of a query or of a plain observable; the cases have them all."""
    watched = Watched()
    for name, case in every_case.CASES.items():
        sources = [reactivex.of(1) if plain else rx.source(f"s{number}") for number in range(case.sources)]
        try:
            case.build(watched, rx, *sources)
        except Exception as error:  # what a case is for may be a refusal
            assert not isinstance(error, AttributeError), name
    assert set(ops.__all__) - set(watched.made) == NOT_AMONG_THE_CASES
    for name, made in watched.made.items():
        said = {ast.unparse(each.returns).partition("[")[0] for each in told()[name] if each.returns is not None}
        if name in NO_SEQUENCE:
            assert said == {NO_SEQUENCE[name]}
        else:
            assert said <= {"Query", "Connectable"}
            assert all(isinstance(each, rx.Query) for each in made), name
