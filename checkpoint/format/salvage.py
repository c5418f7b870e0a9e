"""Lenient reading of pickles that the ordinary reader cannot take, or must not.

Code objects of another interpreter end a process when they run; a class may be gone, a ``__setstate__`` may raise.
One such part makes `pickle.loads` lose everything around it. Here each such part becomes an `Unreadable` in its
place, and the rest is read as it was. It is the pure-Python unpickler, some thirty times slower than the usual one, so
it is used only where that one has failed or would be wrong. Rejected: reading in a subprocess (a crash still loses the
whole blob), a table of the opcodes of our own (pickle's is the definition).
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from gc import get_referents
from inspect import isabstract
from types import CodeType, FunctionType, ModuleType
from typing import Any, BinaryIO, ClassVar, NamedTuple

import cloudpickle.cloudpickle as dynamic

from checkpoint.format import stored_functions, stored_imports
from checkpoint.format.class_fields import is_named_tuple
from checkpoint.format.class_shape import check_built_on
from checkpoint.format.code import Makers, _code, makers
from checkpoint.format.named_fields import check_class, named, set_as_stored, set_fields, set_state
from checkpoint.format.named_members import FieldsDiffer, flags, member, of_value
from checkpoint.format.plain_objects import set_attributes, set_shaped
from reliable_rx.class_of import dict_of, is_a, name_of, qualname_of
from reliable_rx.errors import cut_middle, text_of
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.inner_sequences import Subject

_CODE_MAKERS = (
    "_make_function", "_make_skeleton_class", "_make_skeleton_enum", "_function_setstate", "_class_setstate",
    "dynamic_subimport",
)  # fmt: skip
_MAKES_FUNCTIONS = {stored_imports.function, stored_imports.importing, getattr(dynamic, "_make_function", None)}
_MAKES_CODE = {CodeType, FunctionType, stored_imports.set_state, *_MAKES_FUNCTIONS}
_MAKES_CODE |= {marshal.loads, stored_functions.chooser, stored_functions.set_choice, stored_functions.set_cached}
_MAKES_CODE |= {getattr(dynamic, name) for name in _CODE_MAKERS if hasattr(dynamic, name)}
_PARTS_OF_CODE = {
    CodeType,
    stored_imports.set_state,
    stored_functions.set_choice,
    stored_functions.set_cached,
    *(getattr(dynamic, name, None) for name in ("_function_setstate", "_class_setstate")),
}
_BY_NAME = (named, member, flags, of_value)
"""What makes a value whole, of its class and of names."""
_BUILT_ON = frozenset((str, bytes, int, float, complex, tuple))
"""What a class may be built on whose objects are made again from one of these."""
UNHASHABLE = "unhashable type"
_FILLING = (set_fields, set_as_stored, set_state, set_attributes, set_shaped)
"""What gives a new object what it had."""
OTHER_CODE = "it holds code that is not loaded"
_STOPS = (type, ModuleType, CodeType, Subject)
_OF_PYTHON = frozenset(("builtins", "collections", "functools", "itertools", "operator", "types"))
"""Where the classes are whose objects keep what they hold out of sight: partials, methods, iterators."""
_REASON_CHARACTERS_MAX = 200
_REMEDY_CHARACTERS_MAX = 1000
"""What says how to change a class is read whole."""
_CODE_NAME = 11
"""Where the arguments of a code object have its name, and behind it the qualified one."""


@dataclass(eq=False, slots=True)
class Unreadable:
    """Stand for a part of a pickle that could not be read.

    *kind* names what it was, *reason* says why it is not here, *content* is what it was made of, as far as that
    is known. It equals itself only, so it may lie in a set or be a key.
    """

    kind: str
    reason: str
    content: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<unreadable {self.kind}: {self.reason}>"


class Salvaged(NamedTuple):
    """Hold a value that was read leniently, and what of it could not be read, each once."""

    value: Any
    unreadable: tuple[Unreadable, ...]


def salvage(data: bytes | BinaryIO, *, code: bool) -> Salvaged:
    """Read one pickle, with `Unreadable` in the place of each part that cannot be had.

    With *code* False no stored byte code is loaded (and that of another interpreter never is): functions and classes
    that were stored by value are unreadable, those stored by name are looked up. A stream is left behind the pickle.
    Only for bytes that `unseal` has returned.

    >>> import cloudpickle
    >>> salvage(cloudpickle.dumps([1, lambda: 2]), code=False).value
    [1, <unreadable function <lambda>: it holds code that is not loaded>]

    *Raises* `pickle.UnpicklingError`, `EOFError` and the like for bytes that are no whole pickle.
    """
    reader = _Salvager(io.BytesIO(data) if isinstance(data, bytes) else data, code=code)
    value = reader.load()
    return Salvaged(value, tuple(reader.lost))


def holds_unreadable(value: Any) -> bool:
    """Whether an `Unreadable` lies anywhere in *value*.

    >>> holds_unreadable({"a": [Unreadable("thing", "gone")]}), holds_unreadable({"a": [1]})
    (True, False)
    """
    return next(unreadable_in(value), None) is not None


def unreadable_in(value: Any) -> Iterator[Unreadable]:
    """Yield each `Unreadable` in *value*, looking into containers, attributes, and what functions were made with."""
    seen: dict[int, Any] = {}  # with what is made here only: the id of what is gone would be given to another one
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if is_a(each, _STOPS) or id(each) in seen:
            continue
        seen[id(each)] = each
        if is_a(each, Unreadable):
            yield each
        else:
            waiting.extend(_parts(each))


def _parts(value: Any) -> Iterator[Any]:
    if type(value) is FunctionType:
        yield from _of_function(value)
        return
    if type(value).__module__ in _OF_PYTHON:
        yield from get_referents(value)
    elif getattr(getattr(value, "dtype", None), "hasobject", False) is True:
        yield value.tolist()  # an array tells nobody what it holds
    if is_a(value, dict):
        yield from list(value)
        yield from list(value.values())
    elif is_a(value, (tuple, list, set, frozenset, deque)):
        yield from value
    yield from dict_of(value).values()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield getattr(value, name)


def _of_function(function: FunctionType) -> Iterator[Any]:
    """Yield what *function* was made with: not the namespace of its module, which is the process's."""
    yield from (function.__dict__, function.__defaults__, function.__kwdefaults__)
    yield from filter(None, map(_in_cell, function.__closure__ or ()))
    space = function.__globals__
    module = sys.modules.get(str(space.get("__name__")))
    if module is None or vars(module) is not space:
        yield from (each for name, each in list(space.items()) if name != "__builtins__")


def _in_cell(cell: Any) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return None


def _why(error: BaseException) -> str:
    limit = _REMEDY_CHARACTERS_MAX if is_a(error, FieldsDiffer) else _REASON_CHARACTERS_MAX
    return cut_middle(f"{name_of(type(error))}: {text_of(error)}", limit)


def _new(kind: Any, arguments: tuple[Any, ...]) -> Any:
    if isinstance(kind, type) and (is_named_tuple(kind) or (issubclass(kind, Enum) and not arguments)):
        raise FieldsDiffer(f"stored values of {name_of(kind)} were of a class of another kind: make it what it was")
    check_class(kind)
    if isabstract(kind):
        raise FieldsDiffer(f"{name_of(kind)} is abstract today, and there are stored values of it: make it what it was")
    try:
        return kind.__new__(kind, *arguments)
    except Exception:
        if len(arguments) == 1 and type(arguments[0]) in _BUILT_ON:
            check_built_on(kind, type(arguments[0]).__name__)
        raise


def without_hash(what: str) -> FieldsDiffer:
    """Say that stored values cannot be keys any more, since their class has no hash today."""
    return FieldsDiffer(
        f"stored values are keys by which others are found, and that cannot be any more ({what}): give the class its "
        f"hash again (frozen=True or eq=False in a dataclass, or a `__hash__`)"
    )


def findable(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *key* with what stands for those of its parts that have no hash today."""
    return tuple(map(_findable, key))


def _findable(part: Any) -> Any:
    try:
        hash(part)
    except BaseException as error:
        let_through(error)
        return Unreadable(qualname_of(type(part)), _why(without_hash(text_of(error))), part)
    return part


def is_lost(value: Any) -> bool:
    """Whether *value* stands for what cannot be read, and is not one that was stored and is being read."""
    return is_a(value, Unreadable) and hasattr(value, "kind")


def _named(thing: Any) -> str:
    return thing.kind if is_a(thing, Unreadable) else str(getattr(thing, "__qualname__", qualname_of(type(thing))))


_Base: Any = getattr(pickle, "_Unpickler")  # noqa: B009  # the pure one: the other's steps cannot be replaced
_Step = Callable[["_Salvager"], None]


class _Salvager(_Base):  # type: ignore[misc]
    """pickle's own reader, with the steps that run foreign code guarded."""

    dispatch: ClassVar[dict[int, _Step]] = dict(_Base.dispatch)
    stack: list[Any]
    metastack: list[list[Any]]
    memo: dict[int, Any]

    def __init__(self, stream: BinaryIO, *, code: bool) -> None:
        super().__init__(stream)
        self.code = code
        self.lost: list[Unreadable] = []
        self.places: dict[int, list[int]] = {}
        """Under which numbers of the memo an object lies, by its id."""

    def lose(self, kind: str, reason: str, content: Any = None) -> Unreadable:
        found = Unreadable(kind, reason, content)
        self.lost.append(found)
        return found

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except BaseException as error:
            let_through(error)
            return self.lose(f"{module}.{name}", _why(error))

    def make(self, function: Any, arguments: Any, call: Callable[[], Any]) -> Any:
        """Return what *call* makes, or what stands for it."""
        if is_a(function, Unreadable):
            return Unreadable(function.kind, function.reason, arguments)
        if function is _code:
            return self.within(*arguments)
        try:
            if not self.code and function in _MAKES_CODE:
                lost = Unreadable(_made_by(function, arguments), OTHER_CODE)
                if function not in _PARTS_OF_CODE:
                    self.lost.append(lost)
                return lost
            return call()
        except BaseException as error:  # a constructor may raise anything
            let_through(error)
            unread = next((each for each in arguments if is_a(each, Unreadable)), None)
            return self.lose(_named(function), _why(error) if unread is None else unread.reason, arguments)

    def within(self, written: tuple[Any, ...], data: bytes) -> Any:
        """Read what holds code, and leave the code out if it is another interpreter's."""
        read = salvage(data, code=self.code and Makers(*written).fits(makers()))
        self.lost.extend(read.unreadable)
        return read.value

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        if any(function is each for each in (*_BY_NAME, *_FILLING)):
            self.load_fields(function, arguments)
        else:
            self.stack[-1] = self.make(function, arguments, lambda: function(*arguments))

    def load_fields(self, function: Any, arguments: Any) -> None:
        """Fill an object with the fields that it was stored with, or have in its place what stands for it."""
        first = arguments[0]
        if is_lost(first):
            if function in _BY_NAME:
                self.stack[-1] = Unreadable(first.kind, first.reason, arguments[1:])
                return
            first.content = first.content or arguments[1:]
            self.stack[-1] = first
            return
        try:
            self.stack[-1] = function(*arguments)
        except BaseException as error:
            let_through(error)
            if function in _BY_NAME:
                self.stack[-1] = self.lose(_named(first), _why(error), arguments[1:])
                return
            self.stack.pop()
            self.replace(error)
            self.stack.append(self.stack[-1])

    def load_newobj(self) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        self.stack.append(self.make(kind, arguments, lambda: _new(kind, arguments)))

    def load_newobj_ex(self) -> None:
        named, arguments, kind = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.stack.append(self.make(kind, arguments, lambda: kind.__new__(kind, *arguments, **named)))

    def _instantiate(self, kind: Any, arguments: Any) -> None:
        self.stack.append(self.make(kind, arguments, lambda: kind(*arguments)))

    def load_memoize(self) -> None:
        made = self.stack[-1]
        self.places.setdefault(id(made), []).append(len(self.memo))
        self.memo[len(self.memo)] = made

    def replace(self, error: BaseException) -> None:
        """Put what stands for it in the place of the newest object, also for those that refer to it later."""
        target = self.stack[-1]
        self.stack[-1] = lost = self.lose(qualname_of(type(target)), _why(error))
        for place in self.places.pop(id(target), ()):
            self.memo[place] = lost


def _filling(usual: _Step, parts: int, kinds: tuple[type, ...]) -> _Step:
    """Guard a step that puts the last *parts* values (0: all behind the mark) into the object below them.

    They are items of something of *kinds*; of none: attributes.
    """

    def load(reader: _Salvager) -> None:
        target = reader.stack[-1 - parts] if parts else reader.metastack[-1][-1]
        if is_lost(target):
            content = reader.stack[-parts:] if parts else reader.pop_mark()
            del reader.stack[len(reader.stack) - parts :]
            target.content = (target.content, *content)
            return
        try:
            usual(reader)
        except BaseException as error:
            let_through(error)
            reader.replace(_of_the_class(error, target, kinds) if kinds else error)

    return load


def _of_the_class(error: BaseException, target: Any, kinds: tuple[type, ...]) -> BaseException:
    """Return what *error* at filling *target* with items says, if it comes of the classes of today."""
    if text_of(error).startswith(UNHASHABLE):
        return without_hash(text_of(error))
    if is_a(target, kinds):
        return error
    of = f"stored values of {name_of(type(target))}"
    return FieldsDiffer(f"{of} have items as a {kinds[0].__name__} has, and it has none today: make it what it was")


_LIST, _DICT = (list, deque), (dict,)
for _opcode, _parts_taken, _kinds in (
    (pickle.BUILD, 1, ()), (pickle.APPEND, 1, _LIST), (pickle.SETITEM, 2, _DICT), (pickle.APPENDS, 0, _LIST),
    (pickle.SETITEMS, 0, _DICT), (pickle.ADDITEMS, 0, (set,)),
):  # fmt: skip
    _Salvager.dispatch[_opcode[0]] = _filling(_Base.dispatch[_opcode[0]], _parts_taken, _kinds)
for _opcode, _step in (
    (pickle.REDUCE, _Salvager.load_reduce), (pickle.NEWOBJ, _Salvager.load_newobj),
    (pickle.NEWOBJ_EX, _Salvager.load_newobj_ex), (pickle.MEMOIZE, _Salvager.load_memoize),
):  # fmt: skip
    _Salvager.dispatch[_opcode[0]] = _step


def _made_by(function: Any, arguments: Any) -> str:
    """Name what *function* would have made."""
    if function is CodeType:
        names = [each for each in arguments[_CODE_NAME:] if isinstance(each, str)]
        return names[1] if len(names) > 1 else names[0]
    if function in _MAKES_FUNCTIONS:
        return f"function {_named(arguments[0])}"
    return next((f"class {each}" for each in arguments if isinstance(each, str)), "code")
