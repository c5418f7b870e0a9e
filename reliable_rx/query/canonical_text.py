"""A text by which a query is known: a list of parts, in which all that holds something else is written once.

It is written in the order in which it is met, and told by its number thereafter, so that depth, rings and sharing cost
nothing.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import _lru_cache_wrapper, partial
from re import Pattern
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import ref

from reliable_rx.class_of import is_a, space_of
from reliable_rx.errors import QueryRefused
from reliable_rx.functions.changing import Changes
from reliable_rx.functions.code_digest import code_digest, digest_of
from reliable_rx.functions.plain_tables import ADDRESS_MIN, LONG, table_of
from reliable_rx.functions.reach import ATOM_IDS, CONTAINER_IDS, attributes_of, is_own, plain_function
from reliable_rx.query.class_facts import KindFacts
from reliable_rx.query.live_ids import ADDRESS, LiveIds

PLACES_MAX = 1_000_000
FIRST_MAX = 10_000
BYTES_MAX = 1000
GIVEN, NAMED, WITHIN = range(3)
"""How a value was met: it was given, a function names it, or a library's object that is named holds it."""


class Text:
    """Parts, and what is still to be written."""

    def __init__(self, changes: Changes, places_max: int = 0) -> None:
        self.parts: list[str] = []
        self.places_max = places_max or PLACES_MAX
        self.changes = changes
        self.fixed = True
        """Whether what is written cannot become another text while all names mean the same."""
        self.resolved: list[tuple[dict[str, Any], str, Any]] = []
        """Where names were resolved: namespace, name, and what was found there."""
        self.parts_of_classes: list[tuple[type, str, Any]] = []
        """The same of classes: what stands in them under a name."""
        self.told: list[tuple[str | None, str, Any]] = []
        """What was written since no code changes it."""
        self.skipped = set[str]()
        """The attributes that were not written since no code reads them."""
        self._ids: LiveIds | None = None
        self._made: set[int] | None = None  # containers that a library's object is made of
        self._facts: dict[int, KindFacts] = {}
        self._places: dict[int, int] = {}
        self.kept: list[Any] = []  # what is known by its id must stay alive
        self._waiting: deque[tuple[Any, int]] = deque()
        self._later: deque[Callable[[], None]] = deque()

    def write_all(self) -> None:
        """Write what is waiting, and all that comes of it."""
        while self._waiting or self._later:
            if self._waiting:
                self._write(*self._waiting.popleft())
            else:  # by now it is known which attributes are wanted, and what is set
                self._later.popleft()()

    @property
    def holds(self) -> bool:
        """Whether all names mean what they meant when this was written."""
        return all(space.get(name) is value for space, name, value in self.resolved) and all(
            space_of(kind).get(name) is value for kind, name, value in self.parts_of_classes
        )

    def _write(self, value: Any, met: int) -> None:
        raise NotImplementedError

    def is_settled(self, changes: Changes) -> bool:
        """Whether nothing would be written in another way, now that all code is known."""
        if any(changes.wants(name) for name in self.skipped):
            return False
        return not any(changes.changes(*each) for each in self.told)

    def forget(self) -> None:
        """Let go of what was written, once it is a digest."""
        self.parts, self._places, self.kept = [], {}, []

    def know(self, root: Any) -> None:
        """Give *root* a number: it is written here, whatever refers to it."""
        self._places[id(root)] = len(self._places)

    def facts_of(self, value: object) -> KindFacts:
        """Return what is to be known of the class of *value*."""
        key = id(type(value))
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = KindFacts(value)
        return found

    def put(self, value: Any, met: int = GIVEN) -> None:
        """Write *value*: an atom at once, all else by its number. What a function names may be the world's."""
        kind = type(value)
        if kind is int:
            self.parts.append(f"int:{value:x}")
        elif kind is Pattern:  # its text is cut
            self.parts.append(f"pattern:{value.flags}:{value.pattern!r}")
        elif kind is bytes and len(value) > BYTES_MAX:
            self.parts.append(f"bytes:{digest_of(value)}")
        elif id(kind) in ATOM_IDS or (id(kind) not in CONTAINER_IDS and self.facts_of(value).is_atom):
            self.parts.append(f"{kind.__qualname__}:{value!r}")
        elif kind is CodeType:
            self.parts.append(f"code:{code_digest(value)}")
        else:
            if kind is _lru_cache_wrapper and not any(attributes_of(value)):
                value = plain_function(value)
            self._put_place(value, met)

    def _put_place(self, value: Any, met: int) -> None:
        key = id(value) if met == GIVEN or (is_a(value, (type, FunctionType)) and is_own(value)) else -id(value)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._places)
            self.kept.append(value)
            self._waiting.append((value, met))
            if place >= self.places_max:
                what = f"what a function holds reaches over {self.places_max:,} objects"
                how = "name it (lambda x: TABLE[x]), or give it plain data, or a file's name"
                raise QueryRefused(f"{what} that are no plain data; {how}", path="/")
        self.parts.append(f"#{place}")

    def put_made(self, value: Any, met: int = GIVEN) -> None:
        """Write what a library's object is made of, in which numbers and texts may be, or hold, addresses."""
        kind = type(value)
        self._ids = self._ids or LiveIds()
        self._made = set() if self._made is None else self._made
        if kind is str:
            value = self._ids.without(value)
        elif kind is int and value >= ADDRESS_MIN:
            value = ADDRESS if self._ids.has(value) else value
        elif kind is dict and (module := module_of(value)) is not None:
            value = module
        elif is_a(value, (tuple, list, dict, set, frozenset)):
            self._made.add(id(value))
        self.put(value, met)

    def _table(self, value: Any) -> bool:
        """Write the items of a long container of plain data as one digest; False if it is none."""
        is_made = self._made is not None and id(value) in self._made
        found = table_of(value, self._ids if is_made else None) if len(value) >= LONG else None
        if found is None:
            return False
        self.parts.append(found.digest)
        self.fixed = self.fixed and found.fixed
        return True

    def _all(self, values: Any, met: int = GIVEN, *, within: Any = None) -> None:
        put = self.put if self._made is None or id(within) not in self._made else self.put_made
        for each in values:
            put(each, met)


def module_of(space: dict[Any, Any]) -> ModuleType | None:
    """Return the module whose namespace a dict is: the names of its file, its caches and all else are in it.

    >>> module_of(vars(sys)) is sys, module_of({"__name__": "sys"})
    (True, None)
    """
    name = space.get("__name__")
    module = sys.modules.get(name) if is_a(name, str) else None
    return module if getattr(module, "__dict__", None) is space else None


class First:
    """Digests of what may change while it is used, as it was when it was met first, for as long as it lives."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Callable[[], Any], int, tuple[str, list[Any]]]] = {}

    def get(self, value: Any, size: int) -> tuple[str, list[Any]] | None:
        there = self.known.get(id(value))
        return there[2] if there is not None and there[0]() is value and there[1] == size else None

    def put(self, value: Any, size: int, known: tuple[str, list[Any]]) -> None:
        if len(self.known) >= FIRST_MAX:
            self.known.clear()
        try:
            alive: Callable[[], Any] = ref(value)
        except TypeError:
            alive = partial(_same, value)
        self.known[id(value)] = (alive, size, known)


def _same(value: Any) -> Any:
    return value


FIRST = First()
