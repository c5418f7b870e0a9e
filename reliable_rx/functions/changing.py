"""What all the code at hand sets and changes while it is used: no such data say which query it is.

It is asked of all that is reached, not of each function alone: a table that one function fills is read by another.
Rejected: to leave out whatever is mutable (an edited table would be no edit).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dis import get_instructions
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from reliable_rx.class_of import is_a
from reliable_rx.functions.plain_reads import plain_reads
from reliable_rx.functions.reach import (
    INITS,
    assigned,
    globals_of,
    is_flat,
    is_mutable,
    is_own,
    methods,
    mutates,
    names_of,
)

SHOWS = frozenset((
    "vars", "__dict__", "asdict", "astuple", "replace", "fields", "copy", "deepcopy", "dumps", "eval", "exec",
    "__getstate__", "__reduce_ex__", "pformat", "pprint", "format_map",
))  # fmt: skip
"""Names by which code may read attributes that it does not name."""
ASKING = frozenset(("globals", "vars", "eval", "exec", "compile", "__globals__"))
"""Names by which code may read globals that it does not name."""
WORD = re.compile(r"[^\W\d]\w*")
STORES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL"))


class Changes:
    """Which attributes some code reads, and which names it sets, or may change what stands under them."""

    def __init__(self) -> None:
        self.wanted = set[str]()
        self.shows = False
        """Whether attributes may be read that are not named."""
        self.assigned, self.stored = set[str](), set[str]()  # attributes and globals; globals only
        self.changed, self.beside, self.escaping = set[str](), set[str](), set[str]()
        self.mutates = False
        self.methods: dict[FunctionType, set[str]] = {}
        """Functions that are reached by way of a class, by their names there: what none names is not run."""
        self._idle: dict[FunctionType, None] = {}
        self._noted: dict[FunctionType, None] = {}

    def note(self, function: FunctionType) -> None:
        """Note what *function* does, if it is no method that nothing names."""
        if function not in self._noted:
            self._idle[function] = None
            self._wake()

    def note_at_once(self, function: FunctionType) -> None:
        """Note what *function* does, and what the methods do that it names."""
        self._idle.pop(function, None)
        if function not in self._noted:
            self._noted[function] = None
            self._note(function)
        self._wake()

    def _wake(self) -> None:
        """Note what the methods do that are named by now."""
        while named := [each for each in self._idle if self._is_named(each)]:
            for function in named:
                del self._idle[function]
                self._noted[function] = None
                self._note(function)

    def _is_named(self, function: FunctionType) -> bool:
        names = self.methods.get(function)
        return names is None or self.shows or not self.wanted.isdisjoint(names)

    def _note(self, function: FunctionType) -> None:
        """Note what a function does; of what makes an object, only what it does to globals."""
        code = function.__code__
        names = frozenset(names_of(function))
        self.stored |= stored(code)
        if function.__name__ in INITS:
            names &= frozenset(globals_of(code))
        else:
            self.wanted |= names | texts(code)
            self.shows = self.shows or shows(code)
            self.assigned |= assigned(code)
        read = plain_reads(code)
        if mutates(code):
            self.mutates = True
            self.beside |= names
            self.changed |= names - read
        else:
            self.escaping |= names - read

    def add(self, other: Changes) -> None:
        """Add what other code does."""
        for mine, its in zip(self._sets(), other._sets(), strict=True):
            mine |= its
        self.shows, self.mutates = self.shows or other.shows, self.mutates or other.mutates
        self.methods.update(other.methods)
        self._noted.update(other._noted)
        self._idle.update((each, None) for each in other._idle if each not in self._noted)
        self._wake()

    def _sets(self) -> tuple[set[str], ...]:
        return self.wanted, self.assigned, self.stored, self.changed, self.beside, self.escaping

    def binds(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the globals that some code sets: the namespace of its module, and the name."""
        for function in self._noted:
            for name in stored(function.__code__):
                yield function.__globals__, name

    def wants(self, name: str) -> bool:
        """Whether some code may read an attribute."""
        return self.shows or name in self.wanted

    def changes(self, path: str | None, key: str, value: Any) -> bool:
        """Whether what stands under *key* may change: a global, to which *path* leads, or an attribute (None)."""
        is_set = key in self.assigned if path is None else self.rebinds(path, key, value)
        return is_set or self.alters(key, value)

    def rebinds(self, path: str, key: str, value: Any) -> bool:
        """Whether some code gives a global, to which *path* leads, another value."""
        is_set = key in self.stored or (path != key and key in self.assigned)
        return is_set and not is_a(value, (FunctionType, type))

    def alters(self, name: str, value: Any) -> bool:
        """Whether *value*, which stands under *name*, may be a cache or a count."""
        if not is_mutable(value):
            return False
        if name in self.changed or (self.mutates and name in self.escaping):
            return True
        return (name in self.beside and not is_flat(value)) or changes_itself(type(value))


def changes_itself(kind: type) -> bool:
    """Whether a container of the user's may change also where it is read, as one that fills what is missing."""
    own = [each for base in kind.__mro__ if is_own(base) for _, each in methods(base)]
    return any(is_a(each, FunctionType) and each.__name__ not in INITS and mutates(each.__code__) for each in own)


@lru_cache(maxsize=4096)
def stored(code: CodeType) -> frozenset[str]:
    """Return the globals that *code* sets."""
    names = {each.argval for each in get_instructions(code) if each.opname in STORES}
    return frozenset(names).union(*(stored(each) for each in code.co_consts if is_a(each, CodeType)))


@lru_cache(maxsize=4096)
def texts(code: CodeType) -> frozenset[str]:
    """Return the texts in *code* that may name an attribute, as for `getattr` and in a pattern of `match`."""
    found = set[str]()
    waiting: list[Any] = list(code.co_consts)
    while waiting:
        at = waiting.pop()
        if is_a(at, str) and at.isidentifier():
            found.add(at)
        elif is_a(at, (tuple, frozenset)):
            waiting += at
        elif is_a(at, CodeType):
            found |= texts(at)
    return frozenset(found)


def asked_for(function: FunctionType) -> list[str]:
    """Return the globals that *function* may ask for by a text."""
    found = asked_texts(function.__code__)
    return sorted(found & function.__globals__.keys()) if found else []


@lru_cache(maxsize=4096)
def asked_texts(code: CodeType) -> frozenset[str]:
    """Return the names in texts of code that runs texts, or looks up globals by them."""
    inner = [asked_texts(each) for each in code.co_consts if is_a(each, CodeType)]
    if ASKING.isdisjoint(code.co_names):
        return frozenset[str]().union(*inner)
    found = {name for each in code.co_consts if is_a(each, str) for name in WORD.findall(each)}
    return frozenset(found).union(texts(code), *inner)


@lru_cache(maxsize=4096)
def shows(code: CodeType) -> bool:
    """Whether *code* may read attributes that it does not name."""
    if not SHOWS.isdisjoint(code.co_names):
        return True
    if any(each.opname == "MATCH_CLASS" and each.arg for each in get_instructions(code)):  # by position
        return True
    return any(shows(each) for each in code.co_consts if is_a(each, CodeType))
