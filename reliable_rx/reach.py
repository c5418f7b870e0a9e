"""The code that a function reaches by name: functions, classes and constants of the modules that are the user's own.

What a function does is in its own code and in that of the helpers that it calls. Those of an installed package change
with its version; those of the user's modules change with every edit, so that identity (`reliable_rx.identity`) and
stored code (`checkpoint.by_value`) follow them. Names are resolved in the module of the function, and one step further
where they are attributes of another module of the user's. Rejected: following attributes of objects (they would have to
be run to be known), hashing whole modules (an edited comment would be an edited query).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from dis import get_instructions
from enum import Enum
from fractions import Fraction
from functools import _lru_cache_wrapper, cached_property, lru_cache, partial
from re import Pattern
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from reliable_rx.query import Node, Query, parameters
from reliable_rx.symbols import empty, named

OURS = frozenset(("reliable_rx", "checkpoint", "hosting", "spark_bridge"))
INSTALLED = ("site-packages", "dist-packages")
ATOMS = frozenset((int, float, complex, str, bytes, bool, type(None), range, type(...)))
FIXED = (date, time, timedelta, tzinfo, Decimal, Fraction, Pattern, Enum)
CONTAINERS = frozenset((tuple, list, dict, set, frozenset))
ITEMS_MAX, DEPTH_MAX = 1000, 5


@lru_cache(maxsize=4096)
def is_own_module(name: str | None) -> bool:
    """Whether a module is the user's: neither the standard library's, nor installed, nor ours.

    >>> is_own_module("json"), is_own_module("reliable_rx.query")
    (False, False)
    """
    if not name:
        return False
    top = name.partition(".")[0]
    if top in OURS or (top in sys.stdlib_module_names and top != "__main__"):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not any(each in file for each in INSTALLED)


def is_own(value: Any) -> bool:
    """Whether a function, class or module is the user's."""
    if isinstance(value, ModuleType):
        return is_own_module(value.__name__)
    if isinstance(value, FunctionType):
        return is_own_module(value.__globals__.get("__name__"))
    return isinstance(value, type) and is_own_module(value.__module__)


def names_of(function: FunctionType) -> tuple[str, ...]:
    """Return every name that the code of *function* uses, in the order of the code."""
    return _names(function.__code__)


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(named(code)))


def reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what *function* names of its module, and of modules of the user's that it names: dotted name, value."""
    names = names_of(function)
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            if isinstance(value, ModuleType) and is_own(value):
                yield from attributes(name, value, names, 0)
            else:
                yield name, plain_function(value)


def attributes(path: str, module: ModuleType, names: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what *module* has under *names*."""
    for name in names:
        value = attribute(module, name)
        if isinstance(value, ModuleType) and is_own(value) and depth < DEPTH_MAX:
            yield from attributes(f"{path}.{name}", value, names, depth + 1)
        elif value is not None:
            yield f"{path}.{name}", plain_function(value)


def attribute(module: ModuleType, name: str) -> Any:
    """Return an attribute of a module without running its ``__getattr__``; None if it has none."""
    found = vars(module).get(name)
    if found is None and "__stands_for__" in vars(module):
        real = sys.modules.get(module.__name__)
        found = None if real is None else vars(real).get(name)
    return found


def is_constant(value: Any, depth: int = 0) -> bool:
    """Whether *value* is data by which a function is written: atoms, and small containers and records of such.

    >>> is_constant({"EUR": 1.1}), is_constant(object())
    (True, False)
    """
    kind = type(value)
    if kind in ATOMS or isinstance(value, FIXED):
        return True
    if depth >= DEPTH_MAX:
        return False
    if kind in CONTAINERS:
        parts = [*value, *value.values()] if kind is dict else value
        return len(parts) <= ITEMS_MAX and all(is_constant(each, depth + 1) for each in parts)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return all(is_constant(each, depth + 1) for each in value)
    if is_dataclass(value) and not isinstance(value, type) and kind.__dataclass_params__.frozen:
        return all(is_constant(getattr(value, f.name, None), depth + 1) for f in fields(value))
    return isinstance(value, FunctionType) and is_own(value)


MUTATORS = frozenset((
    "append", "appendleft", "extend", "insert", "remove", "pop", "popitem", "clear", "add", "discard", "update",
    "setdefault", "sort", "reverse",
))  # fmt: skip
MUTATES = frozenset(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_GLOBAL"))


@lru_cache(maxsize=4096)
def mutates(code: CodeType) -> bool:
    """Whether *code* seems to change containers, so that one which it names may be a cache or a count."""
    if not MUTATORS.isdisjoint(code.co_names) or any(each.opname in MUTATES for each in get_instructions(code)):
        return True
    return any(mutates(each) for each in code.co_consts if isinstance(each, CodeType))


def is_constant_of(function: FunctionType, value: Any) -> bool:
    """Whether a global that *function* names is a constant: data that it does not change itself."""
    return is_constant(value) and not (is_mutable(value) and mutates(function.__code__))


def is_mutable(value: Any) -> bool:
    """Whether a constant may be another one later although it is the same object."""
    kind = type(value)
    if kind in (list, dict, set):
        return True
    return isinstance(value, tuple) and any(is_mutable(each) for each in value)


def classes_in(node: Any) -> set[str]:
    """Name the user's classes that a plan reaches: code that goes by name."""
    found: dict[int, Any] = {}
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if id(at) not in found:
            found[id(at)] = at
            waiting.extend(_within(at))
    return {
        f"{each.__module__}.{each.__qualname__}" for each in found.values() if isinstance(each, type) and is_own(each)
    }


def _within(value: Any) -> Iterator[Any]:
    """Yield what *value* holds of queries, functions and classes of the user's."""
    if isinstance(value, Node):
        yield from (*parameters(value.op).values(), *value.inputs)
    elif isinstance(value, Query):
        yield value.node
    elif isinstance(value, FunctionType) and is_own(value):
        cells = [each.cell_contents for each in value.__closure__ or () if not empty(each)]
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        yield from (*cells, *defaults, *(each for _, each in reached(value)))
    elif isinstance(value, type) and is_own(value):
        yield from (*value.__bases__, *(each for _, each in methods(value)))
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, (tuple, list)):
        yield from value
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif is_own(type(value)):
        yield type(value)


def plain_function(value: Any) -> Any:
    """Return the function that a cache stands before, or *value* itself."""
    return value.__wrapped__ if isinstance(value, _lru_cache_wrapper) else value


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions and constants that a class of the user's has itself, by name."""
    for name, value in sorted(vars(kind).items()):
        if name.startswith("__") and not isinstance(value, (FunctionType, staticmethod, classmethod)):
            continue
        parts = [value]
        if isinstance(value, (staticmethod, classmethod)):
            parts = [value.__func__]
        elif isinstance(value, property):
            parts = [each for each in (value.fget, value.fset) if each is not None]
        elif isinstance(value, cached_property):
            parts = [value.func]
        for each in parts:
            if isinstance(each, FunctionType) or is_constant(each):
                yield name, each
