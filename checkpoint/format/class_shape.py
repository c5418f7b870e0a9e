"""Shape of a user's class: what decides how its objects are taken apart and filled, and what its code does with them.

A class that nobody has edited has the shape that it had, in each Python. What its code stores and reads is asked only
where the shape is another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dis import Instruction, get_instructions
from functools import cached_property, lru_cache
from itertools import pairwise
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, ClassVar, NamedTuple, get_origin

from checkpoint.format.named_members import FieldsDiffer
from reliable_rx.class_of import is_a, is_python_class, name_of, qualname_of
from reliable_rx.functions.reach import is_own_code


class Shape(NamedTuple):
    """What decides how the objects of a class are taken apart, and filled: the same for a class that is not edited."""

    base: str = ""
    """The builtin class on which it is built, or nothing."""
    fields: tuple[str, ...] = ()
    """Those of a dataclass."""
    slots: tuple[str, ...] = ()
    has_dict: bool = True
    says: tuple[str, ...] = ()
    """Which of `STATE` it has written itself, and under `BY_LIST` which of them `dataclasses` have written."""
    over: tuple[tuple[str, str], ...] = ()
    """What is computed when asked for, and the private attribute of its name that a property reads, or nothing."""


STATE = ("__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
BY_LIST = "dataclasses."
"""A dataclass that is frozen and has slots has the list of its fields for its state."""
PLAIN = Shape()


@lru_cache(maxsize=1000)
def shape_of(kind: Any) -> Shape:
    """Return the shape of a class as it is now.

    >>> class Row(dict):
    ...     __slots__ = ("at",)
    >>> shape_of(Row)
    Shape(base='dict', fields=(), slots=('at',), has_dict=False, says=(), over=())
    """
    fields = tuple(each.name for each in dataclasses.fields(kind)) if hasattr(kind, "__dataclass_fields__") else ()
    says = [
        BY_LIST * (getattr(getattr(kind, name), "__module__", None) == "dataclasses") + name
        for name in STATE
        if not is_usual(kind, name, object)
    ]
    slots = tuple(sorted(slots_of(kind)))
    return Shape(built_on(kind), fields, slots, bool(kind.__dictoffset__), tuple(says), _over(nearest(kind)))


def _over(there: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = list[tuple[str, str]]()
    for name, at in there.items():
        if type(at) is property:  # what is within a comprehension is code of its own in some Pythons
            codes = _codes(at.fget)
            used = sorted({each for code in codes for each in (*code.co_names, *code.co_consts) if type(each) is str})
            kept = (each for each in used if is_private(each, name) and not is_computed(there.get(each)))
            found.append((name, next(kept, "")))
        elif type(at) is GetSetDescriptorType:  # Python's own: `__dict__`, `__weakref__`
            continue
        elif is_a(at, cached_property) or (is_computed(at) and hasattr(type(at), "__set__")):
            found.append((name, ""))
    return tuple(sorted(found))


def is_private(attribute: object, name: str) -> bool:
    """Whether an *attribute* is one that is kept for *name*.

    >>> is_private("_balance", "balance"), is_private("_Account__balance", "balance"), is_private("balance", "balance")
    (True, True, False)
    """
    if type(attribute) is not str or attribute[:1] != "_":
        return False
    return attribute == f"_{name}" or attribute.endswith(f"__{name}")


class Code(NamedTuple):
    """What the code of a class does with attributes."""

    stores: frozenset[str]
    uses: frozenset[str]
    class_vars: frozenset[str]


@lru_cache(maxsize=1000)
def code_of(kind: Any) -> Code:
    """Return which attributes the functions of *kind* store, which they use, and which are annotated as of the class.

    >>> class Basket:
    ...     def add(self, value):
    ...         self.total += value.price
    >>> sorted(code_of(Basket).stores), sorted(code_of(Basket).uses)
    (['total'], ['price', 'total'])
    """
    codes = [code for at in nearest(kind).values() for code in _codes(at)]
    stores = {name for code in codes for name in _stored_by(code)}
    uses = {name for code in codes for name in (*code.co_names, *code.co_consts) if type(name) is str}
    said = [vars(each).get("__annotations__", {}) for each in type.mro(kind) if is_python_class(each)]
    class_vars = {name for each in said for name, what in each.items() if _is_class_var(what)}
    return Code(frozenset(stores), frozenset(uses), frozenset(class_vars))


def _stored_by(code: CodeType) -> Iterator[str]:
    """Yield the attributes that a function stores on its first argument, its object, also with `+=` and the like."""
    steps = [each for each in get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG")]
    own = code.co_varnames[0] if code.co_varnames else None
    added = {
        step.argval
        for first, copied, step in zip(steps, steps[1:], steps[2:], strict=False)
        if step.opname == "LOAD_ATTR" and copied.opname == "COPY" and _loaded(first) == own
    }
    for before, step in pairwise(steps):
        if step.opname == "STORE_ATTR" and (_loaded(before) == own or step.argval in added):
            yield step.argval


def _is_class_var(what: Any) -> bool:
    """Whether an annotation says that something is the class's; the user's are not asked."""
    return "ClassVar" in what if type(what) is str else what is ClassVar or get_origin(what) is ClassVar


def _codes(at: Any) -> Iterator[CodeType]:
    waiting: list[Any] = [at]
    while waiting:
        each = waiting.pop()
        if type(each) is CodeType:
            yield each
            waiting += [inner for inner in each.co_consts if type(inner) is CodeType]
        elif type(each) is FunctionType:
            waiting += [each.__code__, vars(each).get("__wrapped__")]
        elif type(each) is property:
            waiting += [each.fget, each.fset, each.fdel]
        elif is_a(each, (classmethod, staticmethod)):
            waiting.append(each.__func__)
        elif is_a(each, cached_property):
            waiting.append(each.func)


def read_by(at: property) -> frozenset[str]:
    """Return the attributes of its object that a property reads; none of one that asks whether they are there."""
    code = at.fget.__code__ if type(at.fget) is FunctionType else None
    if code is None or code.co_exceptiontable or not code.co_varnames:
        return frozenset()
    if not {"getattr", "hasattr"}.isdisjoint(code.co_names):
        return frozenset()
    steps = [each for each in get_instructions(code) if each.opname not in ("CACHE", "RESUME")]
    found = (
        step.argval
        for before, step in pairwise(steps)
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and _loaded(before) == code.co_varnames[0]
    )
    return frozenset(found)


def _loaded(step: Instruction) -> Any:
    """Return the variable that a step loads; since 3.13 one may load two."""
    return step.argval[-1] if type(step.argval) is tuple and step.argval else step.argval


@lru_cache(maxsize=1000)
def nearest(kind: Any) -> dict[str, Any]:
    """Return what a class and the bases that are written in Python have, by name, each as an object finds it."""
    found: dict[str, Any] = {}
    for each in reversed(type.mro(kind)):
        if is_python_class(each):
            found.update(vars(each))
    return found


def is_computed(at: Any) -> bool:
    """Whether what a class has under a name is code: an attribute of that name would be hidden, or hide it."""
    if is_a(at, (FunctionType, classmethod, staticmethod, property, cached_property)):
        return True
    return type(at) is not MemberDescriptorType and any("__set__" in vars(each) for each in type.mro(type(at)))


def is_called(at: Any) -> bool:
    """Whether what a class has under a name is a method of some kind: an attribute of that name would hide it."""
    return is_a(at, (FunctionType, classmethod, staticmethod))


@lru_cache(maxsize=1000)
def slots_of(kind: Any) -> frozenset[str]:
    """Return the names of the attributes that have a slot, as a class that is written in Python has it."""
    spaces = [vars(each) for each in type.mro(kind) if is_python_class(each)]
    return frozenset(name for space in spaces for name, it in space.items() if type(it) is MemberDescriptorType)


@lru_cache(maxsize=1000)
def has_only_a_dict(kind: Any) -> bool:
    """Whether the attributes of objects of *kind* lie in a dict, which is the one that Python gives them."""
    own = (vars(each).get("__dict__") for each in type.mro(kind))
    is_pythons = all(each is None or type(each) is GetSetDescriptorType for each in own)
    return is_pythons and bool(kind.__dictoffset__) and not slots_of(kind)


@lru_cache(maxsize=1000)
def built_on(kind: Any) -> str:
    """Name the builtin class that decides what objects of *kind* are; nothing for a plain `object`.

    >>> class Row(dict): ...
    >>> built_on(Row), built_on(Exception), built_on(object)
    ('dict', 'Exception', '')
    """
    found = next(each for each in type.mro(kind) if not is_python_class(each))
    return "" if found is object else qualname_of(found)


def check_built_on(kind: Any, base: str) -> None:
    """*Raises* `FieldsDiffer` if *kind* is built on something else than *base* today."""
    now = built_on(kind)
    if now != base:
        was, today = (f"built on {each}" if each else "plain objects" for each in (base, now))
        raise FieldsDiffer(
            f"stored values of {name_of(kind)} are {was}, and it is {today.replace('objects', 'object')} today, so "
            f"that they do not fit: make it what it was, or call the new one otherwise"
        )


def is_usual(kind: type, name: str, usual: type) -> bool:
    """Whether the method *name* of *kind* is that which the standard library has written."""
    found, ours = getattr(kind, name, None), getattr(usual, name, None)
    return found is ours or getattr(found, "__code__", None) is getattr(ours, "__code__", object)


@lru_cache(maxsize=1000)
def has_own_setstate(kind: Any) -> bool:
    """Whether a class is filled by a `__setstate__` that its user has written; a library's takes what it has made."""
    at = nearest(kind).get("__setstate__")
    return type(at) is FunctionType and is_own_code(at)


def set_as_pickle(value: Any, stored: Any) -> None:
    """Do as pickle does with the state of a *value*, but for slots of a class whose objects refuse to be set."""
    kind: Any = type(value)
    parts: Any = stored if type(stored) is tuple and len(stored) == 2 else (stored, None)
    own, beside = parts
    slots, set_slot = slots_of(kind), object.__setattr__
    space = value.__dict__ if own and kind.__dictoffset__ else None  # its `__getattr__` is not asked
    for name, each in own.items() if own else ():
        if space is not None:
            space[name] = each
        else:
            set_slot(value, name, each)
    for name, each in beside.items() if beside else ():
        set_slot(value, name, each) if name in slots else setattr(value, name, each)
