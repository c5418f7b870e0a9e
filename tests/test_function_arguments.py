"""A function that can never be called as an operator calls it is refused when the query is created; others are not."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, get_overloads

import pytest
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import QueryRefused
from reliable_rx import operators as ops

CREATIONS = ("case", "defer", "for_in", "from_callable", "generate", "generate_with_relative_time", "if_then", "using")
REFUSALS = (QueryRefused, TypeError, ValueError, AttributeError)
SAID = re.compile(r"must be a function|is called with|not awaited|async function|generator function|expected an obs")


class Given(NamedTuple):
    """One parameter of an operator that is a function, and how many arguments it is called with; None: any number."""

    operator: str
    parameter: str
    count: int | None

    def __str__(self) -> str:
        return f"{self.operator}.{self.parameter}"


def declared(make: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and types of the parameters, also where only an overload says that one is a function."""
    for each in [*get_overloads(make), make]:
        for parameter in inspect.signature(each).parameters.values():
            yield parameter.name, str(parameter.annotation)


def functions_of(name: str) -> dict[str, Given]:
    make = getattr(ops, name, None) or getattr(rx, name)
    found: dict[str, Given] = {}
    for parameter, declaration in declared(make):
        for each in ast.walk(ast.parse(declaration, mode="eval")):
            if isinstance(each, ast.Subscript) and ast.unparse(each.value).endswith("Callable"):
                taken = each.slice.elts[0] if isinstance(each.slice, ast.Tuple) else None
                is_open = not isinstance(taken, ast.List) or "Unpack" in ast.unparse(taken)
                count = None if is_open else len(taken.elts)  # type: ignore[union-attr]
                if parameter not in found or found[parameter].count is None:
                    found[parameter] = Given(name, parameter, count)
                break
    return found


NAMES = sorted({*ops.__all__, *CREATIONS})
FUNCTIONS = [given for name in NAMES for given in functions_of(name).values()]


def filled(parameter: inspect.Parameter, given: dict[str, Given]) -> Any:
    """Return an argument that is right for *parameter*."""
    declaration = str(parameter.annotation)
    if parameter.name in given:
        return lambda *arguments: rx.of(1)
    if "Mapping" in declaration:
        return {}
    if "Iterable" in declaration or "Sequence" in declaration:
        return [1]
    return rx.source("m") if "Observable" in declaration else 1


def written(at: Given, function: Any) -> Any:
    """Return a query with *function* in the place *at*."""
    make = getattr(ops, at.operator, None) or getattr(rx, at.operator)
    given = functions_of(at.operator)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in inspect.signature(make).parameters.values():
        needed = each.default is each.empty and each.kind is not each.VAR_KEYWORD
        if each.name != at.parameter and not needed:
            continue
        value = function if each.name == at.parameter else filled(each, given)
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            positional.append(value)
        else:
            named[each.name] = value
    if at.operator == "multicast" and at.parameter == "mapper":
        named["subject_factory"] = lambda scheduler: rx.Subject()
    if at.parameter == "delay_duration_mapper":
        named["subscription_delay"] = rx.source("m")
    made = make(*positional, **named)
    made = made if isinstance(made, rx.Observable) else rx.source("n").pipe(made)
    made = made[1] if isinstance(made, list) else made
    return made.pipe(ops.flat_map(lambda each: [1])) if "group" in at.operator or "window" in at.operator else made


def create(query: Any) -> None:
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.source("m", ListSource([1]))
        evaluator.create("q", query)


async def awaited(*arguments: Any) -> Any:
    """A generator, as a coroutine that nobody awaits is a warning."""
    yield


def seven(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any: ...


class Seven:
    def __call__(self, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any: ...


BAD: dict[str, Any] = {
    "a number": 5,
    "seven arguments": seven,
    "an object that takes seven": Seven(),
    "a part of one that takes seven": functools.partial(seven, 1),
    "none": lambda: 1,
    "async": awaited,
}
UNHOSTED = {"subject_mapper", "subject_factory", "future_ctor", "supplier"}
"""Parameters of what cannot be hosted at all, or that only tell which operator of ours it is: any refusal will do."""


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("at", every(8, FUNCTIONS), ids=str)
def test_a_function_that_can_never_work_is_refused(at: Given, bad: str) -> None:
    """What is no function, takes another number of arguments or gives an asynchronous sequence is refused by name."""
    if bad == "none" and at.count == 0:
        return
    if at.count is None and bad not in ("a number", "async"):
        return
    with pytest.raises(REFUSALS) as caught:
        create(written(at, BAD[bad]))
    assert at.parameter in UNHOSTED or SAID.search(str(caught.value)), repr(caught.value)


class Kept:
    def __call__(self, *arguments: Any) -> Any:
        return rx.of(1)

    def method(self, *arguments: Any) -> Any:
        return rx.of(1)


class Made(rx.Query[Any]):
    """A class is a function of whatever it takes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(rx.of(1).node)


def more(*arguments: Any, factor: int = 2) -> Any:
    return rx.of(1)


@functools.wraps(seven)
def wrapper(*arguments: Any) -> Any:
    return rx.of(1)


LEGAL: dict[str, Any] = {
    "any number": more,
    "defaults": lambda a=1, b=2, c=3, d=4: rx.of(1),
    "a part": functools.partial(more, 1),
    "an object": Kept(),
    "a method": Kept().method,
    "a class": Made,
    "a decorated one": wrapper,
    "one that is remembered": functools.cache(more),
}


@pytest.mark.parametrize("legal", LEGAL)
@pytest.mark.parametrize("at", every(8, FUNCTIONS), ids=str)
def test_a_function_that_may_work_is_taken(at: Given, legal: str) -> None:
    """Defaults, any number of arguments, parts, objects, methods, classes and decorators are no mistakes."""
    try:
        create(written(at, LEGAL[legal]))
    except REFUSALS as refused:
        assert not SAID.search(str(refused)), refused


BUILTIN: list[Callable[..., Any]] = [str, int, float, abs, len, max, min, print, repr, divmod, dict.get, str.upper]


@pytest.mark.parametrize("function", BUILTIN, ids=lambda each: each.__qualname__)
def test_builtins_are_taken(function: Callable[..., Any]) -> None:
    """What is written in C may say anything of its arguments, or nothing."""
    create(rx.source("n").map(function).scan(function).flat_map(function))


@dataclass(frozen=True)
class Around:
    """A user's function of one argument that holds one of seven."""

    function: Callable[..., Any]

    def __call__(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("operator", ["partition", "partition_indexed"])
def test_both_halves_of_a_partition_are_looked_at(operator: str, half: int) -> None:
    """The half of what does not pass asks the predicate, too, and says no more of it than that it is the opposite."""
    divide = getattr(ops, operator)
    with pytest.raises(QueryRefused, match=r"is called with .* but seven"):
        create(divide(seven)(rx.source("n"))[half])


def test_what_an_object_of_the_users_holds_is_its_own_matter() -> None:
    """An object that can be called is judged by how it is called, whatever functions are in its fields."""
    create(rx.source("n").map(Around(seven)))
