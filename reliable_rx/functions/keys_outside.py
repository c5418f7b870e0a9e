"""Functions that ask a query for its key: only the groups and windows within have one.

`g = orders.group_by(...)` and, behind its `flat_map`, `lambda n: (g.key, n)` reads well, and fails at the first value,
or at the end. No query ever has a key, so that it is refused when the query is created, where the line is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dis import get_instructions
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from reliable_rx.class_of import is_a
from reliable_rx.functions.code_names import empty
from reliable_rx.operators.contract.arguments import NO_KEY, wrapped
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query.query import Query, parameters

LOADS = frozenset(("LOAD_DEREF", "LOAD_GLOBAL"))


def fault_of_keys(op: Operator) -> str | None:
    """Say which function of *op* asks a query for its key; None if none does.

    >>> import reliable_rx as rx
    >>> g = rx.source("n").group_by(abs)
    >>> fault_of_keys(rx.operators.map(lambda n: (g.key, n)))[:47]
    'its mapper asks for g.key, and a query has no k'
    """
    for parameter, value in parameters(op).items():
        function = wrapped(value) or value
        name = next(asked_of_queries(function), None) if is_a(function, FunctionType) else None
        if name is not None:
            return f"its {parameter} asks for {name}.key, and {NO_KEY}"
    return None


def asked_of_queries(function: FunctionType) -> Iterator[str]:
    """Yield the names of queries whose key *function* asks for: of its module's, and of those that it closes over."""
    asked = keys_asked(function.__code__)
    if asked:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held: dict[tuple[str, str], Any] = {
            ("LOAD_DEREF", name): cell.cell_contents for name, cell in cells if not empty(cell)
        }
        for how, name in asked:
            value = function.__globals__.get(name) if how == "LOAD_GLOBAL" else held.get((how, name))
            if type(value) is Query:  # groups and windows are of classes of their own
                yield name


@lru_cache(maxsize=4096)
def keys_asked(code: CodeType) -> frozenset[tuple[str, str]]:
    """Return the variables from outside of *code* that it, or a function within, asks for the attribute ``key``."""
    if "key" not in code.co_names and not any(is_a(each, CodeType) for each in code.co_consts):
        return frozenset()
    steps = pairwise(get_instructions(code))
    found = {
        (load.opname, load.argval)
        for load, ask in steps
        if load.opname in LOADS and ask.opname == "LOAD_ATTR" and ask.argval == "key"
    }
    own = {("LOAD_DEREF", name) for name in code.co_cellvars}
    return frozenset(found).union(*(keys_asked(each) for each in code.co_consts if is_a(each, CodeType))) - own
