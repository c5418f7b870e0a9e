"""What of a query can be stored: checked when it is created, so that no checkpoint and no replay finds out later.

A query is stored as it was written, with its functions. One that does not go into bytes and back is refused by name:
the operator, its parameter, and the variable of the function around it that is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from checkpoint import failures
from checkpoint.by_value import encode_query
from checkpoint.codec import decode, encode
from reliable_rx.class_of import name_of
from reliable_rx.errors import QueryRefused, described
from reliable_rx.identity import contents
from reliable_rx.interrupts import let_through
from reliable_rx.plan import Plan
from reliable_rx.query import parameters


def code_of(plan: Plan) -> bytes:
    """Return the query of *plan* as bytes that load again. *Raises* `QueryRefused`."""
    try:
        code = encode_query(plan.query)
        decode(code)
    except BaseException as error:
        let_through(error)
        path, what = culprit(plan)
        raise QueryRefused(
            f"{path} cannot be stored: {what or 'the query'} does not survive pickling ({described(error)}); make it "
            f"inside the function, or use plain data",
            path=path,
        ) from error
    if not failures.fits(code):
        raise QueryRefused(
            f"{plan.root.path} cannot be stored: with all that its functions hold it has {len(code):,} bytes, and a "
            f"row of a store at most {failures.ROW_BYTES_MAX:,}; have it read its data from a source",
            path=plan.root.path,
        )
    return code


def check_storable(name: str, what: str, value: Any) -> None:
    """Refuse a part of a query's declaration that does not go into bytes and back. *Raises* `QueryRefused`."""
    error = loss(value)
    if error is not None:
        raise QueryRefused(
            f"{what} of {name!r} does not survive pickling ({described(error)}); use plain data", path="/"
        ) from error


def culprit(plan: Plan) -> tuple[str, str]:
    """Return the path of the operator that cannot be stored, and which part of it."""
    for node in plan.walk():
        for name, value in parameters(node.op).items():
            if loss(value) is not None:
                return node.path, f"its {name}{inside(value)}"
    return plan.root.path, ""


def inside(value: Any) -> str:
    """Say which variable of a function is at fault."""
    if not isinstance(value, FunctionType):
        return f" ({name_of(type(value))})"
    for name, held in reached(value):
        if loss(held) is not None:
            return f", whose variable {name!r} is of type {name_of(type(held))},"
    return ""


def reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables of *function* that are not its own, by name."""
    yield from zip(function.__code__.co_freevars, contents(function), strict=False)
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
    yield from (function.__kwdefaults__ or {}).items()
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)


def loss(value: Any, *, read: bool = True) -> BaseException | None:
    """Return what *value* raises when it is stored and, unless not *read*, read again, if it does."""
    try:
        data = encode(value)
        if read:
            decode(data)
    except BaseException as error:
        let_through(error)
        return error
    return None
