"""Fields of a user's dataclass or named tuple: which there are, what they were called, what one is by default."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from checkpoint.format.class_shape import has_own_setstate, is_usual
from checkpoint.format.named_members import RENAMED, FieldsDiffer
from reliable_rx.class_of import name_of

_NAMED = namedtuple("_NAMED", "a")


class Fields(NamedTuple):
    """The fields of a class as it is now: their names, and what a value that lacks one is given."""

    names: tuple[str, ...]
    defaults: dict[str, Callable[[], Any]]
    all: frozenset[str] = frozenset()
    fills_itself: bool = False
    """Whether the class has a `__setstate__` of its own: it is given what pickle would give it."""


def is_named_tuple(kind: Any) -> bool:
    return (
        issubclass(kind, tuple)
        and type(getattr(kind, "_fields", None)) is tuple
        and is_usual(kind, "__getnewargs__", _NAMED)
        and not hasattr(kind, "__getnewargs_ex__")
        and is_usual(kind, "__getstate__", object)
    )


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
    fills_itself = has_own_setstate(kind)
    if not dataclasses.is_dataclass(kind):
        return Fields((), {}, fills_itself=fills_itself)
    made = {
        each.name: _always(each.default) if each.default_factory is dataclasses.MISSING else each.default_factory
        for each in dataclasses.fields(kind)
        if each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    }
    names = tuple(each.name for each in dataclasses.fields(kind))
    _check_not_exchanged(kind, names)
    return Fields(names, made, frozenset(names), fills_itself)


def renamed(kind: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what fields that were stored under *names* are called now, as *kind* says itself.

    >>> class Trade(NamedTuple):
    ...     price: float
    ...     quantity: int
    ...     __renamed_fields__ = {"qty": "quantity"}
    >>> renamed(Trade, ("qty", "price"))
    ('quantity', 'price')
    """
    said = said_by(kind)
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
    for each in said_by(kind):
        now = {old: new for old, new in each.items() if old in names and old != new}
        if _is_circular(now):
            raise _said_twice(kind, each, min(map(str, now)))


def _is_circular(now: dict[Any, Any]) -> bool:
    """Whether names have been exchanged: values from before and from behind that have the same ones."""
    ends = now
    for _ in now:
        ends = {old: now.get(new, new) for old, new in ends.items()}
    return any(new in now for new in ends.values())


def said_by(kind: Any) -> list[Mapping[Any, Any]]:
    """Return what a class and its bases say, each of its own fields."""
    found = (vars(each).get(RENAMED) for each in type.mro(kind))
    said = [each for each in found if isinstance(each, Mapping) and each]
    for each in said:
        if odd := [old for old, new in each.items() if type(old) is not str or type(new) is not str]:
            raise FieldsDiffer(
                f"{name_of(kind)} says in {RENAMED} of {odd[0]!r} what is no name: say what each is called today, "
                f"and leave out those that have gone"
            )
    return said


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


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value
