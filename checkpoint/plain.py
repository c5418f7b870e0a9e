"""Any value as plain values that `marshal` takes: equal for equal values, without addresses.

The slow road of `checkpoint.codec.digest`, for dataclasses, named tuples, datetimes, decimals, enums, exceptions and
user objects. A value becomes ``(type name, …)``; an unknown object becomes what its ``__reduce_ex__`` says, which is
what pickle would write, but with fields in place of references. A value that contains itself is cut at the
repetition, by its depth. Rejected: hashing ``repr``: the default one is an address.
"""

from __future__ import annotations

import copyreg
import marshal
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar
from uuid import UUID

from reliable_rx.errors import LimitExceeded

_SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes, type(...)))
_BY_TEXT = frozenset((date, timedelta, Decimal, Fraction, UUID, range))
_PARTS_MAX = 1_000_000
_CELL_EMPTY = "empty cell"


def plain(value: Any) -> Any:
    """Return *value* as nested tuples of scalars, each preceded by its type's name.

    >>> from decimal import Decimal
    >>> plain([Decimal("1.50")])
    ('list', (('decimal.Decimal', "Decimal('1.50')"),))

    *Raises* `TypeError` if some part can be neither taken apart nor named, `LimitExceeded` if there are too many.
    """
    return _Walk().value(value)


class _Walk:
    """One descent; `_path` holds the ids of the objects being taken apart, to cut cycles."""

    __slots__ = ("_parts", "_path")

    def __init__(self) -> None:
        self._path: dict[int, int] = {}
        self._parts = 0

    def value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return (kind.__name__, value)
        key = id(value)
        if key in self._path:
            return ("cycle", len(self._path) - self._path[key])
        self._parts += 1
        if self._parts > _PARTS_MAX:
            message = f"a {_name(kind)} is part of a value with over {_PARTS_MAX} parts; emit something flatter"
            raise LimitExceeded(message, path="", limit="parts of one output", most=_PARTS_MAX)
        self._path[key] = len(self._path)
        try:
            return self._known.get(kind, _Walk._other)(self, value)
        finally:
            del self._path[key]

    def _all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple([self.value(value) for value in values])

    def _sequence(self, value: Any) -> Any:
        return (type(value).__name__, self._all(value))

    def _set(self, value: Any) -> Any:
        return (type(value).__name__, _sorted(self._all(value)))

    def _dict(self, value: Any) -> Any:
        return ("dict", self._all(value.items()))

    def _buffer(self, value: Any) -> Any:
        return (type(value).__name__, bytes(value))

    def _text(self, value: Any) -> Any:
        return (_name(type(value)), repr(value))

    def _moment(self, value: Any) -> Any:
        return (_name(type(value)), value.isoformat(), value.fold, self.value(value.tzinfo))

    def _other(self, value: Any) -> Any:
        if isinstance(value, type | BuiltinFunctionType | ModuleType):
            return ("named", _name(value))
        if isinstance(value, Enum):
            return ("enum", _name(type(value)), value.name, self.value(value.value))
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return ("method", value.__func__.__qualname__, self.value(value.__self__))
        if hasattr(type(value), "__array_interface__"):
            return self._array(value)
        if isinstance(value, BaseException):
            return (_name(type(value)), self._all(value.args), self._state(value.__dict__))
        if isinstance(value, set | frozenset):
            return (_name(type(value)), _sorted(self._all(value)), self._state(getattr(value, "__dict__", None)))
        if is_dataclass(value):
            pairs = [(field.name, getattr(value, field.name, None)) for field in fields(value)]
            return (_name(type(value)), self._all(pairs))
        return self._reduced(value)

    def _array(self, value: Any) -> Any:
        content = value.tolist() if value.dtype.hasobject else value.tobytes()
        return (_name(type(value)), value.dtype.str, tuple(value.shape), self.value(content))

    def _function(self, value: FunctionType) -> Any:
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        return ("function", value.__module__, value.__qualname__, _code(value.__code__), self._all(cells))

    def _reduced(self, value: Any) -> Any:
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except TypeError as error:
            raise TypeError(
                f"a {_name(type(value))} has no digest: {error}; give it __reduce__ or emit its data"
            ) from None
        if isinstance(reduced, str):
            return ("named", _name(type(value)), reduced)
        function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        made = (_name(type(value)), _name(function), self._all(arguments), self._state(state))
        return (*made, self._all(items or ()), self._all(pairs or ()))

    def _state(self, state: Any) -> Any:
        """The order in which attributes were first set is not part of a value."""
        if type(state) is dict:
            return _sorted(self._all(state.items()))
        return self.value(state)

    _known: ClassVar[dict[type, Callable[[_Walk, Any], Any]]] = {
        list: _sequence,
        tuple: _sequence,
        set: _set,
        frozenset: _set,
        dict: _dict,
        bytearray: _buffer,
        memoryview: _buffer,
        datetime: _moment,
        time: _moment,
        **dict.fromkeys(_BY_TEXT, _text),
    }


def _sorted(values: Iterable[Any]) -> tuple[Any, ...]:
    """Sort by bytes: plain values of several types do not compare."""
    return tuple(sorted(values, key=lambda value: marshal.dumps(value, 2)))


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", type(thing).__qualname__)
    return f"{getattr(thing, '__module__', '')}.{name}"


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _CELL_EMPTY


def _code(code: CodeType) -> bytes:
    """The bytecode and names, without file and line numbers."""
    constants = tuple(_code(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return marshal.dumps((code.co_code, code.co_names, code.co_varnames, constants), 2)
