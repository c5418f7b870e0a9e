"""The parameters of operators: set once, equal by identity, and stored without a dictionary.

CPython up to 3.12 keeps the values of an object in a row until somebody asks for its `__dict__`, and from then on in a
hash table, for good. `object.__getstate__` asks for it. An operator of a few instructions took a quarter longer.

Rejected: `__slots__`, which no class can have together with defaults of its parameters, and `dataclass(slots=True)`,
which makes each class anew, so that `super()` and functions that hold it find another one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

Kind = TypeVar("Kind")


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
