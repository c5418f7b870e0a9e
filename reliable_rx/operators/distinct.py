"""Operators that pass an element only if it is new: ever, or compared with the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.distinct_bounded import DistinctBounded
from reliable_rx.operators.evict import Evict, check_eviction
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
K = TypeVar("K")


@frozen
class Distinct(Linear, name="distinct"):
    keeps_inner = raises = True
    grows: ClassVar = {"seen": "distinct_keys_max", "compared": "distinct_keys_max"}
    compares: ClassVar = {"seen": "keys", "compared": "items"}
    key_mapper: Callable[[Any], Any] | None = None
    comparer: Callable[[Any, Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        seen: dict[Any, None] = field(default_factory=dict)
        compared: list[Any] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        return {"comparer": self.comparer is not None}

    def adopt(self, state: State, before: Before) -> bool:
        if self.comparer is not None:
            state.compared, state.seen = [*state.seen], {}
            return True
        if before.settings.get("forgets"):
            state.seen = dict.fromkeys(state.seen)
            return True
        try:
            state.seen, state.compared = dict.fromkeys(state.compared), []
        except Exception:  # a comparer takes what has no hash
            return False
        return True

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        key = value if self.key_mapper is None else self.key_mapper(value)
        if self.comparer is None:
            if is_new(state, key):
                out.append(value)
        elif not holds(state.compared, key, self.comparer):
            state.compared.append(key)
            out.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        if self.comparer is not None:
            super().on_batch(state, values, out)
            return
        key_mapper, seen = self.key_mapper, state.seen
        for value in values:
            key = value if key_mapper is None else key_mapper(value)
            try:
                if key in seen:
                    continue
            except Exception:  # it cannot be hashed
                pass
            if is_new(state, key):
                out.append(value)


def is_new(state: Distinct.State, key: Any) -> bool:
    """Remember *key* unless something equal is known.

    Keys that cannot be hashed, or compared with themselves, are compared one by one, as RxPY does with every key. What
    is not equal to itself is never known.
    """
    try:
        if key in state.seen:
            return False
        equals_itself = bool(key == key)
    except Exception:  # its own code raises what it likes
        known = holds(state.seen, key, eq) or holds(state.compared, key, eq)
        if not known:
            state.compared.append(key)
        return not known
    if state.compared and holds(state.compared, key, eq):
        return False
    if equals_itself:  # nan is found by identity, which a checkpoint does not keep
        state.seen[key] = None
    return True


def holds(keys: Iterable[Any], key: Any, same: Callable[[Any, Any], Any]) -> bool:
    for each in keys:  # noqa: SIM110 (in a generator the StopIteration of a user function would be another error)
        if same(each, key):
            return True
    return False


@overload
def distinct(key_mapper: None = None, comparer: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct(key_mapper: None, comparer: Callable[[A, A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct(key_mapper: None = None, *, comparer: Callable[[A, A], Any]) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct(
    key_mapper: Callable[[A], K], comparer: Callable[[K, K], Any] | None = None
) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct(
    key_mapper: Callable[[A], Any] | None = None,
    *,
    ttl_s: float | None = None,
    keys_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[A]], Query[A]]: ...
def distinct(
    key_mapper: Callable[[Any], Any] | None = None,
    comparer: Callable[[Any, Any], Any] | None = None,
    *,
    ttl_s: float | None = None,
    keys_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[Any]], Query[Any]]:
    """Pass an element only if its key was never seen before.

    >>> from reliable_rx.testing import diagram
    >>> diagram(distinct(), "-1-2-1-3-|")
    -1-2-1-3-|
    -1-2---3-|

    Beyond RxPY, keys can be forgotten: with *ttl_s*, when so many seconds of the query's clock have passed since the
    element that passed; with *keys_max*, *evict* says what happens when one more key comes: ``fail``, or forget the
    ``oldest`` key, or the ``least_recent`` one, which has waited longest for an element. Keys must be hashable then.

    >>> diagram(distinct(keys_max=1, evict="oldest"), "-1-1-2-1-|")
    -1-1-2-1-|
    -1---2-1-|

    *State*: all keys seen, by hash (by comparison when they are unhashable or a *comparer* is given); bounded by
    `Limits.distinct_keys_max`. RxPY compares each key with all keys before it.

    *Raises* `ValueError` for an *evict* without maximum, for bounds that are not positive, and for bounds with a
    *comparer*.
    """
    if ttl_s is None and keys_max is None and evict == "fail":
        return Distinct(key_mapper, comparer)
    check_eviction("keys_max", keys_max, evict, ttl_s)
    if comparer is not None:
        raise ValueError("distinct with ttl_s or keys_max finds keys by hash: leave the comparer out")
    return DistinctBounded(key_mapper, float("inf") if ttl_s is None else ttl_s, keys_max, evict)


@frozen
class DistinctUntilChanged(Linear, name="distinct_until_changed"):
    keeps_inner = raises = True
    compares: ClassVar = {"key": "value"}
    key_mapper: Callable[[Any], Any] | None = None
    comparer: Callable[[Any, Any], Any] | None = None

    @dataclass(slots=True)
    class State:
        key: Any = NotSet

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        key = value if self.key_mapper is None else self.key_mapper(value)
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
                key = value if key_mapper is None else key_mapper(value)
                if before is NotSet or not before == key:  # noqa: SIM201 (types may define == only)
                    before = key
                    out.append(value)
        finally:
            state.key = before


@overload
def distinct_until_changed(key_mapper: None = None, comparer: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct_until_changed(
    key_mapper: None, comparer: Callable[[A, A], Any]
) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct_until_changed(
    key_mapper: None = None, *, comparer: Callable[[A, A], Any]
) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def distinct_until_changed(
    key_mapper: Callable[[A], K], comparer: Callable[[K, K], Any] | None = None
) -> Callable[[Observable[A]], Query[A]]: ...
def distinct_until_changed(
    key_mapper: Callable[[Any], Any] | None = None, comparer: Callable[[Any, Any], Any] | None = None
) -> Callable[[Observable[Any]], Query[Any]]:
    """Pass an element only if its key differs from the one before it.

    >>> from reliable_rx.testing import diagram
    >>> diagram(distinct_until_changed(), "-1-1-2-1-|")
    -1-1-2-1-|
    -1---2-1-|

    *State*: the last key.
    """
    return DistinctUntilChanged(key_mapper, comparer)
