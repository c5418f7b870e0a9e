"""Classes in whose place another one has come: their cell was run again, or their module was reloaded.

Where a query is created again behind that, what its state holds of them goes over to the new ones: its values go by
name then, to be read as of these. All others, also in queries that are not created again, are stored by their code: a
replay then has two classes as the first run had.
Known is what a module had in its place when it was looked at before, also within classes: a function may come to a
class by a table, a default or an attribute, and an element is of one that no function names. Rejected: asking only
whether the name leads to another class (two classes of one name, of which neither ever had the place of the other, are
ordinary: a class below its namesake, records made from a header, a plugin, a mock), and knowing only the classes that
functions name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from types import ModuleType
from typing import Any
from weakref import ref

from reliable_rx.class_of import is_a, module_of, qualname_of, space_of
from reliable_rx.functions.reach import is_own

CLASSES_MAX = 2000
"""How many classes of a module are known."""
_GOING_OVER: dict[int, type] = {}
"""Classes whose values go over now, by id; a class may have no hash."""
_PLACES: dict[str, _Places] = {}


class _Places:
    """Which classes a module had where, and how often some were replaced."""

    __slots__ = ("generation", "gone", "kinds", "shape")
    times = 0
    """How often classes of any module were replaced."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, ...], ref[type]] = {}
        self.gone: list[ref[type]] = []
        """Those in whose place others are."""
        self.generation = 0
        self.shape: Any = None
        """Of what namespace, with how many names, and which was the last that came."""


def generation_of(module: str) -> int:
    """Return how often classes of *module* have been seen to have others in their place.

    While it is the same, values that a query has of these classes are of those that its functions come to.
    """
    found = sys.modules.get(module)
    if not is_a(found, ModuleType):
        return 0
    space = vars(found)
    places = _PLACES.setdefault(module, _Places())
    if places.shape is not None and places.shape[0]() is not found:  # another module of this name, as a new kernel has
        places.kinds = {}
    gone = [
        kind for path, kept in places.kinds.items() if (kind := kept()) is not None and _at(space, path) is not kind
    ]
    shape = (ref(found), len(space), next(reversed(space), ""))
    if gone or shape != places.shape:
        others = [ref(kind) for kind in gone if _has_another(kind)]
        places.gone += others
        places.generation += bool(others)
        _Places.times += bool(others)
        places.kinds = {path: ref(kind) for (path, kind), _ in zip(_kinds(space), range(CLASSES_MAX), strict=False)}
        places.shape = shape
    return places.generation


def are_any() -> bool:
    """Whether any class is known in whose place another one has come."""
    return any(places.gone for places in _PLACES.values())


def times_replaced() -> int:
    """Return how often classes have been seen to have others in their place, in all modules."""
    return _Places.times


@contextmanager
def going_over(modules: Iterable[str]) -> Iterator[None]:
    """Have values of classes of *modules* that have others in their place go by name, to be read as of these."""
    for places in filter(None, map(_PLACES.get, modules)):
        places.gone = [kept for kept in places.gone if kept() is not None]
        _GOING_OVER.update((id(kind), kind) for kept in places.gone if (kind := kept()) is not None)
    try:
        yield
    finally:
        _GOING_OVER.clear()


def goes_over(kind: type) -> bool:
    """Whether values of this class are to be read as of the one that has come in its place."""
    return id(kind) in _GOING_OVER and _called(kind) not in (None, kind)


def _has_another(kind: type) -> bool:
    """Whether the name of *kind*, which had a place, leads to another class now, and no other name to it."""
    found = _called(kind)
    if found is None or found is kind or qualname_of(found) != qualname_of(kind):
        return False
    return all(each is not kind for each in list(vars(sys.modules[module_of(kind)]).values()))


def _kinds(space: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], type]]:
    waiting: list[tuple[tuple[str, ...], type]]
    waiting = [((name,), each) for name, each in list(space.items()) if is_a(each, type) and is_own(each)]
    while waiting:
        path, kind = waiting.pop()
        yield path, kind
        within = f"{qualname_of(kind)}."
        waiting += [
            ((*path, name), each)
            for name, each in list(space_of(kind).items())
            if is_a(each, type) and qualname_of(each) == within + name
        ]


def _at(space: dict[str, Any], path: tuple[str, ...]) -> Any:
    found = space.get(path[0])
    for name in path[1:]:
        found = space_of(found).get(name) if is_a(found, type) else None
    return found


def _called(kind: type) -> type | None:
    """Return the class that the name of *kind* leads to now."""
    module = sys.modules.get(str(module_of(kind)))
    try:
        found = attrgetter(str(qualname_of(kind)))(module)
    except Exception:  # a module may answer as it likes
        return None
    return found if is_a(found, type) else None
