"""Operators that pick one element which only the end of the sequence can settle: the last one, or the only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal import SequenceContainsNoElementsError
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)
B = TypeVar("B")


@frozen
class Last(Linear, name="last"):
    keeps_inner = True
    predicate: Callable[[Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        value: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if self.predicate is None or self.predicate(value):
            state.value = value

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if self.predicate is not None:
            super().on_batch(state, values, out)
        elif values:
            state.value = values[-1]

    def on_completed(self, state: State, out: list[Any]) -> None:
        if state.value is NotSet:
            raise SequenceContainsNoElementsError()
        out.append(state.value)


@overload
def last(predicate: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def last(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
def last(predicate: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the last element (that satisfies *predicate*) when the sequence completes; fail if there is none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(last(lambda x: x < 3), "-1-2-3-|")
    -1-2-3-|
    -------(2 |)

    *State*: the last element. Without one it fails with `SequenceContainsNoElementsError`.
    """
    return Last(predicate)


@frozen
class LastOrDefault(Last, name="last_or_default"):
    adds_others = True
    free = ("default_value",)
    default_value: Any = None

    def on_completed(self, state: Last.State, out: list[Any]) -> None:
        out.append(self.default_value if state.value is NotSet else state.value)


@overload
def last_or_default(
    default_value: None = None, predicate: None = None
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def last_or_default(default_value: B, predicate: None = None) -> Callable[[Observable[A]], Query[A | B]]: ...
@overload
def last_or_default(
    default_value: None, predicate: Callable[[A], Any]
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def last_or_default(
    default_value: None = None, *, predicate: Callable[[A], Any]
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def last_or_default(default_value: B, predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[A | B]]: ...
def last_or_default(
    default_value: Any = None, predicate: Callable[[Any], Any] | None = None
) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the last element (that satisfies *predicate*) when the sequence completes, or *default_value*.

    >>> from reliable_rx.testing import diagram
    >>> diagram(last_or_default(0, lambda x: x > 5), "-1-2-|")
    -1-2-|
    -----(0 |)

    *State*: the last element.
    """
    return LastOrDefault(predicate, default_value)


@frozen
class Single(Last, name="single"):
    raises = True

    def on_next(self, state: Last.State, value: Any, out: list[Any]) -> None:
        if self.predicate is not None and not self.predicate(value):
            return
        if state.value is not NotSet:
            raise Exception("Sequence contains more than one element")
        state.value = value

    def on_batch(self, state: Last.State, values: Sequence[Any], out: list[Any]) -> None:
        for value in values:
            self.on_next(state, value, out)


@overload
def single(predicate: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def single(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
def single(predicate: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the only element (that satisfies *predicate*) when the sequence completes; fail if there are more or none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(single(lambda x: x > 2), "-1-3-2-|")
    -1-3-2-|
    -------(3 |)
    >>> diagram(single(), "-1-3-2-|")
    -1-3-2-|
    ---#

    *State*: the element. Without one it fails with `SequenceContainsNoElementsError`; a second one fails it at once.
    """
    return Single(predicate)


@frozen
class SingleOrDefault(Single, name="single_or_default"):
    adds_others = True
    free = ("default_value",)
    default_value: Any = None

    on_completed = LastOrDefault.on_completed


@overload
def single_or_default(
    predicate: None = None, default_value: None = None
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def single_or_default(predicate: None, default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
@overload
def single_or_default(predicate: None = None, *, default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
@overload
def single_or_default(
    predicate: Callable[[A], Any], default_value: None = None
) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def single_or_default(predicate: Callable[[A], Any], default_value: B) -> Callable[[Observable[A]], Query[A | B]]: ...
def single_or_default(
    predicate: Callable[[Any], Any] | None = None, default_value: Any = None
) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit the only element (that satisfies *predicate*) when the sequence completes, or *default_value* if none.

    >>> from reliable_rx.testing import diagram
    >>> diagram(single_or_default(lambda x: x > 5, 0), "-1-2-|")
    -1-2-|
    -----(0 |)

    *State*: the element. A second one fails it at once.
    """
    return SingleOrDefault(predicate, default_value)


def single_or_default_async(
    has_default: bool = False, default_value: Any = None
) -> Callable[[Observable[A]], Query[A]]:
    """Emit the only element when the sequence completes: `single`, or with *has_default* `single_or_default`.

    >>> from reliable_rx.testing import diagram
    >>> diagram(single_or_default_async(True, 0), "--|")
    --|
    --(0 |)

    *State*: the element. A second one fails it at once.
    """
    return SingleOrDefault(None, default_value) if has_default else Single()
