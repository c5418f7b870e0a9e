"""Objects that a module of the user's holds under a name, and that a stored query also holds by value.

``def get(row, key, default=MISSING)`` compares its default with a global: stored apart, the two would be two objects.
So such an object is stored ahead of the query, with its name. What a store gives back is the object that has the name
now, if that one is the same by its content, and else the copy of its day; whatever the query holds of it is that one.
It is replaced where the pickle remembers it, hence wherever it is met, also in the containers that pickle asks nobody
about. Rejected: always the object of today (an edit would reach a replay), always the copy (the classes of the module,
which go by name, compare with theirs), `persistent_id` (asked for every number and text).
"""

from __future__ import annotations

import importlib
import io
import pickle
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from reliable_rx.class_of import module_of
from reliable_rx.functions.imports import OURS, is_own_module
from reliable_rx.functions.reach import ATOMS, CONTAINERS, FIXED, is_constant
from reliable_rx.interrupts import let_through
from reliable_rx.query.identity import hash_of

_NEVER = (type, FunctionType, MethodType, BuiltinFunctionType, ModuleType, CellType, CodeType, *FIXED)
HELD_MAX = 100
"""More than these are stored as they come, without looking which of them holds which."""


class Held(NamedTuple):
    """An object under a name of a module."""

    module: str
    name: str
    value: Any


@lru_cache(maxsize=4096)
def may_be_held(kind: Any) -> bool:
    """Whether an object of a class may be told from its copies: neither an atom, nor code, nor a part of a plan."""
    top = module_of(kind).partition(".")[0]
    return kind not in ATOMS and not issubclass(kind, _NEVER) and top not in OURS and top != "reactivex"


def held_in(memo: dict[int, tuple[int, Any]], spaces: dict[str, dict[str, Any]]) -> dict[int, Held]:
    """Return those of the objects in the memo of a pickler that a namespace has under a name, by id."""
    return {
        id(value): Held(module, name, value)
        for module, space in spaces.items()
        for name, value in list(space.items())
        if id(value) in memo and memo[id(value)][1] is value and _is_one(value)
    }


def _is_one(value: Any) -> bool:
    kind: Any = type(value)
    if kind in CONTAINERS or kind is partial:
        return not is_constant(value)
    return may_be_held(kind)


def put_ahead(stream: io.BytesIO, held: Held, place: int) -> None:
    """Let what *stream* has pickled last, which is *held*, be left to those that refer to its *place* in the memo.

    By then it is what `of_today` returns: the end of the pickle becomes a step that goes on with this.
    """
    number = struct.pack("<I", place)
    called = b"".join(map(_text, (__name__, of_today.__name__))) + pickle.STACK_GLOBAL
    arguments = _text(held.module) + _text(held.name) + pickle.LONG_BINGET + number + pickle.TUPLE3
    stream.seek(-len(pickle.STOP), io.SEEK_CUR)
    stream.write(pickle.POP + called + arguments + pickle.REDUCE + pickle.LONG_BINPUT + number + pickle.POP)


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return pickle.BINUNICODE + struct.pack("<I", len(data)) + data


class _Asked(threading.local):
    """Whether somebody only asks if a pickle can be read."""

    only = False


_ASKED = _Asked()


@contextmanager
def copies_only() -> Iterator[None]:
    """Take the copy of every such object within: to see that a pickle can be read needs no comparison with today."""
    before, _ASKED.only = _ASKED.only, True
    try:
        yield
    finally:
        _ASKED.only = before


def of_today(module: str, name: str, copy: Any) -> Any:
    """Return what *module* has under *name*, if it is what *copy* is, and else *copy*."""
    if _ASKED.only:
        return copy
    try:
        there = getattr(importlib.import_module(module), name)
        return there if type(there) is type(copy) and _is_same(there, copy) else copy
    except BaseException as raised:  # a module that is gone, or an object whose content cannot be told
        let_through(raised)
        return copy


def _is_same(one: Any, other: Any) -> bool:
    """Whether two objects have the same content; what pickle leaves out of both does not count."""
    try:
        if pickle.dumps(one, 5) == pickle.dumps(other, 5):  # mostly so, and much faster
            return True
    except BaseException as raised:  # a lambda, or a function of then
        let_through(raised)
    return hash_of(one) == hash_of(other)


def bare(value: object) -> Any:
    """Return how an `object()` is pickled, which is nothing but itself: by the name that a module has for it.

    So a sentinel in a state (`scan(f, MISSING)`) is itself behind a restart. One without a name is stored as a new one.
    """
    module, name = _BARE.get(id(value), ("", ""))
    if getattr(sys.modules.get(module), name, None) is not value:
        found = next(_places_of(value), None)
        if found is None:
            return value.__reduce_ex__(5)
        if len(_BARE) >= HELD_MAX:
            _BARE.clear()
        module, name = _BARE[id(value)] = found
    return (bare_of, (module, name))


_BARE: dict[int, tuple[str, str]] = {}


def _places_of(value: object) -> Iterator[tuple[str, str]]:
    for module, space in [(name, vars(each)) for name, each in list(sys.modules.items()) if is_own_module(name)]:
        for name, each in list(space.items()):
            if each is value:
                yield module, name


def bare_of(module: str, name: str) -> object:
    """Return the `object()` that *module* has under *name*; a new one if it has none."""
    try:
        there = getattr(importlib.import_module(module), name)
    except BaseException as raised:
        let_through(raised)
        return object()
    return there if type(there) is object else object()
