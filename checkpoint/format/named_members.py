"""Members of enumerations as stored: by their names, not by their values.

Pickle writes a member by its value, and values are places where `auto()` counts them: behind an edit that puts one more
in front, old members would be read as others. A member whose value has changed is still the member of that name.

Rejected: by the value where no name fits (a name that is gone may have been given to another value on purpose).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, Flag
from functools import reduce
from operator import or_
from typing import Any

from reliable_rx.class_of import name_of

RENAMED = "__renamed_fields__"
"""What a class has to say which fields were stored under other names: ``{"old": "new"}``."""


class FieldsDiffer(ValueError):
    """A class is not what it was when values of it were stored, and does not say what its parts are to be."""


def member_reducer(kind: Any) -> Callable[[Any], Any]:
    """Return how members of the enumeration *kind* are taken apart."""
    return _flags if issubclass(kind, Flag) else _member


def _member(value: Any) -> Any:
    kind, name = type(value), value._name_
    if kind.__members__.get(name) is not value:  # one that `_missing_` has made
        return of_value, (kind, value._value_)
    return member, (kind, name)


def _flags(value: Any) -> Any:
    kind, bits = type(value), value._value_
    if type(bits) is not int or bits < 0:
        return of_value, (kind, bits)
    found = [name for name, each in kind.__members__.items() if each._name_ == name and _is_bit_of(each._value_, bits)]
    rest = bits & ~reduce(or_, (kind.__members__[name]._value_ for name in found), 0)
    if rest and kind.__members__.get(value._name_) is value:
        return member, (kind, value._name_)
    return flags, (kind, tuple(found), rest)


def _is_bit_of(bit: Any, bits: int) -> bool:
    return type(bit) is int and bit > 0 and bit & (bit - 1) == 0 and bit & bits != 0


def member(kind: Any, name: str) -> Any:
    """Return the member of *kind* that is called *name* now.

    >>> class Side(Enum):
    ...     HOLD, BUY, SELL = 1, 2, 3
    >>> member(Side, "BUY")
    <Side.BUY: 2>

    *Raises* `FieldsDiffer` if there is none.
    """
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise FieldsDiffer(f"stored values of {name_of(kind)} are members of an enumeration: make it one again")
    found = kind.__members__.get(name)
    if found is None:
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} have a member {name!r}, which it has no more: take it back, as a "
            f"second name if it is called something else now ({name} = NEW_NAME)"
        )
    return found


def flags(kind: Any, names: tuple[str, ...], rest: int) -> Any:
    """Return the members of *kind* that are called *names* now, as one value, with the bits that have no name.

    *Raises* `FieldsDiffer` for a kind of enumeration that has no such value.
    """
    bits = [member(kind, name).value for name in names]
    if any(type(each) is not int for each in bits):
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} are flags: make it the kind of enumeration again that it was"
        )
    return of_value(kind, reduce(or_, bits, rest))


def of_value(kind: Any, value: Any) -> Any:
    """Return what *kind* makes of *value* now. *Raises* `FieldsDiffer` if it is nothing."""
    try:
        return kind(value)
    except (TypeError, ValueError) as raised:
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} have no name, as several members together: {raised}; make it the kind "
            f"of enumeration again that it was"
        ) from raised
