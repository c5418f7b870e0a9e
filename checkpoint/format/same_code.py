"""Comparison of stored code that was written by two processes, without running any of it.

Two processes write one function as different bytes: the order of a set follows the hash seed, a class made in a
function has a number of its own, and where the source lies and stood is written too. Here both pickles are read as a
tree of what they would call, which is compared without these.
Rejected: bytes that are always the same (the pickler in C does not ask how to write a set), and comparing live objects
(a decoded function is not what it was made from in all details).
"""

from __future__ import annotations

import io
import pickle
from typing import Any

BUILT_IN = "cloudpickle.cloudpickle._builtin_type"
WHERE = {"CodeType": (10, 13, 14)}
"""Of the arguments of code: the file, its first line and the table of lines."""
NUMBERED = {"cloudpickle.cloudpickle._make_skeleton_class": (4,), "cloudpickle.cloudpickle._make_skeleton_enum": (5,)}
"""Of the arguments of a class: the number that a process gives it."""
NESTED = "checkpoint.format.code._code"


def is_same_code(one: bytes, other: bytes) -> bool:
    """Whether two stored queries do the same, as far as pickles can tell; False where they cannot be compared.

    >>> is_same_code(pickle.dumps({"b", "a", "c"}), pickle.dumps({"c", "b", "a"}))
    True
    >>> is_same_code(pickle.dumps([1, 2]), pickle.dumps([2, 1]))
    False
    """
    if one == other:
        return True
    try:
        return _text(_read(one), {}) == _text(_read(other), {})
    except Exception:  # too deep, or of a kind that is not read here
        return False


class _Made:
    """What a pickle would make by a call: only noted."""

    name = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        kind: Any = cls
        if not isinstance(kind, type):
            return kind(*args, **kwargs)  # an instance of a class that the pickle itself makes
        made: Any = object.__new__(kind)
        made.args, made.kwargs, made.states, made.items = args, kwargs, [], []
        if args and isinstance(args[0], _Made):
            args[0].states.append((kind, *args[1:]))  # it may be called for what it does to this
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    states: list[Any]
    items: list[Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.name == BUILT_IN:
            return type("_Named", (_Made,), {"name": str(self.args[0])})(*args)
        return type("_Called", (_Made,), {"name": "()"})(self, *args, **kwargs)

    def __setstate__(self, state: Any) -> None:
        self.states.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, value: Any) -> None:
        self.items.append(value)

    def extend(self, values: Any) -> None:
        self.items.extend(values)


class _Reader(pickle._Unpickler):  # that in C takes no stand-ins for classes
    def find_class(self, module: str, name: str) -> Any:
        return type("_Named", (_Made,), {"name": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Any:
        return type("_Kept", (_Made,), {"name": "persistent"})(pid)


def _read(data: bytes) -> Any:
    return _Reader(io.BytesIO(data)).load()


def _text(value: Any, seen: dict[int, int]) -> str:
    """Return *value* as a text; what occurs again is a number."""
    kind = type(value)
    if kind in (int, float, str, bytes, bool, complex, type(None)):
        return f"{kind.__name__}:{value!r}"
    if isinstance(value, type):
        return f"class {getattr(value, 'name', value.__qualname__)}"
    if id(value) in seen and kind is not tuple:
        return f"again {seen[id(value)]}"
    seen[id(value)] = len(seen)
    if kind in (set, frozenset):
        return f"{kind.__name__}({','.join(sorted(_text(each, dict(seen)) for each in value))})"
    if kind in (list, tuple):
        return f"{kind.__name__}({','.join(_text(each, seen) for each in value)})"
    if kind is dict:
        return f"dict({','.join(f'{_text(key, seen)}={_text(each, seen)}' for key, each in value.items())})"
    if isinstance(value, _Made):
        return _made(value, seen)
    raise TypeError(f"a pickle made a {kind.__name__}")


def _made(value: _Made, seen: dict[int, int]) -> str:
    if value.name == NESTED:
        return f"code({_text(_read(value.args[1]), {})})"
    left_out = (*WHERE.get(value.name, ()), *NUMBERED.get(value.name, ()))
    said = [_text(each, seen) for place, each in enumerate(value.args) if place not in left_out]
    said += [_text(each, seen) for each in (value.kwargs, value.states, value.items)]  # no list: its id comes again
    return f"{value.name}({','.join(said)})"
