"""Operators that pick one element and end the sequence with it: by its place, by a predicate, or because it is first.

Those with a default never fail for want of an element; those without do. A predicate is part of the operator: RxPY puts
a filter before it, which does the same in two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal import ArgumentOutOfRangeException, SequenceContainsNoElementsError

from reliable_rx.operators.contract.arguments import check_count
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, apply

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")


@frozen
class ElementAt(Linear, name="element_at"):
    keeps_inner = is_bound = picks = True
    index: int

    @dataclass(slots=True)
    class State:
        remaining: int

    def initial(self) -> State:
        return self.State(self.index)

    def adopt(self, state: State, before: Before) -> bool:
        state.remaining += self.index - before.settings["index"]
        return state.remaining >= 0  # else the element asked for has gone by

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        if state.remaining:
            state.remaining -= 1
            return False
        out.append(value)
        return True

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> bool:
        if state.remaining >= len(values):
            state.remaining -= len(values)
            return False
        out.append(values[state.remaining])
        state.remaining = 0
        return True

    def on_completed(self, state: State, out: list[Any]) -> None:
        raise ArgumentOutOfRangeException()


def element_at(index: int) -> Callable[[Observable[A]], Query[A]]:
    """Pass the element at *index* and complete; fail with `ArgumentOutOfRangeException` if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(element_at(1), "-1-2-3-|")
    -1-2-----3-|
    ---(2 |)

    *State*: how many elements come before it.
    *Raises* `ArgumentOutOfRangeException` for a negative index.
    """
    check_count("index", index, 0)
    return ElementAt(index)


@frozen
class ElementAtOrDefault(ElementAt, name="element_at_or_default"):
    adds_others = True
    free = ("default_value",)
    default_value: Any = None

    def on_completed(self, state: ElementAt.State, out: list[Any]) -> None:
        out.append(self.default_value)


@overload
def element_at_or_default(index: int, default_value: None = None) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def element_at_or_default(index: int, default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
def element_at_or_default(index: int, default_value: Any = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Pass the element at *index* and complete; emit *default_value* if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(element_at_or_default(5, 0), "-1-2-|")
    -1-2-|
    -----(0 |)

    *State*: how many elements come before it.
    *Raises* `ArgumentOutOfRangeException` for a negative index.
    """
    check_count("index", index, 0)
    return ElementAtOrDefault(index, default_value)


@frozen
class Find(Linear, name="find"):
    keeps_inner = picks = True
    adds_others = True
    predicate: Callable[[Any, int, Observable[Any]], Any]
    _source: Observable[Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        if self.predicate(value, state.index, self._source):
            out.append(value)
            return True
        state.index += 1
        return False

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.append(None)


def find(predicate: Callable[[A, int, Observable[A]], Any]) -> Callable[[Observable[A]], Query[A | None]]:
    """Pass the first element that satisfies *predicate* and complete; emit None if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(find(lambda x, i, source: x == i), "-3-1-2-|")
    -3-1-----2-|
    ---(1 |)

    The predicate is given the element, its index and the sequence itself: hosted, the query before this operator as it
    was written, which is data.

    *State*: the index.
    """
    return lambda source: apply(Find(predicate, source), source)


@frozen
class FindIndex(Find, name="find_index"):
    keeps_inner = False

    def on_next(self, state: Find.State, value: Any, out: list[Any]) -> bool:
        if self.predicate(value, state.index, self._source):
            out.append(state.index)
            return True
        state.index += 1
        return False

    def on_completed(self, state: Find.State, out: list[Any]) -> None:
        out.append(-1)


def find_index(predicate: Callable[[A, int, Observable[A]], Any]) -> Callable[[Observable[A]], Query[int]]:
    """Emit the index of the first element that satisfies *predicate* and complete; emit -1 if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(find_index(lambda x, i, source: x == 2), "-3-2-1-|")
    -3-2-----1-|
    ---(1 |)

    The predicate is given what that of `find` is.

    *State*: the index.
    """
    return lambda source: apply(FindIndex(predicate, source), source)


@frozen
class First(Linear, name="first"):
    keeps_inner = picks = True
    predicate: Callable[[Any], Any] | None = None

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        if self.predicate is not None and not self.predicate(value):
            return False
        out.append(value)
        return True

    def on_completed(self, state: None, out: list[Any]) -> None:
        raise SequenceContainsNoElementsError()


@overload
def first(predicate: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def first(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
def first(predicate: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Pass the first element (that satisfies *predicate*) and complete; fail if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(first(lambda x: x > 1), "-1-2-3-|")
    -1-2-----3-|
    ---(2 |)

    *State*: none. Without an element it fails with `SequenceContainsNoElementsError`.
    """
    return First(predicate)


@frozen
class FirstOrDefault(First, name="first_or_default"):
    adds_others = True
    free = ("default_value",)
    default_value: Any = None

    def on_completed(self, state: None, out: list[Any]) -> None:
        out.append(self.default_value)


@overload
def first_or_default(
    predicate: None = None, default_value: None = None
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def first_or_default(predicate: None, default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
@overload
def first_or_default(predicate: None = None, *, default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
@overload
def first_or_default(
    predicate: Callable[[A], Any], default_value: None = None
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def first_or_default(predicate: Callable[[A], Any], default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
def first_or_default(
    predicate: Callable[[Any], Any] | None = None, default_value: Any = None
) -> Callable[[Observable[Any]], Query[Any]]:
    """Pass the first element (that satisfies *predicate*) and complete; emit *default_value* if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(first_or_default(lambda x: x > 5, 0), "-1-2-|")
    -1-2-|
    -----(0 |)

    *State*: none.
    """
    return FirstOrDefault(predicate, default_value)
