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
import dataclasses
from collections.abc import Callable, Mapping
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from checkpoint.format.mentioned import check_not_hidden, hidden_by, mentioned
from checkpoint.format.named_fields import (
    attributes_in,
    built_on,
    check_built_on,
    come_to,
    fields_of,
    has_only_a_dict,
    is_named_tuple,
    is_usual,
    put,
    reducer_of,
    renamed,
    slots_of,
)
from checkpoint.format.named_members import RENAMED, FieldsDiffer
from reliable_rx.class_of import is_a, name_of
from reliable_rx.functions.reach import is_own

CONTAINERS: dict[str, Callable[[Any], int]] = {"dict": dict.__len__, "list": list.__len__}


def reducer_for(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of *kind* are taken apart, by fields or by attributes; None: as pickle does it."""
    found = reducer_of(kind)
    return attributes_reducer(kind) if found is None else found


class Shape(NamedTuple):
    """What decides how the objects of a class are taken apart, and filled: the same for a class that is not edited."""

    base: str = ""
    """The builtin class on which it is built, or nothing."""
    fields: tuple[str, ...] = ()
    """Those of a dataclass."""
    slots: tuple[str, ...] = ()
    has_dict: bool = True
    says: tuple[str, ...] = ()
    """Which of `STATE` it has written itself, and under `BY_LIST` which of them `dataclasses` have written."""


STATE = ("__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
BY_LIST = "dataclasses."
"""A dataclass that is frozen and has slots has the list of its fields for its state."""
PLAIN = Shape()


@lru_cache(maxsize=1000)
def shape_of(kind: Any) -> Shape:
    """Return the shape of a class as it is now.

    >>> class Row(dict):
    ...     __slots__ = ("at",)
    >>> shape_of(Row)
    Shape(base='dict', fields=(), slots=('at',), has_dict=False, says=())
    """
    fields = tuple(each.name for each in dataclasses.fields(kind)) if hasattr(kind, "__dataclass_fields__") else ()
    says = [
        BY_LIST * (getattr(getattr(kind, name), "__module__", None) == "dataclasses") + name
        for name in STATE
        if not is_usual(kind, name, object)
    ]
    return Shape(built_on(kind), fields, tuple(sorted(slots_of(kind))), bool(kind.__dictoffset__), tuple(says))


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

    def reduced(value: Any) -> Any:
        made, arguments, state, items, entries = (*value.__reduce_ex__(5), None, None, None)[:5]
        if state is None and shape.base in CONTAINERS and CONTAINERS[shape.base](value):  # what it holds tells it
            return made, arguments, None, items, entries
        return made, arguments, (stored_shape, state), items, entries, set_shaped

    return reduced


def set_attributes(value: Any, stored: Any) -> None:
    """Give *value*, which is new, the attributes that a plain object had."""
    kind: Any = type(value)
    known = _known(kind)
    if known.is_plain and known.hidden.keys().isdisjoint(stored):
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
    says_renamed: bool
    fills_itself: bool
    """Whether it has a `__setstate__`, of its own or one that `dataclasses` have written."""
    slots: frozenset[str]
    hidden: Mapping[str, str]


@lru_cache(maxsize=1000)
def _known(kind: Any) -> _Known:
    shape, renamed = shape_of(kind), hasattr(kind, RENAMED)
    is_plain = shape == PLAIN and has_only_a_dict(kind) and not renamed
    return _Known(shape, is_plain, renamed, hasattr(kind, "__setstate__"), slots_of(kind), hidden_by(kind))


def set_shaped(value: Any, state: tuple[tuple[Any, ...], Any]) -> None:
    """Give *value*, which is new, the state of a stored one, whose class had a shape."""
    shape, stored = state
    kind: Any = type(value)
    known = _known(kind)
    if shape == known.shape and not known.says_renamed:
        _set_as_pickle(value, stored, known)
    else:
        _set_by_name(value, Shape(*shape), stored, known.shape)


def _set_as_pickle(value: Any, stored: Any, known: _Known) -> None:
    """Do as pickle does, but for slots of a class whose objects refuse to be set."""
    if stored is None:
        return
    if known.fills_itself:
        value.__setstate__(stored)
        return
    kind: Any = type(value)
    own, beside = stored if type(stored) is tuple and len(stored) == 2 else (stored, None)
    if (own and not is_a(own, dict)) or (beside and not is_a(beside, dict)):
        _check_attributes(kind, stored, once_had=False)
    if own:
        if "__getstate__" not in known.shape.says and not known.hidden.keys().isdisjoint(own):
            check_not_hidden(kind, own)
        put(value, own)
    slots, set_slot = known.slots, object.__setattr__
    for name, each in beside.items() if beside else ():
        set_slot(value, name, each) if name in slots else setattr(value, name, each)


def _set_by_name(value: Any, shape: Shape, stored: Any, today: Shape) -> None:
    """Give *value* what an object had whose class had another shape: each attribute goes where the class has it."""
    kind: Any = type(value)
    check_built_on(kind, shape.base)
    if is_named_tuple(kind):
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} are tuples without fields, and it has some today: make it what it was, "
            f"or call the new one otherwise"
        )
    if "__setstate__" in today.says:
        if stored is not None:
            value.__setstate__(stored)
        return
    attributes = _attributes(kind, shape, stored)
    known = fields_of(kind)
    if known.names and not issubclass(kind, tuple):
        if shape.fields or "__getstate__" not in today.says:  # else it leaves out what it likes
            names = shape.fields or tuple(each for each in attributes if _may_be_renamed(kind, each))
            attributes |= come_to(kind, (*renamed(kind, names),), attributes, known)
        if not today.has_dict:  # a field may go, as between two dataclasses
            attributes = {name: each for name, each in attributes.items() if name in {*known.names, *today.slots}}
    check_not_hidden(kind, attributes)
    put(value, attributes)


def _attributes(kind: Any, shape: Shape, stored: Any) -> dict[str, Any]:
    """Return what was *stored* of an object of another shape, by the names that it has today."""
    if f"{BY_LIST}__getstate__" in shape.says and type(stored) is list:
        found = dict(zip(shape.fields, stored, strict=True))
    else:
        _check_attributes(kind, stored, once_had=any(each.endswith("__setstate__") for each in shape.says))
        found = attributes_in(stored)
    return dict(zip(renamed(kind, tuple(found)), found.values(), strict=True))


def _check_attributes(kind: Any, stored: Any, *, once_had: bool) -> None:
    """*Raises* if it is not what pickle gives an object without `__setstate__`: a dict, or one and that of its slots.

    It can be read again with a `__setstate__` if the class *once had* one; else it never could be.
    """
    parts = stored if type(stored) is tuple and len(stored) == 2 else (stored,)
    if all(each is None or is_a(each, dict) for each in parts):
        return
    what = f"stored values of {name_of(kind)} have a {name_of(type(stored))} for their state, and no `__setstate__`"
    if once_had:
        raise FieldsDiffer(f"{what} takes it today: give it back")
    raise TypeError(f"{what} takes it")


def _may_be_renamed(kind: Any, name: str) -> bool:
    """Whether what is no field today may have become one under another name."""
    return name not in mentioned(kind) and not name.startswith("__")
