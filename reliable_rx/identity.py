"""When two queries are the same: a content hash that survives the process, and a fast key for sharing plans within it.

The hash covers operators, parameters and code (bytecode, constants, names, closures), because a lambda has no better
name. It covers also what a function reaches by name in the user's own modules: a mended helper is an edited query.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
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

from reliable_rx.operator import Operator
from reliable_rx.query import Node, Query, parameters
from reliable_rx.reach import (
    ATOMS,
    FIXED,
    is_constant,
    is_constant_of,
    is_mutable,
    is_own,
    methods,
    plain_function,
    reached,
)

REACH_DEPTH_MAX, REACHES_MAX = 8, 10_000
HOLD = (SimpleNamespace, deque)
"""Of the standard library, what is written by its text and holds what has another text elsewhere: sets, functions."""
METHODS = (MethodType, BuiltinMethodType, MethodWrapperType)
TAKES = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def content_hash(node: Node) -> str:
    """Return a hex digest of what the plan does."""
    return joined(described(node, {}))


def hash_of(value: Any) -> str:
    """Return a hex digest of a parameter: equal for equal values and equal code."""
    return joined(describe(value, 0, {}))


def joined(parts: Iterator[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def described(node: Node, hubs: dict[str, int]) -> Iterator[str]:
    """Write a plan; what is shared is told by when it first occurred, in *hubs*, and written there only."""
    waiting: list[Node | str] = [node]
    while waiting:
        at = waiting.pop()
        if isinstance(at, str):
            yield at
            continue
        if at.op.counts_readers:
            known = len(hubs)
            number = hubs.setdefault(at.op.token, known)  # type: ignore[attr-defined]
            yield f"hub {number}"
            if number < known:
                continue
        yield f"{at.op.name}/{at.op.version}("
        for name, value in parameters(at.op).items():
            yield name
            yield from describe(value, 0, hubs)
        waiting += (")", *at.inputs[::-1])


def describe(value: Any, depth: int, hubs: dict[str, int]) -> Iterator[str]:
    """Write a parameter as text that is equal for equal parameters in any process."""
    if depth > 16:
        yield "…"
    elif isinstance(value, FunctionType):
        yield value.__qualname__
        yield from describe_code(value.__code__)
        for each in given(value):
            yield from describe(each, depth + 1, hubs)
        yield described_reach(value, depth)
        yield from dispatched(value, depth, hubs)
    elif isinstance(value, METHODS) and not isinstance(value.__self__, (ModuleType, type(None))):
        yield value.__name__
        yield from describe(getattr(value, "__func__", None), depth + 1, hubs)
        yield from describe(value.__self__, depth + 1, hubs)
    elif plain_function(value) is not value:
        yield from describe(plain_function(value), depth + 1, hubs)
    elif isinstance(value, partial):
        for each in (value.func, *value.args, *sorted(value.keywords.items())):
            yield from describe(each, depth + 1, hubs)
    elif isinstance(value, Query):
        yield from described(value.node, hubs)
    elif isinstance(value, (list, tuple)):
        yield f"{type(value).__name__}{len(value)}"
        for each in value:
            yield from describe(each, depth + 1, hubs)
    elif isinstance(value, (set, frozenset)):
        yield from sorted("".join(describe(each, depth + 1, hubs)) for each in value)
    elif isinstance(value, dict):
        for item in value.items():
            yield from describe(item, depth + 1, hubs)
    elif is_dataclass(value) and not isinstance(value, (type, Operator)):
        yield type(value).__qualname__
        for each in fields(value):
            yield each.name
            yield from describe(getattr(value, each.name, None), depth + 1, hubs)
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        yield f"{getattr(value, '__module__', None)}.{value.__qualname__}"  # str.upper has no module
        if isinstance(value, type) and is_own(value):
            yield described_reach(value, depth)
    elif type(value) in ATOMS or isinstance(value, FIXED):
        yield f"{type(value).__qualname__}:{value!r}"
    else:
        yield from describe_object(value, depth, hubs)


def describe_object(value: Any, depth: int, hubs: dict[str, int]) -> Iterator[str]:
    """Write an object by its class and by what it holds: its text may tell an address, or not tell it apart."""
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}"
    if is_own(kind):
        yield described_reach(kind, depth)
    if isinstance(value, BaseException):  # its other attributes tell where it was raised and stored
        yield from describe(value.args, depth + 1, hubs)
        return
    # what is reached from an object may be the whole process, so that a library's is written by its text if it has one
    holds = is_own(kind) or isinstance(value, HOLD) or kind.__module__.partition(".")[0] == "numpy"
    if holds or " at 0x" in (text := repr(value)):
        yield from describe(held(value) or pieces(value), depth + 5, hubs)
    else:
        yield text


def pieces(value: Any) -> Any:
    """Return what pickle would make *value* of; its text if that cannot be had."""
    try:
        made = value.__reduce_ex__(4)
    except Exception:
        made = None
    if not isinstance(made, tuple):
        return None if " at 0x" in (text := repr(value)) else text
    function, arguments, *more = made
    return [
        getattr(function, "__qualname__", ""),
        arguments,
        *(list(each) if isinstance(each, Iterator) else each for each in more),
    ]


Reached = list[tuple[dict[str, Any], str, Any]]
"""Where names were resolved: namespace, name, and what was found there."""


AT_WORK: ContextVar[frozenset[tuple[int, int, int]]] = ContextVar("what is being written", default=frozenset())
"""Of this thread: another one writes the same whole."""


class Reaches:
    """What was written of what functions reach by name, for as long as the names mean the same."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int, int], tuple[Any, Reached, str]] = {}
        self.unsure = 0
        """How often something was written that is another text elsewhere or later, and must not be kept."""

    def text(self, root: FunctionType | type, depth: int) -> str:
        """Write what *root* reaches by name in the user's modules, as a digest; empty if that is nothing."""
        space = root.__globals__ if isinstance(root, FunctionType) else {}
        key = (id(root.__code__ if isinstance(root, FunctionType) else root), id(space), depth)
        kept = self.known.get(key)
        if kept is not None and all(space.get(name) is value for space, name, value in kept[1]):
            return kept[2]
        at_work = AT_WORK.get()
        if key in at_work:
            self.unsure += 1
            return "…"
        token = AT_WORK.set(at_work | {key})
        try:
            return self._walk(root, depth, key)
        finally:
            AT_WORK.reset(token)

    def _walk(self, root: FunctionType | type, depth: int, key: tuple[int, int, int]) -> str:
        parts: list[str] = []
        resolved: Reached = []
        before = self.unsure
        if not walk_reach(root, depth, parts, resolved):
            self.unsure += 1
        text = joined(iter(parts)) if parts else ""
        if self.unsure == before:
            if len(self.known) >= REACHES_MAX:
                self.known.clear()
            self.known[key] = (root.__code__ if isinstance(root, FunctionType) else root, resolved, text)
        return text


REACHES = Reaches()


def described_reach(root: FunctionType | type, depth: int) -> str:
    return "" if depth > REACH_DEPTH_MAX or not is_own(root) else REACHES.text(root, depth)


def walk_reach(root: Any, depth: int, parts: list[str], resolved: Reached) -> bool:
    """Write all that is reached from *root*, each once; return whether nothing of it can change by itself."""
    places = {id(root): 0}
    waiting: list[Any] = [root]
    fixed = True
    for at in waiting:
        for name, value in parts_of(at, is_root=at is root):
            if isinstance(at, FunctionType) and name:
                fixed = fixed and "." not in name  # what another module has under a name is not looked up again
                resolved.append((at.__globals__, name, value))
            parts.append(name)
            if not is_own(value):
                constant = is_constant_of(at, value) if isinstance(at, FunctionType) else is_constant(value)
                known = constant or not name or isinstance(value, Query)
                fixed = fixed and not (known and is_mutable(value))
                parts.extend(describe(value, depth + 4, {}) if known else [named_only(value)])
                kind = type(value)
                if not known and is_own(kind) and id(kind) not in places:
                    places[id(kind)] = len(places)
                    waiting.append(kind)  # an object of the module: its data may change while it is used
            elif id(value) in places:
                parts.append(f"#{places[id(value)]}")
            else:
                places[id(value)] = len(places)
                parts.extend(shallow(value))
                waiting.append(value)
    return fixed


def parts_of(at: Any, *, is_root: bool) -> Iterator[tuple[str, Any]]:
    """Yield what a function or class is made of: what it names; without a name what it was given, and bases."""
    if not isinstance(at, FunctionType):
        yield from methods(at)
        yield from (("", each) for each in at.__bases__ if is_own(each))
        return
    yield from reached(at)
    if not is_root:  # of the root it has been written
        yield from (("", plain_function(each)) for each in given(at))


def shallow(value: Any) -> Iterator[str]:
    """Write a function or class of the user's without what it reaches and holds."""
    yield value.__qualname__
    if isinstance(value, FunctionType):
        yield from describe_code(value.__code__)
    else:
        yield from (each.__qualname__ for each in value.__mro__)


def given(function: FunctionType) -> list[Any]:
    """Return what a function was given when it was made: its defaults, and what it closes over."""
    by_name = sorted((function.__kwdefaults__ or {}).items())
    return [*(function.__defaults__ or ()), *by_name, *contents(function)]


def dispatched(function: FunctionType, depth: int, hubs: dict[str, int]) -> Iterator[str]:
    """Write the functions that `functools.singledispatch` chooses from."""
    registry = getattr(function, "registry", None)
    if isinstance(registry, MappingProxyType):
        for kind, each in sorted(registry.items(), key=lambda item: item[0].__qualname__):
            yield kind.__qualname__
            yield from describe(each, depth + 1, hubs)


def named_only(value: Any) -> str:
    """Name what is not followed: what it holds is the world's, or may change while it is used."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return f"{getattr(value, '__module__', None)}.{value.__qualname__}"
    return type(value).__qualname__


def held(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, by name."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    plain = {name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}
    return {**plain, **getattr(value, "__dict__", {})}


def describe_code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex() + code.co_exceptiontable.hex()
    yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags & TAKES}"
    if code.co_kwonlyargcount:  # by which names they are given
        yield " ".join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    yield " ".join(code.co_names)
    for constant in code.co_consts[:]:
        if isinstance(constant, CodeType):
            yield from describe_code(constant)
        else:
            yield from describe(constant, 1, {})


def contents(function: FunctionType) -> list[Any]:
    """Return what a function closes over."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found
