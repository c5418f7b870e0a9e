"""Mistakes in a selector over groups or windows that would show with any of them, found in its one call at planning.

A selector is called with a symbol when its query is planned, and what it raises there mostly means that it wants to
know the key: it is called again for each group. A method that no query has, an argument that no operator takes and
nothing returned are the same for every group, and a query with them is refused when it is created. What could be
otherwise when events come (the key, a name that is assigned later, an object of the caller's) is never judged.
Rejected: to take every error for a mistake that was raised before the symbol was asked for its key, since a program may
define what its functions use after its queries.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

from reactivex import Observable

from reliable_rx.errors import QueryRefused
from reliable_rx.functions.settled import is_settled
from reliable_rx.query.query import as_query, walk
from reliable_rx.query.refusal import refuse

HERE = "reliable_rx."
RUNS = "reliable_rx.unhosted.subscribing"
"""Where a query is subscribed to: what happens there is no matter of how it is written."""
MODULES = frozenset(("reliable_rx", "reliable_rx.operators"))
RAISED = (TypeError, ValueError, AttributeError, QueryRefused)
"""What our operators raise at an argument, and queries when they are asked for an operator that there is not."""
BESIDE = frozenset(("PUSH_NULL", "PRECALL", "KW_NAMES", "LOAD_CONST", "CACHE", "EXTENDED_ARG", "COPY_FREE_VARS"))
"""Byte codes of a call that say nothing of what is called."""


def find_mistake(select: Callable[[Any], Any], outer: Any) -> tuple[Any, Exception | None]:
    """Call *select* with a symbol; return what it returns, and the error that it would also end in with a group.

    What else it raises is raised.
    """
    try:
        inner = select(outer)
    except RAISED as raised:
        if is_ours(raised) and is_settled(select, outer):
            return None, raised
        raise
    wrong = what_is_wrong(inner)
    return inner, wrong if wrong is not None and is_settled(select, outer) else None


def what_is_wrong(inner: Any) -> Exception | None:
    """Return the error with which nobody can read *inner* as a sequence, or host it."""
    if isinstance(inner, Iterable) and not isinstance(inner, (Observable, Iterator)):
        return None
    try:
        for node in walk(as_query(inner).node):
            refuse(node.op, "the sequence that it selects")
    except (TypeError, QueryRefused) as raised:
        return raised
    return None


def is_ours(raised: Exception) -> bool:
    """Whether this library has *raised* it at how it was called, and no function of the caller's at what it found."""
    at = raised.__traceback__
    if at is None:
        return False
    while at.tb_next is not None:
        if where(at) == RUNS:
            return False
        at = at.tb_next
    if isinstance(raised, AttributeError) and raised.name is not None:
        owner = raised.obj.__name__ if isinstance(raised.obj, ModuleType) else where(at) + "."
        return not raised.name.startswith("_") and (owner in MODULES or owner.startswith(HERE))
    if where(at).startswith(HERE):
        return at.tb_frame.f_code.co_name != "inner"  # which has called what it was given in a wrong way
    return isinstance(raised, TypeError) and is_wrongly_called(called_in(at), str(raised))


def where(at: TracebackType) -> str:
    return str(at.tb_frame.f_globals.get("__name__"))


def is_wrongly_called(function: Any, message: str) -> bool:
    """Whether *message* says that a function of this library was given other arguments than it takes."""
    ours = isinstance(function, FunctionType) and function.__module__.startswith(HERE)
    return ours and message.startswith(f"{function.__qualname__}() ")


def called_in(at: TracebackType) -> Any:
    """Return what a frame was calling, if that is a name or the attribute of a module; None for anything else."""
    found: Any = None
    steps = {step.offset: step for step in dis.get_instructions(at.tb_frame.f_code)}
    call = steps.get(at.tb_lasti)
    if call is None or begins(call) is None:
        return None
    for step in steps.values():
        if step.offset < call.offset and begins(step) == begins(call) and step.opname not in BESIDE:
            found = loaded(step, found, at.tb_frame)
    return found


def begins(step: dis.Instruction) -> tuple[int, int] | None:
    """Return where in the source an instruction begins; an interpreter may be told to keep no columns."""
    at = step.positions
    return None if at is None or at.lineno is None or at.col_offset is None else (at.lineno, at.col_offset)


def loaded(step: dis.Instruction, owner: Any, frame: FrameType) -> Any:
    """Return what an instruction loads: a variable, or an attribute of *owner* if that is a module."""
    if not step.opname.startswith("LOAD_") or not isinstance(step.argval, str):
        return None
    if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return getattr(owner, step.argval, None) if isinstance(owner, ModuleType) else None
    for space in (frame.f_locals, frame.f_globals):
        if step.argval in space:
            return space[step.argval]
    return None
