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
from collections import namedtuple
from collections.abc import Callable, Container, Mapping
from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import Enum
from functools import lru_cache, partial
from operator import attrgetter
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

from checkpoint.format.mentioned import check_not_hidden, mentioned, privates
from checkpoint.format.named_members import RENAMED, FieldsDiffer, member_reducer
from reliable_rx.class_of import is_python_class, module_of, name_of, qualname_of
from reliable_rx.functions.imports import INSTALLED

STDLIB = sysconfig.get_path("stdlib")
_NAMED = namedtuple("_NAMED", "a")
_OPEN = dataclasses.make_dataclass("_OPEN", ["a"])
_SLOTS = dataclasses.make_dataclass("_SLOTS", ["a"], slots=True, frozen=True)


class Fields(NamedTuple):
    """The fields of a class as it is now: their names, and what a value that lacks one is given."""

    names: tuple[str, ...]
    defaults: dict[str, Callable[[], Any]]
    fills_itself: bool = False
    """Whether the class has a `__setstate__` of its own: it is given what pickle would give it."""


def reducer_of(kind: Any) -> Callable[[Any], Any] | None:
    """Return how values of *kind* are taken apart by the names of their fields; None: as pickle does it.

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
    if not names or not is_usual(kind, "__getnewargs__", _OPEN) or hasattr(kind, "__getnewargs_ex__"):
        return None
    if is_usual(kind, "__getstate__", _SLOTS) and is_usual(kind, "__setstate__", _SLOTS):
        values = _values_of(names)
        if issubclass(kind, (list, dict)):
            return lambda value: _with_items(value, (names, values(value)))
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


def is_named_tuple(kind: Any) -> bool:
    return (
        issubclass(kind, tuple)
        and type(getattr(kind, "_fields", None)) is tuple
        and is_usual(kind, "__getnewargs__", _NAMED)
        and not hasattr(kind, "__getnewargs_ex__")
        and is_usual(kind, "__getstate__", object)
    )


def is_usual(kind: type, name: str, usual: type) -> bool:
    """Whether the method *name* of *kind* is that which the standard library has written."""
    found, ours = getattr(kind, name, None), getattr(usual, name, None)
    return found is ours or getattr(found, "__code__", None) is getattr(ours, "__code__", object)


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


def _with_items(value: Any, state: Any) -> Any:
    """Return what pickle makes of a *value* that is a list or a dict as well, with *state* in place of its fields."""
    made, arguments, _, items, entries = (*value.__reduce_ex__(5), None, None)[:5]
    return made, arguments, state, items, entries, set_fields


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
    if known.fills_itself:
        value.__setstate__([*values])
        return
    if not known.names:
        check_built_on(kind, "")
    if known.names == names:
        for name, each in zip(names, values, strict=True):
            object.__setattr__(value, name, each)
        return
    names = renamed(kind, names)
    found = dict(zip(names, values, strict=True)) | come_to(kind, names, names, known)
    check_not_hidden(kind, found)
    if not known.names:
        put(value, found)
        return
    used = mentioned(kind).intersection(names) if kind.__dictoffset__ else ()
    for name in (*known.names, *used):
        object.__setattr__(value, name, found[name])


def set_state(value: Any, state: tuple[tuple[str, ...], Any]) -> None:
    """Do as pickle does with the state of a *value* whose attributes go by name, and give it what it lacks."""
    names, stored = state
    kind: Any = type(value)
    known = fields_of(kind)
    if known.fills_itself:
        value.__setstate__(stored)
        return
    if known.names == names and type(stored) is dict and has_only_a_dict(kind):
        space = value.__dict__
        for name, each in stored.items():  # one by one: so the names stay shared with those of other objects
            space[name] = each
        return
    attributes = attributes_in(stored)
    if not known.names:
        check_built_on(kind, "")
        attributes = dict(zip(renamed(kind, tuple(attributes)), attributes.values(), strict=True))
        check_not_hidden(kind, attributes)
    elif known.names != names:
        now = dict(zip(names, renamed(kind, names), strict=True))
        beside = {name: it for name, it in attributes.items() if name not in now}  # it may be a field by now
        beside = dict(zip(renamed(kind, tuple(beside)), beside.values(), strict=True))
        attributes = beside | {new: attributes[name] for name, new in now.items() if name in attributes}
        names = tuple(now.values())
        come = [each for each in known.names if each not in names]
        kept = [name for each in come for name in privates(kind, each) & beside.keys() - mentioned(kind)]
        attributes |= come_to(kind, (*names, *kept), attributes, known)
        for name in set(names) - {*known.names} - mentioned(kind):
            attributes.pop(name, None)
        check_not_hidden(kind, attributes)
    put(value, attributes)


def attributes_in(stored: Any) -> dict[str, Any]:
    """Return what lay in the dict of an object, and in its slots, out of the state that pickle has of it."""
    parts = stored if type(stored) is tuple else (stored,)
    return {name: value for part in parts if isinstance(part, Mapping) for name, value in part.items()}


def put(value: Any, attributes: Mapping[str, Any]) -> None:
    """Give *value* attributes, each in a slot or in its dict, as its class has a place for it."""
    kind: Any = type(value)
    slots = slots_of(kind)
    space: dict[str, Any] | None = value.__dict__ if kind.__dictoffset__ else None  # its `__getattr__` is not asked
    for name, each in attributes.items():
        if name in slots:
            object.__setattr__(value, name, each)
        elif space is not None:
            space[name] = each
        else:
            raise FieldsDiffer(
                f"stored values of {name_of(kind)} have an attribute {name!r}, for which the class has no place: add "
                f"it to its slots, or make the class what it was"
            )


@lru_cache(maxsize=1000)
def has_only_a_dict(kind: Any) -> bool:
    """Whether the attributes of objects of *kind* lie in a dict, which is the one that Python gives them."""
    own = (vars(each).get("__dict__") for each in type.mro(kind))
    is_pythons = all(each is None or type(each) is GetSetDescriptorType for each in own)
    return is_pythons and bool(kind.__dictoffset__) and not slots_of(kind)


@lru_cache(maxsize=1000)
def slots_of(kind: Any) -> frozenset[str]:
    """Return the names of the attributes that have a slot, as a class that is written in Python has it."""
    spaces = [vars(each) for each in type.mro(kind) if is_python_class(each)]
    return frozenset(name for space in spaces for name, it in space.items() if type(it) is MemberDescriptorType)


def renamed(kind: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what fields that were stored under *names* are called now, as *kind* says itself.

    >>> class Trade(NamedTuple):
    ...     price: float
    ...     quantity: int
    ...     __renamed_fields__ = {"qty": "quantity"}
    >>> named(Trade, ("qty", "price"), (3, 9.5))
    Trade(price=9.5, quantity=3)
    """
    said = _said(kind)
    if not said:
        return names
    known, pairs = fields_of(kind).names, {pair for each in said for pair in each.items() if pair[0] in names}
    for each in said:
        if again := sorted(set(map(str, each.values())) & set(map(str, each))):
            raise _said_twice(kind, each, again[0])
    while stored := {pair for pair in pairs if pair[1] in names and pair[1] not in dict(pairs)}:
        pairs -= stored  # it is called so already: the old name is another field's by now
    now = dict(pairs)
    found = tuple(now.get(name, name) for name in names)
    unclear = any(new not in known and old in known for old, new in pairs) or len(now) < len(pairs)
    if unclear or len(set(found)) < len(found) or _is_circular(now):
        raise FieldsDiffer(
            f"{name_of(kind)} says {', '.join(f'{RENAMED} = {dict(each)!r}' for each in said)}, and stored values of "
            f"it have the fields {', '.join(names)}: which of them are meant cannot be told; take out what was said of "
            f"earlier versions"
        )
    return found


def _said_twice(kind: Any, said: Mapping[Any, Any], name: str) -> FieldsDiffer:
    return FieldsDiffer(
        f"{name_of(kind)} says {RENAMED} = {dict(said)!r}, by which {name!r} is an old name and a new one: say for "
        f"each old name what the field is called today; where fields have exchanged names, call one of them otherwise"
    )


def _check_not_exchanged(kind: Any, names: tuple[str, ...]) -> None:
    """*Raises* `FieldsDiffer` if *kind* says that its fields, called *names*, have those of each other.

    Values from before and from behind have the same ones then, so that none tells whose they are.
    """
    for each in _said(kind):
        now = {old: new for old, new in each.items() if old in names and old != new}
        if _is_circular(now):
            raise _said_twice(kind, each, min(map(str, now)))


def _is_circular(now: dict[Any, Any]) -> bool:
    """Whether names have been exchanged: values from before and from behind that have the same ones."""
    ends = now
    for _ in now:
        ends = {old: now.get(new, new) for old, new in ends.items()}
    return any(new in now for new in ends.values())


def _said(kind: Any) -> list[Mapping[Any, Any]]:
    """Return what a class and its bases say, each of its own fields."""
    found = (vars(each).get(RENAMED) for each in type.mro(kind))
    return [each for each in found if isinstance(each, Mapping) and each]


def come_to(kind: Any, names: tuple[str, ...], found: Container[str], known: Fields) -> dict[str, Any]:
    """Return the fields that *kind* has by now and a stored value has not: its class had *names*, and it had *found*.

    *Raises* `FieldsDiffer` where it is not known what one is.
    """
    come = [name for name in known.names if name not in names and name not in found]
    gone = [name for name in names if name not in known.names and name in found]
    bare = [name for name in come if name not in known.defaults]
    if gone and come:
        old, new = gone[0], come[0]
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} have a field {old!r} and no {new!r}, which looks renamed: call it "
            f"{old!r} again, or have the class say {RENAMED} = {{{old!r}: {new!r}}}; if it is another field, take the "
            f"old one away first, and add the new one behind another stop"
        )
    if bare:
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} have no field {bare[0]!r}: give it a default, or take it back"
        )
    return {name: known.defaults[name]() for name in come}


@lru_cache(maxsize=1000)
def fields_of(kind: Any) -> Fields:
    """Return the fields of a named tuple or a dataclass; none of another class, which takes what comes.

    *Raises* `FieldsDiffer` if it says that they have exchanged their names.
    """
    if issubclass(kind, tuple):
        if not is_named_tuple(kind) or not hasattr(kind, "_field_defaults"):  # one that was written by hand
            return Fields((), {})
        named: Any = kind
        _check_not_exchanged(kind, named._fields)
        return Fields(named._fields, {name: _always(each) for name, each in named._field_defaults.items()})
    own = getattr(kind, "__setstate__", None)
    fills_itself = own is not None and getattr(own, "__module__", None) != "dataclasses"
    if not dataclasses.is_dataclass(kind):
        return Fields((), {}, fills_itself)
    made = {
        each.name: _always(each.default) if each.default_factory is dataclasses.MISSING else each.default_factory
        for each in dataclasses.fields(kind)
        if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    }
    names = tuple(each.name for each in dataclasses.fields(kind))
    _check_not_exchanged(kind, names)
    return Fields(names, made, fills_itself)


@lru_cache(maxsize=1000)
def built_on(kind: Any) -> str:
    """Name the builtin class that decides what objects of *kind* are; nothing for a plain `object`.

    >>> class Row(dict): ...
    >>> built_on(Row), built_on(Exception), built_on(object)
    ('dict', 'Exception', '')
    """
    found = next(each for each in type.mro(kind) if not is_python_class(each))
    return "" if found is object else qualname_of(found)


def check_built_on(kind: Any, base: str) -> None:
    """*Raises* `FieldsDiffer` if *kind* is built on something else than *base* today."""
    now = built_on(kind)
    if now != base:
        was, today = (f"built on {each}" if each else "plain objects" for each in (base, now))
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} are {was}, and it is {today.replace('objects', 'object')} today, so "
            f"that they do not fit: make it what it was, or call the new one otherwise"
        )


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value
