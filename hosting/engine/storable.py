"""What of a query can be stored: checked when it is created, so that no checkpoint and no replay finds out later.

A query is stored as it was written, with its functions. One that does not go into bytes and back is refused by name:
the operator, its parameter, and the variable of the function around it that is at fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from checkpoint import failures
from checkpoint.format.by_value import encode_query
from checkpoint.format.codec import decode, encode
from checkpoint.format.held_objects import copies_only
from reliable_rx.class_of import name_of
from reliable_rx.errors import QueryRefused, described
from reliable_rx.interrupts import let_through
from reliable_rx.query.identity import contents
from reliable_rx.query.query import SymbolLeaf, parameters
from reliable_rx.runtime.plan import Plan

MADE_INSIDE = "make it inside the function, or use plain data"
IN_A_MODULE = "put both into a module that the program imports, where the function finds it by name"


def code_of(plan: Plan) -> bytes:
    """Return the query of *plan* as bytes that load again. *Raises* `QueryRefused`."""
    try:
        code = encode_query(plan.query)
        with copies_only():
            decode(code)
    except BaseException as error:
        let_through(error)
        path, what, remedy = culprit(plan)
        raise QueryRefused(
            f"{path} cannot be stored: {what or 'the query'} does not survive pickling ({described(error)}); {remedy}",
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


def culprit(plan: Plan) -> tuple[str, str, str]:
    """Return the path of the operator that cannot be stored, which part of it, and what to do."""
    own_first = sorted(plan.walk(), key=lambda node: node.plan is not plan)  # what stands for inner ones is not stored
    for node in own_first:
        for name, value in () if isinstance(node.op, SymbolLeaf) else parameters(node.op).items():
            if loss(value) is not None:
                what, remedy = inside(value)
                return node.path, f"its {name}{what}", remedy
    return plan.root.path, "", MADE_INSIDE


def inside(value: Any) -> tuple[str, str]:
    """Say which variable of a function is at fault, and what to do."""
    if not isinstance(value, FunctionType):
        return f" ({name_of(type(value))})", MADE_INSIDE
    for name, held in reached(value):
        if loss(held) is not None:
            space = value.__globals__
            of_script = (
                space.get("__name__") == "__main__" and space.get(name) is held and not isinstance(held, Iterator)
            )
            what = f", whose variable {name!r} is of type {name_of(type(held))},"
            return what, IN_A_MODULE if of_script else MADE_INSIDE
    return "", MADE_INSIDE


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
