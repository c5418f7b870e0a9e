"""Names that a user's class mentions: they tell attributes that are in use from those that have gone or are hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from checkpoint.format.named_members import RENAMED, FieldsDiffer
from reliable_rx.class_of import is_python_class, name_of

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


def privates(kind: Any, name: str) -> set[str]:
    """Return what an attribute of a class is called that is kept for *name*."""
    return {f"_{name}", f"_{kind.__name__.lstrip('_')}__{name}"}


@lru_cache(maxsize=1000)
def hidden_by(kind: Any) -> Mapping[str, str]:
    """Return the properties of a class that stand before a private attribute of the same name, and that attribute.

    >>> class Account:
    ...     @property
    ...     def balance(self): return self._balance
    >>> dict(hidden_by(Account))
    {'balance': '_balance'}
    """
    found: dict[str, str] = {}
    for each in type.mro(kind):
        for name, it in vars(each).items():
            private = privates(each, name)
            code = getattr(it.fget, "__code__", None) if type(it) is property else None
            if code is not None and name not in found:
                found.update((name, used) for used in (*code.co_names, *code.co_consts) if used in private)
    return found


def check_not_hidden(kind: Any, attributes: Mapping[str, Any]) -> None:
    """*Raises* `FieldsDiffer` for an attribute in whose place the class has a property over another one today."""
    for name, private in hidden_by(kind).items():
        if name in attributes and private not in attributes:
            raise FieldsDiffer(
                f"stored values of {name_of(kind)} have an attribute {name!r}, which is a property over {private!r} "
                f"today, so that nothing would read it: have the class say {RENAMED} = {{{name!r}: {private!r}}}, or "
                f"make it an attribute again"
            )
