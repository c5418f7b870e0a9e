"""Look-ups of classes that call nothing of the user's: what a value is, and what its class is called.

Legal classes lie, or raise, when they are asked: a lazy proxy says that its `__class__` is `dict`, a metaclass that
compares and does not hash makes classes that no dict or ABC can look up, `__module__` may be any object (of compiled
functions' classes it is a descriptor). So a value is known by its type and the bases of that, told apart by identity.
Rejected: `isinstance` in a ``try`` (a lie raises later, elsewhere).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, TypeVar, overload

T = TypeVar("T")
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8
_DERIVES: Any = type.__subclasscheck__  # `issubclass` asks ABCs, which hash what they are asked of
_MRO: Any = type.__dict__["__mro__"]
_SPACE: Any = type.__dict__["__dict__"]
_MODULE: Any = type.__dict__["__module__"]
_NAME: Any = type.__dict__["__name__"]
_QUALNAME: Any = type.__dict__["__qualname__"]
_FLAGS: Any = type.__dict__["__flags__"]
_ASKED_OF_ERRORS = (
    "__class__", "__getattribute__", "__setattr__", "__dict__", "__context__", "__cause__", "__suppress_context__",
    "__traceback__",
)  # fmt: skip
_ASKED_OF_CLASSES = ("__getattribute__", "__eq__", "__hash__", "__module__", "__name__", "__qualname__", "__mro__")


@overload
def is_a(value: object, kinds: type[T]) -> TypeGuard[T]: ...


@overload
def is_a(value: object, kinds: tuple[Any, ...]) -> bool: ...


def is_a(value: object, kinds: Any) -> bool:
    """Whether the class of *value* derives from one of *kinds*, whatever it says of itself.

    Of an ABC among them, what derives from it counts, and what is only registered with it does not.

    >>> is_a(True, int), is_a([], (tuple, dict))
    (True, False)
    """
    kind = type(value)
    if type(kinds) is not tuple:
        return _DERIVES(kinds, kind)  # type: ignore[no-any-return]
    for each in kinds:  # noqa: SIM110 - a generator costs more
        if _DERIVES(each, kind):
            return True
    return False


def derives_from(value: object, *kinds: type) -> bool:
    """Whether the class of *value* derives from one of *kinds*, which may be ABCs; who is registered with one does not.

    >>> from collections.abc import Iterator
    >>> derives_from((each for each in ()), Iterator), derives_from(3, Iterator, int)
    (False, True)
    """
    return any(base is kind for base in bases_of(type(value)) for kind in kinds)


def ids_of(kinds: Iterable[object]) -> frozenset[int]:
    """Return what `id(type(value))` is among, for values of exactly *kinds*: to look a class up need not hash it."""
    return frozenset(map(id, kinds))


def bases_of(kind: type) -> tuple[type, ...]:
    """Return *kind* and all that it derives from.

    >>> bases_of(bool)
    (<class 'bool'>, <class 'int'>, <class 'object'>)
    """
    found: tuple[type, ...] = _MRO.__get__(kind)
    return found


def space_of(kind: type) -> Mapping[str, Any]:
    """Return what *kind* itself defines, by name."""
    found: Mapping[str, Any] = _SPACE.__get__(kind)
    return found


def attribute_of(kind: type, name: str) -> Any:
    """Return what *kind* or the nearest base of it defines under *name*, as it stands there; None if none does."""
    return next((space[name] for space in map(space_of, bases_of(kind)) if name in space), None)


def defines(kind: type, *names: str) -> bool:
    """Whether *kind* or a base of it defines all of *names*.

    >>> defines(list, "__iter__"), defines(list, "__iter__", "__next__")
    (True, False)
    """
    spaces = [space_of(each) for each in bases_of(kind)]
    return all(any(name in each for each in spaces) for name in names)


def module_of(thing: object) -> str:
    """Return the name of the module of a class, a function or an object; nothing if it has none that is a text.

    >>> module_of(module_of), module_of(int), module_of(3)
    ('reliable_rx.class_of', 'builtins', '')
    """
    try:
        found = _MODULE.__get__(thing) if is_a(thing, type) else getattr(thing, "__module__", "")
    except Exception:  # a property may raise anything
        return ""
    return str.__str__(found) if is_a(found, str) else ""


def name_of(kind: type) -> str:
    """Return the name of a class.

    >>> name_of(int)
    'int'
    """
    found: str = _NAME.__get__(kind)
    return found


def qualname_of(kind: type) -> str:
    """Return the qualified name of a class.

    >>> qualname_of(int)
    'int'
    """
    found: str = _QUALNAME.__get__(kind)
    return found


def path_of(kind: type) -> str:
    """Return the name of a class with that of its module before it.

    >>> path_of(KeyError)
    'builtins.KeyError'
    """
    return f"{module_of(kind)}.{qualname_of(kind)}"


def is_odd(error: BaseException) -> bool:
    """Whether the class of *error* answers by code of its own what everyone asks of an error without a ``try``.

    >>> class Fixed(Exception):
    ...     __context__ = None
    >>> is_odd(Fixed()), is_odd(KeyError("k"))
    (True, False)
    """
    kind = type(error)
    return _overrides(kind, _ASKED_OF_ERRORS) or _overrides(type(kind), _ASKED_OF_CLASSES)


def dict_of(value: object) -> dict[str, Any]:
    """Return the attributes of *value* that lie in a dict, if it has one; its `__getattr__` is not asked.

    >>> class Row(list):
    ...     __slots__ = ()
    ...     def __getattr__(self, name): raise KeyError(name)
    >>> dict_of(Row())
    {}
    """
    kind: Any = type(value)
    return value.__dict__ if kind.__dictoffset__ else {}


def is_python_class(kind: type) -> bool:
    """Whether a class is written in Python: the interpreter's own are static types, or since 3.12 immutable ones.

    >>> from collections import UserDict, deque
    >>> [is_python_class(each) for each in (int, deque, UserDict, type("Made", (int,), {}))]
    [False, False, True, True]
    """
    return _FLAGS.__get__(kind) & (_HEAP_TYPE | _IMMUTABLE_TYPE) == _HEAP_TYPE  # type: ignore[no-any-return]


def _overrides(kind: type, names: tuple[str, ...]) -> bool:
    """Whether a class that is written in Python, or by an extension, has one of *names* in the place of Python's."""
    for each in bases_of(kind):
        if not is_python_class(each):
            return False  # what is behind it is Python's own as well, or is not asked
        if any(name in space_of(each) for name in names):
            return True
    return False
