"""The parameters of operators: set once, equal by identity, and stored without a dictionary.

CPython up to 3.12 keeps the values of an object in a row until somebody asks for its `__dict__`, and from then on in a
hash table, for good. `object.__getstate__` asks for it. An operator of a few instructions took a quarter longer.

Rejected: `__slots__`, which no class can have together with defaults of its parameters, and `dataclass(slots=True)`,
which makes each class anew, so that `super()` and functions that hold it find another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform
from weakref import WeakKeyDictionary

Kind = TypeVar("Kind")
CONTAINERS = (list, tuple, dict, set, frozenset)
NEVER_SETTINGS = ("scheduler", "inputs")
NAMES = WeakKeyDictionary[Any, tuple[str, ...]]()
"""What `names_of` has found: a plan for queries that are alike asks for each row."""


@dataclass_transform(eq_default=False, frozen_default=True)
def frozen(kind: type[Kind]) -> type[Kind]:
    """Make the annotated names of an operator its parameters, which nobody may set again; it equals itself only.

    Type checkers refuse to set one, and so does a test. At run time nothing does: a selector may make an operator for
    each element, and one with ``dataclass(frozen=True)``, which serves as well, takes twice as long to make.
    """
    made: Any = dataclass(eq=False)(kind)
    usual = made.__getstate__ in (object.__getstate__, _parameters)
    if usual and not hasattr(made, "__post_init__") and all(each.init for each in fields(made)):
        made.__getstate__, made.__setstate__ = _parameters, _set_parameters
    return kind


def _parameters(op: Any) -> dict[str, Any]:
    """Return what to store of *op*, without its `__dict__`: once that is asked for, each read of a parameter is slower.

    A subclass that is not `frozen` may set whatever it likes.
    """
    if type(op).__dict__.get("__getstate__") is not _parameters:
        stored: dict[str, Any] = object.__getstate__(op)  # type: ignore[assignment]
        return stored
    return {name: getattr(op, name) for name in op.__dataclass_fields__}


def _set_parameters(op: Any, stored: dict[str, Any]) -> None:
    """Set what was stored, one by one, for the same reason."""
    for name, value in stored.items():
        setattr(op, name, value)


def relative_seconds(time: Any) -> float:
    """Read a duration, a number of seconds or a `timedelta`.

    >>> relative_seconds(1.5)
    1.5

    *Raises* `TypeError` for what is neither, `ValueError` for a NaN, at which no timer is ever due.
    """
    if type(time) is float and time == time:
        return time
    given: Any = time
    if isinstance(given, str) or not (hasattr(given, "__float__") or hasattr(given, "total_seconds")):
        raise TypeError(f"a duration is a number of seconds or a timedelta, got {given!r}")
    seconds = float(given.total_seconds() if hasattr(given, "total_seconds") else given)
    if seconds != seconds:
        raise ValueError(f"a duration is a number of seconds or a timedelta, got {time!r}")
    return seconds


# -- states


def state_fields(kind: Any) -> tuple[str, ...]:
    """Name the fields of an operator's state, which are its checkpoint format."""
    return () if kind.State is None else tuple(f.name for f in fields(kind.State))


def state_saver(op: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function from a state to the tuple of its fields."""
    first, *more = state_fields(type(op))
    if more:
        return attrgetter(first, *more)
    get = attrgetter(first)
    return lambda state: (get(state),)


# -- settings


def plain_settings(op: Any) -> dict[str, Any]:
    """Return the settings among the parameters of *op* that are not free.

    >>> from reliable_rx.operators.take_skip import Take
    >>> plain_settings(Take(3))
    {'count': 3}
    """
    found = ((name, plain(getattr(op, name, None))) for name in names_of(type(op)))
    return {name: value for name, value in found if value is not None}


def names_of(kind: Any) -> tuple[str, ...]:
    """Name the parameters of a kind of operator that may be settings."""
    known = NAMES.get(kind)
    if known is None:
        left_out = {*NEVER_SETTINGS, *kind.free}
        found = fields(kind) if is_dataclass(kind) else ()
        known = tuple([each.name for each in found if each.name[0] != "_" and each.name not in left_out])
        NAMES[kind] = known
    return known


def plain(value: Any) -> Any:
    """Return a setting as it is compared and stored; None for what is none.

    >>> plain(timedelta(minutes=1)), plain(2), plain([1]), plain(len)
    (60.0, 2, 'list', None)
    """
    if type(value) in (int, float, str) and value == value:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if value == value else "nan"
    return type(value).__name__ if isinstance(value, CONTAINERS) else None
