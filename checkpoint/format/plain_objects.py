"""Objects of the user's plain classes as stored: with the shape of their class, by the names of their attributes.

Pickle gives a new object the attributes of the stored one, whatever its class is by then. That is right while the class
has the shape that it had, and for most edits. But a dataclass with slots takes a dict for the list of its fields, a
dict takes attributes that nobody reads in it, and slots take none of a dict. So an object whose class has the same
shape today is filled as pickle does it; one whose class has another is filled by name and checked: an attribute goes
where the class of today has it, a dataclass of today is given what it lacks as between two dataclasses, and a class
that is built on something else than it was (on `dict`, `str`, `tuple`) is refused. What has a `__setstate__` of its own
today is filled by that.

Rejected: checks for all objects (classes that nobody had edited were refused, one way of writing a class after the
other: those whose dict is themselves, those that leave a field out of their state, dataclasses without fields).
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from checkpoint.format.by_name import attributes_in, fill_by_name
from checkpoint.format.class_fields import is_named_tuple, said_by
from checkpoint.format.class_shape import (
    BY_LIST,
    PLAIN,
    Shape,
    check_built_on,
    has_only_a_dict,
    has_own_setstate,
    is_usual,
    set_as_pickle,
    shape_of,
)
from checkpoint.format.named_fields import reducer_of
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
    shape, maker = shape_of(kind), (kind,)
    if shape == PLAIN and has_only_a_dict(kind):  # as nearly all: the quick way to the same
        return lambda value: (__newobj__, maker, value.__dict__, None, None, set_attributes)
    stored_shape = tuple(shape)
    if shape._replace(over=()) == PLAIN and has_only_a_dict(kind):  # the same quick way
        return lambda value: (__newobj__, maker, (stored_shape, value.__dict__), None, None, set_shaped)

    def reduced(value: Any) -> Any:
        made, arguments, state, items, entries = (*value.__reduce_ex__(5), None, None, None)[:5]
        if state is None and shape.base in CONTAINERS and CONTAINERS[shape.base](value):  # what it holds tells it
            return made, arguments, None, items, entries
        return made, arguments, (stored_shape, state), items, entries, set_shaped

    return reduced


def set_attributes(value: Any, stored: Any) -> None:
    """Give *value*, which is new, the attributes that a plain object had."""
    kind: Any = type(value)
    if _known(kind).is_plain:
        if stored:
            space = value.__dict__
            for name, each in stored.items():  # one by one: so the names stay shared with those of other objects
                space[name] = each
    else:
        set_shaped(value, (PLAIN, stored))


class _Known(NamedTuple):
    """What is asked of a class for each of its objects."""

    shape: Shape
    is_plain: bool
    fills_itself: bool
    """Whether it has a `__setstate__`: its user's, a library's, or one that `dataclasses` have written."""
    old_names: frozenset[str]


@lru_cache(maxsize=1000)
def _known(kind: Any) -> _Known:
    shape, said = shape_of(kind), frozenset(name for each in said_by(kind) for name in each)
    is_plain = shape == PLAIN and has_only_a_dict(kind) and not said
    return _Known(shape, is_plain, hasattr(kind, "__setstate__"), said)


def set_shaped(value: Any, state: tuple[tuple[Any, ...], Any]) -> None:
    """Give *value*, which is new, the state of a stored one, whose class had a shape."""
    shape, stored = state
    kind: Any = type(value)
    known = _known(kind)
    if shape != known.shape or (known.old_names and not known.old_names.isdisjoint(attributes_in(stored))):
        _set_by_name(value, Shape(*shape), stored, known.shape)
    elif stored is not None:
        if known.fills_itself:
            value.__setstate__(stored)
        else:
            if not _are_attributes(stored):
                raise TypeError(f"{_state_of(kind, stored)} takes it")
            set_as_pickle(value, stored)


def _set_by_name(value: Any, shape: Shape, stored: Any, today: Shape) -> None:
    kind: Any = type(value)
    check_built_on(kind, shape.base)
    if is_named_tuple(kind):
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} are tuples without fields, and it has some today: make it what it was, "
            f"or call the new one otherwise"
        )
    if has_own_setstate(kind) or ("__setstate__" in today.says and "__setstate__" in shape.says):
        if stored is not None:
            value.__setstate__(stored)
        return
    if f"{BY_LIST}__getstate__" in shape.says and type(stored) is list:
        attributes = dict(zip(shape.fields, stored, strict=True))
    elif _are_attributes(stored):
        attributes = attributes_in(stored)
    elif any(each.endswith("__setstate__") for each in shape.says):
        raise FieldsDiffer(f"{_state_of(kind, stored)} takes it today: give it back")
    else:
        raise TypeError(f"{_state_of(kind, stored)} takes it")  # they never could be read
    leaves_out = not shape.fields and "__getstate__" in today.says
    fill_by_name(value, attributes, fields=shape.fields, over=shape.over, leaves_out=leaves_out)


def _are_attributes(stored: Any) -> bool:
    """Whether *stored* is what pickle gives an object without `__setstate__`: a dict, or one and that of its slots."""
    parts = stored if type(stored) is tuple and len(stored) == 2 else (stored,)
    return all(each is None or is_a(each, dict) for each in parts)


def _state_of(kind: Any, stored: Any) -> str:
    return f"stored values of {name_of(kind)} have a {name_of(type(stored))} for their state, and no `__setstate__`"
