"""Names that a user's class mentions: they tell an attribute that is still in use from one that has gone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any

from reliable_rx.class_of import is_python_class

WITHIN = ("__func__", "__wrapped__", "fget", "fset", "fdel", "func")
"""Where methods, properties and caches have their functions."""


@lru_cache(maxsize=1000)
def mentioned(kind: Any) -> frozenset[str]:
    """Return the names that are set in a class, and those that its functions use.

    >>> class Basket:
    ...     limit = 3
    ...     def add(self, value):
    ...         self.total += value
    >>> {"limit", "total"} <= mentioned(Basket)
    True
    """
    spaces = [vars(each) for each in type.mro(kind) if is_python_class(each)]
    return frozenset(name for space in spaces for name in (*space, *_used(space)))


def _used(space: Any) -> Iterator[str]:
    waiting = list(space.values())
    while waiting:
        each = waiting.pop()
        code = each if type(each) is CodeType else getattr(each, "__code__", None)
        if type(code) is CodeType:
            yield from code.co_names
            waiting += [inner for inner in code.co_consts if type(inner) is CodeType]
        elif type(each) in (classmethod, staticmethod, property) or hasattr(type(each), "__set_name__"):
            waiting += [inner for name in WITHIN if (inner := getattr(each, name, None)) is not None]
