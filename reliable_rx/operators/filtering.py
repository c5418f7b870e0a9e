"""Operators with one input that look at one value after the other: filters, folds, pairs.

List forms stand only where they were measured to matter. They are plain loops: since Python 3.11 these call a Python
function as fast as ``map``, ``filter`` and ``accumulate`` do, which would take a `StopIteration` of a user function for
the end of the list and lose the rest. Comprehensions would lose what came before an error.

The types of operators are spelled out, without an alias: mypy makes a returned callable generic only where it reads
one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.arguments import check_key
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen, plain
from reliable_rx.query.query import Query
from reliable_rx.runtime.shared_state import is_constant

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
C = TypeVar("C")
K = TypeVar("K")


def fresh(seed: Any) -> Any:
    """Return a seed that one instance may change without another seeing it."""
    if seed is NotSet or type(seed) is object or is_constant(seed):  # a bare object is compared with its name
        return seed
    try:
        return copy.deepcopy(seed)
    except Exception:  # what cannot be copied is shared, as RxPY does
        return seed


def takes_total(state: Any, seed: Any) -> bool:
    """Whether a total that is kept goes on under another *seed*, which is where one without elements begins."""
    if state.value is NotSet:
        state.value = fresh(seed)
    if seed is NotSet or seed is None or isinstance(state.value, type(seed)):
        return True
    return all(isinstance(plain(each), (int, float)) for each in (seed, state.value))


@frozen
class Filter(Linear, name="filter"):
    filters = "predicate"
    keeps_inner = True
    predicate: Callable[[Any], Any]

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        predicate = self.predicate
        if predicate(value):
            out.append(value)

    def on_batch(self, state: None, values: Sequence[Any], out: list[Any]) -> None:
        predicate = self.predicate
        for value in values:
            if predicate(value):
                out.append(value)  # noqa: PERF401


def filter(predicate: Callable[[A], Any]) -> Callable[[Observable[A]], Query[A]]:
    """Pass the elements that satisfy *predicate*.

    >>> from reliable_rx.testing import diagram
    >>> diagram(filter(lambda x: x % 2), "-1-2-3-|")
    -1-2-3-|
    -1---3-|

    *State*: none.
    """
    return Filter(predicate)


@frozen
class FilterIndexed(Linear, name="filter_indexed"):
    keeps_inner = True
    predicate_indexed: Callable[[Any, int], Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        predicate = self.predicate_indexed
        passes = predicate(value, state.index)
        state.index += 1
        if passes:
            out.append(value)


@overload
def filter_indexed(predicate_indexed: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def filter_indexed(predicate_indexed: Callable[[A, int], Any]) -> Callable[[Observable[A]], Query[A]]: ...
def filter_indexed(
    predicate_indexed: Callable[[Any, int], Any] | None = None,
) -> Callable[[Observable[Any]], Query[Any]]:
    """Pass the elements that satisfy *predicate_indexed*, which is given their index too; all without a predicate.

    >>> from reliable_rx.testing import diagram
    >>> diagram(filter_indexed(lambda x, i: i % 2 == 0), "-1-2-3-|")
    -1-2-3-|
    -1---3-|

    *State*: the index.
    """
    return FilterIndexed(predicate_indexed or (lambda value, index: True))


@frozen
class IgnoreElements(Linear, name="ignore_elements"):
    def on_next(self, state: None, value: Any, out: list[Any]) -> None: ...

    def on_batch(self, state: None, values: Sequence[Any], out: list[Any]) -> None: ...


def ignore_elements() -> Callable[[Observable[A]], Query[A]]:
    """Pass nothing but how the sequence ends.

    >>> from reliable_rx.testing import diagram
    >>> diagram(ignore_elements(), "-1-2-|")
    -1-2-|
    -----|

    *State*: none.
    """
    return IgnoreElements()


@frozen
class WhereKey(Linear, name="where_key"):
    keeps_inner = True
    compares: ClassVar = {"key": "value"}
    key_mapper: Callable[[Any], Any]
    key: Any

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        key_mapper = self.key_mapper
        if key_mapper(value) == self.key:
            out.append(value)


def where_key(key_mapper: Callable[[A], K], key: K) -> Callable[[Observable[A]], Query[A]]:
    """Pass the elements whose key is *key*: a filter that a host can route by.

    >>> from reliable_rx.testing import diagram
    >>> diagram(where_key(lambda x: x % 3, 1), "-1-2-3-4-|")
    -1-2-3-4-|
    -1-----4-|

    Directly behind a source, an event is handed to the queries that want its key and costs the others nothing.
    All queries that are to be routed together must use the same *key_mapper* function.

    *State*: none. Not in RxPY.
    """
    check_key("the key of where_key", key)
    return WhereKey(key_mapper, key)


@frozen
class Scan(Linear, name="scan"):
    hands_out = True
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
        before = state.value
        if before is not NotSet:
            accumulator = self.accumulator
            value = accumulator(before, value)
        state.value = value
        out.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        accumulator, total = self.accumulator, state.value
        try:
            for value in values:
                total = value if total is NotSet else accumulator(total, value)
                out.append(total)
        finally:
            state.value = total


@overload
def scan(accumulator: Callable[[A, A], A], seed: type[NotSet] = NotSet) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def scan(accumulator: Callable[[B | None, A], B], seed: None) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def scan(accumulator: Callable[[B, A], B], seed: B) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def scan(accumulator: Callable[[B | C, A], B], seed: C) -> Callable[[Observable[A]], Query[B]]: ...
def scan(accumulator: Callable[[Any, Any], Any], seed: Any = NotSet) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit each intermediate result of folding the sequence.

    >>> from reliable_rx.testing import diagram
    >>> diagram(scan(lambda total, x: total + x, 10), "-1-2-3-|")
    -1--2--3--|
    -11-13-16-|

    *State*: the accumulator. A mutable seed is copied for each subscription (RxPY shares it).
    """
    return Scan(accumulator, seed)


@frozen
class Pairwise(Linear, name="pairwise"):
    keeps_pace = True

    @dataclass(slots=True)
    class State:
        before: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        before, state.before = state.before, value
        if before is not NotSet:
            out.append((before, value))


def pairwise() -> Callable[[Observable[A]], Query[tuple[A, A]]]:
    """Emit each element with the one before it.

    >>> from reliable_rx.testing import diagram
    >>> diagram(pairwise(), "-1-2-3-|")
    -1-2------3------|
    ---(1, 2)-(2, 3)-|

    *State*: the last element.
    """
    return Pairwise()


@frozen
class DefaultIfEmpty(Linear, name="default_if_empty"):
    keeps_pace = True
    free = ("default_value",)
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
def default_if_empty(default_value: None = None) -> Callable[[Observable[A]], Query[A | None]]: ...
@overload
def default_if_empty(default_value: A) -> Callable[[Observable[A]], Query[A]]: ...
def default_if_empty(default_value: Any = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit *default_value* if the sequence completes without an element.

    >>> from reliable_rx.testing import diagram
    >>> diagram(default_if_empty(0), "--|")
    --|
    --(0 |)

    *State*: whether there was one.
    """
    return DefaultIfEmpty(default_value)
