"""When two queries are the same: a content hash that survives the process.

The hash covers operators, parameters and code (bytecode, constants, names, closures), because a lambda has no better
name. It covers also what a function reaches by name in the user's own modules: a mended helper is an edited query.

Whatever holds something else is written once, in the order in which it is met, and told by its number thereafter. So
depth, rings and sharing cost nothing, and nothing is left out: two queries of one identity run one another's code after
a restart. Rejected: a limit of depth (what lies beyond it is the same for all), writing what is shared each time it is
met (a graph has more paths than nodes).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from functools import _lru_cache_wrapper, partial
from types import (
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple

from reliable_rx.class_of import defines, derives_from, is_a, module_of, name_of, path_of
from reliable_rx.errors import QueryRefused
from reliable_rx.functions.changing import Changes
from reliable_rx.functions.code_digest import code_digest, joined
from reliable_rx.functions.reach import (
    CONTAINER_IDS,
    CONTAINERS,
    ITEMS_MAX,
    attributes_of,
    contents,
    dispatched,
    given,
    is_around_own,
    is_found,
    is_own,
    is_own_code,
    plain_function,
)
from reliable_rx.functions.reaching import Reaching
from reliable_rx.query.canonical_text import FIRST, NAMED, WITHIN
from reliable_rx.query.class_facts import BOUND
from reliable_rx.query.held import UNKNOWN, content, held, module_method, pieces, without_addresses
from reliable_rx.query.query import Node, Query, parameters

__all__ = ["content_hash", "contents", "given", "hash_of"]
REACHES_MAX = 10_000
WITHIN_MAX = 100_000
SETS_MAX = 10
"""How many objects a library's object that a function names may reach, so that it is known by what it holds."""
RECORDS = (SimpleNamespace, Namespace)
"""Of the standard library, what is nothing but its attributes."""
BY_TEXT = frozenset(("reactivex", "reliable_rx"))
"""Packages of which an object may reach the whole process, by way of a scheduler, so that its text has to do."""


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


class Writing(Reaching):
    """What kinds of things a query is made of, and how each is written.

    What functions name is written as a digest that is kept (`Reaches`); *inline*, as its parts: for such a digest.
    """

    def __init__(
        self, *, inline: bool = False, shallow: bool = False, changes: Changes | None = None, places_max: int = 0
    ) -> None:
        super().__init__(changes or Changes(), places_max)
        self.inline, self.shallow = inline, shallow
        self.sets = 0
        self.met_unknown = False
        self.own: list[Any] = []
        """The code of the user's that was met, where it is not followed."""
        self.reaches: list[Reach] = []
        self._roots: list[FunctionType | type] = []
        self._hubs: dict[str, int] = {}

    def digest(self) -> str:
        """Write what is waiting, and all that comes of it."""
        self.write_all()
        self.reaches = REACHES.of(self._roots)
        return joined((*self.parts, *(each.text for each in self.reaches)))

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

    def _write(self, value: Any, met: int) -> None:
        """Write what *value* is made of."""
        kind = type(value)
        self.parts.append("=")
        if id(kind) in CONTAINER_IDS:
            self._container(value, met)
        elif (facts := self.facts_of(value)).is_object:
            (self._named_object if met and not facts.is_fixed else self._object)(value, met)
        elif kind is FunctionType:
            self._function(value, met)
        elif is_a(value, BOUND) and (kind is MethodType or not is_a(value.__self__, (ModuleType, type(None)))):
            self._bound(value, met)
        elif is_a(value, partial):
            self._partial(value, met)
        elif kind is _lru_cache_wrapper:
            self.put(value.__wrapped__, met)
            self._all(attributes_of(value))
        elif derives_from(value, Query):
            self.plan(value.node)
        elif is_a(value, ModuleType):
            self._module(value, met)
        elif is_a(value, (list, tuple, set, frozenset, dict)):
            self._container(value, met)
        elif is_a(value, type):
            self._class(value)
        elif is_a(value, (staticmethod, classmethod)):
            self.parts.append(name_of(kind))
            self.put(value.__func__, met)
        elif is_a(value, MappingProxyType):
            self._container(dict(value), met)
        else:
            self.parts.append(f"{module_of(value) or None}.{value.__qualname__}")  # str.upper has no module

    def _bound(self, value: Any, met: int) -> None:
        """Write a method of an object; by its name if that is one of the process, as `random.random` is."""
        named = None if is_own(type(value.__self__)) else module_method(value)
        self.parts.append(named or value.__name__)
        if named is None:
            self.put(getattr(value, "__func__", None))
            self.put(value.__self__, met)

    def _partial(self, value: Any, met: int) -> None:
        if type(value) is not partial:
            self._put_class(type(value))
        self._all((value.func, value.args, dict(sorted(value.keywords.items()))), met)
        if there := held(value):
            self.put(there, met)

    def _module(self, value: ModuleType, met: int) -> None:
        """Write a module by its name; one that only seems to be one, by what it holds."""
        self.parts.append(value.__name__)
        space = vars(value)
        if type(value) is not ModuleType and is_own(type(value)):
            self._put_class(type(value))
        made = space.get("__spec__") is None and "__file__" not in space and "__stands_for__" not in space
        if made and sys.modules.get(value.__name__) is not value:
            self.put({name: each for name, each in space.items() if not name.startswith("__")}, met)

    def _container(self, value: Any, met: int) -> None:
        kind = type(value)
        self._put_class(kind)
        self.fixed = self.fixed and is_a(value, (tuple, frozenset))
        if value is sys.modules:  # what this process has imported
            return
        if met != NAMED or not self._kept_items(value):
            self._items(value, met)
        if kind not in CONTAINERS:
            self.put(held(value), met)
            self.put(value.default_factory if is_a(value, defaultdict) else None, met)

    def _items(self, value: Any, met: int) -> None:
        self.parts.append(f"{len(value)}")
        if self._table(value):
            return
        if is_a(value, dict):  # which another thread may change meanwhile
            self._all(list(value), met, within=value)
            self._all(list(value.values()), met, within=value)
        else:
            is_set = is_a(value, (set, frozenset))
            self._all(sorted(value, key=self._apart) if is_set else value, met, within=value)

    def _kept_items(self, value: Any) -> bool:
        """Write the items of a long container as a digest that is kept; False if it is short."""
        if is_a(value, defaultdict):  # to look up in it is to change it
            return self._once(value, Writing._items)
        return len(value) > ITEMS_MAX and self._once(value, Writing._items, size=len(value))

    def _once(self, value: Any, write: Callable[[Writing, Any, int], None], *, size: int = -1) -> bool:
        """Write a digest of what *value* holds, as it was at first; False for a library's object around code."""
        items = write is Writing._items
        known = FIRST.get(value, size)
        if known is None:
            within = Writing(inline=True, shallow=True, places_max=0 if items else WITHIN_MAX)
            within.changes.shows = items
            try:
                write(within, value, WITHIN)
                known = within.digest(), within.own
            except QueryRefused:
                within.met_unknown, known = True, ("unknown", [])
            if not items and within.met_unknown:
                known = "unknown", []
            if not items and within.own:
                if known[0] == "unknown":
                    self.parts.append("unknown")
                    self._all((each for _, each in sorted(held(value).items()) if is_own(plain_function(each))), NAMED)
                return known[0] == "unknown"
            FIRST.put(value, size, known)
        self.parts.append(known[0])
        self._all(known[1], NAMED)
        return True

    def _object(self, value: Any, met: int) -> None:
        """Write an object by its class and by what it holds: its text may tell an address, or not tell it apart."""
        facts = self.facts_of(value)
        kind, own = facts.kind, facts.own
        self._put_class_of(value)
        if is_a(value, Enum):
            self._all((value.name, value.value))
            if own:
                self.put({name: each for name, each in held(value).items() if name[0] != "_"})
            return
        self.fixed = False
        if is_a(value, BaseException):
            self.put(value.args)
            if own:  # a library's attributes, and private ones, tell where it was raised and stored
                self.put({name: each for name, each in held(value).items() if name[0] != "_"})
        elif own or defines(kind, "__dataclass_fields__"):
            there = facts.held(value)
            self.put(there, met)
            if not there or (own and facts.derives):
                self.put_made(content(value), met)
        elif module_of(kind).partition(".")[0] in BY_TEXT:
            self.parts.append(without_addresses(value))
        else:  # a text says only a part of it: rows of a table are left out, and what a model has learnt
            self._pieces(value, met)

    def _pieces(self, value: Any, met: int) -> None:
        made = pieces(value)
        if made is UNKNOWN:
            self.met_unknown = True
            self.parts.append("unknown")
        else:
            self.put_made(made, met)

    def _named_object(self, value: Any, met: int) -> None:
        """Write an object that a function names.

        One of the user's is written by its class, and by its attributes when all code is known; a library's by what it
        holds, as it was at first, since its methods may change it: what pickle does not take is known by its class.
        """
        facts = self.facts_of(value)
        kind = facts.kind
        if facts.own or (is_a(value, RECORDS) and met == NAMED):
            self._put_class_of(value)
            self.fixed = False
            self._later.append(partial(self._attributes, value))
            if facts.own and facts.derives:
                self.put_made(content(value), met)
        elif module_of(kind).partition(".")[0] in BY_TEXT and not defines(kind, "__dataclass_fields__"):
            self._put_class(kind)
        elif met == WITHIN:
            self._object(value, met)
        else:
            self._put_class(kind)
            self.fixed = False
            if not self._once(value, Writing._object):
                self._object(value, WITHIN)

    def _function(self, function: FunctionType, met: int) -> None:
        self.parts.append(function.__qualname__)
        if among := dispatched(function):
            for kind, each in among:
                self._all((kind, each), NAMED)
            self._all(attributes_of(function))
            return
        around = is_around_own(function)
        if not around and not is_own_code(function):
            self.parts.append(module_of(function) or "None")
            if not met and not is_found(function):
                self.parts.append(code_digest(function.__code__))
                self._all(given(function))
            return
        if self.shallow:
            self.own.append(function)
        if around:
            self.parts.append(f"{function.__globals__.get('__name__')}.{function.__code__.co_qualname}")
            for each in given(function):  # what a library's decorator keeps, as a cache, may change
                if type(each) not in (list, dict, set) or not self._once(each, Writing._items):
                    self.put(each)
        else:
            self.parts.append(code_digest(function.__code__))
            self._all(given(function))
        if function.__dict__:
            self._all(attributes_of(function))
        if around:
            self.put(getattr(function, "__wrapped__", None))
        elif not self.shallow:
            self._root(function)

    def _apart(self, value: Any) -> str:
        """Return by what the elements of a set are put in order: another process has them in another.

        *Raises* `RecursionError` for sets in too many sets, each of which has all in it written once more.
        """
        if self.sets >= SETS_MAX:
            raise RecursionError(f"more than {SETS_MAX} sets stand in one another")
        writing = Writing(shallow=True)
        writing.sets = self.sets + 1
        writing.put_made(value)
        return writing.digest()

    def _class(self, kind: type) -> None:
        self.parts.append(path_of(kind))
        if is_own(kind):
            self.own.append(kind) if self.shallow else self._root(kind)

    def _root(self, root: FunctionType | type) -> None:
        self.reach(root) if self.inline else self._roots.append(root)


class Reach(NamedTuple):
    """What was written of what a function or class reaches by name, and what its code changes."""

    kept: Any
    writing: Writing
    text: str


class Reaches:
    """What was written of what functions reach by name, for as long as the names mean the same."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], Reach] = {}

    def of(self, roots: list[FunctionType | type]) -> list[Reach]:
        """Write what *roots* reach by name: what one of them changes is no data of another."""
        found = [self._reach(root) for root in roots]
        if len(found) > 1:
            changes = Changes()
            for each in found:
                changes.add(each.writing.changes)
            for place, each in enumerate(found):
                if not each.writing.is_settled(changes):
                    found[place] = written(roots[place], changes)
        return found

    def _reach(self, root: FunctionType | type) -> Reach:
        space = root.__globals__ if is_a(root, FunctionType) else {}
        kept: Any = root.__code__ if is_a(root, FunctionType) else root
        key = (id(kept), id(space) if space else 0)
        there = self.known.get(key)
        if there is not None and there.writing.holds:
            return there
        reach = written(root, Changes())
        if reach.writing.fixed:
            if len(self.known) >= REACHES_MAX:
                self.known.clear()
            self.known[key] = reach
        return reach


def written(root: FunctionType | type, changes: Changes) -> Reach:
    """Write what *root* reaches, again if code that was met late changes what was written before."""
    while True:
        writing = Writing(inline=True, changes=changes)
        if is_a(root, FunctionType):
            changes.note_at_once(root)
        if is_a(root, type):  # a stored function is not the one that its class has
            writing.know(root)
        writing.reach(root)
        text = writing.digest()
        if writing.is_settled(changes):
            writing.forget()
            return Reach((root, root.__globals__ if is_a(root, FunctionType) else None), writing, text)


REACHES = Reaches()
