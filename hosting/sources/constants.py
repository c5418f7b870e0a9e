"""Constants that a function is made with: what it closes over, its defaults, and globals as its file has them written.

They decide what it does as its code does; other data that it names may be others at each start.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from hosting.sources.ring import HashRing
from reliable_rx.class_of import is_a
from reliable_rx.functions.reach import contents, is_own, may_change
from reliable_rx.query.identity import hash_of

CONSTANTS = (int, float, str, bytes, bool, tuple, frozenset, HashRing)


def constants_of(value: Any, reached: Iterable[Any]) -> Iterator[str]:
    """Tell the constants of a function, and of those among what it has *reached*, each with its name."""
    functions = [each for each in reached if is_a(each, FunctionType) and is_own(each)]
    changed = {(id(each.__globals__), name) for each in functions for name in _changed_by(each)}
    yield from (f"{name}={_text(each)}" for name, each in _arguments(value) if _is_constant(each))
    for each in functions:
        held = [(name, there) for name, there in held_by(each) if _is_constant(there)]
        held += [(name, there) for name, there in _written(each) if (id(each.__globals__), name) not in changed]
        yield from (f"{each.__qualname__}.{name}={_text(there)}" for name, there in held)


def _is_constant(value: Any) -> bool:
    return type(value) in CONSTANTS


def _text(value: Any) -> str:
    return repr(value) if is_a(value, HashRing) else hash_of(value)


def _arguments(value: Any) -> Iterator[tuple[str, Any]]:
    while is_a(value, partial):
        yield from ((str(place), each) for place, each in enumerate(value.args))
        yield from value.keywords.items()
        value = value.func
    yield "self", getattr(value, "__self__", None)


def held_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function closes over, unless it sets that itself, and its defaults."""
    code, defaults = function.__code__, function.__defaults__ or ()
    if all(each.opname != "STORE_DEREF" for each in dis.get_instructions(code)):
        yield from zip(code.co_freevars, contents(function), strict=False)
    yield from zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _changed_by(function: FunctionType) -> Iterator[str]:
    """Yield the globals that *function* sets, or may change: counts and caches."""
    for each in dis.get_instructions(function.__code__):
        if each.opname == "STORE_GLOBAL":
            yield str(each.argval)
    space = function.__globals__
    yield from (
        name for name in function.__code__.co_names if name in space and may_change(function, name, space[name])
    )


def _written(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals that *function* names and its file sets once, to what is written there, and rings."""
    path = function.__code__.co_filename
    linecache.checkcache(path)
    written = _written_in("".join(linecache.getlines(path, function.__globals__)))
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        is_written = name in written and type(value) is type(written[name]) and value == written[name]
        if is_a(value, HashRing) or is_written:
            yield name, value


@lru_cache(maxsize=64)
def _written_in(text: str) -> dict[str, Any]:
    """Return the constants of a file; none of one that cannot be read, as a cell of a notebook that is gone cannot."""
    found, often = dict[str, Any](), set[str]()
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for each in body:
        if isinstance(each, ast.Assign):
            targets, value = each.targets, each.value
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            targets, value = [each.target], each.value
        else:
            continue
        for name in (target.id for target in targets if isinstance(target, ast.Name)):
            often |= {name} & found.keys()
            with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                found[name] = ast.literal_eval(value)
    return {name: value for name, value in found.items() if name not in often}
