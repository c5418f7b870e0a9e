"""Values of dataclasses and named tuples as stored: by the names of their fields, not by their places.

Pickle writes a named tuple, and a dataclass with slots, as a list of values: behind an edit that moves a field old
values would be read with fields exchanged, without an error. By names a class may change as tables do: a field may
move, go, or come with a default. What cannot be told from a field that was renamed is refused. What takes itself apart
(`__reduce__`, `__getstate__`, `__getnewargs__`) goes as it says. Dataclasses without slots go by names anyway; what
they lack is filled in, and refused, by the same rule.

Rejected: a list of all classes in each checkpoint (which values hold one is not known without reading them all).
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Iterable
from copyreg import __newobj__  # type: ignore[attr-defined]
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from reliable_rx.class_of import name_of

_NAMED = namedtuple("_NAMED", "a")
_OPEN = dataclasses.make_dataclass("_OPEN", ["a"])
_SLOTS = dataclasses.make_dataclass("_SLOTS", ["a"], slots=True, frozen=True)


class Fields(NamedTuple):
    """The fields of a class as it is now: their names, and what a value that lacks one is given."""

    names: tuple[str, ...]
    defaults: dict[str, Callable[[], Any]]


def reducer_of(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of *kind* are taken apart by the names of their fields; None: as pickle does it.

    >>> class Trade(NamedTuple):
    ...     price: float
    ...     qty: int
    >>> reducer_of(Trade)(Trade(9.5, 3))[1][1:]
    (('price', 'qty'), (9.5, 3))
    """
    if not (_plain(kind, "__reduce_ex__", object) and _plain(kind, "__reduce__", object)):
        return None
    if is_named_tuple(kind):
        names = kind._fields
        return lambda value: (named, (kind, names, tuple(value)))
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    names = tuple(each.name for each in dataclasses.fields(kind))
    if names and not kind.__dictoffset__ and _goes_as(kind, _SLOTS):
        values = _values_of(names)
        return lambda value: (__newobj__, (kind,), (names, values(value)), None, None, set_fields)
    if names and _goes_as(kind, _OPEN):
        return partial(_opened, names)
    return None


def _goes_as(kind: type, usual: type) -> bool:
    return all(_plain(kind, name, usual) for name in ("__getstate__", "__setstate__", "__getnewargs__"))


def _opened(names: tuple[str, ...], value: Any) -> Any:
    """Return what pickle makes of a *value* whose fields go by name, with the names of all."""
    made = value.__reduce_ex__(5)
    state = made[2] if len(made) > 2 else None
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:
        state = {**(state[0] or {}), **state[1]}
    if type(state) is not dict:
        return made
    return *made[:2], (names, state), *(made[3:5] or (None, None)), set_dict


def is_named_tuple(kind: type) -> bool:
    names = getattr(kind, "_fields", None)
    return (
        issubclass(kind, tuple)
        and type(names) is tuple
        and not kind.__dictoffset__
        and _plain(kind, "__getnewargs__", _NAMED)
        and _plain(kind, "__getstate__", object)
    )


def _plain(kind: type, name: str, usual: type) -> bool:
    """Whether the method *name* of *kind* is that which the standard library has written."""
    found, ours = getattr(kind, name, None), getattr(usual, name, None)
    return found is ours or getattr(found, "__code__", None) is getattr(ours, "__code__", object)


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        return lambda value: (getattr(value, names[0]),)
    return attrgetter(*names)


def named(kind: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """Return a named tuple of *kind* as it is now from a stored one."""
    if kind._fields != names:
        found = fitted(kind, names, values, fields_of(kind))
        values = tuple(found[name] for name in kind._fields)
    return kind.__new__(kind, *values)


def set_fields(value: Any, state: tuple[tuple[str, ...], tuple[Any, ...]]) -> None:
    """Give *value*, which is new, the fields that a stored one had."""
    kind: Any = type(value)
    names, values = state
    known = fields_of(kind)
    found: Iterable[tuple[str, Any]] = zip(names, values, strict=True)
    if known.names != names:
        found = fitted(kind, names, values, known).items()
    for name, each in found:
        object.__setattr__(value, name, each)


def set_dict(value: Any, state: tuple[tuple[str, ...], dict[str, Any]]) -> None:
    """Do the same for a value that has a dict; what is no field in it stays."""
    names, found = state
    kind: Any = type(value)
    known = fields_of(kind)
    if known.names != names:
        mine = [name for name in names if name in found]
        fields = fitted(kind, tuple(mine), tuple(found[name] for name in mine), known)
        found = {name: each for name, each in found.items() if name not in mine} | fields
    for name, each in found.items():
        object.__setattr__(value, name, each)


def fitted(kind: type, names: tuple[str, ...], values: tuple[Any, ...], known: Fields) -> dict[str, Any]:
    """Return the fields that *kind* has now. *Raises* `ValueError` where a stored value does not say what one is."""
    found = dict(zip(names, values, strict=True))
    gone = [name for name in names if name not in known.names]
    come = [name for name in known.names if name not in found]
    bare = [name for name in come if name not in known.defaults]
    if bare:
        raise ValueError(
            f"stored values of {name_of(kind)} have no field {bare[0]!r}: give it a default, or take it back"
        )
    if gone and come:
        raise ValueError(
            f"stored values of {name_of(kind)} have a field {gone[0]!r} and no {come[0]!r}, which looks renamed: "
            f"call it {gone[0]!r} again, or add the new field first and take the old one away behind another stop"
        )
    return {name: found[name] if name in found else known.defaults[name]() for name in known.names}


@cache
def fields_of(kind: Any) -> Fields:
    """Return the fields of a named tuple or a dataclass. Classes are few: one that is made anew is another."""
    if issubclass(kind, tuple):
        named: Any = kind
        return Fields(named._fields, {name: _always(each) for name, each in named._field_defaults.items()})
    made = {
        each.name: _always(each.default) if each.default_factory is dataclasses.MISSING else each.default_factory
        for each in dataclasses.fields(kind)
        if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    }
    return Fields(tuple(each.name for each in dataclasses.fields(kind)), made)


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value
