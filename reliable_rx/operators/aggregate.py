"""Operators that answer when the sequence has completed (or as soon as they know), for groups and windows above all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, overload

from reactivex import Observable
from reactivex.internal import SequenceContainsNoElementsError
from reactivex.internal.utils import NotSet

from reliable_rx.operator import Linear
from reliable_rx.operators.linear import filter, fresh
from reliable_rx.operators.project import map

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, eq=False)
class Reduce(Linear, name="reduce"):
    accumulator: Callable[[Any, Any], Any]
    seed: Any = NotSet

    @dataclass(slots=True)
    class State:
        value: Any

    def initial(self) -> State:
        return self.State(fresh(self.seed))

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.value = value if state.value is NotSet else self.accumulator(state.value, value)

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.value is NotSet:
            raise SequenceContainsNoElementsError()
        out.append(state.value)


@overload
def reduce(accumulator: Callable[[A, A], A]) -> Callable[[Observable[A]], Observable[A]]: ...
@overload
def reduce(
    accumulator: Callable[[B, A], B], seed: B | type[NotSet] = NotSet
) -> Callable[[Observable[A]], Observable[B]]: ...
def reduce(accumulator: Callable[[Any, Any], Any], seed: Any = NotSet) -> Callable[[Observable[Any]], Observable[Any]]:
    """Fold the sequence and emit the result when it completes.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2, 3).reduce(lambda a, x: a + x, 10).run()
    16

    *State*: the accumulator. Without a seed an empty sequence fails with `SequenceContainsNoElementsError`.
    """
    return Reduce(accumulator, seed)


@dataclass(frozen=True, eq=False)
class First(Linear, name="first"):
    keeps_inner = True

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        out.append(value)
        return True

    def on_completed(self, state: None, out: list[Any]) -> None:
        raise SequenceContainsNoElementsError()


def first(predicate: Callable[[A], Any] | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Pass the first element (that satisfies *predicate*) and complete; fail if there is none.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2, 3).first(lambda x: x > 1).run()
    2

    *State*: none.
    """
    return First() if predicate is None else chain(filter(predicate), First())


@dataclass(frozen=True, eq=False)
class Last(Linear, name="last"):
    keeps_inner = True

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.value = value

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if values:
            state.value = values[-1]

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.value is NotSet:
            raise SequenceContainsNoElementsError()
        out.append(state.value)


def last(predicate: Callable[[A], Any] | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Emit the last element (that satisfies *predicate*) when the sequence completes; fail if there is none.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2, 3).last().run()
    3

    *State*: the last element.
    """
    return Last() if predicate is None else chain(filter(predicate), Last())


@dataclass(frozen=True, eq=False)
class Count(Linear, name="count"):
    @dataclass(slots=True)
    class State:
        count: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.count += 1

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        state.count += len(values)

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(state.count)


def count(predicate: Callable[[A], Any] | None = None) -> Callable[[Observable[A]], Observable[int]]:
    """Emit how many elements (that satisfy *predicate*) there were.

    >>> import reliable_rx as rx
    >>> rx.of("a", "b").count().run()
    2

    *State*: the count.
    """
    return Count() if predicate is None else chain(filter(predicate), Count())


def add(total: Any, value: Any) -> Any:
    return total + value


@overload
def sum(key_mapper: None = None) -> Callable[[Observable[A]], Observable[A]]: ...
@overload
def sum(key_mapper: Callable[[A], B]) -> Callable[[Observable[A]], Observable[B]]: ...
def sum(key_mapper: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit the sum of the elements (or of their keys); 0 if there were none.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2, 3).sum().run()
    6

    *State*: the sum.
    """
    return Reduce(add, 0) if key_mapper is None else chain(map(key_mapper), Reduce(add, 0))


@dataclass(frozen=True, eq=False)
class Average(Linear, name="average"):
    key_mapper: Callable[[Any], Any] = float

    @dataclass(slots=True)
    class State:
        total: Any = 0
        count: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.total += self.key_mapper(value)
        state.count += 1

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.count == 0:
            raise SequenceContainsNoElementsError()
        out.append(state.total / float(state.count))


def average(key_mapper: Callable[[A], Any] | None = None) -> Callable[[Observable[A]], Observable[float]]:
    """Emit the mean of the elements (or of their keys); fail if there were none.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).average().run()
    1.5

    *State*: the sum and the count.
    """
    return Average(key_mapper or float)


def compare(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


@dataclass(frozen=True, eq=False)
class Extreme(Linear, name="extreme"):
    sign: int
    comparer: Callable[[Any, Any], Any]

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if state.value is NotSet or self.comparer(value, state.value) * self.sign > 0:
            state.value = value

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.value is NotSet:
            raise SequenceContainsNoElementsError()
        out.append(state.value)


def min(comparer: Callable[[A, A], Any] | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Emit the smallest element; fail if there were none.

    >>> import reliable_rx as rx
    >>> rx.of(2, 1, 3).min().run()
    1

    Elements are compared with ``<`` and ``>``, so that text has an order too (RxPY subtracts them).

    *State*: the smallest so far, the first among equals (RxPY keeps all of them).
    """
    return Extreme(-1, comparer or compare)


def max(comparer: Callable[[A, A], Any] | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Emit the largest element; fail if there were none.

    >>> import reliable_rx as rx
    >>> rx.of("b", "a").max().run()
    'b'

    Elements are compared with ``<`` and ``>``, so that text has an order too (RxPY subtracts them).

    *State*: the largest so far, the first among equals (RxPY keeps all of them).
    """
    return Extreme(1, comparer or compare)


@dataclass(frozen=True, eq=False)
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


def to_list() -> Callable[[Observable[A]], Observable[list[A]]]:
    """Emit all elements as one list when the sequence completes.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).to_list().run()
    [1, 2]

    *State*: the list, bounded by `Limits.list_items_max`.
    """
    return ToList()


def chain(
    first: Callable[[Observable[A]], Observable[Any]], then: Callable[[Observable[Any]], Observable[B]]
) -> Callable[[Observable[A]], Observable[B]]:
    """Apply one operator after the other."""
    return lambda source: then(first(source))
