"""Names of RxPY's own operators, for the refusal of a query that uses one.

A plain operator is a closure, and the observable that it makes knows only the innermost of the operators that it is
made of. So a pipe notes on a plain observable which operator made it. Rejected: names read off the observable alone
(`count` ends in `reduce`, which ends in an internal function), and a wrapper around RxPY's module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any

import reactivex
from reactivex import Observable, operators
from reactivex.subject import BehaviorSubject, ReplaySubject

NOTE = "_made_by"
ROOM = "reactivex."
OPERATORS = "reactivex.operators"
INTERNAL = {
    "first_or_default_async": "first_or_default",
    "find_value": "find",
    "last_or_default_async": "last_or_default",
    "to_iterable": "to_list",
}
"""What RxPY calls inside what is public, and most often written, under another name."""
PIPE = "reliable_rx.query.piping"
COMPOSE = "reactivex.pipe"
COMPOSED: dict[tuple[str | None, ...], str] = {
    ("map", "merge"): "concat_map",
    ("map", "switch_latest"): "switch_map",
    ("map_indexed", "switch_latest"): "switch_map_indexed",
}
WITHIN = ("defer",)
"""Creation functions that many others use."""
CREATION = "reactivex.observable"
OBSERVABLES_MAX = 100


def note(before: Any, made: Any, operator: Callable[[Any], Any]) -> None:
    """Remember which operator of RxPY *made* a plain observable, or several of them, of the one *before*."""
    name = caller(sys._getframe(2)) or name_of(operator)
    if name is not None:
        for each in made if isinstance(made, (list, tuple)) else [made]:
            for inner in chain(each, before):
                setattr(inner, NOTE, name)


def chain(observable: Any, end: Any = None) -> Iterator[Observable[Any]]:
    """Yield the plain observables that *observable* is made of, from itself to the first, without *end* and before."""
    at = [observable]
    for _ in range(OBSERVABLES_MAX):
        if not at:
            break
        each = at.pop()
        if each is not end and isinstance(each, Observable) and type(each).__module__.startswith(ROOM):
            yield each
            at += [getattr(each, "source", None), *closed_over(getattr(each, "_subscribe", None))]


def written_in(observable: Observable[Any]) -> str | None:
    """Return the first part of plain RxPY in the chain that ends in *observable*, under its name in our package too.

    >>> import reactivex
    >>> import reliable_rx as rx
    >>> written_in(reactivex.timer(1.0)), written_in(rx.source("n").pipe(operators.count(), operators.map(str)))
    ('timer', 'operators.count')
    """
    operator = creation = None
    for each in chain(observable):
        operator = getattr(each, NOTE, operator)
        creation = creation_of(each) or creation
    return f"operators.{operator}" if operator else creation


def creation_of(observable: Observable[Any]) -> str | None:
    """Return the creation function that made *observable*, if it tells."""
    subscribe: Any = getattr(observable, "_subscribe", None)
    room, _, module = getattr(subscribe, "__module__", "").rpartition(".")
    name = getattr(subscribe, "__qualname__", "").split(".")[0].strip("_")
    name = name if name in reactivex.__all__ else module
    return name if room == CREATION and name in reactivex.__all__ and name not in WITHIN else None


def caller(frame: FrameType | None) -> str | None:
    """Return the operator of RxPY that is at work around *frame*: the outermost, which is the one that was written."""
    name = None
    while frame is not None:
        room = frame.f_globals.get("__name__", "")
        if room.startswith(OPERATORS):
            name = public(frame.f_code.co_qualname) or name
        elif not room.startswith(ROOM) and room != PIPE:
            break
        frame = frame.f_back
    return name


def name_of(operator: Any) -> str | None:
    """Return the name of the operator of RxPY that made the function *operator*; None for a function of the user's.

    >>> from reactivex import operators as ops
    >>> name_of(ops.count()), name_of(ops.pluck("a")), name_of(ops.find_index(bool)), name_of(len)
    ('count', 'pluck', 'find_index', None)
    """
    if not isinstance(operator, FunctionType) or not operator.__module__.startswith(ROOM):
        return None
    given = list(closed_over(operator))
    if operator.__module__ == COMPOSE:
        names = [name_of(each) for each in given]
        composed = COMPOSED.get(tuple(names))
        return composed or (names[-1] if names else None)
    made_in = (made_by(each) for each in [*given, operator])  # a function inside knows more: pluck gives one to map
    name = next((name for name in made_in if name is not None), None)
    return name and special(name, given)


def made_by(function: Any) -> str | None:
    """Return the operator in whose body *function* was made, or which it is."""
    inside = isinstance(function, FunctionType) and function.__module__.startswith(OPERATORS)
    return public(function.__qualname__) if inside else None


def public(qualified: str) -> str | None:
    """Return the public operator that a function of RxPY is, or is inside of."""
    name = qualified.split(".")[0].strip("_")
    name = INTERNAL.get(name, name)
    return name if name in operators.__all__ else None


def special(name: str, given: list[Any]) -> str:
    """Tell apart what one function of RxPY does for several operators, by what it was given."""
    if name == "find" and any(each is True for each in given):
        return "find_index"
    if name == "element_at_or_default" and any(each is False for each in given):
        return "element_at"
    if name == "multicast" and any(isinstance(each, ReplaySubject) for each in given):
        return "replay"
    if name == "multicast" and any(isinstance(each, BehaviorSubject) for each in given):
        return "publish_value"
    return name


def closed_over(function: Any) -> Iterator[Any]:
    """Yield what *function* has in its closure, and what is in tuples and dicts there."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        inside = value.values() if type(value) is dict else value if type(value) in (tuple, list) else [value]
        yield from inside
