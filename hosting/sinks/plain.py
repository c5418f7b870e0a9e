"""Values as plain JSON: dictionaries, lists, strings, numbers, True, False, None.

What `json` would write otherwise than one wants (a NamedTuple as a nameless list) or not at all is turned here: by the
exact type, remembered per type, so that common values cost one look-up.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from hosting.sinks.text import digits
from reliable_rx.class_of import name_of, path_of
from reliable_rx.operators.contract.arguments import cut

_ATOMS = (str, int, float, bool, type(None))
_TEXTS = (decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePath)
_CONVERTERS: dict[type, Callable[[Any], Any] | None] = dict.fromkeys(_ATOMS)
_TYPES_MAX = 10_000
ITEMS_MAX = 10_000_000
"""How many items a value may have in all that it holds, which may hold one thing at many places, or nowhere."""
HOLDER = 8
"""How many items a list within a list counts for, as long as it takes."""
_HOLDERS = frozenset((dict, list))


class _Written(threading.local):
    """How many items of the value at work were turned."""

    items = 0


_WRITTEN = _Written()


def to_plain(value: Any) -> Any:
    """Turn *value* into what `json` writes faithfully.

    Named tuples, dataclasses and mappings become objects, sets sorted lists, dates ISO 8601 text, a timedelta
    seconds, decimals, fractions, UUIDs and paths text, an enum its value.

    >>> import collections, decimal
    >>> to_plain(collections.namedtuple("Price", "symbol amount")("A", decimal.Decimal("1.50")))
    {'symbol': 'A', 'amount': '1.50'}

    *Raises* `TypeError` for anything else, and `ValueError` for what has very many items when it is written out: a
    range of very many numbers, or a list that holds one list many times, which does so too.
    """
    kind = type(value)
    if kind not in _CONVERTERS:
        _learn(kind)
    convert = _CONVERTERS[kind]
    if convert is None:
        return value
    _WRITTEN.items = 0
    return convert(value)


def _part(value: Any) -> Any:
    """Turn what a value holds into what `json` writes faithfully."""
    kind = type(value)
    if kind not in _CONVERTERS:
        _learn(kind)
    convert = _CONVERTERS[kind]
    if convert is None:
        return value
    plain = convert(value)
    written = _WRITTEN.items = _WRITTEN.items + (len(plain) + HOLDER if type(plain) in _HOLDERS else 1)
    if written > ITEMS_MAX:
        raise ValueError(
            f"it has over {ITEMS_MAX:,} items when it is written out; give the sink encode=, which makes it smaller"
        )
    return plain


def field_names(value: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a named tuple, a dataclass or a mapping, else None."""
    kind = type(value)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind))
    return tuple(value) if isinstance(value, Mapping) else None


def _learn(kind: type) -> None:
    if len(_CONVERTERS) >= _TYPES_MAX:  # types made at run time must not fill the memory
        _CONVERTERS.clear()
        _CONVERTERS.update(dict.fromkeys(_ATOMS))
    _CONVERTERS[kind] = _converter(kind)


def _converter(kind: type) -> Callable[[Any], Any] | None:
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = tuple(kind._fields)
        return lambda v: dict(zip(names, map(_part, v), strict=True))
    if dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind))
        return lambda v: {name: _part(getattr(v, name)) for name in names}
    for base, convert in _BASES:
        if issubclass(kind, base) and not issubclass(kind, (bytes, bytearray, memoryview)):
            return convert
    how = "with its .tolist()" if hasattr(kind, "tolist") else "to a dict, a dataclass or a NamedTuple"  # of NumPy
    raise TypeError(f"a {path_of(kind)} has no JSON form; give the sink encode=, which maps it {how}")


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    plain = {_key(key): _part(item) for key, item in value.items()}
    if len(plain) < len(value):
        raise TypeError(f"two keys of {cut(list(value))} have the same JSON form; use text as keys")
    return plain


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    plain = _part(key)
    if isinstance(plain, bool) or plain is None:
        return {True: "true", False: "false", None: "null"}[plain]
    if isinstance(plain, (str, int, float)):
        return digits(plain) if type(plain) is int else str(plain)
    raise TypeError(f"the key {cut(key)} has no JSON form; use text as key, or give the sink encode=")


def _sorted(value: Set[Any]) -> list[Any]:
    plain = [_part(item) for item in value]
    try:
        return sorted(plain)
    except TypeError:
        return sorted(plain, key=repr)


def _sequence(value: Sequence[Any]) -> list[Any]:
    if len(value) > ITEMS_MAX:
        raise ValueError(f"a {name_of(type(value))} of {len(value):,} items is too long to be written out")
    return list(map(_part, value))


_BASES: tuple[tuple[Any, Callable[[Any], Any] | None], ...] = (
    (enum.Enum, lambda v: _part(v.value)),
    (Mapping, _mapping),
    (_ATOMS, None),
    ((list, tuple), lambda v: list(map(_part, v))),
    (Set, _sorted),
    ((datetime.date, datetime.time), lambda v: v.isoformat()),
    (datetime.timedelta, lambda v: v.total_seconds()),
    (_TEXTS, str),
    (Sequence, _sequence),
)
