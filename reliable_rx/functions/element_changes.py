"""Which functions change, in place, the elements that they are given, and where.

`reach.mutates` asks whether code may change some container, since what may be a cache is no constant. Here the question
is about one object, and the answer is shown to a user, so it must be certain: `element_reader` follows the parameter
through the byte code, and what it is handed to is read too if it is a function of the user's. What a method of the
element's own class does to it is not known here. Rejected: to compare each element before and after (it is the hottest
path there is).
"""

from __future__ import annotations

import builtins
import heapq
import operator
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from reliable_rx.class_of import attribute_of, is_a
from reliable_rx.functions.code_names import empty
from reliable_rx.functions.element_items import CELL, Change, Given, Place
from reliable_rx.functions.element_reader import read
from reliable_rx.functions.reach import is_own, plain_function
from reliable_rx.operators.contract.arguments import wrapped

FIRST = frozenset(map(id, (
    setattr, delattr, operator.setitem, operator.delitem, heapq.heappush, heapq.heappop, heapq.heapify,
    heapq.heapreplace, heapq.heappushpop,
)))  # fmt: skip
"""Functions that change their first argument."""
DEPTH_MAX = 4
CALLS_MAX = 1000
"""So many functions are read at most."""
WAYS_MAX = 8
"""In so many ways a function is given the element: one that calls itself has as many as it has arguments, and more."""


def changes_of(function: Any, places: Iterable[int] = (0,), *, is_unused: bool = False) -> list[Change]:
    """Return where *function* changes what it is given at *places*; *is_unused*: nobody looks at what it returns.

    >>> def gross(row): row["price"] *= 1.2; return row
    >>> def net(row): row = dict(row); row["price"] /= 1.2; return row
    >>> [each.how for each in changes_of(gross)], changes_of(net)
    (["row['price'] = ..."], [])
    """
    first = Called(function, tuple((place, 0) for place in places))
    waiting, seen, found = deque([(first, 0)]), {first.key}, dict[Change, None]()
    ways = Counter[int]()
    for _ in range(CALLS_MAX):
        if not waiting:
            break
        called, depth = waiting.popleft()  # those that are called first: so each is read where it is nearest
        changes, calls = _read(called, is_unused=is_unused and called is first)
        found.update(dict.fromkeys(changes))
        for each in calls if depth < DEPTH_MAX else ():
            if each.key not in seen and ways[id(each.function)] < WAYS_MAX:
                ways[id(each.function)] += 1
                seen.add(each.key)
                waiting.append((each, depth + 1))
    return list(found)


class Called(NamedTuple):
    """A function, and where it is given the element or a part of it."""

    function: Any
    given: tuple[tuple[Place, int], ...]
    spread: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return id(self.function), self.given, self.spread


def _read(called: Called, *, is_unused: bool) -> tuple[Iterable[Change], list[Called]]:
    """Return what a function changes itself, and what it hands the element to."""
    function, before = function_of(called.function)
    if function is None:
        return (), []
    names = parameters(function.__code__, called.given, called.spread, before)
    changes, calls = read(function.__code__, names, is_unused) if names else ((), ())
    found, further = list(changes), list[Called]()
    for each in calls:
        onward = _named(function, each.path)
        if id(onward) in FIRST and (0 in [place for place, _ in each.given]):
            found.append(each.change)
        elif is_a(own := function_of(onward)[0], FunctionType) and is_own(own):
            further.append(Called(onward, tuple(each.given), each.spread))
    return found, further


def function_of(value: Any) -> tuple[FunctionType | None, int]:
    """Return the function of Python's that a call of *value* runs, and how many arguments it is given before others."""
    before = 0
    for _ in range(DEPTH_MAX):
        value = plain_function(value)
        if is_a(value, FunctionType):
            return value, before
        if is_a(value, MethodType):
            value, before = value.__func__, before + 1
        elif is_a(value, partial):
            value, before = value.func, before + len(value.args)
        elif is_a(value, type):
            return None, 0
        elif (within := wrapped(value)) is not None:
            value = within
        else:
            value, before = attribute_of(type(value), "__call__"), before + 1
    return None, 0


def parameters(code: CodeType, given: Sequence[tuple[Place, int]], spread: int | None, before: int) -> Given:
    """Return the names under which *code* knows what it is given."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    places = [(place + before if isinstance(place, int) else place, depth) for place, depth in given]
    found: dict[str, int] = {}
    for place, depth in places:
        if isinstance(place, str):
            found.update({place: depth} if place in names else {})
        elif place < code.co_argcount:
            found[names[place]] = depth
    if spread is not None:
        found.update((name, spread + 1) for name in names[before : code.co_argcount])
    return tuple(found.items())


def _named(function: FunctionType, path: tuple[str, ...]) -> Any:
    """Return what *path* leads to for the code of *function*; None if that is not known."""
    name, *rest = path
    if name == CELL:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cell = cells.get(rest.pop(0))
        found = None if cell is None or empty(cell) else cell.cell_contents
    else:
        found = function.__globals__.get(name, vars(builtins).get(name))
    for each in rest:
        found = vars(found).get(each) if is_a(found, ModuleType) else None
    return plain_function(found)
