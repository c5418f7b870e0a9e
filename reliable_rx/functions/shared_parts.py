"""Shared parts that functions reach: whoever makes one outside of a selector has it shared by all that this makes.

Where a selector is called at planning, what it returns says which shared parts it reads, and their numbers which of
these it has made itself. Others are looked for: in closures, defaults, globals, partials and containers, and for what
is not called at planning also in all else that a function may name. What is found by neither belongs to one inner
sequence if a query at work has made it, and is refused if not (`Claims`): another process has another one in its place
and does not know who has read it. Rejected: to look for all of them in all that is held (an app holds every stream, and
a query would subscribe to each), to let pass what comes with an event (two may bring one), and to share it from then on
(it would be placed at an event, and by another one after a kill).
"""

from __future__ import annotations

from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Container, Iterator, Sequence
from functools import _lru_cache_wrapper, cached_property, lru_cache, partial
from gc import get_referents
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from reliable_rx.class_of import derives_from, ids_of, is_a, space_of
from reliable_rx.errors import QueryRefused
from reliable_rx.functions.code_names import empty, named
from reliable_rx.functions.reach import globals_of, is_own, is_own_code
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query.query import Node, Query, hubs_of, parameters, walk
from reliable_rx.runtime.hub import hubs_made

if TYPE_CHECKING:
    from reliable_rx.runtime.plan import Plan

DEPTH_MAX, LOOKED_MAX, ITEMS_MAX, SPACES_MAX = 8, 3000, 1000, 300
"""How deep closures are followed at each inner query.

At planning: how much is looked at, in containers of how many, and in how many objects by names."""
SIZED: dict[type[Any], int] = {
    **dict.fromkeys((dict, tuple, list, deque), ITEMS_MAX),
    **dict.fromkeys((set, frozenset), 1),
}
"""Containers with how much they may hold; a set has its parts in another order in each process."""
VIEWS: tuple[type[Any], ...] = (MappingProxyType, *map(type, ({}.keys(), {}.values(), {}.items())))
AROUND = (*VIEWS, BuiltinMethodType, MethodWrapperType)
"""Views of a container, and its methods."""
WRAPPERS = (UserDict, UserList, ChainMap)
"""What holds containers under names of its own."""
ATOMS = ids_of((int, float, str, bytes, bool, type(None)))
CALLED = ("__call__", "__getattr__", "__getitem__")
"""What is run of an object's class though no code names it."""
MADE_OUTSIDE = (
    "{} was made outside of the query, and is not found in what its functions hold: hold it in a variable, a list, a "
    f"deque or a dict of at most {ITEMS_MAX:,}, or in an attribute that one of them names, or make it anew at each "
    "call, in its thread or its tasks; an event cannot bring it, nor can a pool of threads"
)
READ_BY_OTHERS = (
    "{} was made when a function was called with an element, and other elements read it, too: make "
    "it before create() and outside of all functions, or anew at each call"
)


def shared_within(op: Operator) -> Iterator[Node]:
    """Yield the shared parts that the functions among the parameters of *op* reach by ways that are quick to follow.

    A selector will read them, or an operator further on, if what the function returns are queries: they are elements.
    """
    for value in parameters(op).values():
        yield from reached(value, 0)


def reached(value: Any, depth: int) -> Iterator[Node]:
    """Yield the shared parts that can be reached from *value* through closures, globals, partials and containers."""
    if depth > DEPTH_MAX:
        return
    within: list[Any] = []
    if derives_from(value, Query):
        yield from hubs_of(value.node).values()
    elif is_a(value, FunctionType):
        within = [cell.cell_contents for cell in value.__closure__ or () if not empty(cell)]
        within += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        within += [each for name in named(value.__code__) if derives_from(each := value.__globals__.get(name), Query)]
    elif is_a(value, partial):
        within = [value.func, *value.args, *value.keywords.values()]
    elif is_a(value, (tuple, list)):
        within = each_once(value)
    for each in within:
        yield from reached(each, depth + 1)


def each_once(values: Sequence[Any]) -> list[Any]:
    """Return *values* without repetitions: a list may hold one list many times, which may do so too."""
    return list({id(each): each for each in values}.values())


def shared_anywhere(op: Operator) -> list[Node]:
    """Return the shared parts that the functions among the parameters of *op* reach by any name that they use."""
    return Search([*parameters(op).values()]).shared() if hubs_made() else []


class Claims:
    """The shared parts that inner sequences of one query have to themselves, each of them one sequence alone.

    They were made at events, when the plans around were placed already. A part that two read is to be one for both, so
    that the query is refused: at the first sequence if a function around has come to hold the part or the program
    around has made it, and at the second one in any case.
    """

    def __init__(self) -> None:
        self.claimed = WeakValueDictionary[str, Operator]()
        self.looked = set[str]()
        """The places where it was looked for what functions hold."""

    def add(self, plan: Plan, *, is_restored: bool) -> None:
        """Claim the parts of *plan* for one sequence. *Raises* `QueryRefused` if others read them, or will."""
        parts = {node.op.token: node for node in plan.parts}  # type: ignore[attr-defined]
        for node in plan.parts if not is_restored else ():
            if not node.op.is_by_query:  # type: ignore[attr-defined]
                raise QueryRefused(MADE_OUTSIDE.format(node.path), path=node.path)
        read = [parts[each] for each in parts if each in self.claimed]
        looks = not is_restored and plan.prefix not in self.looked
        read += [parts[each] for each in held_around(plan) if each in parts] if looks else []
        if read:
            raise QueryRefused(READ_BY_OTHERS.format(read[0].path), path=read[0].path)
        self.looked.update([plan.prefix] if looks else [])
        self.claimed.update((token, node.op) for token, node in parts.items())


def held_around(plan: Plan) -> Iterator[str]:
    """Yield the tokens of the shared parts that functions around *plan* hold by now."""
    around, values = plan.around, list[Any]()
    while around is not None:
        values += [value for each in walk(around.query) for value in parameters(each.op).values()]
        around = around.around
    return (each.op.token for each in Search(values, cached=True).shared())  # type: ignore[attr-defined]


def check_waiting(plan: Plan, tokens: Container[str]) -> None:
    """*Raises* `QueryRefused` if the functions of *plan* hold a part of *tokens*, which elements in its state read.

    Each process makes one of its own for the elements that come behind a start, unless the part is placed.
    """
    nodes = [*plan.walk()]
    values = [value for node in nodes for value in parameters(node.op).values()]
    for each in Search(values, cached=True).shared():
        token = each.op.token  # type: ignore[attr-defined]
        if token in tokens and not any(node.plan.has_hub(token) for node in nodes):
            raise QueryRefused(READ_BY_OTHERS.format("a shared part that elements wait for"), path=nodes[0].path)


class Search:
    """Follows whatever functions hold and name, objects and modules by those names only that some function uses.

    With *cached*, also what `lru_cache` keeps, which is not stored with a function.
    """

    def __init__(self, values: list[Any], *, cached: bool = False) -> None:
        self.waiting = deque(values)
        self.cached = cached
        self.seen: dict[int, Any] = {}
        self.names: dict[str, None] = {}
        self.spaces: list[Any] = []
        """Objects, classes and modules, of which what is named is followed."""
        self.looked: dict[int, int] = {}
        self.found: dict[str, Node] = {}

    def shared(self) -> list[Node]:
        """Return what is found, by where it is met first."""
        while self.waiting or self._look_at_names():
            value = self.waiting.popleft()
            if id(type(value)) in ATOMS or id(value) in self.seen or len(self.seen) > LOOKED_MAX:
                continue
            self.seen[id(value)] = value
            self._follow(value)
        return list(self.found.values())

    def _look_at_names(self) -> bool:
        """Follow what all spaces have under the names that have come since."""
        names = list(self.names)
        for space in self.spaces:
            known = self.looked.get(id(space), 0)
            self.waiting += [each for name in names[known:] for each in values_of(space, name)]
            self.looked[id(space)] = len(names)
        return bool(self.waiting)

    def _follow(self, value: Any) -> None:
        if derives_from(value, Query):
            self.found.update(hubs_of(value.node))
            self.waiting += [each for node in walk(value.node) for each in parameters(node.op).values()]
        elif is_a(value, FunctionType):
            self._follow_function(value)
        elif is_a(value, MethodType):
            self.waiting += [value.__func__, value.__self__]
        elif is_a(value, partial):
            self.waiting += [value.func, *value.args, *value.keywords.values()]
        elif is_a(value, _lru_cache_wrapper):
            self.waiting += get_referents(value) if self.cached else [value.__wrapped__]
        elif is_a(value, (staticmethod, classmethod)):
            self.waiting.append(value.__func__)
        elif is_a(value, (property, cached_property)):
            self.waiting.append(value.fget if is_a(value, property) else value.func)
        else:
            self.waiting += items_of(value)
        if len(self.spaces) < SPACES_MAX and not is_a(value, (Query, FunctionType, MethodType)):
            self._add_space(value)

    def _add_space(self, value: Any) -> None:
        kind = value if is_a(value, (type, ModuleType)) else type(value)
        if is_own(kind):
            self.spaces.append(value)
            self.waiting += [each for name in CALLED for each in values_of(type(value), name)]
        elif kind is not value and held_by_name(value):
            self.spaces.append(value)

    def _follow_function(self, function: FunctionType) -> None:
        self.waiting += [cell.cell_contents for cell in function.__closure__ or () if not empty(cell)]
        self.waiting += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        self.waiting += vars(function).values()
        if is_own_code(function):
            self.names.update(dict.fromkeys(names_in(function.__code__)))
            space = function.__globals__
            self.waiting += [space[name] for name in globals_of(function.__code__) if name in space]


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> tuple[str, ...]:
    """Return the names that *code* uses, and its texts that could be names."""
    texts = [each for each in code.co_consts if type(each) is str and each.isidentifier()]
    within = [names_in(each) for each in code.co_consts if is_a(each, CodeType)]
    return tuple(dict.fromkeys((*code.co_names, *texts, *(name for each in within for name in each))))


def items_of(value: Any) -> list[Any]:
    """Return what a container or a view of one holds, if that is not too much."""
    if is_a(value, WRAPPERS):
        return [*held_by_name(value).values()]
    kind = next((each for each in SIZED if is_a(value, each)), None)
    follows = is_a(value, AROUND) if kind is None else kind.__len__(value) <= SIZED[kind]
    return get_referents(value) if follows else []


def values_of(space: Any, name: str) -> list[Any]:
    """Return what an object has under *name*, of its own or by its class, without running any code."""
    own = held_by_name(space)
    held = [own[name]] if name in own else []
    kinds = type.__dict__["__mro__"].__get__(space if is_a(space, type) else type(space))
    for kind in kinds if not is_a(space, ModuleType) else ():
        value = space_of(kind).get(name)
        if is_a(value, MemberDescriptorType) and not is_a(space, type):
            try:
                held.append(value.__get__(space))
            except AttributeError:
                continue
        elif value is not None:
            held.append(value)
    return held


def held_by_name(value: Any) -> dict[str, Any]:
    """Return the attributes of a module or an object that are its own."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if is_a(held, dict) else {}
