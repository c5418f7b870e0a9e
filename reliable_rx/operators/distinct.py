"""Operators that pass an element only if it is new: ever, or compared with the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operator import Linear
from reliable_rx.operators.project import identity

A = TypeVar("A")
K = TypeVar("K")


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


def distinct(
    key_mapper: Callable[[A], K] | None = None, comparer: Callable[[K, K], Any] | None = None
) -> Callable[[Observable[A]], Observable[A]]:
    """Pass an element only if its key was never seen before.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2, 1).distinct().to_list().run()
    [1, 2]

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
) -> Callable[[Observable[A]], Observable[A]]:
    """Pass an element only if its key differs from the one before it.

    >>> import reliable_rx as rx
    >>> rx.of(1, 1, 2, 1).distinct_until_changed().to_list().run()
    [1, 2, 1]

    *State*: the last key.
    """
    return DistinctUntilChanged(key_mapper or identity, comparer)
