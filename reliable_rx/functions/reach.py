"""The code that a function reaches by name: functions, classes and constants of the modules that are the user's own.

What a function does is in its own code and in that of the helpers that it calls. Those of an installed package change
with its version; those of the user's modules change with every edit, so that identity (`reliable_rx.query.identity`)
and stored code (`checkpoint.format.by_value`) follow them. Names are resolved in the module of the function, and
further where they are attributes of other modules of the user's, named at the top or imported in the function's body.
Rejected: hashing whole modules (an edited comment would be an edited query).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, MutableMapping, MutableSequence, MutableSet
from dataclasses import fields
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from dis import get_instructions
from enum import Enum
from fractions import Fraction
from functools import _lru_cache_wrapper, cached_property, lru_cache, partial, partialmethod, singledispatchmethod
from itertools import chain
from operator import attrgetter, itemgetter, methodcaller
from re import Pattern
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from reliable_rx.class_of import attribute_of, defines, ids_of, is_a, module_of, name_of, path_of, space_of
from reliable_rx.functions.code_names import empty, named
from reliable_rx.functions.imports import imported, is_own_module
from reliable_rx.functions.plain_reads import plain_reads

ATOMS = frozenset((int, float, complex, str, bytes, bool, type(None), range, type(...)))
FIXED = (date, time, timedelta, tzinfo, Decimal, Fraction, Pattern, Enum)
GETTERS = (attrgetter, itemgetter, methodcaller)
CONTAINERS = frozenset((tuple, list, dict, set, frozenset))
ATOM_IDS, CONTAINER_IDS = ids_of(ATOMS), ids_of(CONTAINERS)
ITEMS_MAX, DEPTH_MAX, WRAPPERS_MAX, READERS_MAX = 1000, 5, 20, 100
HEAP_TYPE = 1 << 9
_FLAGS: Any = type.__dict__["__flags__"]


def is_own(value: Any) -> bool:
    """Whether a function, class or module is the user's, or a library's function around one of the user's."""
    if is_a(value, ModuleType):
        return is_own_module(value.__name__)
    if is_a(value, FunctionType):
        return is_own_code(value) or is_around_own(value)
    return is_a(value, type) and (is_own_module(module_of(value)) or is_made(value))


def is_own_code(function: FunctionType) -> bool:
    """Whether the code of a function is the user's: of a module of theirs, or of a text that has no module."""
    name = function.__globals__.get("__name__")
    return is_own_module(name) if is_a(name, str) else True


def is_found(function: FunctionType) -> bool:
    """Whether a library's function stands in its module under its name, so that its version says what it does."""
    try:
        return attrgetter(function.__qualname__)(sys.modules.get(module_of(function))) is function
    except AttributeError:
        return False


def is_made(kind: type) -> bool:
    """Whether a class only seems to be Python's own: `make_dataclass` and code without a module make such.

    >>> is_made(int), is_made(FunctionType), is_made(type("Made", (), {"__module__": "types"}))
    (False, False, True)
    """
    module, heap = module_of(kind), _FLAGS.__get__(kind) & HEAP_TYPE
    if not heap or module not in ("builtins", "types"):
        return False
    return getattr(sys.modules[module], name_of(kind), None) is not kind


def is_around_own(function: FunctionType) -> bool:
    """Whether a library's function stands before one of the user's: a decorator made it, or `singledispatch`."""
    if is_own_code(function) or not hasattr(function, "__wrapped__"):
        return False
    at: Any = function
    for _ in range(WRAPPERS_MAX):
        at = getattr(at, "__wrapped__", None)
        if is_a(at, FunctionType) and is_own_code(at):
            return True
    return False


def dispatched(function: Any) -> list[tuple[type, Any]]:
    """Return the functions among which a `functools.singledispatch` chooses, by class; none if it is none."""
    registry = getattr(function, "registry", None)
    if not is_a(registry, MappingProxyType) or not hasattr(function, "dispatch"):
        return []
    return sorted(registry.items(), key=lambda item: path_of(item[0]))


def names_of(function: FunctionType) -> tuple[str, ...]:
    """Return every name that the code of *function* uses, in the order of the code."""
    return _names(function.__code__)


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(named(code)))


READS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL"))


@lru_cache(maxsize=4096)
def globals_of(code: CodeType) -> tuple[str, ...]:
    """Return the names that *code* looks up in its module; `co_names` has also those of attributes."""
    own = {each.argval for each in get_instructions(code) if each.opname in READS}
    inner = [globals_of(each) for each in code.co_consts if is_a(each, CodeType)]
    return tuple(dict.fromkeys(chain((name for name in code.co_names if name in own), *inner)))


class Found(NamedTuple):
    """What a name leads to: its path, the value, and the namespace and key under which it stands."""

    path: str
    value: Any
    space: dict[str, Any]
    key: str


def found(function: FunctionType) -> Iterator[Found]:
    """Yield what *function* names of its module, of modules of the user's that it names, and of those it imports."""
    names, space = names_of(function), function.__globals__
    for name in globals_of(function.__code__):
        if name in space:
            value = space[name]
            if is_a(value, ModuleType) and is_own(value):
                yield from attributes(name, value, names, 0)
            else:
                yield Found(name, value, space, name)
    for module in imported(function):
        yield from attributes(module.__name__, module, names, 0)


def reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what *function* names, as `found` does: dotted name, value."""
    for each in found(function):
        yield each.path, plain_function(each.value)


def attributes(path: str, module: ModuleType, names: tuple[str, ...], depth: int) -> Iterator[Found]:
    """Yield what *module* has under *names*."""
    for name in names:
        value = attribute(module, name)
        if is_a(value, ModuleType) and is_own(value) and depth < DEPTH_MAX:
            yield from attributes(f"{path}.{name}", value, names, depth + 1)
        elif value is not None:
            yield Found(f"{path}.{name}", value, vars(module), name)


def attribute(module: ModuleType, name: str) -> Any:
    """Return an attribute of a module without running its ``__getattr__``; None if it has none."""
    found = vars(module).get(name)
    if found is None and "__stands_for__" in vars(module):
        real = sys.modules.get(module.__name__)
        found = None if real is None else vars(real).get(name)
    return found


def is_constant(value: Any, depth: int = 0) -> bool:
    """Whether *value* is data by which a function is written: atoms, and small containers and records of such.

    >>> is_constant({"EUR": 1.1}), is_constant(object()), is_constant([object()]), is_constant([0] * ITEMS_MAX * 2)
    (True, False, False, False)
    """
    kind = type(value)
    if id(kind) in ATOM_IDS or is_a(value, FIXED):
        return True
    if depth >= DEPTH_MAX:
        return False
    if id(kind) in CONTAINER_IDS:
        parts = [*value, *value.values()] if kind is dict else value
        return len(parts) <= ITEMS_MAX and all(is_constant(each, depth + 1) for each in parts)
    if is_a(value, tuple) and defines(kind, "_fields"):
        return all(is_constant(each, depth + 1) for each in value)
    if not is_a(value, type) and getattr(attribute_of(kind, "__dataclass_params__"), "frozen", False):
        return all(is_constant(getattr(value, f.name, None), depth + 1) for f in fields(value))
    return is_code(value, depth + 1)


def is_code(value: Any, depth: int = 0) -> bool:
    """Whether *value* is a function or class, or one of them with arguments that are constants.

    >>> is_code(len), is_code(partial(len, "abc")), is_code(open)
    (True, True, True)
    """
    value = plain_function(value)
    if is_a(value, FunctionType):
        return (
            not is_around_own(value)
            or bool(dispatched(value))
            or all(is_constant(each, depth) for each in given(value))
        )
    if is_a(value, partial):
        return is_code(value.func, depth) and is_constant((value.args, value.keywords), depth)
    if is_a(value, MethodType):
        return is_a(value.__self__, type) or is_constant(value.__self__, depth)
    if is_a(value, BuiltinFunctionType):
        return value.__self__ is None or is_a(value.__self__, ModuleType)
    return is_a(value, (type, *GETTERS))


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
    return any(mutates(each) for each in code.co_consts if is_a(each, CodeType))


def may_change(function: FunctionType, name: str, value: Any) -> bool:
    """Whether what *function* names may be a cache or a count: it, or what it calls, seems to change containers.

    What only holds what never changes, and is read in each place in a way that changes nothing, is none.
    """
    if not is_mutable(value) or not mutates(function.__code__):
        return False
    return not is_flat(value) or not _only_read(function, name)


def _only_read(function: FunctionType, name: str) -> bool:
    """Whether *function*, and the user's functions and classes that it names, only read what is called *name*."""
    waiting: list[Any] = [function]
    seen: dict[int, Any] = {}  # each is kept: the id of one that is gone would be given to another one
    while waiting:
        at = plain_function(waiting.pop())
        if id(at) in seen or not is_own(at):
            continue
        if len(seen) >= READERS_MAX:
            return False
        seen[id(at)] = at
        if is_a(at, FunctionType):
            if name in names_of(at) and name not in plain_reads(at.__code__):
                return False
            waiting += [each for _, each in reached(at)]
        elif is_a(at, type):
            waiting += [each for _, each in methods(at)]
    return True


def is_flat(value: Any) -> bool:
    """Whether a container holds nothing but what never changes.

    >>> is_flat({"EUR": 1.1, "codes": ("a", 2)}), is_flat({"EUR": [1.1]}), is_flat([object()])
    (True, False, False)
    """
    kind = type(value)
    return kind in CONTAINERS and all(map(is_still, chain(value, value.values() if kind is dict else ())))


def is_still(value: Any, depth: int = 0) -> bool:
    """Whether *value* never changes: an atom, code, or a tuple of such."""
    if type(value) in ATOMS or is_a(value, FIXED):
        return True
    if type(value) in (tuple, frozenset):
        return depth < DEPTH_MAX and len(value) <= ITEMS_MAX and all(is_still(each, depth + 1) for each in value)
    return is_a(value, (FunctionType, type, *GETTERS))


def is_constant_of(function: FunctionType, name: str, value: Any) -> bool:
    """Whether a global that *function* names is a constant: data that it does not change itself."""
    return is_constant(value) and not may_change(function, name, value)


INITS = frozenset(("__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__", "__set_name__"))
"""Methods that make an object what it is: what they set does not change later."""
SETS = frozenset(("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL"))


@lru_cache(maxsize=4096)
def assigned(code: CodeType) -> frozenset[str]:
    """Return the globals and attributes that *code* sets, so that they are no constants."""
    names = {each.argval for each in get_instructions(code) if each.opname in SETS}
    return frozenset(names).union(*(assigned(each) for each in code.co_consts if is_a(each, CodeType)))


GIVEN = frozenset(("registry", "dispatch", "register", "_clear_cache", "cache_parameters"))
"""What `functools` sets on the functions that it makes."""


def attributes_of(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield what was set on a function, or a cache of one, and is not set by itself."""
    plain, own = plain_function(function), frozenset[str]()
    if is_a(plain, FunctionType):
        own = assigned(plain.__code__)
    for name, value in sorted(vars(function).items()):
        if not name.startswith("__") and name not in own and name not in GIVEN:
            yield name, value


def is_named_only(value: Any) -> bool:
    """Whether a callable of a library is known by its name: one that took the name of a function or class is not.

    >>> is_named_only(len), is_named_only(str.upper), is_named_only(list[int])
    (True, True, False)
    """
    kind = type(value)
    return not is_own(kind) and defines(kind, "__qualname__")


MUTABLE = (list, dict, set, bytearray, MutableSequence, MutableMapping, MutableSet)


def is_mutable(value: Any) -> bool:
    """Whether a constant may be another one later although it is the same object."""
    waiting, seen = [value], set[int]()
    while waiting:
        at = waiting.pop()
        try:
            if isinstance(at, MUTABLE):
                return True
        except Exception:  # its class raises when it is asked, or cannot be hashed: it is registered nowhere
            return False
        if is_a(at, tuple) and id(at) not in seen:
            seen.add(id(at))
            waiting += tuple.__iter__(at)
    return False


def plain_function(value: Any) -> Any:
    """Return the function that a cache stands before, or *value* itself."""
    while is_a(value, _lru_cache_wrapper):
        value = value.__wrapped__
    return value


def given(function: FunctionType) -> list[Any]:
    """Return what a function was given when it was made: its defaults, and what it closes over."""
    by_name = sorted((function.__kwdefaults__ or {}).items())
    return [*(function.__defaults__ or ()), *by_name, *contents(function)]


def contents(function: FunctionType) -> list[Any]:
    """Return what a function closes over."""
    return [None if empty(each) else each.cell_contents for each in function.__closure__ or ()]


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions, classes and data that a class of the user's has itself, by name."""
    for name, value in sorted(space_of(kind).items()):
        if not is_a(value, UNTOLD) and (not name.startswith("__") or _is_given(name, value)):
            for each in parts_of_method(value):
                yield name, plain_function(each)


MADE = frozenset((
    "__module__", "__qualname__", "__name__", "__doc__", "__annotations__", "__slots__", "__parameters__",
    "__firstlineno__", "__static_attributes__", "__abstractmethods__", "__type_params__", "__protocol_attrs__",
    "__slotnames__", "__non_callable_proto_members__", "__callable_proto_members_only__", "__dataclass_params__",
))  # fmt: skip
"""What Python itself puts into a class, and says where it stands or what is known anyway."""
UNTOLD = (MemberDescriptorType, GetSetDescriptorType, type(vars(Iterable)["_abc_impl"]))
"""Slots, and the registry of an abstract class."""
METHODS = (
    FunctionType, staticmethod, classmethod, property, cached_property, partial, partialmethod, singledispatchmethod,
    _lru_cache_wrapper,
)  # fmt: skip


def _is_given(name: str, value: Any) -> bool:
    """Whether a class has something under a special name that its author gave it."""
    if name in MADE or name.startswith("__pydantic"):  # where addresses are
        return False
    return is_a(value, METHODS) or is_own(type(value)) or is_constant(value)


def parts_of_method(value: Any) -> Iterable[Any]:
    """Return the functions in what stands in a class, or what stands there."""
    if is_a(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if is_a(value, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each is not None]
    if is_a(value, (cached_property, partialmethod)):
        return (value.func, *getattr(value, "args", ()), *getattr(value, "keywords", {}).items())
    if is_a(value, singledispatchmethod):
        return (value.func, value.dispatcher)
    return (value,)
