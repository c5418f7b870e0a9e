"""Operators that fold a sequence into one element, for groups and windows above all.

They are one step each: RxPY composes `sum` and `count` of reduce, and that of scan and last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from reactivex import Observable
from reactivex.internal import SequenceContainsNoElementsError
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.filtering import fresh, takes_total
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
C = TypeVar("C")


@frozen
class Reduce(Linear, name="reduce"):
    accumulator: Callable[[Any, Any], Any]
    seed: Any = NotSet

    @dataclass(slots=True)
    class State:
        value: Any

    def initial(self) -> State:
        return self.State(fresh(self.seed))

    def adopt(self, state: State, before: Before) -> bool:
        return takes_total(state, self.seed)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.value = value if state.value is NotSet else self.accumulator(state.value, value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        accumulator, total = self.accumulator, state.value
        try:
            for value in values:
                total = value if total is NotSet else accumulator(total, value)
        finally:
            state.value = total

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.value is NotSet:
            raise SequenceContainsNoElementsError()
        out.append(state.value)


@overload
def reduce(accumulator: Callable[[A, A], A], seed: type[NotSet] = NotSet) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def reduce(accumulator: Callable[[B | None, A], B], seed: None) -> Callable[[Observable[A]], Query[B | None]]: ...
@overload
def reduce(accumulator: Callable[[B, A], B], seed: B) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def reduce(accumulator: Callable[[B | C, A], B], seed: C) -> Callable[[Observable[A]], Query[B | C]]: ...
def reduce(accumulator: Callable[[Any, Any], Any], seed: Any = NotSet) -> Callable[[Observable[Any]], Query[Any]]:
    """Fold the sequence and emit the result when it completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(reduce(lambda a, x: a + x, 10), "-1-2-3-|")
    -1-2-3-|
    -------(16 |)

    *State*: the accumulator; a mutable seed is copied for each subscription. Without a seed an empty sequence fails
    with `SequenceContainsNoElementsError`.
    """
    return Reduce(accumulator, seed)


@frozen
class Count(Linear, name="count"):
    predicate: Callable[[Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        count: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if self.predicate is None or self.predicate(value):
            state.count += 1

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if self.predicate is None:
            state.count += len(values)
        else:
            super().on_batch(state, values, out)

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.count)


@overload
def count(predicate: None = None) -> Callable[[Observable[Any]], Query[int]]: ...
@overload
def count(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[int]]: ...
def count(predicate: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[int]]:
    """Emit how many elements (that satisfy *predicate*) there were when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(count(lambda x: x > 1), "-1-2-3-|")
    -1-2-3-|
    -------(2 |)

    *State*: the count.
    """
    return Count(predicate)


@frozen
class Sum(Linear, name="sum"):
    raises = True
    key_mapper: Callable[[Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        total: Any = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.total = state.total + (value if self.key_mapper is None else self.key_mapper(value))

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if self.key_mapper is not None:
            super().on_batch(state, values, out)
            return
        total = state.total
        try:
            for value in values:
                total = total + value  # += would change an array in place
        finally:
            state.total = total

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.total)


@overload
def sum(key_mapper: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def sum(key_mapper: Callable[[A], B]) -> Callable[[Observable[A]], Query[B]]: ...
def sum(key_mapper: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the sum of the elements (or of their keys) when the sequence completes; 0 if there were none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(sum(), "-1-2-3-|")
    -1-2-3-|
    -------(6 |)

    *State*: the sum.
    """
    return Sum(key_mapper)


@frozen
class Average(Linear, name="average"):
    raises = True
    key_mapper: Callable[[Any], Any] = float

    @dataclass(slots=True)
    class State:
        total: Any = 0
        count: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.total = state.total + self.key_mapper(value)
        state.count += 1

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.count == 0:
            raise SequenceContainsNoElementsError()
        out.append(state.total / float(state.count))


@overload
def average(key_mapper: None = None) -> Callable[[Observable[Any]], Query[float]]: ...
@overload
def average(key_mapper: Callable[[A], Any]) -> Callable[[Observable[A]], Query[float]]: ...
def average(key_mapper: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[float]]:
    """Emit the mean of the elements (or of their keys) when the sequence completes; fail if there were none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(average(), "-1-2-|")
    -1-2-|
    -----(1.5 |)

    *State*: the sum and the count. Without an element it fails with `SequenceContainsNoElementsError`.
    """
    return Average(key_mapper or float)


@frozen
class ToList(Linear, name="to_list"):
    grows: ClassVar = {"items": "list_items_max"}

    @dataclass(slots=True)
    class State:
        items: list[Any] = field(default_factory=list)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.items.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        state.items.extend(values)

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.items)


def to_list() -> Callable[[Observable[A]], Query[list[A]]]:
    """Emit all elements as one list when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(to_list(), "-1-2-|")
    -1-2-|
    -----([1, 2] |)

    *State*: the list, bounded by `Limits.list_items_max`.
    """
    return ToList()
