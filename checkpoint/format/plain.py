"""Any value as plain values that `marshal` takes: equal for equal values, without addresses.

The slow road of `checkpoint.format.codec.digest`, for dataclasses, named tuples, datetimes, decimals, enums, exceptions
and user objects. A scalar stays what it is; anything else becomes a tuple that begins with its type's name. An unknown
object becomes what its ``__reduce_ex__`` says, which is what pickle would write, but with parts in place of references.
A value that contains itself is cut at the repetition, by its depth; one that is nested very deeply is cut there, since
how deep a walk may go depends on who calls it. Of a graph with very many paths each part is taken apart once, and its
digest stands for it; it is refused if it has cycles too. An exception is its type. Rejected: hashing ``repr``: the
default one is an address.
"""

from __future__ import annotations

import copyreg
import marshal
from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

from checkpoint.format.met_classes import MET
from reliable_rx.class_of import is_a, module_of, path_of, qualname_of
from reliable_rx.errors import LimitExceeded, type_of
from reliable_rx.interrupts import let_through

_SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes, type(...)))
_BY_TEXT = frozenset((date, timedelta, Decimal, Fraction, UUID, range))
_PATHS_MAX, _PARTS_MAX = 20_000, 2_000_000
"""So many parts are written as often as they are met; of more, each is written once."""
_DEPTH_MAX = 100
_CELL_EMPTY = "empty cell"


def plain(value: Any) -> Any:
    """Return *value* as scalars and nested tuples of them, each tuple preceded by its type's name.

    >>> from decimal import Decimal
    >>> plain([1, Decimal("1.50")])
    ('builtins.list', 1, ('decimal.Decimal', "Decimal('1.50')"))

    *Raises* `TypeError` if some part can be neither taken apart nor named, `LimitExceeded` if there are too many.
    """
    try:
        return _Walk(_PATHS_MAX).value(value)
    except LimitExceeded:
        return _EachOnce(_PARTS_MAX).value(value)


def shown(value: Any) -> bytes:
    """Return *value* as plain values in bytes; of what cannot be taken apart the name of its type. It never raises."""
    try:
        return marshal.dumps(plain(value), 2)
    except BaseException as raised:  # a `__reduce__` may raise anything
        let_through(raised)
        told = ("error", type_of(value)) if is_a(value, BaseException) else ("opaque", type.__repr__(type(value)))
        return marshal.dumps(told, 2)


class _Walk:
    """One descent; `_path` holds the ids of the objects being taken apart, to cut cycles."""

    __slots__ = ("_parts", "_parts_max", "_path")

    def __init__(self, parts_max: int) -> None:
        self._path: dict[int, int] = {}
        self._parts, self._parts_max = 0, parts_max

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        self._parts += 1
        if self._parts > self._parts_max:
            raise self.excess(kind)
        key, path = id(value), self._path
        if key in path:
            return ("cycle", len(path) - path[key])
        if len(path) >= _DEPTH_MAX:
            return ("deep", _name(kind))
        path[key] = len(path)  # left there by an exception, which ends the walk
        name, road = _named_road(kind)  # type: ignore[arg-type]  # mypy takes type[Any] for unhashable
        parts = (name, *road(self, value))
        del path[key]
        return parts

    def excess(self, kind: type) -> LimitExceeded:
        message = f"a {_name(kind)} is part of a value with over {self._parts_max:,} parts; emit something flatter"
        return LimitExceeded(message, path="", limit="parts of one output", most=self._parts_max)

    def items(self, values: Iterable[Any]) -> list[Any]:
        # Most parts are scalars: spare them the call.
        return [each if type(each) in _SCALARS else self.value(each) for each in values]

    def unordered(self, values: Iterable[Any]) -> list[Any]:
        """Sort by bytes: values of several types do not compare."""
        return sorted(self.items(values), key=lambda part: marshal.dumps(part, 2))

    def pairs(self, values: dict[Any, Any]) -> list[Any]:
        return [*self.items(values), *self.items(values.values())]

    def attributes(self, state: Any) -> Any:
        """The order in which attributes were first set is not part of a value."""
        if type(state) is dict and set(map(type, state)) <= {str}:
            names = sorted(state)
            return (*names, *self.items([state[name] for name in names]))
        return self.value(state)


class _EachOnce(_Walk):
    """A descent that takes each part apart once: what stands for it does not depend on how it was come to."""

    __slots__ = ("_kept", "_known")

    def __init__(self, parts_max: int) -> None:
        super().__init__(parts_max)
        self._known: dict[int, Any] = {}
        self._kept: list[Any] = []  # else another object could have the number of one that is gone

    def value(self, value: Any) -> Any:
        if type(value) in _SCALARS:
            return value
        found = self._known.get(id(value))
        if found is None:
            if id(value) in self._path or len(self._path) >= _DEPTH_MAX:
                raise self.excess(type(value))  # what stands for it would depend on the way to it
            whole = super().value(value)
            found = self._known[id(value)] = ("part", blake2b(marshal.dumps(whole, 2), digest_size=16).digest())
            self._kept.append(value)
        return found


Road = Callable[[_Walk, Any], Iterable[Any]]


@lru_cache(maxsize=4096)
def _named_road(kind: type) -> tuple[str, Road]:
    MET.meet(kind)
    return "error" if issubclass(kind, BaseException) else _name(kind), _road(kind)


def _road(kind: type) -> Road:
    """Choose how values of type *kind* are taken apart."""
    if kind in _BY_TEXT:
        return lambda walk, value: (repr(value),)
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass_road(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _Walk.items
    if hasattr(kind, "__array_interface__"):
        return _array
    return _EXACT.get(kind) or next((road for base, road in _BY_BASE if issubclass(kind, base)), _reduced)


def _dataclass_road(kind: type) -> Road:
    names = tuple(field.name for field in fields(kind) if field.compare and field.metadata.get("digest", True))
    return lambda walk, value: (*names, *walk.items([getattr(value, name, None) for name in names]))


def _array(walk: _Walk, value: Any) -> Iterable[Any]:
    content = value.tolist() if value.dtype.hasobject else value.tobytes()
    return value.dtype.str, value.shape, walk.value(content)


def _function(walk: _Walk, value: FunctionType) -> Iterable[Any]:
    cells = [_cell(cell) for cell in value.__closure__ or ()]
    defaults = (value.__defaults__, value.__kwdefaults__)
    return _name(value), _code(value.__code__), *walk.items(defaults), *walk.items(cells)


def _exception(walk: _Walk, value: BaseException) -> Iterable[Any]:
    return (type_of(value),)


def _moment(walk: _Walk, value: Any) -> Iterable[Any]:
    return value.isoformat(), value.fold, walk.value(value.tzinfo)


def _reduced(walk: _Walk, value: Any) -> Iterable[Any]:
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except TypeError as error:
        message = f"a {_name(type(value))} has no digest: {error}; give it __reduce__ or emit its data"
        raise TypeError(message) from None
    if isinstance(reduced, str):
        return (reduced,)
    parts: tuple[Any, ...] = (*reduced, None, None, None)
    function, arguments, state, items, pairs = parts[:5]
    made = _name(function), tuple(walk.items(arguments)), walk.attributes(state)
    return *made, tuple(walk.items(items or ())), tuple(walk.items(pairs or ()))


_EXACT: dict[type, Road] = {
    list: _Walk.items,
    tuple: _Walk.items,
    set: _Walk.unordered,
    frozenset: _Walk.unordered,
    dict: _Walk.pairs,
    bytearray: lambda walk, value: (bytes(value),),
    memoryview: lambda walk, value: (bytes(value),),
    datetime: _moment,
    time: _moment,
}


def _dict_of(value: Any) -> dict[str, Any] | None:
    kind: Any = type(value)
    return value.__dict__ if kind.__dictoffset__ else None  # its `__getattr__`, which may raise anything, is not asked


_BY_BASE: tuple[tuple[Any, Road], ...] = (
    ((type, BuiltinFunctionType, ModuleType), lambda walk, value: (_name(value),)),
    (Enum, lambda walk, value: (value.name, walk.value(value.value))),
    (FunctionType, _function),
    (MethodType, lambda walk, value: (_name(value.__func__), walk.value(value.__self__))),
    (BaseException, _exception),
    ((set, frozenset), lambda walk, value: (*walk.unordered(value), walk.attributes(_dict_of(value)))),
)


def _name(thing: Any) -> str:
    if is_a(thing, type):
        return path_of(thing)
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", qualname_of(type(thing)))
    return f"{module_of(thing)}.{name}"


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _CELL_EMPTY


def _code(code: CodeType) -> bytes:
    """The bytecode and names, without file and line numbers."""
    constants = tuple(_code(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return marshal.dumps((code.co_code, code.co_names, code.co_varnames, constants), 2)
