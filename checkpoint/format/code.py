"""Code in stores: what has no name to be found by travels as byte code, and names the interpreter that it is for.

Byte code means something to one minor version of Python only; another one runs it into wrong results or a dead
process. So whatever holds code is wrapped into one call, `_code`, that compares the `Makers` first. The wrapping is a
pickle like any other: data around it is read as ever, and costs nothing. Rejected: a mark on the whole store or blob
(then data would be as unreadable as code), storing source text (closures have none, and a shell's functions no file).
"""

from __future__ import annotations

import io
import pickle
import sys
from functools import cache, cached_property, lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import MAGIC_NUMBER
from operator import attrgetter
from typing import Any, NamedTuple

import cloudpickle
import cloudpickle.cloudpickle as dynamic

from checkpoint.format import stored_errors
from checkpoint.format.held_objects import bare
from checkpoint.format.named_fields import set_as_stored, set_fields
from checkpoint.format.plain_objects import reducer_for
from reliable_rx.class_of import is_a, module_of, qualname_of
from reliable_rx.errors import CheckpointRefused
from reliable_rx.functions.replaced_classes import goes_over
from reliable_rx.interrupts import let_through

PYTHON = ".".join(map(str, sys.version_info[:3]))
BYTECODE = int.from_bytes(MAGIC_NUMBER[:2], "little")
FORMAT = 2
"""Of our own parts of stored code: another one is never loaded."""


class Makers(NamedTuple):
    """Name the versions that wrote something: of Python, of what pickles code, and of what the code calls.

    Those that must agree for code to be loaded are *bytecode*, our *format*, and the first number of the libraries.
    """

    python: str
    bytecode: int
    format: int
    cloudpickle: str
    reactivex: str
    reliable_rx: str

    def fits(self, other: Makers) -> bool:
        """Whether one may run the code of the other."""
        return self._judged() == other._judged()

    def _judged(self) -> tuple[Any, ...]:
        libraries = (each.partition(".")[0] for each in (self.cloudpickle, self.reactivex))
        return (self.bytecode, self.format, *libraries)

    def differing(self, other: Makers) -> str:
        """Say in what these are not *other*, as ``Python 3.11 (this is 3.12)``."""
        pairs = [("Python", self.minor, other.minor)] if self.bytecode != other.bytecode else []
        pairs += [
            (name, getattr(self, name), getattr(other, name))
            for name in ("cloudpickle", "reactivex")
            if getattr(self, name).partition(".")[0] != getattr(other, name).partition(".")[0]
        ]
        if not pairs:
            pairs = [("reliable-rx", self.reliable_rx, other.reliable_rx)]
        return ", ".join(f"{name} {there} (this is {here})" for name, there, here in pairs)

    @property
    def minor(self) -> str:
        """The version of Python as far as byte code depends on it."""
        return ".".join(self.python.split(".")[:2])


@cache
def makers() -> Makers:
    """Return those of this process."""
    reactivex = str(getattr(sys.modules["reactivex"], "__version__", "?"))  # `reliable_rx` has imported it
    return Makers(PYTHON, BYTECODE, FORMAT, cloudpickle.__version__, reactivex, _version("reliable-rx"))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "?"


class OtherCode(CheckpointRefused):
    """Code of another interpreter, which is not loaded. Field: *makers*, what wrote it."""


def encode_code(value: Any) -> bytes:
    """Turn a value with functions in it into bytes that the same interpreter turns back.

    >>> from checkpoint import decode
    >>> decode(encode_code(lambda n: n + 1))(1)
    2
    """
    inner = io.BytesIO()
    CodePickler(inner, 5).dump(value)
    return wrapped(inner.getvalue())


def wrapped(data: bytes) -> bytes:
    """Return a pickle of what *data* is a pickle of, which says who has written it."""
    return pickle.dumps(Wrapped(tuple(makers()), data), 5)


def unlocked(held: cached_property[Any]) -> Any:
    """Take a cached property apart without the lock that Python 3.11 gives it."""
    return cached_property, (held.func,), {name: each for name, each in vars(held).items() if name != "lock"}


_by_names = lru_cache(maxsize=1000)(reducer_for)


def by_names(kind: type) -> Any:
    """Return how values of *kind* are taken apart whose fields go by name; None: they do not."""
    try:
        return _by_names(kind)
    except BaseException as raised:  # a class may have no hash
        let_through(raised)
        return None


class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles what has no name to be found by as code; classes of a script have one, as those of a module do."""

    def reducer_override(self, obj: Any) -> Any:
        if issubclass(type(obj), BaseException):
            return stored_errors.reduced(obj)
        if type(obj) is object:
            return bare(obj)
        if type(obj) is cached_property:
            return unlocked(obj)
        if is_a(obj, type) and _is_of_script(obj):
            return NotImplemented  # by name, as plain pickle writes its instances: a copy would be another class
        if is_a(obj, type) and goes_over(obj):
            return class_called, (module_of(obj), qualname_of(obj))
        if (reducer := by_names(type(obj))) is not None:
            reduced = reducer(obj)
            if _goes_by_name(type(obj)):
                return reduced
            if reduced[-1] is set_fields:
                return (*reduced[:-1], set_as_stored)
        reduced = super().reducer_override(obj)
        if isinstance(reduced, tuple) and reduced[0] is dynamic._make_skeleton_class:
            return (reduced[0], tuple(_with_qualname(obj, each) for each in reduced[1]), *reduced[2:])
        return reduced


def _with_qualname(kind: type, argument: Any) -> Any:
    """Add the qualified name, which a record shows in its `repr`, to the namespace that a class is made of."""
    return {**argument, "__qualname__": "".join(kind.__qualname__)} if isinstance(argument, dict) else argument


def _goes_by_name(kind: type) -> bool:
    """Whether a class is stored by its name. One that goes by its code comes with its objects, so it is never edited.

    Some of these are made before the class is finished, which may hold them.
    """
    return _is_of_script(kind) or goes_over(kind) or bool(dynamic._should_pickle_by_reference(kind))


def _is_of_script(kind: type) -> bool:
    """Whether a class is the one that its name leads to in ``__main__``."""
    if module_of(kind) != "__main__":
        return False
    try:
        return attrgetter(qualname_of(kind))(sys.modules["__main__"]) is kind
    except AttributeError:
        return False


def class_called(module: str, name: str) -> Any:
    """Return what the class that is called *name* in *module* is now."""
    return attrgetter(name)(import_module(module))


class Wrapped:
    """Bytes that hold code, on their way into a pickle."""

    def __init__(self, written: tuple[Any, ...], data: bytes) -> None:
        self.written = written
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return (_code, (self.written, self.data))


def _code(written: tuple[Any, ...], data: bytes) -> Any:
    """Load code. *Raises* `OtherCode` if it is that of another interpreter."""
    there = Makers(*written)
    if not there.fits(makers()):
        what = f"code of {there.differing(makers())}"
        raise OtherCode(f"the store holds {what}", what=what, where="code", makers=there)
    return pickle.loads(data)
