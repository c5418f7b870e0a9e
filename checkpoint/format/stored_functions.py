"""What a stored function has beside its code: annotations, attributes, its module, and what `functools` puts around it.

Decorators read it (a conversion by annotations, a rate set on a function), so that a function without it gives other
values after a restart. Nothing of it may make a query unreadable: annotations are kept one by one, as bytes of their
own, and one that does not go into bytes, or whose class is gone, is left out. Rejected: names as text (a local class
has none), annotations within the pickle around them (a class that was renamed would cost the query).
"""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Iterator
from functools import lru_cache, singledispatch
from types import CodeType, FunctionType
from typing import Any

from checkpoint.format.code import CodePickler
from reliable_rx.functions.code_names import named
from reliable_rx.interrupts import let_through

_PLAIN = frozenset((int, float, complex, str, bytes, bool, list, tuple, dict, set, frozenset, object, None))
"""Annotations that go as they are."""
_BYTES_MAX = 100_000
"""A word in an annotation may be the name of a table."""
_FILLS = frozenset(("globals", "eval", "exec", "__globals__"))
_IMPORTS = frozenset(("modules", "getmodule"))
_OF_CACHES = frozenset(("__wrapped__", "cache_parameters", "__annotations__", "__type_params__"))
_OF_CHOOSERS = frozenset(("__wrapped__", "registry", "dispatch", "register", "_clear_cache"))
_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")

Packed = dict[Any, Any]


class Bytes(bytes):
    """A part of a function that is read by itself."""


def packed(parts: dict[Any, Any]) -> Packed:
    """Turn each part into bytes of its own, without those that do not go into bytes."""
    found: Packed = {}
    for name, part in parts.items():
        if part is None or (isinstance(part, type) and part in _PLAIN) or type(part) is str:
            found[name] = part
        elif (data := _bytes(part)) is not None and len(data) <= _BYTES_MAX:
            found[name] = Bytes(data)
    return found


def _bytes(part: Any) -> bytes | None:
    try:
        return pickle.dumps(part, 5)
    except BaseException as raised:  # a `__reduce__` may raise anything
        let_through(raised)
    try:
        stream = io.BytesIO()
        CodePickler(stream, 5).dump(part)
        return stream.getvalue()
    except BaseException as raised:
        let_through(raised)
        return None


def unpacked(parts: Packed) -> dict[Any, Any]:
    """Read each part, without those that cannot be read."""
    found = {}
    for name, part in parts.items():
        try:
            found[name] = pickle.loads(part) if type(part) is Bytes else part
        except BaseException as raised:
            let_through(raised)
    return found


def beside(function: Any) -> dict[str, Any]:
    """Return what is packed of *function*: its annotations, what they name if they are texts, its type parameters."""
    annotations = getattr(function, "__annotations__", None)
    type_params = getattr(function, "__type_params__", ())
    if not annotations and not type_params:
        return {}
    parts: dict[str, Any] = {"__annotations__": packed(annotations or {})}
    space = getattr(function, "__globals__", {})
    texts = [each for each in (annotations or {}).values() if type(each) is str]
    hints = {name: space[name] for each in texts for name in names_in(each) if name in space}
    if hints:
        parts["hints"] = packed(hints)
    if type_params:
        parts["__type_params__"] = packed(dict(enumerate(type_params)))
    return parts


def set_beside(function: Any, parts: dict[str, Any]) -> None:
    """Give *function* what `beside` has packed."""
    function.__annotations__ = unpacked(parts.get("__annotations__", {}))
    for name, value in unpacked(parts.get("hints", {})).items():
        function.__globals__.setdefault(name, value)
    if "__type_params__" in parts:
        function.__type_params__ = tuple(unpacked(parts["__type_params__"]).values())


@lru_cache(maxsize=4096)
def names_in(annotation: str) -> tuple[str, ...]:
    """Return the names in an annotation that is a text."""
    try:
        return tuple(named(compile(annotation, "<annotation>", "eval", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return ()


def looks_at_module(code: CodeType) -> str:
    """Say whether *code* seems to look names up by text: in its globals (``fill``), in `sys.modules` (``import``)."""
    if _FILLS.isdisjoint(code.co_names) and CodeType not in map(type, code.co_consts):
        return "" if _IMPORTS.isdisjoint(code.co_names) else "import"
    return _looks(code)


@lru_cache(maxsize=4096)
def _looks(code: CodeType) -> str:
    names = frozenset(named(code))
    if not _FILLS.isdisjoint(names):
        return "fill"
    return "" if _IMPORTS.isdisjoint(names) else "import"


def look_at_module(function: FunctionType, how: str) -> None:
    """Import the module of a function that looks names up by text, and give it what it does not have of its day."""
    name = function.__globals__.get("__name__")
    try:
        module = importlib.import_module(str(name))
    except BaseException as raised:  # the app of another day; the names that the code tells are there
        let_through(raised)
        return
    if how == "fill":
        for key, value in list(vars(module).items()):
            function.__globals__.setdefault(key, value)


def chooser(name: str) -> Any:
    """Return a `functools.singledispatch` without functions."""

    def placeholder(value: Any) -> None:
        """Stand for the function of `object` until it is set."""

    placeholder.__name__ = name
    return singledispatch(placeholder)


def choice(function: Any, among: list[tuple[type, Any]]) -> tuple[Any, ...]:
    """Return of what a `functools.singledispatch` is made again."""
    own = {name: value for name, value in vars(function).items() if name not in _OF_CHOOSERS}
    state = ([getattr(function, name) for name in _NAMES], own, beside(function), among)
    return (chooser, (function.__name__,), state, None, None, set_choice)


def set_choice(made: Any, state: Any) -> None:
    names, own, parts, among = state
    for name, value in zip(_NAMES, names, strict=True):
        setattr(made, name, value)
    vars(made).update(own)
    made.__annotations__ = unpacked(parts.get("__annotations__", {}))
    for kind, function in among:
        made.register(kind, function)
    made.__wrapped__ = made.registry[object]


def cache(wrapper: Any) -> tuple[Any, ...]:
    """Return of what a `functools.lru_cache` is made again, without what it holds."""
    own = {name: value for name, value in vars(wrapper).items() if name not in _OF_CACHES}
    arguments = (wrapper.__wrapped__, *wrapper.cache_parameters().values())
    return (cached, arguments, (own, beside(wrapper)), None, None, set_cached)


def cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    return lru_cache(maxsize, typed)(function)


def set_cached(made: Any, state: Any) -> None:
    own, parts = state
    for name in _attributes(made):
        del vars(made)[name]
    vars(made).update(own)
    made.__annotations__ = unpacked(parts.get("__annotations__", {}))


def _attributes(made: Any) -> Iterator[str]:
    """Yield the attributes that the cache has copied from its function."""
    yield from [name for name in vars(made) if name not in _OF_CACHES]
