"""What an object holds: its attributes, and what pickle would make of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from reliable_rx.interrupts import let_through

HEAP_TYPE = 1 << 9


def pieces(value: Any) -> Any:
    """Return what pickle would make *value* of; its text if that cannot be had."""
    if isinstance(value, memoryview):
        return value.tobytes()
    try:
        made = value.__reduce_ex__(4)
    except BaseException as raised:  # a `__reduce__` may raise anything
        let_through(raised)
        made = None
    if isinstance(made, tuple):
        function, arguments, *more = made
        name = getattr(function, "__qualname__", None)
        return [
            function if name is None else name,
            arguments,
            *(list(each) if isinstance(each, Iterator) else each for each in more),
        ]
    if isinstance(made, str):  # a name
        return made
    return None if " at 0x" in (text := repr(value)) else text


def without_addresses(value: Any) -> str:
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def held(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, by name."""
    names = [name for kind in type(value).__mro__ for name in slots(kind)]
    return {**{name: getattr(value, name) for name in names if hasattr(value, name)}, **getattr(value, "__dict__", {})}


def slots(kind: type) -> Iterator[str]:
    """Yield the attributes of a class that are slots, as they are found: private ones have its name in theirs."""
    told = vars(kind).get("__slots__", ())
    for name in (told,) if isinstance(told, str) else told:
        if not name.startswith("__"):
            yield name
        elif not name.endswith("__"):
            yield f"_{kind.__name__.lstrip('_')}{name}"


def is_built_in(kind: type) -> bool:
    """Whether objects of a class hold more than attributes, since it derives from one that is not written in Python."""
    return any(not each.__flags__ & HEAP_TYPE for each in kind.__mro__ if each is not object)


def is_computed(kind: type, name: str) -> bool:
    """Whether an attribute is there once it was asked for."""
    return any(isinstance(vars(each).get(name), cached_property) for each in kind.__mro__)
