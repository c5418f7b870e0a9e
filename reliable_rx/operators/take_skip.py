"""Operators that count or judge from the front of a sequence: where it begins, where it stops.

An index belongs to one subscription. RxPY's `skip_while_indexed` keeps one per operator, so that a second subscriber
starts where the first one was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.arguments import check_count
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


@frozen
class Take(Linear, name="take"):
    keeps_inner = is_bound = True
    count: int

    @dataclass(slots=True)
    class State:
        remaining: int

    def initial(self) -> State:
        return self.State(self.count)

    def adopt(self, state: State, before: Before) -> bool:
        state.remaining = max(0, state.remaining + self.count - before.settings["count"])
        return True

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        remaining = state.remaining = state.remaining - 1
        if remaining >= 0:  # else it had enough when it was edited
            out.append(value)
        return remaining <= 0

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> bool:
        passed = values[: state.remaining]
        out.extend(passed)
        state.remaining -= len(passed)
        return state.remaining == 0


def take(count: int) -> Callable[[Observable[A]], Query[A]]:
    """Pass the first *count* elements, then complete.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take(2), "-1-2-3-|")
    -1-2-----3-|
    -1-(2 |)

    *State*: how many remain.
    *Raises* `ArgumentOutOfRangeException` for a negative count.
    """
    check_count("count", count, 0)
    if count == 0:
        from reliable_rx.creation import empty

        return lambda source: empty()
    return Take(count)


@frozen
class Skip(Linear, name="skip"):
    keeps_pace = True
    keeps_inner = True
    count: int

    @dataclass(slots=True)
    class State:
        remaining: int

    def initial(self) -> State:
        return self.State(self.count)

    def adopt(self, state: State, before: Before) -> bool:
        if state.remaining:  # else it lets pass already
            state.remaining = max(0, state.remaining + self.count - before.settings["count"])
        return True

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if state.remaining:
            state.remaining -= 1
        else:
            out.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        out.extend(values[state.remaining :])
        state.remaining = max(0, state.remaining - len(values))


def skip(count: int) -> Callable[[Observable[A]], Query[A]]:
    """Drop the first *count* elements.

    >>> from reliable_rx.testing import diagram
    >>> diagram(skip(2), "-1-2-3-4-|")
    -1-2-3-4-|
    -----3-4-|

    *State*: how many remain to be dropped.
    *Raises* `ArgumentOutOfRangeException` for a negative count.
    """
    check_count("count", count, 0)
    return Skip(count)


@frozen
class TakeWhile(Linear, name="take_while"):
    keeps_inner = True
    predicate: Callable[[Any], Any]
    free = ("inclusive",)
    inclusive: bool = False

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        passes = self.predicate(value)
        if passes or self.inclusive:
            out.append(value)
        return not passes


def take_while(predicate: Callable[[A], Any], inclusive: bool = False) -> Callable[[Observable[A]], Query[A]]:
    """Pass elements until one fails *predicate*, then complete; *inclusive* passes that one too.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take_while(lambda x: x < 3), "-1-5-2-|")
    -1-5-2-|
    -1-|
    >>> diagram(take_while(lambda x: x < 3, inclusive=True), "-1-5-2-|")
    -1-5-----2-|
    -1-(5 |)

    *State*: none.
    """
    return TakeWhile(predicate, inclusive)


@frozen
class TakeWhileIndexed(Linear, name="take_while_indexed"):
    keeps_inner = True
    predicate: Callable[[Any, int], Any]
    free = ("inclusive",)
    inclusive: bool = False

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        passes = self.predicate(value, state.index)
        state.index += 1
        if passes or self.inclusive:
            out.append(value)
        return not passes


def take_while_indexed(
    predicate: Callable[[A, int], Any], inclusive: bool = False
) -> Callable[[Observable[A]], Query[A]]:
    """Pass elements until one fails *predicate*, which is also given its index; *inclusive* passes that one too.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take_while_indexed(lambda x, i: x > i), "-1-5-2-|")
    -1-5-2-|
    -1-5-|

    *State*: the index.
    """
    return TakeWhileIndexed(predicate, inclusive)


@frozen
class SkipWhile(Linear, name="skip_while"):
    keeps_inner = True
    predicate: Callable[[Any], Any]

    @dataclass(slots=True)
    class State:
        running: bool = False

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if not state.running:
            state.running = not self.predicate(value)
        if state.running:
            out.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if state.running:
            out.extend(values)
        else:
            super().on_batch(state, values, out)


def skip_while(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[A]]:
    """Drop elements for as long as *predicate* holds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(skip_while(lambda x: x < 3), "-1-5-2-|")
    -1-5-2-|
    ---5-2-|

    *State*: whether it has failed yet.
    """
    return SkipWhile(predicate)


@frozen
class SkipWhileIndexed(Linear, name="skip_while_indexed"):
    keeps_inner = True
    predicate: Callable[[Any, int], Any]

    @dataclass(slots=True)
    class State:
        running: bool = False
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if not state.running:
            state.running = not self.predicate(value, state.index)
            state.index += 1
        if state.running:
            out.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if state.running:
            out.extend(values)
        else:
            super().on_batch(state, values, out)


def skip_while_indexed(predicate: Callable[[A, int], Any]) -> Callable[[Observable[A]], Query[A]]:
    """Drop elements for as long as *predicate*, which is also given the index, holds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(skip_while_indexed(lambda x, i: x > i), "-3-3-1-9-|")
    -3-3-1-9-|
    -----1-9-|

    *State*: the index, and whether the predicate has failed yet.
    """
    return SkipWhileIndexed(predicate)
