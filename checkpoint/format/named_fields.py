"""Values of dataclasses and named tuples as stored: by the names of their fields, not by their places.

Pickle writes a named tuple, and a dataclass with slots, as a list of values: behind an edit that moves a field old
values would be read with fields exchanged, without an error. By names a class may change as tables do: a field may
move, go, or come with a default. What cannot be told from a field that was renamed is refused. What takes itself apart
(`__reduce__`, `__getstate__`, `__getnewargs__`) goes as it says. Dataclasses without slots go by names anyway; what
they lack is filled in, and refused, by the same rule.

Rejected: a list of all classes in each checkpoint (which values hold one is not known without reading them all).
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
import sysconfig
from collections.abc import Callable
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any

from checkpoint.format.by_name import attributes_in, fill_by_name
from checkpoint.format.class_fields import come_to, fields_of, is_named_tuple, renamed
from checkpoint.format.class_shape import (
    built_on,
    check_built_on,
    has_only_a_dict,
    is_computed,
    is_private,
    is_usual,
    nearest,
    slots_of,
)
from checkpoint.format.named_members import FieldsDiffer, member_reducer
from reliable_rx.class_of import module_of, name_of, qualname_of
from reliable_rx.functions.imports import INSTALLED

STDLIB = sysconfig.get_path("stdlib")
_OPEN = dataclasses.make_dataclass("_OPEN", ["a"])
_SLOTS = dataclasses.make_dataclass("_SLOTS", ["a"], slots=True, frozen=True)


def reducer_of(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of *kind* are taken apart by the names of their fields; None: as pickle does it.

    >>> from typing import NamedTuple
    >>> class Trade(NamedTuple):
    ...     price: float
    ...     qty: int
    >>> reducer_of(Trade)(Trade(9.5, 3))[1][1:]
    (('price', 'qty'), (9.5, 3))
    """
    if kind in copyreg.dispatch_table:
        return None
    if issubclass(kind, Enum):
        by_name = is_usual(kind, "__reduce_ex__", Enum) and not _is_pythons(kind)
        return member_reducer(kind) if by_name else None
    if not (is_usual(kind, "__reduce_ex__", object) and is_usual(kind, "__reduce__", object)):
        return None
    if is_named_tuple(kind):
        return _open_tuple if kind.__dictoffset__ else _named_tuple
    names = tuple(each.name for each in dataclasses.fields(kind)) if hasattr(kind, "__dataclass_fields__") else ()
    if not names or built_on(kind) or not is_usual(kind, "__getnewargs__", _OPEN) or hasattr(kind, "__getnewargs_ex__"):
        return None
    if is_usual(kind, "__getstate__", _SLOTS) and is_usual(kind, "__setstate__", _SLOTS):
        values = _values_of(names)
        return lambda value: (__newobj__, (kind,), (names, values(value)), None, None, set_fields)
    if is_usual(kind, "__getstate__", _OPEN) and is_usual(kind, "__setstate__", _OPEN):
        return partial(_opened, names)
    return None


def _is_pythons(kind: Any) -> bool:
    """Whether *kind* is an enumeration of Python itself: values of its members stay, while names may be others."""
    file = getattr(sys.modules.get(module_of(kind)), "__file__", None)
    return (
        type(file) is str
        and file.startswith(STDLIB)
        and not any(each in file for each in INSTALLED)
        and all(isinstance(each._value_, (int, str)) for each in kind.__members__.values())
    )


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        return lambda value: (getattr(value, names[0]),)
    return attrgetter(*names)


def _named_tuple(value: Any) -> Any:
    kind = type(value)
    return named, (kind, kind._fields, tuple(value))


def _open_tuple(value: Any) -> Any:
    """Return the same for one that has a dict beside its fields."""
    return *_named_tuple(value), value.__dict__ or None


def _opened(names: tuple[str, ...], value: Any) -> Any:
    """Return what pickle makes of a *value* whose fields go by name, with the names of all."""
    made = value.__reduce_ex__(5)
    if len(made) < 3 or type(made[2]) not in (dict, tuple):
        return made
    return *made[:2], (names, made[2]), *(made[3:5] or (None, None)), set_state


def named(kind: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return a named tuple of *kind* as it is now from a stored one."""
    check_class(kind)
    now = getattr(kind, "_fields", None)
    if now is None:
        raise FieldsDiffer(f"stored values of {name_of(kind)} are named tuples: make it one again")
    known = fields_of(kind)
    if now != names:
        names = renamed(kind, names)
        found = dict(zip(names, values, strict=True)) | come_to(kind, names, names, known)
        values = tuple(found[name] for name in now)
    try:
        return kind.__new__(kind, *values)
    except (TypeError, ValueError) as raised:
        raise FieldsDiffer(f"stored values of {name_of(kind)} cannot be made any more: {raised}") from raised


def check_class(kind: Any) -> None:
    """*Raises* `FieldsDiffer` if what goes by the name of a class is none today."""
    if not isinstance(kind, type):
        name = getattr(kind, "__qualname__", "")
        what = f"a {qualname_of(type(kind))}" + (f" {name!r}" if type(name) is str and name else "")
        raise FieldsDiffer(f"the name of a class of stored values is that of {what} today: make it one again")


def set_fields(value: Any, state: tuple[tuple[str, ...], tuple[Any, ...]]) -> None:
    """Give *value*, which is new, the fields that a stored one had."""
    names, values = state
    kind: Any = type(value)
    known = fields_of(kind)
    if known.names == names and not known.fills_itself:
        for name, each in zip(names, values, strict=True):
            object.__setattr__(value, name, each)
    elif known.fills_itself:
        value.__setstate__([*values])
    else:
        check_built_on(kind, "")
        fill_by_name(value, dict(zip(names, values, strict=True)), fields=names)


def set_as_stored(value: Any, state: tuple[tuple[str, ...], tuple[Any, ...]]) -> None:
    """Do the same for a class that came with the value, and may not be finished: nothing is asked of it."""
    for name, each in zip(*state, strict=True):
        object.__setattr__(value, name, each)


def set_state(value: Any, state: tuple[tuple[str, ...], Any]) -> None:
    """Do as pickle does with the state of a *value* whose attributes go by name, and give it what it lacks."""
    names, stored = state
    kind: Any = type(value)
    known = fields_of(kind)
    if known.fills_itself:
        value.__setstate__(stored)
    elif known.names != names:
        check_built_on(kind, "")
        fill_by_name(value, attributes_in(stored), fields=names)
    elif type(stored) is dict and has_only_a_dict(kind) and (known.all <= stored.keys() or _is_unset(kind, stored)):
        space = value.__dict__
        for name, each in stored.items():  # one by one: so the names stay shared with those of other objects
            space[name] = each
    elif type(stored) is dict and has_only_a_dict(kind):
        fill_by_name(value, stored, fields=names)
    else:
        _set_each(value, attributes_in(stored))


def _is_unset(kind: Any, stored: dict[str, Any]) -> bool:
    """Whether the fields that were not *stored* had not been set: none is there as what a property was before."""
    there = nearest(kind)
    missing = [name for name in fields_of(kind).names if name not in stored and not is_computed(there.get(name))]
    return not any(is_private(each, name) for each in stored for name in missing)


def _set_each(value: Any, attributes: dict[str, Any]) -> None:
    """Give *value* the attributes of one that had the same fields, in slots or in a dict."""
    kind: Any = type(value)
    slots, space = slots_of(kind), value.__dict__ if kind.__dictoffset__ else None
    if space is None and not slots.issuperset(attributes):
        fill_by_name(value, attributes, fields=tuple(attributes))
        return
    for name, each in attributes.items():
        if name in slots:
            object.__setattr__(value, name, each)
        elif space is not None:
            space[name] = each
