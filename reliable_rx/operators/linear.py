"""Operators with one input that look at one value after the other.

List forms stand only where they were measured to matter. They are plain loops: since Python 3.11 these call a Python
function as fast as ``map``, ``filter`` and ``accumulate`` do, which would take a `StopIteration` of a user function for
the end of the list and lose the rest. Comprehensions would lose what came before an error.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from reactivex import Observable
from reactivex.internal import ArgumentOutOfRangeException
from reactivex.internal.utils import NotSet

from reliable_rx.operator import Linear

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")
Op = Callable[[Observable[A]], Observable[B]]
COPIED = (list, dict, set, bytearray, deque)


def identity(value: Any) -> Any:
    return value


def fresh(seed: Any) -> Any:
    """Return a seed that one instance may change without another seeing it."""
    return copy.deepcopy(seed) if isinstance(seed, COPIED) else seed


@dataclass(frozen=True, eq=False)
class Map(Linear, name="map"):
    mapper: Callable[[Any], Any]

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        out.append(self.mapper(value))

    def on_batch(self, state: None, values: Sequence[Any], out: list[Any]) -> None:
        mapper = self.mapper
        for value in values:
            out.append(mapper(value))  # noqa: PERF401


def map(mapper: Callable[[A], B] | None = None) -> Op[A, B]:
    """Project each element.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).pipe(map(lambda x: x + 1)).run()
    3

    *State*: none.
    """
    return Map(mapper or identity)


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


def filter(predicate: Callable[[A], Any]) -> Op[A, A]:
    """Pass the elements that satisfy *predicate*.

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


def where_key(key_mapper: Callable[[A], K], key: K) -> Op[A, A]:
    """Pass the elements whose key is *key*: a filter that a host can route by.

    Directly behind a source, an event is handed to the queries that want its key and costs the others nothing.
    All queries that are to be routed together must use the same *key_mapper* function.

    *State*: none. Not in RxPY.
    """
    hash(key)
    return WhereKey(key_mapper, key)


@dataclass(frozen=True, eq=False)
class MapIndexed(Linear, name="map_indexed"):
    mapper_indexed: Callable[[Any, int], Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        out.append(self.mapper_indexed(value, state.index))
        state.index += 1


def map_indexed(mapper_indexed: Callable[[A, int], B] | None = None) -> Op[A, B]:
    """Project each element together with its index.

    *State*: the index, one per subscription (RxPY shares it between subscriptions).
    """
    return MapIndexed(mapper_indexed or (lambda value, _: value))


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


def scan(accumulator: Callable[[Any, A], Any], seed: Any = NotSet) -> Op[A, Any]:
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


def take(count: int) -> Op[A, A]:
    """Pass the first *count* elements, then complete.

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


def skip(count: int) -> Op[A, A]:
    """Drop the first *count* elements.

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


def take_while(predicate: Callable[[A], Any], inclusive: bool = False) -> Op[A, A]:
    """Pass elements until one fails *predicate*, then complete; *inclusive* passes that one too.

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


def skip_while(predicate: Callable[[A], Any]) -> Op[A, A]:
    """Drop elements for as long as *predicate* holds.

    *State*: whether it has failed yet.
    """
    return SkipWhile(predicate)


@dataclass(frozen=True, eq=False)
class Distinct(Linear, name="distinct"):
    keeps_inner = True
    grows: ClassVar = {"seen": "distinct_keys_max", "compared": "distinct_keys_max"}
    key_mapper: Callable[[Any], Any] = identity
    comparer: Callable[[Any, Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        seen: dict[Any, None] = field(default_factory=dict)
        compared: list[Any] = field(default_factory=list)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        key = self.key_mapper(value)
        if self._is_new(state, key):
            out.append(value)

    def _is_new(self, state: State, key: Any) -> bool:
        if self.comparer is None:
            try:
                if key in state.seen:
                    return False
            except TypeError:  # unhashable: compared one by one, as RxPY does with every key
                pass
            else:
                state.seen[key] = None
                return True
        same = self.comparer or equal
        for each in state.compared:
            if same(each, key):
                return False
        state.compared.append(key)
        return True


def equal(a: Any, b: Any) -> bool:
    return bool(a == b)


def distinct(key_mapper: Callable[[A], K] | None = None, comparer: Callable[[K, K], Any] | None = None) -> Op[A, A]:
    """Pass an element only if its key was never seen before.

    *State*: all keys seen, by hash (by comparison when they are unhashable or a *comparer* is given); bounded by
    `Limits.distinct_keys_max`.
    """
    return Distinct(key_mapper or identity, comparer)


@dataclass(frozen=True, eq=False)
class DistinctUntilChanged(Linear, name="distinct_until_changed"):
    keeps_inner = True
    key_mapper: Callable[[Any], Any] = identity
    comparer: Callable[[Any, Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        key: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        key = self.key_mapper(value)
        before = state.key
        if before is NotSet or not (before == key if self.comparer is None else self.comparer(before, key)):
            state.key = key
            out.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if self.comparer is not None:
            super().on_batch(state, values, out)
            return
        key_mapper, before = self.key_mapper, state.key
        try:
            for value in values:
                key = key_mapper(value)
                if before is NotSet or not before == key:  # noqa: SIM201 (types may define == only)
                    before = key
                    out.append(value)
        finally:
            state.key = before


def distinct_until_changed(
    key_mapper: Callable[[A], K] | None = None, comparer: Callable[[K, K], Any] | None = None
) -> Op[A, A]:
    """Pass an element only if its key differs from the one before it.

    *State*: the last key.
    """
    return DistinctUntilChanged(key_mapper or identity, comparer)


@dataclass(frozen=True, eq=False)
class Pairwise(Linear, name="pairwise"):
    @dataclass(slots=True)
    class State:
        before: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        before, state.before = state.before, value
        if before is not NotSet:
            out.append((before, value))


def pairwise() -> Op[A, tuple[A, A]]:
    """Emit each element with the one before it.

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


def default_if_empty(default_value: Any = None) -> Op[A, Any]:
    """Emit *default_value* if the sequence completes without an element.

    *State*: whether there was one.
    """
    return DefaultIfEmpty(default_value)


@dataclass(frozen=True, eq=False)
class BufferWithCount(Linear, name="buffer_with_count"):
    grows: ClassVar = {"open": "windows_max"}
    count: int
    skip: int

    @dataclass(slots=True)
    class State:
        index: int = 0
        open: list[list[Any]] = field(default_factory=list)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if state.index % self.skip == 0:
            state.open.append([])
        for buffer in state.open:
            buffer.append(value)
        state.index += 1
        if state.open and len(state.open[0]) == self.count:
            out.append(state.open.pop(0))

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.extend(state.open)
        state.open = []


def buffer_with_count(count: int, skip: int | None = None) -> Op[A, list[A]]:
    """Collect *count* elements into a list, a new list beginning every *skip* elements.

    *State*: the open lists, at most ``ceil(count / skip)`` of them, bounded by `Limits.windows_max`.
    """
    if count <= 0 or (skip is not None and skip <= 0):
        raise ArgumentOutOfRangeException()
    return BufferWithCount(count, count if skip is None else skip)
