"""What a source may say beside its partitions, which whatever stands around a source hands on.

What decides which events it gives, and which id each has, is its functions and options by name. Of a source class of
the user's its code counts, and not what its objects hold, which changes while they read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

from reliable_rx.functions.reach import is_own
from reliable_rx.reliable import Defined, Numbered, Source

CLASS = "class"
OPTIONAL = (
    "timestamp", "on_bad_record", "left_out", "trouble", "end_of", "on_available",
    "listing", "bounds", "find", "finds", "extent", "growth", "definition", "numbering",
)  # fmt: skip
"""All that is asked of a source and that it need not have; `tests/test_source_wrappers.py` holds both ends to it."""


class Extending(tuple[str, ...]):
    """Names of which ids still mean the same when there are more behind them."""

    __slots__ = ()


def hand_on(source: Source, to: Any, *, but: Container[str] = ()) -> None:
    """Let *to*, which stands around *source*, say all that this says; protocols look at the instance.

    >>> from types import SimpleNamespace
    >>> from hosting import ListSource
    >>> around = SimpleNamespace()
    >>> hand_on(ListSource([1, 2]), around)
    >>> around.bounds("0")
    (0, 2)
    """
    said = {name: getattr(source, name) for name in OPTIONAL if hasattr(source, name)}
    said |= {"definition": partial(definition_of, source), "numbering": partial(numbering_of, source)}
    for name, each in said.items():
        if name not in but:
            setattr(to, name, each)


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
