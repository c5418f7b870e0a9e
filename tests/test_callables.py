"""What is asked of a callable is whether it can be called: of every kind of callable, wherever one is given.

The oracle calls it. Whatever can be called is taken; what is asynchronous, or a function that takes other arguments, is
refused before anything runs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.app import App, sink_at
from reliable_rx.operators.contract.signatures import signature_of

NAMES = "abcdefg"


def fixed(count: int) -> Any:
    """Return a function of exactly *count* arguments."""
    return eval(f"lambda {', '.join(NAMES[:count])}: True")


def wrapping(takes: int, gives: int) -> Any:
    """Return a function of *takes* arguments that says, as decorators have it, that it takes *gives*."""
    inner, outer = fixed(gives), fixed(takes)
    inner.__signature__ = signature_of(inner)
    return functools.wraps(inner)(outer)


def calling(function: Any) -> Any:
    """Return an object that is called as *function* is."""

    class Called:
        def __call__(self, *args: Any) -> Any: ...

    kind: Any = Called
    kind.__call__ = eval(f"lambda self, {', '.join(NAMES[: function.__code__.co_argcount])}: True")
    return Called()


class Bound:
    def none(self) -> Any:
        return True

    def one(self, a: Any) -> Any:
        return True

    def two(self, a: Any, b: Any) -> Any:
        return True

    @classmethod
    def of_class(cls, a: Any) -> Any:
        return True

    @staticmethod
    def static(a: Any) -> Any:
        return True


class MadeOfOne:
    def __init__(self, a: Any) -> None: ...


class MadeOfTwo:
    def __init__(self, a: Any, b: Any) -> None: ...


async def asked(*args: Any) -> Any: ...


def generated(*args: Any) -> Any:
    yield


class Asked:
    async def __call__(self, *args: Any) -> Any: ...


CALLABLES: dict[str, Any] = {
    **{f"of {count}": fixed(count) for count in range(4)},
    **{f"of {a} wrapping one of {b}": wrapping(a, b) for a, b in itertools.product(range(4), repeat=2)},
    **{f"remembered, of {count}": functools.cache(fixed(count)) for count in range(4)},
    **{f"remembered, of {a} wrapping {b}": functools.cache(wrapping(a, b)) for a, b in [(1, 2), (2, 1), (0, 1)]},
    **{f"part, of {count}": functools.partial(fixed(count + 1), 1) for count in range(4)},
    **{f"part, of {a} wrapping {b}": functools.partial(wrapping(a + 1, b), 1) for a, b in [(1, 2), (2, 1), (0, 1)]},
    **{f"object, of {count}": calling(fixed(count)) for count in range(4)},
    "bound, of none": Bound().none,
    "bound, of one": Bound().one,
    "bound, of two": Bound().two,
    "of a class": Bound.of_class,
    "static": Bound.static,
    "class of one": MadeOfOne,
    "class of two": MadeOfTwo,
    "any": lambda *args: True,
    "defaults": lambda a=1, b=2: True,
    "print": print,
    "repr": repr,
    "bool": bool,
    "isinstance": isinstance,
}
ASYNCHRONOUS: dict[str, Any] = {"async": asked, "generator": generated, "async object": Asked()}


def stopping(function: Any) -> None:
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.stop()
        evaluator.run(until=function)


def clocked(function: Any) -> None:
    QueryEvaluator(MemoryStore(), background=False, clock=function).close()


def timestamped(function: Any) -> None:
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1], timestamp=function))


GIVEN: dict[str, tuple[int, Callable[[Any], object]]] = {
    "CallbackSink(on_next)": (2, CallbackSink),
    "CallbackSink(on_end)": (2, lambda function: CallbackSink(print, function)),
    "CallbackSink(on_dead_letter)": (1, lambda function: CallbackSink(print, on_dead_letter=function)),
    "run(until)": (0, stopping),
    "QueryEvaluator(clock)": (0, clocked),
    "timestamp of a source": (1, timestamped),
    "App.feed": (1, lambda function: App().feed(function)),
    "App.companion": (0, lambda function: App().companion(function)),
}


def can_be_called(function: Any, count: int) -> bool:
    try:
        function(*[None] * count)
    except TypeError as error:
        return "argument" not in str(error)
    return True


@pytest.mark.parametrize("where, name", crossed(GIVEN, CALLABLES))
def test_what_can_be_called_is_taken_and_nothing_else(name: str, where: str) -> None:
    """A decorator that gives what it wraps more, or fewer, arguments than it is given is judged by what it takes."""
    (count, give), function = GIVEN[where], CALLABLES[name]
    if can_be_called(function, count):
        give(function)
    elif signature_of(function) is not None:
        with pytest.raises(TypeError, match="takes others"):
            give(function)


@pytest.mark.parametrize("where", GIVEN)
@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_what_nobody_awaits_is_refused(name: str, where: str) -> None:
    with pytest.raises(TypeError, match="not awaited"):
        GIVEN[where][1](ASYNCHRONOUS[name])


@pytest.mark.parametrize("takes, gives", list(itertools.product(range(2), repeat=2)))
def test_a_sink_is_made_with_a_place_if_its_function_takes_one(takes: int, gives: int) -> None:
    """Whether a function that makes a sink wants its place is asked of itself, not of what it wraps."""
    for make in (wrapping(takes, gives), functools.cache(wrapping(takes, gives))):
        made: Any = sink_at("place", make)
        assert made is True
