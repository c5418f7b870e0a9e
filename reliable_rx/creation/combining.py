"""The operators of several sequences as functions of all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import reactivex
from reactivex import Observable
from reactivex.typing import AnyFuture

from reliable_rx.creation.values import empty, never
from reliable_rx.operators.combine_latest import CombineLatest, WithLatestFrom, Zip, ZipLatest
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.errors import CatchNext, resuming
from reliable_rx.operators.fork import ForkJoin
from reliable_rx.operators.merge_concat import Concat, Merge
from reliable_rx.operators.until import Amb
from reliable_rx.query.query import Node, PlainOperator, Query, apply, as_query

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

plain_catch_with_iterable = reactivex.catch_with_iterable
plain_concat_with_iterable = reactivex.concat_with_iterable


def merge(*sources: Observable[A]) -> Query[A]:
    """Emit what any of *sources* emits.

    >>> import reliable_rx as rx
    >>> _ = merge(rx.of(1, 2), rx.of(3)).subscribe(print)
    1
    2
    3
    >>> from reliable_rx.testing import diagram
    >>> diagram(merge, "-1---2|", "--a-b---c|")
    -1---2|
    --a-b---c|
    -1a-b2--c|

    *State*: how many sequences are live.
    """
    return apply(Merge(len(sources)), *sources) if sources else empty()


def concat(*sources: Observable[A]) -> Query[A]:
    """Emit *sources* one after the other.

    >>> import reliable_rx as rx
    >>> concat(rx.of(1, 2), rx.of(3)).to_list().run()
    [1, 2, 3]
    >>> from reliable_rx.testing import diagram
    >>> diagram(concat, "-1-2|", "-a-b-c-d|")
    -1-2|
    -a-b-c-d|
    -1-2-c-d|

    *State*: which one is being read.
    """
    return apply(Concat(len(sources)), *sources)


def concat_with_iterable(sources: Iterable[Observable[A]]) -> Query[A]:
    """Emit the sequences in *sources* one after the other.

    >>> import reliable_rx as rx
    >>> concat_with_iterable([rx.of(1, 2), rx.of(3)]).to_list().run()
    [1, 2, 3]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: concat_with_iterable([xs, ys]), "-1-2|", "-a-b-c-d|")
    -1-2|
    -a-b-c-d|
    -1-2-c-d|

    *State*: which one is being read. Hosted, *sources* must be a list or tuple: an iterator has no position to save.
    """
    if isinstance(sources, Sequence):
        return concat(*sources)
    return lazily("concat_with_iterable", lambda: plain_concat_with_iterable(sources))


def for_in(values: Iterable[A], mapper: Callable[[A], Observable[B]]) -> Query[B]:
    """Emit one after the other the sequences that *mapper* makes of *values*.

    >>> import reliable_rx as rx
    >>> for_in([1, 2], lambda n: rx.of(n, n * 10)).to_list().run()
    [1, 10, 2, 20]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: for_in([xs, ys], lambda each: each), "-1-2|", "-a-b-c-d|")
    -1-2|
    -a-b-c-d|
    -1-2-c-d|

    Every subscription goes through *values* anew; in RxPY a second one finds them used up.

    *State*: how many values were used, and the present one, for which *mapper* is called again on recovery. Hosted,
    *values* must be a list or another sequence: an iterator has no position to save.
    """
    if isinstance(values, Sequence):
        return apply(ForIn(values, mapper))
    return lazily("for_in", lambda: plain_concat_with_iterable(as_query(each) for each in map(mapper, values)))


@frozen
class ForIn(Stage, name="for_in"):
    free = ("values",)
    falls_with_inner = True
    scheduler_default = "current_thread"
    values: Sequence[Any]
    mapper: Callable[[Any], Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        index = cx.state.index
        if index >= len(self.values):
            cx.complete()
            return
        cx.state.index += 1
        cx.open("made", self.values[index])

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.mapper(outer))

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.soon("next")


def lazily(name: str, make: Callable[[], Observable[Any]]) -> Query[Any]:
    """Read an iterable of sequences as RxPY does; a host is told why it cannot."""
    return Query(Node(PlainOperator(name, make, "an iterator cannot be repositioned after a crash: give a list")))


@overload
def combine_latest(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def combine_latest(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def combine_latest(
    first: Observable[A], second: Observable[B], third: Observable[C], fourth: Observable[D], /
) -> Query[tuple[A, B, C, D]]: ...
@overload
def combine_latest(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def combine_latest(*sources: Observable[Any]) -> Query[Any]:
    """Emit a tuple of the latest elements whenever one of *sources* emits, once all have.

    >>> import reliable_rx as rx
    >>> _ = combine_latest(rx.of(1), rx.of("a", "b")).subscribe(print)
    (1, 'a')
    (1, 'b')
    >>> from reliable_rx.testing import diagram
    >>> diagram(combine_latest, "-1---2-|", "---a-|")
    -1----------2--------|
    ---a--------|
    ---(1, 'a')-(2, 'a')-|

    *State*: the latest element of each.
    *Raises* `ValueError` without a source.
    """
    if not sources:
        raise ValueError("combine_latest() requires at least one source.")
    return apply(CombineLatest(len(sources)), *sources)


@overload
def with_latest_from(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def with_latest_from(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def with_latest_from(
    first: Observable[A], second: Observable[B], third: Observable[C], fourth: Observable[D], /
) -> Query[tuple[A, B, C, D]]: ...
@overload
def with_latest_from(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def with_latest_from(*sources: Observable[Any]) -> Query[Any]:
    """Emit each element of the first sequence with the latest of the others, once all have one.

    >>> import reliable_rx as rx
    >>> _ = with_latest_from(rx.of(1, 2), rx.of("a")).subscribe(print)
    (1, 'a')
    (2, 'a')
    >>> from reliable_rx.testing import diagram
    >>> diagram(with_latest_from, "-1---2-|", "---a-b|")
    -1---2--------|
    ---a-b-------|
    -----(2, 'a')-|

    *State*: the latest element of each other sequence.
    """
    return apply(WithLatestFrom(len(sources)), *sources)


@overload
def zip(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def zip(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def zip(
    first: Observable[A], second: Observable[B], third: Observable[C], fourth: Observable[D], /
) -> Query[tuple[A, B, C, D]]: ...
@overload
def zip(*args: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def zip(*args: Observable[Any]) -> Query[Any]:
    """Emit tuples of the n-th elements of all the sequences.

    >>> import reliable_rx as rx
    >>> zip(rx.of(1, 2), rx.of("a", "b")).to_list().run()
    [(1, 'a'), (2, 'b')]
    >>> from reliable_rx.testing import diagram
    >>> diagram(zip, "-12---|", "---a-b|")
    -12-----------------|
    ---a--------b-------|
    ---(1, 'a')-(2, 'b')|

    *State*: the elements that wait for their partners, bounded by `Limits.queue_items_max`.
    """
    return apply(Zip(len(args)), *args)


@overload
def zip_latest(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def zip_latest(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def zip_latest(
    first: Observable[A], second: Observable[B], third: Observable[C], fourth: Observable[D], /
) -> Query[tuple[A, B, C, D]]: ...
@overload
def zip_latest(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def zip_latest(*sources: Observable[Any]) -> Query[Any]:
    """Emit a tuple once all of *sources* have emitted anew; of a faster one only the latest element is kept.

    >>> import reliable_rx as rx
    >>> _ = zip_latest(rx.of(1, 2, 3), rx.of("a", "b")).subscribe(print)
    (3, 'a')
    >>> from reliable_rx.testing import diagram
    >>> diagram(zip_latest, "-12---3-|", "---a-b|")
    -12----------3------------|
    ---a--------b|
    ---(2, 'a')--((3, 'b') |)

    *State*: the element of each that waits for the others.
    *Raises* `ValueError` without a source.
    """
    if not sources:
        raise ValueError("zip_latest() requires at least one source.")
    return apply(ZipLatest(len(sources)), *sources)


@overload
def fork_join(first: Observable[A], second: Observable[B], /) -> Query[tuple[A, B]]: ...
@overload
def fork_join(first: Observable[A], second: Observable[B], third: Observable[C], /) -> Query[tuple[A, B, C]]: ...
@overload
def fork_join(
    first: Observable[A], second: Observable[B], third: Observable[C], fourth: Observable[D], /
) -> Query[tuple[A, B, C, D]]: ...
@overload
def fork_join(*sources: Observable[Any]) -> Query[tuple[Any, ...]]: ...
def fork_join(*sources: Observable[Any]) -> Query[Any]:
    """Emit one tuple of the last elements when all of *sources* have completed; nothing if one of them had none.

    >>> import reliable_rx as rx
    >>> fork_join(rx.of(1, 2), rx.of("a", "b")).run()
    (2, 'b')
    >>> from reliable_rx.testing import diagram
    >>> diagram(fork_join, "-12|", "---a-b|")
    -12|
    ---a-b|
    ------((2, 'b') |)

    *State*: the latest element of each, and how many are live.
    *Raises* `IndexError` without a source, as RxPY does.
    """
    if not sources:
        raise IndexError("fork_join() requires at least one source")
    return apply(ForkJoin(len(sources)), *sources)


def amb(*sources: Observable[A]) -> Query[A]:
    """Emit what that one of *sources* emits that is the first to say anything, be it its end.

    >>> import reliable_rx as rx
    >>> amb(never(), rx.of("first")).run()
    'first'
    >>> from reliable_rx.testing import diagram
    >>> diagram(amb, "--1-2-|", "-a-b-c-|")
    --1-2-|
    -a-b-c-|
    -a-b-c-|

    *State*: which sequence has won. They are subscribed to from the last to the first, as in RxPY.
    """
    return apply(Amb(len(sources)), *reversed(sources)) if sources else never()


def catch(*sources: Observable[A]) -> Query[A]:
    """Emit *sources* one after the other until one completes.

    >>> import reliable_rx as rx
    >>> catch(rx.throw("over"), rx.of(1)).run()
    1
    >>> from reliable_rx.testing import diagram
    >>> diagram(catch, "-1-2-#", "-a-b-c-d-|")
    -1-2-#
    -a-b-c-d-|
    -1-2-c-d-|

    *State*: which one is being read, and the last error.
    """
    return apply(CatchNext(len(sources)), *sources)


def catch_with_iterable(sources: Iterable[Observable[A]]) -> Query[A]:
    """Emit the sequences in *sources* one after the other until one completes.

    >>> import reliable_rx as rx
    >>> catch_with_iterable([rx.throw("over"), rx.of(1)]).run()
    1
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: catch_with_iterable([xs, ys]), "-1-2-#", "-a-b-c-d-|")
    -1-2-#
    -a-b-c-d-|
    -1-2-c-d-|

    *State*: which one is being read, and the last error. Hosted, *sources* must be a list or tuple: an iterator has no
    position to save.
    """
    if isinstance(sources, Sequence):
        return catch(*sources)
    return lazily("catch_with_iterable", lambda: plain_catch_with_iterable(sources))


def on_error_resume_next(
    *sources: Observable[A] | AnyFuture[A] | Callable[[Exception | None], Observable[A]],
) -> Query[A]:
    """Emit *sources* one after the other, whether they fail or not; a function among them is given the error.

    >>> import reliable_rx as rx
    >>> on_error_resume_next(rx.throw("over"), lambda error: rx.of(str(error)), rx.of(1)).to_list().run()
    ['over', 1]
    >>> from reliable_rx.testing import diagram
    >>> diagram(on_error_resume_next, "-1-2-#", "-a-b-c-d-|")
    -1-2-#
    -a-b-c-d-|
    -1-2-c-d-|

    *State*: which sequence is being read, and the error of the one before. A function is called again on recovery and
    must be pure; what it raises fails the sequence (in RxPY it comes out of the scheduler).
    """
    return resuming(sources)
