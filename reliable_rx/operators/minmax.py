"""Operators that emit what is smallest or largest.

Elements are compared with ``<`` and ``>``, so that text and dates have an order too; RxPY subtracts them, which only
numbers allow. A *comparer* gives a number as RxPY's does: below, at or above zero. Of equals `min` and `max` keep the
first; RxPY keeps all of them until the end to emit that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, overload

from reactivex import Observable
from reactivex.internal import SequenceContainsNoElementsError
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)
K = TypeVar("K")
UNORDERED = float("nan")


def compare(a: Any, b: Any) -> float:
    """Return a number below, at or above zero; what has no order (not a number) is neither."""
    if a > b:
        return 1
    if a < b:
        return -1
    return 0 if a == a and b == b else UNORDERED


class Extreme(Linear):
    """What keeps the best element so far, the first of equals."""

    raises = True
    comparer: Callable[[Any, Any], Any]

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.value is NotSet:
            raise SequenceContainsNoElementsError()
        out.append(state.value)


@frozen
class Min(Extreme, name="min"):
    comparer: Callable[[Any, Any], Any] = compare

    def on_next(self, state: Extreme.State, value: Any, out: list[Any]) -> None:
        if state.value is NotSet or -self.comparer(value, state.value) > 0:
            state.value = value


@overload
def min(comparer: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def min(comparer: Callable[[A, A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
def min(comparer: Callable[[Any, Any], Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the smallest element when the sequence completes; fail if there were none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(min(), "-2-1-3-|")
    -2-1-3-|
    -------(1 |)

    *State*: the smallest so far. Without an element it fails with `SequenceContainsNoElementsError`.
    """
    return Min(comparer or compare)


@frozen
class Max(Extreme, name="max"):
    comparer: Callable[[Any, Any], Any] = compare

    def on_next(self, state: Extreme.State, value: Any, out: list[Any]) -> None:
        if state.value is NotSet or self.comparer(value, state.value) > 0:
            state.value = value


@overload
def max(comparer: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def max(comparer: Callable[[A, A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
def max(comparer: Callable[[Any, Any], Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the largest element when the sequence completes; fail if there were none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(max(), "-b-a-|")
    -b-a-|
    -----(b |)

    *State*: the largest so far. Without an element it fails with `SequenceContainsNoElementsError`.
    """
    return Max(comparer or compare)


class ExtremeBy(Linear):
    """What keeps all elements with the best key so far."""

    sign: ClassVar[int]
    grows: ClassVar = {"items": "list_items_max"}
    key_mapper: Callable[[Any], Any]
    comparer: Callable[[Any, Any], Any]

    @dataclass(slots=True)
    class State:
        key: Any = NotSet
        items: list[Any] = field(default_factory=list)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        key = self.key_mapper(value)
        compared = 0 if state.key is NotSet else self.comparer(key, state.key) * self.sign
        if state.key is NotSet or compared > 0:
            state.key = key
            state.items = [value]
        elif compared >= 0:
            state.items.append(value)

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.items)


@frozen
class MinBy(ExtremeBy, name="min_by"):
    sign = -1
    key_mapper: Callable[[Any], Any]
    comparer: Callable[[Any, Any], Any] = compare


def min_by(
    key_mapper: Callable[[A], K], comparer: Callable[[K, K], Any] | None = None
) -> Callable[[Observable[A]], Query[list[A]]]:
    """Emit the list of all elements with the smallest key when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(min_by(lambda x: x % 3), "-3-1-6-|")
    -3-1-6-|
    -------([3, 6] |)

    *State*: the smallest key so far and its elements, bounded by `Limits.list_items_max`.
    """
    return MinBy(key_mapper, comparer or compare)


@frozen
class MaxBy(ExtremeBy, name="max_by"):
    sign = 1
    key_mapper: Callable[[Any], Any]
    comparer: Callable[[Any, Any], Any] = compare


def max_by(
    key_mapper: Callable[[A], K], comparer: Callable[[K, K], Any] | None = None
) -> Callable[[Observable[A]], Query[list[A]]]:
    """Emit the list of all elements with the largest key when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(max_by(lambda x: x % 3), "-4-3-1-|")
    -4-3-1-|
    -------([4, 1] |)

    *State*: the largest key so far and its elements, bounded by `Limits.list_items_max`.
    """
    return MaxBy(key_mapper, comparer or compare)
