"""Fingerprint of a source's definition: its code and its data apart, and the names of both.

*Code* is every function and class that a function of the source reaches, and what the source is given that is no
function (columns, a format). *Data* is what functions and objects hold or name besides: globals, closure cells,
defaults, attributes. Code says what the app is; data may be another at each start of an app that nobody has edited: the
id of a run, a time. Code is a set, by name: how much data there are, and in which order, leaves it as it is.

A function is compared as this process read it first, too: it may reach more once records were read (a registry that a
plugin fills), and a partition that is opened late has the same source as the first one.

Rejected: one hash of both (an unchanged app with ``RUN = uuid4().hex`` in a line of its log was refused behind a kill).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, NamedTuple

from checkpoint.format.code import makers
from hosting.sources.code_texts import texts_of
from hosting.sources.constants import CONSTANTS, constants_of, held_by
from hosting.sources.definition import definition_of
from reliable_rx.class_of import bases_of, is_a, module_of, path_of, qualname_of, space_of
from reliable_rx.functions.changing import Changes
from reliable_rx.functions.code_digest import code_digest, joined
from reliable_rx.functions.contents import Content
from reliable_rx.functions.reach import GETTERS, assigned, is_own, is_own_code, methods, plain_function
from reliable_rx.interrupts import let_through
from reliable_rx.query.canonical_text import NAMED
from reliable_rx.query.identity import Writing, hash_of
from reliable_rx.reliable import Source

FORMAT = 3
KNOWN_MAX = 1000
NAMES_MAX = 100
PLACES_MAX = 10_000
TEXTS_MAX = 100
"""Of a class whose code stands in more, its digest alone says whether it was edited."""
SHORT = 12
"""Of a digest by which only a name is told, so many digits."""
CODE = (FunctionType, type, BuiltinFunctionType)


class Fingerprint(NamedTuple):
    """What is stored of a source's definition."""

    made_by: str
    parts: Mapping[str, tuple[str, str]]
    """By part: a digest of its code, and one of its code and data."""
    code: Mapping[str, str]
    data: Mapping[str, str]
    """Short digests by name, for people."""
    numbering: Mapping[str, str] = MappingProxyType({})
    """By part: a digest of what decides which id an event has, with a word before it that says how it compares."""


Versions = tuple[Fingerprint, ...]
"""The fingerprint of the start of a run, and the one since the last redefinition, if there was any."""


class Part(NamedTuple):
    """What is known of one part of a definition, and the names that it was found under."""

    digests: tuple[str, str]
    made_with: str
    """A digest of its code and of the constants that this is made with."""
    code: Mapping[str, str]
    data: Mapping[str, str]
    content: Content | None


class Difference(NamedTuple):
    """The parts of a source that differ, and the names of what differs in them."""

    parts: tuple[str, ...]
    names: tuple[str, ...]
    is_code: bool
    is_late: bool = False
    """Whether it is the code of the start of the run, and was defined anew while that ran."""

    @property
    def refuses(self) -> bool:
        """Whether no turn may be read again."""
        return self.is_code and not self.is_late


class Known(NamedTuple):
    """A part of a definition as it was read first in this process, and last."""

    value: Any
    """Kept alive, so that no other one has its address."""
    first: Part
    last: Part
    writing: Writing | None
    """None if it may change while all names mean the same."""

    @property
    def holds(self) -> bool:
        """Whether it is known without reading it again that it is what it was last."""
        of_classes = self.writing.parts_of_classes if self.writing is not None else ()
        return (
            self.writing is not None
            and is_bound_by_itself(self.last.content)
            and all(space_of(kind).get(name) is value for kind, name, value in of_classes)
        )


KNOWN: dict[Any, Known] = {}
"""Each partition of a node has its own evaluator, and all have one source."""


def fingerprint_of(source: Source, read: Callable[[Any], Part] | None = None) -> tuple[Fingerprint, list[Content]]:
    """*Read* what the events of *source* come from, and the names that this was found under.

    What cannot be read is left out.
    """
    made, read = makers(), read or part_of
    parts, code, data = dict[str, tuple[str, str]](), dict[str, str](), dict[str, str]()
    watched = list[Content]()
    for name, value in parts_of(source).items():
        try:
            found = read(value)
        except BaseException as raised:  # what it reaches may be of any size, or raise when it is looked at
            let_through(raised)
            continue
        parts[name] = found.digests
        code.update(found.code)
        data.update(found.data)
        if found.content is not None:
            watched.append(found.content)
    by = f"{made.reliable_rx}/{made.bytecode}/{FORMAT}"
    return Fingerprint(by, parts, _first(code), _first(data)), watched


def parts_of(source: Source) -> dict[str, Any]:
    """Return what *source* is defined by, as far as it can be asked."""
    try:
        return {name: value for name, value in definition_of(source).items() if value is not None}
    except BaseException as raised:  # a source is somebody else's code
        let_through(raised)
        return {}


def _first(names: dict[str, str]) -> dict[str, str]:
    return {name: names[name] for name in sorted(names)[:NAMES_MAX]}


def part_of(value: Any) -> Part:
    """Read *value* as if a function named it: of an object, what its code reads and does not set.

    *Raises* `QueryRefused` for what reaches a million objects.
    """
    known = KNOWN.get(_key(value))
    if known is not None and known.holds:
        return known.last
    writing, found = _read(value)
    if writing.fixed or callable(value):
        if len(KNOWN) >= KNOWN_MAX:
            oldest, *_ = KNOWN
            KNOWN.pop(oldest, None)
        writing.forget()
        first = found if known is None else known.first
        KNOWN[_key(value)] = Known(value, first, found, writing if writing.fixed else None)
    return found


def first_of(value: Any) -> Part:
    """Return what *value* was when this process read it first. *Raises* as `part_of`."""
    known = KNOWN.get(_key(value))
    return part_of(value) if known is None else known.first


def begin_anew(values: Iterable[Any]) -> None:
    """Have an edit count while nothing is read: what reaches a name that was bound anew meanwhile is read as if first.

    What changes in place meanwhile may be what was read that has changed it.
    """
    for value in values:
        known = KNOWN.get(_key(value))
        if known is not None and not is_bound_by_itself(known.last.content):
            del KNOWN[_key(value)]


def _key(value: Any) -> Any:
    """Return what tells *value* from others while it is alive; a method is made anew each time it is asked for."""
    return (id(value.__func__), id(value.__self__)) if is_a(value, MethodType) else id(value)


def _read(value: Any) -> tuple[Writing, Part]:
    changes = Changes()
    while True:
        writing = Writing(inline=True, changes=changes)
        writing.put(value, NAMED)
        whole = writing.digest()
        if writing.is_settled(changes):
            break
    if not callable(value):  # it is given as it is, and named by nothing
        return writing, Part((whole, whole), whole, {}, {}, None)
    code = dict(_digests(_code_in(writing.kept)))
    bound = {(id(space), name): (space, name) for space, name in changes.binds()}
    content = Content(whole, tuple(writing.resolved), tuple(bound.values()), (), (), False)
    digest = joined(f"{name}={each}" for name, each in code.items())
    made_with = joined((digest, *sorted(set(constants_of(value, writing.kept)))))
    return writing, Part((digest, whole), made_with, code, dict(_digests(_data_in(writing))), content)


def class_digest(kind: type) -> tuple[str, frozenset[str]]:
    """Return a digest of a class: its code, what this is made with, and constants of classes that no code of it sets.

    Also return short digests of the texts that this code stands in, and of constants that may come from elsewhere. What
    a class counts, caches and registers is left out: it is another one in each process. *Raises* as `part_of`.
    """
    writing, found = _read(kind)
    own = [each for each in writing.kept if is_a(each, (FunctionType, type)) and is_own(each)]
    functions = [each for each in own if is_a(each, FunctionType)]
    kinds = [each for each in own if is_a(each, type)]
    varying = frozenset[str]().union(*(assigned(each.__code__) for each in functions))
    held = {
        f"{path_of(each)}.{name}={hash_of(value)}"
        for each in kinds
        for name, value in methods(each)
        if name not in varying and (type(value) in CONSTANTS or is_a(value, Enum))
    }
    digest = joined((found.made_with, *sorted(held)))
    texts = {joined((each,))[:SHORT] for each in held.union(texts_of(filter(is_own_code, functions), kinds))}
    return digest, frozenset(texts if len(texts) <= TEXTS_MAX else (digest,))


def is_bound_by_itself(content: Content | None) -> bool:
    """Whether all that names lead to besides what they did was bound by the code itself: a decoder made when needed."""
    if content is None:
        return False
    bound = {(id(space), name) for space, name in content.rebound}
    return all(space.get(name) is value or (id(space), name) in bound for space, name, value in content.names)


def _digests(found: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield one digest for each name, of all that go by it."""
    by_name: dict[str, set[str]] = {}
    for name, text in found:
        by_name.setdefault(name, set()).add(text)
    for name in sorted(by_name):
        yield name, joined(sorted(by_name[name]))[:SHORT]


def _code_in(kept: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield the code among what was reached: its name, and a text that tells it."""
    for each in kept:
        if is_a(each, FunctionType):
            is_theirs = not is_own_code(each)
            path = f"{module_of(each)}.{each.__code__.co_qualname}"
            yield f"{each.__qualname__}()", path if is_theirs else code_digest(each.__code__)
        elif is_a(each, type):
            yield qualname_of(each), _text_of(each)
        elif is_a(each, BuiltinFunctionType):
            yield f"{each.__qualname__}()", str(module_of(each))
        elif is_a(each, GETTERS):
            yield path_of(type(each)), hash_of(each)


def _text_of(kind: type) -> str:
    """Return what a class is besides its functions, which are code of their own, and its data."""
    if not is_own(kind):
        return path_of(kind)
    space = space_of(kind)
    inside = [f"{name}: {type(space[name]).__name__}" for name, each in methods(kind) if is_a(each, CODE)]
    return joined((path_of(kind), *map(qualname_of, bases_of(kind)), *inside))


def _data_in(writing: Writing) -> Iterator[tuple[str, str]]:
    """Yield the data that were told, by name: globals, attributes, what functions close over and have as defaults."""
    for path, key, value in writing.told:
        if not is_a(plain_function(value), CODE):
            yield path or f".{key}", _shortly(value)
    for each in writing.kept:
        if is_a(each, FunctionType) and is_own(each):
            for name, value in held_by(each):
                if not is_a(plain_function(value), CODE):
                    yield f"{name} of {each.__qualname__}()", _shortly(value)


def _shortly(value: Any) -> str:
    """Return a digest of what *value* is without what its attributes are: these go by their own names."""
    writing = Writing(inline=True, shallow=True, places_max=PLACES_MAX)
    try:
        writing.put(value, NAMED)
        return writing.digest()
    except BaseException as raised:  # it is too large, or raises when it is looked at
        let_through(raised)
        return "unknown"


def differing(stored: Fingerprint, now: Fingerprint) -> Difference | None:
    """Say what differs; nothing if the two were made by different interpreters or releases.

    >>> one = Fingerprint("1", {"parse": ("a", "a1")}, {"parse()": "a"}, {"RUN": "1"})
    >>> differing(one, one._replace(parts={"parse": ("a", "a2")}, data={"RUN": "2"}))
    Difference(parts=('parse',), names=('RUN',), is_code=False, is_late=False)
    >>> differing(one, one._replace(parts={"parse": ("b", "b1")}, code={"parse()": "b"}))
    Difference(parts=('parse',), names=('parse()',), is_code=True, is_late=False)
    >>> differing(one, one._replace(made_by="2", parts={}))
    """
    if stored.made_by != now.made_by:
        return None
    none = ("", "")
    parts = {
        name: (stored.parts.get(name, none), now.parts.get(name, none))
        for name in sorted(stored.parts.keys() | now.parts.keys())
    }
    code = tuple(name for name, (before, after) in parts.items() if before[0] != after[0])
    if code:
        return Difference(code, _other(stored.code, now.code), True)
    data = tuple(name for name, (before, after) in parts.items() if before != after)
    return Difference(data, _other(stored.data, now.data), False) if data else None


def _other(stored: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Name what differs; of long lists, of which only the first names are known, what both have."""
    is_cut = max(len(stored), len(now)) >= NAMES_MAX
    names = stored.keys() & now.keys() if is_cut else stored.keys() | now.keys()
    return tuple(sorted(name for name in names if stored.get(name) != now.get(name)))
