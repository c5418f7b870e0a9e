"""Which functions of a plan remember something from one call to the next, outside of any state that a host keeps.

A set at the top of a module, a default that is a dict, an attribute of a callable object: no checkpoint has them, and a
replay finds them empty, or filled already. `element_reader` follows such an object through the byte code as it follows
an element. What `functools.lru_cache` keeps, a library, or a method of the object's own class, is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dis import get_instructions
from functools import _lru_cache_wrapper
from itertools import pairwise
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from reliable_rx.class_of import is_a
from reliable_rx.code_names import empty
from reliable_rx.element_changes import function_of
from reliable_rx.element_items import Change
from reliable_rx.element_reader import read
from reliable_rx.plan import Plan
from reliable_rx.query import SourceLeaf
from reliable_rx.reach import MUTATORS, READERS_MAX, globals_of, is_mutable, is_own, reached
from reliable_rx.shared_elements import functions_of

FOR_EFFECTS = frozenset(("next_action", "coroutine"))
"""Parameters whose functions are there for effects: what they remember decides no output."""
LOADS = frozenset(("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST"))
KEPT = {"STORE_GLOBAL": "global", "STORE_DEREF": "nonlocal"}


class Memory(NamedTuple):
    """A function that remembers something: where it stands, and the first place that changes it."""

    path: str
    parameter: str
    change: Change


def memories(plan: Plan) -> list[Memory]:
    """Return the functions of *plan*, the user's own, that change what they find again at their next call."""
    found = []
    for node in plan.walk():
        for name, function, _, places in () if isinstance(node.op, SourceLeaf) else functions_of(node.op):
            change = None if name in FOR_EFFECTS else next(_changes(function, len(places), set()), None)
            if change is not None:
                found.append(Memory(node.path, name, change))
    return found


def _changes(value: Any, given: int, seen: set[int]) -> Iterator[Change]:
    """Yield the places in which *value*, called with so many arguments, changes what outlives the call."""
    function, before = (None, 0) if is_a(value, _lru_cache_wrapper) else function_of(value)
    if function is None or id(function) in seen or len(seen) >= READERS_MAX or not is_own(function):
        return
    seen.add(id(function))
    yield from _bound_anew(function)
    held = {**dict(_named(function)), **dict(_defaults(function, before + given))}
    yield from _called_on(function.__code__, {name for name, value in held.items() if is_mutable(value)})
    names = set(held)
    if before and function.__code__.co_argcount and _is_kept(value.__self__ if is_a(value, MethodType) else value):
        names.add(function.__code__.co_varnames[0])
    if names:
        yield from read(function.__code__, tuple((name, 0) for name in sorted(names)))[0]
    for path, each in reached(function):
        if is_a(each, FunctionType) and not is_a(function.__globals__.get(path), _lru_cache_wrapper):
            yield from _changes(each, each.__code__.co_argcount, seen)


def _bound_anew(function: FunctionType) -> Iterator[Change]:
    """Yield where *function* binds a name of its module, or of a function around it; a global None is set lazily."""
    code = function.__code__
    for step in get_instructions(code):
        if step.opname not in KEPT:
            continue
        if step.argval in code.co_freevars or function.__globals__.get(step.argval) is not None:
            line = step.positions.lineno if step.positions is not None else None
            yield Change(code.co_filename, line or code.co_firstlineno, f"{KEPT[step.opname]} {step.argval}", 0)


def _called_on(code: CodeType, containers: set[str]) -> Iterator[Change]:
    """Yield where a method of *containers*, by name, is called that changes them, whatever its result is used for."""
    for step, after in pairwise(get_instructions(code)):
        if step.opname in LOADS and step.argval in containers and after.argval in MUTATORS:
            line = after.positions.lineno if after.positions is not None else None
            yield Change(code.co_filename, line or code.co_firstlineno, f"{step.argval}.{after.argval}(...)", 0)


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names under which *function* finds data that can be changed: globals, and what it closes over."""
    for name in globals_of(function.__code__):
        if _is_kept(function.__globals__.get(name)):
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if not empty(cell) and _is_kept(cell.cell_contents):
            yield name, cell.cell_contents


def _defaults(function: FunctionType, given: int) -> Iterator[tuple[str, Any]]:
    """Yield the parameters behind those *given* whose defaults can be changed."""
    code, defaults = function.__code__, function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    for at, default in enumerate(defaults, first):
        if at >= given and _is_kept(default):
            yield code.co_varnames[at], default
    yield from ((name, default) for name, default in (function.__kwdefaults__ or {}).items() if _is_kept(default))


def _is_kept(value: Any) -> bool:
    """Whether *value* is data that can be changed: a container, or an object of a class of the user's."""
    return is_mutable(value) or (is_own(type(value)) and not is_a(value, (type, FunctionType, CodeType)))
