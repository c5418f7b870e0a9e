"""Whether stored positions mean what they meant: what decides which record has which number, then and now.

A position is the number of a record within its partition. With a partition or an order that a function makes, another
function gives the same number to another record: behind any end of a run, also a clean one, some records would never be
read and others twice. So what numbers depend on is stored with the positions, apart from what turns are read with.

Of a function its code counts, and constants: those that it is made with (closure, defaults, arguments of a `partial`),
and globals as its file has them written. Other data may be others at each start, and are told. Code of another
interpreter tells nothing; what is given as a value does. Rejected: counting all data (an app whose key function names
the id of its run would start once).
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

from hosting.sources.definition import Extending, numbering_of
from hosting.sources.fingerprint import PLACES_MAX, Fingerprint, part_of
from hosting.sources.ring import HashRing
from reliable_rx.class_of import is_a
from reliable_rx.code_digest import joined
from reliable_rx.identity import Writing
from reliable_rx.interrupts import let_through
from reliable_rx.reach import contents, is_own, may_change
from reliable_rx.reliable import Source
from reliable_rx.text import NAMED

CONSTANTS = (int, float, str, bytes, bool, tuple, frozenset, HashRing)
GIVEN, CODE, MORE, UNKNOWN = "given", "code", "more", "unknown"
"""How a digest compares: always, with one of the same interpreter, with as many names as there were, never."""


def numbering_digests(source: Source) -> dict[str, str]:
    """Return a digest of each part that decides which event of *source* has which id."""
    return {name: _digest(value) for name, value in _numbering(source).items() if value is not None}


def _numbering(source: Source) -> dict[str, Any]:
    try:
        return numbering_of(source)
    except BaseException as raised:  # a source is somebody else's code
        let_through(raised)
        return {}


def _digest(value: Any) -> str:
    if isinstance(value, Extending):
        return _more(value, len(value))
    try:
        return f"{CODE}:{_of_function(value)}" if callable(value) else f"{GIVEN}:{_of(value)}"
    except BaseException as raised:  # what it reaches may be of any size, or raise when it is looked at
        let_through(raised)
        return f"{UNKNOWN}:"


def _more(names: Extending, count: int) -> str:
    return f"{MORE}:{count}:{joined(names[:count])}"


def _of(value: Any) -> str:
    return part_of(value).digests[0]


def _of_function(value: Any) -> str:
    """Return a digest of the code of a function, and of the constants that it and what it reaches are made with."""
    writing = Writing(inline=True, places_max=PLACES_MAX)
    writing.put(value, NAMED)
    found = {f"{name}={_text(each)}" for name, each in _arguments(value) if _is_constant(each)}
    functions = [each for each in writing.kept if is_a(each, FunctionType) and is_own(each)]
    changed = {(id(each.__globals__), name) for each in functions for name in _changed_by(each)}
    for each in functions:
        held = [(name, there) for name, there in _held_by(each) if _is_constant(there)]
        held += [(name, there) for name, there in _written(each) if (id(each.__globals__), name) not in changed]
        found |= {f"{each.__qualname__}.{name}={_text(there)}" for name, there in held}
    return joined((_of(value), *sorted(found)))


def _is_constant(value: Any) -> bool:
    return type(value) in CONSTANTS


def _text(value: Any) -> str:
    return repr(value) if is_a(value, HashRing) else _of(value)


def _arguments(value: Any) -> Iterator[tuple[str, Any]]:
    while is_a(value, partial):
        yield from ((str(place), each) for place, each in enumerate(value.args))
        yield from value.keywords.items()
        value = value.func
    yield "self", getattr(value, "__self__", None)


def _held_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
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


def renumbered(stored: Fingerprint, now: Fingerprint, source: Source) -> tuple[str, ...]:
    """Name the parts of *source* by which its ids are other ones than by the *stored* fingerprint."""
    live = _numbering(source)
    found = []
    for name in sorted(stored.numbering.keys() | now.numbering.keys()):
        before, after = stored.numbering.get(name), now.numbering.get(name)
        if before is None or after is None:  # it counts by now, or no more: is it another one?
            differs = _code(stored, name) != _code(now, name) and stored.made_by == now.made_by
            differs = differs or (name in stored.parts) != (name in now.parts)
        else:
            differs = _differs(before, after, live.get(name), is_same_maker=stored.made_by == now.made_by)
        if differs:
            found.append(name)
    return tuple(found)


def _code(fingerprint: Fingerprint, name: str) -> str:
    return str(fingerprint.parts.get(name, ("", ""))[0])


def _differs(before: str, after: str, value: Any, *, is_same_maker: bool) -> bool:
    kinds = {before.partition(":")[0], after.partition(":")[0]}
    if UNKNOWN in kinds or (kinds == {CODE} and not is_same_maker):
        return False
    if kinds == {MORE} and isinstance(value, Extending):
        return before != _more(value, int(before.split(":")[1]))
    return before != after


def data_differing(stored: Fingerprint, now: Fingerprint) -> tuple[str, ...]:
    """Name the parts that ids depend on of which only data differ."""
    if stored.made_by != now.made_by:
        return ()
    names = stored.numbering.keys() & now.numbering.keys() & stored.parts.keys() & now.parts.keys()
    return tuple(name for name in sorted(names) if stored.parts[name] != now.parts[name])
