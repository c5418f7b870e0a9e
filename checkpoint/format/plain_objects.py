"""Objects of the user's plain classes as stored: by the names of their attributes, as pickle has them, and checked.

Pickle gives a new object the attributes of the stored one, whatever its class is by then. That is right for most edits
of a class. But a dataclass with slots takes a dict for the list of its fields, a dict takes attributes that nobody
reads in it, and slots take none of a dict. So what is new is filled here, by name: an attribute goes where the class of
today has it, a dataclass of today is given what it lacks as between two dataclasses, and a class that is built on
something else than it was (on `dict`, `str`, `tuple`) is refused. What has a `__setstate__` today is filled by that.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from functools import lru_cache
from typing import Any

from checkpoint.format.named_fields import (
    RENAMED,
    attributes_in,
    built_on,
    check_built_on,
    come_to,
    fields_of,
    has_only_a_dict,
    is_usual,
    put,
    reducer_of,
    renamed,
)
from checkpoint.format.named_members import FieldsDiffer
from reliable_rx.class_of import is_a, name_of
from reliable_rx.functions.reach import is_own

CONTAINERS: dict[str, Callable[[Any], int]] = {"dict": dict.__len__, "list": list.__len__}


def reducer_for(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of *kind* are taken apart, by fields or by attributes; None: as pickle does it."""
    found = reducer_of(kind)
    return attributes_reducer(kind) if found is None else found


def attributes_reducer(kind: Any) -> Callable[[Any], Any] | None:
    """Return how objects of the plain class *kind* are taken apart; None for one that is no such class."""
    if kind in copyreg.dispatch_table or issubclass(kind, (Enum, type)) or not is_own(kind):
        return None
    if not (is_usual(kind, "__reduce_ex__", object) and is_usual(kind, "__reduce__", object)):
        return None
    base, maker = built_on(kind), (kind,)
    if not base and has_only_a_dict(kind) and not says_more(kind):  # as nearly all: the quick way to the same
        return lambda value: (__newobj__, maker, value.__dict__, None, None, set_attributes)

    def reduced(value: Any) -> Any:
        made, arguments, state, items, entries = (*value.__reduce_ex__(5), None, None, None)[:5]
        if state is None and base in CONTAINERS and CONTAINERS[base](value):  # what it holds tells what it is
            return made, arguments, None, items, entries
        return made, arguments, (base, state), items, entries, set_based

    return reduced


def says_more(kind: Any) -> bool:
    """Whether *kind* says itself what its objects are made of, or how they are filled."""
    of_its_own = any(hasattr(kind, name) for name in ("__setstate__", "__getnewargs__", "__getnewargs_ex__"))
    return of_its_own or not is_usual(kind, "__getstate__", object)


def set_attributes(value: Any, stored: Any) -> None:
    """Give *value*, which is new, the attributes that a plain object had."""
    kind: Any = type(value)
    if _is_filled_simply(kind):
        if stored:
            space = value.__dict__
            for name, each in stored.items():  # one by one: so the names stay shared with those of other objects
                space[name] = each
    else:
        set_based(value, ("", stored))


@lru_cache(maxsize=1000)
def _is_filled_simply(kind: Any) -> bool:
    is_other = hasattr(kind, "__setstate__") or hasattr(kind, RENAMED) or bool(fields_of(kind).names) or built_on(kind)
    return not is_other and has_only_a_dict(kind)


def set_based(value: Any, state: tuple[str, Any]) -> None:
    """Give *value*, which is new, what one had whose class was built on something: its name, and what pickle has."""
    base, stored = state
    kind: Any = type(value)
    check_built_on(kind, base)
    of_its_own = getattr(kind, "__setstate__", None)
    if of_its_own is not None and not _is_of_dataclass(of_its_own):
        if stored is not None:
            value.__setstate__(stored)
        return
    if not _are_attributes(stored):
        what = f"stored values of {name_of(kind)} have a {name_of(type(stored))} for their state, and no `__setstate__`"
        if _says_its_state(kind):  # as it was: they can never be read
            raise TypeError(f"{what} takes it")
        raise FieldsDiffer(f"{what} takes it today: give it back")
    found = attributes_in(stored)
    attributes = dict(zip(renamed(kind, tuple(found)), found.values(), strict=True))
    known = fields_of(kind)
    if known.names and not issubclass(kind, tuple) and not _says_its_state(kind):
        come = come_to(kind, tuple(attributes), attributes, known)
        if not hasattr(value, "__dict__"):  # a field may go, as between two dataclasses
            attributes = {name: each for name, each in attributes.items() if name in known.names}
        attributes |= come
    put(value, attributes)


def _are_attributes(stored: Any) -> bool:
    """Whether *stored* is what pickle gives an object without `__setstate__`: a dict, or one and that of its slots."""
    parts = stored if type(stored) is tuple and len(stored) == 2 else (stored,)
    return all(each is None or is_a(each, dict) for each in parts)


def _says_its_state(kind: Any) -> bool:
    """Whether *kind* leaves out what it likes, today, so that what is not there is no field that came."""
    return not is_usual(kind, "__getstate__", object) and not _is_of_dataclass(kind.__getstate__)


def _is_of_dataclass(method: Any) -> bool:
    """Whether `dataclasses` has written *method*, which takes a list of the fields."""
    return getattr(method, "__module__", None) == "dataclasses"
