"""Queries in stores with the functions of their day: those of the user's modules travel by value.

A replay must run the code that took the turns the first time, whatever has been edited since. So a function of a module
of the user's goes as its code, with the helpers that it calls and the constants that it names. Classes go by name: two
copies of one would make values that are equal unequal, and none an instance of the other. So does data that is no
constant (a connection, a model, a cache), which the module of the next process has again. Rejected:
`cloudpickle.register_pickle_by_value` (it copies classes and all data too).
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import sys
from functools import _lru_cache_wrapper, cached_property
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle.cloudpickle as dynamic

from checkpoint.format import stored_functions, stored_imports
from checkpoint.format.code import CodePickler, unlocked, wrapped
from checkpoint.format.held_objects import HELD_MAX, Held, held_in, may_be_held, put_ahead
from reliable_rx.class_of import module_of
from reliable_rx.functions.code_names import empty
from reliable_rx.functions.imports import imported, is_own_module, stored_as
from reliable_rx.functions.reach import (
    attribute,
    dispatched,
    is_around_own,
    is_code,
    is_constant_of,
    is_own,
    names_of,
    plain_function,
)
from reliable_rx.query.query import Query

CANNOT_GO = (pickle.PicklingError, AttributeError, TypeError, RecursionError)


def encode_query(value: Any) -> bytes:
    """Turn a query, or what else holds functions of the user's, into bytes that keep them as they are now.

    >>> from checkpoint import decode
    >>> import reliable_rx as rx
    >>> decode(encode_query(rx.source("n").map(lambda n: n * 2)))
    source('n').map(λ)

    *Raises* what pickle raises.
    """
    try:
        return _encoded(value)
    except CANNOT_GO:
        return wrapped(_by_name(value))  # some function reaches what only its own module can have


def goes_by_value(value: Any) -> bool:
    """Whether `encode_query` keeps the functions in *value* as they are, and not by their names."""
    try:
        _encoded(value)
    except CANNOT_GO:
        return False
    return True


def _by_name(value: Any) -> bytes:
    stream = io.BytesIO()
    CodePickler(stream, 5).dump(value)
    return stream.getvalue()


def _encoded(value: Any) -> bytes:
    names: dict[str, dict[str, None]] = {}
    ahead: dict[int, Held] = {}
    while True:
        stream, known = io.BytesIO(), sum(map(len, names.values()))
        pickler = _ByValue(stream, names, ahead)
        for each in ahead.values():
            pickler.dump(each.value)
            put_ahead(stream, each, pickler.memo.copy()[id(each.value)][0])
        pickler.dump(value)
        found = pickler.found()
        if not found and (sum(map(len, names.values())) == known or not pickler.views):
            break
        if found:
            ahead = _parts_first({**ahead, **found}, names)
    data = stream.getvalue()
    return wrapped(data) if pickler.holds_code else data


def _parts_first(ahead: dict[int, Held], names: dict[str, dict[str, None]]) -> dict[int, Held]:
    """Put what another one holds before that one."""
    if not 1 < len(ahead) <= HELD_MAX:
        return ahead
    within: dict[int, int] = {}
    for each, held in ahead.items():
        pickler = _ByValue(io.BytesIO(), names, {})
        pickler.dump(held.value)
        within[each] = len(ahead.keys() & pickler.memo.copy().keys())
    return dict(sorted(ahead.items(), key=lambda item: within[item[0]]))


class _ByValue(CodePickler):
    """Pickles functions of the user's modules by value, and what they name."""

    def __init__(self, stream: io.BytesIO, names: dict[str, dict[str, None]], ahead: dict[int, Held]) -> None:
        super().__init__(stream, 5)
        self.ahead = ahead
        """Objects that modules hold under a name, by id; the stream has them already."""
        self.holds_objects = False
        """Whether it is worth while to look for such objects."""
        self.modules: set[str] = set()
        self.by_name: dict[int, Held] = {}
        """What functions name that goes by name."""
        self.names = names
        """What is wanted of each module of the user's, which is known once all functions have been seen."""
        self.views: dict[str, ModuleView] = {}
        self.holds_code = False

    def reducer_override(self, obj: Any) -> Any:
        kind: Any = type(obj)
        if kind is FunctionType:
            return self._function(obj) if is_own(obj) else self._named(obj)
        if kind is CodeType or obj is _LOADS_CODE:
            self.holds_code = True
            return NotImplemented
        if kind is ModuleView:
            return obj.reduced(self.names[obj.module.__name__])
        if kind is cached_property:
            return unlocked(obj)
        if kind is _lru_cache_wrapper and _caches_own(obj):
            return stored_functions.cache(obj)
        if issubclass(kind, type):
            self.modules.add(module_of(obj))
            return self._named(obj)
        if not self.holds_objects:
            self.holds_objects = may_be_held(kind)
        return self._named(obj) if issubclass(kind, BaseException) else NotImplemented

    def found(self) -> dict[int, Held]:
        """Return the objects that were pickled and that a module holds under a name, without those that are ahead."""
        if not self.holds_objects and not self.by_name:
            return {}
        memo = self.memo.copy()
        modules = {name: sys.modules.get(name) for name in sorted(self.modules) if is_own_module(name)}
        spaces = {name: vars(module) for name, module in modules.items() if module is not None}
        found = {**held_in(memo, spaces), **{each: held for each, held in self.by_name.items() if each in memo}}
        return {each: held for each, held in found.items() if each not in self.ahead}

    def _named(self, obj: Any) -> Any:
        """Return how *obj* is pickled that is not the user's function: by its name, if that leads there."""
        reduced = super().reducer_override(obj)
        if _is_dynamic(reduced):
            self.holds_code = True
        return reduced

    def _function(self, function: FunctionType) -> Any:
        if is_around_own(function):
            if not is_code(function):  # a library's function with more than functions and constants inside
                return self._named(function)
            if among := dispatched(function):
                self.holds_code = True
                return stored_functions.choice(function, among)
        self.holds_code = True
        self.modules.add(str(function.__globals__.get("__name__")))
        _, arguments, (state, slots), *_ = self._dynamic_function_reduce(function)
        slots["__annotations__"] = {}
        if beside := stored_functions.beside(function):
            slots["beside"] = beside
        if looks := stored_functions.looks_at_module(function.__code__):
            slots["looks"] = looks
        slots["__globals__"] = {
            name: self._global(function, name, value) for name, value in slots["__globals__"].items()
        }
        modules = imported(function)
        for module in modules:
            slots["__globals__"][stored_as(module.__name__)] = self._view(module, function)
        if function.__closure__:
            slots["__closure__"] = tuple([self._cell(each, function) for each in function.__closure__])
        make = stored_imports.importing if modules else stored_imports.function
        return (make, arguments, (state, slots), None, None, stored_imports.set_state)

    def _cell(self, cell: CellType, function: FunctionType) -> CellType:
        """Return a cell as it is stored: a module of the user's in it goes with what is wanted of it."""
        if not empty(cell) and isinstance(cell.cell_contents, ModuleType) and is_own(cell.cell_contents):
            return CellType(self._view(cell.cell_contents, function))
        return cell

    def _global(self, function: FunctionType, name: str, value: Any) -> Any:
        """Return what stands for a global that *function* names."""
        module = str(function.__globals__.get("__name__"))
        if isinstance(value, ModuleType):
            return self._view(value, function) if is_own(value) else value
        if module == "__main__" or not hasattr(sys.modules.get(module), name) or isinstance(value, (*_CODE, Query)):
            return value
        if id(value) in self.ahead or is_constant_of(function, name, value):
            return value
        self.by_name[id(value)] = Held(module, name, value)
        return Global(module, name)

    def _view(self, module: ModuleType, function: FunctionType) -> Any:
        """Return *module* with the functions and constants of today that *function* wants of it."""
        name = module.__name__
        self.modules.add(name)
        names = self.names.setdefault(name, {})
        for each in names_of(function):
            value = attribute(module, each)
            if isinstance(value, ModuleType) and is_own(value):
                self._view(value, function)
                names[each] = None
            elif (isinstance(value, _CODE) and not isinstance(value, type) and is_own(plain_function(value))) or (
                value is not None and (id(value) in self.ahead or is_constant_of(function, each, value))
            ):
                names[each] = None
        if not names:
            return module
        return self.views.setdefault(name, ModuleView(module, self))


def _caches_own(cache: Any) -> bool:
    """Whether a cache stands before something of the user's, or before what has no name to be found by."""
    at = cache
    while isinstance(at, _lru_cache_wrapper):
        at = at.__wrapped__
    return is_own(getattr(at, "__func__", at)) or not hasattr(cache, "__qualname__")


def _is_dynamic(reduced: Any) -> bool:
    """Whether a class or function is pickled by its code."""
    return isinstance(reduced, tuple) and reduced[0] in _DYNAMIC


_LOADS_CODE = marshal.loads
_CODE = (FunctionType, type, _lru_cache_wrapper)
_DYNAMIC = {getattr(dynamic, name) for name in ("_make_function", "_make_skeleton_class", "_make_skeleton_enum")}


class ModuleView:
    """A module of the user's on its way into a store."""

    def __init__(self, module: ModuleType, pickler: _ByValue) -> None:
        self.module, self.pickler = module, pickler

    def reduced(self, names: dict[str, None]) -> Any:
        parts = {}
        for name in sorted(names):
            value = attribute(self.module, name)
            parts[name] = self.pickler.views.get(value.__name__, value) if isinstance(value, ModuleType) else value
        return (stored_module, (self.module.__name__,), parts, None, None, _set_parts)


class Global:
    """Something under a name of a module, which the module of the next process has again."""

    def __init__(self, module: str | None, name: str) -> None:
        self.module, self.name = module, name

    def __reduce__(self) -> Any:
        return (global_of, (self.module, self.name))


class StoredModule(ModuleType):
    """A module as far as stored functions use it: their helpers and constants of then, the rest as it is now."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)

    def __reduce__(self) -> Any:
        """Go with the functions that name it: a state may hold them, and is stored again."""
        parts = {name: value for name, value in vars(self).items() if not name.startswith("__")}
        return (stored_module, (self.__name__,), parts, None, None, _set_parts)


def stored_module(name: str) -> StoredModule:
    module = StoredModule(name)
    module.__dict__["__stands_for__"] = name
    return module


def _set_parts(module: StoredModule, parts: dict[str, Any]) -> None:
    module.__dict__.update(parts)


def global_of(module: str, name: str) -> Any:
    """Return what *module* has under *name* now."""
    return getattr(importlib.import_module(module), name)
