"""Values to bytes and back, and a digest of values that two processes agree on.

Pickle 5 by the C pickler is the codec; what it cannot take (lambdas, local functions) is stored as code
(`checkpoint.format.code`), which names its interpreter and which plain pickle reads. Bytes are only ever decoded after
`checkpoint.format.envelope.unseal` vouched for them.

Exceptions go as data, wherever they lie (`checkpoint.format.stored_errors`): of each class of objects the pickler asks
a table once how they are reduced, so that looking for exceptions costs nothing for plain values and little for others.
Rejected: asking for each object (`reducer_override` makes pickling a tenth slower).

The digest is not a hash of those bytes: pickle writes references by object identity and sets in hash order, so equal
values give unequal bytes. `marshal` version 2 writes neither references nor interning marks and sorts sets, and costs
some tens of nanoseconds per value; what it refuses is first turned into plain values (`checkpoint.format.plain`). Of
what would be without end when written out, each part is digested once (`checkpoint.format.shared_parts`). Many values
without sets are written faster by a pickler without a memo. Rejected: ``repr`` (addresses), JSON (types lost, slow).
"""

from __future__ import annotations

import copyreg
import io
import marshal
import pickle
import sys
from collections.abc import Callable
from gc import get_referents
from hashlib import blake2b
from itertools import chain
from operator import methodcaller
from types import BuiltinFunctionType, CodeType
from typing import Any

from checkpoint.format import stored_errors
from checkpoint.format.code import encode_code
from checkpoint.format.held_objects import bare
from checkpoint.format.met_classes import MET
from checkpoint.format.plain import shown
from checkpoint.format.plain_objects import reducer_for
from checkpoint.format.salvage import Unreadable, salvage
from checkpoint.format.shared_parts import CONTAINERS, MANY, PLAIN, STREAMED_MIN, NotPlain, digest_of_parts, shape_of
from reliable_rx.interrupts import let_through

_MARSHAL_VERSION = 2
_DEPTH_USUAL, _DEPTH_MAX = 4, 100
_CLASSES_MAX = 10_000
_USUALLY = methodcaller("__reduce_ex__", 5)

Reducer = Callable[[Any], Any]


def _as_code(value: Any) -> Any:
    """Have byte code stored as code, which says whose it is, whatever a library has registered for it."""
    if type(value) is CodeType or value is marshal.loads:
        raise TypeError("byte code goes as code")
    return value.__reduce_ex__(5)


_OWN: dict[type, Reducer] = {CodeType: _as_code, BuiltinFunctionType: _as_code, object: bare}


class _Reducers(dict[type, Reducer]):
    """How objects of each class are taken apart, by class."""

    def __missing__(self, kind: type) -> Reducer:
        reducer = _OWN.get(kind) or copyreg.dispatch_table.get(kind)
        if reducer is None and issubclass(kind, BaseException):
            reducer = stored_errors.reduced
        elif reducer is None and issubclass(kind, type):
            raise KeyError(kind)  # a class goes by its name
        elif reducer is None:
            reducer = reducer_for(kind)
        MET.meet(kind)
        if len(self) > _CLASSES_MAX:  # classes that are made at run time must go some day
            self.clear()
        self[kind] = reducer or _USUALLY
        return self[kind]


class _Pickler(pickle.Pickler):
    __slots__ = ()
    dispatch_table = _Reducers()


def encode(value: Any) -> bytes:
    """Turn *value* into bytes that `decode` turns back.

    >>> decode(encode({"carrier": ("UA", 3)}))
    {'carrier': ('UA', 3)}

    *Raises* what pickle raises for values that no pickler takes (an open file, a lock).
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, 5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return encode_code(value)
    return buffer.getvalue()


def decode(data: bytes) -> Any:
    """Turn bytes of `encode` back into the value. Only for bytes that `unseal` has returned: pickle runs code.

    *Raises* `checkpoint.format.code.OtherCode` for byte code of another interpreter, of which nothing is loaded then.
    """
    return pickle.loads(data)


def decode_data(data: bytes) -> tuple[Any, tuple[Unreadable, ...]]:
    """Turn bytes of `encode` back as far as they can be read here: for looking, and where nothing better can be had.

    What code of another interpreter, classes that are gone or constructors that raise leave out are `Unreadable` parts.
    """
    try:
        return decode(data), ()
    except BaseException as raised:
        let_through(raised)
        return salvage(data, code=True)


def digest(values: list[Any]) -> bytes:
    """Return 8 bytes that are equal for equal lists of values, in every process.

    Equal means of the same types and, for dicts, in the same order (a replay repeats the order too): ``1``, ``1.0`` and
    ``True`` differ. Identity, sharing, interning and ``PYTHONHASHSEED`` do not matter. Of an exception only the type
    counts (its text may hold addresses), and of a value that cannot be taken apart too. It never raises.

    >>> digest([{"b", "a"}]) == digest([{"a", "b"}])
    True
    """
    try:
        if len(values) >= STREAMED_MIN or get_referents(*values):  # not what most events bring: one number or text
            shape = shape_of(values)
            if shape is MANY:
                return blake2b(b"s" + digest_of_parts(values), digest_size=8).digest()
            if shape is PLAIN:
                return _streamed(values)
        if "numpy" not in sys.modules or not _holds_array(values):
            return blake2b(b"m" + marshal.dumps(values, _MARSHAL_VERSION), digest_size=8).digest()
    except Exception:  # no plain values; or the class of one cannot be hashed
        pass
    return blake2b(b"p" + marshal.dumps([shown(value) for value in values], _MARSHAL_VERSION), digest_size=8).digest()


class _Scalars(dict[type, Reducer]):
    """Has a pickler refuse all but builtin scalars and containers."""

    def __missing__(self, kind: type) -> Reducer:
        raise NotPlain(kind)


class _Hashing:
    """A file that keeps the hash of what is written."""

    def __init__(self) -> None:
        self.hash = blake2b(b"f", digest_size=8)
        self.write = self.hash.update


_SCALARS = _Scalars()


def _streamed(values: list[Any]) -> bytes:
    """Return the digest of many plain values: a pickler that remembers nothing is faster than marshal."""
    file = _Hashing()
    pickler = pickle.Pickler(file, 5)
    pickler.fast, pickler.dispatch_table = True, _SCALARS
    pickler.dump(values)
    return file.hash.digest()


def _holds_array(values: list[Any]) -> bool:
    """Look for numpy arrays: marshal takes any buffer, and the buffer of an object array is addresses."""
    ndarray = sys.modules["numpy"].ndarray
    level: Any = values
    for depth in range(_DEPTH_MAX):
        kinds = set(map(type, level))
        if any(issubclass(kind, ndarray) for kind in kinds):
            return True
        if kinds.isdisjoint(CONTAINERS):
            return False
        containers = [value for value in level if type(value) in CONTAINERS]
        if depth > _DEPTH_USUAL:  # sharing and cycles would multiply
            containers = list({id(value): value for value in containers}.values())
        level = list(chain.from_iterable(each.values() if type(each) is dict else each for each in containers))
    return False  # as in a process without numpy: both must take the same road
