"""What a query gives is no query: who asks it for an operator is told what has one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn


def not_a_query(what: Any, shown: str, name: str, operators: Iterable[str]) -> AttributeError:
    """Return the error for an attribute that *what*, which is what a query gives, has not; an operator has a remedy."""
    if name != "pipe" and name not in operators:
        return AttributeError(f"{type(what).__name__!r} object has no attribute {name!r}", name=name, obj=what)
    way = f"reliable_rx.source({what.name!r}).{name}(...) is a query that reads it"
    return AttributeError(f"{shown} {what.name!r} is no query and has no operators: {way}, to be created", name=name)


class _NoOperator:
    """The name of an operator on a class whose instances are no queries."""

    def __init__(self, shown: str, name: str) -> None:
        self._shown, self._name = shown, name

    def __get__(self, what: Any, kind: type) -> NoReturn:
        if what is None:
            raise AttributeError(f"type object {kind.__name__!r} has no attribute {self._name!r}", name=self._name)
        raise not_a_query(what, self._shown, self._name, (self._name,))


def refuse_operators(kind: type, shown: str, operators: Iterable[str]) -> None:
    """Have instances of *kind* say of each operator that they are no queries, and list none of them.

    For classes that are read for each event: a `__getattr__` makes each access to any of their attributes slower.
    """
    names = frozenset({"pipe", *operators} - {*dir(kind)})

    def listed(what: object) -> list[str]:
        return sorted({*object.__dir__(what)} - names)

    added = {name: _NoOperator(shown, name) for name in names}
    for name, value in {**added, "__dir__": listed}.items():
        setattr(kind, name, value)
