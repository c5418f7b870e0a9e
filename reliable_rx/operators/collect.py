"""Operators that collect a whole sequence into a dict, a set or a list; `to_list` itself is in `aggregate`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, overload

from reactivex import Observable

from reliable_rx.operators.aggregate import to_list
from reliable_rx.operators.contract.arguments import check_key
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)
B = TypeVar("B")
K = TypeVar("K")


@frozen
class ToDict(Linear, name="to_dict"):
    grows: ClassVar = {"items": "list_items_max"}
    compares: ClassVar = {"items": "keys"}
    key_mapper: Callable[[Any], Hashable]
    element_mapper: Callable[[Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        items: dict[Any, Any] = field(default_factory=dict)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        key = self.key_mapper(value)
        element = self.element_mapper(value) if self.element_mapper else value
        try:
            state.items[key] = element
        except TypeError:
            check_key("the key of to_dict", key)
            raise

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.items)


@overload
def to_dict(key_mapper: Callable[[A], K]) -> Callable[[Observable[A]], Query[dict[K, A]]]: ...
@overload
def to_dict(
    key_mapper: Callable[[A], K], element_mapper: Callable[[A], B] | None = None
) -> Callable[[Observable[A]], Query[dict[K, B]]]: ...
def to_dict(
    key_mapper: Callable[[A], K], element_mapper: Callable[[A], Any] | None = None
) -> Callable[[Observable[A]], Query[dict[K, Any]]]:
    """Emit all elements as one dict when the sequence completes; a later element replaces one of the same key.

    >>> from reliable_rx.testing import diagram
    >>> diagram(to_dict(lambda x: x % 2), "-1-2-3|")
    -1-2-3|
    ------({1: 3, 0: 2} |)

    *State*: the dict, bounded by `Limits.list_items_max`.
    """
    return ToDict(key_mapper, element_mapper)


@frozen
class ToSet(Linear, name="to_set"):
    raises = True
    grows: ClassVar = {"items": "list_items_max"}
    compares: ClassVar = {"items": "keys"}

    @dataclass(slots=True)
    class State:
        items: set[Any] = field(default_factory=set)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        try:
            state.items.add(value)
        except TypeError:
            check_key("an element of to_set", value)
            raise

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        try:
            state.items.update(values)
        except TypeError:
            for value in values:
                check_key("an element of to_set", value)
            raise

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.items)


def to_set() -> Callable[[Observable[A]], Query[set[A]]]:
    """Emit all different elements as one set when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(to_set(), "-1-2-1|")
    -1-2-1|
    ------({1, 2} |)

    *State*: the set, bounded by `Limits.list_items_max`. An element that cannot be hashed fails the query (RxPY raises
    it at whoever pushed the element).
    """
    return ToSet()


def to_iterable() -> Callable[[Observable[A]], Query[list[A]]]:
    """Emit all elements as one list when the sequence completes: `to_list` by another name.

    >>> from reliable_rx.testing import diagram
    >>> diagram(to_iterable(), "-1-2-|")
    -1-2-|
    -----([1, 2] |)

    *State*: the list, bounded by `Limits.list_items_max`.
    """
    return to_list()
