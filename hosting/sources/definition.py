"""What decides which events a source gives, and which id each has: its functions and options by name.

A wrapper hands on what the source within says. Of a source class of the user's its code counts, and not what
its objects hold, which changes while they read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reliable_rx.reach import is_own
from reliable_rx.reliable import Defined, Numbered, Source

CLASS = "class"


class Extending(tuple[str, ...]):
    """Names of which ids still mean the same when there are more behind them."""

    __slots__ = ()


def definition_of(source: Source) -> dict[str, Any]:
    """Return what decides which events *source* gives, by name; None where an option is left out.

    >>> from hosting import ListSource
    >>> definition_of(ListSource([1], timestamp=float))
    {'timestamp': <class 'float'>}
    """
    found: Mapping[str, Any] = {"timestamp": getattr(source, "timestamp", None)}
    if isinstance(source, Defined):
        found = source.definition()
    return {**found, CLASS: type(source)} if is_own(type(source)) else dict(found)


def numbering_of(source: Source) -> dict[str, Any]:
    """Return what decides which id an event of *source* has, by name; nothing where that is its place alone.

    >>> from hosting import ListSource
    >>> numbering_of(ListSource([1]))
    {}
    """
    return dict(source.numbering()) if isinstance(source, Numbered) else {}


def by_place(name: str, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return each of *functions* under its own name.

    >>> by_place("types", {"age": int})
    {"types['age']": <class 'int'>}
    """
    return {f"{name}[{place!r}]": each for place, each in functions.items()}
