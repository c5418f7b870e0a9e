"""Operators with one input that look at one value after the other.

List forms stand only where they were measured to matter. They are plain loops: since Python 3.11 these call a Python
function as fast as ``map``, ``filter`` and ``accumulate`` do, which would take a `StopIteration` of a user function for
the end of the list and lose the rest. Comprehensions would lose what came before an error.

The types of operators are spelled out, without an alias: mypy makes a returned callable generic only where it reads
one.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal import ArgumentOutOfRangeException
from reactivex.internal.utils import NotSet

from reliable_rx.operator import Linear

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")
COPIED = (list, dict, set, bytearray, deque)


def fresh(seed: Any) -> Any:
    """Return a seed that one instance may change without another seeing it."""
    return copy.deepcopy(seed) if isinstance(seed, COPIED) else seed


@dataclass(frozen=True, eq=False)
class Filter(Linear, name="filter"):
    keeps_inner = True
    predicate: Callable[[Any], Any]

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        if self.predicate(value):
            out.append(value)

    def on_batch(self, state: None, values: Sequence[Any], out: list[Any]) -> None:
        predicate = self.predicate
        for value in values:
            if predicate(value):
                out.append(value)  # noqa: PERF401


def filter(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Observable[A]]:
    """Pass the elements that satisfy *predicate*.

    >>> import reliable_rx as rx
    >>> rx.range(5).filter(lambda x: x % 2).to_list().run()
    [1, 3]

    *State*: none.
    """
    return Filter(predicate)


@dataclass(frozen=True, eq=False)
class WhereKey(Linear, name="where_key"):
    keeps_inner = True
    key_mapper: Callable[[Any], Any]
    key: Any

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        if self.key_mapper(value) == self.key:
            out.append(value)


def where_key(key_mapper: Callable[[A], K], key: K) -> Callable[[Observable[A]], Observable[A]]:
    """Pass the elements whose key is *key*: a filter that a host can route by.

    >>> import reliable_rx as rx
    >>> rx.of("AA1", "UA2").where_key(lambda flight: flight[:2], "UA").run()
    'UA2'

    Directly behind a source, an event is handed to the queries that want its key and costs the others nothing.
    All queries that are to be routed together must use the same *key_mapper* function.

    *State*: none. Not in RxPY.
    """
    hash(key)
    return WhereKey(key_mapper, key)


@dataclass(frozen=True, eq=False)
class Scan(Linear, name="scan"):
    accumulator: Callable[[Any, Any], Any]
    seed: Any = NotSet

    @dataclass(slots=True)
    class State:
        value: Any

    def initial(self) -> State:
        return self.State(fresh(self.seed))

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        before = state.value
        state.value = after = value if before is NotSet else self.accumulator(before, value)
        out.append(after)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        accumulator, total = self.accumulator, state.value
        try:
            for value in values:
                total = value if total is NotSet else accumulator(total, value)
                out.append(total)
        finally:
            state.value = total


@overload
def scan(accumulator: Callable[[A, A], A]) -> Callable[[Observable[A]], Observable[A]]: ...
@overload
def scan(
    accumulator: Callable[[B, A], B], seed: B | type[NotSet] = NotSet
) -> Callable[[Observable[A]], Observable[B]]: ...
def scan(accumulator: Callable[[Any, Any], Any], seed: Any = NotSet) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit each intermediate result of folding the sequence.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2, 3).pipe(scan(lambda a, x: a + x, 10)).run()
    16

    *State*: the accumulator. A mutable seed is copied for each subscription.
    """
    return Scan(accumulator, seed)


@dataclass(frozen=True, eq=False)
class Take(Linear, name="take"):
    keeps_inner = True
    count: int

    @dataclass(slots=True)
    class State:
        remaining: int

    def initial(self) -> State:
        return self.State(self.count)

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        return self.on_batch(state, (value,), out)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> bool:
        passed = values[: state.remaining]
        out.extend(passed)
        state.remaining -= len(passed)
        return state.remaining == 0


def take(count: int) -> Callable[[Observable[A]], Observable[A]]:
    """Pass the first *count* elements, then complete.

    >>> import reliable_rx as rx
    >>> rx.range(9).take(2).to_list().run()
    [0, 1]

    *State*: how many remain. *Raises* `ArgumentOutOfRangeException` for a negative count.
    """
    if count < 0:
        raise ArgumentOutOfRangeException()
    if count == 0:
        from reliable_rx.creation import empty

        return lambda source: empty()
    return Take(count)


@dataclass(frozen=True, eq=False)
class Skip(Linear, name="skip"):
    keeps_inner = True
    count: int

    @dataclass(slots=True)
    class State:
        remaining: int

    def initial(self) -> State:
        return self.State(self.count)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        self.on_batch(state, (value,), out)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        out.extend(values[state.remaining :])
        state.remaining = max(0, state.remaining - len(values))


def skip(count: int) -> Callable[[Observable[A]], Observable[A]]:
    """Drop the first *count* elements.

    >>> import reliable_rx as rx
    >>> rx.range(4).skip(2).to_list().run()
    [2, 3]

    *State*: how many remain to be dropped. *Raises* `ArgumentOutOfRangeException` for a negative count.
    """
    if count < 0:
        raise ArgumentOutOfRangeException()
    return Skip(count)


@dataclass(frozen=True, eq=False)
class TakeWhile(Linear, name="take_while"):
    keeps_inner = True
    predicate: Callable[[Any], Any]
    inclusive: bool = False

    def on_next(self, state: None, value: Any, out: list[Any]) -> bool:
        passes = self.predicate(value)
        if passes or self.inclusive:
            out.append(value)
        return not passes


def take_while(predicate: Callable[[A], Any], inclusive: bool = False) -> Callable[[Observable[A]], Observable[A]]:
    """Pass elements until one fails *predicate*, then complete; *inclusive* passes that one too.

    >>> import reliable_rx as rx
    >>> rx.of(1, 5, 2).take_while(lambda x: x < 3).to_list().run()
    [1]

    *State*: none.
    """
    return TakeWhile(predicate, inclusive)


@dataclass(frozen=True, eq=False)
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


def skip_while(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Observable[A]]:
    """Drop elements for as long as *predicate* holds.

    >>> import reliable_rx as rx
    >>> rx.of(1, 5, 2).skip_while(lambda x: x < 3).to_list().run()
    [5, 2]

    *State*: whether it has failed yet.
    """
    return SkipWhile(predicate)


@dataclass(frozen=True, eq=False)
class Pairwise(Linear, name="pairwise"):
    @dataclass(slots=True)
    class State:
        before: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        before, state.before = state.before, value
        if before is not NotSet:
            out.append((before, value))


def pairwise() -> Callable[[Observable[A]], Observable[tuple[A, A]]]:
    """Emit each element with the one before it.

    >>> import reliable_rx as rx
    >>> rx.range(3).pairwise().to_list().run()
    [(0, 1), (1, 2)]

    *State*: the last element.
    """
    return Pairwise()


@dataclass(frozen=True, eq=False)
class DefaultIfEmpty(Linear, name="default_if_empty"):
    default_value: Any = None

    @dataclass(slots=True)
    class State:
        found: bool = False

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.found = True
        out.append(value)

    def on_completed(self, state: State, out: list[Any]) -> None:
        if not state.found:
            out.append(self.default_value)


@overload
def default_if_empty(default_value: None = None) -> Callable[[Observable[A]], Observable[A | None]]: ...
@overload
def default_if_empty(default_value: A) -> Callable[[Observable[A]], Observable[A]]: ...
def default_if_empty(default_value: Any = None) -> Callable[[Observable[Any]], Observable[Any]]:
    """Emit *default_value* if the sequence completes without an element.

    >>> import reliable_rx as rx
    >>> rx.empty().default_if_empty(0).run()
    0

    *State*: whether there was one.
    """
    return DefaultIfEmpty(default_value)
