"""Operators that answer yes or no, and end the sequence as soon as they know.

RxPY composes them of filter, some and map; here each is one step, because a question is asked of every element.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from reactivex import Observable

from reliable_rx.operators.contract.operator import Context, Linear, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import Query, apply, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


@frozen
class All(Linear, name="all"):
    predicate: Callable[[Any], Any]

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        if self.predicate(value):
            return False
        out.append(False)
        return True

    def on_completed(self, state: None, out: list[Any]) -> None:
        out.append(True)


def all(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[bool]]:
    """Emit whether all elements satisfy *predicate*.

    >>> from reliable_rx.testing import diagram
    >>> diagram(all(lambda x: x < 3), "-1-2-5-|")
    -1-2-5---------|
    -----(False |)
    >>> diagram(all(lambda x: x < 3), "-1-2-|")
    -1-2-|
    -----(True |)

    *State*: none.
    """
    return All(predicate)


@frozen
class Some(Linear, name="some"):
    predicate: Callable[[Any], Any] | None = None

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        if self.predicate is not None and not self.predicate(value):
            return False
        out.append(True)
        return True

    def on_completed(self, state: None, out: list[Any]) -> None:
        out.append(False)


@overload
def some(predicate: None = None) -> Callable[[Observable[Any]], Query[bool]]: ...
@overload
def some(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[bool]]: ...
def some(predicate: Callable[[Any], Any] | None = None) -> Callable[[Observable[Any]], Query[bool]]:
    """Emit whether there is an element (that satisfies *predicate*).

    >>> from reliable_rx.testing import diagram
    >>> diagram(some(lambda x: x > 3), "-1-5-2-|")
    -1-5--------2-|
    ---(True |)

    *State*: none.
    """
    return Some(predicate)


@frozen
class Contains(Linear, name="contains"):
    raises = True
    compares: ClassVar = {"value": "value"}
    value: Any
    comparer: Callable[[Any, Any], Any] = eq

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        if not self.comparer(value, self.value):
            return False
        out.append(True)
        return True

    def on_completed(self, state: None, out: list[Any]) -> None:
        out.append(False)


def contains(value: A, comparer: Callable[[A, A], Any] | None = None) -> Callable[[Observable[A]], Query[bool]]:
    """Emit whether an element is equal to *value*, by ``==`` or by *comparer*.

    >>> from reliable_rx.testing import diagram
    >>> diagram(contains(2), "-1-2-3-|")
    -1-2--------3-|
    ---(True |)

    *State*: none.
    """
    return Contains(value, comparer or eq)


@frozen
class IsEmpty(Linear, name="is_empty"):
    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        out.append(False)
        return True

    def on_completed(self, state: None, out: list[Any]) -> None:
        out.append(True)


def is_empty() -> Callable[[Observable[Any]], Query[bool]]:
    """Emit whether the sequence completes without an element.

    >>> from reliable_rx.testing import diagram
    >>> diagram(is_empty(), "---|")
    ---|
    ---(True |)

    *State*: none.
    """
    return IsEmpty()


@frozen
class SequenceEqual(Stage, name="sequence_equal"):
    ends_with_any = True
    locks = False
    by_position = raises = True
    compares: ClassVar = {"waiting": "items"}
    comparer: Callable[[Any, Any], Any] = eq

    @dataclass(slots=True)
    class State:
        ahead: int = 0
        waiting: deque[Any] = field(default_factory=deque)
        ended: list[bool] = field(default_factory=lambda: [False, False])

    def adopt(self, state: State, before: Before) -> bool:
        if before.ports != (1, 0):
            return before.reads_the_same
        state.ahead, state.ended = 1 - state.ahead, state.ended[::-1]
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.ended = [not cx.runs(0), not cx.runs(1)]

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        waiting = state.waiting
        if waiting and state.ahead != port:
            other = waiting.popleft()  # a pair that cannot be compared is left out as a pair: the next ones meet
            if not (self.comparer(other, value) if port else self.comparer(value, other)):
                answer(cx, False)
        elif state.ended[1 - port]:
            answer(cx, False)
        else:
            state.ahead = port
            waiting.append(value)
            check_queue(waiting, cx)

    def on_completed(self, cx: Context, port: int) -> None:
        state = cx.state
        state.ended[port] = True
        if state.waiting:
            if state.ahead != port:
                answer(cx, False)
        elif state.ended[1 - port]:
            answer(cx, True)


def answer(cx: Context, value: bool) -> None:
    """Emit the one element and complete."""
    cx.emit(value)
    cx.complete()


def sequence_equal(
    second: Observable[A] | Iterable[A], comparer: Callable[[A, A], Any] | None = None
) -> Callable[[Observable[A]], Query[bool]]:
    """Emit whether both sequences have equal elements, by ``==`` or by *comparer*, in the same order.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(sequence_equal(ys)), "-1-2-|", "--1---2-|")
    -1-2-|
    --1---2-|
    --------(True |)
    >>> diagram(sequence_equal([1, 3]), "-1-2-|")
    -1-2---------|
    ---(False |)

    *State*: the elements of the sequence that is ahead, bounded by `Limits.queue_items_max`.
    """
    return lambda source: apply(SequenceEqual(comparer or eq), source, as_query(second))
