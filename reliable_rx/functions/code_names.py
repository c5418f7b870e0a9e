"""What functions name, and what they do with the variables around them, as their byte code says.

Rejected: the text of functions (a lambda in a pipe has none of its own), tracing calls (most never run at a creation).
"""

from __future__ import annotations

from collections.abc import Iterator
from dis import get_instructions
from functools import lru_cache
from inspect import CO_COROUTINE
from itertools import pairwise
from types import CodeType
from typing import Any

from reliable_rx.class_of import is_a

CHANGES = ("STORE", "DELETE")
REACHES = frozenset(("__dict__", "vars", "setattr", "__setattr__", "__defaults__", "__kwdefaults__", "__setstate__"))
"""Names by which code changes what a function or a partial has, without an assignment."""
UNSEEN = frozenset(("CACHE", "EXTENDED_ARG", "COPY_FREE_VARS", "MAKE_CELL"))
INNER_USES = frozenset(("LOAD_CLOSURE", "LOAD_FAST"))
"""What hands a variable to a function within, whose code says what is done with it."""


@lru_cache(1000)
def assigned_in(code: CodeType) -> frozenset[str]:
    """Return the free variables that *code* assigns, or a function within; no name stands for an attribute."""
    steps = [(step.opname.partition("_"), step.argval) for step in get_instructions(code)]
    here = {name if to == "DEREF" else "" for (how, _, to), name in steps if how in CHANGES and to in ("DEREF", "ATTR")}
    here |= set() if REACHES.isdisjoint(code.co_names) else {""}
    within = [assigned_in(each) for each in code.co_consts if isinstance(each, CodeType)]
    return frozenset(here.union(*within) & {*code.co_freevars, ""})


@lru_cache(1000)
def asks_key_only(code: CodeType, name: str) -> bool:
    """Whether all that *code* does with its free variable *name* is to read the attribute ``key``.

    >>> def of(v, group=None): return lambda v: (group.key, v)
    >>> def to(v, group=None): return lambda v: str(group)
    >>> [asks_key_only(each(1).__code__, "group") for each in (of, to)]
    [True, False]
    """
    steps = [step for step in get_instructions(code) if step.opname not in UNSEEN]
    asked = [after.argval for step, after in pairwise(steps) if step.argval == name and step.opname == "LOAD_DEREF"]
    used = [step for step in steps if step.argval == name and step.opname not in INNER_USES]
    within = [each for each in code.co_consts if isinstance(each, CodeType) and name in each.co_freevars]
    return len(asked) == len(used) and {*asked} <= {"key"} and all(asks_key_only(each, name) for each in within)


def named(code: CodeType) -> Iterator[str]:
    """Yield the names that *code* uses, also in the functions that it makes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from named(constant)


def empty(cell: Any) -> bool:
    """Whether a closure cell has not been filled."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def is_awaited(code: CodeType) -> bool:
    """Whether *code* is handed to what awaits it, as that of a call is, whose answer is recorded."""
    return bool(code.co_flags & CO_COROUTINE)


def code_within(code: CodeType) -> list[CodeType]:
    """Return the code of functions and comprehensions that stand in *code*, but for those that are awaited."""
    return [each for each in code.co_consts if is_a(each, CodeType) and not is_awaited(each)]
