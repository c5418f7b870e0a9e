"""What an object holds: its attributes, and what pickle would make of it."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar
from decimal import Context as DecimalContext
from functools import cached_property, cmp_to_key
from struct import Struct
from typing import Any, Generic, Protocol
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary

from reliable_rx.class_of import bases_of, dict_of, ids_of, is_a, module_of, name_of, qualname_of, space_of
from reliable_rx.functions.imports import is_own_module
from reliable_rx.interrupts import let_through
from reliable_rx.query.live_ids import in_one_order


class Unknown:
    """What stands for content that cannot be had."""


UNKNOWN = Unknown()
PLAIN = ids_of((object, Generic, Protocol))
"""Bases that give an object nothing to hold but attributes."""


def _default(variable: ContextVar[Any]) -> Any:
    """Return what a context variable is where nothing has set it."""
    try:
        return [variable.name, Context().run(variable.get)]
    except LookupError:
        return [variable.name]


def _rounding(context: DecimalContext) -> Any:
    """Return what a decimal context was given; its flags tell what has been computed."""
    traps = sorted(each.__name__ for each, is_set in context.traps.items() if is_set)
    return [context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, traps]


def _nothing(_: Any) -> None:
    """Return what is left of data that is the process's own."""


DICTS: tuple[dict[Any, Any], ...] = ({}, OrderedDict())
VIEWS = [type(view) for each in DICTS for view in (each.keys(), each.values(), each.items())]
PIECES: dict[type, Callable[[Any], Any]] = {
    memoryview: lambda view: [view.format, view.shape, view.tobytes()],
    property: lambda value: [value.fget, value.fset, value.fdel],
    ReferenceType: lambda reference: [reference()],
    ContextVar: _default,
    DecimalContext: _rounding,
    Struct: lambda struct: struct.format,
    type(cmp_to_key(min)): gc.get_referents,
    **dict.fromkeys((WeakKeyDictionary, WeakSet, WeakValueDictionary), _nothing),  # what may vanish at any time
    **dict.fromkeys(VIEWS, list),
}
"""The content of what pickle does not take, or takes with more than that."""


ENVIRONMENT = ("os", "_Environ")


def pieces(value: Any) -> Any:
    """Return what pickle would make *value* of; its text, or `UNKNOWN`, if that cannot be had."""
    kind = type(value)
    if (module_of(kind), name_of(kind)) == ENVIRONMENT:
        return None
    known = PIECES.get(kind)
    if known is not None:
        return known(value)
    try:
        made = value.__reduce_ex__(4)
    except BaseException as raised:  # a `__reduce__` may raise anything
        let_through(raised)
        made = None
    if is_a(made, tuple):
        return _cut([list(each) if isinstance(each, Iterator) else each for each in made])
    if is_a(made, str):  # a name
        return made
    text = _text(value)
    return UNKNOWN if " at 0x" in text else in_one_order(text)


def content(value: Any) -> Any:
    """Return the same without attributes: what an object holds as one of a class that is not written in Python."""
    made = pieces(value)
    if is_a(made, list) and len(made) > 2 and type(value) not in PIECES:
        states = made[2] if is_a(made[2], tuple) else (made[2],)
        names = held(value).keys()
        if all(each is None or (is_a(each, dict) and each.keys() <= names) for each in states):
            made[2] = None
    return _cut(made) if is_a(made, list) else made


def _cut(made: list[Any]) -> list[Any]:
    """Return what `__reduce__` gave without the None at its end."""
    while made and made[-1] is None:
        made.pop()
    return made


def derives(kind: type) -> bool:
    """Whether objects of a class of the user's may hold more than attributes, since a base is not the user's."""
    return any(id(each) not in PLAIN and not is_own_module(module_of(each)) for each in bases_of(kind))


def module_method(method: Any) -> str | None:
    """Return the name of a method of an object that a library's module keeps to itself; None if it is none.

    >>> import random
    >>> module_method(random.randint), module_method(random.Random(1).randint)
    ('random.randint', None)
    """
    module = module_of(type(method.__self__))
    there: Any = getattr(sys.modules.get(module), method.__name__, None)
    name = str(method.__name__)
    return f"{module}.{name}" if type(there) is type(method) and there == method else None


def without_addresses(value: Any) -> str:
    text = _text(value)
    return qualname_of(type(value)) if " at 0x" in text else in_one_order(text)


def _text(value: Any) -> str:
    try:
        return repr(value)
    except BaseException as raised:
        let_through(raised)
        return " at 0x"


def held(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, by name, without those that are computed when they are asked for."""
    kind = type(value)
    names = [name for each in bases_of(kind) for name in slots(each)]
    known = {name: getattr(value, name) for name in names if hasattr(value, name)}
    there = dict_of(value)
    return {**known, **{name: each for name, each in there.items() if not is_computed(kind, name)}}


def slots(kind: type) -> Iterator[str]:
    """Yield the attributes of a class that are slots, as they are found: private ones have its name in theirs."""
    told = space_of(kind).get("__slots__", ())
    for name in (told,) if is_a(told, str) else told:
        if not name.startswith("__"):
            yield name
        elif not name.endswith("__"):
            yield f"_{name_of(kind).lstrip('_')}{name}"


def is_computed(kind: type, name: str) -> bool:
    """Whether an attribute is there once it was asked for."""
    return any(is_a(space_of(each).get(name), cached_property) for each in bases_of(kind))
