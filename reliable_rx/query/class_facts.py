"""What is to be known of a class to write its objects into an identity: asked once for all of them.

A table of small objects has some hundred thousand of one class. What is asked here follows from the class alone; it is
kept for as long as one text is written, since a program may change its classes later.
"""

from __future__ import annotations

from functools import _lru_cache_wrapper, cached_property, partial
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from reliable_rx.class_of import bases_of, derives_from, dict_of, is_a, path_of, space_of
from reliable_rx.functions.reach import FIXED, GETTERS, is_named_only, is_own
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query.held import derives, slots
from reliable_rx.query.query import Query

BOUND = (MethodType, BuiltinMethodType, MethodWrapperType)
SPECIAL = (
    FunctionType, *BOUND, partial, _lru_cache_wrapper, ModuleType, list, tuple, set, frozenset, dict, type,
    staticmethod, classmethod, MappingProxyType,
)  # fmt: skip
"""What is no object of its class and attributes, but written in a way of its own."""


class KindFacts:
    """The facts of the class of *value*."""

    __slots__ = ("computed", "derives", "is_atom", "is_fixed", "is_object", "kind", "own", "path", "slots")

    def __init__(self, value: object) -> None:
        self.kind: type[Any] = type(value)  # also: as long as this is there no other class has its id
        self.path = path_of(self.kind)
        self.own = is_own(self.kind)
        self.derives = derives(self.kind)
        self.is_atom = is_a(value, FIXED) and not self.own
        """Whether the text of an object says all."""
        self.is_fixed = is_a(value, (*FIXED, *GETTERS))
        is_named = callable(value) and is_named_only(value)
        self.is_object = not (is_a(value, SPECIAL) or derives_from(value, Query) or is_named)
        """Whether an object is written by its class and attributes."""
        bases = bases_of(self.kind)
        self.slots = [name for each in bases for name in slots(each)]
        self.computed = {name for each in bases for name, at in space_of(each).items() if is_a(at, cached_property)}
        if is_a(value, Operator):
            self.computed |= value.of_process

    def held(self, value: object) -> dict[str, Any]:
        """Return the attributes of one of the class, by name, but for computed ones and those of the process alone."""
        known = {name: getattr(value, name) for name in self.slots if hasattr(value, name)}
        there = dict_of(value)
        if not self.computed:
            return {**known, **there}
        return {**known, **{name: each for name, each in there.items() if name not in self.computed}}
