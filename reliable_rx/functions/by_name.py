"""What a plan reaches that goes by its name into a store, so that an edit of it may be seen behind a kill."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from reliable_rx.class_of import derives_from, is_a, module_of
from reliable_rx.functions.reach import (
    CONTAINERS,
    Found,
    dispatched,
    found,
    given,
    is_constant_of,
    is_own,
    methods,
    plain_function,
    reached,
)
from reliable_rx.query.query import Node, Query, parameters


def by_name(node: Any, *, functions: bool = False) -> set[str]:
    """Name what a plan reaches of the user's that goes by name into a store: classes, and data that is no constant.

    So do its *functions* if one of them holds what cannot be stored (a lock, a connection).
    """
    known: dict[int, Any] = {}
    names = set[str]()
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if id(at) in known:
            continue
        known[id(at)] = at
        waiting.extend(_within(at))
        if is_a(at, type) and is_own(at):
            names.add(f"{module_of(at)}.{at.__qualname__}")
        elif is_a(at, FunctionType) and is_own(at):
            if functions:
                names.add(f"{module_of(at)}.{at.__qualname__}")
            names.update(f"{each.space.get('__name__')}.{each.key}" for each in found(at) if _is_data(at, each))
    return names


def _is_data(function: FunctionType, at: Found) -> bool:
    value = at.value
    is_held = is_a(value, tuple(CONTAINERS)) or not (hasattr(value, "__qualname__") or is_a(value, ModuleType))
    return is_held and not derives_from(value, Query) and not is_constant_of(function, at.key, plain_function(value))


def _within(value: Any) -> Iterator[Any]:
    """Yield what *value* holds of queries, functions and classes of the user's."""
    if isinstance(value, Node):
        yield from (*parameters(value.op).values(), *value.inputs)
    elif derives_from(value, Query):
        yield value.node
    elif is_a(value, FunctionType) and is_own(value):
        yield from (*given(value), *(each for _, each in dispatched(value)), *(each for _, each in reached(value)))
    elif is_a(value, type) and is_own(value):
        yield from (*value.__bases__, type(value), *(each for _, each in methods(value)))
    elif is_a(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif type(value) in CONTAINERS:
        yield from (*value, *value.values()) if is_a(value, dict) else value
    elif is_a(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif is_own(type(value)):
        yield type(value)
