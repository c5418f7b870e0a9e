"""Arguments of a constructor, held to the types that it declares for them.

A sink or a source is made once and used later, by a thread of ours: what it was wrongly given would fail there. So its
constructor says with one word that its declared types are to be looked at, and no parameter can be forgotten. Only what
can never work is refused. Types that say nothing at run time (protocols, names that only a type checker imports) are
taken as they are. Rejected: a check for each parameter by hand (every third had none), and a library for it.
"""

from __future__ import annotations

import inspect
import operator
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, wraps
from numbers import Real
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from reliable_rx.operators.contract.arguments import check_function, cut
from reliable_rx.operators.contract.choices import check_choice

NAMES = ("one", "two", "three", "four", "five")
PLAIN: Mapping[Any, str] = {
    str: "a str",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    os.PathLike: "a path",
    Callable: "a function",
    Mapping: "a mapping",
    Sequence: "a list",
    Iterable: "a list",
    type(None): "None",
}
P = ParamSpec("P")
R = TypeVar("R")


def checks_kinds(*but: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a constructor refuse arguments of a wrong kind, *but* those that it looks at itself.

    >>> class Clock:
    ...     @checks_kinds()
    ...     def __init__(self, path: str | os.PathLike[str], *, every_s: float = 1.0) -> None: ...
    >>> Clock("here", every_s="1 s")
    Traceback (most recent call last):
    TypeError: every_s must be a number, got '1 s'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return function(*args, **kwargs)  # which says so
            declared = declared_of(function)
            for name, value in given.items():
                if name in declared and name not in but:
                    check_kind(name, declared[name], value)
            return function(*args, **kwargs)

        return checked

    return decorate


@cache
def declared_of(function: Any) -> Mapping[str, Any]:
    """Return the types of the parameters of *function* that can be had at run time."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        text = parameter.annotation
        try:
            found[name] = eval(text, function.__globals__) if isinstance(text, str) else text
        except (NameError, AttributeError, TypeError):
            continue
    return {name: kind for name, kind in found.items() if kind is not inspect.Parameter.empty}


def check_kind(what: str, declared: Any, value: Any) -> None:
    """*Raises* `TypeError` if *value* is none of the type *declared*, `ValueError` if it is none of its words."""
    members = [*members_of(declared)]
    fitting = [each for each in members if fits(each, value)]
    if not fitting:
        for each in members:
            if get_origin(each) is Literal and isinstance(value, str):
                check_choice(what, value, each)
        wanted = " or ".join(dict.fromkeys(described(each) for each in members))
        raise TypeError(f"{what} must be {wanted}, got {cut(value)}")
    if len(fitting) == 1:
        check_parts(what, fitting[0], value)


def members_of(declared: Any) -> Iterator[Any]:
    if get_origin(declared) in (Union, types.UnionType):
        for each in get_args(declared):
            yield from members_of(each)
    else:
        yield type(None) if declared is None else declared


def fits(declared: Any, value: Any) -> bool:
    """Whether *value* is of the type *declared*, but for what it consists of."""
    kind = get_origin(declared) or declared
    if kind is Any:
        return True
    if kind is Literal:
        return isinstance(value, str) and value in get_args(declared)
    if kind is bool:
        return type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1))
    if kind is int:
        return not isinstance(value, bool) and is_whole(value)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if kind is Sequence:  # a text is one of texts, and never meant
        is_text = isinstance(value, (str, bytes)) and get_args(declared) != (Any,)
        return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not is_text and not is_keyed(value)
    if kind is Callable or kind is types.FunctionType:
        return callable(value)
    if kind is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not is_keyed(value)
    return not isinstance(kind, type) or getattr(kind, "_is_protocol", False) or isinstance(value, kind)


def is_keyed(value: Any) -> bool:
    return isinstance(value, (Mapping, Set))


def is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def check_parts(what: str, declared: Any, value: Any) -> None:
    """Look at what *value*, which is of the type *declared*, is made of, where that says what it has to be."""
    kind, parts = get_origin(declared), get_args(declared)
    if kind is Mapping:
        for key, each in value.items():
            check_kind(f"a key of {what}", parts[0], key)
            check_kind(f"{cut(key)} of {what}", parts[1], each)
    elif parts != (Any,) and (kind is Sequence or (kind is Iterable and isinstance(value, Sequence))):
        for each in value:
            check_kind(f"an element of {what}", parts[0], each)
    elif kind in (Callable, get_origin(Callable[[], None])) and isinstance(parts[0], list):
        check_function(what, value, *NAMES[: len(parts[0])])


def described(declared: Any) -> str:
    """Return what is wanted where the type *declared* is, in words."""
    kind = get_origin(declared) or declared
    if kind is Literal:
        return f"one of {', '.join(map(str, get_args(declared)))}"
    inner = [each for each in get_args(declared) if each in PLAIN] if kind in (Sequence, Mapping) else []
    plain = PLAIN.get(kind) or f"a {getattr(kind, '__name__', cut(kind))}"
    return f"{plain}{' of ' + described(inner[-1]).removeprefix('a ') if inner else ''}"
