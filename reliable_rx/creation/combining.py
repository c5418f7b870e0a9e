"""The operators of several sequences as functions of all of them."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from reactivex import Observable

from reliable_rx.creation.values import empty
from reliable_rx.operators.combine import CombineLatest, Concat, Merge, WithLatestFrom, Zip, combination
from reliable_rx.operators.recover import CatchNext
from reliable_rx.query import Query

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def merge(*sources: Observable[A]) -> Query[A]:
    """Emit what any of *sources* emits."""
    return combination(Merge(len(sources)), sources) if sources else empty()


def concat(*sources: Observable[A]) -> Query[A]:
    """Emit *sources* one after the other."""
    return combination(Concat(len(sources)), sources)


@overload
def combine_latest(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def combine_latest(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def combine_latest(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def combine_latest(*sources: Observable[Any]) -> Query[Any]:
    """Emit a tuple of the latest elements whenever one of *sources* emits."""
    if not sources:
        raise ValueError("combine_latest() requires at least one source.")
    return combination(CombineLatest(len(sources)), sources)


@overload
def zip(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def zip(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def zip(*args: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def zip(*args: Observable[Any]) -> Query[Any]:
    """Emit tuples of the n-th elements of all the sequences."""
    return combination(Zip(len(args)), args)


@overload
def with_latest_from(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def with_latest_from(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def with_latest_from(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def with_latest_from(*sources: Observable[Any]) -> Query[Any]:
    """Emit each element of the first sequence with the latest of the others."""
    return combination(WithLatestFrom(len(sources)), sources)


def catch(*sources: Observable[A]) -> Query[A]:
    """Emit *sources* one after the other until one completes."""
    return combination(CatchNext(len(sources)), sources)
