"""When two queries are the same: a content hash that survives the process.

The hash covers operators, parameters and code (bytecode, constants, names, closures), because a lambda has no better
name. It covers also what a function reaches by name in the user's own modules: a mended helper is an edited query.

Whatever holds something else is written once, in the order in which it is met, and told by its number thereafter. So
depth, rings and sharing cost nothing, and nothing is left out: two queries of one identity run one another's code after
a restart. Rejected: a limit of depth (what lies beyond it is the same for all), writing what is shared each time it is
met (a graph has more paths than nodes).
"""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from operator import itemgetter
from re import Pattern
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from reliable_rx.errors import QueryRefused
from reliable_rx.held import held, is_built_in, is_computed, pieces, without_addresses
from reliable_rx.operator import Operator
from reliable_rx.plain_reads import plain_reads
from reliable_rx.query import Node, Query, parameters
from reliable_rx.reach import (
    ATOMS,
    CONTAINERS,
    FIXED,
    GETTERS,
    INITS,
    ITEMS_MAX,
    assigned,
    attributes,
    attributes_of,
    contents,
    dispatched,
    found,
    given,
    is_around_own,
    is_flat,
    is_mutable,
    is_named_only,
    is_own,
    may_change,
    methods,
    mutates,
    names_of,
    plain_function,
)

__all__ = ["content_hash", "contents", "given", "hash_of"]
REACHES_MAX = 10_000
PLACES_MAX = 1_000_000
RECORDS = (SimpleNamespace, Namespace)
"""Of the standard library, what is nothing but its attributes."""
BY_TEXT = frozenset(("reactivex", "reliable_rx"))
"""Packages of which an object may reach the whole process, by way of a scheduler, so that its text has to do."""
METHODS = (MethodType, BuiltinMethodType, MethodWrapperType)
TAKES = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def content_hash(node: Node) -> str:
    """Return a hex digest of what the plan does. *Raises* `QueryRefused` for what reaches a million objects."""
    writing = Writing()
    writing.plan(node)
    return writing.digest()


def hash_of(value: Any) -> str:
    """Return a hex digest of a parameter: equal for equal values and equal code. *Raises* as `content_hash` does."""
    writing = Writing()
    writing.put(value)
    return writing.digest()


def joined(parts: Iterator[str] | list[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode(errors="backslashreplace"), digest_size=16).hexdigest()


class Writing:
    """A text that is equal for equal queries in any process: a list of parts, and what is still to be written.

    What functions name is written as a digest that is kept (`Reaches`); *inline*, as its parts: for such a digest.
    """

    def __init__(self, *, inline: bool = False, shallow: bool = False) -> None:
        self.parts: list[str] = []
        self.inline, self.shallow = inline, shallow
        self.fixed = True
        """Whether what is written cannot become another text while all names mean the same."""
        self.resolved: list[tuple[dict[str, Any], str, Any]] = []
        """Where names were resolved: namespace, name, and what was found there."""
        self._hubs: dict[str, int] = {}
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []  # what is known by its id must stay alive
        self._waiting: deque[tuple[Any, bool]] = deque()
        self._later: deque[Any] = deque()
        self._wanted: set[str] = set()
        self._assigned: set[str] = set()
        self._mutated, self._beside = set[str](), set[str]()  # what code may change, and what it names beside that

    def digest(self) -> str:
        """Write what is waiting, and all that comes of it."""
        while self._waiting or self._later:
            if self._waiting:
                self._write(*self._waiting.popleft())
            else:  # by now it is known which attributes are wanted, and which are set
                self._attributes(self._later.popleft())
        return joined(self.parts)

    def plan(self, node: Node) -> None:
        """Write a plan; what is shared is told by when it first occurred, and written there only."""
        waiting: list[Node | str] = [node]
        put = self.parts.append
        while waiting:
            at = waiting.pop()
            if isinstance(at, str):
                put(at)
                continue
            if at.op.counts_readers:
                known = len(self._hubs)
                number = self._hubs.setdefault(at.op.token, known)  # type: ignore[attr-defined]
                put(f"hub {number}")
                if number < known:
                    continue
            put(f"{at.op.name}/{at.op.version}(")
            for name, value in parameters(at.op).items():
                put(name)
                self.put(value)
            waiting += (")", *at.inputs[::-1])

    def put(self, value: Any, *, named: bool = False) -> None:
        """Write *value*: an atom at once, all else by its number. What is *named* by a function may be the world's."""
        kind = type(value)
        if kind is int:
            self.parts.append(f"int:{value:x}")
        elif kind is Pattern:  # its text is cut
            self.parts.append(f"pattern:{value.flags}:{value.pattern!r}")
        elif kind in ATOMS or (isinstance(value, FIXED) and not is_own(kind)):
            self.parts.append(f"{kind.__qualname__}:{value!r}")
        else:
            value = plain_function(value)
            place = self._places.get(id(value))
            if place is None:
                place = self._places[id(value)] = len(self._places)
                self._kept.append(value)
                self._waiting.append((value, named))
                if place >= PLACES_MAX:
                    what = f"what a function holds reaches over {PLACES_MAX:,} objects"
                    raise QueryRefused(f"{what}; give it plain data, or a file's name", path="/")
            self.parts.append(f"#{place}")

    def _all(self, values: Any, *, named: bool = False) -> None:
        for each in values:
            self.put(each, named=named)

    def _write(self, value: Any, named: bool) -> None:
        """Write what *value* is made of."""
        kind = type(value)
        self.parts.append("=")
        if kind is FunctionType:
            self._function(value, named)
        elif isinstance(value, METHODS) and not isinstance(value.__self__, (ModuleType, type(None))):
            self.parts.append(value.__name__)
            self.put(getattr(value, "__func__", None))
            self.put(value.__self__, named=named)
        elif isinstance(value, partial):
            self._all((value.func, value.args, dict(sorted(value.keywords.items()))), named=named)
        elif isinstance(value, Query):
            self.plan(value.node)
        elif isinstance(value, ModuleType):
            self.parts.append(value.__name__)
        elif isinstance(value, (list, tuple, set, frozenset, dict)):
            self._container(value, named)
        elif isinstance(value, type):
            self._class(value)
        elif is_dataclass(value) and not isinstance(value, Operator) and not (named and not _is_frozen(kind)):
            self._put_class(kind)
            for each in fields(value):
                self.parts.append(each.name)
                self.put(getattr(value, each.name, None), named=named)
        elif isinstance(value, (staticmethod, classmethod)):
            self.put(value.__func__, named=named)
        elif isinstance(value, MappingProxyType):
            self._container(dict(value), named)
        elif callable(value) and is_named_only(value):
            self.parts.append(f"{getattr(value, '__module__', None)}.{value.__qualname__}")  # str.upper has no module
        elif named and not isinstance(value, (*FIXED, *GETTERS)):
            self._named_object(value)
        else:
            self._object(value)

    def _container(self, value: Any, named: bool) -> None:
        kind = type(value)
        self.parts.append(f"{len(value)}")
        self._put_class(kind)
        self.fixed = self.fixed and isinstance(value, (tuple, frozenset))
        if named and len(value) > ITEMS_MAX:
            return
        if isinstance(value, dict):
            self._all(value, named=named)
            self._all(value.values(), named=named)
        elif isinstance(value, (set, frozenset)):
            self._all(sorted(value, key=_apart), named=named)
        else:
            self._all(value, named=named)
        if kind not in CONTAINERS:
            self.put(held(value), named=named)
            self.put(getattr(value, "default_factory", None), named=named)

    def _put_class(self, kind: type) -> None:
        self.parts.append(f"{kind.__module__}.{kind.__qualname__}")
        if is_own(kind):
            self.put(kind)

    def _object(self, value: Any) -> None:
        """Write an object by its class and by what it holds: its text may tell an address, or not tell it apart."""
        kind = type(value)
        self._put_class(kind)
        if isinstance(value, Enum):
            self._all((value.name, value.value))
            return
        self.fixed = False
        if isinstance(value, BaseException):
            self.put(value.args)
            if is_own(kind):  # a library's attributes, and private ones, tell where it was raised and stored
                self.put({name: each for name, each in held(value).items() if name[0] != "_"})
        elif is_own(kind):
            self.put(there := held(value))
            if not there or is_built_in(kind):
                self.put(pieces(value))
        elif kind.__module__.partition(".")[0] in BY_TEXT:
            self.parts.append(without_addresses(value))
        else:  # a text says only a part of it: rows of a table are left out, and what a model has learnt
            self.put(pieces(value))

    def _named_object(self, value: Any) -> None:
        """Write an object that a function names: by its class now, and by its attributes when all code is known."""
        self._put_class(type(value))
        if is_own(type(value)) or isinstance(value, RECORDS):
            self.fixed = False
            self._later.append(value)

    def _attributes(self, value: Any) -> None:
        """Write the data of a class, or of an object that is named, that the code at hand names and does not set."""
        is_class = isinstance(value, type)
        data = dict(methods(value)) if is_class else held(value)
        for name in sorted(data):
            each = data[name]
            told = is_class or (name in self._wanted and not is_computed(type(value), name))
            changes = name in self._mutated or (name in self._beside and not is_flat(each))
            if told and name not in self._assigned and not (changes and is_mutable(each)):
                self.parts.append(name)
                self.put(each, named=True)

    def _function(self, function: FunctionType, named: bool) -> None:
        self.parts.append(function.__qualname__)
        among = dispatched(function)
        if among:
            for kind, each in among:
                self._all((kind, each), named=True)
            return
        around = is_around_own(function)
        if named and not around and not is_own(function):
            self.parts.append(str(function.__module__))
            return
        self.parts.append(function.__module__ if around else code_digest(function.__code__))
        self._all(given(function))
        if function.__dict__ and is_own(function):
            self._all(sorted(attributes_of(function), key=itemgetter(0)))
        if around:
            self.put(getattr(function, "__wrapped__", None))
        elif is_own(function) and not self.shallow:
            self.reach(function) if self.inline else self.parts.append(described_reach(function))

    def _class(self, kind: type) -> None:
        self.parts.append(f"{kind.__module__}.{kind.__qualname__}")
        if is_own(kind) and not self.shallow:
            self.reach(kind) if self.inline else self.parts.append(described_reach(kind))

    def reach(self, root: FunctionType | type) -> None:
        """Write what *root* reaches by name in the user's modules."""
        if isinstance(root, type):
            self._within_class(root)
            return
        names = names_of(root)
        self._notes(root, names)
        for path, raw, space, key in found(root):
            value = plain_function(raw)
            self.resolved.append((space, key, raw))
            self.parts.append(path)
            set_here = key in assigned(root.__code__) and not isinstance(value, (FunctionType, type))
            changes = set_here or may_change(root, key, value)
            if changes:  # its data may change while it is used
                self.parts.append(f"{space.get('__name__')}: {type(value).__qualname__}")
            else:
                self.put(value, named=True)
        for value in (each for each in contents(root) if isinstance(each, ModuleType) and is_own(each)):
            for path, raw, _, _ in attributes(value.__name__, value, names, 0):
                self.fixed = False
                self.parts.append(path)
                self.put(raw, named=True)

    def _notes(self, function: FunctionType, names: tuple[str, ...]) -> None:
        if function.__name__ not in INITS:
            self._wanted.update(names)
            self._assigned |= assigned(function.__code__)
            if mutates(function.__code__):
                self._beside.update(names)
                self._mutated.update(frozenset(names) - plain_reads(function.__code__))

    def _within_class(self, kind: type) -> None:
        self.parts.extend(each.__qualname__ for each in kind.__mro__)
        self._all(each for each in (*kind.__bases__, type(kind)) if is_own(each))
        for name, each in methods(kind):
            if isinstance(each, (FunctionType, type)):
                self.parts.append(name)
                self.put(each, named=True)
        self._later.append(kind)


def _is_frozen(kind: Any) -> bool:
    return bool(kind.__dataclass_params__.frozen)


def _apart(value: Any) -> str:
    """Return by what the elements of a set are put in order: another process has them in another."""
    writing = Writing(shallow=True)
    writing.put(value)
    return writing.digest()


class Reaches:
    """What was written of what functions reach by name, for as long as the names mean the same."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], tuple[Any, list[tuple[dict[str, Any], str, Any]], str]] = {}

    def text(self, root: FunctionType | type) -> str:
        """Write what *root* reaches by name in the user's modules, as a digest; empty if that is nothing."""
        space = root.__globals__ if isinstance(root, FunctionType) else {}
        kept: Any = root.__code__ if isinstance(root, FunctionType) else root
        key = (id(kept), id(space) if space else 0)
        there = self.known.get(key)
        if there is not None and all(space.get(name) is value for space, name, value in there[1]):
            return there[2]
        writing = Writing(inline=True)
        writing.reach(root)
        text = writing.digest()
        text = text if writing.parts else ""
        if writing.fixed:
            if len(self.known) >= REACHES_MAX:
                self.known.clear()
            self.known[key] = ((kept, space), writing.resolved, text)
        return text


REACHES = Reaches()


def described_reach(root: FunctionType | type) -> str:
    return REACHES.text(root)


CODES: dict[int, tuple[CodeType, str]] = {}


def code_digest(code: CodeType) -> str:
    """Return a digest of what *code* does, without where it stands."""
    known = CODES.get(id(code))
    if known is None:
        if len(CODES) >= REACHES_MAX:
            CODES.clear()
        known = CODES[id(code)] = (code, joined(described_code(code)))
    return known[1]


def described_code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex() + code.co_exceptiontable.hex()
    yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags & TAKES}"
    yield " ".join(code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount])
    yield " ".join(code.co_names)
    for constant in code.co_consts:
        yield code_digest(constant) if isinstance(constant, CodeType) else hash_of(constant)
