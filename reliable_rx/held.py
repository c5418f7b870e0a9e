"""What an object holds: its attributes, and what pickle would make of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from reliable_rx.interrupts import let_through


def pieces(value: Any) -> Any:
    """Return what pickle would make *value* of; its text if that cannot be had."""
    try:
        made = value.__reduce_ex__(4)
    except BaseException as raised:  # a `__reduce__` may raise anything
        let_through(raised)
        made = None
    if not isinstance(made, tuple):
        return None if " at 0x" in (text := repr(value)) else text
    function, arguments, *more = made
    return [
        getattr(function, "__qualname__", ""),
        arguments,
        *(list(each) if isinstance(each, Iterator) else each for each in more),
    ]


def held(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, by name."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    plain = {name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}
    return {**plain, **getattr(value, "__dict__", {})}


def is_computed(kind: type, name: str) -> bool:
    """Whether an attribute is there once it was asked for."""
    return any(isinstance(vars(each).get(name), cached_property) for each in kind.__mro__)
