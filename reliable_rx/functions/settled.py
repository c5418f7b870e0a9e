"""Whether what a selector does with a symbol is settled: it reads nothing that the program may have otherwise later.

A program may assign what its functions use after its queries: a global that is None until the command line is read, an
attribute, a variable of the function around. What a selector came to with the value of now says nothing then. It is
called once more, watched: only functions that were defined, queries, builtins and what is this library's may be named
in the code that runs. Rejected: to look at all code that is reachable (a function for later elements may read what it
likes), and to tell constants by their spelling.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from reliable_rx.class_of import derives_from, is_a, module_of
from reliable_rx.functions.imports import is_own_module
from reliable_rx.functions.reach import ATOMS
from reliable_rx.interrupts import let_through
from reliable_rx.query.query import Query

LIBRARY = ("reliable_rx", "reactivex")
WORLDLY = frozenset(("globals", "locals", "vars", "eval", "exec", "open", "input", "__import__", "next", "breakpoint"))
"""Builtin functions that give what no code names."""
LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
MISSING = object()


def is_settled(select: Callable[[Any], Any], outer: Any) -> bool:
    """Call *select* again; return whether all that it names and is given means the same whenever it is called.

    >>> is_settled(len, []), is_lasting(len), is_lasting(3)
    (True, True, False)
    """
    found: list[bool] = []

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event in ("call", "c_call") and is_users(frame):
            found.append(is_settled_frame(frame) if event == "call" else called.__name__ not in WORLDLY)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        select(outer)
    except BaseException as raised:
        let_through(raised)
    finally:
        sys.setprofile(before)
    return all(found)


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code; what of other libraries it calls is judged by its names."""
    name = frame.f_globals.get("__name__")
    return not is_a(name, str) or (is_own_module(name) and not name.startswith("namedtuple_"))


def is_library(module: Any) -> bool:
    return str(module).partition(".")[0] in LIBRARY


def is_settled_frame(frame: FrameType) -> bool:
    """Whether what a frame was given, and what its code names, is settled; asked when it begins."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    given = [values.get(name) for name in code.co_varnames[:count]]
    names, imported = named(code)
    around = (*code.co_cellvars, *code.co_freevars)
    return (
        all(type(each) in ATOMS or is_lasting(each) for each in given)
        and all(map(is_library, imported))
        and all(is_lasting(meant(name, frame, values)) for name in names if name in code.co_freevars)
        and all(is_meant(name, meant(name, frame, values)) for name in names if name not in around)
    )


@lru_cache(1000)
def named(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the variables that are not a frame's own which its *code* reads, and the modules that it imports."""
    steps = [step for step in dis.get_instructions(code) if is_a(step.argval, str)]
    names = tuple(dict.fromkeys(step.argval for step in steps if step.opname in LOADS))
    return names, tuple(step.argval for step in steps if step.opname == "IMPORT_NAME")


def meant(name: str, frame: FrameType, values: Mapping[str, Any]) -> Any:
    for space in (values if name in frame.f_code.co_freevars else {}, frame.f_globals, vars(builtins)):
        if name in space:
            return space[name]
    return MISSING


def is_meant(name: str, value: Any) -> bool:
    """Whether a program is taken to mean *value* by a global *name* for good: its own functions by that of their `def`.

    >>> import collections
    >>> is_meant("len", len), is_meant("later", collections.namedtuple)
    (True, False)
    """
    is_own = is_a(value, FunctionType) and not is_library(module_of(value))
    return is_lasting(value) and (not is_own or value.__name__ == name)


def is_lasting(value: Any) -> bool:
    """Whether *value* is what is defined, not what is assigned."""
    if is_a(value, FunctionType):
        return is_library(module_of(value)) or not value.__dict__
    if is_a(value, ModuleType):
        return is_library(value.__name__)
    if is_a(value, BuiltinFunctionType):
        return module_of(value) == "builtins"
    if is_a(value, type):
        return module_of(value) == "builtins" or is_library(module_of(value))
    return derives_from(value, Query) or is_library(module_of(type(value)))
